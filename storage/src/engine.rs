//! The engine: one opened state and the in-memory data derived from it. [`crate::Reader`] and
//! [`crate::Writer`] share it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use model::cluster::Position;
use model::id::{TenantId, Timestamp};
use model::release::Release;
use model::thermo::Thermo;
use parking_lot::RwLock;

use crate::error::Result;
use crate::registry::Registry;
use crate::table::key::Key;
use crate::table::state::{Environment, State};
use crate::table::view::View;

/// Options for opening an engine.
#[derive(Clone)]
pub struct Options {
    /// Maximum number of matching memories that a search scans exactly. With more matches it
    /// uses a graph. Tenants with more memories get a graph.
    pub exact_max: usize,
    /// Memories that were indexed since the start. Opening a state indexes all.
    pub indexed: Arc<AtomicU64>,
    /// Where it runs.
    pub environment: Environment,
    /// The release of this node.
    pub release: Release,
}

impl Default for Options {
    fn default() -> Self {
        // A scan of this many rows takes a few milliseconds.
        let (indexed, environment) = Default::default();
        Self { exact_max: 50_000, indexed, environment, release: Release::own() }
    }
}

pub(crate) struct Engine {
    pub(crate) state: Arc<State>,
    pub(crate) registry: Registry,
    pub(crate) position: RwLock<Position>,
}

impl Engine {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self> {
        Self::of(Arc::new(State::open(path, options.environment)?), options)
    }

    /// The engine of an opened state.
    pub(crate) fn of(state: Arc<State>, options: &Options) -> Result<Self> {
        if let Some(cluster) = state.cluster()? {
            cluster.check_readable(options.release)?;
        }
        let engine = Self::without_memories(state, options)?;
        engine.registry.index_memories(&engine.state, &options.indexed)?;
        Ok(engine)
    }

    /// The engine of an opened state, with everything in memory but the indexes of the memories.
    pub(crate) fn without_memories(state: Arc<State>, options: &Options) -> Result<Self> {
        let position = state.record::<Position>(&Key::Position)?.unwrap_or_default();
        let registry = Registry::without_memories(&state, options.exact_max)?;
        Ok(Self { state, registry, position: RwLock::new(position) })
    }

    /// The cluster clock: the time of the last applied batch.
    pub(crate) fn clock(&self) -> Timestamp {
        self.position.read().clock
    }

    /// The configuration of a tenant. The default configuration for unknown tenants.
    pub(crate) fn thermo(&self, tenant: TenantId) -> Thermo {
        let index = self.registry.tenant(tenant);
        index.map(|index| (*index.read().tenant.thermo).clone()).unwrap_or_default()
    }
}
