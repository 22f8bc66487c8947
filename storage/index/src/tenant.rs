//! The index of one tenant: [`IndexData`] behind one lock. Only `apply` and the graph builder
//! change it. Readers take the lock for one chunk at a time, so writers wait briefly.

use std::sync::Arc;

use model::tenant::Tenant;
use parking_lot::{RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;

use crate::chunk::Chunk;
use crate::covered::Restored;
use crate::data::{IndexChange, IndexData};
use crate::graph::GraphTask;
use crate::hnsw::Graph;

pub struct TenantIndex {
    data: RwLock<IndexData>,
}

impl TenantIndex {
    pub fn new(tenant: Tenant, dimension: usize) -> Self {
        Self { data: RwLock::new(IndexData::new(tenant, dimension)) }
    }

    /// Applies all of `changes` under one lock, so readers see all of them or none.
    pub fn apply<'a>(&self, changes: impl IntoIterator<Item = IndexChange<'a>>) {
        let mut data = self.data.write();
        data.set_changed();
        for change in changes {
            data.apply(change);
        }
    }

    /// Gives the data another version: ticks that were left out count on what is not in it, too.
    pub fn mark_changed(&self) {
        self.data.write().set_changed();
    }

    /// Locks the data for reading. Hold the guard briefly: writers wait for it.
    pub fn read(&self) -> RwLockReadGuard<'_, IndexData> {
        self.data.read()
    }

    /// The next piece of work on the graph. A tenant has a graph if it has more than
    /// `exact_max` memories.
    pub fn next_task(&self, exact_max: usize) -> Option<GraphTask> {
        self.data.write().next_graph_task(exact_max)
    }

    /// As [`GraphCoverage::begin_restore`].
    pub fn begin_restore(&self, exact_max: usize) -> bool {
        self.data.write().begin_restore(exact_max)
    }

    /// As [`GraphCoverage::restore`].
    pub fn restore_graph(&self, restored: Option<Restored>) {
        self.data.write().coverage.restore(restored);
    }

    /// As [`GraphCoverage::finish`].
    pub fn finish_task(&self, task: &GraphTask, unreachable: RoaringBitmap) -> Option<Arc<Graph>> {
        self.data.write().coverage.finish(task, unreachable)
    }

    /// Calls `visit` with every chunk, newest first, until it returns false. Locks per chunk.
    pub fn visit_chunks(&self, mut visit: impl FnMut(&IndexData, usize, &Chunk) -> bool) {
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
