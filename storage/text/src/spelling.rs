//! Words with one typing error: a letter missing, added, wrong, or exchanged with the next one.
//! All words at this distance are tried (P. Norvig, How to Write a Spelling Corrector, 2007).

use crate::term::TermHash;

/// Shortest word that is corrected. Shorter words are too similar to others.
const LETTERS_MIN: usize = 4;
/// Longest word that is corrected. It has about 1,200 neighbours.
const LETTERS_MAX: usize = 24;

/// Whether a word is long enough and has ASCII letters only.
pub fn is_correctable(word: &str) -> bool {
    (LETTERS_MIN..=LETTERS_MAX).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// The most frequent word with the same first letter that differs by one typing error; of equally
/// frequent ones, the first in alphabetical order. `None` if none occurs.
pub fn correction(word: &str, frequency: impl Fn(TermHash) -> u64) -> Option<TermHash> {
    let mut best: Option<(u64, String)> = None;
    for_each_neighbour(word, |neighbour| {
        let found = frequency(TermHash::of(neighbour));
        let is_better = best.as_ref().is_none_or(|(most, first)| {
            found > *most || found == *most && neighbour < first.as_str()
        });
        if found > 0 && is_better {
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
    fn most_frequent_neighbour_is_the_correction() {
        let known = [("keller", 3), ("kellar", 3), ("kelter", 1)];
        let frequency = |word: TermHash| {
            known.iter().find(|(text, _)| TermHash::of(text) == word).map_or(0, |(_, count)| *count)
        };
        assert_eq!(correction("keler", frequency), Some(TermHash::of("keller")));
        assert_eq!(correction("kellr", frequency), Some(TermHash::of("kellar")));
        assert_eq!(correction("miller", frequency), None);
        assert!(is_correctable("keler") && !is_correctable("kel") && !is_correctable("k1ler"));
    }
}
