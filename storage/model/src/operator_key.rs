//! The operator key: its form, and the check of a presented one. All nodes of a cluster hold the
//! same key, in a file each.

use subtle::ConstantTimeEq;

use crate::api_key::{KeyText, checked_text, is_checked_text};

/// The hash of an operator key. Its text is `op-hearth-`, then 72 lower-case hexadecimal digits:
/// 64 of 32 random bytes, and 8 of the CRC-32 (IEEE) of all text before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorKey([u8; 32]);

impl OperatorKey {
    const PREFIX: &'static str = "op-hearth-";

    /// The text of a key from random bytes.
    pub fn text_from_random(random: [u8; 32]) -> String {
        checked_text(Self::PREFIX, random)
    }

    /// The key with this text. `None` if the form or the checksum is wrong.
    pub fn parse(text: &str) -> Option<Self> {
        is_checked_text(Self::PREFIX, text).then(|| Self(KeyText::hash(text)))
    }

    /// Whether `text` is this key, compared in constant time.
    pub fn matches(&self, text: &str) -> bool {
        self.0.ct_eq(&KeyText::hash(text)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_matches_only_its_own_text() {
        let text = OperatorKey::text_from_random([7; 32]);
        let key = OperatorKey::parse(&text).unwrap();
        assert!(text.starts_with("op-hearth-0707") && text.len() == "op-hearth-".len() + 72);
        assert!(key.matches(&text));
        for other in ["", "op-hearth-", &text[1..], &OperatorKey::text_from_random([8; 32])] {
            assert!(!key.matches(other), "{other}");
        }
    }

    #[test]
    fn mistyped_keys_are_no_operator_keys() {
        let text = OperatorKey::text_from_random([7; 32]);
        let (_, api_key) = KeyText::from_random([7; 32]);
        for other in ["", &text[1..], &text.replace('7', "6"), api_key.as_str()] {
            assert_eq!(OperatorKey::parse(other), None, "{other}");
        }
        assert_eq!(KeyText::id_of(&text), None);
    }
}
