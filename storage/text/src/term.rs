//! Terms: the hashes of the words by which texts are found, as indexes store them, and the stop
//! words.

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

/// A word as indexes store it: 63 bits of SipHash, so that a rare word needs no allocation, and
/// one that says whether it is a stop word. Of 10 million words, two are equal by chance with a
/// probability of 5 in a million. A client can search for two such words in minutes, since the keys
/// are those of every node. All that it gets is that filters and searches among the memories of its
/// own tenant take one for the other: access rules compare texts. Not for disk: the hash function
/// may change with the compiler.
// Halves: an alignment of 4 bytes saves 4 bytes per entry of an index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TermHash([u32; 2]);

impl Hash for TermHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bits());
    }
}

impl TermHash {
    /// The hash of a word, the same on every node.
    pub fn of(word: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        word.hash(&mut hasher);
        Self::from_bits(hasher.finish() & !1 | u64::from(is_stop_word(word)))
    }

    pub fn is_stop_word(self) -> bool {
        self.bits() & 1 == 1
    }

    pub fn bits(self) -> u64 {
        let Self([low, high]) = self;
        u64::from(low) | u64::from(high) << 32
    }

    pub fn from_bits(bits: u64) -> Self {
        Self([bits as u32, (bits >> 32) as u32])
    }
}

pub fn is_stop_word(word: &str) -> bool {
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
        assert!(STOP_WORDS.into_iter().all(|word| TermHash::of(word).is_stop_word()));
        assert!(!TermHash::of("deploy").is_stop_word());
    }
}
