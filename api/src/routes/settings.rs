//! The tenant's settings: read, changed, and tried out. Requests have nested objects or dotted names, with
//! `null` for the default. Responses have nested objects, and a schema of them.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use storage::Etag;
use storage::command::UpdateSettings;
use storage::model::duplicate::OnDuplicate;
use storage::model::thermo::{SettingValue, Thermo};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::error::{ApiError, ApiResult};
use crate::limits::FORECAST_DAYS;
use crate::prelude::*;

/// Longest dotted name in a body of settings, in bytes.
const NAME_BYTES_MAX: usize = 1_024;
/// Most values in a body of settings.
const VALUES_MAX: usize = 1_000;
/// What a setting's value must be.
const NOT_A_VALUE: &str = "must be a number, true or false";

/// A body of settings.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Settings(Map<String, Value>);

impl PartialSchema for Settings {
    fn schema() -> RefOr<Schema> {
        schema(false).into()
    }
}

impl ToSchema for Settings {}

/// Settings to change; `null` resets one, or a whole section, to its default.
pub(crate) struct ThermoChanges {
    pub(crate) changes: Vec<(String, SettingValue)>,
    /// Names that are no settings: published clients send such.
    pub(crate) ignored: Vec<String>,
}

impl Settings {
    /// Reads nested objects and dotted names alike, and validates every value.
    pub(crate) fn into_changes(self) -> ApiResult<ThermoChanges> {
        let mut leaves = Vec::new();
        flatten("", &self.0, &mut leaves)?;
        let mut defaults = Thermo::default();
        let settings: Vec<String> =
            defaults.settings().into_iter().map(|setting| setting.name).collect();
        let mut changes = ThermoChanges { changes: Vec::new(), ignored: Vec::new() };
        for (name, value) in leaves {
            changes.add(&defaults, &settings, name, value)?;
        }
        Ok(changes)
    }
}

impl ThermoChanges {
    fn add(
        &mut self,
        defaults: &Thermo,
        settings: &[String],
        name: String,
        value: &Value,
    ) -> ApiResult<()> {
        let setting = canonical(&name);
        if setting == "decay_classes.permanent" {
            return match value {
                Value::Null => Ok(()),
                _ => Err(ApiError::invalid(name, "must be null: permanent never cools")),
            };
        }
        let section: Vec<_> =
            settings.iter().filter(|inner| is_within(&setting, inner)).cloned().collect();
        if !section.is_empty() {
            return match value {
                Value::Null => {
                    let defaults = section.into_iter().map(|name| (name, SettingValue::Default));
                    self.changes.extend(defaults);
                    Ok(())
                }
                Value::Object(_) => Ok(()),
                _ => Err(ApiError::invalid(name, "must be an object of settings")),
            };
        }
        if let Some(outer) = settings.iter().find(|outer| is_within(outer, &setting)) {
            return Err(ApiError::invalid(outer, NOT_A_VALUE));
        }
        if !settings.contains(&setting) {
            self.ignored.push(name);
            return Ok(());
        }
        let value = match value {
            Value::Null => SettingValue::Default,
            Value::Bool(on) => SettingValue::Switch(*on),
            Value::Number(number) => SettingValue::Number(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(word) => match by_name(word) {
                Some(action) => SettingValue::OnDuplicate(action),
                None => return Err(ApiError::invalid(name, expected(&setting))),
            },
            _ => return Err(ApiError::invalid(name, NOT_A_VALUE)),
        };
        let change = (setting, value);
        if let Err(fault) = defaults.with(std::slice::from_ref(&change)) {
            return Err(ApiError::invalid(name, fault.message));
        }
        self.changes.push(change);
        Ok(())
    }
}

/// What the text of a setting must be.
fn expected(setting: &str) -> &'static str {
    if setting == "duplicates.on_duplicate" { OnDuplicate::EXPECTED } else { NOT_A_VALUE }
}

fn by_name(word: &str) -> Option<OnDuplicate> {
    OnDuplicate::NAMED.iter().find(|(name, _)| *name == word).map(|(_, action)| *action)
}

/// Whether the dotted name `inner` is in the section `outer`.
fn is_within(outer: &str, inner: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
}

/// Every value within `fields` that has none in it, by its dotted name.
fn flatten<'a>(
    within: &str,
    fields: &'a Map<String, Value>,
    leaves: &mut Vec<(String, &'a Value)>,
) -> ApiResult<()> {
    for (name, value) in fields {
        if within.len() + name.len() > NAME_BYTES_MAX || leaves.len() == VALUES_MAX {
            let message = format!("more than {VALUES_MAX} settings, or a name that is too long");
            return Err(ApiError::bad_request("too_many_settings", message));
        }
        let name = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(&name, inner, leaves)?,
            value => leaves.push((name, value)),
        }
    }
    Ok(())
}

/// A setting's own name for a published one.
fn canonical(name: &str) -> String {
    match name.strip_prefix("half_lives.") {
        Some(memory_type) => format!("decay_profiles.{memory_type}.half_life"),
        None => name.to_owned(),
    }
}

/// The settings, beside the defaults.
#[derive(Serialize, ToSchema)]
pub(crate) struct SettingsView {
    #[schema(schema_with = complete)]
    config: Value,
    #[schema(schema_with = complete)]
    defaults: Value,
    /// Whether they differ.
    custom: bool,
}

/// Settings that were changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct UpdatedSettings {
    /// Always true.
    ok: bool,
    #[schema(schema_with = complete)]
    config: Value,
    /// Names in the request that are not settings.
    ignored: Vec<String>,
}

/// What settings would do.
#[derive(Serialize, ToSchema)]
pub(crate) struct ForecastView {
    /// Days ahead.
    days: [u32; FORECAST_DAYS.len()],
    types: Vec<TypeForecast>,
    /// Memories that the next tick would archive.
    archived: u64,
    /// The same under the present settings.
    archived_as_configured: u64,
    #[schema(schema_with = complete)]
    config: Value,
    /// Names in the request that are not settings.
    ignored: Vec<String>,
}

/// What settings would do to the memories of a type.
#[derive(Serialize, ToSchema)]
struct TypeForecast {
    memory_type: MemoryTypeWord,
    /// Memories of the hot tier.
    total: u64,
    /// Memories that would be cold, one count for each of `days`.
    cold: Vec<u64>,
    /// The same under the present settings.
    cold_as_configured: Vec<u64>,
}

/// Get the settings, beside the defaults.
#[utoipa::path(get, path = "/api/v1/settings/thermo", tag = "settings", params(ReadHeaders),
    responses((status = OK, body = SettingsView), ReadErrors))]
pub(crate) async fn get_settings(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<SettingsView> {
    let tenant = session.tenant().await?;
    session.request.set_tag(Etag::of(&tenant));
    let (thermo, defaults) = (*tenant.thermo, Thermo::default());
    let custom = thermo != defaults;
    let body = SettingsView { config: config(thermo), defaults: config(defaults), custom };
    Ok(Success::ok(freshness, body))
}

/// Change the named settings; `null` resets one to its default.
#[utoipa::path(patch, path = "/api/v1/settings/thermo", tag = "settings", request_body = Settings,
    responses((status = OK, body = UpdatedSettings), WriteErrors))]
pub(crate) async fn update_settings(
    Admin(session): Admin,
    ValidJson(request): ValidJson<Settings>,
) -> ApiResponse<UpdatedSettings> {
    let request = request.into_changes()?;
    let done = session.submit(UpdateSettings(request.changes)).await?;
    let body =
        UpdatedSettings { ok: true, config: config(*done.value.0), ignored: request.ignored };
    Ok(Success::ok(done.freshness, body))
}

/// Count the memories of each type that would be cold after some days under changed settings.
#[utoipa::path(post, path = "/api/v1/settings/thermo/preview", tag = "settings",
    params(ReadHeaders), request_body = Settings,
    responses((status = OK, body = ForecastView), BodyErrors))]
pub(crate) async fn preview_settings(
    ReaderRead(session, freshness): ReaderRead,
    ValidJson(request): ValidJson<Settings>,
) -> ApiResponse<ForecastView> {
    let ThermoChanges { changes, ignored } = request.into_changes()?;
    let (thermo, [present, proposed]) = session.forecasts(changes).await?;
    let types = MemoryType::ALL.into_iter().zip(present.types.into_iter().zip(proposed.types));
    let types = types.map(|(memory_type, (present, proposed))| TypeForecast {
        memory_type: OneOf(memory_type),
        total: proposed.total,
        cold: proposed.cold,
        cold_as_configured: present.cold,
    });
    let body = ForecastView {
        days: FORECAST_DAYS,
        types: types.collect(),
        archived: proposed.archived,
        archived_as_configured: present.archived,
        config: config(thermo),
        ignored,
    };
    Ok(Success::ok(freshness, body))
}

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
    if !are_required {
        root["example"] = json!({ "recall": { "heat_weight": 0.5 } });
    }
    serde_json::from_value(root).expect("a valid schema")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(body: Value) -> ApiResult<ThermoChanges> {
        Settings(body.as_object().unwrap().clone()).into_changes()
    }

    #[test]
    fn nested_and_dotted_names_are_the_same() {
        let body = json!({
            "recall": { "heat_weight": 0.4 },
            "recall.keyword_weight": 0.2,
            "half_lives": { "fact": 1000 },
            "decay_profiles": { "fact": { "floor": null } },
            "tick": { "mode": "hybrid" },
        });
        let sent = changes(body).unwrap();
        let mut names: Vec<_> = sent.changes.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let expected = [
            "decay_profiles.fact.floor",
            "decay_profiles.fact.half_life",
            "recall.heat_weight",
            "recall.keyword_weight",
        ];
        assert_eq!(names, expected);
        assert_eq!(sent.ignored, ["tick.mode"]);
    }

    #[test]
    fn names_and_values_are_bounded() {
        let many: Map<_, _> = (0..=VALUES_MAX).map(|at| (at.to_string(), json!(1))).collect();
        for body in [Value::Object(many), json!({ "x".repeat(NAME_BYTES_MAX): { "y": 1 } })] {
            assert_eq!(changes(body).err().map(|error| error.code), Some("too_many_settings"));
        }
    }

    #[test]
    fn null_resets_settings_and_sections() {
        let all = changes(json!({ "resonance": null, "recall.heat_weight": null })).unwrap();
        assert_eq!(all.changes.len(), 5);
        assert!(all.changes.iter().all(|(_, value)| *value == SettingValue::Default));
    }

    #[test]
    fn invalid_value_is_rejected_by_its_sent_name() {
        for (body, field) in [
            (json!({ "recall": { "heat_weight": -1 } }), "recall.heat_weight"),
            (json!({ "half_lives": { "fact": "long" } }), "half_lives.fact"),
            (json!({ "decay_classes": { "permanent": 2 } }), "decay_classes.permanent"),
            (json!({ "recall": 7 }), "recall"),
            (json!({ "recall": { "heat_weight": {} } }), "recall.heat_weight"),
            (json!({ "recall": { "heat_weight": { "x": 1 } } }), "recall.heat_weight"),
        ] {
            let rejected = format!("{:?}", changes(body).err());
            assert!(rejected.contains(&format!("field: Some({field:?})")), "{rejected}");
        }
    }

    #[test]
    fn returned_settings_change_nothing_when_sent_back() {
        let config = config(Thermo::default());
        let sent = changes(config).unwrap();
        assert_eq!(Thermo::default().with(&sent.changes), Ok(Thermo::default()));
        assert!(sent.ignored.is_empty());
    }
}
