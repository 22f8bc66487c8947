//! The entity tag of a resource: a hash of its row. A request with `If-Match` is done only while it is the
//! same, and the leader compares it with the state on which it decides.

use std::fmt::{self, Display};
use std::str::FromStr;

use model::bounded::bounded;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::codec::{self, Record};

/// Most tags of a request.
pub const ETAGS_MAX: usize = 16;

/// An entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Etag([u8; 8]);

impl Etag {
    /// The tag of a resource with this row.
    pub fn of(row: &impl Record) -> Self {
        let digest: [u8; 32] = Sha256::digest(codec::encode(row)).into();
        let mut tag = [0; 8];
        tag.copy_from_slice(&digest[..8]);
        Self(tag)
    }
}

/// What a resource must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Precondition {
    /// It exists.
    Exists,
    /// It does not exist.
    Absent,
    /// It has one of these tags.
    HasOne(#[serde(deserialize_with = "bounded::<ETAGS_MAX, _, _>")] Vec<Etag>),
}

impl Precondition {
    pub(crate) fn holds(&self, tag: Option<Etag>) -> bool {
        match self {
            Self::Exists => tag.is_some(),
            Self::Absent => tag.is_none(),
            Self::HasOne(tags) => tag.is_some_and(|tag| tags.contains(&tag)),
        }
    }
}

impl Display for Etag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "\"{}\"", hex::encode(self.0))
    }
}

impl FromStr for Etag {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).ok_or(())?;
        let bytes = hex::decode(inner).map_err(drop)?;
        bytes.try_into().map(Self).map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_written() {
        let tag = Etag([7; 8]);
        assert_eq!(tag.to_string(), "\"0707070707070707\"");
        assert_eq!(tag.to_string().parse(), Ok(tag));
        for wrong in ["0707070707070707", "\"07\"", "W/\"0707070707070707\"", "\"\"", "*"] {
            assert_eq!(wrong.parse::<Etag>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn conditions_need_a_resource() {
        let (tag, other) = (Etag([7; 8]), Etag([8; 8]));
        assert!(Precondition::HasOne(vec![other, tag]).holds(Some(tag)));
        assert!(!Precondition::HasOne(vec![other]).holds(Some(tag)));
        assert!(Precondition::Exists.holds(Some(tag)) && !Precondition::Exists.holds(None));
    }
}
