//! What fired triggers owe to the world: what is pending, dead letters, and their replay. Attempts
//! are in the history of triggers.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::delivery::{Delivery, DeliveryId, DeliveryStage};
use storage::{Action, Reply};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Query};
use crate::limits::{BULK_DEADLINE, HISTORY_DEFAULT, HISTORY_MAX};
use crate::openapi::{Missing, Reading, Writing};
use crate::wire::requests::Fresh;
use crate::wire::{schema, timestamp, trigger_requests as requests};
use crate::write::ask;

/// A page of deliveries.
#[derive(Serialize, ToSchema)]
struct DeliveryList {
    /// By trigger, in the order of its firings.
    items: Vec<ShownDelivery>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A delivery.
#[derive(Serialize, ToSchema)]
struct ShownDelivery {
    /// The `webhook-id` of its requests.
    id: String,
    #[schema(format = Uuid)]
    trigger_id: String,
    trigger_name: String,
    #[schema(schema_with = schema::trigger_event)]
    event: &'static str,
    #[schema(format = Uuid)]
    node_id: String,
    namespace: String,
    #[schema(schema_with = schema::delivery_status)]
    status: &'static str,
    attempts: u32,
    /// Why the last attempt failed.
    #[schema(required)]
    reason: Option<String>,
    /// When the next attempt is due.
    #[schema(required, format = DateTime)]
    due_at: Option<String>,
    #[schema(required, format = DateTime)]
    dead_lettered_at: Option<String>,
    #[schema(format = DateTime)]
    fired_at: String,
}

/// Dead letters that are pending again.
#[derive(Serialize, ToSchema)]
struct Replayed {
    replayed: usize,
    /// Whether there are more: ask again.
    has_more: bool,
}

/// List deliveries that are pending, and dead letters. What was delivered is in the history.
#[utoipa::path(get, path = "/api/v1/triggers/deliveries", tag = "triggers",
    params(requests::DeliveryQuery, Fresh),
    responses((status = OK, body = DeliveryList), Reading))]
pub(crate) async fn delivery_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Query(query): Query,
) -> ApiResult<Response> {
    let limit = query.clamped("limit", HISTORY_DEFAULT, 1, HISTORY_MAX)?;
    let cursor = query.one_of("cursor", id, "the next_cursors of pages")?;
    let status = |name: &str| STATUSES.into_iter().find(|status| *status == name);
    let status = query.one_of("status", status, "pending, dead_letter")?;
    let (tenant, access) = (caller.tenant, caller.access);
    let page = app
        .read(move |reader| {
            let wanted = |delivery: &Delivery| {
                status.is_none_or(|wanted| wanted == status_of(delivery))
                    && access.allows(&delivery.namespace)
            };
            reader.deliveries(tenant, cursor, limit, wanted)
        })
        .await?;
    let items = page.deliveries.iter().map(|(id, delivery)| shown(*id, delivery)).collect();
    let body = DeliveryList { items, next_cursor: page.next.map(|id| id.to_string()) };
    Ok((freshness, Json(body)).into_response())
}

/// Send dead letters anew: one, or all if none is named.
#[utoipa::path(post, path = "/api/v1/triggers/deliveries/replay", tag = "triggers",
    request_body = requests::Replay,
    responses((status = OK, body = Replayed), Writing, Missing))]
pub(crate) async fn delivery_replay(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let one = body.fields.one_of("id", id, "the ids of deliveries")?;
    let until = Instant::now() + BULK_DEADLINE;
    let (mut replayed, mut last) = (0, None);
    loop {
        let answer = match ask(&app, &caller, None, Action::ReplayDeliveries(one)).await {
            Ok(answer) => answer,
            // What is done is told; the rest may be asked for again.
            Err(error) => match last {
                Some(freshness) if replayed > 0 => {
                    let body = Replayed { replayed, has_more: true };
                    return Ok((freshness, Json(body)).into_response());
                }
                _ => return Err(error),
            },
        };
        let Reply::ReplayedDeliveries { count, has_more } = answer.reply else {
            return Err(ApiError::internal());
        };
        replayed += count;
        let freshness: Freshness = answer.freshness;
        last = Some(freshness);
        if !has_more || count == 0 || Instant::now() >= until {
            let body = Replayed { replayed, has_more };
            return Ok((freshness, Json(body)).into_response());
        }
    }
}

/// What may become of a delivery before it arrives.
pub(crate) const STATUSES: [&str; 2] = ["pending", "dead_letter"];

fn status_of(delivery: &Delivery) -> &'static str {
    match delivery.stage {
        DeliveryStage::Pending(_) => STATUSES[0],
        DeliveryStage::DeadLettered(_) => STATUSES[1],
    }
}

fn id(text: &str) -> Option<DeliveryId> {
    text.parse().ok()
}

fn shown(id: DeliveryId, delivery: &Delivery) -> ShownDelivery {
    let (due_at, dead_lettered_at) = match delivery.stage {
        DeliveryStage::Pending(at) => (Some(timestamp(at)), None),
        DeliveryStage::DeadLettered(at) => (None, Some(timestamp(at))),
    };
    ShownDelivery {
        id: id.to_string(),
        trigger_id: id.trigger.to_string(),
        trigger_name: delivery.trigger_name.clone(),
        event: delivery.event.name(),
        node_id: delivery.memory.to_string(),
        namespace: delivery.namespace.clone(),
        status: status_of(delivery),
        attempts: delivery.attempts,
        reason: Some(delivery.reason.clone()).filter(|reason| !reason.is_empty()),
        due_at,
        dead_lettered_at,
        fired_at: timestamp(delivery.fired_at),
    }
}
