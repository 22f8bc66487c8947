//! Reading the journal for a caller: recent events, the history of triggers, and what follows a
//! cursor. Events about memories that the caller may not access are left out.

use std::time::Duration;

use storage::model::access::Access;
use storage::model::id::{TenantId, TriggerId};
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::memory::Memory;
use storage::model::tenant::{ApiKey, KeyId};
use storage::{EventPage, Reader, View};
use tokio::time::Instant;

use crate::limits::{HISTORY_PAGES_MAX, STREAM_EVENTS};
use crate::service::error::{ApiError, ApiResult};
use crate::service::{PageOf, Service, Session};
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
    /// Events before `before`, the latest first.
    pub(crate) async fn recent_events(
        &self,
        before: Option<Cursor>,
        limit: usize,
    ) -> ApiResult<PageOf<EventView, Cursor>> {
        self.read(move |reader, caller| {
            let (tenant, access) = (caller.tenant, &caller.access);
            let is_visible = |event: &Event| is_visible(reader, tenant, access, event);
            let EventPage { events, next } = reader.journal(tenant, before, limit, is_visible)?;
            Ok(PageOf { items: views(reader, tenant, access, events)?, next })
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
            let is_wanted = |event: &Event| {
                let is_of_trigger =
                    trigger.is_none_or(|trigger| event.kind.trigger() == Some(trigger));
                kind.includes(&event.kind)
                    && is_of_trigger
                    && caller.access.allows(&event.namespace)
            };
            let mut found = Vec::new();
            // One read passes a bounded number of rows; a page of few among many takes several.
            for _ in 0..HISTORY_PAGES_MAX {
                let missing = limit - found.len();
                let page = reader.trigger_journal(caller.tenant, before, missing, is_wanted)?;
                found.extend(page.events);
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

    pub(crate) fn has_key(&self, key: KeyId) -> bool {
        self.reader.has_key(key)
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
        self.read(&self.stream_reads, key, move |reader| {
            let Some(access) = reader.access(tenant, key)? else { return Ok(None) };
            let is_wanted =
                |event: &Event| Ok(is_wanted(event) && is_visible(reader, tenant, &access, event)?);
            let found = reader.journal_after(tenant, after, STREAM_EVENTS, is_wanted)?;
            if found.gap.is_some() {
                return Ok(None);
            }
            let events = views(reader, tenant, &access, found.events)?;
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

/// Whether a caller may see an event. The namespace of a deleted memory at the other end of an
/// edge is unknown, so access is denied unless the caller may access all namespaces.
fn is_visible(
    reader: &Reader,
    tenant: TenantId,
    access: &Access,
    event: &Event,
) -> storage::Result<bool> {
    if !event.namespace.is_empty() && !access.allows(&event.namespace) {
        return Ok(false);
    }
    let other = event.kind.other_end().filter(|_| !access.is_unrestricted());
    let Some(other) = other else { return Ok(true) };
    let other = reader.get(tenant, other)?;
    Ok(other.is_some_and(|found| access.allows(&found.memory.namespace)))
}

/// Adds to events what responses show beside them.
fn views(
    reader: &Reader,
    tenant: TenantId,
    access: &Access,
    events: Vec<(Cursor, Event)>,
) -> storage::Result<Vec<EventView>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let keys = reader.api_keys(tenant)?;
    let view = |(cursor, event): (Cursor, Event)| {
        let memory = event.subject.map(|id| reader.get(tenant, id)).transpose()?.flatten();
        let memory = memory.map(|found| found.memory);
        let memory = memory.filter(|memory| access.allows(&memory.namespace));
        let actor = event.actor.map(|id| key_name(&keys, id));
        Ok(EventView { cursor, event, actor, memory })
    };
    events.into_iter().map(view).collect()
}

fn key_name(keys: &[(KeyId, ApiKey)], id: KeyId) -> String {
    let key = keys.iter().find(|(known, _)| *known == id);
    key.map_or_else(|| id.to_string(), |(_, key)| key.name.clone())
}
