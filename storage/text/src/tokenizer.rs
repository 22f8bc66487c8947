//! The tokenizer: turns texts of memories and queries into index terms ("words").
//!
//! - Words are split at Unicode word boundaries (UAX #29), and folded ([`folding`](crate::folding)).
//! - An emoji is a word.
//! - ASCII words are stemmed with the Snowball English stemmer (Porter2), irregular forms as their base.
//!   Stop words and words with other letters are not stemmed.
//! - Scripts without spaces between words (Han, Hiragana, Katakana, Hangul, Thai, Lao,
//!   Khmer, Burmese) become character bigrams. Documents contain the single characters too,
//!   so a query of one character finds them.
//! - A UUID is one word, so an id matches only itself.
//! - Documents and content words also have the terms of `identifiers`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;
use std::ops::ControlFlow;

use ahash::RandomState;
use unicode_segmentation::UnicodeSegmentation;

use crate::folding::{fold_word, nfkc};
use crate::identifiers::for_each_identifier;
use crate::stems::{hash_of_stem, stem};
use crate::term::{TermHash, is_stop_word};

/// Maximum number of distinct words under which a memory is indexed. English prose of 64 KiB
/// has about 2,500, so only unusual texts have more.
pub const MEMORY_WORDS_MAX: usize = 3_072;

/// Distinct words of most texts.
const USUAL_WORDS: usize = 64;

/// What the tokenizer finds in a text. Both are lower-case.
#[derive(Clone, Copy)]
enum Token<'a> {
    /// A word, whose term is its stem.
    Word(&'a str),
    /// A term that has no stem.
    Whole(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> Cow<'a, str> {
        match self {
            Self::Word(word) => stem(word),
            Self::Whole(term) => term.into(),
        }
    }

    fn hash(self) -> TermHash {
        match self {
            Self::Word(word) => hash_of_stem(word),
            Self::Whole(term) => TermHash::of(term),
        }
    }
}

/// Distinct query words of all `texts`, in order of first appearance.
pub fn words<'a>(mut texts: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut words = Distinct::new(usize::MAX);
    // Never breaks.
    let _: ControlFlow<()> = texts.try_for_each(|text| {
        for_each_word(text, false, &mut |token| words.push(token.text().into_owned()))
    });
    words.found
}

/// Calls `visit` with the distinct query words of a text: the hash of each, and a function for the
/// word itself, which is slow.
pub fn for_each_distinct(text: &str, mut visit: impl FnMut(TermHash, &dyn Fn() -> String)) {
    let mut words = Distinct::new(usize::MAX);
    // Never breaks.
    let _: ControlFlow<()> = for_each_word(text, false, &mut |token| {
        let (hash, before) = (token.hash(), words.found.len());
        let pushed = words.push(hash);
        if words.found.len() > before {
            visit(hash, &|| token.text().into_owned());
        }
        pushed
    });
}

/// Distinct words under which a document with all `texts` is indexed: the first
/// [`MEMORY_WORDS_MAX`], in order of first appearance.
pub fn document_words<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<TermHash> {
    first_document_words(texts, MEMORY_WORDS_MAX)
}

/// The first `max` of them.
pub fn first_document_words<'a>(
    mut texts: impl Iterator<Item = &'a str>,
    max: usize,
) -> Vec<TermHash> {
    let mut words = Distinct::new(max);
    let mut emit = |token: Token<'_>| words.push(token.hash());
    // Breaks at the limit.
    let _: ControlFlow<()> = texts.try_for_each(|text| {
        for_each_word(text, true, &mut emit)?;
        for_each_identifier(text, &mut |term| emit_word(term, &mut emit))
    });
    words.found
}

/// The first `max` distinct words of a text without stop words, and the terms of its identifiers:
/// those that count for keyword overlap.
pub fn content_words(text: &str, max: usize) -> Vec<String> {
    let mut words = Distinct::new(max);
    for_each_content(text, &mut |token| {
        let term = token.text();
        if is_stop_word(&term) { ControlFlow::Continue(()) } else { words.push(term.into_owned()) }
    });
    words.found
}

/// The hashes of these words of a memory.
pub fn content_hashes(text: &str) -> Vec<TermHash> {
    let mut words = Distinct::new(MEMORY_WORDS_MAX);
    for_each_content(text, &mut |token| {
        let hash = token.hash();
        if hash.is_stop_word() { ControlFlow::Continue(()) } else { words.push(hash) }
    });
    words.found
}

fn for_each_content(text: &str, emit: &mut impl FnMut(Token<'_>) -> ControlFlow<()>) {
    // Breaks at the limit.
    if for_each_word(text, false, emit).is_continue() {
        let _: ControlFlow<()> = for_each_identifier(text, &mut |term| emit_word(term, emit));
    }
}

/// The first distinct terms of a text, up to a limit.
struct Distinct<T> {
    /// Its random keys prevent words that are chosen to collide.
    seen: HashSet<T, RandomState>,
    found: Vec<T>,
    max: usize,
}

impl<T: Clone + Eq + Hash> Distinct<T> {
    fn new(max: usize) -> Self {
        let seen = HashSet::with_capacity_and_hasher(USUAL_WORDS, RandomState::new());
        Self { seen, found: Vec::with_capacity(USUAL_WORDS), max }
    }

    /// Breaks at the limit.
    fn push(&mut self, term: T) -> ControlFlow<()> {
        if self.found.len() < self.max && !self.seen.contains(&term) {
            self.seen.insert(term.clone());
            self.found.push(term);
        }
        if self.found.len() == self.max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Calls `emit` with each word of a text until it breaks. Words may be repeated.
fn for_each_word(
    text: &str,
    with_unigrams: bool,
    emit: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut rest = text;
    while let Some((start, end)) = find_uuid(rest) {
        for_each_plain_word(&rest[..start], with_unigrams, emit)?;
        emit(Token::Whole(&rest[start..end].to_ascii_lowercase()))?;
        rest = &rest[end..];
    }
    for_each_plain_word(rest, with_unigrams, emit)
}

fn for_each_plain_word(
    text: &str,
    with_unigrams: bool,
    emit: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // Every white space is a word boundary, so what lies between two needs the Unicode tables only
    // if it is more than an ASCII word and punctuation.
    text.split_ascii_whitespace().try_for_each(|chunk| match ascii_word(chunk) {
        Some(word) => emit_word(word, emit),
        None => for_each_unicode_word(&nfkc(chunk), with_unigrams, emit),
    })
}

/// The word of a text that has nothing but an ASCII word and punctuation around it.
fn ascii_word(chunk: &str) -> Option<&str> {
    // An underscore joins the letters beside it.
    let word = chunk.trim_matches(|c: char| c.is_ascii_punctuation() && c != '_');
    let is_ascii = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_ascii.then_some(word)
}

fn for_each_unicode_word(
    text: &str,
    with_unigrams: bool,
    emit: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    // Adjacent characters of unspaced scripts, across word boundaries.
    let mut run: Vec<char> = Vec::new();
    let mut run_end = 0;
    // A picture is a word, too.
    let is_emoji = |c: char| {
        matches!(u32::from(c),
            0x231A..=0x23FA | 0x2600..=0x27BF | 0x2B1B..=0x2B55 | 0x1F000..=0x1FAFF)
    };
    let is_word =
        |(_, word): &(usize, &str)| word.chars().any(|c| c.is_alphanumeric() || is_emoji(c));
    for (start, word) in text.split_word_bound_indices().filter(is_word) {
        let mut at = start;
        for part in split_by_script(word) {
            let is_unspaced_part = part.starts_with(is_unspaced);
            if !run.is_empty() && (!is_unspaced_part || at != run_end) {
                emit_bigrams(&run, with_unigrams, emit)?;
                run.clear();
            }
            at += part.len();
            if is_unspaced_part {
                run.extend(part.chars());
                run_end = at;
            } else {
                emit_word(part, emit)?;
            }
        }
    }
    emit_bigrams(&run, with_unigrams, emit)
}

/// Splits a word where unspaced and spaced scripts meet: particles follow foreign words
/// and numbers directly, as in "rust로".
fn split_by_script(word: &str) -> impl Iterator<Item = &str> {
    let mut rest = word;
    std::iter::from_fn(move || {
        let is_unspaced_part = is_unspaced(rest.chars().next()?);
        let end = rest.find(|c| is_unspaced(c) != is_unspaced_part).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

/// Emits a word of a spaced script: folded, and without possessive `'s`.
fn emit_word(word: &str, emit: &mut impl FnMut(Token<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
    let lower: Cow<'_, str> = match word.is_ascii() {
        true if !word.bytes().any(|byte| byte.is_ascii_uppercase()) => word.into(),
        true => word.to_ascii_lowercase().into(),
        false => fold_word(&word.replace('\u{2019}', "'")).into(),
    };
    match lower.strip_suffix("'s").unwrap_or(&lower) {
        // It was a mark that makes no letter.
        "" => ControlFlow::Continue(()),
        word => emit(Token::Word(word)),
    }
}

/// Emits the bigrams of a run, and single characters if it has one or `with_unigrams` is set.
fn emit_bigrams(
    run: &[char],
    with_unigrams: bool,
    emit: &mut impl FnMut(Token<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let mut bigram = String::with_capacity(8);
    for characters in run.windows(2) {
        bigram.clear();
        bigram.extend(characters);
        emit(Token::Whole(&bigram))?;
    }
    if with_unigrams || run.len() == 1 {
        run.iter().try_for_each(|unigram| emit(Token::Whole(unigram.encode_utf8(&mut [0; 4]))))?;
    }
    ControlFlow::Continue(())
}

/// Whether `c` belongs to a script without spaces between words.
pub fn is_unspaced(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF
        | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF
        | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x1B000..=0x1B16F | 0x20000..=0x3FFFF)
}

/// The first UUID-like token of a text (8-4-4-4-12 hex digits), as a byte range.
fn find_uuid(text: &str) -> Option<(usize, usize)> {
    const LENGTH: usize = 36;
    let bytes = text.as_bytes();
    let is_boundary = |at: Option<&u8>| at.is_none_or(|byte| !byte.is_ascii_alphanumeric());
    let mut from = 0;
    // The first dash of a UUID is its ninth byte, so only dashes are candidates.
    while let Some(dash) = bytes.get(from..)?.iter().position(|&byte| byte == b'-') {
        let dash = from + dash;
        from = dash + 1;
        let Some(start) = dash.checked_sub(8) else { continue };
        let Some(token) = bytes.get(start..start + LENGTH) else { continue };
        let is_shaped = uuid::Uuid::try_parse_ascii(token).is_ok();
        let is_bounded = is_boundary(start.checked_sub(1).and_then(|at| bytes.get(at)))
            && is_boundary(bytes.get(start + LENGTH));
        if is_shaped && is_bounded {
            return Some((start, start + LENGTH));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::WORD_BYTES_MAX;
    use proptest::prelude::*;

    fn of(text: &str) -> Vec<String> {
        words(std::iter::once(text))
    }

    #[test]
    fn unspaced_scripts_are_indexed_as_bigrams_and_unigrams() {
        let indexed = |text: &str| document_words(std::iter::once(text));
        let hashes =
            |words: &[&str]| words.iter().map(|word| TermHash::of(word)).collect::<Vec<_>>();
        assert_eq!(of("東京都に住む"), ["東京", "京都", "都に", "に住", "住む"]);
        assert_eq!(of("使用 rust 编程"), ["使用", "rust", "编程"]);
        assert_eq!(of("黒い猫"), ["黒い", "い猫"]);
        assert_eq!(indexed("黒い猫"), hashes(&["黒い", "い猫", "黒", "い", "猫"]));
        assert_eq!(of("猫"), ["猫"]);
        assert_eq!(indexed("5月に"), hashes(&["5", "月に", "月", "に"]));
        assert_eq!(of("rust로 작성"), ["rust", "로", "작성"]);
        assert!(indexed("ฉันรักแมว").contains(&TermHash::of("แม")));
        assert!(of("แมว").iter().all(|word| indexed("ฉันรักแมว").contains(&TermHash::of(word))));
        assert!(!indexed("ฉันรักหมา").contains(&TermHash::of("แม")));
    }

    #[test]
    fn english_words_are_lower_cased_and_stemmed() {
        assert_eq!(of("Running deployments; the user's RUNS"), ["run", "deploy", "the", "user"]);
        assert_eq!(content_words("what is the rollback of a deploy", 9), ["rollback", "deploy"]);
        assert_eq!(content_words("the old and the new", 1), ["old"]);
        assert_eq!(content_words("parseConfig", 9), ["parseconfig", "pars", "config"]);
    }

    #[test]
    fn distinct_words_are_visited_with_their_hashes() {
        let mut visited = Vec::new();
        for_each_distinct("Running, the run; 猫", |hash, word| visited.push((hash, word())));
        let expected = ["run", "the", "猫"].map(|word| (TermHash::of(word), word.to_owned()));
        assert_eq!(visited, expected);
    }

    #[test]
    fn accents_do_not_matter() {
        assert_eq!(of("Größe und Übergröße"), of("grosse und ubergrosse"));
        assert_eq!(of("Müller"), of("Muller"));
        assert_eq!(of("café Élysée"), of("cafe\u{301} elysee"));
    }

    #[test]
    fn equal_texts_have_equal_words() {
        for (left, right) in [
            ("한국어", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}\u{110b}\u{1165}"),
            ("がっこう", "か\u{3099}っこう"),
            ("ガッコウ", "ｶﾞｯｺｳ"),
            ("Йод", "И\u{306}од"),
            ("Άγιος", "Α\u{301}γιος"),
            ("всё", "все"),
            ("room １２", "room 12"),
            ("done 👍🏽🎉", "done 👍 🎉"),
        ] {
            assert_eq!(of(left), of(right), "{left}");
        }
        assert_eq!(of("done 👍🎉"), ["done", "👍", "🎉"]);
        assert_ne!(of("йод"), of("иод"));
        assert_eq!(content_words("C++ or C# on .NET", 9), ["c", "net", "c++", "c#", ".net"]);
    }

    #[test]
    fn words_of_other_scripts_are_not_stemmed() {
        assert_eq!(of("Привет, мир"), ["привет", "мир"]);
    }

    #[test]
    fn memory_is_indexed_by_its_first_words() {
        let text = |count: usize| (0..count).map(|word| format!("{word} ")).collect::<String>();
        let indexed = |text: &str| document_words(["key", text].into_iter());
        let (full, longer) = (text(MEMORY_WORDS_MAX - 1), text(2 * MEMORY_WORDS_MAX));
        assert_eq!(indexed(&full).len(), MEMORY_WORDS_MAX);
        assert_eq!(indexed(&longer), indexed(&full));
    }

    #[test]
    fn uuid_is_one_word() {
        let id = "0192D3A4-5b6c-7def-8123-456789abcdef";
        assert_eq!(of(&format!("order {id}, twice")), ["order", &id.to_lowercase(), "twice"]);
        assert_eq!(of("x0192d3a4-5b6c-7def-8123-456789abcdef").len(), 5);
    }

    proptest! {
        #[test]
        fn word_boundaries_are_those_of_unicode(
            text in "([a-zA-Z0-9_]{1,3}|[ \t\r\n.,:;'()\"-]|[äß京로\u{301}\u{200d}\u{2019}\u{a0}א]|\\PC){0,20}"
        ) {
            let of_chunk = |chunk| match ascii_word(chunk) {
                Some(word) => vec![word],
                None => chunk.unicode_words().collect(),
            };
            let found: Vec<_> = text.split_ascii_whitespace().flat_map(of_chunk).collect();
            // A combining mark after white space is a word by itself here.
            let expected = text.unicode_words().map(str::trim_ascii_start);
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }

        #[test]
        fn words_are_bounded_for_any_text(text in "\\PC{0,200}") {
            for word in of(&text) {
                prop_assert!(!word.is_empty() && word.len() <= WORD_BYTES_MAX);
            }
        }

        #[test]
        fn text_contains_each_of_its_words(text in "[a-zA-Z0-9 ,.äöü猫京都-]{0,80}") {
            let all = of(&text);
            for word in text.split_whitespace().flat_map(of) {
                // The whole text may have more bigrams than its parts, never fewer.
                prop_assert!(all.contains(&word), "{word} not in {all:?}");
            }
        }
    }
}
