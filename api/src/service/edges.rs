//! Edges between memories, neighbours, and the graph view.

use std::collections::HashSet;

use storage::model::edge::Edge;
use storage::model::id::MemoryId;
use storage::{Action, EdgeRef, GraphView, HotRequest, Neighbour, Rejection, View};

use crate::service::Session;
use crate::service::access::check_access;
use crate::service::error::ApiResult;
use crate::service::writes::WriteResult;

/// Whether all edges of a memory lead to existing memories.
pub(crate) struct EdgeCheck {
    pub(crate) edges: usize,
    pub(crate) neighbours: usize,
    pub(crate) verified: bool,
}

impl Session {
    /// Creates an edge. The result says whether it is new.
    pub(crate) async fn create_edge(&self, edge: EdgeRef) -> ApiResult<WriteResult<(Edge, bool)>> {
        self.submit(Action::CreateEdge(edge)).await
    }

    pub(crate) async fn delete_edge(&self, edge: EdgeRef) -> ApiResult<WriteResult<(Edge, bool)>> {
        self.submit(Action::DeleteEdge(edge)).await
    }

    /// The neighbours of a memory over at most `depth` edges, the nearest first.
    pub(crate) async fn neighbours(
        &self,
        id: MemoryId,
        depth: u32,
        limit: usize,
    ) -> ApiResult<Vec<Neighbour>> {
        let found = self.find(move |reader, caller| {
            let Some(record) = reader.get(caller.tenant, id)? else { return Ok(None) };
            let found = reader.neighbours(caller.tenant, id, &caller.access, depth, limit)?;
            Ok(found.map(|found| (record.memory.namespace, found)))
        });
        let ((namespace, found), access) = found.await?.ok_or(Rejection::NotFound)?;
        check_access(&access, &namespace)?;
        Ok(found)
    }

    /// The hottest memories and the edges between them.
    pub(crate) async fn graph_view(&self, request: HotRequest) -> ApiResult<GraphView> {
        self.read(move |reader, caller| reader.graph_view(caller.tenant, &request)).await
    }

    /// Checks that all edges of a memory lead to existing memories. Edges to inaccessible
    /// memories do not exist for the caller.
    pub(crate) async fn check_edges(&self, id: MemoryId) -> ApiResult<EdgeCheck> {
        let found = self.find(move |reader, caller| {
            let Some(record) = reader.get(caller.tenant, id)? else { return Ok(None) };
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
            let check = EdgeCheck { edges, neighbours: others.len(), verified };
            Ok(Some((record.memory.namespace, check)))
        });
        let ((namespace, check), access) = found.await?.ok_or(Rejection::NotFound)?;
        check_access(&access, &namespace)?;
        Ok(check)
    }
}
