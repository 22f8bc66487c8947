//! The postings of an inverted index: for each word, the slots that contain it.
//!
//! A rare word has up to [`RARE_SLOTS_MAX`] entries of 12 bytes in a hash table, one per slot,
//! and no allocation of its own. A frequent word has a Roaring bitmap. So a posting takes at most
//! about 30 bytes, whatever the words are.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;

use hashbrown::HashTable;
use roaring::RoaringBitmap;

use crate::index::Slot;
use crate::model::words::WordHash;

/// Maximum number of slots of a rare word. More slots take less memory in a bitmap.
const RARE_SLOTS_MAX: usize = 16;
/// Average bytes of a table entry: 13 with its control byte, in a table that is 44 % to 88 % full.
const RARE_POSTING_BYTES: u64 = 20;
/// Average bytes of a bitmap with few slots, with its table entry and its two allocations.
const FREQUENT_WORD_BYTES: u64 = 280;
/// Bytes of a slot in a bitmap; less in one with more than 4,096 slots per 65,536.
const FREQUENT_POSTING_BYTES: u64 = 2;

const _: () = assert!(size_of::<(WordHash, Slot)>() == 12);

#[derive(Default)]
pub(super) struct Postings {
    /// One entry per slot. The entries of a word have the same hash.
    rare: HashTable<(WordHash, Slot)>,
    /// Words with more than [`RARE_SLOTS_MAX`] slots.
    frequent: HashTable<(WordHash, RoaringBitmap)>,
    /// Number of slots in all bitmaps.
    frequent_slots: u64,
    /// Its random keys prevent words that are chosen to collide in the tables.
    hasher: RandomState,
}

impl Postings {
    pub(super) fn insert(&mut self, word: WordHash, slot: Slot) {
        let Self { rare, frequent, hasher, .. } = self;
        let hash = hasher.hash_one(word);
        if let Some((_, slots)) = frequent.find_mut(hash, |(found, _)| *found == word) {
            self.frequent_slots += u64::from(slots.insert(slot));
            return;
        }
        let mut count = 0;
        for (_, found) in rare.iter_hash(hash).filter(|(found, _)| *found == word) {
            if *found == slot {
                return;
            }
            count += 1;
        }
        if count < RARE_SLOTS_MAX {
            rare.insert_unique(hash, (word, slot), |(word, _)| hasher.hash_one(word));
            return;
        }
        let mut slots = RoaringBitmap::from_iter([slot]);
        while let Ok(entry) = rare.find_entry(hash, |(found, _)| *found == word) {
            slots.insert(entry.remove().0.1);
        }
        self.frequent_slots += slots.len();
        frequent.insert_unique(hash, (word, slots), |(word, _)| hasher.hash_one(word));
    }

    pub(super) fn remove(&mut self, word: WordHash, slot: Slot) {
        let Self { rare, frequent, hasher, .. } = self;
        let hash = hasher.hash_one(word);
        let Ok(mut entry) = frequent.find_entry(hash, |(found, _)| *found == word) else {
            if let Ok(entry) = rare.find_entry(hash, |found| *found == (word, slot)) {
                entry.remove();
            }
            return;
        };
        let slots = &mut entry.get_mut().1;
        self.frequent_slots -= u64::from(slots.remove(slot));
        if slots.len() <= RARE_SLOTS_MAX as u64 {
            let ((_, slots), _) = entry.remove();
            self.frequent_slots -= slots.len();
            for slot in slots {
                rare.insert_unique(hash, (word, slot), |(word, _)| hasher.hash_one(word));
            }
        }
    }

    /// Halves tables that are less than a quarter full. Call it after removals.
    pub(super) fn shrink(&mut self) {
        let Self { rare, frequent, hasher, .. } = self;
        // Not by `capacity`: it does not rise with removals.
        if rare.len() < rare.num_buckets() / 4 {
            rare.shrink_to(rare.len() * 2, |(word, _)| hasher.hash_one(word));
        }
        if frequent.len() < frequent.num_buckets() / 4 {
            frequent.shrink_to(frequent.len() * 2, |(word, _)| hasher.hash_one(word));
        }
    }

    /// Number of slots that contain a word.
    pub(super) fn count(&self, word: WordHash) -> u64 {
        let rare = || self.rare_slots(word).count() as u64;
        self.frequent_slots(word).map_or_else(rare, RoaringBitmap::len)
    }

    /// The slots that contain a word.
    pub(super) fn slots(&self, word: WordHash) -> Cow<'_, RoaringBitmap> {
        let rare = || Cow::Owned(self.rare_slots(word).collect());
        self.frequent_slots(word).map_or_else(rare, Cow::Borrowed)
    }

    /// Calls `visit` with each slot of `range` that contains a word, in any order.
    pub(super) fn for_each(
        &self,
        word: WordHash,
        range: RangeInclusive<Slot>,
        visit: impl FnMut(Slot),
    ) {
        match self.frequent_slots(word) {
            Some(slots) => slots.range(range).for_each(visit),
            None => self.rare_slots(word).filter(|slot| range.contains(slot)).for_each(visit),
        }
    }

    /// Estimated bytes in RAM. It depends on the postings only, so it is equal on all nodes.
    pub(super) fn bytes(&self) -> u64 {
        self.rare.len() as u64 * RARE_POSTING_BYTES
            + self.frequent.len() as u64 * FREQUENT_WORD_BYTES
            + self.frequent_slots * FREQUENT_POSTING_BYTES
    }

    fn frequent_slots(&self, word: WordHash) -> Option<&RoaringBitmap> {
        let found = self.frequent.find(self.hasher.hash_one(word), |(found, _)| *found == word);
        found.map(|(_, slots)| slots)
    }

    /// The slots of a rare word, in no particular order.
    fn rare_slots(&self, word: WordHash) -> impl Iterator<Item = Slot> {
        let entries = self.rare.iter_hash(self.hasher.hash_one(word));
        entries.filter(move |(found, _)| *found == word).map(|(_, slot)| *slot)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    type Model = BTreeMap<String, BTreeSet<Slot>>;

    fn assert_equal(postings: &Postings, model: &Model, words: &BTreeSet<String>) {
        for word in words {
            let slots = model.get(word).cloned().unwrap_or_default();
            let hash = WordHash::of(word);
            assert_eq!(postings.count(hash), slots.len() as u64);
            assert!(postings.slots(hash).iter().eq(slots.iter().copied()));
            let (first, last) = (4, 9);
            let mut within = BTreeSet::new();
            postings.for_each(hash, first..=last, |slot| assert!(within.insert(slot)));
            assert!(within.iter().eq(slots.range(first..=last)));
        }
        let is_frequent = |slots: &&BTreeSet<Slot>| slots.len() > RARE_SLOTS_MAX;
        let frequent: Vec<_> = model.values().filter(is_frequent).collect();
        assert_eq!(postings.frequent.len(), frequent.len());
        assert_eq!(postings.frequent_slots, frequent.iter().map(|it| it.len() as u64).sum());
        let all: usize = model.values().map(BTreeSet::len).sum();
        assert_eq!(postings.rare.len() as u64, all as u64 - postings.frequent_slots);
    }

    proptest! {
        #[test]
        fn postings_equal_a_map_of_sets(
            steps in proptest::collection::vec((0..10_u8, "[ab]", 0..24_u32), 200..400)
        ) {
            let (mut postings, mut model) = (Postings::default(), Model::new());
            let words = steps.iter().map(|(_, word, _)| word.clone()).collect();
            // Insertions first, then removals, so that words become frequent and rare again.
            let half = steps.len() / 2;
            for (at, (chance, word, slot)) in steps.into_iter().enumerate() {
                if (chance < 8) == (at < half) {
                    postings.insert(WordHash::of(&word), slot);
                    model.entry(word).or_default().insert(slot);
                } else {
                    postings.remove(WordHash::of(&word), slot);
                    postings.shrink();
                    model.entry(word).or_default().remove(&slot);
                }
                assert_equal(&postings, &model, &words);
            }
        }
    }

    #[test]
    fn removals_give_memory_back() {
        let all = || (0..50_000_u32).map(|number| (WordHash::of(&number.to_string()), number));
        let mut postings = Postings::default();
        let allocated = |postings: &Postings| {
            postings.rare.allocation_size() + postings.frequent.allocation_size()
        };
        for (word, slot) in all() {
            postings.insert(word, slot);
            (0..=slot % 20).for_each(|other| postings.insert(word, other));
        }
        let (bytes, full) = (postings.bytes(), allocated(&postings));
        assert!(bytes > full as u64 / 2, "{bytes} of {full}");
        for (word, slot) in all() {
            postings.remove(word, slot);
            (0..=slot % 20).for_each(|other| postings.remove(word, other));
            postings.shrink();
            let fair = 64 * postings.rare.len() + 160 * postings.frequent.len() + 1_024;
            assert!(allocated(&postings) < fair, "{} entries", postings.rare.len());
        }
        assert_eq!(postings.bytes(), 0);
        assert!(allocated(&postings) < 1_024);
    }
}
