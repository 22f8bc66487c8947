//! Search and hot context, and the recalls that a search counts.

use storage::model::caller::Caller;
use storage::model::memory::MemoryRecord;
use storage::{HotRequest, SearchRequest, SearchResults};

use crate::service::error::ApiResult;
use crate::service::{Service, components};

impl Service {
    /// Searches, and counts each result as a recall. A query without words returns the hottest
    /// memories. Sets the vector of the request.
    pub(crate) async fn search(
        &self,
        caller: &Caller,
        mut request: SearchRequest,
    ) -> ApiResult<SearchResults> {
        request.vector = match request.query.trim() {
            "" => None,
            text => Some(components(&self.embed(text).await?)?),
        };
        let tenant = caller.tenant;
        let results = self.read(move |reader| reader.search(tenant, &request)).await?;
        self.recalls().count(tenant, results.hits.iter().map(|hit| hit.record.id));
        Ok(results)
    }

    /// The context of an agent's turn: pinned first, then the hottest, within the tenant's
    /// limits of memories and characters.
    pub(crate) async fn hot_context(
        &self,
        caller: &Caller,
        request: HotRequest,
    ) -> ApiResult<Vec<MemoryRecord>> {
        let active = self.reader().thermo(caller.tenant).active_index;
        let budget = request.budget_chars.unwrap_or(active.context_budget_chars as usize);
        let limit = request.limit.min(active.max_nodes as usize);
        let budget_chars = Some(budget);
        self.hottest(caller, HotRequest { pinned_first: true, limit, budget_chars, ..request })
            .await
    }

    /// The hottest memories.
    pub(crate) async fn hottest(
        &self,
        caller: &Caller,
        request: HotRequest,
    ) -> ApiResult<Vec<MemoryRecord>> {
        let tenant = caller.tenant;
        self.read(move |reader| reader.hottest(tenant, &request)).await
    }
}
