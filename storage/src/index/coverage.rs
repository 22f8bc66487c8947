//! What of a tenant's memories its graph holds, and what is to be done about the rest.
//! Bookkeeping alone: the work itself is a [`Task`], which runs without the tenant's lock.
//!
//! A search may use the graph that serves as long as it also looks at every slot of
//! [`Covered::unheld`]. A graph under construction serves from its first self-retrieval
//! check on; one with too many points that stand for nothing is built anew beside it.

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::index::chunk::Slot;
use crate::index::graph::Graph;
use crate::model::sq8::Code;

/// Slots of one task: the work between two looks at what else is to be done.
const TASK_SLOTS: usize = 64;
/// A graph is built anew when one in so many of its points stands for nothing.
const STALE_SHARE: usize = 5;
/// Points are checked again when one in so many was added since.
const UNCHECKED_SHARE: usize = 5;

/// A graph with what it holds.
struct Covered {
    graph: Arc<Graph>,
    /// Slots whose vector has a point.
    held: RoaringBitmap,
    /// Slots whose vector has none yet.
    missing: RoaringBitmap,
    /// Slots whose point the self-retrieval check did not find.
    lost: RoaringBitmap,
    /// Slots of the task under way whose vector has not changed since it began.
    under_way: RoaringBitmap,
    points: usize,
    /// Points whose vector has changed or gone.
    stale: usize,
    /// The check begins at so many points.
    check_at: usize,
    /// Where the check goes on that is under way.
    check_from: Option<Slot>,
    /// Whether a check has ended.
    checked: bool,
    /// Whether the last task was one of a check.
    was_check: bool,
}

/// The graph of a tenant, and the one that is to replace it.
#[derive(Default)]
pub(crate) struct Coverage {
    serving: Option<Covered>,
    building: Option<Covered>,
    /// Whose turn it is.
    serving_next: bool,
    abandoned: bool,
}

/// A piece of work, taken from [`Coverage::next`] and given back to [`Coverage::finish`].
pub(crate) struct Task {
    graph: Arc<Graph>,
    kind: Kind,
    /// Whether to look for the rows afterwards: not before the first check of all.
    checks: bool,
    rows: Vec<(Slot, Code)>,
    /// Slots that the check did not find.
    lost: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Check,
    /// Nothing but drop the graph.
    Retire,
}

/// How many slots a tenant's graphs hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GraphCounts {
    /// Memories that are found by a graph.
    pub held: u64,
    /// Memories that are scanned, since they are not in the graph yet.
    pub missing: u64,
    /// Memories that are scanned, since the graph does not find them.
    pub lost: u64,
}

impl GraphCounts {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            held: self.held + other.held,
            missing: self.missing + other.missing,
            lost: self.lost + other.lost,
        }
    }
}

impl Task {
    /// Does it. Takes no lock of a tenant.
    pub(crate) fn run(&mut self) {
        if self.kind == Kind::Insert {
            self.rows.iter().for_each(|(slot, code)| self.graph.insert(*slot, code));
        }
        // What was just inserted too: a point may be without a way to it from its birth on.
        if self.checks {
            let lost = self.rows.iter().filter(|(slot, code)| !self.graph.finds(*slot, code));
            self.lost = lost.map(|(slot, _)| *slot).collect();
        }
    }

    /// The graph that this was to retire, if it was.
    pub(crate) fn into_retired(self) -> Option<Arc<Graph>> {
        (self.kind == Kind::Retire).then_some(self.graph)
    }
}

impl Coverage {
    /// Of a tenant that is to have no graph.
    pub(crate) fn abandoned() -> Self {
        Self { abandoned: true, ..Self::default() }
    }

    /// The graph to ask, and the slots to scan beside it.
    pub(crate) fn graph(&self) -> Option<(Arc<Graph>, RoaringBitmap)> {
        let covered = self.serving.as_ref()?;
        Some((Arc::clone(&covered.graph), covered.unheld()))
    }

    pub(crate) fn counts(&self) -> GraphCounts {
        self.serving.as_ref().or(self.building.as_ref()).map_or_else(GraphCounts::default, |of| {
            GraphCounts { held: of.held.len(), missing: of.missing.len(), lost: of.lost.len() }
        })
    }

    /// The vector in a slot is new or another one.
    pub(crate) fn set(&mut self, slot: Slot) {
        self.each(|covered| {
            covered.forget(slot);
            covered.missing.insert(slot);
        });
    }

    /// There is no vector in a slot any more.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.each(|covered| covered.forget(slot));
    }

    fn each(&mut self, change: impl Fn(&mut Covered)) {
        self.serving.iter_mut().chain(&mut self.building).for_each(change);
    }

    /// Whether there is something to do for a tenant with `live` memories, who has a
    /// graph from more than `exact_max` on.
    pub(crate) fn is_behind(&self, live: usize, exact_max: usize) -> bool {
        match (&self.building, &self.serving) {
            (Some(_), _) => true,
            (None, Some(serving)) => serving.is_behind() || serving.is_worn(),
            (None, None) => live > exact_max && !self.abandoned,
        }
    }

    /// What is to be done next for a tenant with `live` memories. `slots` are those in
    /// use, `code` reads the one in a slot.
    pub(crate) fn next(
        &mut self,
        exact_max: usize,
        live: usize,
        slots: impl FnOnce() -> RoaringBitmap,
        code: impl Fn(Slot) -> Code,
    ) -> Option<Task> {
        let task =
            |graph, kind, checks, rows| Some(Task { graph, kind, checks, rows, lost: Vec::new() });
        if self.building.is_none() && self.serving.as_ref().is_none_or(Covered::is_worn) {
            if live > exact_max && !self.abandoned {
                self.building = Some(Covered::new(slots()));
            } else {
                return task(self.serving.take()?.graph, Kind::Retire, false, Vec::new());
            }
        }
        // In turns, so that what is new finds its way into the one that serves.
        self.serving_next = !self.serving_next;
        let mut both = [self.building.as_mut(), self.serving.as_mut()];
        if self.serving_next {
            both.reverse();
        }
        let (covered, (kind, slots)) = both
            .into_iter()
            .flatten()
            .find_map(|covered| covered.next().map(|next| (&*covered, next)))?;
        let checks = kind == Kind::Check || covered.checked;
        let rows = slots.iter().map(|slot| (slot, code(slot))).collect();
        task(Arc::clone(&covered.graph), kind, checks, rows)
    }

    /// Notes what a task has done. Returns a graph that is no longer in use, to be
    /// dropped without the tenant's lock, as the task is: that takes time.
    pub(crate) fn finish(&mut self, task: &Task) -> Option<Arc<Graph>> {
        let is_of = |covered: &&mut Covered| Arc::ptr_eq(&covered.graph, &task.graph);
        let covered = self.building.iter_mut().chain(&mut self.serving).find(is_of)?;
        covered.finish(task);
        let ready = self.building.take_if(|building| building.checked)?;
        self.serving.replace(ready).map(|worn| worn.graph)
    }
}

impl Covered {
    fn new(missing: RoaringBitmap) -> Self {
        let expected = missing.len() as usize;
        Self {
            graph: Arc::new(Graph::new(expected)),
            held: RoaringBitmap::new(),
            missing,
            lost: RoaringBitmap::new(),
            under_way: RoaringBitmap::new(),
            points: 0,
            stale: 0,
            check_at: expected,
            check_from: None,
            checked: false,
            was_check: false,
        }
    }

    /// Slots that the graph does not find: to be scanned.
    fn unheld(&self) -> RoaringBitmap {
        &self.missing | &self.lost
    }

    fn is_behind(&self) -> bool {
        self.check_from.is_some() || !self.missing.is_empty()
    }

    fn is_worn(&self) -> bool {
        self.stale * STALE_SHARE > self.points
    }

    /// What stood in a slot stands there no more.
    fn forget(&mut self, slot: Slot) {
        let had_a_point = self.held.remove(slot) || self.lost.remove(slot);
        self.stale += usize::from(had_a_point);
        self.missing.remove(slot);
        self.under_way.remove(slot);
    }

    fn next(&mut self) -> Option<(Kind, RoaringBitmap)> {
        let first_check = !self.checked && self.missing.is_empty();
        if self.check_from.is_none() && (self.points >= self.check_at || first_check) {
            self.check_from = Some(0);
        }
        // Once it serves, a check and what is new take turns.
        let insert = self.checked && self.was_check && !self.missing.is_empty();
        let (kind, slots): (_, RoaringBitmap) = match self.check_from {
            Some(from) if !insert => {
                (Kind::Check, self.held.range(from..).take(TASK_SLOTS).collect())
            }
            _ => (Kind::Insert, self.missing.iter().take(TASK_SLOTS).collect()),
        };
        self.was_check = kind == Kind::Check;
        self.under_way.clone_from(&slots);
        // An empty check ends it; nothing to insert is nothing to do.
        (kind == Kind::Check || !slots.is_empty()).then_some((kind, slots))
    }

    fn finish(&mut self, task: &Task) {
        match task.kind {
            Kind::Insert => {
                self.points += task.rows.len();
                self.stale += task.rows.len() - self.under_way.len() as usize;
                self.held |= &self.under_way;
                self.missing -= &self.under_way;
            }
            Kind::Check => {
                self.check_from = task.rows.last().map(|(slot, _)| slot + 1);
                if self.check_from.is_none() {
                    self.check_at = self.points + self.points / UNCHECKED_SHARE + 1;
                    self.checked = true;
                }
            }
            Kind::Retire => {}
        }
        let lost: RoaringBitmap = task.lost.iter().copied().collect();
        let lost = lost & &self.under_way;
        self.held -= &lost;
        self.lost |= lost;
        self.under_way.clear();
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

    fn next(coverage: &mut Coverage, live: Slot) -> Option<Task> {
        coverage.next(EXACT_MAX, live as usize, || (0..live).collect(), code)
    }

    /// Works until nothing is left to do, with the first `live` slots in use.
    fn work(coverage: &mut Coverage, live: Slot) {
        while let Some(mut task) = next(coverage, live) {
            task.run();
            coverage.finish(&task);
        }
    }

    fn covering(live: Slot) -> Coverage {
        let mut coverage = Coverage::default();
        work(&mut coverage, live);
        coverage
    }

    fn unheld(coverage: &Coverage) -> Vec<Slot> {
        coverage.graph().expect("a graph serves").1.iter().collect()
    }

    #[test]
    fn a_graph_serves_from_the_end_of_its_first_check_on() {
        let mut coverage = Coverage::default();
        assert!(!coverage.is_behind(100, EXACT_MAX) && next(&mut coverage, 100).is_none());
        assert!(coverage.is_behind(150, EXACT_MAX));
        let mut kinds = Vec::new();
        while let Some(mut task) = next(&mut coverage, 150) {
            assert!(coverage.graph().is_none());
            kinds.push((task.kind, task.rows.len()));
            task.run();
            coverage.finish(&task);
        }
        let (insert, check) = (Kind::Insert, Kind::Check);
        let expected = [64, 64, 22].map(|rows| (insert, rows)).into_iter();
        let expected = expected.chain([64, 64, 22, 0].map(|rows| (check, rows)));
        assert_eq!(kinds, expected.collect::<Vec<_>>());
        assert!(unheld(&coverage).is_empty() && !coverage.is_behind(150, EXACT_MAX));
        assert_eq!(coverage.counts(), GraphCounts { held: 150, missing: 0, lost: 0 });
    }

    #[test]
    fn what_is_new_or_changes_under_a_task_is_scanned_until_it_has_a_point() {
        let mut coverage = covering(150);
        coverage.set(150);
        coverage.set(7);
        assert_eq!(unheld(&coverage), [7, 150]);
        let mut task = next(&mut coverage, 151).unwrap();
        coverage.set(7);
        coverage.remove(150);
        task.run();
        coverage.finish(&task);
        assert_eq!(unheld(&coverage), [7]);
        work(&mut coverage, 150);
        assert!(unheld(&coverage).is_empty());
        // Slot 7 twice, slot 150 once.
        assert_eq!(coverage.serving.as_ref().unwrap().stale, 3);
    }

    #[test]
    fn what_the_check_does_not_find_is_scanned() {
        let mut coverage = Coverage::default();
        while let Some(mut task) = next(&mut coverage, 150) {
            task.run();
            if task.kind == Kind::Check && task.rows.iter().any(|(slot, _)| *slot == 7) {
                task.lost = vec![7, 8];
                coverage.set(8);
            }
            coverage.finish(&task);
        }
        assert_eq!(unheld(&coverage), [7], "slot 8 changed, and has a new point");
        coverage.set(7);
        work(&mut coverage, 150);
        assert!(unheld(&coverage).is_empty());
    }

    #[test]
    fn a_worn_graph_serves_until_another_one_is_built() {
        let mut coverage = covering(150);
        (0..30).for_each(|slot| coverage.set(slot));
        work(&mut coverage, 150);
        let worn = coverage.graph().unwrap().0;
        (30..37).for_each(|slot| coverage.set(slot));
        let mut dropped = None;
        while let Some(mut task) = next(&mut coverage, 150) {
            assert!(Arc::ptr_eq(&worn, &coverage.graph().unwrap().0));
            task.run();
            dropped = coverage.finish(&task);
            // It goes on taking in what is new meanwhile.
            assert!(dropped.is_some() || unheld(&coverage).len() <= 7);
        }
        assert!(Arc::ptr_eq(&worn, &dropped.expect("the worn one is given back")));
        assert!(unheld(&coverage).is_empty());
        assert_eq!(coverage.serving.as_ref().unwrap().points, 150);
    }

    #[test]
    fn a_tenant_that_shrank_loses_its_graph() {
        let mut coverage = covering(150);
        (100..150).for_each(|slot| coverage.remove(slot));
        assert!(coverage.is_behind(100, EXACT_MAX));
        work(&mut coverage, 100);
        assert!(coverage.graph().is_none() && !coverage.is_behind(100, EXACT_MAX));
    }

    #[test]
    fn an_abandoned_tenant_is_left_alone() {
        let mut coverage = Coverage::abandoned();
        assert!(!coverage.is_behind(150, EXACT_MAX) && next(&mut coverage, 150).is_none());
    }
}
