//! One HNSW graph with the slots that it covers. [`crate::coverage`] combines two of them.

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::Slot;
use crate::graph::{GraphTask, TaskKind};
use crate::hnsw::Graph;

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
