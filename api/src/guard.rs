//! Finds secrets in texts: keys, tokens, private keys, passwords in addresses, numbers of cards and accounts.
//! Numbers count only with the right check digits.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// What stands in place of a secret: its kind.
fn mask(kind: &str) -> String {
    format!("[{kind} removed]")
}

/// A kind of secret: its name, its pattern, and what else must hold of a match. Where the pattern has a group,
/// only that is the secret.
struct Kind {
    name: &'static str,
    pattern: Regex,
    is_valid: fn(&str) -> bool,
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let any: fn(&str) -> bool = |_| true;
    [
        ("private key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)", any),
        ("token", r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}", any),
        ("key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", any),
        ("token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,})", any),
        ("token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}", any),
        ("key", r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}", any),
        ("key", r"\b(?:sk|op)-(?:[a-z]+-)*[A-Za-z0-9_-]{20,}", any),
        ("key", r"\bAIza[0-9A-Za-z_-]{35}\b", any),
        ("token", r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{30,})", any),
        ("token", r"(?i)\bauthorization:\s*(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})", any),
        ("password", r"[a-z][a-z0-9+.-]*://[^\s/:@]+:([^\s/@]+)@", any),
        (
            "password",
            r#"(?i)\b(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|token)["']?\s*(?:=|:|\bis\b)\s*["']?([^\s"',;]{8,})"#,
            is_random,
        ),
        ("card number", r"\b(?:\d[ -]?){12,18}\d\b", is_card),
        ("account number", r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b", is_iban),
    ]
    .into_iter()
    .filter_map(|(name, pattern, is_valid)| {
        Some(Kind { name, pattern: Regex::new(pattern).ok()?, is_valid })
    })
    .collect()
});

/// The text without its secrets: each is replaced by its kind.
pub(crate) fn redacted(text: &str) -> Cow<'_, str> {
    let mut found: Vec<(Range<usize>, &str)> = Vec::new();
    for kind in KINDS.iter() {
        for captures in kind.pattern.captures_iter(text) {
            let whole = captures.get(1).or_else(|| captures.get(0));
            let Some(secret) = whole.filter(|secret| (kind.is_valid)(secret.as_str())) else {
                continue;
            };
            let overlaps = |(other, _): &(Range<usize>, &str)| {
                secret.start() < other.end && other.start < secret.end()
            };
            if !found.iter().any(overlaps) {
                found.push((secret.range(), kind.name));
            }
        }
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_unstable_by_key(|(range, _)| range.start);
    let (mut clean, mut at) = (String::with_capacity(text.len()), 0);
    for (range, kind) in found {
        clean.push_str(&text[at..range.start]);
        clean.push_str(&mask(kind));
        at = range.end;
    }
    clean.push_str(&text[at..]);
    Cow::Owned(clean)
}

/// Whether a value after "password:" looks like one: it has a digit or a sign beside letters.
fn is_random(value: &str) -> bool {
    let is_letter = |char: char| char.is_alphabetic();
    value.chars().any(is_letter) && !value.chars().all(|char| is_letter(char) || char == '.')
        || value.chars().all(|char| char.is_ascii_digit())
}

/// Luhn's check of card numbers of 13 to 19 digits.
fn is_card(number: &str) -> bool {
    let digits: Vec<_> = number.chars().filter_map(|char| char.to_digit(10)).collect();
    let doubled = |(at, digit): (usize, &u32)| match at % 2 {
        0 => *digit,
        _ => digit * 2 - if *digit > 4 { 9 } else { 0 },
    };
    let sum: u32 = digits.iter().rev().enumerate().map(doubled).sum();
    let is_varied = digits.iter().any(|digit| *digit != digits[0]);
    (13..=19).contains(&digits.len()) && is_varied && sum.is_multiple_of(10)
}

/// The check of account numbers by ISO 13616: the number modulo 97 is 1.
fn is_iban(number: &str) -> bool {
    let compact: Vec<_> = number.chars().filter(|char| *char != ' ').collect();
    if !(15..=34).contains(&compact.len()) {
        return false;
    }
    let turned = compact[4..].iter().chain(&compact[..4]);
    let rest = turned.fold(0_u32, |rest, char| {
        let value = char.to_digit(36).unwrap_or_default();
        (rest * if value > 9 { 100 } else { 10 } + value) % 97
    });
    rest == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_valid() {
        assert_eq!(KINDS.len(), 14);
    }

    #[test]
    fn secrets_are_replaced_by_their_kinds() {
        for (text, expected) in [
            ("use AKIAIOSFODNN7EXAMPLE now", "use [key removed] now"),
            ("sk-ant-api03-abcdefghijklmnopqrstuvwxyz", "[key removed]"),
            ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[token removed]"),
            (
                "postgres://admin:hunter22@db:5432/x",
                "postgres://admin:[password removed]@db:5432/x",
            ),
            ("the password is tr0ub4dor&3, keep it", "the password is [password removed], keep it"),
            ("api_key = \"abcd1234efgh\"", "api_key = \"[password removed]\""),
            ("Authorization: Bearer abc.def-123456", "Authorization: Bearer [token removed]"),
            ("card 4111 1111 1111 1111.", "card [card number removed]."),
            ("IBAN DE89 3704 0044 0532 0130 00 please", "IBAN [account number removed] please"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nrest",
                "[private key removed]\nrest",
            ),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "the password is required",
            "token: expired yesterday",
            "order 4111 1111 1111 1112 was shipped",
            "call +49 30 1234567 or 0049301234567",
            "commit 3f2a9c1e5b7d8a6f4e2c1b0a9d8e7f6a5b4c3d2e",
            "https://example.com:8080/path@2x.png",
            "id 019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01",
            "risk-management-is-a-topic-of-its-own",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
