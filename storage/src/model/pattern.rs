//! Case-insensitive substring search: one label against up to thousands of trigger patterns.
//!
//! Most patterns do not occur in most labels. Each label gets a Bloom filter of its byte
//! n-grams (2 and 4 bytes, one hash function). A pattern with an n-gram outside the filter
//! cannot occur, so it needs no search. The others are searched with `memchr::memmem`.

use memchr::memmem::Finder;

/// Bits of the n-gram filter. A label of one kilobyte sets about an eighth of them.
const FILTER_BITS: usize = 16_384;
/// Maximum number of n-grams per pattern that are looked up, evenly spread over the pattern.
const PROBES_MAX: usize = 8;
/// Bytes of an n-gram.
const LONG_GRAM: usize = 4;
/// Bytes of an n-gram of patterns shorter than [`LONG_GRAM`].
const SHORT_GRAM: usize = 2;

/// A lower-cased text with its n-gram filter.
pub struct FoldedText {
    text: String,
    filter: Box<[u64; FILTER_BITS / 64]>,
}

/// A lower-cased pattern, prepared for search.
#[derive(Debug, Clone)]
pub struct LabelPattern {
    finder: Finder<'static>,
    probes: Vec<u16>,
}

impl FoldedText {
    /// Lower-cases `label` and builds its filter.
    pub fn new(label: &str) -> Self {
        let text = label.to_lowercase();
        let mut filter = Box::new([0; FILTER_BITS / 64]);
        for length in [SHORT_GRAM, LONG_GRAM] {
            for bit in gram_bits(&text, length) {
                filter[usize::from(bit) / 64] |= 1 << (bit % 64);
            }
        }
        Self { text, filter }
    }
}

impl LabelPattern {
    /// Prepares `pattern`.
    pub fn new(pattern: &str) -> Self {
        let text = pattern.to_lowercase();
        let length = if text.len() < LONG_GRAM { SHORT_GRAM } else { LONG_GRAM };
        let bits: Vec<u16> = gram_bits(&text, length).collect();
        let step = bits.len().div_ceil(PROBES_MAX).max(1);
        let probes = bits.iter().step_by(step).copied().collect();
        Self { finder: Finder::new(text.as_bytes()).into_owned(), probes }
    }

    /// Whether `label` contains the pattern.
    pub fn matches(&self, label: &FoldedText) -> bool {
        let is_set = |bit: &u16| label.filter[usize::from(*bit) / 64] & (1 << (bit % 64)) != 0;
        self.probes.iter().all(is_set) && self.finder.find(label.text.as_bytes()).is_some()
    }
}

/// The filter bit of each n-gram of `length` bytes.
fn gram_bits(text: &str, length: usize) -> impl Iterator<Item = u16> {
    // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, 6.4).
    const GOLDEN: u32 = 0x9e37_79b9;
    let bit = move |gram: &[u8]| {
        let gram = gram.iter().fold(length as u32, |sum, byte| sum << 8 | u32::from(*byte));
        (gram.wrapping_mul(GOLDEN) >> (32 - FILTER_BITS.ilog2())) as u16
    };
    text.as_bytes().windows(length).map(bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pattern_matches_like_lower_case_contains(
            label in "[aAbBäÄ京 ]{0,60}", pattern in "[aAbBäÄ京 ]{1,12}",
        ) {
            let expected = label.to_lowercase().contains(&pattern.to_lowercase());
            prop_assert_eq!(LabelPattern::new(&pattern).matches(&FoldedText::new(&label)), expected);
        }
    }

    #[test]
    fn case_is_ignored() {
        let label = FoldedText::new("Die GRÖSSE des Autos");
        assert!(LabelPattern::new("größe").matches(&FoldedText::new("Die Größe")));
        assert!(LabelPattern::new("Grösse").matches(&label));
        assert!(!LabelPattern::new("autobahn").matches(&label));
    }
}
