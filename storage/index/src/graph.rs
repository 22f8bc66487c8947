//! The tasks that change the graph of a tenant: they insert points, check them, or drop the graph.
//!
//! [`crate::hnsw`] has neither delete nor update; [`crate::coverage`] compensates.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use model::sq8::{self, Code};
use parking_lot::Mutex;
use roaring::RoaringBitmap;

use crate::Slot;
use crate::hnsw::Graph;

/// Memories that a search requests from a graph. A point that a search for its own vector does not
/// find among so many counts as unreachable.
pub const NEAREST: usize = 100;
/// Threads that a task uses at most.
const THREADS_MAX: usize = 4;
/// Rows of a task for which another thread is worth its start.
const ROWS_PER_THREAD: usize = 16;

impl Graph {
    /// Inserts points. Earlier points of the same slots stay, and searches return them too.
    fn insert(&self, rows: &[(Slot, Code)]) {
        let first = self.add(rows);
        in_parallel(rows.len(), |at| self.link(first + at));
    }

    /// Whether a search for `code` finds `slot`. Also true if all results are at least as
    /// close: points of equal vectors hide each other.
    fn finds(&self, slot: Slot, code: &Code) -> bool {
        let found = self.nearest(code, NEAREST);
        let own = sq8::dot(&code.values, &code.values) as f32 * code.scale * code.scale;
        found.iter().any(|(found, _)| *found == slot)
            || found.len() == NEAREST && found.iter().all(|(_, similarity)| *similarity >= own)
    }
}

/// Calls `work` with each number below `count`, on some threads of the priority of this one.
fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            work(at);
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    thread::scope(|scope| {
        for _ in 1..threads.min(count.div_ceil(ROWS_PER_THREAD)) {
            // Without a further thread, this one does all of the work.
            let _ = thread::Builder::new().name("graphs".into()).spawn_scoped(scope, work);
        }
        work();
    });
}

/// A piece of work on one graph. It holds all that it needs, so it runs without the lock of the
/// tenant. [`crate::coverage`] creates tasks and records their results.
pub struct GraphTask {
    pub graph: Arc<Graph>,
    pub kind: TaskKind,
    /// Whether to search for the rows after inserting them.
    pub checks_rows: bool,
    pub rows: Vec<(Slot, Code)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    Insert,
    Check,
    /// Drops the graph.
    Retire,
}

impl GraphTask {
    /// Whether no point was left to check.
    pub fn ends_check(&self) -> bool {
        self.kind == TaskKind::Check && self.rows.is_empty()
    }

    /// Runs the task without a lock of a tenant. Returns the slots that the check did not find.
    pub fn run(&self) -> RoaringBitmap {
        if self.kind == TaskKind::Insert {
            self.graph.insert(&self.rows);
        }
        // Inserted rows are checked too: a point may be unreachable from the start.
        let checked = if self.checks_rows { &self.rows[..] } else { &[] };
        let unreachable = Mutex::new(RoaringBitmap::new());
        in_parallel(checked.len(), |at| {
            let (slot, code) = &checked[at];
            if !self.graph.finds(*slot, code) {
                unreachable.lock().insert(*slot);
            }
        });
        unreachable.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(components: [f32; 3]) -> Code {
        let length = components.iter().map(|c| c * c).sum::<f32>().sqrt();
        Code::of(&components.map(|c| c / length))
    }

    #[test]
    fn nearest_points_come_first() {
        let graph = Graph::default();
        let points = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.8, 0.0], [-1.0, 0.0, 0.0]];
        let rows: Vec<_> = (0..).zip(points.map(code)).collect();
        graph.insert(&rows);
        let found = graph.nearest(&code([0.1, 1.0, 0.1]), 4);
        assert_eq!(found.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [1, 2, 0, 3]);
        assert!((found[0].1 - 0.990).abs() < 0.01, "{}", found[0].1);
        assert!(graph.finds(3, &code([-1.0, 0.0, 0.0])));
        assert!(!graph.finds(4, &code([-1.0, 0.0, 0.0])));
    }

    #[test]
    fn equal_and_opposite_points_are_found() {
        let graph = Graph::default();
        let sign = |slot: Slot| code([[1.0, -1.0][slot as usize % 2], 0.0, 0.0]);
        let rows = (0..200).map(|slot| (slot, sign(slot))).collect::<Vec<_>>();
        // One thread per insertion: threads may miss each other's first links. A check finds the points
        // that are then lost.
        rows.chunks(ROWS_PER_THREAD).for_each(|rows| graph.insert(rows));
        assert!((0..200).all(|slot| graph.finds(slot, &sign(slot))));
        assert!(!graph.finds(200, &code([0.0, 1.0, 0.0])));
        let found = graph.nearest(&code([1.0, 0.0, 0.0]), 10);
        assert!(found.iter().all(|(slot, similarity)| slot % 2 == 0 && *similarity > 0.99));
    }
}
