//! Finding patterns in a label in whatever case: one label, a thousand patterns. Which
//! trigger asks is not known here.
//!
//! Most patterns are not in most labels. A label is folded once into a set of its short runs of
//! bytes; a pattern of which a run is missing there is dismissed without a search.

use memchr::memmem::Finder;

/// Bits of the set of runs: a label of a kilobyte fills an eighth of it.
const RUN_BITS: usize = 16_384;
/// Runs of a pattern that are looked up, spread over it.
const RUNS_MAX: usize = 8;
/// Bytes of a run, and of those that tell shorter patterns apart.
const LONG: usize = 4;
const SHORT: usize = 2;

/// A label made ready to be looked into.
pub struct Folded {
    text: String,
    runs: Box<[u64; RUN_BITS / 64]>,
}

/// A pattern made ready to be looked for.
#[derive(Debug, Clone)]
pub struct Pattern {
    finder: Finder<'static>,
    runs: Vec<u16>,
}

impl Folded {
    /// Folds `label`.
    pub fn new(label: &str) -> Self {
        let text = label.to_lowercase();
        let mut runs = Box::new([0; RUN_BITS / 64]);
        for length in [SHORT, LONG] {
            for run in runs_of(&text, length) {
                runs[usize::from(run) / 64] |= 1 << (run % 64);
            }
        }
        Self { text, runs }
    }
}

impl Pattern {
    /// Makes `pattern` ready.
    pub fn new(pattern: &str) -> Self {
        let text = pattern.to_lowercase();
        let length = if text.len() < LONG { SHORT } else { LONG };
        let all: Vec<u16> = runs_of(&text, length).collect();
        let runs = all.iter().step_by(all.len().div_ceil(RUNS_MAX).max(1)).copied().collect();
        Self { finder: Finder::new(text.as_bytes()).into_owned(), runs }
    }

    /// Whether `label` holds it.
    pub fn is_in(&self, label: &Folded) -> bool {
        let has = |run: &u16| label.runs[usize::from(*run) / 64] & (1 << (run % 64)) != 0;
        self.runs.iter().all(has) && self.finder.find(label.text.as_bytes()).is_some()
    }
}

/// Where each run of `length` bytes stands in a set of them.
fn runs_of(text: &str, length: usize) -> impl Iterator<Item = u16> {
    // Fibonacci hashing (Knuth, volume 3): the upper bits tell runs apart.
    const GOLDEN: u32 = 0x9e37_79b9;
    let place = move |run: &[u8]| {
        let run = run.iter().fold(length as u32, |sum, byte| sum << 8 | u32::from(*byte));
        (run.wrapping_mul(GOLDEN) >> (32 - RUN_BITS.ilog2())) as u16
    };
    text.as_bytes().windows(length).map(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pattern_is_found_where_the_lower_case_text_holds_it(
            label in "[aAbBäÄ京 ]{0,60}", pattern in "[aAbBäÄ京 ]{1,12}",
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
