//! The history of triggers: firings, and attempts to deliver their webhooks.

use storage::model::delivery::DeliveryId;
use storage::model::journal::{Cursor, Event, EventKind, FiringResult};
use storage::model::trigger::TriggerActionKind;

use crate::cursors::PageCursor;
use crate::prelude::*;
use crate::requests::triggers::HistoryQuery;
use crate::responses::event::{next_text, non_empty, result_text};

/// A page of the trigger history.
#[derive(Serialize, ToSchema)]
pub(crate) struct History {
    items: Vec<HistoryItem>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// A firing, or an attempt to deliver its webhook.
#[derive(Serialize, ToSchema)]
struct HistoryItem {
    id: String,
    /// `firing` or `attempt`.
    kind: &'static str,
    trigger_id: TriggerIdText,
    /// Its name when it fired; null for an attempt.
    trigger_name: Nullable<String>,
    #[schema(required)]
    event: Option<&'static str>,
    action: &'static str,
    /// The action, again.
    action_taken: &'static str,
    #[schema(required)]
    node_id: Option<MemoryIdText>,
    /// The beginning of the label at that time; null if the key may not access the memory.
    node_label: Nullable<String>,
    /// The result of the action, or of the attempt.
    result: String,
    /// The delivery, by the `webhook-id` of its requests.
    delivery_id: Nullable<String>,
    /// Number of the attempt, from 1.
    attempt: Nullable<u32>,
    fired_at: Time,
}

/// List firings and delivery attempts, the latest first.
#[utoipa::path(get, path = "/api/v1/triggers/history", tag = "triggers",
    params(HistoryQuery, ReadHeaders), responses((status = OK, body = History), ReadErrors))]
pub(crate) async fn trigger_history(
    ReaderRead(session, freshness): ReaderRead,
    ValidQuery(query): ValidQuery<HistoryQuery>,
) -> ApiResponse<History> {
    let trigger = query.trigger_id.map(|id| id.0);
    let (kind, before) = (query.kind(), query.before().map(|cursor| cursor.0.0));
    let page = session.trigger_history(trigger, kind, before, query.limit.get()).await?;
    let items = page.events.into_iter().filter_map(HistoryItem::new).collect();
    let next_cursor = page.next.map(|cursor| PageCursor(cursor).to_string());
    Ok(Success::ok(freshness, History { items, next_cursor }))
}

impl HistoryItem {
    /// `None` for events that are no part of the history.
    fn new((cursor, event): (Cursor, Event)) -> Option<Self> {
        let trigger = event.kind.trigger()?;
        let item = Self {
            id: PageCursor(cursor).to_string(),
            kind: "attempt",
            trigger_id: Id(trigger),
            trigger_name: None,
            event: None,
            action: TriggerActionKind::Webhook.name(),
            action_taken: TriggerActionKind::Webhook.name(),
            node_id: event.subject.map(Id),
            node_label: None,
            result: String::new(),
            delivery_id: None,
            attempt: None,
            fired_at: Time(event.at),
        };
        let of_attempt = |item, delivery: DeliveryId, attempt, result| {
            let (delivery_id, attempt) = (Some(delivery.to_string()), Some(attempt));
            Self { result, delivery_id, attempt, ..item }
        };
        Some(match event.kind {
            EventKind::TriggerFired(fired) => Self {
                kind: "firing",
                trigger_name: Some(fired.trigger_name),
                event: Some(fired.event.name()),
                action: fired.action.name(),
                action_taken: fired.action.name(),
                node_label: non_empty(&fired.label),
                result: result_text(&fired.result),
                delivery_id: match fired.result {
                    FiringResult::Enqueued(delivery) => Some(delivery.to_string()),
                    _ => None,
                },
                ..item
            },
            EventKind::Delivered { delivery, attempt, status } => {
                of_attempt(item, delivery, attempt, format!("{status}, delivered"))
            }
            EventKind::DeliveryFailed { delivery, attempt, reason, next } => {
                of_attempt(item, delivery, attempt, format!("{reason}, {}", next_text(next)))
            }
            _ => return None,
        })
    }
}
