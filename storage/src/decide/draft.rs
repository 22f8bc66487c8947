//! The draft of a batch: the changes decided so far, and the state as they leave it. An overlay
//! of rows over the applied state, filled by the same translation that `apply` uses, so that a
//! later command reads what an earlier one did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use index::changed;
use index::triggers::Triggers;
use model::access::Access;
use model::cluster::{BatchId, Position};
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::journal::{Cursor, Event, EventKind};
use model::memory::MemoryRecord;
use model::tenant::{Limit, Tenancy, Tenant};
use model::thermo::Thermo;
use model::tick::Tick;
use model::trigger::{Firings, Notification, TriggerEvent};
use model::trigger_match::HeatTransition;

use crate::change::{Change, RowWrite};
use crate::codec;
use crate::decide::counted::{Added, CountOf, Counted, counted_by};
use crate::decide::last_puts::LAST_PUT_KINDS;
use crate::error::Result;
use crate::etag::Precondition;
use crate::reader::Reader;
use crate::table::key::{Key, Kind};
use crate::table::view::View;

/// Decided bytes after which a batch takes no further command, and a command on several memories
/// leaves the rest to the next. It bounds how long a batch delays the next one. 256 commands of
/// usual size fit.
pub const BATCH_BYTES: usize = 256 << 10;
/// Most bytes that one command may decide to.
pub const COMMAND_BYTES_MAX: usize = 2 << 20;

/// Triggers, some 50 ns each, that one command evaluates before it leaves the rest to the next.
const EVALUATIONS_SOFT_MAX: usize = 200_000;
/// Most triggers that one command evaluates.
pub(super) const EVALUATIONS_MAX: usize = 1_000_000;
/// Bytes of a label whose search for a pattern costs as much as an evaluation, in the worst case.
const BYTES_PER_EVALUATION: usize = 32;

/// Upper bound of the bytes of one firing: a new label, a delivery with it, a message.
const FIRING_BYTES_MAX: usize = 128 << 10;
/// Most firings of the triggers of one owner on one event.
const OWNER_FIRINGS_PER_EVENT_MAX: usize = 32;
/// Bytes of changes after which the triggers of one owner fire no more in a command. Commands on
/// several memories leave the rest to the next one before.
const OWNER_FIRED_BYTES_MAX: usize = 2 * BATCH_BYTES;

/// A drafted row: its bytes, or `None` when it is deleted.
type RowState = Option<Vec<u8>>;

/// Decided changes that are not in the log yet.
pub struct Draft {
    pub(super) base: Reader,
    pub(super) position: Position,
    pub(super) now: Timestamp,
    pub(super) changes: Vec<Change>,
    /// Rows as the changes leave them.
    pub(super) rows: BTreeMap<Vec<u8>, RowState>,
    /// What each write to `rows` replaced and each count added, so that a rejected command can be
    /// undone.
    undo: Vec<Undo>,
    bytes: usize,
    /// What the changes add to the counts of tenants.
    added: Added,
    /// Whether to log this draft even without a change, so that the cluster clock advances.
    pub(super) stamp_requested: bool,
    /// Triggers of the tenants whose triggers a command changed.
    triggers: BTreeMap<TenantId, Arc<Triggers>>,
    /// Cached row, settings and tick of the tenant read last: they are read for each memory.
    tenant: Cache<Tenant>,
    thermo: Cache<Thermo>,
    tenancy: RefCell<Option<Arc<Tenancy>>>,
    last_tick: Cache<Tick>,
    pub(super) command: CommandState,
}

/// A write to the draft.
enum Undo {
    /// The row before.
    Row(Vec<u8>, Option<RowState>),
    /// What was added to a count.
    Added(CountOf, i64),
}

/// The state of the command that is being decided.
#[derive(Default)]
pub(super) struct CommandState {
    /// Where the command began.
    pub(super) mark: Mark,
    /// The address from which it came.
    pub(super) source: Option<IpAddr>,
    /// The state of its resource that it requires.
    pub(super) condition: Option<Precondition>,
    /// The version of the guard that examined its texts.
    pub(super) guard: Option<u64>,
    /// Whether a trigger has fired.
    pub(super) has_fired: bool,
    /// What its actor may access, once that was read.
    pub(super) access: Option<Access>,
    /// What owners of triggers may access, once that was read.
    pub(super) owners: BTreeMap<KeyId, Access>,
    /// Work on triggers, in evaluations. See [`BYTES_PER_EVALUATION`].
    pub(super) evaluations: usize,
    /// Limits of the bytes of changes by firings, and of the evaluations, of reports, which divide
    /// them.
    pub(super) fired_bytes_max: Option<usize>,
    pub(super) evaluations_max: Option<usize>,
    /// Firings per owner of triggers.
    pub(super) fired: BTreeMap<Option<KeyId>, Fired>,
    /// Emitted events that triggers were not evaluated for yet.
    pub(super) events: Vec<MemoryEvent>,
    pub(super) notifications: Vec<Notification>,
    /// Firings and evaluations per tenant that exceeded the command's limits.
    pub(super) skipped: BTreeMap<TenantId, u64>,
    /// The tick that the command takes a step of; the state holds it as it was before.
    pub(super) tick: Option<Arc<Tick>>,
}

/// Firings of the triggers of one owner.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fired {
    /// Firings on the present event.
    pub(super) of_event: usize,
    /// Bytes of their changes in the command.
    bytes: usize,
}

/// Something that happened to a memory, for which triggers may wait.
pub(super) struct MemoryEvent {
    pub(super) tenant: TenantId,
    pub(super) event: TriggerEvent,
    pub(super) id: MemoryId,
    pub(super) times: u32,
    /// The other end of a new edge.
    pub(super) other: Option<MemoryId>,
    /// How the heat moved, for events of ticks.
    pub(super) transition: Option<HeatTransition>,
    /// Only triggers of these owners wait for it.
    pub(super) owners: Owners,
}

/// The owners whose triggers wait for an event.
#[derive(Clone, Copy)]
pub(super) enum Owners {
    /// All of them.
    All,
    /// One of them; `None` owns the triggers that no key created.
    One(Option<KeyId>),
}

impl Owners {
    pub(super) fn include(self, owner: Option<KeyId>) -> bool {
        match self {
            Self::All => true,
            Self::One(one) => one == owner,
        }
    }
}

impl MemoryEvent {
    /// One event of a memory, for the triggers of all owners.
    pub(super) fn new(tenant: TenantId, event: TriggerEvent, id: MemoryId) -> Self {
        let (other, transition) = (None, None);
        Self { tenant, event, id, times: 1, other, transition, owners: Owners::All }
    }
}

/// A point of a draft that it can be rewound to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mark {
    changes: usize,
    undo: usize,
    bytes: usize,
}

impl Draft {
    /// An empty draft on top of the present state, to be stamped `now`.
    pub fn new(base: &Reader, now: Timestamp) -> Self {
        Self {
            position: base.position(),
            base: base.clone(),
            now,
            changes: Vec::new(),
            rows: BTreeMap::new(),
            undo: Vec::new(),
            bytes: 0,
            added: Added::default(),
            stamp_requested: false,
            triggers: BTreeMap::new(),
            tenant: RefCell::default(),
            thermo: RefCell::default(),
            tenancy: RefCell::default(),
            last_tick: RefCell::default(),
            command: CommandState::default(),
        }
    }

    /// Whether there is nothing to log: no change, and no requested stamp.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.stamp_requested
    }

    /// Bytes of the largest command that still fits; any command fits into an empty batch.
    pub fn room(&self) -> usize {
        if self.bytes == 0 { usize::MAX } else { BATCH_BYTES.saturating_sub(self.bytes) }
    }

    /// The batch that this draft's commands are decided on.
    pub fn after(&self) -> BatchId {
        self.position.batch
    }

    /// The changes of the commands so far.
    pub(super) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes of the present command.
    pub(super) fn changes_of_command(&self) -> &[Change] {
        &self.changes[self.command.mark.changes..]
    }

    pub(super) fn count(&self, matches: impl Fn(&Change) -> bool) -> u64 {
        self.changes.iter().filter(|change| matches(change)).count() as u64
    }

    /// Whether a change of this draft removed a row.
    pub(super) fn has_removed(&self, key: &Key) -> bool {
        matches!(self.rows.get(&key.bytes()), Some(None))
    }

    pub(crate) fn push(&mut self, change: Change) {
        // An event's cursor is known when its entry is applied. No rule reads events, so the
        // placeholder is never read. Ranges that are dropped are not read in the same draft: those
        // of expired events, and those of a tenant without a row.
        for write in change.rows(Cursor::default()) {
            match write {
                RowWrite::Put(key, value) => self.set_row(key.bytes(), Some(value)),
                RowWrite::Delete(key) => self.set_row(key.bytes(), None),
                RowWrite::DeleteRange(start, end) => self.bytes += start.len() + end.len(),
            }
        }
        self.update_triggers(&change);
        if let Some((count, number)) = counted_by(&change) {
            self.add(count, number);
        }
        self.changes.push(change);
    }

    /// Adds to a count of a tenant.
    pub(super) fn add(&mut self, count: CountOf, number: i64) {
        self.added.add(count, number);
        self.undo.push(Undo::Added(count, number));
    }

    /// Numbers of receipts that the changes add: of a key, and of its tenant.
    pub(super) fn added_receipts(&self, tenant: TenantId, owner: KeyId) -> (i64, i64) {
        (self.added.to((tenant, Counted::Receipts(owner))), self.added.receipts(tenant))
    }

    fn update_triggers(&mut self, change: &Change) {
        let (tenant, id, trigger) = match change {
            Change::TriggerPut(tenant, id, trigger) => (*tenant, *id, Some(trigger)),
            Change::TriggerRemoved(tenant, id) => (*tenant, *id, None),
            _ => return,
        };
        let mut triggers = self.triggers(tenant);
        let all = Arc::make_mut(&mut triggers);
        match trigger {
            Some(trigger) => all.put(id, trigger.clone()),
            None => all.remove(id),
        }
        self.triggers.insert(tenant, triggers);
    }

    fn set_row(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        if [Kind::Tenant, Kind::Tick, Kind::Tenancy].iter().any(|kind| key[0] == *kind as u8) {
            self.invalidate_caches();
        }
        // A change in the log is no longer than the rows that it writes.
        self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let is_put = value.is_some();
        let before = self.rows.insert(key.clone(), value);
        if let Some(Some(replaced)) = &before
            && is_put
            && LAST_PUT_KINDS.iter().any(|kind| key[0] == *kind as u8)
        {
            self.bytes -= key.len() + replaced.len();
        }
        self.undo.push(Undo::Row(key, before));
    }

    pub(super) fn begin(
        &mut self,
        source: Option<IpAddr>,
        condition: Option<Precondition>,
        guard: Option<u64>,
    ) -> Mark {
        let mark = self.mark();
        self.command = CommandState { mark, source, condition, guard, ..CommandState::default() };
        mark
    }

    /// Appends an event to the journal of a tenant. `subject` is a memory with its namespace.
    pub(super) fn append(
        &mut self,
        tenant: TenantId,
        actor: Option<KeyId>,
        subject: Option<(MemoryId, &str)>,
        kind: EventKind,
    ) {
        let (subject, namespace) = subject.unzip();
        let namespace = namespace.unwrap_or_default().to_owned();
        let event = Event { at: self.now, actor, subject, namespace, kind };
        self.push(Change::EventAppended(tenant, event));
    }

    /// Emits an event of a memory, for which triggers may wait.
    pub(super) fn emit(&mut self, event: MemoryEvent) {
        self.command.events.push(event);
    }

    /// Whether the present command has room for a firing of a trigger of `owner`.
    pub(super) fn has_room(&self, owner: Option<KeyId>) -> bool {
        let CommandState { mark, fired_bytes_max, fired, .. } = &self.command;
        let of_owner = fired.get(&owner).copied().unwrap_or_default();
        self.bytes_since(*mark) + FIRING_BYTES_MAX <= COMMAND_BYTES_MAX
            && fired_bytes_max.is_none_or(|max| self.fired_bytes() < max)
            && of_owner.of_event < OWNER_FIRINGS_PER_EVENT_MAX
            && of_owner.bytes <= OWNER_FIRED_BYTES_MAX
    }

    /// Bytes of changes by the firings of the present command.
    pub(super) fn fired_bytes(&self) -> usize {
        self.command.fired.values().map(|fired| fired.bytes).sum()
    }

    /// Counts a firing of a trigger of `owner`, whose changes begin at `mark`.
    pub(super) fn count_firing(&mut self, owner: Option<KeyId>, mark: Mark) {
        let bytes = self.bytes_since(mark);
        let fired = self.command.fired.entry(owner).or_default();
        (fired.of_event, fired.bytes) = (fired.of_event + 1, fired.bytes + bytes);
    }

    /// Whether the present command may evaluate no further trigger.
    pub(super) fn evaluates_no_more(&self) -> bool {
        self.command.evaluations > self.command.evaluations_max.unwrap_or(EVALUATIONS_MAX)
    }

    /// Counts the evaluation of a trigger, which searched so many bytes of a label.
    pub(super) fn count_evaluation(&mut self, searched_bytes: usize) {
        self.command.evaluations += 1 + searched_bytes / BYTES_PER_EVALUATION;
    }

    /// Whether a command on several memories should leave the rest to another command.
    pub(crate) fn is_past_soft_limit(&self, mark: Mark) -> bool {
        self.bytes_since(mark) > BATCH_BYTES || self.command.evaluations > EVALUATIONS_SOFT_MAX
    }

    /// A tenant's triggers, earlier commands included.
    pub(crate) fn triggers(&self, tenant: TenantId) -> Arc<Triggers> {
        let changed = self.triggers.get(&tenant).map(Arc::clone);
        changed.unwrap_or_else(|| self.base.trigger_set(tenant))
    }

    /// The firings of a trigger, earlier commands included.
    pub(crate) fn firings(&self, tenant: TenantId, id: TriggerId) -> Result<Firings> {
        match self.rows.get(&Key::Firings(tenant, id).bytes()) {
            Some(Some(row)) => codec::decode(row),
            Some(None) => Ok(Firings::default()),
            None => Ok(self.base.firings(tenant, id)),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { changes: self.changes.len(), undo: self.undo.len(), bytes: self.bytes }
    }

    /// Bytes that were added since `mark`; none if rows of earlier commands became shorter.
    pub(crate) fn bytes_since(&self, mark: Mark) -> usize {
        self.bytes.saturating_sub(mark.bytes)
    }

    /// Whether anything changed since `mark`.
    pub(super) fn has_changed_since(&self, mark: Mark) -> bool {
        self.changes.len() > mark.changes
    }

    /// Undoes everything pushed since `mark`.
    pub(crate) fn rewind(&mut self, mark: Mark) {
        self.changes.truncate(mark.changes);
        self.bytes = mark.bytes;
        self.invalidate_caches();
        if !self.triggers.is_empty() {
            self.triggers.clear();
            for change in std::mem::take(&mut self.changes) {
                self.update_triggers(&change);
                self.changes.push(change);
            }
        }
        for undo in self.undo.drain(mark.undo..).rev() {
            match undo {
                Undo::Row(key, Some(value)) => drop(self.rows.insert(key, value)),
                Undo::Row(key, None) => drop(self.rows.remove(&key)),
                Undo::Added(count, number) => self.added.add(count, -number),
            }
        }
    }

    fn invalidate_caches(&mut self) {
        *self.tenant.get_mut() = None;
        *self.thermo.get_mut() = None;
        *self.tenancy.get_mut() = None;
        *self.last_tick.get_mut() = None;
    }

    /// The row of a tenant.
    pub(super) fn tenant_row(&self, tenant: TenantId) -> Result<Option<Arc<Tenant>>> {
        cached(&self.tenant, tenant, || self.tenant(tenant))
    }

    pub(crate) fn thermo(&self, tenant: TenantId) -> Result<Arc<Thermo>> {
        let read = || Ok(self.tenant_row(tenant)?.map(|row| (*row.thermo).clone()));
        Ok(cached(&self.thermo, tenant, read)?.unwrap_or_default())
    }

    /// The tick that new anchors refer to: that of this command if it is a step, else the state's.
    pub(super) fn present_tick(&self, tenant: TenantId) -> Result<Option<Arc<Tick>>> {
        if let Some(tick) = &self.command.tick {
            return Ok(Some(Arc::clone(tick)));
        }
        cached(&self.last_tick, tenant, || self.tick(tenant))
    }

    /// A memory as it is now, earlier commands of this draft included.
    pub(crate) fn present(&self, tenant: TenantId, id: MemoryId) -> Result<Option<MemoryRecord>> {
        let thermo = self.thermo(tenant)?;
        self.memory_record(tenant, id, &thermo, self.now)
    }

    /// Number of a tenant's memories, of their bytes, or of its edges, earlier commands included.
    pub(super) fn number(&self, tenant: TenantId, counted: Counted) -> u64 {
        let counts = self.base.counts(tenant);
        let stored = match counted {
            Counted::Memories => counts.memories,
            Counted::Bytes => counts.bytes,
            Counted::Edges => counts.edges,
            Counted::Receipts(_) => counts.receipts,
        };
        changed(stored, self.added.to((tenant, counted)))
    }

    /// A limit of a tenant; `None` is unlimited.
    pub(super) fn limit(&self, tenant: TenantId, limit: Limit) -> Result<Option<u64>> {
        let Some(row) = self.tenant_row(tenant)? else { return Ok(None) };
        if self.tenancy.borrow().is_none() {
            *self.tenancy.borrow_mut() = Some(Arc::new(self.tenancy()?));
        }
        Ok(self.tenancy.borrow().as_ref().and_then(|tenancy| row.limit(tenancy, limit)))
    }
}

/// The value of one tenant that was read last.
type Cache<T> = RefCell<Option<(TenantId, Arc<T>)>>;

fn cached<T>(
    cache: &Cache<T>,
    tenant: TenantId,
    read: impl FnOnce() -> Result<Option<T>>,
) -> Result<Option<Arc<T>>> {
    if let Some((of, value)) = &*cache.borrow()
        && *of == tenant
    {
        return Ok(Some(Arc::clone(value)));
    }
    let value = read()?.map(Arc::new);
    *cache.borrow_mut() = value.clone().map(|value| (tenant, value));
    Ok(value)
}
