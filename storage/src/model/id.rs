//! Names of things: tenants, memories, instants. Not their contents.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A tenant, numbered by the state in order of creation; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TenantId(pub u32);

/// A name that is a UUID: shown and read in its usual form.
macro_rules! uuid_name {
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

uuid_name! {
    /// A memory: the 16 bytes of a UUID (version 7 when made here, so ids sort by age).
    MemoryId
}

uuid_name! {
    /// A trigger: the 16 bytes of a UUID.
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
    /// Microseconds in a day.
    pub const DAY_MICROS: i64 = 86_400 * Self::SECOND_MICROS;

    /// Microseconds from `earlier` to `self`, never negative: a clock set back
    /// makes things look fresh, not older than themselves.
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0).max(0)
    }

    /// Number of the calendar month in UTC: year · 12 + month − 1.
    pub fn month(self) -> u32 {
        let at = jiff::Timestamp::from_microsecond(self.0).unwrap_or_default();
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        u32::try_from(i32::from(date.year()) * 12 + i32::from(date.month()) - 1).unwrap_or(0)
    }

    /// Days since 1970-01-01 UTC; names a generation of receipts.
    pub fn day(self) -> u32 {
        u32::try_from(self.0.div_euclid(Self::DAY_MICROS).max(0)).unwrap_or(u32::MAX)
    }
}
