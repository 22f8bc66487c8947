//! Triggers in responses, and the notifications of those that fired.

use serde::Serialize;
use serde_json::{Value, json};
use storage::model::access::Caller;
use storage::model::id::TriggerId;
use storage::model::tenant::Role;
use storage::model::trigger::{Firings, Notification, Trigger, TriggerAction};
use url::{Position, Url};
use utoipa::ToSchema;

use crate::limits::{NOTIFICATIONS_BYTES_MAX, NOTIFICATIONS_MAX};
use crate::requests::fields::*;
use crate::requests::values::{Id, OneOf};
use crate::responses::{Nullable, Time};

/// A response with the notifications of the triggers that fired.
#[derive(Serialize, ToSchema)]
pub(crate) struct WithNotifications<T: ToSchema> {
    #[serde(flatten)]
    body: T,
    /// The first ones, at most 500 and 64 KiB of text. Absent if no `notify` trigger fired.
    // `default` documents that it may be absent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    trigger_notifications: Vec<NotificationView>,
}

impl<T: ToSchema> WithNotifications<T> {
    pub(crate) fn new(body: T, fired: &[Notification]) -> Self {
        Self { body, trigger_notifications: notifications(fired) }
    }
}

/// The first notifications, as far as a response has room.
pub(crate) fn notifications(fired: &[Notification]) -> Vec<NotificationView> {
    let mut room = NOTIFICATIONS_BYTES_MAX;
    let fits = |notification: &&Notification| {
        let bytes = notification.trigger_name.len() + notification.message.len();
        room.checked_sub(bytes).map(|rest| room = rest).is_some()
    };
    fired.iter().take(NOTIFICATIONS_MAX).take_while(fits).map(Into::into).collect()
}

/// The notification of a trigger.
#[derive(Serialize, ToSchema)]
pub(crate) struct NotificationView {
    trigger_id: TriggerIdText,
    trigger_name: String,
    /// Name of the key that owns the trigger, and so wrote the message.
    owner: Nullable<String>,
    event: EventWord,
    node_id: MemoryIdText,
    message: String,
}

impl From<&Notification> for NotificationView {
    fn from(notification: &Notification) -> Self {
        Self {
            trigger_id: Id(notification.trigger),
            trigger_name: notification.trigger_name.clone(),
            owner: notification.owner.clone(),
            event: OneOf(notification.event),
            node_id: Id(notification.memory),
            message: notification.message.clone(),
        }
    }
}

/// A trigger.
#[derive(Serialize, ToSchema)]
pub(crate) struct TriggerView {
    id: TriggerIdText,
    /// The id, again.
    trigger_id: TriggerIdText,
    name: String,
    description: String,
    event: EventWord,
    action: ActionWord,
    /// Settings of the action. Of a secret, only whether there is one.
    #[schema(value_type = Object)]
    action_config: Value,
    namespace: Nullable<String>,
    #[schema(required)]
    filter_memory_type: Option<&'static str>,
    filter_namespace: Nullable<String>,
    filter_label_pattern: Nullable<String>,
    filter_heat_below: Nullable<f64>,
    filter_heat_above: Nullable<f64>,
    max_fires: Nullable<u64>,
    cooldown_seconds: u32,
    enabled: bool,
    /// Firings that count against `max_fires`.
    fire_count: u64,
    #[schema(required)]
    last_fired_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
}

impl TriggerView {
    /// A trigger as `caller` may see it. Readers see only the host of a webhook: the rest of the
    /// address is often a secret.
    pub(crate) fn new(
        caller: &Caller,
        id: TriggerId,
        trigger: &Trigger,
        firings: &Firings,
    ) -> Self {
        let filter = &trigger.filter;
        let mut action_config = config(&trigger.action);
        if let (Some(url), Role::Reader) = (action_config["url"].as_str(), caller.role) {
            let origin = Url::parse(url).map(|url| url[..Position::BeforePath].to_owned());
            action_config["url"] = origin.unwrap_or_default().into();
        }
        Self {
            id: Id(id),
            trigger_id: Id(id),
            name: trigger.name.clone(),
            description: trigger.description.clone(),
            event: OneOf(trigger.event),
            action: OneOf(trigger.action.kind()),
            action_config,
            namespace: trigger.namespace.clone(),
            filter_memory_type: filter.memory_type.map(|memory_type| memory_type.name()),
            filter_namespace: filter.namespace.clone(),
            filter_label_pattern: filter.label_pattern.clone(),
            filter_heat_below: filter.heat_below,
            filter_heat_above: filter.heat_above,
            max_fires: trigger.max_fires,
            cooldown_seconds: trigger.cooldown_seconds,
            enabled: trigger.enabled,
            fire_count: firings.count,
            last_fired_at: firings.last_at.map(Time),
            created_at: Time(trigger.created_at),
            updated_at: Time(trigger.updated_at),
        }
    }
}

fn config(action: &TriggerAction) -> Value {
    match action {
        TriggerAction::Notify(Some(template)) => json!({ "message": template }),
        TriggerAction::Boost(strength) => json!({ "strength": strength }),
        TriggerAction::Tag(Some(tag)) => json!({ "label": tag }),
        TriggerAction::Webhook { url, secret, retiring } => json!({
            "url": url,
            "signed": secret.is_some(),
            "old_secret_until": retiring.as_ref().map(|(_, until)| until.to_string()),
        }),
        _ => json!({}),
    }
}
