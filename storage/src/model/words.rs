//! Words of a text, the way both memories and queries are read. Not an index.
//!
//! - Unicode word boundaries (UAX #29), lower-cased.
//! - English stems for words in Latin letters; other scripts as they stand.
//! - Scripts that put no spaces between words (Han, Hiragana, Katakana, Hangul, Thai, Lao,
//!   Khmer, Burmese) as overlapping pairs of characters. A memory holds the single characters
//!   as well: a query may be of one.
//! - UUID-like tokens whole, so that an id is found by itself only.

use std::cell::RefCell;
use std::collections::HashSet;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_segmentation::UnicodeSegmentation;

/// Longer words are cut here, in bytes: nobody searches for them, and a label
/// of one endless word must not become one endless key.
pub const WORD_BYTES_MAX: usize = 64;

/// English words that carry no subject. They are indexed, so that a list can
/// ask for them, but they do not count towards keyword overlap.
const STOP_WORDS: [&str; 72] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been",
    "but", "by", "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he",
    "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "no",
    "not", "of", "on", "or", "our", "she", "so", "some", "than", "that", "the", "their", "them",
    "then", "there", "they", "this", "to", "was", "we", "were", "what", "when", "where", "which",
    "who", "why", "will", "with", "would", "you", "your",
];

thread_local! {
    // The stemmer is a set of tables behind a pointer; one a thread saves building it a text.
    static STEMMER: Stemmer = Stemmer::create(Algorithm::English);
    static SCRATCH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Distinct words of all `texts`, in order of first appearance, as they are asked for.
pub fn words<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    distinct(texts, false)
}

/// Distinct words that a memory of all `texts` is found by.
pub fn held_words<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    distinct(texts, true)
}

fn distinct<'a>(texts: impl Iterator<Item = &'a str>, singles: bool) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut words = Vec::new();
    for text in texts {
        each_word(text, singles, &mut |word| {
            if !seen.contains(word) {
                seen.insert(word.to_owned());
                words.push(word.to_owned());
            }
        });
    }
    words
}

/// Distinct words of a query that count towards keyword overlap.
pub fn subject_words(query: &str) -> Vec<String> {
    let mut words = words(std::iter::once(query));
    words.retain(|word| STOP_WORDS.binary_search(&word.as_str()).is_err());
    words
}

fn each_word(text: &str, singles: bool, emit: &mut impl FnMut(&str)) {
    let mut rest = text;
    while let Some((start, end)) = find_uuid(rest) {
        each_plain_word(&rest[..start], singles, emit);
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            scratch.extend(rest[start..end].chars().map(|c| c.to_ascii_lowercase()));
            emit(scratch);
        });
        rest = &rest[end..];
    }
    each_plain_word(rest, singles, emit);
}

fn each_plain_word(text: &str, singles: bool, emit: &mut impl FnMut(&str)) {
    let mut run: Vec<char> = Vec::new();
    let mut run_end = 0;
    for (start, word) in text.unicode_word_indices() {
        let mut at = start;
        for part in parts(word) {
            let unspaced = part.starts_with(is_unspaced);
            if !run.is_empty() && (!unspaced || at != run_end) {
                emit_pairs(&run, singles, emit);
                run.clear();
            }
            at += part.len();
            if unspaced {
                run.extend(part.chars());
                run_end = at;
            } else {
                emit_stem(part, emit);
            }
        }
    }
    emit_pairs(&run, singles, emit);
}

/// A word cut where it changes from a script without spaces to one with them, or back: a
/// particle follows a foreign word or a number at once, as in "rust로".
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let first = is_unspaced(rest.chars().next()?);
        let end = rest.find(|c| is_unspaced(c) != first).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

fn emit_stem(word: &str, emit: &mut impl FnMut(&str)) {
    let lower = word.to_lowercase().replace('\u{2019}', "'");
    let lower = lower.strip_suffix("'s").unwrap_or(&lower);
    if lower.bytes().all(|byte| byte.is_ascii_alphabetic()) && !is_stop_word(lower) {
        STEMMER.with(|stemmer| emit(cut(&stemmer.stem(lower))));
    } else {
        emit(cut(lower));
    }
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

fn emit_pairs(run: &[char], singles: bool, emit: &mut impl FnMut(&str)) {
    let mut pair = String::with_capacity(8);
    for two in run.windows(2) {
        pair.clear();
        pair.extend(two);
        emit(&pair);
    }
    if singles || run.len() == 1 {
        run.iter().for_each(|single| emit(single.encode_utf8(&mut [0; 4])));
    }
}

/// Scripts written without spaces between words.
fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF
        | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
        | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x1B000..=0x1B16F | 0x20000..=0x3FFFF)
}

/// The first UUID-like token of a text (8-4-4-4-12 hex digits), as a byte range.
fn find_uuid(text: &str) -> Option<(usize, usize)> {
    const LENGTH: usize = 36;
    let bytes = text.as_bytes();
    let free = |at: Option<&u8>| at.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let mut from = 0;
    // A UUID's first dash is its ninth byte: only dashes need a closer look.
    while let Some(dash) = bytes.get(from..)?.iter().position(|&byte| byte == b'-') {
        let dash = from + dash;
        from = dash + 1;
        let Some(start) = dash.checked_sub(8) else { continue };
        let Some(token) = bytes.get(start..start + LENGTH) else { continue };
        let shaped = token.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
        let bounded = free(start.checked_sub(1).and_then(|at| bytes.get(at)))
            && free(bytes.get(start + LENGTH));
        if shaped && bounded {
            return Some((start, start + LENGTH));
        }
    }
    None
}

fn cut(word: &str) -> &str {
    let mut end = word.len().min(WORD_BYTES_MAX);
    while !word.is_char_boundary(end) {
        end -= 1;
    }
    &word[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Vec<String> {
        words(std::iter::once(text))
    }

    #[test]
    fn stop_words_are_sorted_for_binary_search() {
        assert!(STOP_WORDS.is_sorted());
    }

    #[test]
    fn scripts_without_spaces_are_held_as_pairs_and_single_characters() {
        let held = |text: &str| held_words(std::iter::once(text));
        assert_eq!(of("黒い猫"), ["黒い", "い猫"]);
        assert_eq!(held("黒い猫"), ["黒い", "い猫", "黒", "い", "猫"]);
        assert_eq!(of("猫"), ["猫"]);
        assert_eq!(held("5月に"), ["5", "月に", "月", "に"]);
        // A particle follows at once.
        assert_eq!(of("rust로 작성"), ["rust", "로", "작성"]);
        assert!(held("ฉันรักแมว").contains(&"แม".to_owned()));
        assert!(of("แมว").iter().all(|word| held("ฉันรักแมว").contains(word)));
        assert!(!held("ฉันรักหมา").contains(&"แม".to_owned()));
    }

    #[test]
    fn english_words_are_lower_cased_and_stemmed() {
        assert_eq!(of("Running deployments; the user's RUNS"), ["run", "deploy", "the", "user"]);
        assert_eq!(subject_words("what is the rollback of a deploy"), ["rollback", "deploy"]);
    }

    #[test]
    fn words_of_other_scripts_are_kept_as_they_stand() {
        assert_eq!(of("Größe und Übergröße"), ["größe", "und", "übergröße"]);
        assert_eq!(of("Привет, мир"), ["привет", "мир"]);
    }

    #[test]
    fn unspaced_scripts_become_pairs() {
        assert_eq!(of("東京都に住む"), ["東京", "京都", "都に", "に住", "住む"]);
        assert_eq!(of("猫"), ["猫"]);
        assert_eq!(of("使用 rust 编程"), ["使用", "rust", "编程"]);
    }

    #[test]
    fn an_id_is_one_word() {
        let id = "0192D3A4-5b6c-7def-8123-456789abcdef";
        assert_eq!(of(&format!("order {id}, twice")), ["order", &id.to_lowercase(), "twice"]);
        assert_eq!(of("x0192d3a4-5b6c-7def-8123-456789abcdef").len(), 5);
    }

    proptest! {
        #[test]
        fn any_text_has_bounded_words(text in "\\PC{0,200}") {
            for word in of(&text) {
                prop_assert!(!word.is_empty() && word.len() <= WORD_BYTES_MAX);
            }
        }

        #[test]
        fn a_text_is_found_by_each_of_its_words(text in "[a-zA-Z0-9 ,.äöü猫京都-]{0,80}") {
            let all = of(&text);
            for word in text.split_whitespace().flat_map(of) {
                // A pair may straddle what splitting at white space keeps apart, never the reverse.
                prop_assert!(all.contains(&word), "{word} not in {all:?}");
            }
        }
    }
}
