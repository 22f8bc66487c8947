//! The points of a graph: codes, slots and rows of links, in chunks that never move.
//! [`crate::hnsw`] links and searches them.

use std::sync::atomic::{AtomicU32, Ordering};

use model::simd::{dispatch, prefetch};
use model::sq8::{self, Code, PREFETCHED};

use crate::Slot;

/// `M`: links per point and layer, doubled in the lowest layer.
pub const M: usize = 16;
pub const M0: usize = 2 * M;
/// Layers above the lowest one. Each has a sixteenth of the points of the one below.
const UPPER_LAYERS_MAX: usize = 8;
/// Points per chunk. A new chunk moves no point.
const CHUNK_POINTS: usize = 4_096;
/// The end of a row of links.
pub const NONE: Point = Point::MAX;

pub type Point = u32;

#[derive(Default)]
pub struct Points {
    chunks: Vec<Chunk>,
    pub count: usize,
    /// Rows of links of the points above the lowest layer: [`M`] for each layer.
    upper: Vec<Box<[AtomicU32]>>,
}

/// Points with consecutive numbers.
struct Chunk {
    codes: Vec<i8>,
    scales: Vec<f32>,
    slots: Vec<Slot>,
    /// Index in [`Points::upper`]; [`NONE`] for points of the lowest layer only.
    upper: Vec<u32>,
    /// [`M0`] for each point.
    links: Vec<AtomicU32>,
}

/// A code to which others are compared.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    pub values: &'a [i8],
    pub scale: f32,
}

/// A similarity and a point, in one number that orders by similarity.
pub type Scored = u64;

impl Points {
    pub fn push(&mut self, slot: Slot, code: &Code) {
        let layers = upper_layers(self.count);
        if self.count == self.chunks.len() * CHUNK_POINTS {
            self.chunks.push(Chunk::new(code.values.len()));
        }
        let Some(chunk) = self.chunks.last_mut() else { return };
        chunk.codes.extend_from_slice(&code.values);
        chunk.scales.push(code.scale);
        chunk.slots.push(slot);
        chunk.links.extend(free_links(M0));
        chunk.upper.push(if layers == 0 { NONE } else { self.upper.len() as u32 });
        if layers > 0 {
            self.upper.push(free_links(layers * M).collect());
        }
        self.count += 1;
    }

    fn chunk(&self, point: Point) -> (&Chunk, usize) {
        (&self.chunks[point as usize / CHUNK_POINTS], point as usize % CHUNK_POINTS)
    }

    pub fn slot(&self, point: Point) -> Slot {
        let (chunk, row) = self.chunk(point);
        chunk.slots[row]
    }

    pub fn set_slot(&mut self, point: Point, slot: Slot) {
        self.chunks[point as usize / CHUNK_POINTS].slots[point as usize % CHUNK_POINTS] = slot;
    }

    #[inline(always)]
    pub fn query(&self, point: Point) -> Query<'_> {
        let (chunk, row) = self.chunk(point);
        let dimension = chunk.codes.len() / chunk.slots.len();
        let values = &chunk.codes[row * dimension..(row + 1) * dimension];
        Query { values, scale: chunk.scales[row] }
    }

    /// The highest layer of a point.
    pub fn layer(&self, point: Point) -> usize {
        let (chunk, row) = self.chunk(point);
        self.upper.get(chunk.upper[row] as usize).map_or(0, |links| links.len() / M)
    }

    pub fn row(&self, point: Point, layer: usize) -> &[AtomicU32] {
        let (chunk, row) = self.chunk(point);
        match layer {
            0 => &chunk.links[row * M0..(row + 1) * M0],
            _ => &self.upper[chunk.upper[row] as usize][(layer - 1) * M..layer * M],
        }
    }

    /// Appends `points` with their similarities to `query`.
    pub fn score(&self, query: Query<'_>, points: &[Point], scored: &mut Vec<Scored>) {
        dispatch(
            #[inline(always)]
            || {
                for first in &points[..points.len().min(PREFETCHED)] {
                    prefetch(self.query(*first).values);
                }
                for (at, point) in points.iter().enumerate() {
                    if let Some(later) = points.get(at + PREFETCHED) {
                        prefetch(self.query(*later).values);
                    }
                    let other = self.query(*point);
                    let dot = sq8::dot_of(query.values, other.values);
                    scored.push(score(dot as f32 * query.scale * other.scale, *point));
                }
            },
        );
    }
}

impl Chunk {
    fn new(dimension: usize) -> Self {
        Self {
            codes: Vec::with_capacity(CHUNK_POINTS * dimension),
            scales: Vec::with_capacity(CHUNK_POINTS),
            slots: Vec::with_capacity(CHUNK_POINTS),
            upper: Vec::with_capacity(CHUNK_POINTS),
            links: Vec::with_capacity(CHUNK_POINTS * M0),
        }
    }
}

fn free_links(count: usize) -> impl Iterator<Item = AtomicU32> {
    std::iter::repeat_with(|| AtomicU32::new(NONE)).take(count)
}

pub fn links(row: &[AtomicU32]) -> impl Iterator<Item = Point> {
    row.iter().map(|link| link.load(Ordering::Relaxed)).take_while(|link| *link != NONE)
}

pub fn store(row: &[AtomicU32], links: &[Point]) {
    let links = links.iter().copied().chain(std::iter::repeat(NONE));
    row.iter().zip(links).for_each(|(place, link)| place.store(link, Ordering::Relaxed));
}

/// The layers of a point above the lowest one: random with geometric distribution, and the same for
/// a number whenever a graph is built.
pub fn upper_layers(number: usize) -> usize {
    // SplitMix64 (Steele, Lea and Flood, 2014).
    let mut mixed = (number as u64).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    // Each layer needs four further zeros: one point in 16.
    (mixed.trailing_zeros() / M.ilog2()).min(UPPER_LAYERS_MAX as u32) as usize
}

/// Floats in the order of their values, as integers.
fn score(similarity: f32, point: Point) -> Scored {
    let bits = similarity.to_bits();
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    u64::from(ordered) << 32 | u64::from(point)
}

pub fn similarity_of(scored: Scored) -> f32 {
    let ordered = (scored >> 32) as u32;
    f32::from_bits(if ordered >> 31 == 1 { ordered & !(1 << 31) } else { !ordered })
}

pub fn point_of(scored: Scored) -> Point {
    scored as Point
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_have_a_sixteenth_of_those_below() {
        let at_least = |layer| (0..1_000_000).filter(|it| upper_layers(*it) >= layer).count();
        for (layer, expected) in [(1, 62_500), (2, 3_906), (3, 244)] {
            let count = at_least(layer);
            assert!(count.abs_diff(expected) < expected / 5, "layer {layer}: {count}");
        }
    }

    #[test]
    fn scores_order_by_similarity() {
        let values = [-1.0, -0.5, -0.0, 0.0, 0.25, 1.0_f32];
        assert!(values.map(|value| score(value, 7)).is_sorted());
        assert_eq!(values.map(|value| similarity_of(score(value, 9))), values);
        assert_eq!(point_of(score(-0.3, 12)), 12);
    }
}
