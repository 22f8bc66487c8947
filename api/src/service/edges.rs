//! Neighbours of memories, the graph view, and the check of edges.

use std::collections::HashSet;

use storage::model::id::MemoryId;
use storage::{GraphView, HotRequest, Neighbour, View};

use crate::error::ApiResult;
use crate::service::Session;

/// Whether all edges of a memory lead to existing memories.
pub(crate) struct EdgeCheck {
    pub(crate) edges: usize,
    pub(crate) neighbours: usize,
    pub(crate) verified: bool,
}

impl Session {
    /// The neighbours of a memory over at most `depth` edges, the nearest first.
    pub(crate) async fn neighbours(
        &self,
        id: MemoryId,
        depth: u32,
        limit: usize,
    ) -> ApiResult<Vec<Neighbour>> {
        let found = self.find_memory(id, move |reader, caller, _| {
            reader.neighbours(caller.tenant, id, &caller.access, depth, limit)
        });
        Ok(found.await?.0)
    }

    /// The hottest memories and the edges between them.
    pub(crate) async fn graph_view(&self, request: HotRequest) -> ApiResult<GraphView> {
        self.read(move |reader, caller| reader.graph_view(caller.tenant, &request)).await
    }

    /// Checks that all edges of a memory lead to existing memories. Edges to inaccessible
    /// memories do not exist for the caller.
    pub(crate) async fn check_edges(&self, id: MemoryId) -> ApiResult<EdgeCheck> {
        let check = self.find_memory(id, move |reader, caller, _| {
            let (mut edges, mut verified, mut others) = (0, true, HashSet::new());
            for edge in reader.edges(caller.tenant, id)? {
                let other = edge.other(id);
                match reader.get(caller.tenant, other)? {
                    None => verified = false,
                    Some(found) if !caller.access.allows(&found.memory.namespace) => continue,
                    Some(_) => drop(others.insert(other)),
                }
                edges += 1;
            }
            Ok(Some(EdgeCheck { edges, neighbours: others.len(), verified }))
        });
        Ok(check.await?.0)
    }
}
