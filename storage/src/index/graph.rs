//! One HNSW graph over 8-bit codes, by slot: who is near, roughly. Exact similarities
//! are computed by those who ask; which slots a graph holds is `coverage`'s business.
//!
//! Built on `hnsw_rs`, which knows neither delete nor update, and is used with its own
//! distance: the crate's panics on numbers that it did not expect, and works in f32,
//! with four times the memory traffic.

use hnsw_rs::anndists::dist::Distance;
use hnsw_rs::hnsw::Hnsw;

use crate::index::chunk::Slot;
use crate::model::sq8::{self, Code};

/// Links of a point a layer, twice as many in the lowest one (`M`).
const LINKS: usize = 16;
/// Points looked at when one is linked (`efConstruction`).
const BUILD_WIDTH: usize = 200;
/// Layers at most, as many as the crate allows.
const LAYERS: usize = 16;
/// Points that the self-retrieval check looks at: a point that a search for itself of
/// this width does not find is no use to any search.
const CHECK_WIDTH: usize = 32;

/// Bytes of the scale, behind those of the code.
const SCALE_BYTES: usize = size_of::<f32>();

/// A graph. One thread inserts; any number search meanwhile.
pub(crate) struct Graph {
    points: Hnsw<'static, i8, CodeDistance>,
}

impl Graph {
    /// An empty graph, with room for `expected` points set aside.
    pub(crate) fn new(expected: usize) -> Self {
        Self { points: Hnsw::new(LINKS, expected, LAYERS, BUILD_WIDTH, CodeDistance) }
    }

    /// Adds a point. An earlier one of the same slot stays, and is found as well.
    pub(crate) fn insert(&self, slot: Slot, code: &Code) {
        self.points.insert((&point(code), slot as usize));
    }

    /// Up to `count` points near to `code`, nearest first, with their similarity by
    /// code. A slot may be named more than once.
    pub(crate) fn nearest(&self, code: &Code, count: usize) -> Vec<(Slot, f32)> {
        let found = self.points.search(&point(code), count, count);
        found.iter().map(|point| (point.d_id as Slot, 1.0 - point.distance)).collect()
    }

    /// Whether a search for the very `code` of `slot` finds it, or as many as it looks at
    /// that are no further away: copies of one text hide each other.
    pub(crate) fn finds(&self, slot: Slot, code: &Code) -> bool {
        let found = self.nearest(code, CHECK_WIDTH);
        let own = 1.0 - CodeDistance.eval(&point(code), &point(code));
        found.iter().any(|(found, _)| *found == slot)
            || found.len() == CHECK_WIDTH && found.iter().all(|(_, similarity)| *similarity >= own)
    }
}

/// A code and its scale as the numbers of one point.
fn point(code: &Code) -> Vec<i8> {
    let scale = code.scale.to_le_bytes().map(|byte| byte as i8);
    code.values.iter().copied().chain(scale).collect()
}

/// `max(0, 1 − cosine)`, by codes: never negative nor NaN, for which the crate panics.
#[derive(Clone, Copy)]
struct CodeDistance;

impl Distance<i8> for CodeDistance {
    fn eval(&self, left: &[i8], right: &[i8]) -> f32 {
        let ((left, left_scale), (right, right_scale)) = (parts(left), parts(right));
        (1.0 - sq8::dot(left, right) as f32 * left_scale * right_scale).max(0.0)
    }
}

fn parts(point: &[i8]) -> (&[i8], f32) {
    let (values, scale) = point.split_at(point.len() - SCALE_BYTES);
    let mut bytes = [0; SCALE_BYTES];
    bytes.iter_mut().zip(scale).for_each(|(byte, part)| *byte = *part as u8);
    (values, f32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(components: [f32; 3]) -> Code {
        let length = components.iter().map(|c| c * c).sum::<f32>().sqrt();
        Code::of(&components.map(|c| c / length))
    }

    #[test]
    fn nearest_points_come_first_with_their_similarity() {
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
    fn equal_and_opposite_points_do_no_harm() {
        let graph = Graph::new(10);
        for slot in 0..200 {
            let sign = if slot % 2 == 0 { 1.0 } else { -1.0 };
            graph.insert(slot, &code([sign, 0.0, 0.0]));
        }
        assert!((0..200).all(|slot| {
            let sign = if slot % 2 == 0 { 1.0 } else { -1.0 };
            graph.finds(slot, &code([sign, 0.0, 0.0]))
        }));
        assert!(!graph.finds(200, &code([0.0, 1.0, 0.0])));
        let found = graph.nearest(&code([1.0, 0.0, 0.0]), 10);
        assert!(found.iter().all(|(slot, similarity)| slot % 2 == 0 && *similarity > 0.99));
    }
}
