//! The tenant's settings: their change, and a forecast of what a change would do.

use storage::model::caller::Caller;
use storage::model::thermo::{SettingValue, Thermo};
use storage::{Action, ColdForecast, Reply};

use crate::limits::FORECAST_DAYS;
use crate::service::Service;
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::Done;

/// Cold memories per type, under the present settings and under proposed ones.
pub(crate) struct Forecast {
    pub(crate) present: Vec<ColdForecast>,
    pub(crate) proposed: Vec<ColdForecast>,
    /// The proposed settings.
    pub(crate) thermo: Thermo,
}

impl Service {
    pub(crate) async fn thermo(&self, caller: &Caller) -> ApiResult<Thermo> {
        let tenant = caller.tenant;
        self.read(move |reader| Ok(reader.thermo(tenant))).await
    }

    pub(crate) async fn update_settings(
        &self,
        caller: &Caller,
        changes: Vec<(String, SettingValue)>,
    ) -> ApiResult<Done<Thermo>> {
        let done = self.submit(caller, None, Action::UpdateSettings(changes)).await?;
        done.map(|reply| match reply {
            Reply::Settings(thermo) => Some(*thermo),
            _ => None,
        })
    }

    /// Counts the memories that would be cold after [`FORECAST_DAYS`] under changed settings.
    pub(crate) async fn forecast(
        &self,
        caller: &Caller,
        changes: Vec<(String, SettingValue)>,
    ) -> ApiResult<Forecast> {
        let tenant = caller.tenant;
        let forecast = self.read(move |reader| {
            let present = reader.thermo(tenant);
            let Ok(thermo) = present.with(&changes) else { return Ok(None) };
            let counts =
                |thermo: &Thermo| reader.forecast_cold(tenant, thermo, &FORECAST_DAYS).into();
            let (present, proposed) = (counts(&present), counts(&thermo));
            Ok(Some(Forecast { present, proposed, thermo }))
        });
        forecast.await?.ok_or_else(ApiError::internal)
    }
}
