//! Requests that search memories or list the hottest.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::requests::details::{RequiredMetadata, Tags};
use crate::requests::fields::*;
use crate::requests::memories::any_namespace;
use crate::requests::numbers::Score;

/// A search.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Search {
    /// At most 64 KiB. Without words the results are ordered by heat.
    pub(crate) query: Query,
    #[serde(default)]
    pub(crate) limit: SearchLimit,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    #[schema(default = "hot")]
    pub(crate) tier: Option<TierWord>,
    /// Name of the key that created the memory.
    pub(crate) agent: Option<AgentName>,
    pub(crate) key_id: Option<KeyIdText>,
    /// Program that created it, with or without its version.
    pub(crate) client: Option<OriginName>,
    pub(crate) tool: Option<OriginName>,
    /// Tags that a memory must have.
    pub(crate) tags: Option<Tags>,
    /// Entries that its metadata must have.
    pub(crate) metadata: Option<RequiredMetadata>,
    /// Only memories created at this time or later. A day is one of the time zone in `X-Timezone`.
    pub(crate) time_from: Option<TimeText>,
    /// Only memories created at this time or earlier, or on this day.
    pub(crate) time_to: Option<TimeText>,
    /// Leaves out results with a lower score.
    pub(crate) min_score: Option<Score>,
    /// Adds every factor of each score.
    pub(crate) explain: Option<bool>,
}

/// A hot context.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct HotContext {
    #[serde(default)]
    pub(crate) limit: HotContextLimit,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    /// Characters of labels; the first memory is returned in any case.
    pub(crate) budget_chars: Option<Positive>,
}

/// Which of the hottest memories.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HotQuery {
    #[serde(default)]
    pub(crate) limit: HotNodesLimit,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

/// A context to load.
#[derive(Default, Deserialize, ToSchema)]
pub(crate) struct ContextRequest {
    /// What the conversation is about. Without it, the context has the hottest memories only.
    query: Option<Query>,
    /// Alias of `query`, and first of them.
    #[schema(ignore)]
    prompt: Option<Query>,
    /// About four characters are one token.
    #[serde(default)]
    pub(crate) token_budget: TokenBudget,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
}

impl ContextRequest {
    /// What the conversation is about; `None` if that is blank.
    pub(crate) fn query(&self) -> Option<&str> {
        let texts = [&self.prompt, &self.query].into_iter().flatten();
        texts.map(|text| text.0.as_str()).find(|text| !text.trim().is_empty())
    }
}
