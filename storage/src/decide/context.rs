//! The context of rules (draft, tenant, acting key), and their error.

use std::sync::Arc;

use model::access::Access;
use model::api_key::ApiKey;
use model::edge::Edge;
use model::heat::Anchor;
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::journal::EventKind;
use model::memory::{Editor, Memory, MemoryRecord, MemoryType};
use model::tenant::{Limit, Role, TenantState};
use model::thermo::Thermo;
use model::tick::Tick;
use model::trigger::{Trigger, TriggerEvent};
use model::versions::Versions;

use crate::change::Change;
use crate::decide::counted::Counted;
use crate::decide::draft::{Draft, MemoryEvent};
use crate::error::{Error, Result};
use crate::etag::Etag;
use crate::reply::Rejection;
use crate::table::key::Key;
use crate::table::view::View;

/// Lowest heat of a memory that a recall or a request restores from the cold tier.
pub(super) const RESTORED_HEAT: f64 = 0.3;

/// The reason why a command had no effect.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// A rule rejects the command. The caller receives the reason.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The state cannot be read. The node stops.
    #[error(transparent)]
    Fault(#[from] Error),
}

pub type Decided<T> = std::result::Result<T, DecideError>;

pub(super) fn reject_if(condition: bool, rejection: Rejection) -> Decided<()> {
    if condition { Err(rejection.into()) } else { Ok(()) }
}

/// The context of one command, or of one trigger that fires.
pub struct Context<'a> {
    pub(super) draft: &'a mut Draft,
    pub(super) tenant: TenantId,
    /// The key that acts; `None` for the service itself.
    pub(super) actor: Option<KeyId>,
}

impl Context<'_> {
    pub(super) fn now(&self) -> Timestamp {
        self.draft.now
    }

    pub(super) fn push(&mut self, change: Change) {
        self.draft.push(change);
    }

    /// Rejects commands of a tenant that was deleted, those of keys of a suspended one, and those of
    /// keys that have ended.
    pub(super) fn check_caller(&self) -> Decided<()> {
        let row = self.draft.tenant_row(self.tenant)?;
        let row = row.ok_or_else(|| Rejection::no_such("tenant"))?;
        let Some(key) = self.actor else { return Ok(()) };
        reject_if(row.state == TenantState::Suspended, Rejection::TenantSuspended)?;
        let key = self.draft.valid_key(self.tenant, key, self.now())?;
        reject_if(key.is_none(), Rejection::KeyInvalid)
    }

    /// Rejects what would exceed a limit of the tenant by adding so much.
    pub(super) fn check_limit(&self, limit: Limit, counted: Counted, added: u64) -> Decided<()> {
        let Some(max) = self.draft.limit(self.tenant, limit)? else { return Ok(()) };
        let fits = self.fits(limit, counted, added)?;
        reject_if(!fits, Rejection::StorageLimitReached { limit, max })
    }

    /// Whether the tenant has room for so many more.
    pub(super) fn fits(&self, limit: Limit, counted: Counted, added: u64) -> Result<bool> {
        let max = self.draft.limit(self.tenant, limit)?;
        Ok(max.is_none_or(|max| self.draft.number(self.tenant, counted) + added <= max))
    }

    /// Counts bytes of memories that the command adds or, if negative, removes.
    pub(super) fn add_bytes(&mut self, before: u64, after: u64) {
        self.draft.add((self.tenant, Counted::Bytes), after as i64 - before as i64);
    }

    pub(super) fn thermo(&self) -> Result<Arc<Thermo>> {
        self.draft.thermo(self.tenant)
    }

    pub(super) fn memory(&self, id: MemoryId) -> Result<Option<Memory>> {
        self.draft.memory(self.tenant, id)
    }

    /// A memory with its heat now.
    pub(super) fn present(&self, id: MemoryId) -> Result<Option<MemoryRecord>> {
        self.draft.present(self.tenant, id)
    }

    /// A memory that must exist. One that the acting key may not access does not exist for it.
    pub(super) fn existing(&mut self, id: MemoryId) -> Decided<MemoryRecord> {
        let present = self.present(id)?.ok_or(Rejection::NotFound)?;
        reject_if(!self.has_access(&present.memory.namespace)?, Rejection::NotFound)?;
        let is_hidden = present.memory.guard.is_quarantined() && !self.is_admin()?;
        reject_if(is_hidden, Rejection::NotFound)?;
        Ok(present)
    }

    /// A memory that the command has just written.
    pub(super) fn written(&self, id: MemoryId) -> Decided<MemoryRecord> {
        Ok(self.present(id)?.ok_or_else(|| Error::missing("memory", self.tenant, id))?)
    }

    pub(super) fn edges(&self, id: MemoryId) -> Result<Vec<Edge>> {
        self.draft.edges(self.tenant, id)
    }

    /// Whether the acting key may access `namespace`.
    pub(super) fn has_access(&mut self, namespace: &str) -> Result<bool> {
        let Some(id) = self.actor else { return Ok(true) };
        let access = match self.draft.command.access.take() {
            Some(access) => access,
            None => self.access_of(id)?,
        };
        let allowed = access.allows(namespace);
        self.draft.command.access = Some(access);
        Ok(allowed)
    }

    fn access_of(&self, id: KeyId) -> Result<Access> {
        Ok(self.draft.access(self.tenant, id, self.now())?.unwrap_or_else(Access::none))
    }

    /// Whether the acting key is an admin's. The service itself counts as one.
    pub(super) fn is_admin(&self) -> Result<bool> {
        self.actor.map_or(Ok(true), |key| self.is_admin_key(key))
    }

    fn is_admin_key(&self, id: KeyId) -> Result<bool> {
        let key: Option<ApiKey> = self.draft.record(&Key::ApiKey(self.tenant, id))?;
        Ok(key.is_some_and(|key| key.role >= Role::Admin))
    }

    /// Whether a key, or without one the service, may rewrite, replace or unlock a memory: not if
    /// another key has locked it, and the tenant guards that.
    pub(super) fn may_rewrite(&self, memory: &Memory, by: Option<KeyId>) -> Result<bool> {
        let Some(key) = by.filter(|_| memory.is_locked && memory.locked_by != by) else {
            return Ok(true);
        };
        let is_guarded = self.draft.tenant(self.tenant)?.is_some_and(|row| row.guards_locked);
        Ok(!is_guarded || self.is_admin_key(key)?)
    }

    /// Who acts by a key; `None` if that was deleted.
    pub(super) fn editor(&self, key: KeyId) -> Result<Option<Editor>> {
        let row: Option<ApiKey> = self.draft.record(&Key::ApiKey(self.tenant, key))?;
        Ok(row.map(|row| Editor { key, agent: row.name }))
    }

    /// A trigger that the acting key may change. Another one does not exist for it.
    pub(super) fn modifiable_trigger(&self, id: TriggerId) -> Decided<Trigger> {
        let trigger = self.draft.trigger(self.tenant, id)?;
        let trigger = trigger.ok_or_else(|| Rejection::no_such("trigger"))?;
        reject_if(!self.may_change(&trigger)?, Rejection::no_such("trigger"))?;
        Ok(trigger)
    }

    /// Whether the acting key may change a trigger: its own, or any if it may access all
    /// namespaces. Otherwise a key could redirect notifications about memories that it may not
    /// access.
    pub(super) fn may_change(&self, trigger: &Trigger) -> Result<bool> {
        let Some(key) = self.actor else { return Ok(true) };
        Ok(trigger.owner == self.actor || self.access_of(key)?.is_unrestricted())
    }

    /// Rejects a namespace that the command names, if the acting key may not access it.
    pub(super) fn check_access(&mut self, namespace: &str) -> Decided<()> {
        if self.has_access(namespace)? {
            return Ok(());
        }
        Err(Rejection::NamespaceForbidden(namespace.to_owned()).into())
    }

    /// Sets a memory's anchor as of now. `before` is the memory without it: a tick that is
    /// under way evaluates that first.
    pub(super) fn anchor(&mut self, before: &MemoryRecord, anchor: Anchor) -> Result<()> {
        let Some(tick) = self.draft.present_tick(self.tenant)? else { return Ok(()) };
        if tick.has_not_reached(before.id) {
            self.evaluate_crossing(&tick, before)?;
        }
        let tick_heat = tick.tick_heat(&before.memory, &before.anchor);
        let anchor = Anchor { at: self.now(), tick_heat, ..anchor };
        self.push(Change::AnchorPut(self.tenant, before.id, anchor));
        Ok(())
    }

    /// Stores a memory that exists. Its text is written only if it differs, or if this batch writes it anyway.
    pub(super) fn put_memory(&mut self, id: MemoryId, memory: Memory) -> Result<()> {
        let (tenant, state) = (self.tenant, memory.state());
        let (text_key, state_key) = (Key::Memory(tenant, id), Key::MemoryState(tenant, id));
        let is_put = self.draft.rows.contains_key(&text_key.bytes());
        let keeps_text = !is_put && {
            let stored: Option<Memory> = self.draft.record(&text_key)?;
            stored.is_some_and(|stored| stored.with(&state) == memory)
        };
        if !keeps_text {
            self.push(Change::MemoryPut(tenant, id, memory));
        }
        if keeps_text || self.draft.bytes(&state_key)?.is_some() {
            self.push(Change::MemoryStatePut(tenant, id, state));
        }
        Ok(())
    }

    /// The tag of a memory, if the actor may access it.
    pub(super) fn memory_tag(&mut self, id: MemoryId) -> Result<Option<Etag>> {
        let Some(memory) = self.memory(id)? else { return Ok(None) };
        Ok(self.has_access(&memory.namespace)?.then(|| Etag::of(&memory)))
    }

    /// The tag of what the row of the tenant holds: its settings, its rules of retention, its own values.
    pub(super) fn tenant_tag(&self) -> Result<Option<Etag>> {
        Ok(self.draft.tenant(self.tenant)?.as_ref().map(Etag::of))
    }

    /// The texts that a memory had before.
    pub(super) fn versions(&self, id: MemoryId) -> Result<Versions> {
        let row: Option<Versions> = self.draft.record(&Key::MemoryVersions(self.tenant, id))?;
        Ok(row.unwrap_or_default())
    }

    /// Moves a memory to the cold tier, where it keeps its heat.
    pub(super) fn move_to_cold_tier(&mut self, present: &MemoryRecord) -> Result<()> {
        let memory = Memory { archived_at: Some(self.now()), ..present.memory.clone() };
        self.anchor(present, Anchor { heat: present.heat as f32, ..present.anchor })?;
        self.append(present.id, &memory, EventKind::Archived);
        self.put_memory(present.id, memory)
    }

    /// Moves an archived memory to the hot tier, with at least the heat `heat_min`.
    pub(super) fn move_to_hot_tier(
        &mut self,
        archived: &MemoryRecord,
        updated_at: Timestamp,
        heat_min: f64,
    ) -> Result<()> {
        let memory = Memory { archived_at: None, updated_at, ..archived.memory.clone() };
        let heat = archived.heat.max(heat_min) as f32;
        self.anchor(archived, Anchor { heat, ..archived.anchor })?;
        self.append(archived.id, &memory, EventKind::Restored);
        self.put_memory(archived.id, memory)
    }

    /// Records the crossing of `cold_threshold` that a tick finds of a memory in the journal, and
    /// emits the heat transition for triggers, unless the tick is over the time between a backup and
    /// its restoration. Archived memories do not cool.
    pub(super) fn evaluate_crossing(&mut self, tick: &Tick, present: &MemoryRecord) -> Result<()> {
        let MemoryRecord { id, memory, anchor, .. } = present;
        if memory.archived_at.is_some() {
            return Ok(());
        }
        let Some(transition) = tick.transition(memory, anchor) else { return Ok(()) };
        let restored = self.draft.cluster()?.and_then(|cluster| cluster.restored);
        let is_news = restored.is_none_or(|restored| tick.from > restored.clock);
        let events = [TriggerEvent::Decay, TriggerEvent::Threshold];
        for event in events.into_iter().filter(|_| is_news) {
            let (tenant, id, transition) = (self.tenant, *id, Some(transition));
            let event = MemoryEvent { transition, ..MemoryEvent::new(tenant, event, id) };
            self.draft.command.events.push(event);
        }
        // A configuration change that moves the threshold past a heat counts as a crossing.
        let kind = match (transition.was_cold, transition.is_cold) {
            (false, true) => EventKind::Cooled,
            (true, false) => EventKind::Warmed,
            _ => return Ok(()),
        };
        self.draft.append(self.tenant, None, Some((*id, &memory.namespace)), kind);
        Ok(())
    }

    /// Appends an event about a memory to the journal.
    pub(super) fn append(&mut self, id: MemoryId, memory: &Memory, kind: EventKind) {
        self.draft.append(self.tenant, self.actor, Some((id, &memory.namespace)), kind);
    }

    /// Counts an echo.
    pub(super) fn count_echo(&mut self, memory_type: MemoryType) -> Result<()> {
        let mut stats = self.draft.recall_stats(self.tenant)?;
        stats.types[memory_type as usize].echoes += 1;
        self.push(Change::RecallStatsPut(self.tenant, stats));
        Ok(())
    }

    /// Emits an event that triggers may wait for.
    pub(super) fn emit(&mut self, event: TriggerEvent, id: MemoryId) {
        self.draft.emit(MemoryEvent::new(self.tenant, event, id));
    }
}
