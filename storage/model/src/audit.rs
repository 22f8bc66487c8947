//! The audit log: who changed or deleted what, from where and when. Each tenant has two hash chains,
//! and the operator of the cluster has two. Each entry contains the SHA-256 of the one before, so
//! that a changed or missing entry is found.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{KeyId, Timestamp};
use crate::tenant::Role;

/// Days for which entries are kept.
pub const AUDIT_DAYS: i64 = 400;
/// Most entries of a chain. The oldest make room.
pub const AUDIT_ENTRIES_MAX: u64 = 100_000;
/// Most bytes of a text of an entry. A longer one is cut.
pub const AUDIT_TEXT_BYTES_MAX: usize = 512;

/// SHA-256.
pub type Hash = [u8; 32];
/// Named values of what an act changed.
pub type Fields = BTreeMap<String, String>;

named_enum! {
    /// The chains of a tenant. What agents do fills the second one only, so that it does not remove
    /// acts of administrators.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum AuditChain {
        /// Acts of administrators and of the operator.
        Administration = "administration",
        /// Deletions, bulk operations, changes of triggers, and new kinds of use of a key.
        Data = "data",
    }
}

named_enum! {
    /// What was done.
    pub enum AuditAction {
        /// An API key was created.
        KeyCreate = "key.create",
        /// An API key got another text.
        KeyRotate = "key.rotate",
        /// An API key was deleted.
        KeyDelete = "key.delete",
        /// An API key set its own namespace.
        KeyNamespace = "key.namespace",
        /// An API key was used in a way that was never seen of it.
        KeyUse = "key.use",
        /// An access rule was created, replaced or deleted.
        RuleChange = "access_rule.change",
        /// Settings were changed.
        SettingsChange = "settings.change",
        /// The rules of retention were replaced.
        RetentionChange = "retention.change",
        /// Rules of retention deleted memories.
        RetentionDelete = "retention.delete",
        /// The text, the lock or the namespace of a memory was changed.
        MemoryChange = "memory.change",
        /// A memory was deleted.
        MemoryDelete = "memory.delete",
        /// Several memories were deleted.
        MemoryDeleteBulk = "memory.delete_bulk",
        /// Several memories were changed.
        MemoryChangeBulk = "memory.change_bulk",
        /// Several memories were restored.
        MemoryRestoreBulk = "memory.restore_bulk",
        /// Memories were purged.
        MemoryPurge = "memory.purge",
        /// A trigger was created.
        TriggerCreate = "trigger.create",
        /// A trigger was changed.
        TriggerChange = "trigger.change",
        /// A trigger was deleted.
        TriggerDelete = "trigger.delete",
        /// A tenant was created.
        TenantCreate = "tenant.create",
        /// A tenant was changed.
        TenantChange = "tenant.change",
        /// A tenant was deleted.
        TenantDelete = "tenant.delete",
        /// A tier was created, changed or deleted.
        TierChange = "tier.change",
        /// A node was added to the cluster.
        MemberAdd = "member.add",
        /// A node was removed from the cluster.
        MemberRemove = "member.remove",
        /// Leadership was transferred.
        LeaderTransfer = "leader.transfer",
        /// All states were compared.
        ClusterVerify = "cluster.verify",
        /// Cluster time was set.
        ClockSet = "clock.set",
        /// An edge between memories was deleted.
        EdgeDelete = "edge.delete",
        /// A backup was created.
        BackupCreate = "backup.create",
        /// The deliveries of a restored cluster were released.
        WebhooksRelease = "webhooks.release",
        /// The change of the embedding model was begun, cancelled or forced.
        ModelChange = "model.change",
        /// Memories, edges or triggers were imported.
        MemoryImport = "memory.import",
        /// The rules of the guard were replaced.
        GuardChange = "guard.change",
    }
}

impl AuditAction {
    /// The chain of such an entry.
    pub fn chain(self) -> AuditChain {
        match self {
            Self::KeyNamespace
            | Self::KeyUse
            | Self::MemoryImport
            | Self::RetentionDelete
            | Self::EdgeDelete
            | Self::MemoryChange
            | Self::MemoryDelete
            | Self::MemoryDeleteBulk
            | Self::MemoryChangeBulk
            | Self::MemoryRestoreBulk
            | Self::TriggerCreate
            | Self::TriggerChange
            | Self::TriggerDelete => AuditChain::Data,
            _ => AuditChain::Administration,
        }
    }
}

/// Who acted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AuditActor {
    /// An API key, with its name and role at the time.
    Key {
        /// Its id.
        id: KeyId,
        /// Its name: the agent.
        name: String,
        /// Its role.
        role: Role,
    },
    /// The operator of the cluster.
    Operator,
    /// The service itself.
    Service,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAct {
    /// Cluster clock at that time.
    pub at: Timestamp,
    /// Who did it.
    pub actor: AuditActor,
    /// The address from which the request came; `None` for the service itself.
    pub source: Option<IpAddr>,
    /// What was done.
    pub action: AuditAction,
    /// To what: its kind and its id.
    pub target: String,
    /// Values before. Only those that differ afterwards.
    pub before: Fields,
    /// Values afterwards. Only those that were different before.
    pub after: Fields,
}

/// An act in its chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Its number in the chain, from 1, without gaps.
    pub number: u64,
    /// What was done.
    pub act: AuditAct,
    /// The hash of the entry before; zeros for the first one.
    pub previous: Hash,
    /// The hash of this entry.
    pub hash: Hash,
}

/// The ends of a chain. Retention removes entries at the start; the anchor keeps the rest
/// verifiable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEnds {
    /// Number of the first entry that is kept.
    pub first: u64,
    /// Time of that entry.
    pub first_at: Timestamp,
    /// Hash of the entry before it; zeros if it is the first one of all.
    pub anchor: Hash,
    /// Number of the last entry; 0 without one.
    pub last: u64,
    /// Its hash.
    pub head: Hash,
}

impl Default for AuditEnds {
    /// An empty chain.
    fn default() -> Self {
        let (first_at, anchor, head) = (Timestamp::default(), [0; 32], [0; 32]);
        Self { first: 1, first_at, anchor, last: 0, head }
    }
}

impl AuditEntry {
    /// The entry after `ends`.
    pub fn after(ends: &AuditEnds, act: AuditAct) -> Self {
        let (number, previous) = (ends.last + 1, ends.head);
        let hash = hash(previous, &texts(number, &act));
        Self { number, act, previous, hash }
    }

    /// Whether its hash is that of its content.
    pub fn is_intact(&self) -> bool {
        hash(self.previous, &texts(self.number, &self.act)) == self.hash
    }
}

/// SHA-256 of the hash before and of texts, each after its length in bytes as four bytes,
/// big-endian.
pub fn hash(previous: Hash, texts: &[String]) -> Hash {
    let mut sha = Sha256::new();
    sha.update(previous);
    for text in texts {
        sha.update((text.len() as u32).to_be_bytes());
        sha.update(text);
    }
    sha.finalize().into()
}

/// The texts of an entry that are hashed, as responses show them: number, time, kind, id, name and
/// role of the actor, source, action and target, then the values. Absent ones are empty.
pub fn hashed_texts(head: [&str; 9], before: &Fields, after: &Fields) -> Vec<String> {
    let mut texts = head.map(str::to_owned).to_vec();
    for fields in [before, after] {
        texts.push(fields.len().to_string());
        texts.extend(fields.iter().flat_map(|(name, text)| [name.clone(), text.clone()]));
    }
    texts
}

fn texts(number: u64, act: &AuditAct) -> Vec<String> {
    let (number, at) = (number.to_string(), act.at.to_string());
    let [kind, id, name, role] = &act.actor.texts();
    let source = act.source.map(|source| source.to_string()).unwrap_or_default();
    let head = [&number, &at, kind, id, name, role, &source, act.action.name(), &act.target];
    hashed_texts(head, &act.before, &act.after)
}

impl AuditActor {
    /// The key that acted.
    pub fn key(&self) -> Option<KeyId> {
        match self {
            Self::Key { id, .. } => Some(*id),
            Self::Operator | Self::Service => None,
        }
    }

    /// Its kind, and id, name and role of a key.
    pub fn texts(&self) -> [String; 4] {
        match self {
            Self::Key { id, name, role } => {
                ["key".into(), id.to_string(), name.clone(), role.name().into()]
            }
            Self::Operator => ["operator".into(), String::new(), String::new(), String::new()],
            Self::Service => ["service".into(), String::new(), String::new(), String::new()],
        }
    }
}

/// A text of an entry: at most [`AUDIT_TEXT_BYTES_MAX`] bytes of `text`.
pub fn short(text: &str) -> String {
    match text.len() <= AUDIT_TEXT_BYTES_MAX {
        true => text.to_owned(),
        false => format!("{}…", &text[..text.floor_char_boundary(AUDIT_TEXT_BYTES_MAX)]),
    }
}

/// Most kinds of use that are known of a key.
pub const KEY_USES_MAX: usize = 64;

/// A kind of use of a key: from where, by which program, with which right.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyUse {
    /// The network of the request: an IPv4 address, or a /64 of IPv6.
    pub network: IpAddr,
    /// The name of the program, as its `User-Agent` begins; empty without one.
    pub client: String,
    /// The role that the operation requires.
    pub role: Role,
}

/// The kinds of use that are known of a key, with the times at which they were first seen. The
/// oldest ones make room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUses(pub Vec<(KeyUse, Timestamp)>);

impl KeyUses {
    /// Adds a kind of use, if it is new and there is room: at most [`KEY_USES_MAX`] a day are. Half
    /// of them are of networks that are new: clients choose their names. Returns whether it was
    /// added.
    pub fn add(&mut self, new: &KeyUse, now: Timestamp) -> bool {
        if self.0.iter().any(|(known, _)| known == new) {
            return false;
        }
        let is_known_network = self.0.iter().any(|(known, _)| known.network == new.network);
        let max = if is_known_network { KEY_USES_MAX / 2 } else { KEY_USES_MAX };
        if self.0.len() >= max {
            let is_old =
                self.0.first().is_some_and(|(_, at)| now.since(*at) > Timestamp::DAY_MICROS);
            if !is_old {
                return false;
            }
            self.0.remove(0);
        }
        self.0.push((new.clone(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn act(target: &str) -> AuditAct {
        let fields = [("name".to_owned(), "helper".to_owned())];
        AuditAct {
            at: Timestamp(1_500_000),
            actor: AuditActor::Key { id: KeyId([1; 8]), name: "root".into(), role: Role::Admin },
            source: Some("192.0.2.7".parse().unwrap()),
            action: AuditAction::KeyCreate,
            target: target.into(),
            before: Fields::new(),
            after: fields.into(),
        }
    }

    #[test]
    fn any_change_of_an_entry_is_found() {
        let ends = AuditEnds { last: 6, head: [7; 32], ..AuditEnds::default() };
        let entry = AuditEntry::after(&ends, act("key 1"));
        assert_eq!((entry.number, entry.previous), (7, [7; 32]));
        assert!(entry.is_intact());
        let changes: [fn(&mut AuditEntry); 8] = [
            |entry| entry.number += 1,
            |entry| entry.previous[0] ^= 1,
            |entry| entry.hash[31] ^= 1,
            |entry| entry.act.at.0 += 1,
            |entry| entry.act.source = None,
            |entry| entry.act.actor = AuditActor::Operator,
            |entry| entry.act.target.push('0'),
            |entry| std::mem::swap(&mut entry.act.before, &mut entry.act.after),
        ];
        for change in changes {
            let mut changed = entry.clone();
            change(&mut changed);
            assert!(!changed.is_intact(), "{changed:?}");
        }
    }

    #[test]
    fn hash_is_documented() {
        // Computed by another implementation: hashlib of Python.
        let entry = AuditEntry::after(&AuditEnds::default(), act("key 1"));
        assert_eq!(
            hex::encode(entry.hash),
            "b054ed0df924c135c8e5330a3132db74549de7b7b2b51defc217e3f4f7492a8a"
        );
    }

    #[test]
    fn new_kinds_of_use_are_bounded_per_day() {
        let mut uses = KeyUses::default();
        let from = |network: u32, number: usize| KeyUse {
            network: IpAddr::V4(network.into()),
            client: format!("client/{number}"),
            role: Role::Reader,
        };
        let kind = |number| from(7, number);
        let now = Timestamp(0);
        let added = (0..100).filter(|number| uses.add(&kind(*number), now)).count();
        assert_eq!(added, KEY_USES_MAX / 2, "names leave room for networks");
        let added = (10..100).filter(|network| uses.add(&from(*network, 0), now)).count();
        assert_eq!(added, KEY_USES_MAX / 2);
        assert!(!uses.add(&kind(3), now), "it is known");
        let tomorrow = Timestamp(Timestamp::DAY_MICROS + 1);
        assert!(uses.add(&kind(200), tomorrow), "the oldest makes room");
        assert_eq!(uses.0.len(), KEY_USES_MAX);
        assert!(uses.add(&kind(0), tomorrow));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(short("é"), "é");
        let cut = short(&"é".repeat(AUDIT_TEXT_BYTES_MAX));
        assert_eq!(cut.len(), AUDIT_TEXT_BYTES_MAX + '…'.len_utf8());
    }
}
