//! API keys and the operator key: their rows, the form of their texts, and the check of a presented one.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::bounded::bounded;
use crate::id::{KeyId, Timestamp};
use crate::tenant::Role;

/// Most keys of a tenant.
pub const KEYS_MAX: usize = 1_000;
/// Longest name of a key, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 128;

/// Most namespaces to which a key can be bound.
pub const KEY_NAMESPACES_MAX: usize = 100;
/// Shortest and longest time for which a key can be valid, in seconds.
pub const KEY_LIFETIME_SECONDS: (u64, u64) = (1, 10 * 365 * 86_400);
/// Longest time for which the former text of a rotated key stays valid, in seconds: 30 days.
pub const OVERLAP_SECONDS_MAX: u64 = 30 * 86_400;
/// How long a key is kept after its end, in seconds: a week.
pub const EXPIRED_KEPT_SECONDS: u64 = 7 * 86_400;

/// A key to create. `decide` makes a row of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewApiKey {
    /// Name of the key, and of the agent in the journal.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// SHA-256 of the whole key text.
    pub hash: [u8; 32],
    /// Namespace whose memories searches of this key boost.
    pub namespace: Option<String>,
    /// The only namespaces that the key may use; empty is all.
    #[serde(deserialize_with = "bounded::<KEY_NAMESPACES_MAX, _, _>")]
    pub namespaces: Vec<String>,
    /// How long it is valid, in seconds; `None` is without an end.
    pub lifetime_seconds: Option<u64>,
}

/// The row of an API key. It contains the hash of the secret, never the secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Name of the key, and of the agent in the journal.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// SHA-256 of the whole key text.
    pub hash: [u8; 32],
    /// Its text before the last rotation.
    pub former: Option<FormerText>,
    /// Namespace whose memories searches of this key boost.
    pub namespace: Option<String>,
    /// The only namespaces that the key may use; empty is all.
    pub namespaces: Vec<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last rotation.
    pub rotated_at: Option<Timestamp>,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
}

/// A key text that a rotation has replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormerText {
    /// SHA-256 of the text.
    pub hash: [u8; 32],
    /// Until when it is valid too.
    pub valid_until: Timestamp,
}

impl NewApiKey {
    /// A key for all namespaces, without an end.
    pub fn new(name: impl Into<String>, role: Role, text: &KeyText) -> Self {
        Self {
            name: name.into(),
            role,
            hash: KeyText::hash(text.as_str()),
            namespace: None,
            namespaces: Vec::new(),
            lifetime_seconds: None,
        }
    }

    /// The row of this key, created at `now`.
    pub fn row(self, now: Timestamp) -> ApiKey {
        ApiKey {
            name: self.name,
            role: self.role,
            hash: self.hash,
            former: None,
            namespace: self.namespace,
            namespaces: self.namespaces,
            created_at: now,
            rotated_at: None,
            expires_at: self.lifetime_seconds.map(|seconds| now.plus(Duration::from_secs(seconds))),
        }
    }
}

impl ApiKey {
    /// Whether the text with this hash is this key at `now`, compared in constant time.
    pub fn matches(&self, hash: &[u8; 32], now: Timestamp) -> bool {
        let is_former = self.former.as_ref().map_or(Choice::from(0), |former| {
            former.hash.ct_eq(hash) & Choice::from(u8::from(now < former.valid_until))
        });
        (self.hash.ct_eq(hash) | is_former).into()
    }

    /// Whether it has not ended at `now`.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }

    /// The key with another text. The present one stays valid for `overlap_seconds`. A key that
    /// ends gets as much time again as it had.
    #[must_use]
    pub fn rotated(self, hash: [u8; 32], overlap_seconds: u64, now: Timestamp) -> Self {
        let since = self.rotated_at.unwrap_or(self.created_at);
        let again = |end: Timestamp| Timestamp(now.0.saturating_add(end.since(since)));
        let valid_until = now.plus(Duration::from_secs(overlap_seconds));
        Self {
            former: Some(FormerText { hash: self.hash, valid_until }),
            hash,
            rotated_at: Some(now),
            expires_at: self.expires_at.map(again),
            ..self
        }
    }
}

/// The text of an API key: `sk-hearth-`, then 72 lower-case hexadecimal digits.
///
/// | digits | content |
/// |---|---|
/// | 16 | the [`KeyId`] |
/// | 48 | the secret, 24 random bytes |
/// | 8 | CRC-32 (IEEE) of all text before them, prefix included |
///
/// Secret scanners find keys with the regular expression `sk-hearth-[0-9a-f]{72}` and verify the
/// checksum. The server rejects a mistyped key by its checksum, without a lookup.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    const PREFIX: &'static str = "sk-hearth-";
    const ID_DIGITS: usize = 16;

    /// A key from random bytes: 8 of its id, then 24 of its secret.
    pub fn from_random(random: [u8; RANDOM_BYTES]) -> (KeyId, Self) {
        let mut id = [0; Self::ID_DIGITS / 2];
        id.copy_from_slice(&random[..Self::ID_DIGITS / 2]);
        (KeyId(id), Self(checked_text(Self::PREFIX, random)))
    }

    /// Another text of the key `id`.
    pub fn of(id: KeyId, mut random: [u8; RANDOM_BYTES]) -> Self {
        random[..id.0.len()].copy_from_slice(&id.0);
        Self(checked_text(Self::PREFIX, random))
    }

    /// A key that was stored as text. `None` if the text has not the form of a key.
    pub fn parse(text: &str) -> Option<Self> {
        Self::id_of(text).map(|_| Self(text.to_owned()))
    }

    /// The text, for its owner only.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a presented text. `None` if the form or the checksum is wrong.
    pub fn id_of(text: &str) -> Option<KeyId> {
        let digits = text.strip_prefix(Self::PREFIX)?;
        if !is_checked_text(Self::PREFIX, text) {
            return None;
        }
        digits.get(..Self::ID_DIGITS)?.parse().ok()
    }

    /// The hash that is stored in place of the key.
    pub fn hash(text: &str) -> [u8; 32] {
        Sha256::digest(text).into()
    }
}

const RANDOM_BYTES: usize = 32;
const CHECKSUM_DIGITS: usize = 8;

/// A prefix, random bytes in hexadecimal digits, and a checksum of both.
pub fn checked_text(prefix: &str, random: [u8; RANDOM_BYTES]) -> String {
    let text = prefix.to_owned() + &hex::encode(random);
    let checksum = checksum(&text);
    text + &checksum
}

/// Whether [`checked_text`] with this prefix may have returned `text`.
pub fn is_checked_text(prefix: &str, text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = text.strip_prefix(prefix).unwrap_or_default();
    digits.len() == 2 * RANDOM_BYTES + CHECKSUM_DIGITS
        && digits.bytes().all(is_digit)
        && text
            .split_at_checked(text.len() - CHECKSUM_DIGITS)
            .is_some_and(|(checked, found)| checksum(checked) == found)
}

/// CRC-32 finds every single wrong digit, and every run of wrong digits up to eight.
fn checksum(text: &str) -> String {
    hex::encode(crc32fast::hash(text.as_bytes()).to_be_bytes())
}

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

    const ID: KeyId = KeyId([0, 1, 2, 3, 4, 5, 6, 255]);

    fn key() -> KeyText {
        let mut random = [7; 32];
        random[..8].copy_from_slice(&ID.0);
        let (id, text) = KeyText::from_random(random);
        assert_eq!(id, ID);
        text
    }

    const NOW: Timestamp = Timestamp(0);

    fn row(text: &str) -> ApiKey {
        NewApiKey::new("test", Role::Agent, &KeyText(text.into())).row(NOW)
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp(seconds * Timestamp::SECOND_MICROS)
    }

    fn is(key: &ApiKey, text: &str, now: Timestamp) -> bool {
        key.matches(&KeyText::hash(text), now)
    }

    #[test]
    fn rotated_key_has_two_texts_for_a_while() {
        let (old, new) = (key(), KeyText::of(ID, [8; 32]));
        assert_eq!(KeyText::id_of(new.as_str()), Some(ID));
        let new_key =
            NewApiKey { lifetime_seconds: Some(100), ..NewApiKey::new("test", Role::Agent, &old) };
        let row = new_key.row(NOW);
        assert!(row.is_valid_at(after(99)) && !row.is_valid_at(after(100)));
        let rotated = row.rotated(KeyText::hash(new.as_str()), 60, after(40));
        assert!(is(&rotated, new.as_str(), after(40)) && is(&rotated, old.as_str(), after(99)));
        assert!(!is(&rotated, old.as_str(), after(100)), "the overlap has ended");
        assert_eq!(rotated.expires_at, Some(after(140)), "it has as much time again");
        let again = rotated.rotated([1; 32], 0, after(50));
        assert_eq!(again.expires_at, Some(after(150)));
        assert!(!is(&again, new.as_str(), after(50)) && !is(&again, old.as_str(), after(50)));
    }

    #[test]
    fn key_contains_its_id_and_matches_only_itself() {
        let key = key();
        assert!(key.as_str().starts_with("sk-hearth-00010203040506ff0707"));
        assert_eq!(key.as_str().len(), "sk-hearth-".len() + 72);
        assert_eq!(KeyText::id_of(key.as_str()), Some(ID));
        assert!(KeyText::parse(key.as_str()).is_some_and(|parsed| parsed == key));
        assert!(is(&row(key.as_str()), key.as_str(), NOW));
        assert!(!is(&row(key.as_str()), &format!("{}0", key.as_str()), NOW));
    }

    #[test]
    fn checksum_is_the_crc_32_of_the_rest() {
        // Computed by another implementation: zlib.crc32 of Python.
        assert!(key().as_str().ends_with("b8f0533e"), "{}", key().as_str());
    }

    #[test]
    fn checksum_rejects_one_wrong_digit() {
        let key = key();
        for at in "sk-hearth-".len()..key.as_str().len() {
            let mut bytes = key.as_str().as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
            let wrong = String::from_utf8(bytes).unwrap();
            assert_eq!(KeyText::id_of(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn texts_of_another_form_have_no_id() {
        let (key, upper) =
            (key(), key().as_str().to_uppercase().replace("SK-HEARTH-", "sk-hearth-"));
        let cut = &key.as_str()[..key.as_str().len() - 1];
        let longer = format!("{}0", key.as_str());
        for text in [
            "",
            "sk-",
            "sk-0001",
            "pk-0001020304050607",
            "sk-000102030405060é",
            "sk-+00102030405060z",
            "sk-hearth-",
            "sk-hearth-0001020304050607",
            "sk-hearth-é",
            cut,
            &longer,
            &upper,
        ] {
            assert_eq!(KeyText::id_of(text), None, "{text}");
        }
    }

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
