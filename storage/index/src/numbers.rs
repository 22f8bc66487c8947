//! Numbers in metadata, in order, so that filters find memories by a range of them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use roaring::{MultiOps, RoaringBitmap};
use text::term::TermHash;

use crate::Slot;
use crate::terms::{NumberTerm, ordered};

/// Estimated bytes of an entry without its slots, and of a slot.
const ENTRY_BYTES: u64 = 64;
const SLOT_BYTES: u64 = 8;

/// The memories that have a number under a name.
#[derive(Default)]
pub struct Numbers {
    slots: BTreeMap<NumberTerm, RoaringBitmap>,
    /// Pairs of a number and a memory.
    pairs: u64,
}

impl Numbers {
    pub fn insert(&mut self, slot: Slot, terms: &[NumberTerm]) {
        for term in terms {
            self.pairs += u64::from(self.slots.entry(*term).or_default().insert(slot));
        }
    }

    pub fn remove(&mut self, slot: Slot, terms: &[NumberTerm]) {
        for term in terms {
            if let Some(slots) = self.slots.get_mut(term) {
                self.pairs -= u64::from(slots.remove(slot));
                if slots.is_empty() {
                    self.slots.remove(term);
                }
            }
        }
    }

    /// The memories that have a number of this range under a name.
    pub fn within(&self, name: &str, range: RangeInclusive<f64>) -> RoaringBitmap {
        let name = TermHash::of(name);
        let (first, last) = (ordered(*range.start()), ordered(*range.end()));
        if first > last {
            return RoaringBitmap::new();
        }
        self.slots.range((name, first)..=(name, last)).map(|(_, slots)| slots).union()
    }

    /// Estimated bytes in RAM.
    pub fn bytes(&self) -> u64 {
        self.slots.len() as u64 * ENTRY_BYTES + self.pairs * SLOT_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::number_term;

    #[test]
    fn ranges_find_numbers_in_order() {
        let mut numbers = Numbers::default();
        let values = ["-1e300", "-2.5", "-0", "0", "1", "2.5", "1e300", "null", "\"7\""];
        let term = |value: &str| number_term(&("size".to_owned(), value.to_owned()));
        for (slot, value) in (0..).zip(values) {
            numbers.insert(slot, &Vec::from_iter(term(value)));
        }
        let within =
            |from: f64, to: f64| numbers.within("size", from..=to).iter().collect::<Vec<_>>();
        assert_eq!(within(-3.0, 0.0), [1, 2, 3]);
        assert_eq!(within(0.0, f64::INFINITY), [2, 3, 4, 5, 6]);
        assert_eq!(within(f64::NEG_INFINITY, f64::INFINITY).len(), 7);
        assert_eq!(within(3.0, 2.0), Vec::<u32>::new());
        assert!(numbers.within("weight", -9.0..=9.0).is_empty());
        for (slot, value) in (0..).zip(values) {
            numbers.remove(slot, &Vec::from_iter(term(value)));
        }
        assert_eq!(numbers.bytes(), 0);
    }
}
