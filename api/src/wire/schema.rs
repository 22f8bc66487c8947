//! What OpenAPI is told of words and numbers that have no type of their own.

use serde_json::{Value, json};
use storage::Signal;
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_BYTES_MAX};
use storage::model::tenant::Role;
use storage::model::thermo::{SettingValue, Thermo};
use storage::model::trigger::{TriggerAction, TriggerEvent};
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};

/// A memory's type.
pub(crate) fn memory_type() -> Schema {
    one_of(MemoryType::ALL.map(MemoryType::name))
}

/// A memory's class.
pub(crate) fn decay_class() -> Schema {
    one_of(DecayClass::ALL.map(DecayClass::name))
}

/// A signal of feedback.
pub(crate) fn signal() -> Schema {
    one_of(Signal::ALL.map(Signal::name))
}

/// On what a trigger fires.
pub(crate) fn trigger_event() -> Schema {
    one_of(TriggerEvent::ALL.map(TriggerEvent::name))
}

/// What a trigger does.
pub(crate) fn trigger_action() -> Schema {
    one_of(TriggerAction::NAMES)
}

/// Entries of the history of triggers.
pub(crate) fn history_kinds() -> Schema {
    one_of(["firing", "attempt", "all"])
}

/// Where a delivery stands.
pub(crate) fn delivery_status() -> Schema {
    one_of(crate::routes::STATUSES)
}

/// Role of a key.
pub(crate) fn role() -> Schema {
    one_of(Role::OF_KEYS.map(Role::name))
}

/// A memory's tier.
pub(crate) fn tier() -> Schema {
    one_of(["hot", "cold"])
}

/// Tiers that a search looks in.
pub(crate) fn tiers() -> Schema {
    one_of(["hot", "cold", "all"])
}

/// What a rule says; `default` is that there is none.
pub(crate) fn policy() -> Schema {
    one_of(["allow", "deny", "default"])
}

/// How fresh a read must be.
pub(crate) fn consistency() -> Schema {
    one_of(["local", "linearizable"])
}

/// The namespace of a memory: something, and not `*`.
pub(crate) fn namespace() -> Schema {
    text(NAMESPACE_BYTES_MAX).pattern(Some(r"^(\S.+|[^\s*])$")).into()
}

/// A namespace, or `*` for all of them.
pub(crate) fn namespaces() -> Schema {
    text(NAMESPACE_BYTES_MAX).pattern(Some(r"\S")).into()
}

/// A heat.
pub(crate) fn heat() -> Schema {
    number(0.0, 1.0).into()
}

/// A thermodynamic configuration.
pub(crate) fn configuration() -> Schema {
    settings(true)
}

/// The part of a configuration that is to be changed; `null` is a setting's default.
pub(crate) fn changes() -> Schema {
    settings(false)
}

/// Nested objects of all settings, each with its range.
fn settings(are_required: bool) -> Schema {
    let mut thermo = Thermo::default();
    let mut root = json!({});
    let mut add = |name: &str, schema: Value| {
        let mut place = &mut root;
        for part in name.split('.') {
            place["type"] = "object".into();
            if are_required && place["properties"][part].is_null() {
                let required = place["required"].as_array().cloned().unwrap_or_default();
                place["required"] = [required, vec![part.into()]].concat().into();
            }
            place = &mut place["properties"][part];
        }
        *place = schema;
    };
    for setting in thermo.settings() {
        let schema_type = match setting.value() {
            SettingValue::Switch(_) => "boolean",
            _ if setting.is_whole() => "integer",
            _ => "number",
        };
        let mut schema = json!({ "type": [schema_type, "null"] });
        if schema_type != "boolean" {
            schema["minimum"] = (*setting.range.start()).into();
            schema["maximum"] = (*setting.range.end()).into();
        }
        add(&setting.name, schema);
    }
    // What is permanent has no factor.
    add("decay_classes.permanent", json!({ "type": "null" }));
    serde_json::from_value(root).expect("these are words of OpenAPI")
}

fn number(least: f64, most: f64) -> ObjectBuilder {
    let number = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Number));
    number.minimum(Some(least)).maximum(Some(most))
}

fn one_of<const N: usize>(words: [&str; N]) -> Schema {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String)).enum_values(Some(words)).into()
}

fn text(bytes_max: usize) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
    text.min_length(Some(1)).max_length(Some(bytes_max))
}
