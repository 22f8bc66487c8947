//! The cluster's identity and members, the position of a state in the log, and the embedding models.
//!
//! A memory has a place for the vector in use and one for that of the next model. While a change is
//! under way, searches use the former. When all memories have the latter, one log entry switches.

use serde::{Deserialize, Serialize};

use crate::bounded::bounded;
use crate::id::{MemoryId, TenantId, Timestamp};
use crate::release::{NeedsRelease, Release};
use crate::vector::{ModelId, Vector};

/// Random id of a cluster, or of a data folder: an emptied folder gets another one.
pub type Incarnation = [u8; 16];

/// Number of a Raft group in log keys, event ids and peer requests: a node can hold several groups.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct GroupId(pub u32);

/// The Raft group of all tenants. It is the only one.
pub const GROUP: GroupId = GroupId(0);

/// Identity and members of the cluster, written by its first batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Random id. Peers with another one are rejected.
    pub id: Incarnation,
    /// Present and removed members, ordered by id. An id is never used again.
    pub members: Vec<Member>,
    /// The embedding model that all vectors come from.
    pub model: Model,
    /// Set if the state was restored from a backup.
    pub restored: Option<Restored>,
    /// The feature level that all members have, and the lowest version with it.
    pub release: Release,
}

/// How a cluster was restored from a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Random number of this restoration, 1 to 2^24 − 1. That of another one, also of the same
    /// backup, differs.
    pub number: u32,
    /// Cluster clock of the backup. The tick that covers the time since then fires no trigger.
    pub clock: Timestamp,
    /// Whether deliveries wait until an operator releases them.
    pub webhooks_held: bool,
}

/// Deliveries of a trigger between two restorations; more than it ever has.
const DELIVERIES_PER_RESTORATION: u64 = 1 << 40;
/// Largest number of a restoration.
const RESTORATIONS_MAX: u32 = (1 << 24) - 1;

impl Cluster {
    /// The cluster that a backup of this one becomes: with another id, and one member.
    #[must_use]
    pub fn restored(self, id: Incarnation, member: Member, clock: Timestamp, held: bool) -> Self {
        // The id is random.
        let random = u32::from_be_bytes([0, id[0], id[1], id[2]]).max(1);
        let is_other = self.restored.is_none_or(|before| before.number != random);
        let number = if is_other { random } else { random % RESTORATIONS_MAX + 1 };
        let restored = Some(Restored { number, clock, webhooks_held: held });
        Self { id, members: vec![member], restored, ..self }
    }

    /// Checks that a node with the release `own` reads all records of the cluster.
    ///
    /// # Errors
    /// [`NeedsRelease`] if the feature level of the cluster is above that of `own`.
    pub fn check_readable(&self, own: Release) -> Result<(), NeedsRelease> {
        let needed = self.release;
        match needed.level > own.level {
            true => Err(NeedsRelease { needed, own }),
            false => Ok(()),
        }
    }

    /// Whether deliveries wait for the operator.
    pub fn holds_webhooks(&self) -> bool {
        self.restored.is_some_and(|restored| restored.webhooks_held)
    }

    /// Number of the delivery of a trigger's n-th firing. Firings after the backup got numbers too,
    /// and their receivers know them, so each restoration has numbers of its own.
    pub fn delivery_number(&self, firing: u64) -> u64 {
        let restoration = self.restored.map_or(0, |restored| u64::from(restored.number));
        restoration * DELIVERIES_PER_RESTORATION + firing
    }
}

/// A present or removed member of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id.
    pub node: u64,
    /// Incarnation of its data folder: a node with an emptied folder is another node.
    pub incarnation: Incarnation,
    /// Whether it was removed. Its messages are rejected.
    pub removed: bool,
}

impl Member {
    /// A present member.
    pub fn new(node: u64, incarnation: Incarnation) -> Self {
        Self { node, incarnation, removed: false }
    }
}

/// An embedding model, as far as vectors depend on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Hash of the model; part of every vector row.
    pub id: ModelId,
    /// Its name.
    pub name: String,
    /// Components of its vectors.
    pub dimension: u32,
    /// Its vectors of some texts that all nodes know, and compare with those that they compute.
    #[serde(deserialize_with = "bounded::<CANARIES_MAX, _, _>")]
    pub canaries: Vec<Vector>,
}

impl Model {
    /// A model whose canaries are not known.
    pub fn new(id: ModelId, name: String, dimension: u32) -> Self {
        Self { id, name, dimension, canaries: Vec::new() }
    }
}

/// Identifies a batch: the term in which it was decided, and a counter within the term.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BatchId {
    /// Raft term in which the batch was decided.
    pub term: u64,
    /// Counts the batches of that term, from 1.
    pub counter: u64,
}

impl BatchId {
    /// The batch after this one, decided in `term`.
    pub fn next(self, term: u64) -> Self {
        let counter = if self.term == term { self.counter } else { 0 };
        Self { term, counter: counter + 1 }
    }
}

/// Position of a state in the log. One RocksDB write contains it and the changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The Raft group whose log this state applies.
    pub group: GroupId,
    /// Index of the last applied log entry, 0 before the first.
    pub index: u64,
    /// Raft's id of that entry; opaque here.
    #[serde(with = "serde_bytes")]
    pub log_id: Vec<u8>,
    /// Raft's last applied membership; opaque here.
    #[serde(with = "serde_bytes")]
    pub membership: Vec<u8>,
    /// The last applied batch.
    pub batch: BatchId,
    /// The cluster clock: the stamp of that batch.
    pub clock: Timestamp,
}

/// Most bytes of the path of a model's folder.
pub const FOLDER_BYTES_MAX: usize = 4_096;
/// Most vectors of one command.
pub const EMBEDDED_MAX: usize = 256;
/// Most canaries of a model.
const CANARIES_MAX: usize = 8;
/// Most members of a cluster that can report.
const READY_MAX: usize = 1_024;

/// A place for the vectors of all memories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VectorPlace {
    /// Rows of the kind `Vector`.
    #[default]
    First,
    /// Rows of the kind `SecondVector`.
    Second,
}

impl VectorPlace {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Which vectors are in use, and which are to come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Models {
    /// The place in use.
    pub place: VectorPlace,
    /// The change that is under way.
    pub next: Option<NextModel>,
}

/// A change of the model that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextModel {
    /// The model.
    pub model: Model,
    /// Its folder on every node.
    pub folder: String,
    /// When the change began.
    pub started_at: Timestamp,
    /// Whether new texts are rejected for the moment, so that the last vectors can be computed.
    pub is_switching: bool,
    /// Whether the switch does not wait for members that have not loaded it.
    pub forced: bool,
    /// The nodes that have loaded it.
    #[serde(deserialize_with = "bounded::<READY_MAX, _, _>")]
    pub ready: Vec<u64>,
}

/// A memory that was embedded by the next model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmbeddedMemory {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: MemoryId,
    /// The text that was embedded. The memory may have another one by now.
    pub label: String,
    /// The vector of that text.
    pub vector: Vector,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn restorations_of_one_backup_number_deliveries_apart() {
        let model = Model::new(ModelId([7; 8]), "m".into(), 2);
        let release = Release::default();
        let members = vec![Member::new(1, [2; 16])];
        let backup = Cluster { id: [1; 16], members, model, restored: None, release };
        let restored = |from: &Cluster, id| {
            from.clone().restored(id, Member::new(1, [3; 16]), Timestamp(5), true)
        };
        let (first, second) = (restored(&backup, [4; 16]), restored(&backup, [5; 16]));
        // The worst case: an id that begins like the one before, and one that begins with zeros.
        let (third, fourth) = (restored(&first, [4; 16]), restored(&backup, [0; 16]));
        let all = [&backup, &first, &second, &third, &fourth];
        let numbers: BTreeSet<_> = all.iter().map(|cluster| cluster.delivery_number(9)).collect();
        assert_eq!(numbers.len(), all.len(), "{numbers:?}");
        assert_eq!(first.id, [4; 16]);
        assert_eq!(first.members, [Member::new(1, [3; 16])]);
        let largest = restored(&restored(&backup, [0xff; 16]), [0xff; 16]);
        assert_eq!(largest.restored.unwrap().number, 1, "the next one of the largest");
    }
}
