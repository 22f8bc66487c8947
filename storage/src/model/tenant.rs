//! Tenants and their API keys: who may ask, and for what. The check of a
//! presented key is here; where keys are looked up is the index's business.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::codec::Record;
use crate::model::access::Access;
use crate::model::id::{TenantId, Timestamp};
use crate::model::thermo::Thermo;

/// A tenant's row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Name for people.
    pub name: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// Most memories it may hold; `None` is unlimited.
    pub memories_max: Option<u64>,
    /// Its configuration.
    pub thermo: Box<Thermo>,
}

impl Role {
    /// The roles that keys of a tenant may have.
    pub const OF_KEYS: [Self; 3] = [Self::Reader, Self::Agent, Self::Admin];

    /// The name used in JSON and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Agent => "agent",
            Self::Admin => "admin",
            Self::Operator => "operator",
        }
    }
}

impl Record for Tenant {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "tenant";
}

/// What a key may do; each role may do all that the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Reads and searches.
    Reader,
    /// Writes memories.
    Agent,
    /// Everything of its tenant.
    Admin,
    /// The cluster.
    Operator,
}

/// The public half of an API key: names its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl FromStr for KeyId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        u64::from_str_radix(text, 16).map(|id| Self(id.to_be_bytes()))
    }
}

/// Most keys of a tenant.
pub const KEYS_MAX: usize = 1_000;
/// Longest name of a key, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 128;

/// An API key's row. The secret itself is nowhere, only its hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Name for people; also names the agent in the journal.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the whole key text.
    pub hash: [u8; 32],
    /// Namespace whose memories searches of this key boost.
    pub namespace: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last used, to some minutes.
    pub last_used_at: Option<Timestamp>,
}

impl Record for ApiKey {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "API key";
}

impl ApiKey {
    /// Whether `text` is this key, compared in constant time.
    pub fn matches(&self, text: &str) -> bool {
        self.hash.ct_eq(&KeyText::hash(text)).into()
    }
}

/// The text of an API key: `sk-`, 16 hex digits of its id, 48 of its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    const PREFIX: &'static str = "sk-";
    const ID_DIGITS: usize = 16;

    /// A key from random bytes; the caller owns the randomness.
    pub fn from_random(random: [u8; 32]) -> Self {
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        Self(format!("{}{digits}", Self::PREFIX))
    }

    /// A key that was written down.
    pub fn parse(text: &str) -> Option<Self> {
        Self::id_of(text).map(|_| Self(text.to_owned()))
    }

    /// The text to hand out, once.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id in a presented text, if it has the form of a key at all.
    pub fn id_of(text: &str) -> Option<KeyId> {
        let digits = text.strip_prefix(Self::PREFIX)?.get(..Self::ID_DIGITS)?;
        u64::from_str_radix(digits, 16).ok().map(|id| KeyId(id.to_be_bytes()))
    }

    /// What is stored of a key.
    pub fn hash(text: &str) -> [u8; 32] {
        Sha256::digest(text).into()
    }
}

/// Who a request is from, as its key says; the tenant comes from nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose memories.
    pub tenant: TenantId,
    /// Which key.
    pub key: KeyId,
    /// What it may do.
    pub role: Role,
    /// Name of the key.
    pub name: String,
    /// Namespace of the key, if it has one.
    pub namespace: Option<String>,
    /// What it may touch.
    pub access: Access,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_row_and_matches_only_itself() {
        let mut random = [7; 32];
        random[..8].copy_from_slice(&[0, 1, 2, 3, 4, 5, 6, 255]);
        let text = KeyText::from_random(random);
        assert!(text.as_str().starts_with("sk-00010203040506ff0707"));
        assert_eq!(KeyText::id_of(text.as_str()), Some(KeyId([0, 1, 2, 3, 4, 5, 6, 255])));
        let row = ApiKey {
            name: "test".into(),
            role: Role::Agent,
            hash: KeyText::hash(text.as_str()),
            namespace: None,
            created_at: Timestamp(0),
            last_used_at: None,
        };
        assert!(row.matches(text.as_str()));
        assert!(!row.matches(&format!("{}0", text.as_str())));
    }

    #[test]
    fn texts_that_are_no_keys_name_no_row() {
        for text in [
            "",
            "sk-",
            "sk-0001",
            "pk-0001020304050607",
            "sk-000102030405060é",
            "sk-+00102030405060z",
        ] {
            assert_eq!(KeyText::id_of(text), None, "{text}");
        }
    }
}
