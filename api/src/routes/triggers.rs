//! Triggers: rules that fire on memory events, the history of their firings, and deliveries of webhooks.
//! Delivered ones are in the history.

use axum::http::HeaderMap;
use storage::Etag;
use storage::TriggerReply;
use storage::command::DeleteTrigger;
use storage::model::journal::{Cursor, Event, EventKind, FiringResult};
use storage::model::trigger::TriggerActionKind;
use storage::model::trigger::{Delivery, DeliveryId, DeliveryStage};

use crate::prelude::*;
use crate::requests::triggers::{
    DeliveryQuery, Evaluate, HistoryQuery, NewTrigger, Replay, TriggerChanges, TriggerQuery,
    TriggerView,
};
use crate::requests::values::PageCursor;
use crate::responses::freshness_headers;
use crate::responses::memory::Deleted;
use crate::routes::activity::{next_text, non_empty, result_text};
use crate::words::DeliveryStatus;

/// A page of triggers.
#[derive(Serialize, ToSchema)]
pub(crate) struct TriggerList {
    /// In the order of their evaluation: that of their creation.
    items: Vec<TriggerView>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// Which triggers would fire.
#[derive(Serialize, ToSchema)]
pub(crate) struct Evaluation {
    event: EventWord,
    node_id: MemoryIdText,
    /// In the order of their evaluation.
    items: Vec<Evaluated>,
}

/// Whether a trigger would fire.
#[derive(Serialize, ToSchema)]
struct Evaluated {
    trigger_id: TriggerIdText,
    trigger_name: String,
    action: ActionWord,
    would_fire: bool,
    /// The field that does not match, or `access`, `not_crossed` or `no_room`; null if it would
    /// fire.
    #[schema(required)]
    reason: Option<&'static str>,
}

/// A trigger that was created; deleted since, if the request is a repetition.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum TriggerOrDeleted {
    Trigger(Box<TriggerView>),
    Deleted(Deleted),
}

/// List the triggers. Keys with restricted access see their own.
#[utoipa::path(get, path = "/api/v1/triggers", tag = "triggers", params(TriggerQuery, ReadHeaders),
    responses((status = OK, body = TriggerList), ReadErrors))]
pub(crate) async fn list_triggers(
    ReaderRead(session, freshness): ReaderRead,
    ValidQuery(query): ValidQuery<TriggerQuery>,
) -> ApiResponse<TriggerList> {
    let event = query.event.map(|event| event.0);
    let after = query.cursor.map(|cursor| cursor.0);
    let page = session.triggers(event, after, query.limit.get()).await?;
    let items = page.items.iter().map(|(compiled, firings)| {
        TriggerView::new(&session.caller, compiled.id, &compiled.trigger, firings)
    });
    let (items, next_cursor) = (items.collect(), page.next.map(|id| id.to_string()));
    Ok(Success::ok(freshness, TriggerList { items, next_cursor }))
}

/// Create a trigger.
#[utoipa::path(post, path = "/api/v1/triggers", tag = "triggers",
    request_body = NewTrigger,
    responses((status = CREATED, body = TriggerOrDeleted), WriteErrors))]
pub(crate) async fn create_trigger(
    Agent(session): Agent,
    ValidJson(body): ValidJson<NewTrigger>,
) -> ApiResponse<TriggerOrDeleted> {
    let (kind, settings) = (body.action.0, body.action_settings()?);
    let build = |action| body.into_trigger(action);
    let done = session.create_trigger(kind, settings, build).await?;
    let TriggerReply { id, now } = done.value;
    let body = match now {
        Some((trigger, firings)) => {
            let view = TriggerView::new(&session.caller, id, &trigger, &firings);
            TriggerOrDeleted::Trigger(Box::new(view))
        }
        None => TriggerOrDeleted::Deleted(Deleted::new(id.0)),
    };
    Ok(Success::created(done.freshness, body))
}

/// Get a trigger.
#[utoipa::path(get, path = "/api/v1/triggers/{id}", tag = "triggers",
    params(TriggerPath, ReadHeaders),
    responses((status = OK, body = TriggerView), ReadErrors, NotFound))]
pub(crate) async fn get_trigger(
    ReaderRead(session, freshness): ReaderRead,
    TriggerPath(id): TriggerPath,
) -> ApiResponse<TriggerView> {
    let (trigger, firings) = session.trigger(id).await?;
    session.request.set_tag(Etag::of(&trigger));
    Ok(Success::ok(freshness, TriggerView::new(&session.caller, id, &trigger, &firings)))
}

/// Change a trigger; `null` clears a filter or a limit.
#[utoipa::path(patch, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath),
    request_body = TriggerChanges,
    responses((status = OK, body = TriggerView), WriteErrors, NotFound))]
pub(crate) async fn update_trigger(
    Agent(session): Agent,
    TriggerPath(id): TriggerPath,
    ValidJson(request): ValidJson<TriggerChanges>,
) -> ApiResponse<TriggerView> {
    let (present, _) = session.trigger(id).await?;
    request.check_unchanged(&present)?;
    let (settings, patch) = (request.action_settings()?, request.into_patch());
    let done = session.update_trigger(id, &present, patch, settings).await?;
    let (trigger, firings) = done.value;
    Ok(Success::ok(done.freshness, TriggerView::new(&session.caller, id, &trigger, &firings)))
}

/// Delete a trigger. Its history stays; its pending deliveries are cancelled.
#[utoipa::path(delete, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath),
    responses((status = NO_CONTENT), WriteErrors, NotFound))]
pub(crate) async fn delete_trigger(
    Agent(session): Agent,
    TriggerPath(id): TriggerPath,
) -> ApiResult<(StatusCode, HeaderMap)> {
    let done = session.submit(DeleteTrigger(id)).await?;
    Ok((StatusCode::NO_CONTENT, freshness_headers(&done.freshness)))
}

/// Evaluate which triggers would fire if an event happened to a memory now, and why the others
/// would not. For `on_decay` and `on_threshold`: if a tick came now. Nothing fires.
#[utoipa::path(post, path = "/api/v1/triggers/evaluate", tag = "triggers", params(ReadHeaders),
    request_body = Evaluate, responses((status = OK, body = Evaluation), BodyErrors, NotFound))]
pub(crate) async fn evaluate_triggers(
    ReaderRead(session, freshness): ReaderRead,
    ValidJson(request): ValidJson<Evaluate>,
) -> ApiResponse<Evaluation> {
    let (event, id) = (request.event.0, request.node_id.0);
    let evaluations = session.evaluate_triggers(event, id).await?;
    let items = evaluations.into_iter().map(|(id, trigger, evaluation)| Evaluated {
        trigger_id: Id(id),
        action: OneOf(trigger.action.kind()),
        trigger_name: trigger.name,
        would_fire: evaluation.is_ok(),
        reason: evaluation.err().map(|reason| reason.name()),
    });
    let items = items.collect();
    Ok(Success::ok(freshness, Evaluation { event: OneOf(event), node_id: Id(id), items }))
}

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
pub(crate) async fn get_trigger_history(
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

/// A page of deliveries.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeliveryPage {
    /// By trigger, in the order of its firings.
    items: Vec<DeliveryView>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// A delivery.
#[derive(Serialize, ToSchema)]
struct DeliveryView {
    /// The `webhook-id` of its requests.
    id: String,
    trigger_id: TriggerIdText,
    trigger_name: String,
    event: EventWord,
    node_id: MemoryIdText,
    namespace: String,
    status: DeliveryWord,
    attempts: u32,
    /// Why the last attempt failed.
    reason: Nullable<String>,
    /// When the next attempt is due.
    #[schema(required)]
    due_at: Option<Time>,
    #[schema(required)]
    dead_lettered_at: Option<Time>,
    fired_at: Time,
}

/// Dead letters that were made pending again.
#[derive(Serialize, ToSchema)]
pub(crate) struct Replayed {
    replayed: usize,
    /// Whether there are more: repeat the request.
    has_more: bool,
}

/// List pending deliveries and dead letters.
#[utoipa::path(get, path = "/api/v1/triggers/deliveries", tag = "triggers",
    params(DeliveryQuery, ReadHeaders), responses((status = OK, body = DeliveryPage), ReadErrors))]
pub(crate) async fn list_deliveries(
    ReaderRead(session, freshness): ReaderRead,
    ValidQuery(query): ValidQuery<DeliveryQuery>,
) -> ApiResponse<DeliveryPage> {
    let (status, cursor) = (query.status.map(|it| it.0), query.cursor.map(|it| it.0));
    let page = session.deliveries(status, cursor, query.limit.get()).await?;
    let items = page.deliveries.into_iter().map(DeliveryView::from).collect();
    let next_cursor = page.next.map(|id| id.to_string());
    Ok(Success::ok(freshness, DeliveryPage { items, next_cursor }))
}

/// Make dead letters pending again: one, or all if none is named.
#[utoipa::path(post, path = "/api/v1/triggers/deliveries/replay", tag = "triggers",
    request_body = Replay, responses((status = OK, body = Replayed), WriteErrors, NotFound))]
pub(crate) async fn replay_deliveries(
    Agent(session): Agent,
    ValidJson(request): ValidJson<Replay>,
) -> ApiResponse<Replayed> {
    let done = session.replay_deliveries(request.id.map(|id| id.0)).await?;
    let (replayed, has_more) = done.value;
    Ok(Success::ok(done.freshness, Replayed { replayed, has_more }))
}

impl From<(DeliveryId, Delivery)> for DeliveryView {
    fn from((id, delivery): (DeliveryId, Delivery)) -> Self {
        let (due_at, dead_lettered_at) = match delivery.stage {
            DeliveryStage::Pending(at) => (Some(Time(at)), None),
            DeliveryStage::DeadLettered(at) => (None, Some(Time(at))),
        };
        Self {
            id: id.to_string(),
            trigger_id: Id(id.trigger),
            trigger_name: delivery.trigger_name,
            event: OneOf(delivery.event),
            node_id: Id(delivery.memory),
            namespace: delivery.namespace,
            status: OneOf(DeliveryStatus::from(&delivery.stage)),
            attempts: delivery.attempts,
            reason: Some(delivery.reason).filter(|reason| !reason.is_empty()),
            due_at,
            dead_lettered_at,
            fired_at: Time(delivery.fired_at),
        }
    }
}
