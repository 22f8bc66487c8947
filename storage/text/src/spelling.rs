//! Words with one typing error: a letter missing, added, wrong, or exchanged with the next one.
//! All words at this distance are tried (P. Norvig, How to Write a Spelling Corrector, 2007).

use std::collections::HashSet;
use std::sync::LazyLock;

use ahash::RandomState;

use crate::stems::stem;
use crate::term::TermHash;
use crate::tokenizer::words;

/// Shortest word that is corrected. Shorter words are too similar to others.
const LETTERS_MIN: usize = 5;
/// Shortest name that is corrected. It becomes no common word, so there are few for which it can be meant.
const NAME_LETTERS_MIN: usize = 4;
/// Longest word that is corrected. It has about 1,200 neighbours.
const LETTERS_MAX: usize = 24;

/// Stems of common English words.
pub static COMMON: LazyLock<HashSet<String, RandomState>> = LazyLock::new(|| {
    let lines = include_str!("common_words.txt").lines();
    lines.filter(|line| !line.starts_with('#')).map(|word| stem(word).into_owned()).collect()
});

/// The words of a query that begin with a capital letter: names, as far as one can tell.
pub fn names(query: &str) -> Vec<String> {
    let is_capital = |chunk: &&str| {
        chunk.chars().find(|char| char.is_alphanumeric()).is_some_and(char::is_uppercase)
    };
    words(query.split_whitespace().filter(is_capital))
}

/// Whether a word is long enough and has ASCII letters only.
pub fn is_correctable(word: &str, is_name: bool) -> bool {
    let least = if is_name { NAME_LETTERS_MIN } else { LETTERS_MIN };
    (least..=LETTERS_MAX).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// The most frequent word with the same first letter that differs by one typing error; of equally
/// frequent ones, the first in alphabetical order. `None` if none occurs. A name becomes no common word:
/// "John" is not "join".
pub fn correction(
    word: &str,
    is_name: bool,
    frequency: impl Fn(TermHash) -> u64,
) -> Option<TermHash> {
    let mut best: Option<(u64, String)> = None;
    for_each_neighbour(word, |neighbour| {
        let found = frequency(TermHash::of(neighbour));
        let is_better = best.as_ref().is_none_or(|(most, first)| {
            found > *most || found == *most && neighbour < first.as_str()
        });
        if found > 0 && is_better && !(is_name && COMMON.contains(neighbour)) {
            best = Some((found, neighbour.to_owned()));
        }
    });
    best.map(|(_, word)| TermHash::of(&word))
}

/// Calls `visit` with each word at the distance of one error, the first letter unchanged.
fn for_each_neighbour(word: &str, mut visit: impl FnMut(&str)) {
    let mut with = |before: &str, letter: Option<char>, after: &str| {
        let neighbour: String = before.chars().chain(letter).chain(after.chars()).collect();
        if neighbour != word {
            visit(&neighbour);
        }
    };
    for at in 1..=word.len() {
        let (before, after) = word.split_at(at);
        let rest = after.get(1..).unwrap_or("");
        if let Some(second) = rest.chars().next() {
            with(before, Some(second), &(after[..1].to_owned() + &rest[1..]));
        }
        if !after.is_empty() {
            with(before, None, rest);
        }
        for letter in 'a'..='z' {
            with(before, Some(letter), after);
            if !after.is_empty() {
                with(before, Some(letter), rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn neighbours_are_one_error_away() {
        let mut found = BTreeSet::new();
        for_each_neighbour("kant", |neighbour| {
            found.insert(neighbour.to_owned());
        });
        for near in ["knat", "kat", "kan", "kants", "karnt", "kent", "kand"] {
            assert!(found.contains(near), "{near}");
        }
        for far in ["kant", "ant", "cant", "akant", "knta", "ka"] {
            assert!(!found.contains(far), "{far}");
        }
    }

    #[test]
    fn names_become_no_common_words() {
        assert_eq!(names("Where does Ann-Marie Keler (of KLM) live, and why?").len(), 5);
        let join =
            |is_name| correction("john", is_name, |word| u64::from(word == TermHash::of("join")));
        assert_eq!((join(true), join(false)), (None, Some(TermHash::of("join"))));
        let both = ["john", "keler", "kel", "k1ler"];
        assert_eq!(both.map(|word| is_correctable(word, false)), [false, true, false, false]);
        assert_eq!(both.map(|word| is_correctable(word, true)), [true, true, false, false]);
    }

    #[test]
    fn most_frequent_neighbour_is_the_correction() {
        let known = [("keller", 3), ("kellar", 3), ("kelter", 1)];
        let frequency = |word: TermHash| {
            known.iter().find(|(text, _)| TermHash::of(text) == word).map_or(0, |(_, count)| *count)
        };
        let corrected = |word| correction(word, false, frequency);
        assert_eq!(corrected("keler"), Some(TermHash::of("keller")));
        assert_eq!(corrected("kellr"), Some(TermHash::of("kellar")));
        assert_eq!(corrected("miller"), None);
    }
}
