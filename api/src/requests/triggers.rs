//! Triggers in requests and responses: their actions, their history, webhook deliveries, and the
//! notifications of those that fired.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use storage::TriggerPatch;
use storage::model::access::Caller;
use storage::model::id::{Timestamp, TriggerId};
use storage::model::score::rounded;
use storage::model::tenant::Role;
use storage::model::trigger::{
    Firings, Notification, STRENGTH_DEFAULT, TAG_BYTES_MAX, Trigger, TriggerAction, TriggerFilter,
};
use url::{Position, Url};
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ApiResult};
use crate::limits::{
    NOTIFICATIONS_BYTES_MAX, NOTIFICATIONS_MAX, SECRET_BYTES_MAX, SECRET_BYTES_MIN,
};
use crate::requests::fields::*;
use crate::requests::numbers::{Heat, Strength};
use crate::requests::values::{
    Id, JsonObject, OneOf, SecretText, Text, TextOrEmpty, first_text, non_empty, nullable, object,
};
use crate::responses::{Nullable, Time};
use crate::service::triggers::ActionSettings;
use crate::words::HistoryKind;

/// A new trigger. All filters that are set must match; heat bounds are strict.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"event": "on_store", "action": "notify", "name": "new preference", "filter_memory_type": "preference", "action_config": {"message": "a preference was stored"}}))]
pub(crate) struct NewTrigger {
    pub(crate) event: EventWord,
    pub(crate) action: ActionWord,
    #[schema(value_type = Option<ActionConfig>)]
    pub(crate) action_config: Option<JsonObject<ActionConfig>>,
    /// Event and action, if absent or empty.
    pub(crate) name: Option<TriggerName>,
    pub(crate) description: Option<Description>,
    /// The trigger fires for memories of this namespace only.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) filter_memory_type: Option<MemoryTypeOrEmpty>,
    pub(crate) filter_namespace: Option<Namespace>,
    /// Substring of the label; case does not matter.
    pub(crate) filter_label_pattern: Option<LabelPattern>,
    pub(crate) filter_heat_below: Option<Heat>,
    pub(crate) filter_heat_above: Option<Heat>,
    pub(crate) max_fires: Option<MaxFires>,
    /// At most a year.
    #[schema(default = 0)]
    pub(crate) cooldown_seconds: Option<Cooldown>,
    #[schema(default = true)]
    pub(crate) enabled: Option<bool>,
}

/// Changes to a trigger. `null` clears a filter or a limit; event and action cannot change.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "renamed", "enabled": false}))]
pub(crate) struct TriggerChanges {
    /// Accepted if it is the trigger's event.
    #[schema(ignore)]
    event: Option<AnyWord>,
    /// Accepted if it is the trigger's action.
    #[schema(ignore)]
    action: Option<AnyWord>,
    name: Option<FullTriggerName>,
    description: Option<Description>,
    /// Replaces the settings of the action. A webhook keeps its address and secret if they are
    /// absent.
    #[schema(value_type = Option<ActionConfig>)]
    action_config: Option<JsonObject<ActionConfig>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Namespace>)]
    namespace: Option<Option<Namespace>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<MemoryTypeOrEmpty>)]
    filter_memory_type: Option<Option<MemoryTypeOrEmpty>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Namespace>)]
    filter_namespace: Option<Option<Namespace>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<LabelPattern>)]
    filter_label_pattern: Option<Option<LabelPattern>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Heat>)]
    filter_heat_below: Option<Option<Heat>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Heat>)]
    filter_heat_above: Option<Option<Heat>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<MaxFires>)]
    max_fires: Option<Option<MaxFires>>,
    cooldown_seconds: Option<Cooldown>,
    enabled: Option<bool>,
    /// Resets `fire_count` to 0.
    reset_count: Option<bool>,
    /// Alias of `reset_count`, which comes first.
    #[schema(ignore)]
    reset_fire_count: Option<bool>,
}

impl NewTrigger {
    /// The settings of its action.
    pub(crate) fn action_settings(&self) -> ApiResult<ActionSettings> {
        self.action_config.as_ref().map_or_else(|| Ok(ActionSettings::default()), settings)
    }

    /// The trigger; the decision sets its number, owner and times.
    pub(crate) fn into_trigger(self, action: TriggerAction) -> Trigger {
        let event = self.event.0;
        let name = self.name.map(|name| name.0).filter(|name| !name.trim().is_empty());
        Trigger {
            number: 0,
            name: name.unwrap_or_else(|| format!("{} {}", event.name(), action.kind().name())),
            description: self.description.map(|text| text.0).unwrap_or_default(),
            event,
            action,
            namespace: self.namespace.and_then(bound_namespace),
            filter: TriggerFilter {
                memory_type: self.filter_memory_type.and_then(|it| it.0),
                namespace: self.filter_namespace.and_then(bound_namespace),
                label_pattern: non_empty(self.filter_label_pattern),
                heat_below: self.filter_heat_below.map(|heat| rounded(heat.0)),
                heat_above: self.filter_heat_above.map(|heat| rounded(heat.0)),
            },
            max_fires: self.max_fires.map(|it| it.0),
            cooldown_seconds: self.cooldown_seconds.map_or(0, |it| it.0 as u32),
            enabled: self.enabled.unwrap_or(true),
            owner: None,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }
}

impl TriggerChanges {
    /// Rejects another event or action than the trigger has.
    pub(crate) fn check_unchanged(&self, present: &Trigger) -> ApiResult<()> {
        let action = present.action.kind().name();
        for (name, sent, kept) in
            [("event", &self.event, present.event.name()), ("action", &self.action, action)]
        {
            if sent.as_ref().is_some_and(|sent| sent.0 != kept) {
                let message = format!("is {kept} and cannot change: create another trigger");
                return Err(ApiError::invalid(name, message));
            }
        }
        Ok(())
    }

    /// The new settings of its action.
    pub(crate) fn action_settings(&self) -> ApiResult<Option<ActionSettings>> {
        self.action_config.as_ref().map(settings).transpose()
    }

    /// The changes but for those of the action.
    pub(crate) fn into_patch(self) -> TriggerPatch {
        TriggerPatch {
            name: self.name.map(|name| name.0),
            description: self.description.map(|text| text.0),
            namespace: self.namespace.map(|it| it.and_then(bound_namespace)),
            memory_type: self.filter_memory_type.map(|it| it.and_then(|it| it.0)),
            filter_namespace: self.filter_namespace.map(|it| it.and_then(bound_namespace)),
            label_pattern: self.filter_label_pattern.map(non_empty),
            heat_below: self.filter_heat_below.map(|it| it.map(|heat| rounded(heat.0))),
            heat_above: self.filter_heat_above.map(|it| it.map(|heat| rounded(heat.0))),
            max_fires: self.max_fires.map(|it| it.map(|it| it.0)),
            cooldown_seconds: self.cooldown_seconds.map(|it| it.0 as u32),
            enabled: self.enabled,
            reset_count: self.reset_count.or(self.reset_fire_count).unwrap_or(false),
            ..TriggerPatch::default()
        }
    }
}

/// Published clients send an empty namespace, or `*`, for none.
fn bound_namespace(namespace: Namespace) -> Option<String> {
    Some(namespace.0).filter(|name| !name.trim().is_empty() && name != "*")
}

fn settings(config: &JsonObject<ActionConfig>) -> ApiResult<ActionSettings> {
    config.0.settings().map_err(|error| error.within("action_config"))
}

/// An event that might happen to a memory.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"event": "on_recall", "node_id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01"}))]
pub(crate) struct Evaluate {
    pub(crate) event: EventWord,
    pub(crate) node_id: MemoryIdText,
}

/// Which triggers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TriggerQuery {
    pub(crate) event: Option<EventWord>,
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: TriggersLimit,
    /// The `next_cursor` of the page before.
    pub(crate) cursor: Option<TriggerIdText>,
}

/// Which entries of the trigger history.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: HistoryLimit,
    /// Of this trigger only.
    pub(crate) trigger_id: Option<TriggerIdText>,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    before: Option<PageCursorText>,
    /// Alias of `before`, which comes first.
    #[param(inline, ignore)]
    cursor: Option<PageCursorText>,
    /// Firings, delivery attempts, or both.
    #[param(inline, default = "firing")]
    kind: Option<HistoryWord>,
}

impl HistoryQuery {
    pub(crate) fn before(&self) -> Option<PageCursorText> {
        self.before.or(self.cursor)
    }

    pub(crate) fn kind(&self) -> HistoryKind {
        self.kind.map_or(HistoryKind::Firing, |kind| kind.0)
    }
}

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: HistoryLimit,
    pub(crate) status: Option<DeliveryWord>,
    /// The `next_cursor` of the page before.
    pub(crate) cursor: Option<DeliveryIdText>,
}

/// Which dead letters to replay.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({}))]
pub(crate) struct Replay {
    /// The `webhook-id` of a dead letter; absent is all.
    pub(crate) id: Option<DeliveryIdText>,
}

/// Settings of an action. Each action reads its own; the others are validated and ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct ActionConfig {
    /// For `notify`: the message, with `{node_id}`, `{label}`, `{heat}`, `{heat:.2f}`,
    /// `{namespace}`, `{memory_type}` and `{event}` as placeholders.
    message: Option<Template>,
    /// Alias of `message`, which comes first.
    #[schema(ignore)]
    template: Option<Template>,
    /// For `boost`.
    #[schema(default = json!(STRENGTH_DEFAULT))]
    strength: Option<Strength>,
    /// Alias of `strength`, which comes first.
    #[schema(ignore)]
    amount: Option<Strength>,
    /// For `tag`: the tag; absent derives one from the memory's label.
    #[schema(schema_with = tag_schema)]
    label: Option<Tag>,
    /// Alias of `label`, which comes first.
    #[schema(ignore)]
    tag: Option<Tag>,
    /// For `webhook`, and required there.
    url: Option<UrlText>,
    /// For `webhook`: the secret that signs its requests. It is never returned.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(schema_with = secret_schema)]
    webhook_secret: Option<Option<Secret>>,
    /// Alias of `webhook_secret`, which comes first.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(ignore)]
    secret: Option<Option<Secret>>,
}

impl ActionConfig {
    fn settings(&self) -> ApiResult<ActionSettings> {
        Ok(ActionSettings {
            template: first_text(self.message.as_ref(), self.template.as_ref()),
            strength: self.strength.or(self.amount).map(|strength| strength.0),
            tag: self.tag()?,
            url: self.url.as_ref().map(|url| url.0.clone()),
            secret: self.secret()?,
            // `null` removes it.
            drops_secret: self.webhook_secret == Some(None) || self.secret == Some(None),
        })
    }

    /// The tag as one word, without a leading `#`.
    fn tag(&self) -> ApiResult<Option<String>> {
        let tags = [("label", &self.label), ("tag", &self.tag)].map(|(name, tag)| {
            let Some(TextOrEmpty(Some(tag))) = tag else { return Ok(None) };
            let words = tag.trim().trim_start_matches('#').split_whitespace();
            let tag = words.collect::<Vec<_>>().join("-");
            match tag.is_empty() {
                true => Err(ApiError::invalid(name, "must contain more than #")),
                false => Ok(Some(tag)),
            }
        });
        let [label, tag] = tags;
        Ok(label?.or(tag?))
    }

    /// The webhook secret, of at least 8 bytes.
    fn secret(&self) -> ApiResult<Option<String>> {
        let mut found = None;
        for (name, secret) in [("webhook_secret", &self.webhook_secret), ("secret", &self.secret)] {
            let Some(Some(SecretText(Text(secret)))) = secret else { continue };
            // An empty secret is an absent one, as published clients send it.
            if !secret.is_empty() && secret.len() < SECRET_BYTES_MIN {
                let message = format!("must have at least {SECRET_BYTES_MIN} bytes");
                return Err(ApiError::invalid(name, message));
            }
            found = found.or(Some(secret.clone()).filter(|secret| !secret.is_empty()));
        }
        Ok(found)
    }
}

fn tag_schema() -> Object {
    let text = text_schema(1, TAG_BYTES_MAX).pattern(Some(r"[^\s#]"));
    text.description(Some("For `tag`: the tag; absent derives one from the memory's label."))
        .build()
}

fn secret_schema() -> Object {
    let text_or_null = SchemaType::from_iter([Type::String, Type::Null]);
    let text = text_schema(SECRET_BYTES_MIN, SECRET_BYTES_MAX).schema_type(text_or_null);
    let description = "For `webhook`: the secret that signs its requests. It is never returned.";
    text.description(Some(description)).build()
}

fn text_schema(min: usize, max: usize) -> ObjectBuilder {
    object(Type::String).min_length(Some(min)).max_length(Some(max))
}

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
