//! The inverted index of one tenant: which slots hold a word. How a text becomes
//! words is the model's; how hits become scores is the search's.

use std::collections::HashMap;

use roaring::{MultiOps, RoaringBitmap};

use crate::index::chunk::{CHUNK_ROWS, Slot};
use crate::model::score::KEYWORD_OVERLAP_MAX;

/// Words of a query that are looked for: the first ones. Longer queries are
/// texts, and are found by their meaning.
pub const QUERY_WORDS_MAX: usize = 128;

/// Word → slots.
#[derive(Default)]
pub(crate) struct Words {
    postings: HashMap<Box<str>, RoaringBitmap>,
}

/// The words of a query with their weights, ready to be looked for.
pub(crate) struct QueryWords {
    /// Each word with its share of [`KEYWORD_OVERLAP_MAX`].
    shares: Vec<(String, f64)>,
}

impl Words {
    pub(crate) fn insert(&mut self, slot: Slot, words: &[String]) {
        for word in words {
            match self.postings.get_mut(word.as_str()) {
                Some(slots) => {
                    slots.insert(slot);
                }
                None => {
                    let slots = RoaringBitmap::from_iter([slot]);
                    self.postings.insert(word.as_str().into(), slots);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, slot: Slot, words: &[String]) {
        for word in words {
            let Some(slots) = self.postings.get_mut(word.as_str()) else { continue };
            slots.remove(slot);
            if slots.is_empty() {
                self.postings.remove(word.as_str());
            }
        }
    }

    /// Slots that hold a word.
    pub(crate) fn holding(&self, word: &str) -> Option<&RoaringBitmap> {
        self.postings.get(word)
    }

    /// Slots that hold every one of `words`.
    pub(crate) fn holding_all(&self, words: &[String]) -> RoaringBitmap {
        let mut found: Option<RoaringBitmap> = None;
        for word in words {
            let Some(slots) = self.postings.get(word.as_str()) else { return RoaringBitmap::new() };
            found = Some(found.map_or_else(|| slots.clone(), |found| found & slots));
        }
        found.unwrap_or_default()
    }

    /// Slots that hold any word of a query.
    pub(crate) fn holding_any(&self, query: &QueryWords) -> RoaringBitmap {
        let words = query.shares.iter().filter_map(|(word, _)| self.postings.get(word.as_str()));
        words.union()
    }

    /// Weighs the words of a query: `overlap = 10 · Σidf(found) / Σidf(all)`,
    /// with BM25's `idf = ln(1 + (N − n + ½) / (n + ½))`, N the tenant's live
    /// memories and n those that hold the word.
    pub(crate) fn weigh(&self, words: Vec<String>, live: usize) -> QueryWords {
        let idf = |word: &str| {
            let holding = self.postings.get(word).map_or(0, RoaringBitmap::len) as f64;
            libm::log(1.0 + (live as f64 - holding + 0.5).max(0.0) / (holding + 0.5))
        };
        let mut shares: Vec<(String, f64)> = words
            .into_iter()
            .take(QUERY_WORDS_MAX)
            .map(|word| {
                let idf = idf(&word);
                (word, idf)
            })
            .collect();
        let total: f64 = shares.iter().map(|(_, idf)| idf).sum();
        let scale = if total > 0.0 { KEYWORD_OVERLAP_MAX / total } else { 0.0 };
        // Words that nobody holds count in the total, and need not be looked for.
        shares.retain(|(word, _)| self.postings.contains_key(word.as_str()));
        shares.iter_mut().for_each(|(_, share)| *share *= scale);
        QueryWords { shares }
    }

    /// Keyword overlaps of the rows of chunk `chunk`, written to `overlaps`.
    pub(crate) fn overlaps(&self, query: &QueryWords, chunk: usize, overlaps: &mut [f64]) {
        overlaps.fill(0.0);
        let first = (chunk * CHUNK_ROWS) as Slot;
        let last = first + (CHUNK_ROWS as Slot - 1);
        // In the order of the query's words, so that sums are the same bits on every node.
        for (word, share) in &query.shares {
            let Some(slots) = self.postings.get(word.as_str()) else { continue };
            for slot in slots.range(first..=last) {
                overlaps[(slot - first) as usize] += share;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn index(texts: &[&str]) -> Words {
        let mut index = Words::default();
        for (slot, text) in texts.iter().enumerate() {
            index.insert(slot as Slot, &words(text));
        }
        index
    }

    fn overlaps(index: &Words, query: &str, live: usize) -> Vec<f64> {
        let mut overlaps = vec![0.0; CHUNK_ROWS];
        index.overlaps(&index.weigh(words(query), live), 0, &mut overlaps);
        overlaps.truncate(live);
        overlaps
    }

    #[test]
    fn all_words_found_is_ten_and_rare_words_weigh_more() {
        let index = index(&["red rare", "red", "red", "blue"]);
        let found = overlaps(&index, "red rare", 4);
        assert!((found[0] - 10.0).abs() < 1e-9);
        assert!(found[1] > 0.0 && found[1] < 5.0);
        assert_eq!(found[3], 0.0);
    }

    #[test]
    fn an_unknown_word_lowers_every_overlap() {
        let index = index(&["red", "blue"]);
        assert!(overlaps(&index, "red unheard", 2)[0] < 10.0);
    }

    #[test]
    fn removed_slots_are_found_no_more() {
        let mut index = index(&["red blue", "red"]);
        index.remove(0, &words("red blue"));
        assert_eq!(index.holding_all(&words("red")).iter().collect::<Vec<_>>(), [1]);
        assert!(index.holding_all(&words("red blue")).is_empty());
        assert!(!index.postings.contains_key("blue"), "an empty posting is dropped");
    }
}
