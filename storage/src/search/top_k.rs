//! The best of many by a fixed order: highest rank first, ties by id. Keeps no
//! more than asked for.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::model::id::MemoryId;

/// What things are ordered by: three numbers, each higher first. Numbers of
/// other kinds come through [`of_f64`] and [`of_i64`], descending orders as they
/// are, ascending ones by complement.
pub(crate) type Rank = [u64; 3];

/// A number that orders as `value` does.
pub(crate) fn of_f64(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The number that [`of_f64`] made `rank` of.
pub(crate) fn to_f64(rank: u64) -> f64 {
    f64::from_bits(if rank >> 63 == 1 { rank ^ 1 << 63 } else { !rank })
}

/// A number that orders as a heat does at the resolution in which heats leave
/// the engine, 1e-6: memories that show the same heat are equal in heat.
pub(crate) fn of_heat(heat: f64) -> u64 {
    (heat * 1e6 + 0.5) as u64
}

/// The lowest heat upper_bound at which a heat may be of the rank `heat`.
pub(crate) fn lowest_upper_bound(heat: u64) -> f32 {
    // A resolution step lower: `of_heat` rounds, and so does f32.
    ((heat as f64 - 1.0) / 1e6) as f32 - f32::EPSILON
}

/// A number that orders as `value` does.
pub(crate) fn of_i64(value: i64) -> u64 {
    (value as u64) ^ 1 << 63
}

struct Candidate<T> {
    rank: Rank,
    id: MemoryId,
    item: T,
}

impl<T> Candidate<T> {
    /// Less is better: the heap then holds the worst on top.
    fn order(&self, other: &Self) -> Ordering {
        other.rank.cmp(&self.rank).then(self.id.cmp(&other.id))
    }
}

impl<T> PartialEq for Candidate<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}
impl<T> Eq for Candidate<T> {}
impl<T> PartialOrd for Candidate<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Candidate<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

/// Keeps the `capacity` best of what it is offered.
pub(crate) struct TopK<T> {
    capacity: usize,
    heap: BinaryHeap<Candidate<T>>,
}

impl<T> TopK<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, heap: BinaryHeap::new() }
    }

    /// Whether nothing that ranks at most as `upper_bound` would be kept.
    #[inline]
    pub(crate) fn refuses(&self, upper_bound: Rank) -> bool {
        self.worst().is_some_and(|worst| worst > upper_bound)
    }

    /// What nothing that ranks below would be kept for, once as many are kept as may be.
    pub(crate) fn worst(&self) -> Option<Rank> {
        let full = self.heap.len() == self.capacity;
        self.heap.peek().filter(|_| full).map(|worst| worst.rank)
    }

    /// Considers one candidate; `item` is made only if it is kept.
    #[inline]
    pub(crate) fn offer(&mut self, rank: Rank, id: MemoryId, item: impl FnOnce() -> T) {
        if self.heap.len() == self.capacity {
            match self.heap.peek() {
                Some(worst) if (rank, worst.id) > (worst.rank, id) => self.heap.pop(),
                _ => return,
            };
        }
        self.heap.push(Candidate { rank, id, item: item() });
    }

    /// What was kept, best first.
    pub(crate) fn into_sorted(self) -> impl Iterator<Item = (MemoryId, T)> {
        self.heap.into_sorted_vec().into_iter().map(|candidate| (candidate.id, candidate.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_of_any_offers_are_those_a_full_sort_puts_first(
            offers in proptest::collection::vec((0_u64..5, 0_u8..=255), 0..60), capacity in 0_usize..20,
        ) {
            let mut offers = offers;
            offers.sort_by_key(|(_, id)| *id);
            offers.dedup_by_key(|(_, id)| *id);
            let mut best = TopK::new(capacity);
            for (rank, id) in &offers {
                best.offer([*rank, 0, 0], MemoryId([*id; 16]), || *rank);
            }
            offers.sort_by_key(|(rank, id)| (std::cmp::Reverse(*rank), *id));
            let expected: Vec<_> = offers.iter().take(capacity).map(|(_, id)| MemoryId([*id; 16])).collect();
            let found: Vec<_> = best.into_sorted().map(|(id, _)| id).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_heat_of_a_rank_lies_below_its_lowest_upper_bound(heat in 0.0_f64..=1.0, up in 0_u64..3) {
            let rank = of_heat(heat).saturating_sub(up);
            prop_assert!(heat as f32 >= lowest_upper_bound(rank));
        }

        #[test]
        fn numbers_keep_their_order(a in proptest::num::f64::NORMAL, b in proptest::num::f64::NORMAL, c: i64, d: i64) {
            prop_assert_eq!(of_f64(a) < of_f64(b), a < b);
            prop_assert_eq!(to_f64(of_f64(a)), a);
            prop_assert_eq!(of_i64(c) < of_i64(d), c < d);
        }
    }
}
