//! What a rule works with: the draft, the tenant concerned, and the key that acts.

use std::sync::Arc;

use crate::change::Change;
use crate::decide::crossing;
use crate::decide::draft::Draft;
use crate::decide::error::Decided;
use crate::error::Result;
use crate::model::edge::Edge;
use crate::model::heat::Anchor;
use crate::model::id::{MemoryId, Timestamp};
use crate::model::journal::{Event, EventKind};
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::tenant::KeyId;
use crate::model::thermo::Thermo;
use crate::model::trigger::TriggerEvent;
use crate::reply::Rejection;
use crate::table::view::View;

/// The context of one command, or of one trigger that fires.
pub(super) struct Context<'c, 'd> {
    pub(super) draft: &'c mut Draft<'d>,
    pub(super) tenant: crate::model::id::TenantId,
    /// The key that acts; `None` for the service itself.
    pub(super) actor: Option<KeyId>,
}

impl Context<'_, '_> {
    pub(super) fn now(&self) -> Timestamp {
        self.draft.now()
    }

    /// Adds a change to the draft.
    pub(super) fn push(&mut self, change: Change) {
        self.draft.push(change);
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

    /// A memory that must exist.
    pub(super) fn existing(&self, id: MemoryId) -> Decided<MemoryRecord> {
        Ok(self.present(id)?.ok_or(Rejection::NotFound)?)
    }

    pub(super) fn edges(&self, id: MemoryId) -> Result<Vec<Edge>> {
        self.draft.edges(self.tenant, id)
    }

    /// Whether the acting key may access `namespace`.
    pub(super) fn has_access(&mut self, namespace: &str) -> Result<bool> {
        let Some(id) = self.actor else { return Ok(true) };
        let access = match self.draft.command.access.take() {
            Some(access) => access,
            None => self.draft.access_of_key(self.tenant, id)?,
        };
        let allowed = access.allows(namespace);
        self.draft.command.access = Some(access);
        Ok(allowed)
    }

    /// Rejects the command if the acting key may not access `namespace`.
    pub(super) fn check_access(&mut self, namespace: &str) -> Decided<()> {
        match self.has_access(namespace)? {
            true => Ok(()),
            false => Err(Rejection::NamespaceForbidden(namespace.to_owned()).into()),
        }
    }

    /// Sets a memory's anchor as of now. `before` is the memory without it: a tick that is
    /// under way evaluates that first.
    pub(super) fn anchor(&mut self, before: &MemoryRecord, anchor: Anchor) -> Result<()> {
        let Some(tick) = self.draft.present_tick(self.tenant)? else { return Ok(()) };
        if tick.has_not_reached(before.id) {
            crossing::evaluate(self.draft, self.tenant, &tick, before);
        }
        let tick_heat = tick.tick_heat(&before.memory, &before.anchor);
        let anchor = Anchor { at: self.now(), tick_heat, ..anchor };
        self.push(Change::AnchorPut(self.tenant, before.id, anchor));
        Ok(())
    }

    /// Appends an event about a memory to the journal.
    pub(super) fn append(&mut self, id: MemoryId, memory: &Memory, kind: EventKind) {
        let event = Event {
            at: self.now(),
            actor: self.actor,
            subject: Some(id),
            namespace: memory.namespace.clone(),
            kind,
        };
        self.push(Change::EventAppended(self.tenant, event));
    }

    /// Emits an event that triggers may wait for.
    pub(super) fn emit(&mut self, event: TriggerEvent, id: MemoryId) {
        self.draft.emit(self.tenant, event, id, 1);
    }
}
