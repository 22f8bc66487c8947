//! The postings of an inverted index: for each word, the slots that contain it.
//!
//! A rare word has up to [`RARE_SLOTS_MAX`] entries of 12 bytes in a hash table, one per slot,
//! and no allocation of its own. A frequent word has a Roaring bitmap. So a posting takes at most
//! about 30 bytes, whatever the words are.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use ahash::RandomState;
use hashbrown::HashTable;
use roaring::RoaringBitmap;
use text::term::TermHash;

use crate::Slot;

/// Maximum number of slots of a rare word. More slots take less memory in a bitmap.
const RARE_SLOTS_MAX: usize = 16;
/// Average bytes of a table entry: 13 with its control byte, in a table that is 44 % to 88 % full.
const RARE_POSTING_BYTES: u64 = 20;
/// Average bytes of a bitmap with few slots, with its table entry and its two allocations.
const FREQUENT_WORD_BYTES: u64 = 280;
/// Bytes of a slot in a bitmap; less in one with more than 4,096 slots per 65,536.
const FREQUENT_POSTING_BYTES: u64 = 2;

const _: () = assert!(size_of::<(TermHash, Slot)>() == 12);

/// Parts of the tables. A table that grows or shrinks is copied at once, while its tenant is
/// locked: a part of a million words takes some milliseconds.
const PARTS: usize = 64;
/// First bit of a hash that selects the part. The tables use the lowest and the highest bits.
const PART_SHIFT: u32 = 40;
/// Parts that one call of [`Postings::shrink`] copies.
const SHRUNK_MAX: usize = 4;

/// The words whose hashes have the same part number.
#[derive(Default)]
struct WordPart {
    /// One entry per slot. The entries of a word have the same hash.
    rare: HashTable<(TermHash, Slot)>,
    /// Words with more than [`RARE_SLOTS_MAX`] slots.
    frequent: HashTable<(TermHash, RoaringBitmap)>,
}

#[derive(Default)]
pub struct Postings {
    /// [`PARTS`] parts; none before the first insertion.
    parts: Vec<WordPart>,
    /// Number of slots in all bitmaps.
    frequent_slots: u64,
    /// Its random keys prevent words that are chosen to collide in the tables.
    hasher: RandomState,
}

fn part_of(hash: u64) -> usize {
    (hash >> PART_SHIFT) as usize % PARTS
}

impl WordPart {
    /// Halves tables that are less than a quarter full. Returns whether one was.
    fn shrink(&mut self, hasher: &RandomState) -> bool {
        let Self { rare, frequent } = self;
        // Not by `capacity`: it does not rise with removals.
        let shrinks_rare = rare.len() < rare.num_buckets() / 4;
        if shrinks_rare {
            rare.shrink_to(rare.len() * 2, |(word, _)| hasher.hash_one(word));
        }
        let shrinks_frequent = frequent.len() < frequent.num_buckets() / 4;
        if shrinks_frequent {
            frequent.shrink_to(frequent.len() * 2, |(word, _)| hasher.hash_one(word));
        }
        shrinks_rare || shrinks_frequent
    }
}

impl Postings {
    pub fn insert(&mut self, word: TermHash, slot: Slot) {
        self.parts.resize_with(PARTS, WordPart::default);
        let Self { parts, hasher, .. } = self;
        let hash = hasher.hash_one(word);
        let WordPart { rare, frequent } = &mut parts[part_of(hash)];
        if let Some((_, slots)) = frequent.find_mut(hash, |(found, _)| *found == word) {
            // New memories mostly have the highest slot, for which no search is needed.
            let is_added = slots.try_push(slot).is_ok() || slots.insert(slot);
            self.frequent_slots += u64::from(is_added);
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

    pub fn remove(&mut self, word: TermHash, slot: Slot) {
        let Self { parts, hasher, .. } = self;
        let hash = hasher.hash_one(word);
        let Some(WordPart { rare, frequent }) = parts.get_mut(part_of(hash)) else { return };
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

    /// Halves some of the tables that are less than a quarter full. Call it after removals.
    pub fn shrink(&mut self) {
        let Self { parts, hasher, .. } = self;
        let mut shrunk = 0;
        for part in parts {
            shrunk += usize::from(part.shrink(hasher));
            if shrunk == SHRUNK_MAX {
                break;
            }
        }
    }

    /// Number of slots that contain a word.
    pub fn count(&self, word: TermHash) -> u64 {
        let rare = || self.rare_slots(word).count() as u64;
        self.frequent_slots(word).map_or_else(rare, RoaringBitmap::len)
    }

    /// Whether a slot contains a word.
    pub fn contains(&self, word: TermHash, slot: Slot) -> bool {
        let rare = || self.rare_slots(word).any(|found| found == slot);
        self.frequent_slots(word).map_or_else(rare, |slots| slots.contains(slot))
    }

    /// Number of these slots that contain a word.
    pub fn count_in(&self, word: TermHash, slots: &RoaringBitmap) -> u64 {
        let rare = || self.rare_slots(word).filter(|slot| slots.contains(*slot)).count() as u64;
        self.frequent_slots(word).map_or_else(rare, |found| found.intersection_len(slots))
    }

    /// The slots that contain a word.
    pub fn slots(&self, word: TermHash) -> Cow<'_, RoaringBitmap> {
        let rare = || Cow::Owned(self.rare_slots(word).collect());
        self.frequent_slots(word).map_or_else(rare, Cow::Borrowed)
    }

    /// Calls `visit` with each slot of `range` that contains a word, in any order.
    pub fn for_each(&self, word: TermHash, range: RangeInclusive<Slot>, visit: impl FnMut(Slot)) {
        match self.frequent_slots(word) {
            Some(slots) => slots.range(range).for_each(visit),
            None => self.rare_slots(word).filter(|slot| range.contains(slot)).for_each(visit),
        }
    }

    /// Estimated bytes in RAM. It depends on the postings only, so it is equal on all nodes.
    pub fn bytes(&self) -> u64 {
        let (rare, frequent) = self.numbers();
        rare * RARE_POSTING_BYTES
            + frequent * FREQUENT_WORD_BYTES
            + self.frequent_slots * FREQUENT_POSTING_BYTES
    }

    /// Number of entries of rare words, and of frequent words.
    fn numbers(&self) -> (u64, u64) {
        let numbers = self.parts.iter().map(|part| (part.rare.len(), part.frequent.len()));
        numbers.fold((0, 0), |sum, part| (sum.0 + part.0 as u64, sum.1 + part.1 as u64))
    }

    fn frequent_slots(&self, word: TermHash) -> Option<&RoaringBitmap> {
        let hash = self.hasher.hash_one(word);
        let part = self.parts.get(part_of(hash))?;
        part.frequent.find(hash, |(found, _)| *found == word).map(|(_, slots)| slots)
    }

    /// The slots of a rare word, in no particular order.
    fn rare_slots(&self, word: TermHash) -> impl Iterator<Item = Slot> {
        let hash = self.hasher.hash_one(word);
        let part = self.parts.get(part_of(hash));
        let entries = part.into_iter().flat_map(move |part| part.rare.iter_hash(hash));
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
            let hash = TermHash::of(word);
            assert_eq!(postings.count(hash), slots.len() as u64);
            assert!((0..24).all(|slot| postings.contains(hash, slot) == slots.contains(&slot)));
            assert!(postings.slots(hash).iter().eq(slots.iter().copied()));
            let (first, last) = (4, 9);
            let some = RoaringBitmap::from_iter(first..=last);
            assert_eq!(postings.count_in(hash, &some), slots.range(first..=last).count() as u64);
            let mut within = BTreeSet::new();
            postings.for_each(hash, first..=last, |slot| assert!(within.insert(slot)));
            assert!(within.iter().eq(slots.range(first..=last)));
        }
        let is_frequent = |slots: &&BTreeSet<Slot>| slots.len() > RARE_SLOTS_MAX;
        let frequent: Vec<_> = model.values().filter(is_frequent).collect();
        let (rare_entries, frequent_words) = postings.numbers();
        assert_eq!(frequent_words, frequent.len() as u64);
        assert_eq!(postings.frequent_slots, frequent.iter().map(|it| it.len() as u64).sum());
        let all: usize = model.values().map(BTreeSet::len).sum();
        assert_eq!(rare_entries, all as u64 - postings.frequent_slots);
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
                    postings.insert(TermHash::of(&word), slot);
                    model.entry(word).or_default().insert(slot);
                } else {
                    postings.remove(TermHash::of(&word), slot);
                    postings.shrink();
                    model.entry(word).or_default().remove(&slot);
                }
                assert_equal(&postings, &model, &words);
            }
        }
    }

    /// Bytes of all tables, and of the largest one.
    fn allocated(postings: &Postings) -> (usize, usize) {
        let tables =
            |part: &WordPart| [part.rare.allocation_size(), part.frequent.allocation_size()];
        let sizes: Vec<usize> = postings.parts.iter().flat_map(tables).collect();
        (sizes.iter().sum(), sizes.into_iter().max().unwrap_or(0))
    }

    #[test]
    fn removals_give_memory_back() {
        let all = || (0..50_000_u32).map(|number| (TermHash::of(&number.to_string()), number));
        let mut postings = Postings::default();
        for (word, slot) in all() {
            postings.insert(word, slot);
            (0..=slot % 20).for_each(|other| postings.insert(word, other));
        }
        let (bytes, (full, _)) = (postings.bytes(), allocated(&postings));
        assert!(bytes > full as u64 / 2, "{bytes} of {full}");
        for (word, slot) in all() {
            postings.remove(word, slot);
            (0..=slot % 20).for_each(|other| postings.remove(word, other));
            postings.shrink();
        }
        (0..PARTS).for_each(|_| postings.shrink());
        assert_eq!(postings.bytes(), 0);
        assert!(allocated(&postings).0 < 256 * PARTS);
    }

    /// A table that grows or shrinks exists twice meanwhile, and blocks its tenant.
    #[test]
    fn each_table_is_a_small_part() {
        let word = |number: u32| TermHash::of(&number.to_string());
        let mut postings = Postings::default();
        for number in 0..1_000_000 {
            postings.insert(word(number), number);
        }
        let (all, largest) = allocated(&postings);
        assert!(largest < all / (PARTS / 3), "{largest} of {all}");
        assert!(all < 1_000_000 * 32, "{all}");
        // One call copies some of the tables only, and all of them follow.
        for number in 0..900_000 {
            postings.remove(word(number), number);
        }
        let mut before = allocated(&postings).0;
        for _ in 0..PARTS / SHRUNK_MAX {
            postings.shrink();
            let after = allocated(&postings).0;
            assert!(before - after <= SHRUNK_MAX * largest, "{before} to {after}");
            before = after;
        }
        assert!(before < 100_000 * 64, "{before}");
    }
}
