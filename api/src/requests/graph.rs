//! Requests about edges, and about the graph of memories.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use storage::command::EdgeRef;

use crate::error::{ApiError, ApiResult};
use crate::requests::fields::*;

/// Relation of an edge that names none.
const RELATION_DEFAULT: &str = "related_to";

/// Two memories and their relation.
#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Relation {
    source_id: MemoryIdText,
    /// Another memory.
    target_id: MemoryIdText,
    /// For example `depends_on`, `part_of` or `contradicts`.
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
    #[serde(default)]
    pub(crate) limit: GraphLimit,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

/// How many neighbours, over how many edges.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NeighbourQuery {
    #[serde(default)]
    pub(crate) limit: NeighboursLimit,
    #[serde(default)]
    pub(crate) depth: Depth,
}
