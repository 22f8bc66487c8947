//! Finding patterns in a label in whatever case: one label, a thousand patterns. Which
//! trigger asks is not known here.
//!
//! Most patterns are not in most labels. A label is folded once into a set of its pairs of
//! bytes; a pattern of which a pair is missing there is dismissed without a search.

use memchr::memmem::Finder;

/// Bits of the set of pairs: a label of a kilobyte fills a seventh of it.
const PAIR_BITS: usize = 4_096;
/// Pairs of a pattern that are looked up.
const PAIRS_MAX: usize = 8;

/// A label made ready to be looked into.
pub struct Folded {
    text: String,
    pairs: Box<[u64; PAIR_BITS / 64]>,
}

/// A pattern made ready to be looked for.
#[derive(Debug, Clone)]
pub struct Pattern {
    finder: Finder<'static>,
    pairs: Vec<u16>,
}

impl Folded {
    /// Folds `label`.
    pub fn new(label: &str) -> Self {
        let text = label.to_lowercase();
        let mut pairs = Box::new([0; PAIR_BITS / 64]);
        for pair in pairs_of(&text) {
            pairs[usize::from(pair) / 64] |= 1 << (pair % 64);
        }
        Self { text, pairs }
    }
}

impl Pattern {
    /// Makes `pattern` ready.
    pub fn new(pattern: &str) -> Self {
        let text = pattern.to_lowercase();
        let pairs = pairs_of(&text).take(PAIRS_MAX).collect();
        Self { finder: Finder::new(text.as_bytes()).into_owned(), pairs }
    }

    /// Whether `label` holds it.
    pub fn is_in(&self, label: &Folded) -> bool {
        let has = |pair: &u16| label.pairs[usize::from(*pair) / 64] & (1 << (pair % 64)) != 0;
        self.pairs.iter().all(has) && self.finder.find(label.text.as_bytes()).is_some()
    }
}

/// Where each two bytes in a row stand in a set of pairs.
fn pairs_of(text: &str) -> impl Iterator<Item = u16> {
    // Fibonacci hashing (Knuth, volume 3): the upper bits tell pairs apart.
    const GOLDEN: u32 = 0x9e37_79b9;
    let place = |pair: &[u8]| {
        let pair = u32::from(pair[0]) << 8 | u32::from(pair[1]);
        (pair.wrapping_mul(GOLDEN) >> (32 - PAIR_BITS.ilog2())) as u16
    };
    text.as_bytes().windows(2).map(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pattern_is_found_where_the_lower_case_text_holds_it(
            label in "[aAbBäÄ京 ]{0,40}", pattern in "[aAbBäÄ京 ]{1,4}",
        ) {
            let expected = label.to_lowercase().contains(&pattern.to_lowercase());
            prop_assert_eq!(Pattern::new(&pattern).is_in(&Folded::new(&label)), expected);
        }
    }

    #[test]
    fn case_does_not_count() {
        let label = Folded::new("Die GRÖSSE des Autos");
        assert!(Pattern::new("größe").is_in(&Folded::new("Die Größe")));
        assert!(Pattern::new("Grösse").is_in(&label));
        assert!(!Pattern::new("autobahn").is_in(&label));
    }
}
