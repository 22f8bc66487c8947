//! Triggers in responses, and the notifications of those that fired.

use serde::Serialize;
use serde_json::{Value, json};
use storage::model::caller::Caller;
use storage::model::id::TriggerId;
use storage::model::tenant::Role;
use storage::model::trigger::{
    Firings, Notification, Trigger, TriggerAction, TriggerActionKind, TriggerEvent,
};
use utoipa::ToSchema;

use crate::responses::{timestamp, word};

/// A response with the notifications of the triggers that fired.
#[derive(Serialize, ToSchema)]
pub(crate) struct WithNotifications<T: ToSchema> {
    #[serde(flatten)]
    body: T,
    /// Absent if no `notify` trigger fired.
    // `default` documents that it may be absent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    trigger_notifications: Vec<NotificationView>,
}

impl<T: ToSchema> WithNotifications<T> {
    pub(crate) fn new(body: T, notifications: &[Notification]) -> Self {
        Self { body, trigger_notifications: notifications.iter().map(Into::into).collect() }
    }
}

/// The notification of a trigger.
#[derive(Serialize, ToSchema)]
struct NotificationView {
    #[schema(format = Uuid)]
    trigger_id: String,
    trigger_name: String,
    #[schema(schema_with = word::<TriggerEvent>)]
    event: &'static str,
    #[schema(format = Uuid)]
    node_id: String,
    message: String,
}

impl From<&Notification> for NotificationView {
    fn from(notification: &Notification) -> Self {
        Self {
            trigger_id: notification.trigger.to_string(),
            trigger_name: notification.trigger_name.clone(),
            event: notification.event.name(),
            node_id: notification.memory.to_string(),
            message: notification.message.clone(),
        }
    }
}

/// A trigger.
#[derive(Serialize, ToSchema)]
pub(crate) struct TriggerView {
    #[schema(format = Uuid)]
    id: String,
    /// The id, again.
    #[schema(format = Uuid)]
    trigger_id: String,
    name: String,
    description: String,
    #[schema(schema_with = word::<TriggerEvent>)]
    event: &'static str,
    #[schema(schema_with = word::<TriggerActionKind>)]
    action: &'static str,
    /// Settings of the action. Of a secret, only whether there is one.
    #[schema(value_type = Object)]
    action_config: Value,
    #[schema(required)]
    namespace: Option<String>,
    #[schema(required)]
    filter_memory_type: Option<&'static str>,
    #[schema(required)]
    filter_namespace: Option<String>,
    #[schema(required)]
    filter_label_pattern: Option<String>,
    #[schema(required)]
    filter_heat_below: Option<f64>,
    #[schema(required)]
    filter_heat_above: Option<f64>,
    #[schema(required)]
    max_fires: Option<u64>,
    cooldown_seconds: u32,
    enabled: bool,
    /// Firings that count against `max_fires`.
    fire_count: u64,
    #[schema(required, format = DateTime)]
    last_fired_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
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
            action_config["url"] = url.split('/').take(3).collect::<Vec<_>>().join("/").into();
        }
        Self {
            id: id.to_string(),
            trigger_id: id.to_string(),
            name: trigger.name.clone(),
            description: trigger.description.clone(),
            event: trigger.event.name(),
            action: trigger.action.kind().name(),
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
            last_fired_at: firings.last_at.map(timestamp),
            created_at: timestamp(trigger.created_at),
            updated_at: timestamp(trigger.updated_at),
        }
    }
}

fn config(action: &TriggerAction) -> Value {
    match action {
        TriggerAction::Notify { template: Some(template) } => json!({ "message": template }),
        TriggerAction::Boost { strength } => json!({ "strength": strength }),
        TriggerAction::Tag { tag: Some(tag) } => json!({ "label": tag }),
        TriggerAction::Webhook { url, secret, retiring } => json!({
            "url": url,
            "signed": secret.is_some(),
            "old_secret_until": retiring.as_ref().map(|(_, until)| timestamp(*until)),
        }),
        _ => json!({}),
    }
}
