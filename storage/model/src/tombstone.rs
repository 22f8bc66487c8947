//! Tombstones: what is left of a rejected value, so that captures and imports do not bring it back. A tombstone has a
//! keyed hash of the text, from which the text cannot be read. A client that stores the text itself is not hindered.

use serde::{Deserialize, Serialize};

use crate::bounded::bounded;
use crate::id::KeyId;

/// Most tombstones of a bucket. A bucket is the first byte of a hash, so a tenant has 65,536 at most.
pub const TOMBSTONES_MAX: usize = 256;

/// Keyed hash of a namespace and of the words of a text.
pub type ValueHash = [u8; 16];

/// First bytes of the SHA-256 of a namespace.
pub type NamespaceHash = [u8; 8];

/// What is left of a rejected value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The value.
    pub value: ValueHash,
    /// Its namespace, and the key that had stored it: a purge removes tombstones by them.
    pub namespace: NamespaceHash,
    pub author: Option<KeyId>,
}

/// The tombstones of a bucket, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstones(
    #[serde(deserialize_with = "bounded::<TOMBSTONES_MAX, _, _>")] pub Vec<Tombstone>,
);

impl Tombstones {
    /// Adds one. The oldest makes room.
    pub fn add(&mut self, new: Tombstone) {
        self.0.retain(|present| present.value != new.value);
        if self.0.len() >= TOMBSTONES_MAX {
            self.0.remove(0);
        }
        self.0.push(new);
    }

    pub fn has(&self, value: &ValueHash) -> bool {
        self.0.iter().any(|tombstone| tombstone.value == *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_makes_room() {
        let tombstone = |number: u16| {
            let mut value = [0; 16];
            value[1..3].copy_from_slice(&number.to_be_bytes());
            Tombstone { value, namespace: [0; 8], author: None }
        };
        let mut all = Tombstones::default();
        for number in (0..TOMBSTONES_MAX as u16 + 2).chain([2]) {
            all.add(tombstone(number));
        }
        assert_eq!(all.0.len(), TOMBSTONES_MAX);
        assert!(!all.has(&tombstone(1).value) && all.has(&tombstone(2).value));
        assert_eq!(all.0.last(), Some(&tombstone(2)));
    }
}
