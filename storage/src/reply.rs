//! Replies: what a command returns, and the rules that reject one.

use index::data::Counts;
use model::access::Rule;
use model::api_key::ApiKey;
use model::bounded::bounded;
use model::edge::{EDGES_MAX, Edge};
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::memory::{MemoryRecord, Tier as MemoryTier};
use model::receipt::RECEIPT_IDS_MAX;
use model::tenant::{Limit, Tenant, Tier};
use model::thermo::{SettingFault, Thermo};
use model::trigger::DeadLetterCursor;
use model::trigger::{Firings, Notification, Trigger};
use serde::{Deserialize, Serialize};

use crate::codec::assert_ascending;
use crate::new_memory::IMPORT_MAX;

/// Most memories of a bulk command, and so of its reply.
pub const BULK_MAX: usize = 500;

/// What a command returns that is not rejected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// Its reply.
    pub reply: Reply,
    /// Notifications of the triggers that fired.
    pub notifications: Vec<Notification>,
}

/// The reply of some commands.
pub trait ReplyValue: Sized {
    /// The reply with this value.
    fn into_reply(self) -> Reply;
    /// The value of a reply; `None` if it is that of other commands.
    fn from_reply(reply: Reply) -> Option<Self>;
}

/// Makes the enum of all replies. Each has a type of its own, and its number in the bytes between nodes
/// and in receipts: new ones are appended.
macro_rules! replies {
    ($($(#[$doc:meta])* $number:literal => $reply:ident($(#[$attribute:meta])* $value:ty),)+) => {
        /// The result of a command.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub enum Reply {
            $($(#[$doc])* $reply($(#[$attribute])* $value),)+
        }

        $(impl ReplyValue for $value {
            fn into_reply(self) -> Reply {
                Reply::$reply(self)
            }

            fn from_reply(reply: Reply) -> Option<Self> {
                match reply {
                    Reply::$reply(value) => Some(value),
                    _ => None,
                }
            }
        })+

        const _: () = assert_ascending(&[$($number),+]);
    };
}

replies! {
    /// Done, without a value.
    0 => Done(()),
    /// The memories that the command touched, in its order.
    1 => Memories(TouchedMemories),
    /// The result per memory of a bulk command, in its order. It covers at least one memory, and
    /// as many as one command may touch. Submit the rest again.
    2 => Bulk(#[serde(deserialize_with = "bounded::<BULK_MAX, _, _>")] Vec<Result<(), Rejection>>),
    /// What became of the first items of an import, at least one. Submit the rest again.
    3 => Imported(#[serde(deserialize_with = "bounded::<IMPORT_MAX, _, _>")] Vec<Imported>),
    /// The effect of feedback.
    4 => Feedback(FeedbackReply),
    /// An edge.
    5 => Edge(EdgeReply),
    /// A trigger after the change.
    6 => Trigger(TriggerReply),
    /// Dead letters that are pending again.
    7 => ReplayedDeliveries(ReplayedDeliveries),
    /// A key after the change.
    8 => ApiKey(KeyReply),
    /// The access rule; after a deletion, its last state.
    9 => Rule(Rule),
    /// All settings of the tenant after the change.
    10 => Settings(SettingsReply),
    /// How far a command has come that takes steps.
    11 => Progress(Progress),
    /// A tenant after the change.
    12 => Tenant(TenantReply),
    /// What was deleted with a tenant.
    13 => TenantDeleted(TenantDeleted),
    /// A tier after the change, or as it was before its deletion.
    14 => Tier(Tier),
    /// Expired data was removed.
    15 => Expired(Expired),
    /// A mark at which every node hashes its state.
    16 => VerifyMark(VerifyMark),
}

/// Memories that a command touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TouchedMemories {
    /// When the first command was decided, if this is a repetition of it: nothing changed, and the
    /// memories are as they are now.
    pub replay_of: Option<Timestamp>,
    /// The memories.
    #[serde(deserialize_with = "bounded::<RECEIPT_IDS_MAX, _, _>")]
    pub memories: Vec<TouchedMemory>,
}

/// A memory that a command touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TouchedMemory {
    /// Its id.
    pub id: MemoryId,
    /// Whether `CreateMemories` was to create a memory that repeats this one.
    pub is_duplicate: bool,
    /// The memory at the time of the reply.
    pub now: Touched,
}

/// A memory that a command touched, at the time of the reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Touched {
    /// It exists.
    Memory(Box<MemoryRecord>),
    /// It was deleted, or moved to a namespace that is closed to the key.
    Deleted,
    /// It exists, but its text has no room in the reply. It grew after the first command.
    TooLong,
}

impl TouchedMemories {
    /// How many memories `CreateMemories` created.
    pub fn created(&self) -> usize {
        let is_new = |memory: &&TouchedMemory| self.replay_of.is_none() && !memory.is_duplicate;
        self.memories.iter().filter(is_new).count()
    }

    /// Memories that exist.
    pub(crate) fn existing(records: impl IntoIterator<Item = MemoryRecord>) -> Self {
        let memories = records.into_iter().map(|record| TouchedMemory {
            id: record.id,
            is_duplicate: false,
            now: Touched::Memory(Box::new(record)),
        });
        Self { replay_of: None, memories: memories.collect() }
    }

    /// A memory that was deleted.
    pub(crate) fn deleted(id: MemoryId) -> Self {
        let memory = TouchedMemory { id, is_duplicate: false, now: Touched::Deleted };
        Self { replay_of: None, memories: vec![memory] }
    }
}

/// An edge; after a deletion, its last state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EdgeReply {
    /// The edge.
    pub edge: Edge,
    /// Whether the command created it.
    pub is_new: bool,
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TriggerReply {
    /// Its id.
    pub id: TriggerId,
    /// The trigger after the change; `None` if the command is a repetition, and the trigger was deleted
    /// since.
    pub now: Option<(Box<Trigger>, Firings)>,
}

/// Dead letters that are pending again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayedDeliveries {
    /// Their number.
    pub count: usize,
    /// The last examined dead letter, if there are more: submit them.
    pub next: Option<DeadLetterCursor>,
    /// Whether examined ones remain because too many deliveries are pending.
    pub is_limited: bool,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyReply {
    /// Its id.
    pub id: KeyId,
    /// The key after the change; after a deletion, its last state.
    pub key: ApiKey,
}

/// All settings of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingsReply(pub Box<Thermo>);

/// How far a command has come that takes steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// To its end.
    Done,
    /// As far as one command may. Submit it again for the rest.
    Partial,
}

/// What was deleted with a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantDeleted(pub Counts);

/// How far expired data was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expired {
    /// Submit the command again from this tenant on, if there is one.
    pub next: Option<TenantId>,
}

/// The number of a mark at which every node hashes its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyMark(pub u64);

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantReply {
    /// Its id.
    pub id: TenantId,
    /// The tenant after the change.
    pub tenant: Box<Tenant>,
}

/// The effect of feedback on a memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FeedbackReply {
    /// The memory.
    pub id: MemoryId,
    /// Its heat before, 0 to 1.
    pub heat_before: f64,
    /// Its heat after, 0 to 1.
    pub heat_after: f64,
    /// Its stability before, 1 to 100.
    pub stability_before: f32,
    /// Its stability after, 1 to 100.
    pub stability_after: f32,
    /// Where it is: `relevant` returns it from the cold tier, unless another memory replaces it.
    pub tier: MemoryTier,
}

/// What became of an item of an import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Imported {
    /// It was created.
    Created,
    /// It exists already, and stays as it is.
    Present,
    /// A rule rejects it.
    Rejected(Rejection),
}

/// The rule that rejected a command. Nothing changed. The texts are public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// The tenant has no such memory, or the key has no access to its namespace.
    #[error("no memory has this id")]
    NotFound,
    /// The memory does not pass the filter of the bulk command.
    #[error("the memory has another type or namespace than the filter")]
    FilterMismatch,
    /// The edge does not exist.
    #[error("no edge of this relation connects these memories")]
    NoEdge,
    /// The key has no access to this namespace, which the command names.
    #[error("this key has no access to the namespace {0:?}")]
    NamespaceForbidden(String),
    /// The trigger belongs to another key.
    #[error(
        "this trigger belongs to another key: only its owner and admins may change the URL and \
         secret of its webhook"
    )]
    NotOwner,
    /// The key, rule, trigger or tenant does not exist, or the key may not see it.
    #[error("this {0} does not exist")]
    NoSuch(String),
    /// The tenant has reached a limit.
    #[error("the tenant has reached its limit of {max} {what}")]
    TooMany {
        /// What is limited, in the plural.
        what: String,
        /// The bound.
        max: usize,
    },
    /// The memory has reached its limit of edges.
    #[error("memory {0} has reached the limit of {EDGES_MAX} edges")]
    EdgesFull(MemoryId),
    /// The memory is locked.
    #[error("the memory is locked: unlock it with PATCH {{\"is_locked\": false}} first")]
    Locked,
    /// Another key has locked the memory, and the tenant lets no other one change it.
    #[error("another key has locked the memory: it or an admin may change its text and unlock it")]
    LockedByOther,
    /// A request with this idempotency key was done, and its reply was too large to be kept.
    #[error("this request was done before; its result is too large to be returned again")]
    AlreadyDone,
    /// The tenant has reached its limit of memories or of their bytes.
    #[error("the tenant has reached its limit of {max} {}", .limit.name())]
    StorageLimitReached {
        /// Which limit.
        limit: Limit,
        /// Its value.
        max: u64,
    },
    /// The acting key was deleted, or has ended.
    #[error("this API key was deleted, or has ended")]
    KeyInvalid,
    /// The tenant is suspended.
    #[error("this tenant is suspended: ask the operator of the cluster")]
    TenantSuspended,
    /// A setting has no such value.
    #[error("{} {}", .0.name, .0.message)]
    Setting(SettingFault),
    /// The id exists already.
    #[error("a memory with this id exists already")]
    IdTaken,
    /// The idempotency key belongs to another request.
    #[error("this Idempotency-Key was used for a different request")]
    KeyReused,
    /// The key has too many receipts, and all are too young to be removed.
    #[error("this API key used too many idempotency keys within the last ten minutes")]
    ReceiptsFull,
    /// The vector comes from another model, or the cluster is about to switch its model.
    #[error("the cluster changes its embedding model at this moment: repeat the request")]
    ModelMismatch,
    /// The present state does not permit the command.
    #[error("{0}")]
    WrongState(String),
    /// The changes exceed the limit of one command, in bytes.
    #[error("the request results in more than {0} bytes of changes")]
    TooLarge(usize),
    /// The namespace has a memory with the same text, and the request does not allow another.
    #[error("{}the namespace has a memory with these words already", item(*.at))]
    Duplicate {
        /// That memory.
        present: MemoryId,
        /// Which memory of the request has its words, if there are several.
        at: Option<usize>,
    },
    /// The resource has another tag than the request requires, or has none.
    #[error(
        "it was changed since, exists against If-None-Match, or has no ETag: read it, and repeat the request with its ETag"
    )]
    ConditionFailed,
    /// The texts were examined by other rules of the guard.
    #[error("the rules of the guard were changed at this moment: repeat the request")]
    GuardChanged,
    /// An agent reviews what the guard has flagged.
    #[error("only an admin reviews what the guard has found")]
    NotReviewer,
    /// The value has a tombstone.
    #[error("a client has rejected this text as wrong, and deleted it")]
    ValueRejected,
}

/// Names the part of a request that a rejection is about.
fn item(at: Option<usize>) -> String {
    at.map_or(String::new(), |at| format!("nodes[{at}]: "))
}

impl Rejection {
    pub(crate) fn too_many(what: &str, max: usize) -> Self {
        Self::TooMany { what: what.into(), max }
    }

    pub(crate) fn no_such(what: &str) -> Self {
        Self::NoSuch(what.into())
    }
}
