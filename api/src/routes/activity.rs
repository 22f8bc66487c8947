//! Activity: the events of the journal, the latest first, and those that agents record. Names, texts and
//! metadata of events are those that published clients read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use storage::model::id::Timestamp;
use storage::model::journal::{
    AgentActivity, DeliveryNext, EventKind, EventName, FiringResult, MemoryField,
};
use storage::model::score::rounded;
use storage::model::trigger::DeliveryId;
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ApiResult};
use crate::limits::ACTIVITY_METADATA_BYTES_MAX;
use crate::prelude::*;
use crate::requests::details::Exact;
use crate::requests::values::PageCursor;
use crate::responses::{Nullable, Time};
use crate::service::journal::EventView;

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActivityQuery {
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: ActivityLimit,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    pub(crate) cursor: Option<PageCursorText>,
    /// Only events of this memory. A request reads 10,000 events at most, so a page that is not the
    /// last may have fewer than `limit`, or none.
    pub(crate) node_id: Option<MemoryIdText>,
}

/// An activity of an agent.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"action": "deployed", "target_label": "version 2.1 to production", "metadata": {"by": "release-bot"}}))]
pub(crate) struct NewActivity {
    action: ActivityName,
    target_id: Option<ActivityTarget>,
    target_label: Option<ActivityTarget>,
    /// Any JSON, at most 8 KiB.
    #[schema(value_type = Option<Value>)]
    metadata: Option<Exact>,
}

impl NewActivity {
    pub(crate) fn into_activity(self) -> ApiResult<AgentActivity> {
        let metadata = self.metadata.map_or(Value::Null, |metadata| metadata.0).to_string();
        if metadata.len() > ACTIVITY_METADATA_BYTES_MAX {
            let message = format!("must have at most {ACTIVITY_METADATA_BYTES_MAX} bytes of JSON");
            return Err(ApiError::invalid("metadata", message));
        }
        let text =
            |text: Option<ActivityTarget>| text.map(|text| text.0).filter(|text| !text.is_empty());
        let (target_id, target_label) = (text(self.target_id), text(self.target_label));
        Ok(AgentActivity { action: self.action.0, target_id, target_label, metadata })
    }
}

/// The namespace of a read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespaceQuery {
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

/// Which events of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Kinds of events, comma-separated; absent is all.
    #[param(inline)]
    pub(crate) kind: Option<EventKinds>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
    /// The header `Last-Event-ID`, for clients that cannot set one.
    #[param(inline)]
    pub(crate) last_event_id: Option<EventIdText>,
}

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct ActivityPage {
    items: Vec<ActivityItem>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// An activity was recorded.
#[derive(Serialize, ToSchema)]
pub(crate) struct Recorded {
    /// Always true.
    ok: bool,
}

/// List events, the latest first.
#[utoipa::path(get, path = "/api/v1/activity", tag = "activity", params(ActivityQuery, ReadHeaders),
    responses((status = OK, body = ActivityPage), ReadErrors))]
pub(crate) async fn list_activity(
    ReaderRead(session, freshness): ReaderRead,
    ValidQuery(query): ValidQuery<ActivityQuery>,
) -> ApiResponse<ActivityPage> {
    let before = query.cursor.map(|cursor| cursor.0.0);
    let node_id = query.node_id.map(|id| id.0);
    let page = session.recent_events(before, query.limit.get(), node_id).await?;
    let items = page.items.iter().map(ActivityItem::from).collect();
    let next_cursor = page.next.map(|cursor| PageCursor(cursor).to_string());
    Ok(Success::ok(freshness, ActivityPage { items, next_cursor }))
}

/// Record an activity of an agent.
#[utoipa::path(post, path = "/api/v1/activity", tag = "activity", request_body = NewActivity,
    responses((status = CREATED, body = Recorded), WriteErrors))]
pub(crate) async fn record_activity(
    Agent(session): Agent,
    ValidJson(request): ValidJson<NewActivity>,
) -> ApiResponse<Recorded> {
    let done = session.record_activity(request.into_activity()?).await?;
    Ok(Success::created(done.freshness, Recorded { ok: true }))
}

/// Characters of a memory's label beside an event.
const LABEL_CHARS: usize = 120;
/// The actor of events that the service itself causes.
const SYSTEM: &str = "system";

/// An event of the activity list.
#[derive(Serialize, ToSchema)]
pub(crate) struct ActivityItem {
    id: String,
    /// Name of a key, or `system`.
    actor: String,
    /// `memory.add` and the like, or an agent's own action.
    action: String,
    target_id: Nullable<String>,
    target_label: Nullable<String>,
    /// Further details.
    metadata: Value,
    created_at: Time,
}

impl From<&EventView> for ActivityItem {
    fn from(view: &EventView) -> Self {
        let event = &view.event;
        let item = Self {
            id: PageCursor(view.cursor).to_string(),
            actor: view.actor.clone().unwrap_or_else(|| SYSTEM.to_owned()),
            action: action(&event.kind).to_owned(),
            target_id: event.subject.map(|id| id.to_string()),
            target_label: view.memory.as_ref().map(|memory| memory.label.clone()),
            metadata: metadata(&event.namespace, &event.kind),
            created_at: Time(event.at),
        };
        let mut item = match &event.kind {
            EventKind::Updated(fields) if fields[..] == [MemoryField::IsPinned] => {
                Self { action: "memory.pin".to_owned(), ..item }
            }
            EventKind::Deleted(label) => Self { target_label: non_empty(label), ..item },
            EventKind::TriggerFired(fired) => {
                Self { target_label: non_empty(&fired.label).or(item.target_label), ..item }
            }
            EventKind::Activity(activity) => Self {
                action: activity.action.clone(),
                target_id: activity.target_id.clone(),
                target_label: activity.target_label.clone(),
                metadata: serde_json::from_str(&activity.metadata).unwrap_or_default(),
                ..item
            },
            _ => item,
        };
        item.target_label =
            item.target_label.map(|label| label.chars().take(LABEL_CHARS).collect());
        item
    }
}

/// The data of an event of the stream.
#[derive(Serialize, ToSchema)]
pub(crate) struct StreamItem {
    /// The value for `Last-Event-ID`: cluster, Raft group, log index, ordinal.
    id: String,
    kind: &'static str,
    node_id: Nullable<String>,
    label: Nullable<String>,
    namespace: String,
    /// Name of a key, or `system`.
    actor: String,
    /// Further details, as in the activity list.
    metadata: Value,
    created_at: Time,
}

impl StreamItem {
    pub(crate) fn new(id: String, view: &EventView) -> Self {
        let item = ActivityItem::from(view);
        Self {
            id,
            kind: view.event.kind.name().name(),
            node_id: item.target_id,
            label: item.target_label,
            namespace: view.event.namespace.clone(),
            actor: item.actor,
            metadata: item.metadata,
            created_at: item.created_at,
        }
    }
}

/// `None` for a text that is absent.
pub(crate) fn non_empty(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// All kinds of events of the stream, in the order of the documentation.
pub(crate) fn stream_kinds() -> impl Iterator<Item = EventName> {
    EventName::ALL.into_iter().filter(|name| *name != EventName::Activity)
}

/// The name of an event in the activity list; empty for an agent's own activity.
fn action(kind: &EventKind) -> &'static str {
    match kind {
        EventKind::Created => "memory.add",
        EventKind::Updated(_) => "memory.patch",
        EventKind::Feedback(_) => "memory.feedback",
        EventKind::Warmed => "memory.warm",
        EventKind::Cooled => "memory.cool",
        EventKind::Archived => "memory.archive",
        EventKind::Restored => "memory.restore",
        EventKind::EdgeCreated { .. } => "edge.add",
        EventKind::EdgeDeleted { .. } => "edge.delete",
        EventKind::Deleted(_) => "memory.delete",
        EventKind::TriggerFired(_) => "trigger.fire",
        EventKind::Delivered { .. } => "webhook.deliver",
        EventKind::DeliveryFailed { .. } => "webhook.fail",
        EventKind::FiringsSkipped(_) => "trigger.skip",
        EventKind::Activity(_) => "",
    }
}

fn metadata(namespace: &str, kind: &EventKind) -> Value {
    let mut metadata = json!({ "namespace": namespace });
    let details = match kind {
        EventKind::Updated(fields) => {
            json!({ "fields": fields.iter().map(|field| field.name()).collect::<Vec<_>>() })
        }
        EventKind::Feedback(signal) => json!({ "signal": signal.name() }),
        EventKind::EdgeCreated { other, relation } | EventKind::EdgeDeleted { other, relation } => {
            json!({ "other_id": other.to_string(), "relation": relation })
        }
        EventKind::TriggerFired(fired) => json!({
            "trigger_id": fired.trigger.to_string(),
            "trigger_name": fired.trigger_name,
            "event": fired.event.name(),
            "trigger_action": fired.action.name(),
            "label": non_empty(&fired.label),
            "result": result_text(&fired.result),
        }),
        EventKind::FiringsSkipped(count) => json!({ "skipped": count }),
        EventKind::Delivered { delivery, attempt, status } => {
            attempt_metadata(*delivery, *attempt, &status.to_string(), "delivered")
        }
        EventKind::DeliveryFailed { delivery, attempt, reason, next } => {
            attempt_metadata(*delivery, *attempt, reason, &next_text(*next))
        }
        _ => json!({}),
    };
    if let (Value::Object(metadata), Value::Object(details)) = (&mut metadata, details) {
        metadata.extend(details);
    }
    metadata
}

fn attempt_metadata(delivery: DeliveryId, attempt: u32, result: &str, next: &str) -> Value {
    json!({
        "trigger_id": delivery.trigger.to_string(),
        "delivery_id": delivery.to_string(),
        "attempt": attempt,
        "result": result,
        "next": next,
    })
}

/// The result of a trigger's action, as a text.
pub(crate) fn result_text(result: &FiringResult) -> String {
    match result {
        FiringResult::HeatChanged { from, to } => {
            format!("heat {} to {}", rounded(*from), rounded(*to))
        }
        FiringResult::Pinned => "pinned".to_owned(),
        FiringResult::AlreadyPinned => "was pinned already".to_owned(),
        FiringResult::Tagged(tag) => tag.clone(),
        FiringResult::AlreadyTagged => "has the tag already".to_owned(),
        FiringResult::NoTagWords => "the label has no words to make a tag of".to_owned(),
        FiringResult::NoTagRoom => "the label has no room for a tag".to_owned(),
        FiringResult::Notified(message) => message.clone(),
        FiringResult::Enqueued(delivery) => delivery.to_string(),
        FiringResult::Dropped => "dropped".to_owned(),
    }
}

/// What follows a failed attempt, as a text.
pub(crate) fn next_text(next: DeliveryNext) -> String {
    match next {
        DeliveryNext::Retry(after_micros) => {
            format!("retried in {} s", after_micros / Timestamp::SECOND_MICROS)
        }
        DeliveryNext::DeadLettered => "dead-lettered".to_owned(),
        DeliveryNext::TriggerDisabled => "dead-lettered, the trigger is disabled".to_owned(),
    }
}
