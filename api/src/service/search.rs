//! Search and hot context, and the recalls that a search counts.

use storage::model::caller::Caller;
use storage::model::memory::{MemoryRecord, MemoryType};
use storage::{Filter, HotRequest, SearchRequest, SearchResults, TierFilter};

use crate::service::error::ApiResult;
use crate::service::{Service, components};

/// A search, validated.
#[derive(Debug)]
pub(crate) struct SearchInput {
    pub(crate) query: String,
    pub(crate) limit: usize,
    pub(crate) memory_type: Option<MemoryType>,
    /// Checked for access; `None` is all.
    pub(crate) namespace: Option<String>,
    pub(crate) tier: TierFilter,
    /// Namespace that the score boosts.
    pub(crate) home_namespace: Option<String>,
}

/// A list of the hottest memories, validated.
#[derive(Debug)]
pub(crate) struct HottestInput {
    pub(crate) limit: usize,
    pub(crate) memory_type: Option<MemoryType>,
    /// Checked for access; `None` is all.
    pub(crate) namespace: Option<String>,
}

impl Service {
    /// Searches, and counts each result as a recall. A query without words returns the
    /// hottest memories.
    pub(crate) async fn search(
        &self,
        caller: &Caller,
        input: SearchInput,
    ) -> ApiResult<SearchResults> {
        let vector = match input.query.trim() {
            "" => None,
            text => Some(components(&self.embed(text).await?)?),
        };
        let request = SearchRequest {
            query: input.query,
            vector,
            filter: Filter {
                memory_type: input.memory_type,
                namespace: input.namespace,
                access: caller.access.clone(),
                tier: input.tier,
                ..Filter::default()
            },
            home_namespace: input.home_namespace,
            limit: input.limit,
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
        input: HottestInput,
        budget_chars: Option<usize>,
    ) -> ApiResult<Vec<MemoryRecord>> {
        let active = self.reader().thermo(caller.tenant).active_index;
        let limit = input.limit.min(active.max_nodes as usize);
        let budget = budget_chars.unwrap_or(active.context_budget_chars as usize);
        let request = HotRequest {
            pinned_first: true,
            limit,
            budget_chars: Some(budget),
            filter: hot_filter(caller, input),
        };
        self.hottest(caller, request).await
    }

    /// The hottest memories.
    pub(crate) async fn hot_memories(
        &self,
        caller: &Caller,
        input: HottestInput,
    ) -> ApiResult<Vec<MemoryRecord>> {
        let limit = input.limit;
        let filter = hot_filter(caller, input);
        self.hottest(caller, HotRequest { limit, filter, ..HotRequest::default() }).await
    }

    async fn hottest(&self, caller: &Caller, request: HotRequest) -> ApiResult<Vec<MemoryRecord>> {
        let tenant = caller.tenant;
        self.read(move |reader| reader.hottest(tenant, &request)).await
    }
}

fn hot_filter(caller: &Caller, input: HottestInput) -> Filter {
    Filter {
        memory_type: input.memory_type,
        namespace: input.namespace,
        access: caller.access.clone(),
        ..Filter::default()
    }
}
