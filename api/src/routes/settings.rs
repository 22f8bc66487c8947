//! The tenant's thermodynamic configuration: shown, changed, tried out.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use storage::model::memory::MemoryType;
use storage::model::thermo::{SettingValue, Thermo};
use storage::{Action, Reply};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::Body;
use crate::openapi::{Asking, Reading, Writing};
use crate::wire::requests::{self, Fresh};
use crate::wire::schema;
use crate::write::{Answer, ask};

/// Days ahead that a preview looks.
const PREVIEW_DAYS: [u32; 5] = [0, 1, 7, 30, 90];

/// A configuration beside the defaults.
#[derive(Serialize, ToSchema)]
struct Settings {
    #[schema(schema_with = schema::configuration)]
    config: Value,
    #[schema(schema_with = schema::configuration)]
    defaults: Value,
    /// Whether they differ.
    custom: bool,
}

/// A configuration that was changed.
#[derive(Serialize, ToSchema)]
struct Configured {
    /// Always true.
    ok: bool,
    #[schema(schema_with = schema::configuration)]
    config: Value,
    /// Names in the request that are no settings.
    ignored: Vec<String>,
}

/// What a configuration would do.
#[derive(Serialize, ToSchema)]
struct Preview {
    /// Days ahead.
    days: [u32; PREVIEW_DAYS.len()],
    types: Vec<TypePreview>,
    #[schema(schema_with = schema::configuration)]
    config: Value,
    /// Names in the request that are no settings.
    ignored: Vec<String>,
}

/// What a configuration would do to memories of a type.
#[derive(Serialize, ToSchema)]
struct TypePreview {
    #[schema(schema_with = schema::memory_type)]
    memory_type: &'static str,
    /// All in the hot tier.
    total: u64,
    /// Those that would be cold, one count for each of `days`.
    cold: Vec<u64>,
    /// The same under the present configuration.
    cold_as_configured: Vec<u64>,
}

/// Get the configuration, beside the defaults.
#[utoipa::path(get, path = "/api/v1/settings/thermo", tag = "settings", params(Fresh),
    responses((status = OK, body = Settings), Reading))]
pub(crate) async fn thermo_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let thermo = app.read(move |reader| Ok(reader.thermo(caller.tenant))).await?;
    let defaults = Thermo::default();
    let custom = thermo != defaults;
    let body = Settings { config: shown(thermo), defaults: shown(defaults), custom };
    Ok((freshness, Json(body)).into_response())
}

/// Change the settings that are named; `null` sets one back to its default.
#[utoipa::path(patch, path = "/api/v1/settings/thermo", tag = "settings",
    request_body = requests::Configuration,
    responses((status = OK, body = Configured), Writing))]
pub(crate) async fn thermo_update(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    body: Body,
) -> ApiResult<Response> {
    let asked = Asked::of(body.fields.all())?;
    let Answer { freshness, reply, .. } =
        ask(&app, &caller, None, Action::UpdateSettings(asked.changes)).await?;
    let Reply::Settings(thermo) = reply else { return Err(ApiError::internal()) };
    let body = Configured { ok: true, config: shown(*thermo), ignored: asked.ignored };
    Ok((freshness, Json(body)).into_response())
}

/// Tell how many memories of each type would be cold in some days under a configuration.
#[utoipa::path(post, path = "/api/v1/settings/thermo/preview", tag = "settings", params(Fresh),
    request_body = requests::Configuration,
    responses((status = OK, body = Preview), Asking))]
pub(crate) async fn thermo_preview(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    body: Body,
) -> ApiResult<Response> {
    let asked = Asked::of(body.fields.all())?;
    let preview = app
        .read(move |reader| {
            let present = reader.thermo(caller.tenant);
            let Ok(proposed) = present.with(&asked.changes) else { return Ok(None) };
            let counts =
                |thermo: &Thermo| reader.forecast_cold(caller.tenant, thermo, &PREVIEW_DAYS);
            Ok(Some((counts(&present), counts(&proposed), proposed)))
        })
        .await?;
    let (present, proposed, thermo) = preview.ok_or_else(ApiError::internal)?;
    let types = MemoryType::ALL.into_iter().zip(present.into_iter().zip(proposed));
    let types = types.map(|(memory_type, (present, proposed))| TypePreview {
        memory_type: memory_type.name(),
        total: proposed.total,
        cold: proposed.cold,
        cold_as_configured: present.cold,
    });
    let body = Preview {
        days: PREVIEW_DAYS,
        types: types.collect(),
        config: shown(thermo),
        ignored: asked.ignored,
    };
    Ok((freshness, Json(body)).into_response())
}

/// A configuration as nested objects.
fn shown(mut thermo: Thermo) -> Value {
    let mut config = Value::Object(Map::new());
    for setting in thermo.settings() {
        let place = setting.name.split('.').fold(&mut config, |outer, part| &mut outer[part]);
        *place = match setting.value() {
            SettingValue::Switch(on) => on.into(),
            SettingValue::Number(number) if number.fract() == 0.0 => (number as i64).into(),
            SettingValue::Number(number) => number.into(),
            SettingValue::Default => Value::Null,
        };
    }
    // JSON knows no infinity: what is permanent has no factor.
    config["decay_classes"]["permanent"] = Value::Null;
    config
}

/// What a body asks to be changed.
struct Asked {
    changes: Vec<(String, SettingValue)>,
    /// Names that are no settings: published clients send such.
    ignored: Vec<String>,
}

impl Asked {
    /// Reads nested objects and dotted names alike, and checks every value.
    fn of(fields: &Map<String, Value>) -> ApiResult<Self> {
        let mut leaves = Vec::new();
        flatten("", fields, &mut leaves);
        let mut defaults = Thermo::default();
        let known: Vec<String> =
            defaults.settings().into_iter().map(|setting| setting.name).collect();
        let mut asked = Self { changes: Vec::new(), ignored: Vec::new() };
        for (name, value) in leaves {
            let canonical = canonical(&name);
            if canonical == "decay_classes.permanent" {
                if !value.is_null() {
                    return Err(ApiError::invalid(name, "must be null: permanent never cools"));
                }
                continue;
            }
            let within = |outer: &str, inner: &str| {
                inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
            };
            let mut inner = known.iter().filter(|setting| within(&canonical, setting)).peekable();
            if inner.peek().is_some() {
                match value {
                    Value::Null => asked
                        .changes
                        .extend(inner.map(|setting| (setting.clone(), SettingValue::Default))),
                    Value::Object(_) => {}
                    _ => return Err(ApiError::invalid(name, "must be an object of settings")),
                }
                continue;
            }
            if let Some(setting) = known.iter().find(|setting| within(setting, &canonical)) {
                return Err(ApiError::invalid(setting, "must be a number, true or false"));
            }
            if !known.contains(&canonical) {
                asked.ignored.push(name);
                continue;
            }
            let value = match value {
                Value::Null => SettingValue::Default,
                Value::Bool(on) => SettingValue::Switch(*on),
                Value::Number(number) => SettingValue::Number(number.as_f64().unwrap_or(f64::NAN)),
                _ => return Err(ApiError::invalid(name, "must be a number, true or false")),
            };
            let change = (canonical, value);
            if let Err(fault) = defaults.with(std::slice::from_ref(&change)) {
                return Err(ApiError::invalid(name, fault.message));
            }
            asked.changes.push(change);
        }
        Ok(asked)
    }
}

/// Every value within `fields` that has none in it, by its dotted name.
fn flatten<'a>(
    within: &str,
    fields: &'a Map<String, Value>,
    leaves: &mut Vec<(String, &'a Value)>,
) {
    for (name, value) in fields {
        let name = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
        match value {
            Value::Object(inner) if !inner.is_empty() => flatten(&name, inner, leaves),
            value => leaves.push((name, value)),
        }
    }
}

/// A setting's own name for a published one.
fn canonical(name: &str) -> String {
    match name.strip_prefix("half_lives.") {
        Some(memory_type) => format!("decay_profiles.{memory_type}.half_life"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(body: Value) -> ApiResult<Asked> {
        Asked::of(body.as_object().unwrap())
    }

    #[test]
    fn nested_objects_dotted_names_and_half_lives_name_the_same_settings() {
        let body = json!({
            "recall": { "heat_weight": 0.4 },
            "recall.keyword_weight": 0.2,
            "half_lives": { "fact": 1000 },
            "decay_profiles": { "fact": { "floor": null } },
            "tick": { "mode": "hybrid" },
        });
        let asked = asked(body).unwrap_or_else(|error| panic!("{error:?}"));
        let mut names: Vec<_> = asked.changes.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "decay_profiles.fact.floor",
                "decay_profiles.fact.half_life",
                "recall.heat_weight",
                "recall.keyword_weight",
            ]
        );
        assert_eq!(asked.ignored, ["tick.mode"]);
    }

    #[test]
    fn null_sets_a_setting_or_a_whole_section_back() {
        let all = asked(json!({ "resonance": null, "recall.heat_weight": null }))
            .unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(all.changes.len(), 5);
        assert!(all.changes.iter().all(|(_, value)| *value == SettingValue::Default));
    }

    #[test]
    fn a_value_out_of_range_is_refused_by_the_name_that_was_sent() {
        for (body, field) in [
            (json!({ "recall": { "heat_weight": -1 } }), "recall.heat_weight"),
            (json!({ "half_lives": { "fact": "long" } }), "half_lives.fact"),
            (json!({ "decay_classes": { "permanent": 2 } }), "decay_classes.permanent"),
            (json!({ "recall": 7 }), "recall"),
            (json!({ "recall": { "heat_weight": {} } }), "recall.heat_weight"),
            (json!({ "recall": { "heat_weight": { "x": 1 } } }), "recall.heat_weight"),
        ] {
            let refused = format!("{:?}", asked(body).err());
            assert!(refused.contains(&format!("field: Some({field:?})")), "{refused}");
        }
    }

    #[test]
    fn a_shown_configuration_changes_nothing_when_it_is_sent_back() {
        let shown = shown(Thermo::default());
        let asked = asked(shown).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(Thermo::default().with(&asked.changes), Ok(Thermo::default()));
        assert!(asked.ignored.is_empty());
    }
}
