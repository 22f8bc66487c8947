//! The tenant's settings: read, changed, and tried out.

use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use storage::model::memory::MemoryType;
use storage::model::thermo::Thermo;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, ReaderCaller};
use crate::limits::FORECAST_DAYS;
use crate::openapi::{BodyErrors, ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::ValidJson;
use crate::requests::headers::Fresh;
use crate::requests::settings::Settings;
use crate::responses::settings::{self, config};
use crate::responses::{Respond, word};
use crate::service::error::ApiResult;

/// The settings, beside the defaults.
#[derive(Serialize, ToSchema)]
pub(crate) struct SettingsView {
    #[schema(schema_with = settings::complete)]
    config: Value,
    #[schema(schema_with = settings::complete)]
    defaults: Value,
    /// Whether they differ.
    custom: bool,
}

/// Settings that were changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct UpdatedSettings {
    /// Always true.
    ok: bool,
    #[schema(schema_with = settings::complete)]
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
    #[schema(schema_with = settings::complete)]
    config: Value,
    /// Names in the request that are not settings.
    ignored: Vec<String>,
}

/// What settings would do to the memories of a type.
#[derive(Serialize, ToSchema)]
struct TypeForecast {
    #[schema(schema_with = word::<MemoryType>)]
    memory_type: &'static str,
    /// Memories of the hot tier.
    total: u64,
    /// Memories that would be cold, one count for each of `days`.
    cold: Vec<u64>,
    /// The same under the present settings.
    cold_as_configured: Vec<u64>,
}

/// Get the settings, beside the defaults.
#[utoipa::path(get, path = "/api/v1/settings/thermo", tag = "settings", params(Fresh),
    responses((status = OK, body = SettingsView), ReadErrors))]
pub(crate) async fn thermo_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<SettingsView>> {
    let thermo = app.service().thermo(&caller).await?;
    let defaults = Thermo::default();
    let custom = thermo != defaults;
    let body = SettingsView { config: config(thermo), defaults: config(defaults), custom };
    Ok(Respond::ok(freshness, body))
}

/// Change the named settings; `null` resets one to its default.
#[utoipa::path(patch, path = "/api/v1/settings/thermo", tag = "settings",
    request_body = Settings,
    responses((status = OK, body = UpdatedSettings), WriteErrors))]
pub(crate) async fn thermo_update(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    ValidJson(request): ValidJson<Settings>,
) -> ApiResult<Respond<UpdatedSettings>> {
    let request = request.into_changes()?;
    let done = app.service().update_settings(&caller, request.changes).await?;
    let body = UpdatedSettings { ok: true, config: config(done.value), ignored: request.ignored };
    Ok(Respond::ok(done.freshness, body))
}

/// Count the memories of each type that would be cold after some days under changed settings.
#[utoipa::path(post, path = "/api/v1/settings/thermo/preview", tag = "settings", params(Fresh),
    request_body = Settings,
    responses((status = OK, body = ForecastView), BodyErrors))]
pub(crate) async fn thermo_preview(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    ValidJson(request): ValidJson<Settings>,
) -> ApiResult<Respond<ForecastView>> {
    let request = request.into_changes()?;
    let forecast = app.service().forecast(&caller, request.changes).await?;
    let counts = forecast.present.into_iter().zip(forecast.proposed);
    let types = MemoryType::ALL.into_iter().zip(counts);
    let types = types.map(|(memory_type, (present, proposed))| TypeForecast {
        memory_type: memory_type.name(),
        total: proposed.total,
        cold: proposed.cold,
        cold_as_configured: present.cold,
    });
    let body = ForecastView {
        days: FORECAST_DAYS,
        types: types.collect(),
        config: config(forecast.thermo),
        ignored: request.ignored,
    };
    Ok(Respond::ok(freshness, body))
}
