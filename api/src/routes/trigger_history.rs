//! The history of triggers: firings, and attempts to deliver their webhooks.

use axum::extract::State;
use serde::Serialize;
use storage::model::delivery::DeliveryId;
use storage::model::journal::{Cursor, Event, EventKind, FiredTrigger, FiringResult};
use storage::model::trigger::TriggerActionKind;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::ReaderCaller;
use crate::openapi::ReadErrors;
use crate::read::FreshRead;
use crate::requests::ValidQuery;
use crate::requests::headers::Fresh;
use crate::requests::triggers::HistoryQuery;
use crate::responses::event::{next_text, page_cursor, result_text};
use crate::responses::{Respond, timestamp};
use crate::service::error::ApiResult;

/// A page of the trigger history.
#[derive(Serialize, ToSchema)]
pub(crate) struct History {
    items: Vec<HistoryItem>,
    /// Cursor of the next page; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A firing, or an attempt to deliver its webhook.
#[derive(Serialize, ToSchema)]
struct HistoryItem {
    id: String,
    /// `firing` or `attempt`.
    kind: &'static str,
    #[schema(format = Uuid)]
    trigger_id: String,
    /// Its name when it fired; null for an attempt.
    #[schema(required)]
    trigger_name: Option<String>,
    #[schema(required)]
    event: Option<String>,
    action: String,
    /// The action, again.
    action_taken: String,
    #[schema(required, format = Uuid)]
    node_id: Option<String>,
    /// The beginning of the label at that time.
    #[schema(required)]
    node_label: Option<String>,
    /// The result of the action, or of the attempt.
    result: String,
    /// The delivery, by the `webhook-id` of its requests.
    #[schema(required)]
    delivery_id: Option<String>,
    /// Number of the attempt, from 1.
    #[schema(required)]
    attempt: Option<u32>,
    #[schema(format = DateTime)]
    fired_at: String,
}

/// List firings and delivery attempts, the latest first.
#[utoipa::path(get, path = "/api/v1/triggers/history", tag = "triggers",
    params(HistoryQuery, Fresh),
    responses((status = OK, body = History), ReadErrors))]
pub(crate) async fn trigger_history(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    ValidQuery(query): ValidQuery<HistoryQuery>,
) -> ApiResult<Respond<History>> {
    let trigger = query.trigger_id.map(|id| id.0);
    let (kind, before) = (query.kind(), query.before().map(|cursor| cursor.0));
    let service = app.service();
    let page = service.trigger_history(&caller, trigger, kind, before, query.limit()).await?;
    let items = page.events.iter().filter_map(HistoryItem::new).collect();
    let body = History { items, next_cursor: page.next.map(page_cursor) };
    Ok(Respond::ok(freshness, body))
}

impl HistoryItem {
    /// `None` for events that are no part of the history.
    fn new((cursor, event): &(Cursor, Event)) -> Option<Self> {
        Some(match &event.kind {
            EventKind::TriggerFired(fired) => Self::of_firing(*cursor, event, fired),
            EventKind::Delivered { delivery, attempt, status } => Self::of_attempt(
                *cursor,
                event,
                *delivery,
                *attempt,
                format!("{status}, delivered"),
            ),
            EventKind::DeliveryFailed { delivery, attempt, reason, next } => {
                let result = format!("{reason}, {}", next_text(*next));
                Self::of_attempt(*cursor, event, *delivery, *attempt, result)
            }
            _ => return None,
        })
    }

    fn of_firing(cursor: Cursor, event: &Event, fired: &FiredTrigger) -> Self {
        let delivery_id = match &fired.result {
            FiringResult::Enqueued { delivery } => Some(delivery.to_string()),
            _ => None,
        };
        Self {
            id: page_cursor(cursor),
            kind: "firing",
            trigger_id: fired.trigger.to_string(),
            trigger_name: Some(fired.trigger_name.clone()),
            event: Some(fired.event.name().to_owned()),
            action: fired.action.name().to_owned(),
            action_taken: fired.action.name().to_owned(),
            node_id: event.subject.map(|id| id.to_string()),
            node_label: Some(fired.label.clone()),
            result: result_text(&fired.result),
            delivery_id,
            attempt: None,
            fired_at: timestamp(event.at),
        }
    }

    fn of_attempt(
        cursor: Cursor,
        event: &Event,
        delivery: DeliveryId,
        attempt: u32,
        result: String,
    ) -> Self {
        let action = TriggerActionKind::Webhook.name();
        Self {
            id: page_cursor(cursor),
            kind: "attempt",
            trigger_id: delivery.trigger.to_string(),
            trigger_name: None,
            event: None,
            action: action.to_owned(),
            action_taken: action.to_owned(),
            node_id: event.subject.map(|id| id.to_string()),
            node_label: None,
            result,
            delivery_id: Some(delivery.to_string()),
            attempt: Some(attempt),
            fired_at: timestamp(event.at),
        }
    }
}
