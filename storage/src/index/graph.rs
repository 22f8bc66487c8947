//! Approximate nearest neighbours: an HNSW graph (Malkov and Yashunin, "Efficient and robust
//! approximate nearest neighbor search using Hierarchical Navigable Small World graphs",
//! 2016) over 8-bit codes. Points are identified by slot. The graph builder changes a graph by
//! tasks: it inserts points, checks them, or drops the graph.
//!
//! The graph uses the crate `hnsw_rs`, which has neither delete nor update
//! ([`crate::index::coverage`] compensates). The distance is our own. The crate's distance
//! panics on unexpected numbers, and works on f32, with four times the memory traffic.

use std::sync::Arc;

use hnsw_rs::anndists::dist::Distance;
use hnsw_rs::hnsw::Hnsw;
use roaring::RoaringBitmap;

use crate::index::Slot;
use crate::model::sq8::{self, Code};

/// `M`: links per point and layer, doubled in the lowest layer.
const LINKS: usize = 16;
/// `efConstruction`: candidates visited when a point is inserted.
const BUILD_WIDTH: usize = 200;
/// Maximum number of layers: the limit of the crate.
const LAYERS: usize = 16;
/// `ef` of the self-retrieval check. A point that a search for its own vector does not find
/// with this width counts as unreachable.
const CHECK_WIDTH: usize = 32;

/// Bytes of the scale, appended to the code.
const SCALE_BYTES: usize = size_of::<f32>();

/// A graph. One thread inserts. Any number of threads search at the same time.
pub(crate) struct Graph {
    points: Hnsw<'static, i8, CodeDistance>,
}

impl Graph {
    /// An empty graph with capacity for `expected` points.
    pub(crate) fn new(expected: usize) -> Self {
        Self { points: Hnsw::new(LINKS, expected, LAYERS, BUILD_WIDTH, CodeDistance) }
    }

    /// Inserts a point. An earlier point of the same slot stays, and searches return it too.
    pub(crate) fn insert(&self, slot: Slot, code: &Code) {
        self.points.insert((&point(code), slot as usize));
    }

    /// Up to `count` points close to `code`, nearest first, with the similarity of the codes.
    /// A slot may occur more than once.
    pub(crate) fn nearest(&self, code: &Code, count: usize) -> Vec<(Slot, f32)> {
        let found = self.points.search(&point(code), count, count);
        found.iter().map(|point| (point.d_id as Slot, 1.0 - point.distance)).collect()
    }

    /// Whether a search for `code` finds `slot`. Also true if all results are at least as
    /// close: points of equal vectors hide each other.
    pub(crate) fn finds(&self, slot: Slot, code: &Code) -> bool {
        let found = self.nearest(code, CHECK_WIDTH);
        let own = 1.0 - CodeDistance.eval(&point(code), &point(code));
        found.iter().any(|(found, _)| *found == slot)
            || found.len() == CHECK_WIDTH && found.iter().all(|(_, similarity)| *similarity >= own)
    }
}

/// The point of a code: its components, then the bytes of its scale.
fn point(code: &Code) -> Vec<i8> {
    let scale = code.scale.to_le_bytes().map(|byte| byte as i8);
    code.values.iter().copied().chain(scale).collect()
}

/// `max(0, 1 − cosine)` of two codes. Never negative or NaN, on which the crate panics.
#[derive(Clone, Copy)]
struct CodeDistance;

impl Distance<i8> for CodeDistance {
    fn eval(&self, left: &[i8], right: &[i8]) -> f32 {
        let ((left, left_scale), (right, right_scale)) = (split_point(left), split_point(right));
        (1.0 - sq8::dot(left, right) as f32 * left_scale * right_scale).max(0.0)
    }
}

fn split_point(point: &[i8]) -> (&[i8], f32) {
    let (values, scale) = point.split_at(point.len() - SCALE_BYTES);
    let mut bytes = [0; SCALE_BYTES];
    bytes.iter_mut().zip(scale).for_each(|(byte, part)| *byte = *part as u8);
    (values, f32::from_le_bytes(bytes))
}

/// A piece of work on one graph. It holds all that it needs, so it runs without the lock of the
/// tenant. [`crate::index::coverage`] creates tasks and records their results.
pub(crate) struct GraphTask {
    pub(super) graph: Arc<Graph>,
    pub(super) kind: TaskKind,
    /// Whether to search for the rows after inserting them.
    pub(super) checks_rows: bool,
    pub(super) rows: Vec<(Slot, Code)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TaskKind {
    Insert,
    Check,
    /// Drops the graph.
    Retire,
}

impl GraphTask {
    /// Runs the task without a lock of a tenant. Returns the slots that the check did not find.
    pub(crate) fn run(&self) -> RoaringBitmap {
        if self.kind == TaskKind::Insert {
            self.rows.iter().for_each(|(slot, code)| self.graph.insert(*slot, code));
        }
        // Inserted rows are checked too: a point may be unreachable from the start.
        let checked = self.rows.iter().filter(|_| self.checks_rows);
        let unreachable = checked.filter(|(slot, code)| !self.graph.finds(*slot, code));
        unreachable.map(|(slot, _)| *slot).collect()
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
        let graph = Graph::new(10);
        for (slot, components) in
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.8, 0.0], [-1.0, 0.0, 0.0]]
                .into_iter()
                .enumerate()
        {
            graph.insert(slot as Slot, &code(components));
        }
        let found = graph.nearest(&code([0.1, 1.0, 0.1]), 4);
        assert_eq!(found.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [1, 2, 0, 3]);
        assert!((found[0].1 - 0.990).abs() < 0.01, "{}", found[0].1);
        assert!(graph.finds(3, &code([-1.0, 0.0, 0.0])));
        assert!(!graph.finds(4, &code([-1.0, 0.0, 0.0])));
    }

    #[test]
    fn equal_and_opposite_points_are_found() {
        let graph = Graph::new(10);
        let sign = |slot: Slot| code([[1.0, -1.0][slot as usize % 2], 0.0, 0.0]);
        (0..200).for_each(|slot| graph.insert(slot, &sign(slot)));
        assert!((0..200).all(|slot| graph.finds(slot, &sign(slot))));
        assert!(!graph.finds(200, &code([0.0, 1.0, 0.0])));
        let found = graph.nearest(&code([1.0, 0.0, 0.0]), 10);
        assert!(found.iter().all(|(slot, similarity)| slot % 2 == 0 && *similarity > 0.99));
    }
}
