//! Triggers: rules that fire on what happens to memories, and what they did.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::id::TriggerId;
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::tenant::Caller;
use storage::model::trigger::{Trigger, TriggerEvent};
use storage::{Action, EventPage, Reply, TriggerEvaluation, TriggerPatch, View};
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller, may_read};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Query, TriggerPath};
use crate::limits::{DEADLINE, HISTORY_DEFAULT, HISTORY_LOOKS_MAX, HISTORY_MAX, TRIGGERS_PAGE};
use crate::openapi::{Asking, Missing, Reading, Writing, WritingOnce};
use crate::routes::activity::{named, parsed};
use crate::wire::memory::Gone;
use crate::wire::requests::{Fresh, Once};
use crate::wire::trigger::{EVENTS, ShownTrigger, event, new_trigger, patch};
use crate::wire::{self, schema, trigger_requests as requests};
use crate::write::{Write, ask};

/// All triggers of a tenant.
#[derive(Serialize, ToSchema)]
struct TriggerList {
    /// In the order in which they are asked: that of their creation.
    items: Vec<ShownTrigger>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A page of what triggers did.
#[derive(Serialize, ToSchema)]
struct History {
    items: Vec<Firing>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A firing, or an attempt to deliver what it pending.
#[derive(Serialize, ToSchema)]
struct Firing {
    id: String,
    /// `firing`, or `attempt` to deliver.
    kind: &'static str,
    #[schema(format = Uuid)]
    trigger_id: String,
    /// Its name when it fired; null of an attempt.
    #[schema(required)]
    trigger_name: Option<String>,
    #[schema(required)]
    event: Option<String>,
    action: String,
    /// The same, by another name.
    action_taken: String,
    #[schema(required, format = Uuid)]
    node_id: Option<String>,
    /// The beginning of what the memory said then.
    #[schema(required)]
    node_label: Option<String>,
    /// What came of it.
    result: String,
    /// What was pending, by the `webhook-id` of its requests.
    #[schema(required)]
    delivery_id: Option<String>,
    /// Number of the attempt, from 1.
    #[schema(required)]
    attempt: Option<u32>,
    #[schema(format = DateTime)]
    fired_at: String,
}

/// What each trigger would do.
#[derive(Serialize, ToSchema)]
struct Evaluation {
    #[schema(schema_with = schema::trigger_event)]
    event: &'static str,
    #[schema(format = Uuid)]
    node_id: String,
    /// In the order in which they are asked.
    items: Vec<Evaluated>,
}

/// What a trigger would do.
#[derive(Serialize, ToSchema)]
struct Evaluated {
    #[schema(format = Uuid)]
    trigger_id: String,
    trigger_name: String,
    #[schema(schema_with = schema::trigger_action)]
    action: &'static str,
    would_fire: bool,
    /// The field that keeps it from firing, or `access`, `not_crossed` or `no_room`; null if it
    /// would fire.
    #[schema(required)]
    reason: Option<&'static str>,
}

/// List the triggers; their own to keys for which a namespace is closed.
#[utoipa::path(get, path = "/api/v1/triggers", tag = "triggers",
    params(requests::TriggerQuery, Fresh),
    responses((status = OK, body = TriggerList), Reading))]
pub(crate) async fn trigger_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Query(query): Query,
) -> ApiResult<Response> {
    let wanted = query.one_of("event", event, EVENTS)?;
    let limit = query.clamped("limit", TRIGGERS_PAGE, 1, TRIGGERS_PAGE)?;
    let number = |text: &str| text.parse::<u64>().ok();
    let after = query.one_of("cursor", number, "the next_cursors of pages")?.unwrap_or(0);
    let body = app
        .read(move |reader| {
            let mut all = reader.triggers(caller.tenant);
            all.retain(|(compiled, _)| {
                let trigger = &compiled.trigger;
                let of_event = wanted.is_none_or(|wanted| wanted == trigger.event);
                trigger.number > after && of_event && may_see(&caller, trigger)
            });
            let next = all.get(limit).and_then(|_| all.get(limit - 1));
            let next_cursor = next.map(|(last, _)| last.trigger.number.to_string());
            let items = all.iter().take(limit).map(|(compiled, firings)| {
                ShownTrigger::new(&caller, compiled.id, &compiled.trigger, firings)
            });
            Ok(TriggerList { items: items.collect(), next_cursor })
        })
        .await?;
    Ok((freshness, Json(body)).into_response())
}

/// A trigger that was made; or gone since, when an earlier request made it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum Made {
    Trigger(Box<ShownTrigger>),
    Gone(Gone),
}

/// Make a trigger.
#[utoipa::path(post, path = "/api/v1/triggers", tag = "triggers", params(Once),
    request_body = requests::NewTrigger,
    responses((status = CREATED, body = Made), WritingOnce))]
pub(crate) async fn trigger_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    write: Write,
) -> ApiResult<Response> {
    let id = TriggerId(Uuid::now_v7().into_bytes());
    let trigger = new_trigger(id, write.fields(), app.hooks())?;
    // A trigger bound to a closed namespace could never fire.
    for namespace in [&trigger.namespace, &trigger.filter.namespace].into_iter().flatten() {
        may_read(&caller, namespace)?;
    }
    let action = Action::CreateTrigger(id, Box::new(trigger));
    let answer = write.submit_secret(&app, &caller, StatusCode::CREATED, action).await?;
    let made = match answer.reply {
        Reply::Trigger(id, trigger, firings) => {
            Made::Trigger(Box::new(ShownTrigger::new(&caller, id, &trigger, &firings)))
        }
        Reply::Replayed { memories: gone, .. } => {
            let (id, _) = gone.first().ok_or_else(ApiError::internal)?;
            Made::Gone(TriggerId(id.0).into())
        }
        _ => return Err(ApiError::internal()),
    };
    Ok((StatusCode::CREATED, answer.freshness, Json(made)).into_response())
}

/// Get a trigger.
#[utoipa::path(get, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath, Fresh),
    responses((status = OK, body = ShownTrigger), Reading, Missing))]
pub(crate) async fn trigger_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    TriggerPath(id): TriggerPath,
) -> ApiResult<Response> {
    let tenant = caller.tenant;
    let found =
        app.read(move |reader| Ok((reader.trigger(tenant, id)?, reader.firings(tenant, id))));
    let (trigger, firings) = found.await?;
    let trigger = trigger.filter(|trigger| may_see(&caller, trigger)).ok_or_else(no_trigger)?;
    Ok((freshness, Json(ShownTrigger::new(&caller, id, &trigger, &firings))).into_response())
}

/// Change a trigger; `null` empties a filter or a limit.
#[utoipa::path(patch, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath),
    request_body = requests::TriggerChanges,
    responses((status = OK, body = ShownTrigger), Writing, Missing))]
pub(crate) async fn trigger_update(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    TriggerPath(id): TriggerPath,
    body: Body,
) -> ApiResult<Response> {
    let tenant = caller.tenant;
    let read = async || app.read(move |reader| reader.trigger(tenant, id)).await;
    let mut trigger = read().await?;
    if trigger.is_none() {
        // It may have been made through another node.
        app.raft().read_index(Instant::now() + DEADLINE).await?;
        trigger = read().await?;
    }
    let trigger = trigger.ok_or_else(no_trigger)?;
    if !may_see(&caller, &trigger) {
        return Err(storage::Rejection::NotOwner.into());
    }
    let patch: TriggerPatch = patch(&body.fields, (id, &trigger), app.hooks())?;
    for namespace in [&patch.namespace, &patch.filter_namespace].into_iter().flatten().flatten() {
        may_read(&caller, namespace)?;
    }
    let action = Action::UpdateTrigger(id, Box::new(patch));
    let answer = ask(&app, &caller, None, action).await?;
    let Reply::Trigger(id, trigger, firings) = answer.reply else {
        return Err(ApiError::internal());
    };
    let body = ShownTrigger::new(&caller, id, &trigger, &firings);
    Ok((answer.freshness, Json(body)).into_response())
}

/// Delete a trigger. What it did stays in the history; what it owes is cancelled.
#[utoipa::path(delete, path = "/api/v1/triggers/{id}", tag = "triggers", params(TriggerPath),
    responses((status = NO_CONTENT), Writing, Missing))]
pub(crate) async fn trigger_delete(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    TriggerPath(id): TriggerPath,
) -> ApiResult<Response> {
    let answer = ask(&app, &caller, None, Action::DeleteTrigger(id)).await?;
    Ok((StatusCode::NO_CONTENT, answer.freshness).into_response())
}

/// List what triggers did, the latest first.
#[utoipa::path(get, path = "/api/v1/triggers/history", tag = "triggers",
    params(requests::HistoryQuery, Fresh),
    responses((status = OK, body = History), Reading))]
pub(crate) async fn trigger_history(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Query(query): Query,
) -> ApiResult<Response> {
    let limit = query.clamped("limit", HISTORY_DEFAULT, 1, HISTORY_MAX)?;
    let mut before = query.either(&["before", "cursor"], |query, name| {
        query.text(name, 64)?.map(|text| parsed(&text, name)).transpose()
    })?;
    let id = |text: &str| text.parse::<TriggerId>().ok();
    let trigger = query.one_of("trigger_id", id, "the ids of triggers, UUIDs")?;
    let kind = |name: &str| Kinds::ALL.into_iter().find(|kinds| kinds.name() == name);
    let kinds = query.one_of("kind", kind, "firing, attempt, all")?.unwrap_or(Kinds::Firing);
    let (tenant, access) = (caller.tenant, caller.access.clone());
    let trigger = trigger.map(|id| id.to_string());
    let (events, next) = app
        .read(move |reader| {
            let wanted = |event: &Event| {
                let of = trigger.as_ref().is_none_or(|id| event.details.first() == Some(id));
                kinds.hold(event.kind) && of && access.allows(&event.namespace)
            };
            let mut found = Vec::new();
            for _ in 0..HISTORY_LOOKS_MAX {
                let left = limit - found.len();
                let EventPage { events, next } =
                    reader.trigger_journal(tenant, before, left, wanted)?;
                found.extend(events);
                before = next;
                if next.is_none() || found.len() == limit {
                    break;
                }
            }
            Ok((found, before))
        })
        .await?;
    let items = events.iter().map(firing).collect();
    let body = History { items, next_cursor: next.map(named) };
    Ok((freshness, Json(body)).into_response())
}

/// Say which triggers would fire if something happened to a memory now, and why the others
/// would not. For what ticks find: if one came now. Nothing fires.
#[utoipa::path(post, path = "/api/v1/triggers/evaluate", tag = "triggers", params(Fresh),
    request_body = requests::Evaluate,
    responses((status = OK, body = Evaluation), Asking, Missing))]
pub(crate) async fn trigger_evaluate(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    body: Body,
) -> ApiResult<Response> {
    let on = body.fields.one_of("event", event, EVENTS)?;
    let on: TriggerEvent = on.ok_or_else(|| ApiError::invalid("event", "is required"))?;
    let id = body.fields.memory_id("node_id")?;
    let tenant = caller.tenant;
    let (memory, evaluations) = app
        .read(move |reader| {
            Ok((reader.get(tenant, id)?, storage::evaluate(reader, tenant, on, id)?))
        })
        .await?;
    let (Some(record), Some(evaluations)) = (memory, evaluations) else {
        return Err(storage::Rejection::NotFound.into());
    };
    may_read(&caller, &record.memory.namespace)?;
    let evaluations = evaluations.iter().filter(|(_, trigger, _)| may_see(&caller, trigger));
    let items = evaluations.map(|(id, trigger, evaluation): &TriggerEvaluation| Evaluated {
        trigger_id: id.to_string(),
        trigger_name: trigger.name.clone(),
        action: trigger.action.name(),
        would_fire: evaluation.is_ok(),
        reason: evaluation.err().map(|why| why.name()),
    });
    let (event, node_id) = (on.name(), id.to_string());
    let body = Evaluation { event, node_id, items: items.collect() };
    Ok((freshness, Json(body)).into_response())
}

/// Keys for which a namespace is closed know of their own triggers only.
fn may_see(caller: &Caller, trigger: &Trigger) -> bool {
    caller.access.is_whole() || trigger.owner == Some(caller.key)
}

fn no_trigger() -> ApiError {
    storage::Rejection::NoSuch("trigger".into()).into()
}

/// Which entries of the history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    Firing,
    Attempt,
    All,
}

impl Kinds {
    const ALL: [Self; 3] = [Self::Firing, Self::Attempt, Self::All];

    fn name(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Attempt => "attempt",
            Self::All => "all",
        }
    }

    fn hold(self, kind: EventKind) -> bool {
        match kind {
            EventKind::Fired => self != Self::Attempt,
            EventKind::Delivered | EventKind::DeliveryFailed => self != Self::Firing,
            _ => false,
        }
    }
}

/// An entry of the journal as an entry of the history.
fn firing((cursor, event): &(Cursor, Event)) -> Firing {
    let detail = |at: usize| event.details.get(at).cloned().unwrap_or_default();
    let is_firing = event.kind == EventKind::Fired;
    let webhook = "webhook".to_owned();
    let (action, result) = match is_firing {
        true => (detail(3), detail(5)),
        false => (webhook.clone(), format!("{}, {}", detail(3), detail(4))),
    };
    let delivery = match is_firing {
        true => Some(detail(5)).filter(|result| action == webhook && result.starts_with("msg_")),
        false => Some(detail(1)),
    };
    Firing {
        id: named(*cursor),
        kind: if is_firing { "firing" } else { "attempt" },
        trigger_id: detail(0),
        trigger_name: is_firing.then(|| detail(1)),
        event: is_firing.then(|| detail(2)),
        action_taken: action.clone(),
        action,
        node_id: event.subject.map(|id| id.to_string()),
        node_label: is_firing.then(|| detail(4)),
        result,
        delivery_id: delivery,
        attempt: detail(2).parse().ok().filter(|_| !is_firing),
        fired_at: wire::timestamp(event.at),
    }
}
