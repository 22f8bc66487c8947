//! Requests that search memories or list the hottest.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::limits::{HOT_CONTEXT_DEFAULT, HOT_NODES_DEFAULT, SEARCH_DEFAULT};
use crate::requests::fields::{Limit, MemoryTypeWord, Namespace, Positive, Query, TierWord};
use crate::requests::memories::any_namespace;
use crate::requests::numbers::Clamped;

/// A search.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Search {
    /// At most 64 KiB. Without words the results are ordered by heat.
    pub(crate) query: Query,
    #[schema(default = 20)]
    limit: Option<Limit>,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    #[schema(default = "hot")]
    pub(crate) tier: Option<TierWord>,
    /// Adds every factor of each score.
    pub(crate) explain: Option<bool>,
}

impl Search {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(SEARCH_DEFAULT, Clamped::get)
    }
}

/// A hot context.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct HotContext {
    #[schema(default = 10)]
    limit: Option<Limit>,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    /// Characters of labels; the first memory is returned in any case.
    budget_chars: Option<Positive>,
}

impl HotContext {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(HOT_CONTEXT_DEFAULT, Clamped::get)
    }

    pub(crate) fn budget_chars(&self) -> Option<usize> {
        self.budget_chars.map(Clamped::get)
    }
}

/// Which of the hottest memories.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HotQuery {
    #[param(default = 20)]
    limit: Option<Limit>,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

impl HotQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(HOT_NODES_DEFAULT, Clamped::get)
    }
}
