//! Triggers: rules that fire on memory events.

use storage::TriggerPatch;
use storage::model::id::{Timestamp, TriggerId};
use storage::model::trigger::{Trigger, TriggerAction, TriggerFilter};
use uuid::Uuid;

use crate::prelude::*;
use crate::requests::triggers::{ActionConfig, Evaluate, NewTrigger, TriggerChanges, TriggerQuery};
use crate::requests::values::{FullText, Text, non_empty};
use crate::responses::NoContent;
use crate::responses::memory::Deleted;
use crate::responses::trigger::TriggerView;
use crate::service::Service;
use crate::service::triggers::CreatedTrigger;

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
#[utoipa::path(get, path = "/api/v1/triggers", tag = "triggers", params(TriggerQuery, Fresh),
    responses((status = OK, body = TriggerList), ReadErrors))]
pub(crate) async fn trigger_list(
    ReaderRead(session, freshness): ReaderRead,
    ValidQuery(query): ValidQuery<TriggerQuery>,
) -> ApiResponse<TriggerList> {
    let event = query.event.map(|event| event.0);
    let after = query.cursor.map_or(0, |cursor| cursor.0);
    let page = session.triggers(event, after, query.limit.get()).await?;
    let items = page.triggers.iter().map(|(compiled, firings)| {
        TriggerView::new(&session.caller, compiled.id, &compiled.trigger, firings)
    });
    let items = items.collect();
    let body = TriggerList { items, next_cursor: page.next.map(|number| number.to_string()) };
    Ok(Respond::ok(freshness, body))
}

/// Create a trigger.
#[utoipa::path(post, path = "/api/v1/triggers", tag = "triggers", params(Once),
    request_body = NewTrigger,
    responses((status = CREATED, body = TriggerOrDeleted), IdempotentErrors))]
pub(crate) async fn trigger_create(
    Agent(session): Agent,
    write: Write<NewTrigger>,
) -> ApiResponse<TriggerOrDeleted> {
    let id = TriggerId(Uuid::now_v7().into_bytes());
    let trigger = new_trigger(&session.service, id, write.body)?;
    let done = session.create_trigger(write.receipt, id, trigger).await?;
    let body = match done.value {
        CreatedTrigger(id, Some((trigger, firings))) => TriggerOrDeleted::Trigger(Box::new(
            TriggerView::new(&session.caller, id, &trigger, &firings),
        )),
        CreatedTrigger(id, None) => TriggerOrDeleted::Deleted(Deleted::new(id.0)),
    };
    Ok(Respond::created(done.freshness, body))
}

/// Get a trigger.
#[utoipa::path(get, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath, Fresh),
    responses((status = OK, body = TriggerView), ReadErrors, NotFound))]
pub(crate) async fn trigger_get(
    ReaderRead(session, freshness): ReaderRead,
    TriggerPath(id): TriggerPath,
) -> ApiResponse<TriggerView> {
    let (trigger, firings) = session.trigger(id).await?;
    Ok(Respond::ok(freshness, TriggerView::new(&session.caller, id, &trigger, &firings)))
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
    let trigger = session.modifiable_trigger(id).await?;
    let patch = patch(&session.service, id, &trigger, request)?;
    let done = session.update_trigger(id, patch).await?;
    let (trigger, firings) = done.value;
    Ok(Respond::ok(done.freshness, TriggerView::new(&session.caller, id, &trigger, &firings)))
}

/// Delete a trigger. Its history stays; its pending deliveries are cancelled.
#[utoipa::path(delete, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath),
    responses((status = NO_CONTENT), WriteErrors, NotFound))]
pub(crate) async fn trigger_delete(
    Agent(session): Agent,
    TriggerPath(id): TriggerPath,
) -> ApiResult<NoContent> {
    Ok(NoContent(session.submit::<()>(Action::DeleteTrigger(id)).await?.freshness))
}

/// Evaluate which triggers would fire if an event happened to a memory now, and why the others
/// would not. For `on_decay` and `on_threshold`: if a tick came now. Nothing fires.
#[utoipa::path(post, path = "/api/v1/triggers/evaluate", tag = "triggers", params(Fresh),
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
    Ok(Respond::ok(freshness, Evaluation { event: OneOf(event), node_id: Id(id), items }))
}

/// The trigger of a request; the decision sets its number, owner and times.
fn new_trigger(service: &Service, id: TriggerId, request: NewTrigger) -> ApiResult<Trigger> {
    let (event, kind) = (request.event.0, request.action.0);
    let config = request.action_config.unwrap_or_default().0;
    let action = service.trigger_action(id, kind, config);
    let name = request.name.map(|name| name.0).filter(|name| !name.trim().is_empty());
    Ok(Trigger {
        number: 0,
        name: name.unwrap_or_else(|| format!("{} {}", event.name(), kind.name())),
        description: request.description.map(|text| text.0).unwrap_or_default(),
        event,
        action: action.map_err(|error| error.within("action_config"))?,
        namespace: request.namespace.and_then(bound_namespace),
        filter: TriggerFilter {
            memory_type: request.filter_memory_type.and_then(|it| it.0),
            namespace: request.filter_namespace.and_then(bound_namespace),
            label_pattern: non_empty(request.filter_label_pattern),
            heat_below: request.filter_heat_below.map(|heat| rounded(heat.0)),
            heat_above: request.filter_heat_above.map(|heat| rounded(heat.0)),
        },
        max_fires: request.max_fires.map(|it| it.0),
        cooldown_seconds: request.cooldown_seconds.map_or(0, |it| it.0 as u32),
        enabled: request.enabled.unwrap_or(true),
        owner: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    })
}

/// The changes of a request to `trigger`.
fn patch(
    service: &Service,
    id: TriggerId,
    trigger: &Trigger,
    request: TriggerChanges,
) -> ApiResult<TriggerPatch> {
    let kind = trigger.action.kind();
    for (name, sent, kept) in
        [("event", &request.event, trigger.event.name()), ("action", &request.action, kind.name())]
    {
        if sent.as_ref().is_some_and(|sent| sent.0 != kept) {
            let message = format!("is {kept} and cannot change: create another trigger");
            return Err(ApiError::invalid(name, message));
        }
    }
    let mut config = request.action_config.map(|config| config.0);
    let keep_url = config.as_ref().is_some_and(|config| config.url.is_none());
    let drop_secret = config.as_ref().is_some_and(ActionConfig::drops_secret);
    // The decision keeps the present address; this one only passes the check.
    if let (Some(config), TriggerAction::Webhook { url, .. }) = (&mut config, &trigger.action) {
        config.url.get_or_insert_with(|| FullText(url.clone()));
    }
    let action = config.map(|config| service.trigger_action(id, kind, config));
    let action = action.transpose().map_err(|error| error.within("action_config"))?;
    Ok(TriggerPatch {
        name: request.name.map(|name| name.0),
        description: request.description.map(|text| text.0),
        action,
        drop_secret,
        keep_url,
        namespace: request.namespace.map(|it| it.and_then(bound_namespace)),
        memory_type: request.filter_memory_type.map(|it| it.and_then(|it| it.0)),
        filter_namespace: request.filter_namespace.map(|it| it.and_then(bound_namespace)),
        label_pattern: request.filter_label_pattern.map(non_empty),
        heat_below: request.filter_heat_below.map(|it| it.map(|heat| rounded(heat.0))),
        heat_above: request.filter_heat_above.map(|it| it.map(|heat| rounded(heat.0))),
        max_fires: request.max_fires.map(|it| it.map(|it| it.0)),
        cooldown_seconds: request.cooldown_seconds.map(|it| it.0 as u32),
        enabled: request.enabled,
        reset_count: request.reset_count.or(request.reset_fire_count).unwrap_or(false),
    })
}

/// Published clients send an empty namespace, or `*`, for none.
fn bound_namespace<const MAX: usize>(namespace: Text<MAX>) -> Option<String> {
    Some(namespace.0).filter(|name| !name.trim().is_empty() && name != "*")
}
