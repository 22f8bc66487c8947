//! Substring search in texts without case, as [`fold_name`] writes them: one label against up to thousands of trigger patterns.
//!
//! Most patterns do not occur in most labels. Each label gets a Bloom filter of its byte
//! n-grams (2 and 4 bytes, one hash function). A pattern with an n-gram outside the filter
//! cannot occur, so it needs no search. The others are searched with `memchr::memmem`.

use memchr::memmem::Finder;

use crate::folding::fold_name;

/// Bits of the n-gram filter per byte of a label, so that it sets about an eighth of them.
const FILTER_BITS_PER_BYTE: usize = 16;
/// Fewest bits of the n-gram filter.
const FILTER_BITS_MIN: usize = 1_024;
/// Maximum number of n-grams per pattern that are looked up, evenly spread over the pattern.
const PROBES_MAX: usize = 8;
/// Bytes of an n-gram.
const LONG_GRAM: usize = 4;
/// Bytes of an n-gram of patterns shorter than [`LONG_GRAM`].
const SHORT_GRAM: usize = 2;

/// A lower-cased text with its n-gram filter.
pub struct FoldedText {
    text: String,
    filter: NgramFilter,
}

/// A Bloom filter with a power of two of bits, which the high bits of a hash select.
struct NgramFilter {
    words: Box<[u64]>,
    shift: u32,
}

/// A lower-cased pattern, prepared for search.
#[derive(Debug, Clone)]
pub struct LabelPattern {
    finder: Finder<'static>,
    /// Hashes of its n-grams.
    probes: Vec<u32>,
}

impl NgramFilter {
    fn for_text(bytes: usize) -> Self {
        let bits = (bytes * FILTER_BITS_PER_BYTE).next_power_of_two().max(FILTER_BITS_MIN);
        Self { words: vec![0; bits / 64].into(), shift: 32 - bits.ilog2().min(32) }
    }

    /// The word of a hash, and its bit.
    fn position(&self, hash: u32) -> (usize, u64) {
        let bit = hash >> self.shift;
        (bit as usize / 64, 1 << (bit % 64))
    }

    fn insert(&mut self, hash: u32) {
        let (word, bit) = self.position(hash);
        self.words[word] |= bit;
    }

    fn contains(&self, hash: u32) -> bool {
        let (word, bit) = self.position(hash);
        self.words[word] & bit != 0
    }
}

impl FoldedText {
    /// Lower-cases `label` and builds its filter.
    pub fn new(label: &str) -> Self {
        let text = fold_name(label);
        let mut filter = NgramFilter::for_text(text.len());
        for length in [SHORT_GRAM, LONG_GRAM] {
            gram_hashes(&text, length).for_each(|hash| filter.insert(hash));
        }
        Self { text, filter }
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

impl LabelPattern {
    /// Prepares `pattern`.
    pub fn new(pattern: &str) -> Self {
        let text = fold_name(pattern);
        let length = if text.len() < LONG_GRAM { SHORT_GRAM } else { LONG_GRAM };
        let hashes: Vec<u32> = gram_hashes(&text, length).collect();
        let step = hashes.len().div_ceil(PROBES_MAX).max(1);
        let probes = hashes.iter().step_by(step).copied().collect();
        Self { finder: Finder::new(text.as_bytes()).into_owned(), probes }
    }

    /// Whether `label` may contain the pattern. Takes some 10 ns.
    pub fn may_match(&self, label: &FoldedText) -> bool {
        self.probes.iter().all(|hash| label.filter.contains(*hash))
    }

    /// Whether `label` contains the pattern. Takes time in proportion to the label.
    pub fn matches(&self, label: &FoldedText) -> bool {
        self.finder.find(label.text.as_bytes()).is_some()
    }
}

/// The hash of each n-gram of `length` bytes.
fn gram_hashes(text: &str, length: usize) -> impl Iterator<Item = u32> {
    // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4).
    const GOLDEN: u32 = 0x9e37_79b9;
    let hash = move |gram: &[u8]| {
        let gram = gram.iter().fold(length as u32, |sum, byte| sum << 8 | u32::from(*byte));
        gram.wrapping_mul(GOLDEN)
    };
    text.as_bytes().windows(length).map(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, label: &str) -> bool {
        let (pattern, label) = (LabelPattern::new(pattern), FoldedText::new(label));
        let found = pattern.matches(&label);
        assert!(!found || pattern.may_match(&label), "the filter has no false negatives");
        found
    }

    proptest! {
        #[test]
        fn pattern_matches_like_lower_case_contains(
            label in "[aAbBäÄ京 ]{0,60}", pattern in "[aAbBäÄ京 ]{1,12}",
        ) {
            let expected = fold_name(&label).contains(&fold_name(&pattern));
            prop_assert_eq!(matches(&pattern, &label), expected);
        }
    }

    #[test]
    fn case_is_ignored() {
        let label = "Die GRÖSSE des Autos";
        assert!(matches("größe", "Die Größe"));
        assert!(matches("Grösse", label) && matches("gro\u{308}ße", label));
        assert!(!matches("autobahn", label));
    }

    #[test]
    fn long_label_does_not_fill_the_filter() {
        let words: String = (0..6_000).map(|number| format!("{:x} ", number * 7_919)).collect();
        let label = FoldedText::new(&words);
        let absent =
            |number: &u32| LabelPattern::new(&format!("customer {number}")).may_match(&label);
        assert_eq!((0..1_000).filter(absent).count(), 0);
    }
}
