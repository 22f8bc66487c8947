//! Search and hot context, and the recalls that a search counts.

use storage::model::memory::MemoryRecord;
use storage::{HotRequest, SearchRequest, SearchResults};

use crate::service::error::ApiResult;
use crate::service::{Session, components};

impl Session {
    /// Searches, and counts each result as a recall. A query without words returns the hottest
    /// memories. Sets the vector of the request.
    pub(crate) async fn search(&self, mut request: SearchRequest) -> ApiResult<SearchResults> {
        request.vector = match request.query.trim() {
            "" => None,
            text => Some(components(&self.service.embed(text).await?)?),
        };
        let results =
            self.read(move |reader, caller| reader.search(caller.tenant, &request)).await?;
        let ids = results.hits.iter().map(|hit| hit.record.id);
        self.service.recalls.count(self.caller.tenant, ids);
        Ok(results)
    }

    /// The context of an agent's turn: pinned first, then the hottest, within the tenant's
    /// limits of memories and characters.
    pub(crate) async fn hot_context(&self, request: HotRequest) -> ApiResult<Vec<MemoryRecord>> {
        let active = self.service.reader.thermo(self.caller.tenant).active_index;
        let budget = request.budget_chars.unwrap_or(active.context_budget_chars as usize);
        let limit = request.limit.min(active.max_nodes as usize);
        let budget_chars = Some(budget);
        self.hottest(HotRequest { pinned_first: true, limit, budget_chars, ..request }).await
    }

    pub(crate) async fn hottest(&self, request: HotRequest) -> ApiResult<Vec<MemoryRecord>> {
        self.read(move |reader, caller| reader.hottest(caller.tenant, &request)).await
    }
}
