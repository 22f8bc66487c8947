//! The tenant's settings: read, changed, and tried out.

use serde_json::Value;
use storage::command::UpdateSettings;
use storage::model::thermo::Thermo;

use crate::limits::FORECAST_DAYS;
use crate::prelude::*;
use crate::requests::settings::{Settings, ThermoChanges};
use crate::responses::settings::{self, config};

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
    /// Memories that the next tick would archive.
    archived: u64,
    /// The same under the present settings.
    archived_as_configured: u64,
    #[schema(schema_with = settings::complete)]
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
pub(crate) async fn thermo_get(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<SettingsView> {
    let thermo = session.settings().await?;
    let defaults = Thermo::default();
    let custom = thermo != defaults;
    let body = SettingsView { config: config(thermo), defaults: config(defaults), custom };
    Ok(Success::ok(freshness, body))
}

/// Change the named settings; `null` resets one to its default.
#[utoipa::path(patch, path = "/api/v1/settings/thermo", tag = "settings", request_body = Settings,
    responses((status = OK, body = UpdatedSettings), WriteErrors))]
pub(crate) async fn thermo_update(
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
pub(crate) async fn thermo_preview(
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
