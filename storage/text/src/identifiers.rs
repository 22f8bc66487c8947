//! Further index terms for identifiers, so that they are found in other forms: phone numbers with
//! other punctuation, shortened commit hashes, the parts of names in code, and names with signs (C++, C#, .NET).

use std::ops::ControlFlow;

/// Digits of a number in groups, such as a phone number.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=20;
/// Least digits of a number that is also indexed by its last [`SUFFIX`].
const WITH_SUFFIX: usize = 9;
/// Last digits of a phone number that do not depend on how its country is written.
const SUFFIX: usize = 7;
/// Characters of a commit hash in its shortest usual form.
const HASH_PREFIX: usize = 7;
/// Marks terms that are parts of others. No word of a text starts with it.
const MARK: char = '~';

/// Calls `emit` with the terms of the identifiers in a text until it breaks. All are lower-case.
pub fn for_each_identifier(
    text: &str,
    emit: &mut impl FnMut(&str) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if digits >= *DIGITS.start() {
        for_each_number(text, emit)?;
    }
    // Most texts of lower-case letters have none.
    let is_sign = |byte: u8| matches!(byte, b'_' | b'.' | b'+' | b'#') || byte.is_ascii_uppercase();
    if digits == 0 && !text.bytes().any(is_sign) {
        return ControlFlow::Continue(());
    }
    for chunk in text.split_ascii_whitespace() {
        for name in chunk.split(['/', ',', ';', '(', ')']).filter_map(with_signs) {
            emit(&name.to_ascii_lowercase())?;
        }
    }
    for token in text.split(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.')) {
        let token = token.trim_matches(['_', '.']);
        let has = |wanted: fn(&u8) -> bool| token.bytes().any(|byte| wanted(&byte));
        if token.len() >= HASH_PREFIX
            && token.bytes().all(|byte| byte.is_ascii_hexdigit())
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic)
        {
            emit(&marked(&token[..HASH_PREFIX].to_ascii_lowercase()))?;
        } else if has(|byte| matches!(byte, b'_' | b'.')) || has_hump(token) {
            for_each_part(token, emit)?;
        }
    }
    ControlFlow::Continue(())
}

/// Numbers in groups as one word, and the ends of long numbers.
fn for_each_number(text: &str, emit: &mut impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    let (mut digits, mut groups, mut gap) = (String::new(), 0, 0);
    for byte in text.bytes().chain([b'|']) {
        match byte {
            b'0'..=b'9' => {
                groups += usize::from(digits.is_empty() || gap > 0);
                gap = 0;
                if digits.len() <= *DIGITS.end() {
                    digits.push(char::from(byte));
                }
            }
            b' ' | b'-' | b'.' | b'/' | b'(' | b')' if !digits.is_empty() && gap < 2 => gap += 1,
            _ => {
                if DIGITS.contains(&digits.len()) {
                    if groups > 1 {
                        emit(&digits)?;
                    }
                    if digits.len() >= WITH_SUFFIX {
                        emit(&marked(&digits[digits.len() - SUFFIX..]))?;
                    }
                }
                digits.clear();
                (groups, gap) = (0, 0);
            }
        }
    }
    ControlFlow::Continue(())
}

/// The parts of `parse_config`, `parseConfig` and `config.parse`.
fn for_each_part(token: &str, emit: &mut impl FnMut(&str) -> ControlFlow<()>) -> ControlFlow<()> {
    for part in token.split(['_', '.']) {
        let mut rest = part;
        while !rest.is_empty() {
            let (hump, after) = rest.split_at(hump_end(rest));
            rest = after;
            if hump.len() > 1 {
                emit(&hump.to_ascii_lowercase())?;
            }
        }
    }
    ControlFlow::Continue(())
}

/// A name with a dot before its letters, or with `++` or `#` after them. Without the signs it is another one.
fn with_signs(part: &str) -> Option<&str> {
    let name = part.trim_start_matches(|c: char| c.is_ascii_punctuation() && c != '.');
    let name = name.trim_end_matches(|c: char| c.is_ascii_punctuation() && !"+#".contains(c));
    let is_name = |letters: &str, least: usize| {
        letters.len() >= least
            && letters.starts_with(|c: char| c.is_ascii_alphabetic())
            && letters.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let before = name.strip_prefix('.').filter(|letters| is_name(letters, 2));
    let after = name.strip_suffix("++").or(name.strip_suffix('#'));
    (before.is_some() || after.is_some_and(|letters| is_name(letters, 1))).then_some(name)
}

fn has_hump(token: &str) -> bool {
    hump_end(token) < token.len()
}

/// Where the first part of a name with humps ends: before a capital after another letter or digit.
fn hump_end(name: &str) -> usize {
    let pairs = name.as_bytes().windows(2);
    let at = pairs
        .into_iter()
        .position(|pair| !pair[0].is_ascii_uppercase() && pair[1].is_ascii_uppercase());
    at.map_or(name.len(), |at| at + 1)
}

fn marked(term: &str) -> String {
    format!("{MARK}{term}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let _ = for_each_identifier(text, &mut |term| {
            found.push(term.to_owned());
            ControlFlow::Continue(())
        });
        found
    }

    #[test]
    fn phone_numbers_are_equal_in_any_punctuation() {
        let expected = ["493012345678", "~2345678"];
        assert_eq!(of("call +49 30 1234 5678."), expected);
        assert_eq!(of("+49-30-12345678"), expected);
        assert_eq!(of("+49 (30) 1234-5678, or mail"), expected);
        assert_eq!(of("493012345678"), ["~2345678"]);
        assert_eq!(of("030 1234 5678"), ["03012345678", "~2345678"]);
        assert!(of("12 eggs, 1,000,000 stars, 555 and 1 2 3").is_empty());
    }

    #[test]
    fn shortened_hashes_have_a_term_of_their_hash() {
        let hash = "3FA92bc01d5e77a0";
        assert_eq!(of(&format!("commit {hash}")), ["~3fa92bc"]);
        assert_eq!(of("is 3fa92bc merged?"), ["~3fa92bc"]);
        assert!(of("a decade of facade").is_empty());
    }

    #[test]
    fn names_in_code_have_terms_of_their_parts() {
        assert_eq!(of("fix parse_config_file()"), ["parse", "config", "file"]);
        assert_eq!(of("flushQueue and HTTPServer"), ["flush", "queue"]);
        assert_eq!(of("see notes.md."), ["notes", "md"]);
        assert!(of("No Such Thing. At all.").is_empty());
    }

    #[test]
    fn names_with_signs_are_terms() {
        assert_eq!(of("written in C++, then (C#)."), ["c++", "c#"]);
        assert_eq!(of("C++/Java, C#,F#"), ["c++", "c#", "f#"]);
        assert_eq!(of("ported to .NET; see \".env\""), [".net", ".env"]);
        assert!(of("a + b, #5, 3# and ... .5 + + #tag").is_empty());
    }

    proptest! {
        #[test]
        fn any_text_has_bounded_identifiers(text in "([0-9]{1,9}[ -]?|[a-fA-F_.]{1,9}|\\PC){0,40}") {
            for term in of(&text) {
                prop_assert!(!term.is_empty() && term.len() <= text.len() + 1);
            }
        }
    }
}
