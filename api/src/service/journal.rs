//! Reading the journal for a caller: recent events, the history of triggers, and what follows a
//! cursor. Events about memories that the caller may not access are left out. Firings and delivery
//! attempts are those of triggers that the caller may see. A caller with restricted access gets
//! only the activities that it recorded itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use storage::model::access::{Access, Caller};
use storage::model::id::{KeyId, MemoryId, TenantId, TriggerId};
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::memory::Memory;
use storage::{EventPage, Reader, View};
use tokio::time::Instant;

use crate::error::{ApiError, ApiResult};
use crate::limits::{HISTORY_PAGES_MAX, STREAM_EVENTS};
use crate::service::access::may_see_trigger;
use crate::service::{PageOf, ReadBy, Service, Session};
use crate::words::HistoryKind;

/// An event with what a response shows beside it.
pub(crate) struct EventView {
    pub(crate) cursor: Cursor,
    pub(crate) event: Event,
    /// Name of the acting key; its id if the key was deleted; `None` for the service itself.
    pub(crate) actor: Option<String>,
    /// The memory as it is now, if the caller may access it.
    pub(crate) memory: Option<Memory>,
}

impl Session {
    /// Events before `before`, the latest first; only those of `memory`, if it is given.
    pub(crate) async fn recent_events(
        &self,
        before: Option<Cursor>,
        limit: usize,
        memory: Option<MemoryId>,
    ) -> ApiResult<PageOf<EventView, Cursor>> {
        self.read(move |reader, caller| {
            let viewer = Viewer::of(reader, caller);
            let is_of = |event: &Event| memory.is_none() || event.subject == memory;
            let is_visible = |event: &Event| Ok(is_of(event) && viewer.may_see(event)?);
            let EventPage { events, next } =
                reader.journal(caller.tenant, before, limit, is_visible)?;
            Ok(PageOf { items: viewer.views(events)?, next })
        })
        .await
    }

    pub(crate) async fn cluster_id(&self) -> ApiResult<[u8; 16]> {
        let identity = self.read(|reader, _| reader.cluster()).await?;
        Ok(identity.ok_or_else(ApiError::internal)?.id)
    }

    /// The first retained event, if events after a cursor may be trimmed.
    pub(crate) async fn first_after_gap(&self, after: Cursor) -> ApiResult<Option<Cursor>> {
        let read = self.read(move |reader, caller| {
            reader.journal_after(caller.tenant, after, 0, |_| Ok(true))
        });
        Ok(read.await?.gap)
    }

    /// Firings and delivery attempts before `before`, the latest first; of one trigger, if
    /// named.
    pub(crate) async fn trigger_history(
        &self,
        trigger: Option<TriggerId>,
        kind: HistoryKind,
        mut before: Option<Cursor>,
        limit: usize,
    ) -> ApiResult<EventPage> {
        self.read(move |reader, caller| {
            let viewer = Viewer::of(reader, caller);
            let is_wanted = |event: &Event| {
                let is_of_trigger =
                    trigger.is_none_or(|trigger| event.kind.trigger() == Some(trigger));
                Ok(kind.includes(&event.kind) && is_of_trigger && viewer.may_see(event)?)
            };
            let mut found = Vec::new();
            // One read passes a bounded number of rows; a page of few among many takes several.
            for _ in 0..HISTORY_PAGES_MAX {
                let missing = limit - found.len();
                let page = reader.trigger_journal(caller.tenant, before, missing, is_wanted)?;
                for (cursor, mut event) in page.events {
                    viewer.visible_memory(&mut event)?;
                    found.push((cursor, event));
                }
                before = page.next;
                if before.is_none() || found.len() == limit {
                    break;
                }
            }
            Ok(EventPage { events: found, next: before })
        })
        .await
    }
}

/// The next events of a stream.
pub(crate) struct NextEvents {
    pub(crate) events: Vec<EventView>,
    /// The next read starts after it.
    pub(crate) reached: Cursor,
    pub(crate) has_more: bool,
}

impl Service {
    /// Waits until this node applies another entry, for a limited time.
    pub(crate) async fn await_entry(&self, limit: Duration) {
        let next = self.reader.position().index + 1;
        let _: Result<(), _> = self.raft.wait_applied(next, Instant::now() + limit).await;
    }

    pub(crate) fn is_usable(&self, key: KeyId, hash: &[u8; 32]) -> bool {
        self.reader.is_usable(key, hash)
    }

    pub(crate) fn may_have_events_after(&self, tenant: TenantId, cursor: Cursor) -> bool {
        Cursor::after(self.reader.last_event(tenant)) > cursor
    }

    /// The wanted events after a cursor that a key may see now, since keys and rules change while
    /// a stream is open. `None` if the key was deleted, or events after the cursor were trimmed.
    pub(crate) async fn follow(
        &self,
        tenant: TenantId,
        key: KeyId,
        after: Cursor,
        is_wanted: impl Fn(&Event) -> bool + Send + 'static,
    ) -> ApiResult<Option<NextEvents>> {
        let by = ReadBy { key: (tenant, key), request_id: None };
        self.read(&self.stream_reads, by, move |reader| {
            let Some(access) = reader.access(tenant, key, reader.clock())? else { return Ok(None) };
            let viewer = Viewer::new(reader, tenant, key, &access);
            let is_wanted = |event: &Event| Ok(is_wanted(event) && viewer.may_see(event)?);
            let found = reader.journal_after(tenant, after, STREAM_EVENTS, is_wanted)?;
            if found.gap.is_some() {
                return Ok(None);
            }
            let events = viewer.views(found.events)?;
            Ok(Some(NextEvents { events, reached: found.reached, has_more: found.more }))
        })
        .await
    }
}

impl HistoryKind {
    fn includes(self, kind: &EventKind) -> bool {
        match kind {
            EventKind::TriggerFired(_) => self != Self::Attempt,
            EventKind::Delivered { .. } | EventKind::DeliveryFailed { .. } => self != Self::Firing,
            _ => false,
        }
    }
}

/// A key that reads events or deliveries, and what it may access now.
pub(super) struct Viewer<'a> {
    reader: &'a Reader,
    tenant: TenantId,
    key: KeyId,
    access: &'a Access,
    /// Whether it may see a trigger, for each that was read.
    triggers: RefCell<HashMap<TriggerId, bool>>,
}

impl<'a> Viewer<'a> {
    fn new(reader: &'a Reader, tenant: TenantId, key: KeyId, access: &'a Access) -> Self {
        Self { reader, tenant, key, access, triggers: RefCell::default() }
    }

    pub(super) fn of(reader: &'a Reader, caller: &'a Caller) -> Self {
        Self::new(reader, caller.tenant, caller.key, &caller.access)
    }

    /// Whether it may see a trigger. The owner of a deleted trigger is unknown, so access is
    /// denied unless the key may access all namespaces.
    pub(super) fn may_see_trigger(&self, id: TriggerId) -> storage::Result<bool> {
        if self.access.is_unrestricted() {
            return Ok(true);
        }
        if let Some(known) = self.triggers.borrow().get(&id) {
            return Ok(*known);
        }
        let trigger = self.reader.trigger(self.tenant, id)?;
        let may_see =
            trigger.is_some_and(|trigger| may_see_trigger(self.access, self.key, &trigger));
        self.triggers.borrow_mut().insert(id, may_see);
        Ok(may_see)
    }

    /// Whether it may see an event. The namespace of a deleted memory at the other end of an edge
    /// is unknown, so access is denied unless the key may access all namespaces.
    fn may_see(&self, event: &Event) -> storage::Result<bool> {
        if self.access.is_unrestricted() {
            return Ok(true);
        }
        if !event.namespace.is_empty() && !self.access.allows(&event.namespace) {
            return Ok(false);
        }
        if let Some(trigger) = event.kind.trigger() {
            return self.may_see_trigger(trigger);
        }
        if let Some(other) = event.kind.other_end() {
            let other = self.reader.get(self.tenant, other)?;
            return Ok(other.is_some_and(|found| self.access.allows(&found.memory.namespace)));
        }
        Ok(match event.kind {
            // Its texts may be about any memory.
            EventKind::Activity(_) => event.actor == Some(self.key),
            // The triggers that did not fire may be those of other keys.
            EventKind::FiringsSkipped(_) => false,
            _ => true,
        })
    }

    /// The memory of an event as it is now, if the key may access it. If not, texts of the memory
    /// are removed from a firing: it may have moved to a closed namespace since.
    fn visible_memory(&self, event: &mut Event) -> storage::Result<Option<Memory>> {
        let found = event.subject.map(|id| self.reader.get(self.tenant, id)).transpose()?.flatten();
        let memory = found.map(|found| found.memory);
        let memory = memory.filter(|memory| self.access.allows_memory(memory));
        if let EventKind::TriggerFired(fired) = &mut event.kind
            && memory.is_none()
            && !self.access.is_unrestricted()
        {
            fired.remove_texts();
        }
        Ok(memory)
    }

    /// Adds to events what responses show beside them.
    fn views(&self, events: Vec<(Cursor, Event)>) -> storage::Result<Vec<EventView>> {
        let mut names: HashMap<KeyId, String> = HashMap::new();
        let mut name = |id: KeyId| {
            Ok::<_, storage::Error>(match names.entry(id) {
                Entry::Occupied(name) => name.get().clone(),
                Entry::Vacant(empty) => {
                    let key = self.reader.api_key(self.tenant, id)?;
                    empty.insert(key.map_or_else(|| id.to_string(), |key| key.name)).clone()
                }
            })
        };
        let view = |(cursor, mut event): (Cursor, Event)| {
            let memory = self.visible_memory(&mut event)?;
            let actor = event.actor.map(&mut name).transpose()?;
            Ok(EventView { cursor, event, actor, memory })
        };
        events.into_iter().map(view).collect()
    }
}
