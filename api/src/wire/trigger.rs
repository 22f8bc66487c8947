//! A trigger as every client reads it, what triggers said, and how a request describes one.

use serde::Serialize;
use serde_json::{Value, json};
use storage::TriggerPatch;
use storage::model::id::{Timestamp, TriggerId};
use storage::model::memory::NAMESPACE_BYTES_MAX;
use storage::model::tenant::{Caller, Role};
use storage::model::trigger::{
    DESCRIPTION_BYTES_MAX, Firings, Notification, PATTERN_BYTES_MAX, STRENGTH_DEFAULT,
    TAG_BYTES_MAX, TEMPLATE_BYTES_MAX, TRIGGER_NAME_BYTES_MAX, Trigger, TriggerAction,
    TriggerEvent, TriggerFilter, URL_BYTES_MAX,
};
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::extract::Fields;
use crate::hooks::Hooks;
use crate::wire::{self, schema, timestamp};

/// Shortest and longest secret of a webhook, in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 8..=256;
/// Longest name of an event or action that is read at all.
const NAME_BYTES_MAX: usize = 64;
/// Longest cooldown: a year.
const COOLDOWN_SECONDS_MAX: u64 = 31_536_000;

/// An answer, with what triggers said of what was done.
#[derive(Serialize, ToSchema)]
pub(crate) struct WithNotifications<T: ToSchema> {
    #[serde(flatten)]
    body: T,
    /// What triggers that fired said; absent if none did.
    // `default` says that it may be absent.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    trigger_notifications: Vec<ShownNotification>,
}

impl<T: ToSchema> WithNotifications<T> {
    pub(crate) fn new(body: T, notifications: &[Notification]) -> Self {
        Self { body, trigger_notifications: notifications.iter().map(Into::into).collect() }
    }
}

/// What a trigger said.
#[derive(Serialize, ToSchema)]
struct ShownNotification {
    #[schema(format = Uuid)]
    trigger_id: String,
    trigger_name: String,
    #[schema(schema_with = schema::trigger_event)]
    event: &'static str,
    #[schema(format = Uuid)]
    node_id: String,
    message: String,
}

impl From<&Notification> for ShownNotification {
    fn from(said: &Notification) -> Self {
        Self {
            trigger_id: said.trigger.to_string(),
            trigger_name: said.trigger_name.clone(),
            event: said.event.name(),
            node_id: said.memory.to_string(),
            message: said.message.clone(),
        }
    }
}

/// A trigger.
#[derive(Serialize, ToSchema)]
pub(crate) struct ShownTrigger {
    #[schema(format = Uuid)]
    id: String,
    /// The same, by another name.
    #[schema(format = Uuid)]
    trigger_id: String,
    name: String,
    description: String,
    #[schema(schema_with = schema::trigger_event)]
    event: &'static str,
    #[schema(schema_with = schema::trigger_action)]
    action: &'static str,
    /// Settings of the action, by their first names. Of a secret only that there is one.
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

impl ShownTrigger {
    /// As `caller` may see it: who only reads does not learn the rest of an address, which is
    /// often a secret by itself.
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
            action: trigger.action.name(),
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

/// An event by its name, or by a published alias.
pub(crate) fn event(name: &str) -> Option<TriggerEvent> {
    match name {
        "on_create" => Some(TriggerEvent::Store),
        _ => TriggerEvent::ALL.into_iter().find(|event| event.name() == name),
    }
}

/// The events, for messages.
pub(crate) const EVENTS: &str = "on_store, on_recall, on_decay, on_boost, on_relate, on_threshold";
/// The actions, for messages.
const ACTIONS: &str = "notify, boost, pin, tag, deprecate, webhook";

/// A new trigger from the fields of a request; what the decision sets is empty.
pub(crate) fn new_trigger(id: TriggerId, fields: &Fields, hooks: &dyn Hooks) -> ApiResult<Trigger> {
    let on = fields.one_of("event", event, EVENTS)?;
    let on = on.ok_or_else(|| ApiError::invalid("event", "is required"))?;
    let known = |name: &str| TriggerAction::NAMES.into_iter().find(|action| *action == name);
    let action = fields.one_of("action", known, ACTIONS)?;
    let action = action.ok_or_else(|| ApiError::invalid("action", "is required"))?;
    let name = fields.text("name", TRIGGER_NAME_BYTES_MAX)?;
    let name = name.filter(|name| !name.trim().is_empty());
    Ok(Trigger {
        number: 0,
        name: name.unwrap_or_else(|| format!("{} {action}", on.name())),
        description: fields.text("description", DESCRIPTION_BYTES_MAX)?.unwrap_or_default(),
        event: on,
        action: self::action((id, action), &section(fields)?, hooks)?,
        namespace: namespace(fields, "namespace")?.flatten(),
        filter: TriggerFilter {
            memory_type: memory_type(fields)?.flatten(),
            namespace: namespace(fields, "filter_namespace")?.flatten(),
            label_pattern: pattern(fields)?.flatten(),
            heat_below: bound(fields, "filter_heat_below")?.flatten(),
            heat_above: bound(fields, "filter_heat_above")?.flatten(),
        },
        max_fires: max_fires(fields)?.flatten(),
        cooldown_seconds: cooldown(fields)?.unwrap_or(0),
        enabled: fields.boolean("enabled")?.unwrap_or(true),
        owner: None,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    })
}

/// What a request changes of `trigger`.
pub(crate) fn patch(
    fields: &Fields,
    (id, trigger): (TriggerId, &Trigger),
    hooks: &dyn Hooks,
) -> ApiResult<TriggerPatch> {
    let config = fields.is_there("action_config").then(|| section(fields)).transpose()?;
    for (name, kept) in [("event", trigger.event.name()), ("action", trigger.action.name())] {
        if fields.text(name, NAME_BYTES_MAX)?.is_some_and(|said| said != kept) {
            return Err(ApiError::invalid(name, format!("stays {kept}: make another trigger")));
        }
    }
    let keep_url = config.as_ref().is_some_and(|config| !config.is_there("url"));
    let config = config.map(|mut config| {
        // An address may stay while its secret changes: which one it is then is decided.
        if let TriggerAction::Webhook { url, .. } = &trigger.action {
            config.default_to("url", url);
        }
        config
    });
    let new = config.as_ref().map(|config| action((id, trigger.action.name()), config, hooks));
    Ok(TriggerPatch {
        name: fields.full_text("name", TRIGGER_NAME_BYTES_MAX)?,
        description: fields.text("description", DESCRIPTION_BYTES_MAX)?,
        action: new.transpose()?,
        drop_secret: config
            .is_some_and(|config| config.is_null("webhook_secret") || config.is_null("secret")),
        keep_url,
        namespace: namespace(fields, "namespace")?,
        memory_type: memory_type(fields)?,
        filter_namespace: namespace(fields, "filter_namespace")?,
        label_pattern: pattern(fields)?,
        heat_below: bound(fields, "filter_heat_below")?,
        heat_above: bound(fields, "filter_heat_above")?,
        max_fires: max_fires(fields)?,
        cooldown_seconds: cooldown(fields)?,
        enabled: fields.boolean("enabled")?,
        reset_count: fields
            .either(&["reset_count", "reset_fire_count"], Fields::boolean)?
            .unwrap_or(false),
    })
}

fn section(fields: &Fields) -> ApiResult<Fields> {
    let config = fields.all().get("action_config").filter(|config| !config.is_null());
    Fields::of_value(config.cloned().unwrap_or_else(|| json!({})), "action_config")
}

/// Settings of another action than `name` count for nothing, but must be right as well.
fn action(
    (id, name): (TriggerId, &str),
    config: &Fields,
    hooks: &dyn Hooks,
) -> ApiResult<TriggerAction> {
    let settings = || -> ApiResult<TriggerAction> {
        let text = |config: &Fields, name: &str| config.full_text(name, TEMPLATE_BYTES_MAX);
        let template = config.either(&["message", "template"], text)?;
        let strength = config.either(&["strength", "amount"], strength)?;
        let tag = config.either(&["label", "tag"], tag)?;
        let url = config.full_text("url", URL_BYTES_MAX)?;
        let secret = config.either(&["webhook_secret", "secret"], secret)?;
        Ok(match name {
            "notify" => TriggerAction::Notify { template },
            "boost" => TriggerAction::Boost { strength: strength.unwrap_or(STRENGTH_DEFAULT) },
            "pin" => TriggerAction::Pin,
            "tag" => TriggerAction::Tag { tag },
            "deprecate" => TriggerAction::Deprecate,
            _ => webhook(id, url, secret, hooks)?,
        })
    };
    settings().map_err(|error| error.within("action_config"))
}

fn strength(config: &Fields, name: &str) -> ApiResult<Option<f64>> {
    match config.number(name)? {
        Some(strength) if strength > 0.0 && strength <= 1.0 => Ok(Some(strength)),
        Some(_) => Err(ApiError::invalid(name, "must be a number above 0, to 1")),
        None => Ok(None),
    }
}

/// A tag is one word, however it was written.
fn tag(config: &Fields, name: &str) -> ApiResult<Option<String>> {
    let Some(text) = config.full_text(name, TAG_BYTES_MAX)? else { return Ok(None) };
    let words = text.trim().trim_start_matches('#').split_whitespace();
    let tag = words.collect::<Vec<_>>().join("-");
    if tag.is_empty() {
        return Err(ApiError::invalid(name, "must have more to it than #"));
    }
    Ok(Some(tag))
}

fn secret(config: &Fields, name: &str) -> ApiResult<Option<String>> {
    match config.text(name, *SECRET_BYTES.end())? {
        Some(text) if text.len() < *SECRET_BYTES.start() => {
            let message = format!("must have {} bytes at least", SECRET_BYTES.start());
            Err(ApiError::invalid(name, message))
        }
        text => Ok(text),
    }
}

fn webhook(
    id: TriggerId,
    url: Option<String>,
    secret: Option<String>,
    hooks: &dyn Hooks,
) -> ApiResult<TriggerAction> {
    let url = url.ok_or_else(|| ApiError::invalid("url", "is required"))?;
    hooks.check(&url).map_err(|why| ApiError::invalid("url", why))?;
    let sealed = |text: String| {
        let wrong = |why| ApiError::invalid("webhook_secret", why);
        hooks.check_secret(&text).map_err(wrong)?;
        hooks.seal(id, &text).ok_or_else(no_key)
    };
    let secret = secret.map(sealed).transpose()?;
    Ok(TriggerAction::Webhook { url, secret, retiring: None })
}

fn no_key() -> ApiError {
    let message = "this node has no key to seal secrets with: its operator sets webhooks.key";
    ApiError::unavailable("no_sealing_key", message)
}

/// A field that `null` empties: `None` if it is not there at all.
fn emptied<T>(
    fields: &Fields,
    name: &str,
    read: impl Fn(&Fields, &str) -> ApiResult<Option<T>>,
) -> ApiResult<Option<Option<T>>> {
    fields.all().contains_key(name).then(|| read(fields, name)).transpose()
}

fn namespace(fields: &Fields, name: &str) -> ApiResult<Option<Option<String>>> {
    emptied(fields, name, |fields, name| {
        let text = fields.text(name, NAMESPACE_BYTES_MAX)?;
        // Published clients send an empty one, or all, when they mean none.
        Ok(text.filter(|text| !text.trim().is_empty() && text != "*"))
    })
}

fn memory_type(fields: &Fields) -> ApiResult<Option<Option<storage::model::memory::MemoryType>>> {
    emptied(fields, "filter_memory_type", |fields, name| match fields.alias(&[name]) {
        Some(name) => fields.one_of(name, wire::memory_type, wire::MEMORY_TYPES),
        None => Ok(None),
    })
}

fn pattern(fields: &Fields) -> ApiResult<Option<Option<String>>> {
    emptied(fields, "filter_label_pattern", |fields, name| {
        Ok(fields.text(name, PATTERN_BYTES_MAX)?.filter(|pattern| !pattern.is_empty()))
    })
}

/// A bound of heat, in the steps of 1e-6 in which heats are compared.
fn bound(fields: &Fields, name: &str) -> ApiResult<Option<Option<f64>>> {
    emptied(fields, name, |fields, name| match fields.number(name)? {
        Some(bound) if (0.0..=1.0).contains(&bound) => {
            Ok(Some(storage::model::score::rounded(bound)))
        }
        Some(_) => Err(ApiError::invalid(name, "must be a number from 0 to 1")),
        None => Ok(None),
    })
}

fn max_fires(fields: &Fields) -> ApiResult<Option<Option<u64>>> {
    emptied(fields, "max_fires", |fields, name| fields.whole(name, 1, u64::from(u32::MAX)))
}

fn cooldown(fields: &Fields) -> ApiResult<Option<u32>> {
    let seconds = fields.whole("cooldown_seconds", 0, COOLDOWN_SECONDS_MAX)?;
    Ok(seconds.map(|seconds| seconds as u32))
}
