//! Requests about edges, and about the graph of memories.

use serde::Deserialize;
use storage::EdgeRef;
use utoipa::{IntoParams, ToSchema};

use crate::limits::{GRAPH_DEFAULT, NEIGHBOURS_DEFAULT};
use crate::requests::fields::{Depth, GraphLimit, Limit, MemoryIdText, Namespace, RelationName};
use crate::requests::numbers::Clamped;
use crate::service::error::{ApiError, ApiResult};

/// Relation of an edge that names none.
const RELATION_DEFAULT: &str = "related_to";

/// Two memories and their relation.
#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Relation {
    source_id: MemoryIdText,
    /// Another memory.
    target_id: MemoryIdText,
    #[schema(default = "related_to")]
    relation: Option<RelationName>,
}

impl Relation {
    pub(crate) fn into_edge(self) -> ApiResult<EdgeRef> {
        let (source, target) = (self.source_id.0, self.target_id.0);
        if source == target {
            return Err(ApiError::invalid("target_id", "must differ from source_id"));
        }
        let relation = self.relation.map_or_else(|| RELATION_DEFAULT.to_owned(), |text| text.0);
        Ok(EdgeRef { source, target, relation })
    }
}

/// Size of the graph view.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    #[param(default = 200)]
    limit: Option<GraphLimit>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

impl GraphQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(GRAPH_DEFAULT, Clamped::get)
    }
}

/// How many neighbours, over how many edges.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NeighbourQuery {
    #[param(default = 20)]
    limit: Option<Limit>,
    #[param(default = 1)]
    depth: Option<Depth>,
}

impl NeighbourQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(NEIGHBOURS_DEFAULT, Clamped::get)
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth.map_or(1, Clamped::get) as u32
    }
}
