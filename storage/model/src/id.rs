//! Identifiers of tenants, keys, memories and triggers, and timestamps.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use hex::FromHexError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Number of a tenant, in order of creation. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TenantId(pub u32);

impl TenantId {
    /// Owns what the operator of the cluster has, such as its audit log. Tenants begin with 1.
    pub const OPERATOR: Self = Self(0);
}

impl FromStr for TenantId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

/// The public part of an API key: the id of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex::encode(self.0))
    }
}

impl FromStr for KeyId {
    type Err = FromHexError;

    fn from_str(text: &str) -> Result<Self, FromHexError> {
        let mut id = [0; 8];
        hex::decode_to_slice(text, &mut id).map(|()| Self(id))
    }
}

impl MemoryId {
    /// The id of what these texts name. Other ids are random. This one is a hash (UUID version 8), so
    /// two writers of the same text use the same id.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The lengths keep "ab" and "c" apart from "a" and "bc".
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        id[6] = id[6] & 0x0f | 0x80;
        id[8] = id[8] & 0x3f | 0x80;
        Self(id)
    }
}

/// Defines an id type of 16 bytes that is displayed and parsed as a UUID.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                uuid::Uuid::from_bytes(self.0).hyphenated().fmt(out)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, out)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                uuid::Uuid::try_parse(text).map(|id| Self(id.into_bytes()))
            }
        }
    };
}

uuid_id! {
    /// Id of a memory: a UUID. Generated ids are version 7, so they sort by age.
    MemoryId
}

uuid_id! {
    /// Id of a trigger: a UUID.
    TriggerId
}

/// An instant of the cluster clock, in microseconds since 1970-01-01 UTC.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Microseconds in a second.
    pub const SECOND_MICROS: i64 = 1_000_000;
    /// Microseconds in an hour.
    pub const HOUR_MICROS: i64 = 3_600 * Self::SECOND_MICROS;
    /// Microseconds in a day.
    pub const DAY_MICROS: i64 = 86_400 * Self::SECOND_MICROS;

    /// Microseconds from `earlier` to `self`, at least 0. After a clock moved backwards,
    /// ages are 0, never negative.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }

    /// The instant this much later.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// The instant this much earlier.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// Number of the calendar month in UTC: year · 12 + month − 1.
    pub fn month(self) -> u32 {
        let at = jiff::Timestamp::from_microsecond(self.0).unwrap_or_default();
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        u32::try_from(i32::from(date.year()) * 12 + i32::from(date.month()) - 1).unwrap_or(0)
    }
}

/// ISO 8601 in UTC.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        jiff::Timestamp::from_microsecond(self.0).unwrap_or_default().fmt(out)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_texts_are_uuids_of_version_8() {
        for text in ["a", "b", "c", "d"] {
            let id = MemoryId::of_parts([text]).to_string();
            assert_eq!(id.as_bytes()[14], b'8', "{id}");
            assert!(b"89ab".contains(&id.as_bytes()[19]), "{id}");
        }
        assert_ne!(MemoryId::of_parts(["ab", "c"]), MemoryId::of_parts(["a", "bc"]));
    }

    #[test]
    fn months_are_numbered_without_gaps() {
        let december: jiff::Timestamp = "2026-12-31T23:59:59Z".parse().unwrap();
        let january: jiff::Timestamp = "2027-01-01T00:00:00Z".parse().unwrap();
        let month = |at: jiff::Timestamp| Timestamp(at.as_microsecond()).month();
        assert_eq!(month(december), 2026 * 12 + 11);
        assert_eq!(month(january), 2027 * 12);
    }
}
