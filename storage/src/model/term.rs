//! Terms: the words by which texts are found, as `model::words` finds them in texts, and their
//! hashes, as indexes store them.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Longest word in bytes. Longer words are truncated, so a label without word boundaries
/// does not become one huge term.
pub const WORD_BYTES_MAX: usize = 64;

/// English stop words, sorted. They are indexed, so lists can filter by them, but they do
/// not count towards keyword overlap.
const STOP_WORDS: [&str; 72] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he",
    "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no",
    "not", "of", "on", "or", "our", "she", "so", "some", "than", "that", "the", "their", "them",
    "then", "there", "they", "this", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "why", "will", "with", "would", "you", "your",
];

/// Length of the longest stop word.
const STOP_WORD_BYTES_MAX: usize = 5;

/// A word as indexes store it: 64 bits of SipHash, so that a rare word needs no allocation. Of
/// 10 million words, two are equal by chance with a probability of 3 in a million. Not for disk:
/// the hash function may change with the compiler.
// Halves: an alignment of 4 bytes saves 4 bytes per entry of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WordHash([u32; 2]);

impl Hash for WordHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self([low, high]) = *self;
        state.write_u64(u64::from(low) | u64::from(high) << 32);
    }
}

impl WordHash {
    /// The hash of a word, the same on every node.
    pub fn of(word: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        word.hash(&mut hasher);
        let hash = hasher.finish();
        Self([hash as u32, (hash >> 32) as u32])
    }
}

/// A term, as it is found in a text.
#[derive(Clone, Copy)]
pub(super) struct Term<'a> {
    pub(super) text: &'a str,
    pub(super) hash: WordHash,
    pub(super) is_stop_word: bool,
}

impl<'a> Term<'a> {
    /// The term of a text of at most [`WORD_BYTES_MAX`] bytes.
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, hash: WordHash::of(text), is_stop_word: is_stop_word(text) }
    }

    /// The term of a stem, which may be longer than terms are.
    pub(super) fn of_stem(stem: &'a str) -> Self {
        Self::of(&stem[..stem.floor_char_boundary(WORD_BYTES_MAX)])
    }
}

pub(super) fn is_stop_word(word: &str) -> bool {
    word.len() <= STOP_WORD_BYTES_MAX && STOP_WORDS.binary_search(&word).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted_for_binary_search() {
        assert!(STOP_WORDS.is_sorted());
        let longest = STOP_WORDS.iter().map(|word| word.len()).max();
        assert_eq!(longest, Some(STOP_WORD_BYTES_MAX));
    }
}
