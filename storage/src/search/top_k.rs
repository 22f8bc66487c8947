//! Top-k selection with a bounded heap: keeps the `k` best of any number of candidates, or the `k`
//! smallest ids.
//!
//! The heap has the worst kept candidate on top. Its rank is the threshold: a candidate below
//! it cannot enter. Scans compare upper bounds with the threshold to skip candidates, as in
//! WAND and MaxScore. Higher ranks come first, ties go to the larger id. Ids rise in
//! the order of creation, unless a caller chose them, so that is the newest.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use model::id::MemoryId;

/// A sort key: three numbers in lexicographic order, highest first. The `ordered_*`
/// functions convert other types. The complement of a number inverts its order.
pub(crate) type Rank = [u64; 3];

/// Converts a number so that the order is preserved.
pub(crate) fn ordered_f64(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

/// The rank of a score.
pub(crate) fn by_score(score: f64) -> Rank {
    [ordered_f64(score), 0, 0]
}

/// The inverse of [`ordered_f64`].
pub(crate) fn f64_from_ordered(ordered: u64) -> f64 {
    f64::from_bits(if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { !ordered })
}

/// Converts a heat, rounded to 1e-6 as in responses.
pub(crate) fn ordered_heat(heat: f64) -> u64 {
    (heat * 1e6 + 0.5) as u64
}

/// The lowest upper bound of a heat that may have the number `ordered`. A row with a lower
/// upper bound ranks below it.
pub(crate) fn lowest_upper_bound(ordered: u64) -> f32 {
    // One step of 1e-6 lower, since `ordered_heat` and f32 both round.
    ((ordered as f64 - 1.0) / 1e6) as f32 - f32::EPSILON
}

/// Converts a number so that the order is preserved.
pub(crate) fn ordered_i64(value: i64) -> u64 {
    (value as u64) ^ 1 << 63
}

struct Candidate<T> {
    rank: Rank,
    id: MemoryId,
    item: T,
}

impl<T> PartialEq for Candidate<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl<T> Eq for Candidate<T> {}
impl<T> PartialOrd for Candidate<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Candidate<T> {
    /// Better candidates are less, so that the worst is on top of the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.rank, other.id).cmp(&(self.rank, self.id))
    }
}

/// The best `capacity` candidates so far.
pub(crate) struct TopK<T> {
    capacity: usize,
    heap: BinaryHeap<Candidate<T>>,
}

impl<T> TopK<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, heap: BinaryHeap::new() }
    }

    /// Whether every candidate with a rank of at most `upper_bound` would be rejected.
    #[inline]
    pub(crate) fn rejects(&self, upper_bound: Rank) -> bool {
        self.threshold().is_some_and(|threshold| threshold > upper_bound)
    }

    /// The lowest rank in the heap, once the heap is full. Lower ranks are rejected.
    pub(crate) fn threshold(&self) -> Option<Rank> {
        let is_full = self.heap.len() == self.capacity;
        self.heap.peek().filter(|_| is_full).map(|worst| worst.rank)
    }

    /// Whether a candidate is among the best so far.
    #[inline]
    pub(crate) fn accepts(&self, rank: Rank, id: MemoryId) -> bool {
        self.heap.len() < self.capacity
            || self.heap.peek().is_some_and(|worst| (rank, id) > (worst.rank, worst.id))
    }

    /// Adds a candidate if it is among the best. Calls `item` only in that case.
    #[inline]
    pub(crate) fn push(&mut self, rank: Rank, id: MemoryId, item: impl FnOnce() -> T) {
        if self.accepts(rank, id) {
            if self.heap.len() == self.capacity {
                self.heap.pop();
            }
            self.heap.push(Candidate { rank, id, item: item() });
        }
    }

    /// The candidates, best first.
    pub(crate) fn into_sorted(self) -> impl Iterator<Item = (MemoryId, T)> {
        self.heap.into_sorted_vec().into_iter().map(|candidate| (candidate.id, candidate.item))
    }
}

/// The `capacity` smallest ids so far.
pub(crate) struct SmallestIds {
    capacity: usize,
    heap: BinaryHeap<MemoryId>,
}

impl SmallestIds {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, heap: BinaryHeap::new() }
    }

    /// Whether an id is among the smallest so far.
    pub(crate) fn accepts(&self, id: MemoryId) -> bool {
        self.heap.len() < self.capacity || self.heap.peek().is_some_and(|largest| id < *largest)
    }

    /// Adds an id if it is among the smallest.
    pub(crate) fn push(&mut self, id: MemoryId) {
        if self.accepts(id) {
            if self.heap.len() == self.capacity {
                self.heap.pop();
            }
            self.heap.push(id);
        }
    }

    /// The ids in order.
    pub(crate) fn into_sorted(self) -> Vec<MemoryId> {
        self.heap.into_sorted_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn top_k_equals_full_sort(
            candidates in proptest::collection::vec((0_u64..5, 0_u8..=255), 0..60), capacity in 0_usize..20,
        ) {
            let mut candidates = candidates;
            candidates.sort_by_key(|(_, id)| *id);
            candidates.dedup_by_key(|(_, id)| *id);
            let mut top = TopK::new(capacity);
            for (rank, id) in &candidates {
                top.push([*rank, 0, 0], MemoryId([*id; 16]), || *rank);
            }
            candidates.sort_by_key(|(rank, id)| std::cmp::Reverse((*rank, *id)));
            let expected: Vec<_> = candidates.iter().take(capacity).map(|(_, id)| MemoryId([*id; 16])).collect();
            let found: Vec<_> = top.into_sorted().map(|(id, _)| id).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn heat_is_at_least_its_lowest_upper_bound(heat in 0.0_f64..=1.0, up in 0_u64..3) {
            let ordered = ordered_heat(heat).saturating_sub(up);
            prop_assert!(heat as f32 >= lowest_upper_bound(ordered));
        }

        #[test]
        fn ordered_numbers_keep_their_order(a in proptest::num::f64::NORMAL, b in proptest::num::f64::NORMAL, c: i64, d: i64) {
            prop_assert_eq!(ordered_f64(a) < ordered_f64(b), a < b);
            prop_assert_eq!(f64_from_ordered(ordered_f64(a)), a);
            prop_assert_eq!(ordered_i64(c) < ordered_i64(d), c < d);
        }
    }
}
