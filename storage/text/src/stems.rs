//! Stems of English words (Snowball English, Porter2), and a cache of their hashes: texts repeat
//! words, and a look-up takes a small part of the time of a stem.
//!
//! All threads share the cache without locks. The two numbers of an entry are checked against each
//! other, so a reader that finds halves of two writes ignores them (R. Hyatt and T. Mann, "A
//! lockless transposition table", 2002).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ahash::RandomState;
use rust_stemmers::{Algorithm, Stemmer};

use crate::Step;
use crate::term::{TermHash, WORD_BYTES_MAX, is_stop_word};

/// Sets of the cache, one per cache line: 512 KiB for 32,768 words, so that the caches of the
/// processor have room for other data.
const SETS: usize = 8_192;
const WAYS: usize = 4;

static CACHE: [Set; SETS] = [const { Set([const { CachedStem::empty() }; WAYS]) }; SETS];

/// Hashes words to 64 bits. Two words with one hash would share a stem on this node. Of 100,000
/// words, two have one by chance with a probability of 3 in 10^10. The keys are random, so a client
/// cannot prepare such words.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

#[repr(align(64))]
struct Set([CachedStem; WAYS]);

/// The hash of the stem of a word.
struct CachedStem {
    /// The hash of the stem, exclusive or the key of the word.
    check: AtomicU64,
    hash: AtomicU64,
}

impl CachedStem {
    const fn empty() -> Self {
        Self { check: AtomicU64::new(0), hash: AtomicU64::new(0) }
    }

    /// No key is 0.
    fn is_empty(&self) -> bool {
        self.check.load(Relaxed) == 0 && self.hash.load(Relaxed) == 0
    }

    fn get(&self, key: u64) -> Option<TermHash> {
        let hash = self.hash.load(Relaxed);
        (self.check.load(Relaxed) ^ hash == key).then(|| TermHash::from_bits(hash))
    }

    fn set(&self, key: u64, hash: TermHash) {
        self.hash.store(hash.bits(), Relaxed);
        self.check.store(hash.bits() ^ key, Relaxed);
    }
}

/// The hash of the stem of a lower-case word.
pub fn hash_of_stem(word: &str) -> TermHash {
    if !has_stem(word) {
        return TermHash::of(&word[..word.floor_char_boundary(WORD_BYTES_MAX)]);
    }
    let key = KEYS.hash_one(word).max(1);
    // The highest bits select the set, the lowest ones the entry that a full set replaces.
    let Set(entries) = &CACHE[(key >> (u64::BITS - SETS.ilog2())) as usize];
    entries.iter().find_map(|entry| entry.get(key)).unwrap_or_else(|| {
        let hash = TermHash::of(&stem(word));
        let empty = entries.iter().find(|entry| entry.is_empty());
        empty.unwrap_or(&entries[key as usize % WAYS]).set(key, hash);
        hash
    })
}

/// Only words of ASCII letters are stemmed. Numbers and ids, of which there is no end, take no place
/// in the cache.
fn has_stem(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Irregular forms, each with its base.
static IRREGULAR: LazyLock<HashMap<&str, &str, RandomState>> = LazyLock::new(|| {
    let lines = include_str!("irregular_forms.txt").lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    // "Done" says more than "do", which does not count.
    pairs.filter(|(_, base)| !is_stop_word(base)).collect()
});

/// The base of an irregular form: "go" of "went". Other words are returned as they are.
fn base(word: &str) -> &str {
    if !Step::IrregularForms.is_on() {
        return word;
    }
    IRREGULAR.get(word).copied().unwrap_or(word)
}

/// The stem of a lower-case word if it has ASCII letters only, otherwise the word; at most
/// [`WORD_BYTES_MAX`] bytes of it.
pub fn stem(word: &str) -> Cow<'_, str> {
    let stem = match has_stem(word) && !is_stop_word(word) {
        true => Stemmer::create(Algorithm::English).stem(base(word)),
        false => word.into(),
    };
    let end = stem.floor_char_boundary(WORD_BYTES_MAX);
    match stem {
        Cow::Borrowed(stem) => stem[..end].into(),
        Cow::Owned(mut stem) => {
            stem.truncate(end);
            stem.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assert_hashes_are_those_of_stems<'a>(words: impl Iterator<Item = &'a String> + Clone) {
        // Twice: the second time, most are in the cache.
        for word in words.clone().chain(words) {
            assert_eq!(hash_of_stem(word), TermHash::of(&stem(word)), "{word}");
        }
    }

    proptest! {
        #[test]
        fn cached_hashes_are_those_of_the_stems(
            words in proptest::collection::vec(
                "[a-e]{1,3}(ing|ed|ly|ational|s)?[a-z]{0,14}|[a-z0-9äж]{1,12}|the|its",
                1..200,
            )
        ) {
            assert_hashes_are_those_of_stems(words.iter());
        }
    }

    #[test]
    fn threads_that_replace_entries_do_not_mix_words() {
        let words: Vec<String> = (0..4 * SETS * WAYS)
            .map(|number| number.to_string().bytes().map(|digit| char::from(digit + 49)).collect())
            .collect();
        std::thread::scope(|scope| {
            for from in 0..4 {
                let words = words[from * 1_000..].iter();
                scope.spawn(|| assert_hashes_are_those_of_stems(words));
            }
        });
    }

    #[test]
    fn long_words_are_truncated() {
        assert_eq!(stem(&"é".repeat(40)).len(), WORD_BYTES_MAX);
        assert_eq!(stem(&"a".repeat(90)).len(), WORD_BYTES_MAX);
    }
}
