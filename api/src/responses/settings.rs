//! Settings as nested objects, and their schema.

use serde_json::{Map, Value, json};
use storage::model::duplicate::OnDuplicate;
use storage::model::thermo::{SettingValue, Thermo};
use utoipa::openapi::schema::Schema;

/// Settings as nested objects.
pub(crate) fn config(mut thermo: Thermo) -> Value {
    let mut config = Value::Object(Map::new());
    for setting in thermo.settings() {
        let node = setting.name.split('.').fold(&mut config, |outer, part| &mut outer[part]);
        *node = match setting.value() {
            SettingValue::Switch(on) => on.into(),
            SettingValue::Number(number) if number.fract() == 0.0 => (number as i64).into(),
            SettingValue::Number(number) => number.into(),
            SettingValue::OnDuplicate(action) => action.name().into(),
            SettingValue::Default => Value::Null,
        };
    }
    // JSON has no infinity: permanent memories have no factor.
    config["decay_classes"]["permanent"] = Value::Null;
    config
}

/// Schema of complete settings.
pub(crate) fn complete() -> Schema {
    schema(true)
}

/// Nested objects of all settings, each with its range.
pub(crate) fn schema(are_required: bool) -> Schema {
    let mut thermo = Thermo::default();
    let mut root = json!({});
    let mut add = |name: &str, schema: Value| {
        let mut node = &mut root;
        for part in name.split('.') {
            node["type"] = "object".into();
            if are_required && node["properties"][part].is_null() {
                let required = node["required"].as_array().cloned().unwrap_or_default();
                node["required"] = [required, vec![part.into()]].concat().into();
            }
            node = &mut node["properties"][part];
        }
        *node = schema;
    };
    for setting in thermo.settings() {
        let (min, max) = (setting.range.start(), setting.range.end());
        let number = |name| json!({ "type": [name, "null"], "minimum": min, "maximum": max });
        add(
            &setting.name,
            match setting.value() {
                SettingValue::Switch(_) => json!({ "type": ["boolean", "null"] }),
                SettingValue::OnDuplicate(_) => {
                    let mut names = OnDuplicate::NAMED.map(|(name, _)| json!(name)).to_vec();
                    names.push(Value::Null);
                    json!({ "type": ["string", "null"], "enum": names })
                }
                _ => number(if setting.is_integer() { "integer" } else { "number" }),
            },
        );
    }
    // Permanent memories have no factor.
    add("decay_classes.permanent", json!({ "type": "null" }));
    serde_json::from_value(root).expect("a valid schema")
}
