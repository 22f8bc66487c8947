//! Tenants and their API keys: rows, roles, the form of keys, and the check of a presented key.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::model::id::{KeyId, Timestamp};
use crate::model::limits::{DEFAULT_TIER, Limit, OwnLimits, Tenancy};
use crate::model::retention::RetentionRule;
use crate::model::thermo::Thermo;

named_enum! {
    /// Whether a tenant can be used.
    pub enum TenantState {
        /// Its keys are valid.
        Active = "active",
        /// Requests with its keys are rejected. Its ticks and deliveries wait.
        Suspended = "suspended",
    }
}

/// A tenant's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Whether it can be used.
    pub state: TenantState,
    /// Name of its tier.
    pub tier: String,
    /// Limits of its own.
    pub limits: OwnLimits,
    /// Its settings.
    pub thermo: Box<Thermo>,
    /// Its rules of retention, in order.
    pub retention: Vec<RetentionRule>,
}

impl Tenant {
    /// A limit of the tenant: its own, or that of its tier. `None` is unlimited.
    pub fn limit(&self, tenancy: &Tenancy, limit: Limit) -> Option<u64> {
        let of_tier = || tenancy.tier(&self.tier)?.limits.get(&limit).copied();
        self.limits.get(&limit).copied().unwrap_or_else(of_tier)
    }
}

impl Default for Tenant {
    /// An active tenant without limits.
    fn default() -> Self {
        Self {
            name: String::new(),
            created_at: Timestamp::default(),
            state: TenantState::Active,
            tier: DEFAULT_TIER.to_owned(),
            limits: OwnLimits::new(),
            thermo: Box::default(),
            retention: Vec::new(),
        }
    }
}

/// Longest name of a tenant, in bytes.
pub const TENANT_NAME_BYTES_MAX: usize = 128;

named_enum! {
    /// The rights of a key. Each role includes those before it.
    #[derive(PartialOrd, Ord)]
    pub enum Role {
        /// Reads and searches.
        Reader = "reader",
        /// Writes memories.
        Agent = "agent",
        /// Administers its tenant.
        Admin = "admin",
        /// Administers the cluster.
        Operator = "operator",
    }
}

/// Most keys of a tenant.
pub const KEYS_MAX: usize = 1_000;
/// Longest name of a key, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 128;

/// The row of an API key. It contains the hash of the secret, never the secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Name of the key, and of the agent in the journal.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// SHA-256 of the whole key text.
    pub hash: [u8; 32],
    /// Namespace whose memories searches of this key boost.
    pub namespace: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of its last use, within some minutes.
    pub last_used_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether `text` is this key, compared in constant time.
    pub fn matches(&self, text: &str) -> bool {
        self.hash.ct_eq(&KeyText::hash(text)).into()
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
///
/// Keys of the older form, `sk-` and 64 digits without a checksum, remain valid.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    const PREFIX: &'static str = "sk-hearth-";
    const UNCHECKED_PREFIX: &'static str = "sk-";
    const ID_DIGITS: usize = 16;

    /// A key from random bytes: 8 of its id, then 24 of its secret.
    pub fn from_random(random: [u8; RANDOM_BYTES]) -> Self {
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
        let digits = match text.strip_prefix(Self::PREFIX) {
            Some(digits) if is_checked_text(Self::PREFIX, text) => digits,
            Some(_) => return None,
            None => text.strip_prefix(Self::UNCHECKED_PREFIX)?,
        };
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
pub(super) fn checked_text(prefix: &str, random: [u8; RANDOM_BYTES]) -> String {
    let text = prefix.to_owned() + &hex::encode(random);
    let checksum = checksum(&text);
    text + &checksum
}

/// Whether [`checked_text`] with this prefix may have returned `text`.
pub(super) fn is_checked_text(prefix: &str, text: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    const ID: KeyId = KeyId([0, 1, 2, 3, 4, 5, 6, 255]);

    fn key() -> KeyText {
        let mut random = [7; 32];
        random[..8].copy_from_slice(&ID.0);
        KeyText::from_random(random)
    }

    fn row(text: &str) -> ApiKey {
        ApiKey {
            name: "test".into(),
            role: Role::Agent,
            hash: KeyText::hash(text),
            namespace: None,
            created_at: Timestamp(0),
            last_used_at: None,
        }
    }

    #[test]
    fn own_limit_replaces_that_of_the_tier() {
        let tenancy = Tenancy::default();
        let mut tenant = Tenant { tier: "free".into(), ..Tenant::default() };
        assert_eq!(tenant.limit(&tenancy, Limit::Memories), Some(1_000));
        assert_eq!(tenant.limit(&tenancy, Limit::Edges), None);
        tenant.limits = [(Limit::Memories, Some(5)), (Limit::RequestsPerMinute, None)].into();
        assert_eq!(tenant.limit(&tenancy, Limit::Memories), Some(5));
        assert_eq!(tenant.limit(&tenancy, Limit::RequestsPerMinute), None);
        let unlimited = Tenant::default();
        assert!(Limit::ALL.iter().all(|limit| unlimited.limit(&tenancy, *limit).is_none()));
    }

    #[test]
    fn key_contains_its_id_and_matches_only_itself() {
        let key = key();
        assert!(key.as_str().starts_with("sk-hearth-00010203040506ff0707"));
        assert_eq!(key.as_str().len(), "sk-hearth-".len() + 72);
        assert_eq!(KeyText::id_of(key.as_str()), Some(ID));
        assert!(KeyText::parse(key.as_str()).is_some_and(|parsed| parsed == key));
        assert!(row(key.as_str()).matches(key.as_str()));
        assert!(!row(key.as_str()).matches(&format!("{}0", key.as_str())));
    }

    #[test]
    fn keys_without_checksum_remain_valid() {
        let text = format!("sk-00010203040506ff{}", "07".repeat(24));
        assert_eq!(KeyText::id_of(&text), Some(ID));
        assert!(KeyText::parse(&text).is_some_and(|parsed| parsed.as_str() == text));
        assert!(row(&text).matches(&text));
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
}
