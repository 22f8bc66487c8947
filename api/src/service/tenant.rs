//! The tenant as a whole: its row, its counts, its usage.

use storage::model::analytics::{RecallStats, Usage};
use storage::model::caller::Caller;
use storage::model::id::{TenantId, Timestamp};
use storage::model::memory::MemoryRecord;
use storage::model::tenant::Tenant;
use storage::model::tick::Tick;
use storage::{Action, Counts, Filter, HotRequest, Overview, View};

use crate::service::Service;
use crate::service::error::{ApiError, ApiResult};
use crate::service::freshness::Freshness;

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

impl Service {
    pub(crate) async fn tenant(&self, id: TenantId) -> ApiResult<Tenant> {
        let tenant = self.read(move |reader| reader.tenant(id)).await?;
        tenant.ok_or_else(ApiError::internal)
    }

    /// The tenant, and the number of its keys.
    pub(crate) async fn tenant_and_keys(&self, id: TenantId) -> ApiResult<(Tenant, usize)> {
        let read =
            move |reader: &storage::Reader| Ok((reader.tenant(id)?, reader.api_keys(id)?.len()));
        let (tenant, keys) = self.read(read).await?;
        Ok((tenant.ok_or_else(ApiError::internal)?, keys))
    }

    /// Renames the tenant; without a name nothing changes.
    pub(crate) async fn rename_tenant(
        &self,
        caller: &Caller,
        name: Option<String>,
    ) -> ApiResult<Freshness> {
        match name {
            Some(name) => {
                Ok(self.submit(caller, None, Action::RenameTenant(name)).await?.freshness)
            }
            None => Ok(Freshness::of_write(self.reader().position().index)),
        }
    }

    /// Counts of the memories that pass each filter, in one read.
    pub(crate) async fn overviews<const N: usize>(
        &self,
        caller: &Caller,
        filters: [Filter; N],
    ) -> ApiResult<[Overview; N]> {
        let tenant = caller.tenant;
        self.read(move |reader| Ok(filters.map(|filter| reader.overview(tenant, &filter)))).await
    }

    pub(crate) async fn dashboard(&self, caller: &Caller) -> ApiResult<DashboardData> {
        let tenant = caller.tenant;
        self.read(move |reader| {
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

    /// Usage of the present month, and which month it is.
    pub(crate) async fn usage(&self, caller: &Caller) -> ApiResult<(Usage, u32)> {
        let tenant = caller.tenant;
        self.read(move |reader| {
            let month = reader.position().clock.month();
            Ok((reader.usage(tenant, month)?, month))
        })
        .await
    }

    /// Recall statistics, and when they began.
    pub(crate) async fn recall_stats(
        &self,
        caller: &Caller,
    ) -> ApiResult<(RecallStats, Option<Timestamp>)> {
        let tenant = caller.tenant;
        self.read(move |reader| {
            let since = reader.tenant(tenant)?.map(|tenant| tenant.created_at);
            Ok((reader.recall_stats(tenant)?, since))
        })
        .await
    }

    pub(crate) async fn counts(&self, caller: &Caller) -> ApiResult<Counts> {
        let tenant = caller.tenant;
        self.read(move |reader| Ok(reader.counts(tenant))).await
    }
}
