//! Webhook deliveries: pending ones, dead letters, and their replay. Delivered ones are in the
//! trigger history.

use axum::extract::State;
use serde::Serialize;
use storage::model::delivery::{Delivery, DeliveryId, DeliveryStage};
use storage::model::trigger::TriggerEvent;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller};
use crate::openapi::{NotFound, ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::headers::Fresh;
use crate::requests::triggers::{DeliveryQuery, Replay};
use crate::requests::{ValidJson, ValidQuery};
use crate::responses::{Respond, timestamp, word};
use crate::service::error::ApiResult;
use crate::words::DeliveryStatus;

/// A page of deliveries.
#[derive(Serialize, ToSchema)]
pub(crate) struct DeliveryPage {
    /// By trigger, in the order of its firings.
    items: Vec<DeliveryView>,
    /// Cursor of the next page; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// A delivery.
#[derive(Serialize, ToSchema)]
struct DeliveryView {
    /// The `webhook-id` of its requests.
    id: String,
    #[schema(format = Uuid)]
    trigger_id: String,
    trigger_name: String,
    #[schema(schema_with = word::<TriggerEvent>)]
    event: &'static str,
    #[schema(format = Uuid)]
    node_id: String,
    namespace: String,
    #[schema(schema_with = word::<DeliveryStatus>)]
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

/// Dead letters that were made pending again.
#[derive(Serialize, ToSchema)]
pub(crate) struct Replayed {
    replayed: usize,
    /// Whether there are more: repeat the request.
    has_more: bool,
}

/// List pending deliveries and dead letters.
#[utoipa::path(get, path = "/api/v1/triggers/deliveries", tag = "triggers",
    params(DeliveryQuery, Fresh),
    responses((status = OK, body = DeliveryPage), ReadErrors))]
pub(crate) async fn delivery_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    ValidQuery(query): ValidQuery<DeliveryQuery>,
) -> ApiResult<Respond<DeliveryPage>> {
    let (limit, cursor) = (query.limit(), query.cursor.map(|cursor| cursor.0));
    let wanted = query.status.map(|status| status.0);
    let (tenant, access) = (caller.tenant, caller.access);
    let read = move |reader: &storage::Reader| {
        let is_wanted = |delivery: &Delivery| {
            wanted.is_none_or(|wanted| wanted == DeliveryStatus::from(&delivery.stage))
                && access.allows(&delivery.namespace)
        };
        reader.deliveries(tenant, cursor, limit, is_wanted)
    };
    let page = app.service().read(read).await?;
    let view = |(id, delivery): &(DeliveryId, Delivery)| DeliveryView::new(*id, delivery);
    let items = page.deliveries.iter().map(view).collect();
    let body = DeliveryPage { items, next_cursor: page.next.map(|id| id.to_string()) };
    Ok(Respond::ok(freshness, body))
}

/// Make dead letters pending again: one, or all if none is named.
#[utoipa::path(post, path = "/api/v1/triggers/deliveries/replay", tag = "triggers",
    request_body = Replay,
    responses((status = OK, body = Replayed), WriteErrors, NotFound))]
pub(crate) async fn delivery_replay(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    ValidJson(request): ValidJson<Replay>,
) -> ApiResult<Respond<Replayed>> {
    let id = request.id.map(|id| id.0);
    let result = app.service().replay_deliveries(&caller, id).await?;
    let body = Replayed { replayed: result.replayed, has_more: result.has_more };
    Ok(Respond::ok(result.freshness, body))
}

impl From<&DeliveryStage> for DeliveryStatus {
    fn from(stage: &DeliveryStage) -> Self {
        match stage {
            DeliveryStage::Pending(_) => Self::Pending,
            DeliveryStage::DeadLettered(_) => Self::DeadLetter,
        }
    }
}

impl DeliveryView {
    fn new(id: DeliveryId, delivery: &Delivery) -> Self {
        let (due_at, dead_lettered_at) = match delivery.stage {
            DeliveryStage::Pending(at) => (Some(timestamp(at)), None),
            DeliveryStage::DeadLettered(at) => (None, Some(timestamp(at))),
        };
        Self {
            id: id.to_string(),
            trigger_id: id.trigger.to_string(),
            trigger_name: delivery.trigger_name.clone(),
            event: delivery.event.name(),
            node_id: delivery.memory.to_string(),
            namespace: delivery.namespace.clone(),
            status: DeliveryStatus::from(&delivery.stage).name(),
            attempts: delivery.attempts,
            reason: Some(delivery.reason.clone()).filter(|reason| !reason.is_empty()),
            due_at,
            dead_lettered_at,
            fired_at: timestamp(delivery.fired_at),
        }
    }
}
