//! Stems of English words (Snowball English, Porter2), with a direct-mapped cache for short words:
//! texts repeat words, and a look-up takes a small part of the time of a stem.

use std::borrow::Cow;

use parking_lot::Mutex;
use rust_stemmers::{Algorithm, Stemmer};

use crate::model::term::{Term, WordHash, is_stop_word};

/// Longest word in bytes whose stem is remembered. English words are seldom longer.
const REMEMBERED_BYTES_MAX: usize = 16;
/// Words whose stems one cache remembers: 1.4 MiB.
const ENTRIES: usize = 32_768;
/// Multiplier of Fibonacci hashing, 2^64 divided by the golden ratio.
const FIBONACCI: u64 = 0x9E37_79B9_7F4A_7C15;

/// Caches that are kept for the next texts. More texts at the same time have caches of their own.
const CACHES_MAX: usize = 8;

/// Caches that no text uses at present.
static UNUSED: Mutex<Vec<Stems>> = Mutex::new(Vec::new());

/// A word of at most [`REMEMBERED_BYTES_MAX`] bytes, padded with zeros.
type Short = [u8; REMEMBERED_BYTES_MAX];

/// The stemmer with the stems that it found last.
pub(super) struct Stems {
    stemmer: Stemmer,
    entries: Box<[Entry]>,
}

/// A word with its stem; an empty word is a free entry.
#[derive(Clone, Copy, Default)]
struct Entry {
    word: Short,
    stem: Short,
    hash: WordHash,
    is_stop_word: bool,
}

impl Default for Stems {
    fn default() -> Self {
        let entries = vec![Entry::default(); ENTRIES];
        Self { stemmer: Stemmer::create(Algorithm::English), entries: entries.into() }
    }
}

/// Lends a cache to `read`, which reads one text.
pub(super) fn with_stems<R>(read: impl FnOnce(&mut Stems) -> R) -> R {
    let mut stems = UNUSED.lock().pop().unwrap_or_default();
    let result = read(&mut stems);
    let mut unused = UNUSED.lock();
    if unused.len() < CACHES_MAX {
        unused.push(stems);
    }
    result
}

impl Stems {
    /// Calls `emit` with the term of a lower-case word: its stem if it has ASCII letters only.
    pub(super) fn with<R>(&mut self, word: &str, emit: impl FnOnce(Term<'_>) -> R) -> R {
        let Some(short) = shortened(word) else {
            return emit(Term::of_stem(&stem(&self.stemmer, word)));
        };
        let entry = &mut self.entries[place(short)];
        if entry.word != short {
            let stem = stem(&self.stemmer, word);
            let term = Term::of_stem(&stem);
            let Some(stem) = shortened(&stem) else { return emit(term) };
            let (hash, is_stop_word) = (term.hash, term.is_stop_word);
            *entry = Entry { word: short, stem, hash, is_stop_word };
        }
        let Entry { hash, is_stop_word, .. } = *entry;
        emit(Term { text: text(&entry.stem), hash, is_stop_word })
    }
}

fn stem<'a>(stemmer: &Stemmer, word: &'a str) -> Cow<'a, str> {
    let has_stem = word.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_stop_word(word);
    if has_stem { stemmer.stem(word) } else { word.into() }
}

fn shortened(word: &str) -> Option<Short> {
    let mut short = Short::default();
    short.get_mut(..word.len())?.copy_from_slice(word.as_bytes());
    (!word.contains('\0')).then_some(short)
}

fn text(short: &Short) -> &str {
    let end = short.iter().position(|byte| *byte == 0).unwrap_or(short.len());
    // It was copied from a whole word.
    std::str::from_utf8(&short[..end]).unwrap_or_default()
}

fn place(short: Short) -> usize {
    let (low, high) =
        (u128::from_le_bytes(short) as u64, (u128::from_le_bytes(short) >> 64) as u64);
    let mixed = (low ^ high.rotate_left(32)).wrapping_mul(FIBONACCI);
    (mixed >> (u64::BITS - ENTRIES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn remembered_stems_are_those_of_the_stemmer(
            words in proptest::collection::vec(
                "[a-e]{1,3}(ing|ed|ly|ational|s)?[a-z]{0,14}|[a-z0-9äж]{1,12}|the|its",
                1..200,
            )
        ) {
            let stemmer = Stemmer::create(Algorithm::English);
            // Twice: the second time, most are remembered.
            let mut stems = Stems::default();
            for word in words.iter().chain(&words) {
                stems.with(word, |term| {
                    let stem = stem(&stemmer, word);
                    let expected = (&*stem, WordHash::of(&stem), is_stop_word(&stem));
                    assert_eq!((term.text, term.hash, term.is_stop_word), expected);
                });
            }
        }
    }

    #[test]
    fn words_with_the_same_place_do_not_mix() {
        let stemmer = Stemmer::create(Algorithm::English);
        let words = (0..4 * ENTRIES).map(|number| {
            let digits = number.to_string().into_bytes();
            String::from_utf8(digits.iter().map(|digit| digit - b'0' + b'a').collect()).unwrap()
        });
        let (words, mut stems): (Vec<_>, _) = (words.collect(), Stems::default());
        for word in words.iter().chain(words.iter().rev()) {
            stems.with(word, |term| assert_eq!(term.text, stemmer.stem(word)));
        }
    }
}
