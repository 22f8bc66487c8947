//! A tenant: its name, settings, counts and analytics.

use storage::command::ChangeTenant;
use storage::model::analytics::{RecallStats, Usage};
use storage::model::memory::MemoryRecord;
use storage::model::retention::RetentionRule;
use storage::model::tenant::{Limit, Tenant};
use storage::model::thermo::{SettingValue, Thermo};
use storage::model::tick::Tick;
use storage::{
    Counts, DueRequest, Filter, Forecast, HotRequest, Overview, OwnTenantPatch, Reader, View,
};

use crate::error::{ApiError, ApiResult};
use crate::limits::FORECAST_DAYS;
use crate::service::Session;
use crate::service::freshness::Freshness;

/// Counts of a tenant as a dashboard shows them, from one read.
pub(crate) struct Summary {
    pub(crate) overview: Overview,
    pub(crate) edges: u64,
    pub(crate) hottest: Option<MemoryRecord>,
    pub(crate) coldest: Option<MemoryRecord>,
    /// Of the present calendar month.
    pub(crate) usage: Usage,
    pub(crate) tick: Option<Tick>,
}

impl Session {
    pub(crate) async fn tenant(&self) -> ApiResult<Tenant> {
        let tenant = self.read(|reader, caller| reader.tenant(caller.tenant)).await?;
        tenant.ok_or_else(ApiError::internal)
    }

    /// A limit of the tenant; `None` is unlimited.
    pub(crate) fn limit(&self, limit: Limit) -> Option<u64> {
        self.service.reader.limit(self.caller.tenant, limit)
    }

    /// Changes what an admin may change of the tenant.
    pub(crate) async fn change_tenant(&self, patch: OwnTenantPatch) -> ApiResult<Freshness> {
        if patch == OwnTenantPatch::default() {
            return Ok(self.service.present());
        }
        Ok(self.submit(ChangeTenant(patch)).await?.freshness)
    }

    pub(crate) async fn settings(&self) -> ApiResult<Thermo> {
        self.read(|reader, caller| Ok(reader.thermo(caller.tenant))).await
    }

    /// Forecasts for [`FORECAST_DAYS`] under the present settings and under changed ones; only of
    /// memories that the caller may access. Returns the changed settings too.
    pub(crate) async fn forecasts(
        &self,
        changes: Vec<(String, SettingValue)>,
    ) -> ApiResult<(Thermo, [Forecast; 2])> {
        let read = self.read(move |reader, caller| {
            let present = reader.thermo(caller.tenant);
            let Ok(proposed) = present.with(&changes) else { return Ok(None) };
            let filter = Filter { access: caller.access.clone(), ..Filter::default() };
            let forecasts = [&present, &proposed]
                .map(|thermo| reader.forecast(caller.tenant, &filter, thermo, &FORECAST_DAYS));
            Ok(Some((proposed, forecasts)))
        });
        read.await?.ok_or_else(ApiError::internal)
    }

    /// Number of memories on which each rule would be due now.
    pub(crate) async fn retention_due(&self, rules: Vec<RetentionRule>) -> ApiResult<Vec<u64>> {
        self.read(move |reader, caller| {
            let (thermo, now) = (&reader.thermo(caller.tenant), reader.position().clock);
            let request = DueRequest { rules: &rules, thermo, now, reached: None, limit: 0 };
            Ok(reader.retention_due(caller.tenant, &request).1)
        })
        .await
    }

    /// Counts of the memories that pass each filter, from one read.
    pub(crate) async fn overviews(&self, filters: Vec<Filter>) -> ApiResult<Vec<Overview>> {
        self.read(move |reader, caller| {
            Ok(filters.iter().map(|filter| reader.overview(caller.tenant, filter)).collect())
        })
        .await
    }

    /// Counts of all namespaces.
    pub(crate) async fn counts(&self) -> ApiResult<Counts> {
        self.check_unrestricted()?;
        self.read(|reader, caller| Ok(reader.counts(caller.tenant))).await
    }

    /// Usage of the present calendar month, and the month (see `Timestamp::month`).
    pub(crate) async fn usage(&self) -> ApiResult<(Usage, u32)> {
        self.read(|reader, caller| {
            let month = reader.position().clock.month();
            Ok((reader.usage(caller.tenant, month)?, month))
        })
        .await
    }

    /// Recalls of all namespaces.
    pub(crate) async fn recall_stats(&self) -> ApiResult<RecallStats> {
        self.check_unrestricted()?;
        self.read(|reader, caller| reader.recall_stats(caller.tenant)).await
    }

    pub(crate) async fn summary(&self) -> ApiResult<Summary> {
        self.read(|reader: &Reader, caller| {
            let tenant = caller.tenant;
            let overview = reader.overview(tenant, &Filter::default());
            let hottest = HotRequest { limit: 1, ..HotRequest::default() };
            Ok(Summary {
                edges: reader.counts(tenant).edges,
                hottest: reader.hottest(tenant, &hottest)?.into_iter().next(),
                coldest: overview.coldest.map(|id| reader.get(tenant, id)).transpose()?.flatten(),
                usage: reader.usage(tenant, reader.position().clock.month())?,
                tick: reader.tick(tenant)?,
                overview,
            })
        })
        .await
    }
}
