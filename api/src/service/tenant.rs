//! The tenant as a whole: its keys, its counts, its settings.

use storage::model::analytics::Usage;
use storage::model::id::Timestamp;
use storage::model::memory::MemoryRecord;
use storage::model::tenant::{ApiKey, KeyId, KeyText, Role};
use storage::model::thermo::{SettingValue, Thermo};
use storage::model::tick::Tick;
use storage::{Action, ColdForecast, Filter, HotRequest, Overview, View};

use crate::limits::FORECAST_DAYS;
use crate::random::random_bytes;
use crate::service::Session;
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::Done;

/// What the dashboard shows.
pub(crate) struct DashboardData {
    pub(crate) overview: Overview,
    pub(crate) hottest: Option<MemoryRecord>,
    pub(crate) coldest: Option<MemoryRecord>,
    /// Of the present month.
    pub(crate) usage: Usage,
    pub(crate) tick: Option<Tick>,
    pub(crate) edges: u64,
}

/// Cold memories per type, under the present settings and under proposed ones.
pub(crate) struct Forecast {
    pub(crate) present: Vec<ColdForecast>,
    pub(crate) proposed: Vec<ColdForecast>,
    /// The proposed settings.
    pub(crate) thermo: Thermo,
}

impl Session {
    /// Creates a key. Its text exists in the result only, outside of its owner.
    pub(crate) async fn create_key(
        &self,
        name: String,
        role: Role,
        namespace: Option<String>,
    ) -> ApiResult<(Done<(KeyId, ApiKey)>, KeyText)> {
        let text = KeyText::from_random(random_bytes());
        let id = KeyText::id_of(text.as_str()).ok_or_else(ApiError::internal)?;
        let key = ApiKey {
            name,
            role,
            hash: KeyText::hash(text.as_str()),
            namespace,
            created_at: Timestamp::default(),
            last_used_at: None,
        };
        Ok((self.submit(Action::CreateKey(id, key)).await?, text))
    }

    /// Counts of the memories that pass each filter, in one read.
    pub(crate) async fn overviews<const N: usize>(
        &self,
        filters: [Filter; N],
    ) -> ApiResult<[Overview; N]> {
        self.read(move |reader, caller| {
            Ok(filters.map(|filter| reader.overview(caller.tenant, &filter)))
        })
        .await
    }

    pub(crate) async fn dashboard(&self) -> ApiResult<DashboardData> {
        self.read(move |reader, caller| {
            let tenant = caller.tenant;
            let overview = reader.overview(tenant, &Filter::default());
            let request = HotRequest { limit: 1, ..HotRequest::default() };
            Ok(DashboardData {
                hottest: reader.hottest(tenant, &request)?.into_iter().next(),
                coldest: overview.coldest.map(|id| reader.get(tenant, id)).transpose()?.flatten(),
                usage: reader.usage(tenant, reader.position().clock.month())?,
                tick: reader.tick(tenant)?,
                edges: reader.counts(tenant).edges,
                overview,
            })
        })
        .await
    }

    /// Counts the memories that would be cold after [`FORECAST_DAYS`] under changed settings.
    pub(crate) async fn forecast(
        &self,
        changes: Vec<(String, SettingValue)>,
    ) -> ApiResult<Forecast> {
        let forecast = self.read(move |reader, caller| {
            let present = reader.thermo(caller.tenant);
            let Ok(thermo) = present.with(&changes) else { return Ok(None) };
            let counts = |thermo: &Thermo| {
                reader.forecast_cold(caller.tenant, thermo, &FORECAST_DAYS).into()
            };
            let (present, proposed) = (counts(&present), counts(&thermo));
            Ok(Some(Forecast { present, proposed, thermo }))
        });
        forecast.await?.ok_or_else(ApiError::internal)
    }
}
