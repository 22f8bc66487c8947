//! The index of one tenant: [`IndexData`] behind one lock. Only `apply` and the graph builder
//! change it. Readers take the lock for one chunk at a time, so writers wait briefly.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;

use crate::index::Slot;
use crate::index::chunk::Chunk;
use crate::index::coverage::GraphCoverage;
use crate::index::data::{IndexChange, IndexData};
use crate::index::graph::{Graph, GraphTask};
use crate::model::sq8::Code;
use crate::model::tenant::Tenant;

pub(crate) struct TenantIndex {
    data: RwLock<IndexData>,
}

impl TenantIndex {
    pub(crate) fn new(tenant: Tenant, dimension: usize) -> Self {
        Self { data: RwLock::new(IndexData::new(tenant, dimension)) }
    }

    /// Applies all of `changes` under one lock, so readers see all of them or none.
    pub(crate) fn apply(&self, changes: impl IntoIterator<Item = IndexChange>) {
        let mut data = self.data.write();
        for change in changes {
            data.apply(change);
        }
    }

    /// Locks the data for reading. Hold the guard briefly: writers wait for it.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, IndexData> {
        self.data.read()
    }

    /// The next piece of work on the graph. A tenant has a graph if it has more than
    /// `exact_max` memories.
    pub(crate) fn next_task(&self, exact_max: usize) -> Option<GraphTask> {
        self.data.write().next_graph_task(exact_max)
    }

    /// As [`GraphCoverage::finish`].
    pub(crate) fn finish_task(
        &self,
        task: &GraphTask,
        unreachable: RoaringBitmap,
    ) -> Option<Arc<Graph>> {
        self.data.write().coverage.finish(task, unreachable)
    }

    /// Removes the graph and disables graphs for the lifetime of this index. Drop the
    /// returned value outside the lock.
    pub(crate) fn disable_graph(&self) -> GraphCoverage {
        std::mem::replace(&mut self.data.write().coverage, GraphCoverage::disabled())
    }

    /// The nearest points of `graph` with their similarities by code. `None` if the graph
    /// library panicked, as it does on unexpected input. The graph is then disabled.
    pub(crate) fn nearest(
        &self,
        graph: &Graph,
        code: &Code,
        count: usize,
    ) -> Option<Vec<(Slot, f32)>> {
        let nearest = catch_unwind(AssertUnwindSafe(|| graph.nearest(code, count)));
        if nearest.is_err() {
            tracing::error!("graph failed, searches of the tenant use scans");
            drop(self.disable_graph());
        }
        nearest.ok()
    }

    /// Calls `visit` with every chunk, newest first, until it returns false. Locks per chunk.
    pub(crate) fn visit_chunks(&self, mut visit: impl FnMut(&IndexData, usize, &Chunk) -> bool) {
        let count = self.data.read().chunks.len();
        for number in (0..count).rev() {
            let data = self.data.read();
            // Chunks are never removed.
            let Some(chunk) = data.chunks.get(number) else { return };
            if !visit(&data, number, chunk) {
                return;
            }
        }
    }
}
