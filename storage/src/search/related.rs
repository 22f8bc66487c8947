//! What memories are related to: the neighbours of one, and the graph view.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::{Reader, thermo};
use crate::error::Result;
use crate::model::access::Access;
use crate::model::edge::Edge;
use crate::model::id::{MemoryId, TenantId};
use crate::model::memory::MemoryRecord;
use crate::search::list::HotRequest;
use crate::table::view::View;

/// A memory with the edge by which it was reached.
#[derive(Debug, Clone)]
pub struct Neighbour {
    /// The memory.
    pub record: MemoryRecord,
    /// The last edge of the way to it.
    pub edge: Edge,
    /// Edges of the way to it, from 1.
    pub hops: u32,
}

/// Memories with the edges between them.
#[derive(Debug, Clone, Default)]
pub struct GraphView {
    /// The hottest memories, the hottest first.
    pub memories: Vec<MemoryRecord>,
    /// Edges of which both ends are among them, in order of their ends.
    pub edges: Vec<Edge>,
    /// Memories that pass the filter in all.
    pub total: usize,
}

impl Reader {
    /// Memories related to `id`, the nearest first, then the strongest; `None` if it is not
    /// there. Each is named once, by the shortest way over what is open to whoever asks.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn neighbours(
        &self,
        tenant: TenantId,
        id: MemoryId,
        access: &Access,
        depth: u32,
        limit: usize,
    ) -> Result<Option<Vec<Neighbour>>> {
        let engine = self.engine();
        let now = engine.position.read().clock;
        let thermo = thermo(&engine, tenant);
        let rows = engine.state.at_once();
        if rows.memory(tenant, id)?.is_none() {
            return Ok(None);
        }
        let (mut found, mut met) = (Vec::new(), BTreeSet::from([id]));
        let mut ring = vec![id];
        for hops in 1..=depth {
            let mut next = Vec::new();
            for from in ring {
                for edge in rows.edges(tenant, from)? {
                    let other = edge.other(from);
                    if found.len() == limit {
                        return Ok(Some(found));
                    }
                    if !met.insert(other) {
                        continue;
                    }
                    let record = rows.memory_record(tenant, other, &thermo, now)?;
                    let open = |record: &MemoryRecord| access.allows(&record.memory.namespace);
                    if let Some(record) = record.filter(open) {
                        found.push(Neighbour { record, edge, hops });
                        next.push(other);
                    }
                }
            }
            ring = next;
        }
        Ok(Some(found))
    }

    /// The hottest memories and the edges between them.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn graph_view(&self, tenant: TenantId, request: &HotRequest) -> Result<GraphView> {
        let (memories, total) = self.hottest_of(tenant, request)?;
        let shown: BTreeSet<MemoryId> = memories.iter().map(|record| record.id).collect();
        let engine = self.engine();
        let rows = engine.state.at_once();
        let mut edges = BTreeMap::new();
        for id in &shown {
            for edge in rows.edges(tenant, *id)? {
                if edge.source == *id && shown.contains(&edge.target) {
                    edges.insert((edge.source, edge.target, edge.relation.clone()), edge);
                }
            }
        }
        Ok(GraphView { memories, edges: edges.into_values().collect(), total })
    }
}
