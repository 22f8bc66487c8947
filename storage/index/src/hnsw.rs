//! A hierarchical navigable small world graph over 8-bit codes: approximate nearest neighbours
//! (Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using
//! Hierarchical Navigable Small World graphs", 2016; algorithm 4 selects the links).
//!
//! Points have numbers in the order of insertion. A point has one row of links per layer. Rows are
//! arrays of atomic numbers, so searches read them without a lock while inserts change them.
//!
//! # Invariants
//! - A row holds numbers of points with that layer, and ends at the first `NONE`. A search may
//!   see a row between two states: it then misses some links, and finds no wrong ones.
//! - One thread at a time changes a row, under the row's lock.
//! - Points are added under the write lock of all points, and never move or change after that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU32, Ordering};

use model::sq8::Code;
use parking_lot::{Mutex, RwLock};

use crate::Slot;
use crate::points::{
    M, M0, NONE, Point, Points, Query, Scored, links, point_of, similarity_of, store,
};

/// `efConstruction`: candidates for the links of a new point.
const EF_CONSTRUCTION: usize = 200;
/// Locks of rows. Two rows with the same lock wait for each other, for microseconds.
const ROW_LOCKS: usize = 64;
/// Marks that are kept for the next searches. More searches at the same time have marks of their
/// own.
const MARKS_MAX: usize = 8;

/// A graph of the vectors of a tenant. Points are identified by slot. Any number of threads insert
/// and search at the same time.
pub struct Graph {
    points: RwLock<Points>,
    /// The point where searches begin, one of the highest layer.
    entry: Mutex<Option<Point>>,
    row_locks: [Mutex<()>; ROW_LOCKS],
    /// Reusable marks of searches.
    marks: Mutex<Vec<Marks>>,
}

impl Default for Graph {
    fn default() -> Self {
        Self {
            points: RwLock::default(),
            entry: Mutex::default(),
            row_locks: std::array::from_fn(|_| Mutex::default()),
            marks: Mutex::default(),
        }
    }
}

impl Graph {
    /// A graph of points that have their links.
    pub fn restored(points: Points, entry: Option<Point>) -> Self {
        Self { points: RwLock::new(points), entry: Mutex::new(entry), ..Self::default() }
    }

    /// Calls `read` with the points, and the one where searches begin.
    pub fn read<R>(&self, read: impl FnOnce(&Points, Option<Point>) -> R) -> R {
        let entry = *self.entry.lock();
        read(&self.points.read(), entry)
    }

    /// Adds points without links. Returns the number of the first one; [`Self::link`] links them.
    pub fn add(&self, rows: &[(Slot, Code)]) -> usize {
        let mut points = self.points.write();
        let first = points.count;
        rows.iter().for_each(|(slot, code)| points.push(*slot, code));
        first
    }

    /// Links an added point with its nearest ones. Searches find it from then on.
    pub fn link(&self, point: usize) {
        let (points, point) = (self.points.read(), point as Point);
        let entry = *self.entry.lock().get_or_insert(point);
        if entry == point {
            return;
        }
        let (query, layer) = (points.query(point), points.layer(point));
        let highest = points.layer(entry);
        let mut starts = vec![points.descend(query, entry, highest, layer)];
        let mut marks = self.take_marks();
        for layer in (0..=layer.min(highest)).rev() {
            let found = points.search(query, &starts, EF_CONSTRUCTION, layer, &mut marks);
            let found: Vec<_> = found.into_iter().filter(|it| point_of(*it) != point).collect();
            let links = points.diverse(found.iter().copied(), M);
            self.set_row(points.row(point, layer), &links, point);
            for other in links {
                self.add_link(&points, other, point, layer);
            }
            starts = found.into_iter().map(point_of).collect();
        }
        self.keep_marks(marks);
        if layer > highest {
            let mut entry = self.entry.lock();
            if entry.is_none_or(|entry| points.layer(entry) < layer) {
                *entry = Some(point);
            }
        }
    }

    /// Up to `count` points close to `code`, nearest first, with the similarity of the codes.
    /// A slot may occur more than once.
    pub fn nearest(&self, code: &Code, count: usize) -> Vec<(Slot, f32)> {
        let points = self.points.read();
        let Some(entry) = *self.entry.lock() else { return Vec::new() };
        let query = Query { values: &code.values, scale: code.scale };
        let start = points.descend(query, entry, points.layer(entry), 0);
        let mut marks = self.take_marks();
        let found = points.search(query, &[start], count, 0, &mut marks);
        self.keep_marks(marks);
        found.into_iter().map(|it| (points.slot(point_of(it)), similarity_of(it))).collect()
    }

    fn take_marks(&self) -> Marks {
        self.marks.lock().pop().unwrap_or_default()
    }

    fn keep_marks(&self, marks: Marks) {
        let mut kept = self.marks.lock();
        if kept.len() < MARKS_MAX {
            kept.push(marks);
        }
    }

    /// Adds a link from `from` to `to`. A full row keeps the best that are not near each other.
    fn add_link(&self, points: &Points, from: Point, to: Point, layer: usize) {
        let row = points.row(from, layer);
        let _lock = self.row_locks[from as usize % ROW_LOCKS].lock();
        if links(row).any(|link| link == to) {
            return;
        }
        if let Some(free) = row.iter().find(|link| link.load(Ordering::Relaxed) == NONE) {
            free.store(to, Ordering::Relaxed);
            return;
        }
        let others: Vec<_> = links(row).chain([to]).collect();
        let mut scored = Vec::with_capacity(others.len());
        points.score(points.query(from), &others, &mut scored);
        scored.sort_unstable_by_key(|scored| Reverse(*scored));
        // Some places stay free, so that not each further link has this cost.
        store(row, &points.diverse(scored.into_iter(), row.len() * 3 / 4));
    }

    /// Links a new point. Another one may have found it on a higher layer, and linked it already.
    fn set_row(&self, row: &[AtomicU32], chosen: &[Point], point: Point) {
        let _lock = self.row_locks[point as usize % ROW_LOCKS].lock();
        let mut all = chosen.to_vec();
        all.extend(links(row).filter(|link| !chosen.contains(link)));
        store(row, &all);
    }
}

impl Points {
    /// The nearest point that greedy steps find from `start`, which is of the layer `from`, on the
    /// layers above `to`.
    fn descend(&self, query: Query<'_>, start: Point, from: usize, to: usize) -> Point {
        let mut scored = Vec::with_capacity(M);
        self.score(query, &[start], &mut scored);
        let mut best = scored.pop().unwrap_or_default();
        for layer in (to + 1..=from).rev() {
            loop {
                let links: Vec<_> = links(self.row(point_of(best), layer)).collect();
                scored.clear();
                self.score(query, &links, &mut scored);
                match scored.iter().copied().max().filter(|next| *next > best) {
                    Some(next) => best = next,
                    None => break,
                }
            }
        }
        point_of(best)
    }

    /// The nearest points of a layer that a best-first search finds from `starts`, best first. It
    /// ends when the best known point is worse than the worst of `ef` results (`ef` of the paper).
    fn search(
        &self,
        query: Query<'_>,
        starts: &[Point],
        ef: usize,
        layer: usize,
        marks: &mut Marks,
    ) -> Vec<Scored> {
        marks.clear(self.count);
        let mut scored = Vec::with_capacity(M0);
        let mut unseen: Vec<_> = starts.iter().copied().filter(|it| marks.mark(*it)).collect();
        let mut candidates: BinaryHeap<Scored> = BinaryHeap::new();
        let mut results: BinaryHeap<Reverse<Scored>> = BinaryHeap::with_capacity(ef + 1);
        loop {
            scored.clear();
            self.score(query, &unseen, &mut scored);
            for found in &scored {
                let is_full = results.len() == ef;
                if is_full && results.peek().is_some_and(|worst| *found <= worst.0) {
                    continue;
                }
                candidates.push(*found);
                results.push(Reverse(*found));
                if is_full {
                    results.pop();
                }
            }
            let Some(best) = candidates.pop() else { break };
            let is_full = results.len() == ef;
            if is_full && results.peek().is_some_and(|worst| best < worst.0) {
                break;
            }
            unseen.clear();
            unseen.extend(links(self.row(point_of(best), layer)).filter(|it| marks.mark(*it)));
        }
        // `Reverse` sorts the best first.
        results.into_sorted_vec().into_iter().map(|Reverse(found)| found).collect()
    }

    /// The similarity of a point to its own code, which is not exactly 1.
    fn to_itself(&self, point: Point) -> f32 {
        let mut scored = Vec::with_capacity(1);
        self.score(self.query(point), &[point], &mut scored);
        scored.first().map_or(1.0, |scored| similarity_of(*scored))
    }

    /// Up to `max` of these points, which come best first: those that are nearer to their centre
    /// than to any that is chosen before, so that links lead into all directions. The best others
    /// fill the rest: near equal points keep each other reachable.
    fn diverse(&self, scored: impl Iterator<Item = Scored>, max: usize) -> Vec<Point> {
        let (mut chosen, mut others) = (Vec::with_capacity(max), Vec::with_capacity(max));
        let mut between = Vec::with_capacity(max);
        for scored in scored {
            let point = point_of(scored);
            between.clear();
            self.score(self.query(point), &chosen, &mut between);
            // Of points that are equal to the centre, one must not hide all others.
            let to_centre = similarity_of(scored);
            let is_apart = |other: f32| {
                other < to_centre || (other == to_centre && other < self.to_itself(point))
            };
            if between.iter().all(|other| is_apart(similarity_of(*other))) {
                chosen.push(point);
            } else if others.len() < max {
                others.push(point);
            }
            if chosen.len() == max {
                break;
            }
        }
        let rest = max - chosen.len();
        chosen.extend(others.into_iter().take(rest));
        chosen
    }
}

/// Points that a search has seen: those with the mark of this search.
#[derive(Default)]
struct Marks {
    marks: Vec<u8>,
    present: u8,
}

impl Marks {
    /// Begins a search among `count` points.
    fn clear(&mut self, count: usize) {
        self.marks.resize(count, 0);
        self.present = self.present.checked_add(1).unwrap_or_else(|| {
            self.marks.fill(0);
            1
        });
    }

    /// Marks a point. Returns whether it had no mark.
    fn mark(&mut self, point: Point) -> bool {
        std::mem::replace(&mut self.marks[point as usize], self.present) != self.present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::sq8;

    const DIMENSION: usize = 16;

    /// Pseudo-random unit vectors in clusters.
    fn codes(count: usize) -> Vec<(Slot, Code)> {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        let centres: Vec<[f32; DIMENSION]> =
            (0..20).map(|_| std::array::from_fn(|_| random())).collect();
        let code = |slot: usize| {
            let centre = &centres[slot % centres.len()];
            let vector: [f32; DIMENSION] = std::array::from_fn(|at| centre[at] + random() * 0.6);
            let length = vector.iter().map(|c| c * c).sum::<f32>().sqrt();
            (slot as Slot, Code::of(&vector.map(|c| c / length)))
        };
        (0..count).map(code).collect()
    }

    fn graph(rows: &[(Slot, Code)]) -> Graph {
        let graph = Graph::default();
        // Two threads, as the builder has.
        for rows in rows.chunks(64) {
            let first = graph.add(rows);
            std::thread::scope(|scope| {
                let link = |at| (at..rows.len()).step_by(2).for_each(|at| graph.link(first + at));
                scope.spawn(move || link(0));
                link(1);
            });
        }
        graph
    }

    fn similarity(left: &Code, right: &Code) -> f32 {
        sq8::dot(&left.values, &right.values) as f32 * left.scale * right.scale
    }

    #[test]
    fn most_nearest_points_are_found() {
        let rows = codes(3_000);
        let graph = graph(&rows);
        let (mut found, mut all) = (0, 0);
        for (_, query) in codes(3_100).iter().skip(3_000) {
            let mut exact: Vec<_> =
                rows.iter().map(|(slot, code)| (similarity(query, code), *slot)).collect();
            exact.sort_by(|left, right| right.0.total_cmp(&left.0));
            let nearest = graph.nearest(query, 50);
            assert_eq!(nearest.len(), 50);
            assert!(nearest.is_sorted_by(|left, right| left.1 >= right.1));
            for (slot, found) in &nearest {
                assert_eq!(*found, similarity(query, &rows[*slot as usize].1));
            }
            let slots: Vec<Slot> = nearest.iter().map(|(slot, _)| *slot).collect();
            found += exact[..10].iter().filter(|(_, slot)| slots.contains(slot)).count();
            all += 10;
        }
        assert!(found * 100 >= all * 98, "{found} of {all}");
    }

    #[test]
    fn nearly_every_point_is_reachable() {
        let rows = codes(5_000);
        let graph = graph(&rows);
        let is_found =
            |(slot, code): &&(Slot, Code)| graph.nearest(code, 32).iter().any(|it| it.0 == *slot);
        let found = rows.iter().filter(is_found).count();
        assert!(found * 1_000 >= rows.len() * 995, "{found}");
    }

    #[test]
    fn equal_points_do_not_hide_others() {
        let mut rows = codes(2_000);
        let equal: Vec<_> = (0..600).map(|at| (2_000 + at, rows[0].1.clone())).collect();
        rows.extend(equal);
        let graph = graph(&rows);
        let is_found =
            |(slot, code): &&(Slot, Code)| graph.nearest(code, 32).iter().any(|it| it.0 == *slot);
        let found = rows[1..2_000].iter().filter(is_found).count();
        assert!(found * 100 >= 1_999 * 97, "{found}");
    }

    #[test]
    fn links_are_of_the_layer() {
        let graph = graph(&codes(2_000));
        let points = graph.points.read();
        for point in 0..2_000 {
            for layer in 0..=points.layer(point) {
                for link in links(points.row(point, layer)) {
                    assert!(link != point && points.layer(link) >= layer);
                }
            }
        }
        let highest = (0..2_000).map(|point| points.layer(point)).max().unwrap();
        assert_eq!(points.layer(graph.entry.lock().unwrap()), highest);
    }
}
