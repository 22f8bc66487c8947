//! Graph coverage: which memories the HNSW graph of a tenant contains, and how it is completed.
//!
//! The graph is built in the background, so it is always somewhat incomplete. A search uses
//! it and also scans every slot that it does not cover ([`CoveredGraph::uncovered`]). So no
//! memory is missed while the graph is stale.
//!
//! - **Insert** adds points of new and changed vectors.
//! - **Check** searches for each point by its own vector. HNSW may leave points unreachable;
//!   those count as uncovered. A graph serves searches after its first complete check.
//! - **Rebuild**: HNSW has no delete, so points of changed vectors stay as stale points. With
//!   too many of them, a new graph is built beside the old one and then replaces it.
//!
//! This file only tracks state. The work itself is a [`GraphTask`], which
//! `storage/src/builder.rs` runs without holding the lock of the tenant.
//!
//! One HNSW graph with the slots that it covers. [`crate::coverage`] combines two of them.

use std::sync::Arc;

use model::sq8::Code;
use roaring::RoaringBitmap;

use crate::Slot;
use crate::graph::{GraphTask, TaskKind};
use crate::hnsw::Graph;

/// The graph that serves searches, and the graph that is being built to replace it.
#[derive(Default)]
pub struct GraphCoverage {
    serving: Option<CoveredGraph>,
    building: Option<CoveredGraph>,
    /// Whether the next task prefers `serving`.
    serving_first: bool,
}

impl GraphCoverage {
    /// The graph that serves searches, and the slots to scan in addition.
    pub fn graph(&self) -> Option<(Arc<Graph>, RoaringBitmap)> {
        let serving = self.serving.as_ref()?;
        Some((Arc::clone(&serving.graph), serving.uncovered()))
    }

    pub fn counts(&self) -> GraphCounts {
        let graph = self.serving.as_ref().or(self.building.as_ref());
        graph.map(CoveredGraph::counts).unwrap_or_default()
    }

    /// The vector of a slot is new or changed.
    pub fn set(&mut self, slot: Slot) {
        self.graphs_mut().for_each(|graph| graph.set(slot));
    }

    /// A slot no longer has a vector.
    pub fn remove(&mut self, slot: Slot) {
        self.graphs_mut().for_each(|graph| graph.remove(slot));
    }

    fn graphs_mut(&mut self) -> impl Iterator<Item = &mut CoveredGraph> {
        self.serving.iter_mut().chain(&mut self.building)
    }

    /// Whether there is work for a tenant with `live` memories. Tenants with more than
    /// `exact_max` memories have a graph.
    pub fn is_stale(&self, live: usize, exact_max: usize) -> bool {
        match (&self.building, &self.serving) {
            (Some(_), _) => true,
            (None, Some(serving)) => serving.is_stale() || serving.needs_rebuild(),
            (None, None) => live > exact_max,
        }
    }

    /// Prepares a graph to be restored, if a tenant with `live` memories in `slots` has none and
    /// needs one. Follow it with [`Self::restore`]. Slots that change meanwhile count as missing.
    pub fn begin_restore(
        &mut self,
        exact_max: usize,
        live: usize,
        slots: impl FnOnce() -> RoaringBitmap,
    ) -> bool {
        let needs_graph = live > exact_max && self.serving.is_none() && self.building.is_none();
        if needs_graph {
            self.building = Some(CoveredGraph::restoring(slots()));
        }
        needs_graph
    }

    /// A restored graph serves at once. Without one, tasks build it.
    pub fn restore(&mut self, restored: Option<Restored>) {
        let Some(building) = &mut self.building else { return };
        building.restore(restored);
        self.serving = self.building.take_if(|building| building.is_checked);
    }

    /// The graph that serves searches, and the slots that its last check did not find.
    pub fn checked(&self) -> Option<(Arc<Graph>, RoaringBitmap)> {
        let serving = self.serving.as_ref()?;
        Some((Arc::clone(&serving.graph), serving.unreachable.clone()))
    }

    /// The next task for a tenant with `live` memories. `slots` returns the slots in use,
    /// `code` the quantised vector of a slot.
    pub fn next(
        &mut self,
        exact_max: usize,
        live: usize,
        slots: impl FnOnce() -> RoaringBitmap,
        code: impl Fn(Slot) -> Code,
    ) -> Option<GraphTask> {
        if self.building.is_none() && self.serving.as_ref().is_none_or(CoveredGraph::needs_rebuild)
        {
            if live > exact_max {
                self.building = Some(CoveredGraph::new(slots()));
            } else {
                let (graph, kind, rows) = (self.serving.take()?.graph, TaskKind::Retire, vec![]);
                return Some(GraphTask { graph, kind, checks_rows: false, rows });
            }
        }
        // The graphs take turns, so that the serving one also gets new vectors.
        self.serving_first = !self.serving_first;
        let mut graphs = [self.building.as_mut(), self.serving.as_mut()];
        if self.serving_first {
            graphs.reverse();
        }
        let mut graphs = graphs.into_iter().flatten();
        let (graph, (kind, slots)) =
            graphs.find_map(|graph| graph.next_points().map(|next| (&*graph, next)))?;
        let checks_rows = kind == TaskKind::Check || graph.is_checked;
        let rows = slots.iter().map(|slot| (slot, code(slot))).collect();
        let graph = Arc::clone(&graph.graph);
        Some(GraphTask { graph, kind, checks_rows, rows })
    }

    /// Records a finished task with the slots that it did not find. Returns a graph that was
    /// replaced. Drop it and the task outside the lock of the tenant: dropping a graph takes time.
    pub fn finish(&mut self, task: &GraphTask, unreachable: RoaringBitmap) -> Option<Arc<Graph>> {
        let is_of_task = |graph: &&mut CoveredGraph| Arc::ptr_eq(&graph.graph, &task.graph);
        let graph = self.graphs_mut().find(is_of_task)?;
        graph.finish(task, unreachable);
        let complete = self.building.take_if(|building| building.is_checked)?;
        self.serving.replace(complete).map(|replaced| replaced.graph)
    }
}

/// Slots per task. Tasks are short, so that the builder can switch between them.
const TASK_SLOTS: usize = 64;
/// A graph is rebuilt when more than one in this many points is stale.
const STALE_SHARE: usize = 5;
/// A check starts when the number of points has grown by one in this many.
const UNCHECKED_SHARE: usize = 5;

/// Number of memories that a tenant's graph covers, and that it does not cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraphCounts {
    /// Memories that the graph covers.
    pub covered: u64,
    /// Memories not inserted yet. Searches scan them.
    pub missing: u64,
    /// Memories with an unreachable point. Searches scan them.
    pub lost: u64,
}

impl GraphCounts {
    /// The sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            covered: self.covered + other.covered,
            missing: self.missing + other.missing,
            lost: self.lost + other.lost,
        }
    }
}

/// A graph from a file, with the slots whose present vectors have a point.
#[derive(Default)]
pub struct Restored {
    pub graph: Graph,
    pub points: usize,
    pub found: RoaringBitmap,
    /// Those of them that the last check before the graph was saved did not find.
    pub unreachable: RoaringBitmap,
}

/// A graph with the state of its slots. Each slot in use is in exactly one of `covered`,
/// `missing` and `unreachable`.
pub struct CoveredGraph {
    pub graph: Arc<Graph>,
    /// Slots whose vector has a point.
    covered: RoaringBitmap,
    /// Slots whose vector has no point yet.
    missing: RoaringBitmap,
    /// Slots whose point the check did not find.
    pub unreachable: RoaringBitmap,
    /// Slots of the task in progress whose vector has not changed since it began.
    in_progress: RoaringBitmap,
    pub points: usize,
    /// Points whose vector was changed or removed since.
    pub stale_points: usize,
    /// Number of points at which the next check starts.
    next_check_points: usize,
    /// The next slot of the check in progress.
    check_cursor: Option<Slot>,
    /// Whether a check was completed: from then on the graph serves searches.
    pub is_checked: bool,
    /// Whether the last task was a check.
    last_was_check: bool,
}

impl CoveredGraph {
    /// An empty graph, to be filled with the vectors of the slots `missing`.
    pub fn new(missing: RoaringBitmap) -> Self {
        let expected = missing.len() as usize;
        Self {
            graph: Arc::default(),
            covered: RoaringBitmap::new(),
            missing,
            unreachable: RoaringBitmap::new(),
            in_progress: RoaringBitmap::new(),
            points: 0,
            stale_points: 0,
            next_check_points: expected,
            check_cursor: None,
            is_checked: false,
            last_was_check: false,
        }
    }

    /// An empty graph that a saved one replaces soon.
    pub fn restoring(slots: RoaringBitmap) -> Self {
        Self { in_progress: slots.clone(), ..Self::new(slots) }
    }

    /// Ends [`Self::restoring`]; without a saved graph, this one is built.
    pub fn restore(&mut self, restored: Option<Restored>) {
        let unchanged = std::mem::take(&mut self.in_progress);
        let Some(Restored { graph, points, found, unreachable }) = restored else { return };
        let found = found & unchanged;
        self.missing -= &found;
        self.unreachable = unreachable & &found;
        self.stale_points = points - found.len() as usize;
        self.covered = found - &self.unreachable;
        (self.graph, self.points) = (Arc::new(graph), points);
        self.end_check();
    }

    fn end_check(&mut self) {
        self.next_check_points = self.points + self.points / UNCHECKED_SHARE + 1;
        self.is_checked = true;
    }

    /// Slots that a search must scan, since the graph may not return them.
    pub fn uncovered(&self) -> RoaringBitmap {
        &self.missing | &self.unreachable
    }

    pub fn counts(&self) -> GraphCounts {
        GraphCounts {
            covered: self.covered.len(),
            missing: self.missing.len(),
            lost: self.unreachable.len(),
        }
    }

    /// Whether an insert or a check is pending.
    pub fn is_stale(&self) -> bool {
        self.check_cursor.is_some() || !self.missing.is_empty()
    }

    /// Whether too many points are stale.
    pub fn needs_rebuild(&self) -> bool {
        self.stale_points * STALE_SHARE > self.points
    }

    /// The vector of a slot is new or changed.
    pub fn set(&mut self, slot: Slot) {
        self.remove(slot);
        self.missing.insert(slot);
    }

    /// A slot no longer has its vector.
    pub fn remove(&mut self, slot: Slot) {
        let had_point = self.covered.remove(slot) || self.unreachable.remove(slot);
        self.stale_points += usize::from(had_point);
        self.missing.remove(slot);
        self.in_progress.remove(slot);
    }

    pub fn next_points(&mut self) -> Option<(TaskKind, RoaringBitmap)> {
        let is_first_check = !self.is_checked && self.missing.is_empty();
        let check_is_due = self.points >= self.next_check_points || is_first_check;
        if self.check_cursor.is_none() && check_is_due {
            self.check_cursor = Some(0);
        }
        // Once the graph serves, checks and inserts take turns.
        let inserts_first = self.is_checked && self.last_was_check && !self.missing.is_empty();
        let (kind, slots): (_, RoaringBitmap) = match self.check_cursor {
            Some(cursor) if !inserts_first => {
                (TaskKind::Check, self.covered.range(cursor..).take(TASK_SLOTS).collect())
            }
            _ => (TaskKind::Insert, self.missing.iter().take(TASK_SLOTS).collect()),
        };
        self.last_was_check = kind == TaskKind::Check;
        self.in_progress.clone_from(&slots);
        // A check without slots ends the check. An insert without slots is no task.
        (kind == TaskKind::Check || !slots.is_empty()).then_some((kind, slots))
    }

    /// Records a finished task. Slots that changed while it ran are no longer in
    /// `in_progress`: their new points are stale.
    pub fn finish(&mut self, task: &GraphTask, unreachable: RoaringBitmap) {
        match task.kind {
            TaskKind::Insert => {
                self.points += task.rows.len();
                self.stale_points += task.rows.len() - self.in_progress.len() as usize;
                self.covered |= &self.in_progress;
                self.missing -= &self.in_progress;
            }
            TaskKind::Check => {
                self.check_cursor = task.rows.last().map(|(slot, _)| slot + 1);
                if task.ends_check() {
                    self.end_check();
                }
            }
            TaskKind::Retire => {}
        }
        let unreachable = unreachable & &self.in_progress;
        self.covered -= &unreachable;
        self.unreachable |= unreachable;
        self.in_progress.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT_MAX: usize = 100;

    fn code(slot: Slot) -> Code {
        let angle = slot as f32 * 0.01;
        Code::of(&[angle.cos(), angle.sin(), 0.0, 0.0])
    }

    fn next(coverage: &mut GraphCoverage, live: Slot) -> Option<GraphTask> {
        coverage.next(EXACT_MAX, live as usize, || (0..live).collect(), code)
    }

    /// Runs tasks until none is left, with the first `live` slots in use.
    fn run_all(coverage: &mut GraphCoverage, live: Slot) {
        while let Some(task) = next(coverage, live) {
            coverage.finish(&task, task.run());
        }
    }

    fn complete_coverage(live: Slot) -> GraphCoverage {
        let mut coverage = GraphCoverage::default();
        run_all(&mut coverage, live);
        coverage
    }

    fn uncovered(coverage: &GraphCoverage) -> Vec<Slot> {
        coverage.graph().expect("a graph serves").1.iter().collect()
    }

    #[test]
    fn graph_serves_after_its_first_check() {
        let mut coverage = GraphCoverage::default();
        assert!(!coverage.is_stale(100, EXACT_MAX) && next(&mut coverage, 100).is_none());
        assert!(coverage.is_stale(150, EXACT_MAX));
        let mut kinds = Vec::new();
        while let Some(task) = next(&mut coverage, 150) {
            assert!(coverage.graph().is_none());
            kinds.push((task.kind, task.rows.len()));
            coverage.finish(&task, task.run());
        }
        let (insert, check) = (TaskKind::Insert, TaskKind::Check);
        let expected = [64, 64, 22].map(|rows| (insert, rows)).into_iter();
        let expected = expected.chain([64, 64, 22, 0].map(|rows| (check, rows)));
        assert_eq!(kinds, expected.collect::<Vec<_>>());
        assert!(uncovered(&coverage).is_empty() && !coverage.is_stale(150, EXACT_MAX));
        assert_eq!(coverage.counts(), GraphCounts { covered: 150, missing: 0, lost: 0 });
    }

    #[test]
    fn changed_slots_stay_uncovered_until_inserted() {
        let mut coverage = complete_coverage(150);
        coverage.set(150);
        coverage.set(7);
        assert_eq!(uncovered(&coverage), [7, 150]);
        let task = next(&mut coverage, 151).unwrap();
        coverage.set(7);
        coverage.remove(150);
        coverage.finish(&task, task.run());
        assert_eq!(uncovered(&coverage), [7]);
        run_all(&mut coverage, 150);
        assert!(uncovered(&coverage).is_empty());
        // Slot 7 twice, slot 150 once.
        assert_eq!(coverage.serving.as_ref().unwrap().stale_points, 3);
    }

    #[test]
    fn unreachable_slots_stay_uncovered() {
        let mut coverage = GraphCoverage::default();
        while let Some(task) = next(&mut coverage, 150) {
            let mut unreachable = task.run();
            if task.kind == TaskKind::Check && task.rows.iter().any(|(slot, _)| *slot == 7) {
                unreachable = [7, 8].into();
                coverage.set(8);
            }
            coverage.finish(&task, unreachable);
        }
        assert_eq!(uncovered(&coverage), [7], "slot 8 changed and was inserted again");
        coverage.set(7);
        run_all(&mut coverage, 150);
        assert!(uncovered(&coverage).is_empty());
    }

    #[test]
    fn old_graph_serves_until_rebuild_completes() {
        let mut coverage = complete_coverage(150);
        (0..30).for_each(|slot| coverage.set(slot));
        run_all(&mut coverage, 150);
        let old = coverage.graph().unwrap().0;
        (30..37).for_each(|slot| coverage.set(slot));
        let mut dropped = None;
        while let Some(task) = next(&mut coverage, 150) {
            assert!(Arc::ptr_eq(&old, &coverage.graph().unwrap().0));
            dropped = coverage.finish(&task, task.run());
            // Changed slots are inserted into the old graph meanwhile.
            assert!(dropped.is_some() || uncovered(&coverage).len() <= 7);
        }
        assert!(Arc::ptr_eq(&old, &dropped.expect("the old graph is returned")));
        assert!(uncovered(&coverage).is_empty());
        assert_eq!(coverage.serving.as_ref().unwrap().points, 150);
    }

    #[test]
    fn graph_is_removed_when_the_tenant_shrinks() {
        let mut coverage = complete_coverage(150);
        (100..150).for_each(|slot| coverage.remove(slot));
        assert!(coverage.is_stale(100, EXACT_MAX));
        run_all(&mut coverage, 100);
        assert!(coverage.graph().is_none() && !coverage.is_stale(100, EXACT_MAX));
    }
}
