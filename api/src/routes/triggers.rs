//! Triggers: rules that fire on memory events.

use axum::http::HeaderMap;

use storage::TriggerReply;
use storage::command::DeleteTrigger;

use crate::prelude::*;
use crate::requests::triggers::{Evaluate, NewTrigger, TriggerChanges, TriggerQuery};
use crate::responses::freshness_headers;
use crate::responses::memory::Deleted;
use crate::responses::trigger::TriggerView;

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
pub(crate) async fn trigger_list(
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
pub(crate) async fn trigger_create(
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
pub(crate) async fn trigger_get(
    ReaderRead(session, freshness): ReaderRead,
    TriggerPath(id): TriggerPath,
) -> ApiResponse<TriggerView> {
    let (trigger, firings) = session.trigger(id).await?;
    Ok(Success::ok(freshness, TriggerView::new(&session.caller, id, &trigger, &firings)))
}

/// Change a trigger; `null` clears a filter or a limit.
#[utoipa::path(patch, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath),
    request_body = TriggerChanges,
    responses((status = OK, body = TriggerView), WriteErrors, NotFound))]
pub(crate) async fn trigger_update(
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
pub(crate) async fn trigger_delete(
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
pub(crate) async fn trigger_evaluate(
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
