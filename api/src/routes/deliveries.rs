//! Webhook deliveries: pending ones, dead letters, and their replay. Delivered ones are in the
//! trigger history.

use storage::model::delivery::{Delivery, DeliveryId, DeliveryStage};

use crate::prelude::*;
use crate::requests::triggers::{DeliveryQuery, Replay};
use crate::words::DeliveryStatus;

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
pub(crate) async fn delivery_list(
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
pub(crate) async fn delivery_replay(
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
