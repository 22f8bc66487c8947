//! One opened state with its indexes, and the handles to it: the `Reader` that
//! everybody may hold, and what `Writer` shares with it. Rules are not here.

use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use rocksdb::Env;

use crate::change::all_of;
use crate::codec;
use crate::error::Result;
use crate::index::registry::Registry;
use crate::index::tenant::TenantIndex;
use crate::model::cluster::Position;
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::journal::{Cursor, Event};
use crate::model::memory::MemoryRecord;
use crate::model::tenant::Caller;
use crate::model::thermo::Thermo;
use crate::table::key::{Key, Kind, fixed, split};
use crate::table::state::State;
use crate::table::view::View;
use crate::verify::Verifier;

/// An opened state and everything derived from it.
pub(crate) struct Engine {
    pub(crate) state: Arc<State>,
    pub(crate) registry: Registry,
    pub(crate) position: RwLock<Position>,
}

impl Engine {
    pub(crate) fn open(path: &Path, env: Option<&Env>) -> Result<Self> {
        let state = State::open(path, env)?;
        let position = state.record::<Position>(&Key::Position)?.unwrap_or_default();
        let registry = Registry::rebuild(&state)?;
        Ok(Self { state: Arc::new(state), registry, position: RwLock::new(position) })
    }
}

/// How many things a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Memories, both tiers.
    pub memories: u64,
    /// Receipts of today and yesterday.
    pub receipts: u64,
    /// Journal events.
    pub events: u64,
}

/// Read access to the newest applied state. Cheap to clone; never blocks a
/// writer for longer than one chunk of rows.
#[derive(Clone)]
pub struct Reader {
    current: Arc<RwLock<Arc<Engine>>>,
    verifier: Arc<Verifier>,
}

impl Reader {
    pub(crate) fn new(engine: Engine, verifier: Arc<Verifier>) -> Self {
        Self { current: Arc::new(RwLock::new(Arc::new(engine))), verifier }
    }

    /// The present engine. Whoever holds it finishes on it, also when a snapshot
    /// is installed meanwhile.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.current.read())
    }

    pub(crate) fn replace(&self, engine: Engine) {
        *self.current.write() = Arc::new(engine);
    }

    /// Results of verify marks on this node.
    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    pub(crate) fn verifier_handle(&self) -> Arc<Verifier> {
        Arc::clone(&self.verifier)
    }

    /// How far the state has come.
    pub fn position(&self) -> Position {
        self.engine().position.read().clone()
    }

    /// Who presents `key`, compared in constant time.
    pub fn authenticate(&self, key: &str) -> Option<Caller> {
        self.engine().registry.authenticate(key)
    }

    /// All tenants in order of their number.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.engine().registry.all().into_iter().map(|(tenant, _)| tenant).collect()
    }

    /// How many things a tenant has.
    pub fn counts(&self, tenant: TenantId) -> Counts {
        let Some(index) = self.index(tenant) else { return Counts::default() };
        let inner = index.read();
        Counts { memories: inner.live() as u64, receipts: inner.receipts(), events: inner.events() }
    }

    /// A memory with its heat as of the cluster clock.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn get(&self, tenant: TenantId, id: MemoryId) -> Result<Option<MemoryRecord>> {
        let engine = self.engine();
        let now = engine.position.read().clock;
        engine.state.at_once().memory_record(tenant, id, &thermo(&engine, tenant), now)
    }

    /// The day of the oldest receipt of a tenant.
    pub(crate) fn oldest_receipt_day(&self, tenant: TenantId) -> Option<u32> {
        self.index(tenant)?.read().oldest_receipt_day()
    }

    /// The first event of a tenant that stays when those before `oldest_kept`, and
    /// the first `too_many`, go; `None` when none goes. Looks at `limit` at most.
    pub(crate) fn first_kept_event(
        &self,
        tenant: TenantId,
        oldest_kept: Timestamp,
        too_many: u64,
        limit: u64,
    ) -> Result<Option<Cursor>> {
        let (start, end) = all_of(Kind::Event, tenant);
        let engine = self.engine();
        for (at, row) in (0_u64..).zip(engine.state.range(&start, &end)) {
            let (cursor, event) = event_row(&row?)?;
            if at == limit || event.at >= oldest_kept && at >= too_many {
                return Ok((at > 0).then_some(cursor));
            }
        }
        Ok(None)
    }

    fn index(&self, tenant: TenantId) -> Option<Arc<TenantIndex>> {
        self.engine().registry.tenant(tenant)
    }
}

impl View for Reader {
    fn bytes(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        self.engine().state.bytes(key)
    }
}

/// The configuration in force for a tenant.
pub(crate) fn thermo(engine: &Engine, tenant: TenantId) -> Thermo {
    let index = engine.registry.tenant(tenant);
    index.map(|index| index.read().tenant().thermo.clone()).unwrap_or_default()
}

fn event_row((key, value): &crate::table::state::Row) -> Result<(Cursor, Event)> {
    let (_, rest) = split(key)?;
    let bytes: [u8; 12] = fixed(rest)?;
    let cursor = Cursor {
        index: u64::from_be_bytes(fixed(&bytes[..8])?),
        ordinal: u32::from_be_bytes(fixed(&bytes[8..])?),
    };
    Ok((cursor, codec::decode(value)?))
}
