//! Applies log entries: the only writer of the state. Each entry becomes one RocksDB write of its
//! changes and its position, and then updates the indexes. It computes nothing that could differ
//! between nodes: no clock, no randomness, no transcendental function, no order of a hash map.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use index::data::IndexChange;
use index::data::TenantIndex;
use index::saved::SavedGraphs;
use index::terms::Terms;
use model::cluster::Position;
use model::cluster::VectorPlace;
use model::id::{MemoryId, TenantId};
use model::journal::Cursor;
use model::memory::{Memory, MemoryState};
use model::release::Release;
use rocksdb::WriteBatch;
use serde::{Deserialize, Serialize};

use crate::builder::Builder;
use crate::change::{Batch, Change, RowWrite};
use crate::checkpoint::{Folder, Received, Receiver};
use crate::codec;
use crate::engine::{Engine, Options};
use crate::error::{Error, Result};
use crate::reader::Reader;
use crate::table::key::{Key, Kind, prefix};
use crate::table::state::Environment;
use crate::table::state::stage;
use crate::table::view::View;

/// A committed log entry.
pub struct Entry<'a> {
    /// Its index.
    pub index: u64,
    /// Raft's id of the entry. It is part of the position; opaque here.
    pub log_id: Vec<u8>,
    /// Its content.
    pub body: EntryBody<'a>,
}

/// Content of a log entry.
pub enum EntryBody<'a> {
    /// Nothing.
    Blank,
    /// A membership. It is part of the position; opaque here.
    Membership(Vec<u8>),
    /// An encoded [`Batch`].
    Batch(&'a [u8]),
}

/// Outcome of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ApplyOutcome {
    /// Its changes are applied.
    Done,
    /// It was decided on another state. Only the position advanced.
    Stale,
}

/// Write access. There is one writer per engine; the state machine owns it.
pub struct Writer {
    /// Declared first: its thread ends before the other fields are dropped.
    builder: Builder,
    reader: Reader,
    folder: Folder,
    options: Options,
}

impl Writer {
    pub(crate) fn new(
        reader: Reader,
        folder: Folder,
        graphs: SavedGraphs,
        options: Options,
    ) -> Result<Self> {
        let builder = Builder::start(reader.current(), graphs)?;
        Ok(Self { reader, folder, options, builder })
    }

    /// Read access to the same state.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Applies one entry. Readers see it once this returns. The caller leaves out no entry.
    ///
    /// # Errors
    /// If the engine fails, the batch is damaged, or this index or a higher one is applied already.
    pub fn apply(&mut self, entry: Entry<'_>) -> Result<ApplyOutcome> {
        if let Some(fault) = self.reader.verifier().take_fault() {
            return Err(fault);
        }
        let engine = self.reader.engine();
        let mut position = engine.position.read().clone();
        if !position.log_id.is_empty() && entry.index <= position.index {
            let (have, got) = (position.index, entry.index);
            return Err(Error::Misuse(format!("entry {got} applied on top of {have}")));
        }
        (position.index, position.log_id) = (entry.index, entry.log_id);
        let (mut changes, mut outcome) = (Vec::new(), ApplyOutcome::Done);
        match entry.body {
            EntryBody::Blank => {}
            EntryBody::Membership(membership) => position.membership = membership,
            EntryBody::Batch(bytes) => {
                let batch: Batch = codec::decode(bytes)?;
                if batch.after == position.batch {
                    (position.batch, position.clock) = (batch.id, batch.stamp);
                    changes = batch.changes;
                    check_readable(&changes, self.options.release)?;
                } else {
                    outcome = ApplyOutcome::Stale;
                }
            }
        }
        if moves_vectors(&engine, &changes) {
            self.switch_vectors(&engine, &position, &changes)?;
        } else if write(&engine, &position, &changes)? {
            self.builder.wake();
        }
        self.reader.applied().count(&changes);
        for change in &changes {
            if let Change::VerifyMark(number) = change {
                let verifier = Arc::clone(self.reader.verifier());
                verifier.start(*number, position.index, &engine.state);
                if self.options.environment == Environment::Simulation {
                    self.reader.verifier().wait_idle();
                }
            }
        }
        Ok(outcome)
    }

    /// Applies changes that bring the vectors of another model into use: builds all indexes anew.
    fn switch_vectors(
        &mut self,
        engine: &Engine,
        position: &Position,
        changes: &[Change],
    ) -> Result<()> {
        engine.state.write(rows_of(position, changes).0)?;
        self.reader.replace(Engine::of(Arc::clone(&engine.state), &self.options)?);
        self.builder.wake();
        Ok(())
    }

    /// A handle that makes applied entries durable, for use beside the writer.
    pub fn flusher(&self) -> Flusher {
        Flusher(self.reader.clone())
    }

    /// Makes the present state durable, and copies it to the new folder `target` by hard links.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn checkpoint(&self, target: &Path) -> Result<Position> {
        let engine = self.reader.engine();
        let position = engine.position.read().clone();
        engine.state.checkpoint(target)?;
        fail::fail_point!("snapshot-build", |_| std::process::abort());
        Ok(position)
    }

    /// A handle that opens received states, for use beside the writer.
    pub fn receiver(&self) -> Receiver {
        Receiver::new(self.reader.clone(), self.folder.clone(), self.options.clone())
    }

    /// Drops the indexes of the memories, opens the received state in the folder `source`, and replaces
    /// the whole state by it. Memory for one state is enough for this.
    ///
    /// # Errors
    /// If the state cannot be moved, synced or opened.
    pub fn open_and_switch(&mut self, source: &Path) -> Result<()> {
        let state = Arc::clone(&self.reader.engine().state);
        self.reader.release(Engine::without_memories(state, &self.options)?);
        let received = self.receiver().open(source)?;
        self.switch(received)
    }

    /// Replaces the whole state by a received one. Running reads finish on the old state.
    ///
    /// # Errors
    /// If the file system fails. The old state then stays.
    pub fn switch(&mut self, received: Received) -> Result<()> {
        let before = self.reader.engine();
        // First: a failed sync leaves open which of the two folders is the present one.
        received.0.state.keep();
        self.folder.switch(received.0.state.path())?;
        self.reader.replace(received.0);
        self.builder.wake();
        before.state.retire();
        Ok(())
    }
}

/// Makes applied entries durable.
#[derive(Clone)]
pub struct Flusher(Reader);

impl Flusher {
    /// Makes all applied entries durable. Returns a position that is durable.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn flush(&self) -> Result<Position> {
        let engine = self.0.engine();
        // Read before the flush: entries that are applied meanwhile may not be durable.
        let position = engine.position.read().clone();
        engine.state.flush()?;
        Ok(position)
    }

    /// Makes the present state durable, and copies it to the new folder `target` by hard links. The
    /// copy may be later than anything read before.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn checkpoint(&self, target: &Path) -> Result<()> {
        self.0.engine().state.checkpoint(target)
    }

    /// Stops the engine's background threads. At the end of the process they must not access
    /// memory that is already freed. No write may follow.
    pub fn close(self) {
        self.0.engine().state.close();
    }
}

/// Writes changes and position atomically, then shows them. Returns whether the builder of graphs
/// has work.
fn write(engine: &Engine, position: &Position, changes: &[Change]) -> Result<bool> {
    let (rows, event_bytes) = rows_of(position, changes);
    let shown = index_changes(engine, position.index, changes, &event_bytes)?;
    engine.state.write(rows)?;
    let has_work = show(engine, changes, shown)?;
    // Last: a reader with this position must find all changes up to it.
    *engine.position.write() = position.clone();
    Ok(has_work)
}

/// Whether these changes bring the vectors of another place into use.
fn moves_vectors(engine: &Engine, changes: &[Change]) -> bool {
    changes.iter().any(|change| match change {
        Change::ModelsPut(models) => models.place != engine.registry.vector_place(),
        _ => false,
    })
}

/// The rows of these changes, and their position; and the bytes of each appended event.
fn rows_of(position: &Position, changes: &[Change]) -> (WriteBatch, Vec<u64>) {
    let mut rows = WriteBatch::default();
    let (mut cursor, mut event_bytes) = (Cursor::new(position.index, 0), Vec::new());
    for change in changes {
        if matches!(change, Change::AnchorPut(..)) && forgets_anchors() {
            continue;
        }
        let writes = change.rows(cursor);
        if let (Change::EventAppended(..), [RowWrite::Put(_, row)]) = (change, &writes[..]) {
            cursor.ordinal += 1;
            event_bytes.push(row.len() as u64);
        }
        writes.into_iter().for_each(|write| stage(&mut rows, write));
    }
    if !rows.is_empty() && drops_changes() {
        rows.clear();
    }
    stage(&mut rows, RowWrite::Put(Key::Position, codec::encode(position)));
    (rows, event_bytes)
}

/// Checks that this node can read what follows these changes.
fn check_readable(changes: &[Change], own: Release) -> Result<()> {
    changes.iter().try_for_each(|change| match change {
        Change::ClusterPut(cluster) => Ok(cluster.check_readable(own)?),
        _ => Ok(()),
    })
}

/// Whether a failpoint drops the changes of this entry. Always false outside tests.
fn drops_changes() -> bool {
    fail::fail_point!("apply-forget", |_| true);
    false
}

/// Whether a failpoint leaves out anchors. Always false outside tests.
fn forgets_anchors() -> bool {
    fail::fail_point!("forget-anchors", |_| true);
    false
}

/// Computes the index changes before any lock is taken and before any row is replaced.
fn index_changes<'a>(
    engine: &Engine,
    index: u64,
    changes: &'a [Change],
    event_bytes: &[u64],
) -> Result<BTreeMap<TenantId, Vec<IndexChange<'a>>>> {
    let (place, mut event_bytes) = (engine.registry.vector_place(), event_bytes.iter());
    let mut memories = Memories { engine, changed: HashMap::new() };
    // The lengths of the rows of replaced events.
    let mut replaced = HashMap::new();
    let mut shown: BTreeMap<TenantId, Vec<IndexChange<'_>>> = BTreeMap::new();
    for change in changes {
        let (tenant, change) = match change {
            Change::MemoryPut(tenant, id, memory) => (tenant, memories.put(*tenant, *id, memory)?),
            Change::MemoryStatePut(tenant, id, state) => {
                (tenant, memories.put_state(*tenant, *id, state)?)
            }
            Change::AnchorPut(tenant, id, anchor) => (tenant, IndexChange::Anchor(*id, *anchor)),
            Change::VectorPut(tenant, id, vector) if place == VectorPlace::First => {
                (tenant, IndexChange::vector(*id, vector)?)
            }
            Change::SecondVectorPut(tenant, id, vector) if place == VectorPlace::Second => {
                (tenant, IndexChange::vector(*id, vector)?)
            }
            Change::MemoryRemoved(tenant, id) => (tenant, memories.remove(*tenant, *id)?),
            Change::ReceiptPut(tenant, owner, _, receipt) => {
                (tenant, IndexChange::ReceiptPut(*owner, receipt.retention, receipt.at))
            }
            Change::ReceiptsRemoved(tenant, owner, retention, removed) => {
                let Some((last, _)) = removed.last() else { continue };
                let count = removed.len() as u64;
                (tenant, IndexChange::ReceiptsRemoved(*owner, *retention, count, *last))
            }
            Change::EventAppended(tenant, event) => {
                let part = event.kind.part();
                let bytes = *event_bytes.next().expect("each appended event has its length");
                (tenant, IndexChange::EventAppended(part, index, event.at, bytes))
            }
            Change::EventsTrimmed(tenant, part, before) => {
                // `decide` trims a part at most once per batch.
                let start = prefix(Kind::of_events(*part), *tenant);
                let end = Key::event(*tenant, *part, *before).bytes();
                let (mut events, mut bytes) = (0, 0);
                for row in engine.state.range(&start, &end) {
                    let (key, row) = row?;
                    let length = replaced.get(&key[..]).copied().unwrap_or(row.len() as u64);
                    (events, bytes) = (events + 1, bytes + length);
                }
                (tenant, IndexChange::EventsTrimmed(*part, events, bytes))
            }
            Change::EventReplaced(tenant, cursor, event) => {
                let (part, after) = (event.kind.part(), codec::encode(event).len() as u64);
                let key = Key::event(*tenant, part, *cursor);
                let before = engine.state.bytes(&key)?.map_or(0, |row| row.len() as u64);
                let before = replaced.insert(key.bytes(), after).unwrap_or(before);
                (tenant, IndexChange::EventsTrimmed(part, 0, before.saturating_sub(after)))
            }
            Change::EdgePut(tenant, _) => (tenant, IndexChange::EdgeAppended),
            Change::EdgeRemoved(tenant, ..) => (tenant, IndexChange::EdgeRemoved),
            // `show` updates tenants, keys, rules and triggers. The rest is in no index.
            _ => continue,
        };
        shown.entry(*tenant).or_default().push(change);
    }
    Ok(shown)
}

/// Memories after the changes so far: one batch may create, change and delete the same memory.
struct Memories<'a, 'e> {
    engine: &'e Engine,
    changed: HashMap<(TenantId, MemoryId), Option<Cow<'a, Memory>>>,
}

impl<'a> Memories<'a, '_> {
    fn put(
        &mut self,
        tenant: TenantId,
        id: MemoryId,
        memory: &'a Memory,
    ) -> Result<IndexChange<'a>> {
        let memory = Cow::Borrowed(memory);
        let (before, terms) = match self.replace(tenant, id, None)? {
            None => (Terms::default(), Terms::of(&memory)),
            Some(before) => changed_terms(&before, &memory),
        };
        self.changed.insert((tenant, id), Some(memory.clone()));
        Ok(IndexChange::Memory { id, memory, before, terms })
    }

    /// Puts the state of a memory, which exists.
    fn put_state(
        &mut self,
        tenant: TenantId,
        id: MemoryId,
        state: &MemoryState,
    ) -> Result<IndexChange<'a>> {
        let before = self.replace(tenant, id, None)?;
        let before = before.ok_or_else(|| Error::missing("memory", tenant, id))?;
        let memory = Cow::Owned(before.clone().into_owned().with(state));
        let (before, terms) = changed_terms(&before, &memory);
        self.changed.insert((tenant, id), Some(memory.clone()));
        Ok(IndexChange::Memory { id, memory, before, terms })
    }

    fn remove(&mut self, tenant: TenantId, id: MemoryId) -> Result<IndexChange<'a>> {
        let before = self.replace(tenant, id, None)?;
        let before = before.ok_or_else(|| Error::missing("memory", tenant, id))?;
        Ok(IndexChange::Removed { id, before: Terms::of(&before) })
    }

    /// Replaces a memory, and returns the one before.
    fn replace(
        &mut self,
        tenant: TenantId,
        id: MemoryId,
        memory: Option<Cow<'a, Memory>>,
    ) -> Result<Option<Cow<'a, Memory>>> {
        match self.changed.insert((tenant, id), memory) {
            Some(before) => Ok(before),
            None => Ok(self.stored(tenant, id)?.map(Cow::Owned)),
        }
    }

    /// The memory before this entry. A new one is not looked up: the index has all memories.
    fn stored(&self, tenant: TenantId, id: MemoryId) -> Result<Option<Memory>> {
        let is_new = |index: Arc<TenantIndex>| !index.read().has(id);
        if self.engine.registry.tenant(tenant).is_none_or(is_new) {
            return Ok(None);
        }
        self.engine.state.memory(tenant, id)
    }
}

/// The terms that a change of a memory removes from the index, and those that it adds.
fn changed_terms(before: &Memory, after: &Memory) -> (Terms, Terms) {
    match () {
        () if !before.texts().eq(after.texts()) => (Terms::of(before), Terms::of(after)),
        () if before.details != after.details => {
            (Terms::of_details(before), Terms::of_details(after))
        }
        () => Default::default(),
    }
}

/// Makes changes visible to readers: all changes of one tenant under one lock, and tenants and
/// keys before the rows that refer to them. Returns whether the builder of graphs has work.
fn show(
    engine: &Engine,
    changes: &[Change],
    shown: BTreeMap<TenantId, Vec<IndexChange<'_>>>,
) -> Result<bool> {
    for change in changes {
        match change {
            Change::ClusterPut(cluster) => engine.registry.put_cluster(cluster.clone()),
            Change::TenantPut(id, tenant) => {
                engine.registry.put_tenant(*id, tenant.clone());
                engine.registry.schedule_tick(&engine.state, *id)?;
            }
            Change::TickPut(id, _) => engine.registry.schedule_tick(&engine.state, *id)?,
            Change::ModelsPut(models) => engine.registry.put_models(models.clone()),
            Change::OutboxPut(id, outbox) => engine.registry.put_outbox(*id, *outbox),
            Change::TenancyPut(tenancy) => engine.registry.put_tenancy(tenancy.clone()),
            Change::ApiKeyPut(tenant, id, key) => {
                engine.registry.put_key(*tenant, *id, key.clone());
            }
            Change::ApiKeyRemoved(_, id) => engine.registry.remove_key(*id),
            Change::AuditAppended(tenant, chain, _, ends)
            | Change::AuditTrimmed(tenant, chain, ends) => {
                engine.registry.put_audit_ends(*tenant, *chain, ends);
            }
            Change::RulesPut(tenant, rules) => engine.registry.put_rules(*tenant, rules.clone()),
            Change::TriggerPut(tenant, id, trigger) => {
                engine.registry.change_triggers(*tenant, |all| all.put(*id, trigger.clone()));
                if let Some(index) = engine.registry.tenant(*tenant) {
                    index.mark_changed();
                    engine.registry.schedule_tick(&engine.state, *tenant)?;
                }
            }
            Change::TriggerRemoved(tenant, id) => engine.registry.remove_trigger(*tenant, *id),
            Change::FiringsPut(tenant, id, firings) => {
                engine.registry.put_firings(*tenant, *id, *firings);
            }
            _ => {}
        }
    }
    // The thread that builds graphs also drops what belonged to a tenant.
    let mut has_work = false;
    for change in changes {
        if let Change::TenantRemoved(tenant) = change {
            engine.registry.remove_tenant(*tenant);
            has_work = true;
        }
    }
    for (tenant, changes) in shown {
        if let Some(index) = engine.registry.tenant(tenant) {
            index.apply(changes);
            engine.registry.schedule_change(&engine.state, tenant, engine.clock())?;
            has_work |= engine.registry.mark_if_stale(tenant, &index);
        }
    }
    Ok(has_work)
}
