//! An inverted index: for each word, the slots that contain it.
//!
//! It computes keyword overlaps from BM25's inverse document frequencies:
//!
//! ```text
//! overlap = 10 · Σ idf(query terms that the memory contains) / Σ idf(all query terms)
//! idf     = ln(1 + (N − n + ½) / (n + ½))     N memories, n of them with the term
//! ```
//!
//! The N memories are those that the search may see. `text::tokenizer` turns texts into terms.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use model::score::KEYWORD_OVERLAP_MAX;
use roaring::RoaringBitmap;
use text::spelling::{correction, is_correctable};
use text::term::TermHash;

use crate::postings::Postings;
use crate::{CHUNK_ROWS, Slot, slot_at};

/// Maximum number of terms per query. Long queries rely on their vector.
pub const QUERY_WORDS_MAX: usize = 128;
const _: () = assert!(QUERY_WORDS_MAX <= u128::BITS as usize);

/// Maximum number of words per query that are looked up with other letters, some hundred times.
const CORRECTED_MAX: usize = 4;
/// Weight of a word that is found with another letter.
const CORRECTED_WEIGHT: f64 = 0.5;

#[derive(Default)]
pub struct InvertedIndex {
    postings: Postings,
}

/// A word of a query.
pub struct QueryWord {
    pub text: String,
    /// How much it counts: 1, or less.
    pub weight: f64,
    /// Whether it begins with a capital letter.
    pub is_name: bool,
}

/// The terms of a query with their weights.
pub struct QueryTerms {
    /// Each indexed term after its share of [`KEYWORD_OVERLAP_MAX`], in the order of the query.
    weights: Vec<(f64, TermHash)>,
}

impl QueryTerms {
    /// An upper bound of every keyword overlap.
    pub fn overlap_max(&self) -> f64 {
        /// Exceeds the rounding errors of all sums.
        const ROUNDED_UP: f64 = 1.0 + 1e-9;
        self.weights.iter().map(|(weight, _)| weight).sum::<f64>() * ROUNDED_UP
    }

    /// The overlap of these terms, which are bits as in [`FoundWords`].
    pub fn overlap_of(&self, found: u128) -> f64 {
        let weights = self.weights.iter().enumerate().filter(|(at, _)| found >> at & 1 == 1);
        weights.fold(0.0, |sum, (_, (weight, _))| sum + weight)
    }

    /// The overlap of terms that a memory lacks, and others have: each with the largest share of one that has
    /// it. Terms are bits as in [`FoundWords`].
    pub fn overlap_before(&self, own: u128, before: &[(u128, f64)]) -> f64 {
        let missing = self.weights.iter().enumerate().filter(|(at, _)| own >> at & 1 == 0);
        missing.fold(0.0, |sum, (at, (weight, _))| {
            let shares = before.iter().filter(|(found, _)| found >> at & 1 == 1);
            sum + weight * shares.fold(0.0, |max: f64, (_, share)| max.max(*share))
        })
    }
}

/// The slots that contain the terms of a query.
pub struct FoundWords<'a>(Vec<Cow<'a, RoaringBitmap>>);

impl FoundWords<'_> {
    /// The terms that a slot contains, a bit each: a query has up to [`QUERY_WORDS_MAX`].
    pub fn in_slot(&self, slot: Slot) -> u128 {
        let terms = self.0.iter().enumerate();
        terms.fold(0, |found, (at, slots)| found | u128::from(slots.contains(slot)) << at)
    }
}

impl InvertedIndex {
    pub fn insert(&mut self, slot: Slot, words: &[TermHash]) {
        words.iter().for_each(|word| self.postings.insert(*word, slot));
    }

    pub fn remove(&mut self, slot: Slot, words: &[TermHash]) {
        words.iter().for_each(|word| self.postings.remove(*word, slot));
        self.postings.shrink();
    }

    /// Estimated bytes in RAM. Equal on all nodes.
    pub fn bytes(&self) -> u64 {
        self.postings.bytes()
    }

    /// Number of memories that contain a term, of all or of some.
    pub fn frequency(&self, word: TermHash, of: Option<&RoaringBitmap>) -> u64 {
        match of {
            Some(slots) => self.postings.count_in(word, slots),
            None => self.postings.count(word),
        }
    }

    /// Slots that contain a term.
    pub fn slots(&self, word: TermHash) -> Cow<'_, RoaringBitmap> {
        self.postings.slots(word)
    }

    /// Slots that contain all of `words`.
    pub fn intersection(&self, words: impl Iterator<Item = TermHash>) -> RoaringBitmap {
        // The rarest first: they leave little for the others.
        let mut words: Vec<_> = words.map(|word| (self.postings.count(word), word)).collect();
        words.sort_unstable_by_key(|(count, _)| *count);
        let mut words = words.into_iter().map(|(_, word)| word);
        let Some(rarest) = words.next() else { return RoaringBitmap::new() };
        let mut found = self.postings.slots(rarest).into_owned();
        while let Some(word) = words.next().filter(|_| !found.is_empty()) {
            found &= &*self.postings.slots(word);
        }
        found
    }

    /// Up to `most` slots that contain a term of a query: those of the rarest terms, the highest slots
    /// of the last one.
    pub fn rarest(&self, query: &QueryTerms, most: usize) -> RoaringBitmap {
        let mut terms: Vec<_> =
            query.weights.iter().map(|(_, term)| (self.postings.count(*term), *term)).collect();
        terms.sort_unstable_by_key(|(count, _)| *count);
        let mut rarest = RoaringBitmap::new();
        for (_, term) in terms {
            let room = most - rarest.len() as usize;
            rarest.extend(self.postings.slots(term).iter().rev().take(room));
        }
        rarest
    }

    /// Weights words by their weight and by inverse document frequency in `visible`, or in all `live` memories.
    /// A word that none of them contains counts half as the word that it is with a typing error.
    pub fn query_terms(
        &self,
        words: Vec<QueryWord>,
        visible: Option<&RoaringBitmap>,
        live: usize,
    ) -> QueryTerms {
        let live = visible.map_or(live as u64, RoaringBitmap::len) as f64;
        let frequency = |term: TermHash| self.frequency(term, visible);
        let (mut total, mut weights, mut corrected) = (0.0, Vec::new(), 0);
        for QueryWord { text, weight: share, is_name } in words.iter().take(QUERY_WORDS_MAX) {
            let (mut term, mut weight) = (TermHash::of(text), 1.0);
            if frequency(term) == 0
                && *share >= 1.0
                && corrected < CORRECTED_MAX
                && is_correctable(text, *is_name)
            {
                corrected += 1;
                if let Some(found) = correction(text, *is_name, frequency) {
                    (term, weight) = (found, CORRECTED_WEIGHT);
                }
            }
            let frequency = frequency(term) as f64;
            // A word that counts little is not missed.
            if frequency == 0.0 && *share < 1.0 {
                continue;
            }
            let idf = libm::log(1.0 + (live - frequency + 0.5).max(0.0) / (frequency + 0.5));
            let idf = idf * share;
            total += idf;
            // Words without postings count in the total, but need no lookup later.
            if frequency > 0.0 {
                weights.push((idf * weight, term));
            }
        }
        let scale = if total > 0.0 { KEYWORD_OVERLAP_MAX / total } else { 0.0 };
        weights.iter_mut().for_each(|(weight, _)| *weight *= scale);
        QueryTerms { weights }
    }

    /// The keyword overlap of a slot.
    pub fn keyword_overlap(&self, query: &QueryTerms, slot: Slot) -> f64 {
        // In the order of the query's terms, as below.
        query.weights.iter().fold(0.0, |sum, (weight, term)| {
            if self.postings.contains(*term, slot) { sum + weight } else { sum }
        })
    }

    /// The slots of each term of a query.
    pub fn found_words(&self, query: &QueryTerms) -> FoundWords<'_> {
        FoundWords(query.weights.iter().map(|(_, term)| self.postings.slots(*term)).collect())
    }

    /// Whether a slot contains a term.
    pub fn contains(&self, word: TermHash, slot: Slot) -> bool {
        self.postings.contains(word, slot)
    }

    /// Calls `visit` with the slots of a range that contain a term.
    pub fn for_each(&self, word: TermHash, range: RangeInclusive<Slot>, visit: impl FnMut(Slot)) {
        self.postings.for_each(word, range, visit);
    }

    /// Writes the keyword overlap of each row of a chunk to `overlaps`.
    pub fn keyword_overlaps(&self, query: &QueryTerms, chunk: usize, overlaps: &mut [f64]) {
        overlaps.fill(0.0);
        let (first, last) = (slot_at(chunk, 0), slot_at(chunk, CHUNK_ROWS - 1));
        // Sums in the order of the query's terms have the same bits on every node.
        for (weight, term) in &query.weights {
            self.postings.for_each(*term, first..=last, |slot| {
                overlaps[(slot - first) as usize] += weight;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<QueryWord> {
        let word = |text: &str| QueryWord { text: text.to_owned(), weight: 1.0, is_name: false };
        text.split(' ').map(word).collect()
    }

    fn hashes(text: &str) -> Vec<TermHash> {
        text.split(' ').map(TermHash::of).collect()
    }

    fn index(texts: &[&str]) -> InvertedIndex {
        let mut index = InvertedIndex::default();
        for (slot, text) in texts.iter().enumerate() {
            index.insert(slot as Slot, &hashes(text));
        }
        index
    }

    fn overlaps(index: &InvertedIndex, query: &str, live: usize) -> Vec<f64> {
        let mut overlaps = vec![0.0; CHUNK_ROWS];
        let terms = index.query_terms(words(query), None, live);
        index.keyword_overlaps(&terms, 0, &mut overlaps);
        overlaps.truncate(live);
        overlaps
    }

    #[test]
    fn full_overlap_is_ten() {
        let index = index(&["red rare", "red", "red", "blue"]);
        let found = overlaps(&index, "red rare", 4);
        assert!((found[0] - 10.0).abs() < 1e-9);
        assert!(found[1] > 0.0 && found[1] < 5.0);
        assert_eq!(found[3], 0.0);
    }

    #[test]
    fn unknown_word_lowers_every_overlap() {
        let index = index(&["red", "blue"]);
        assert!(overlaps(&index, "red unheard", 2)[0] < 10.0);
    }

    #[test]
    fn word_with_a_typing_error_counts_half() {
        let index = index(&["keller red", "keeler", "red"]);
        let found = overlaps(&index, "kellre", 3);
        assert!((found[0] - 5.0).abs() < 1e-9 && found[1] == 0.0, "{found:?}");
        assert_eq!(overlaps(&index, "keeler", 3)[0], 0.0, "a known word is not corrected");
    }

    #[test]
    fn rarest_terms_come_first() {
        let index = index(&["red blue", "red blue", "red blue rare", "red"]);
        let terms = index.query_terms(words("red blue rare unheard"), None, 4);
        let rarest = |most| index.rarest(&terms, most).iter().collect::<Vec<_>>();
        assert!(rarest(0).is_empty());
        assert_eq!(rarest(1), [2]);
        // The highest slots of "blue" are 2, which "rare" has named, and 1; that of "red" is 3.
        assert_eq!(rarest(3), [1, 2, 3]);
        assert_eq!(rarest(9), [0, 1, 2, 3]);
    }

    #[test]
    fn overlap_of_one_slot_is_that_of_all() {
        let index = index(&["red rare", "red blue", "red blue", "red", "white"]);
        let terms = index.query_terms(words("red rare blue unheard"), None, 5);
        let mut all = vec![0.0; CHUNK_ROWS];
        index.keyword_overlaps(&terms, 0, &mut all);
        for slot in 0..5 {
            let one = index.keyword_overlap(&terms, slot);
            assert_eq!(one.to_bits(), all[slot as usize].to_bits());
        }
        assert!(terms.overlap_max() > all[0] && terms.overlap_max() < 10.0);
    }

    #[test]
    fn removed_slots_are_not_found() {
        let mut index = index(&["red blue", "red"]);
        index.remove(0, &hashes("red blue"));
        let all_of = |text: &str| index.intersection(hashes(text).into_iter());
        assert!(all_of("red").iter().eq([1]));
        assert!(all_of("red blue").is_empty());
        assert_eq!(index.frequency(TermHash::of("blue"), None), 0, "empty postings are dropped");
    }
}
