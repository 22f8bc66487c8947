//! Replies: what a command returns, and the rules that reject one.

use std::cell::Cell;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::codec::bounded;
use crate::command::BULK_MAX;
use crate::import::IMPORT_MAX;
use crate::index::data::Counts;
use crate::model::access::Rule;
use crate::model::api_key::ApiKey;
use crate::model::delivery::DeadLetterCursor;
use crate::model::edge::{EDGES_MAX, Edge};
use crate::model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use crate::model::limits::{Limit, Tier};
use crate::model::memory::MemoryRecord;
use crate::model::receipt::RECEIPT_IDS_MAX;
use crate::model::tenant::Tenant;
use crate::model::thermo::{SettingFault, Thermo};
use crate::model::trigger::{Firings, Notification, Trigger};
use crate::new_memory::CREATE_MAX;

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The memories as created or changed, in the order of the command.
    Memories(#[serde(deserialize_with = "bounded::<CREATE_MAX, _, _>")] Vec<MemoryRecord>),
    /// The id of the deleted memory.
    Deleted(MemoryId),
    /// The result per memory of a bulk command, in its order. It covers at least one memory, and
    /// as many as one command may touch. Submit the rest again.
    Bulk(#[serde(deserialize_with = "bounded::<BULK_MAX, _, _>")] Vec<Result<(), Rejection>>),
    /// The effect of feedback.
    Feedback(FeedbackReply),
    /// The key after the change.
    ApiKey(KeyId, ApiKey),
    /// The access rule; after a deletion, its last state.
    Rule(Rule),
    /// The edge; after a deletion, its last state.
    Edge {
        /// The edge.
        edge: Edge,
        /// Whether the command created it.
        is_new: bool,
    },
    /// All settings of the tenant after the change.
    Settings(Box<Thermo>),
    /// The command is a repetition, and changed nothing. Contains each memory that the first
    /// command touched, as it is now.
    Replayed {
        /// When the first command was decided.
        at: Timestamp,
        /// The memories.
        #[serde(deserialize_with = "bounded::<RECEIPT_IDS_MAX, _, _>")]
        memories: Vec<(MemoryId, Touched)>,
    },
    /// The command is a repetition, and the trigger that the first one created is deleted.
    ReplayedTriggerGone(TriggerId),
    /// Done, without a value.
    Done,
    /// Done in part, as much as one command may. Submit it again for the rest.
    Partial,
    /// The number of the mark at which every node hashes its state.
    VerifyMark(u64),
    /// The trigger after the change.
    Trigger(TriggerId, Box<Trigger>, Firings),
    /// Dead letters that are pending again.
    ReplayedDeliveries {
        /// Their number.
        count: usize,
        /// The last examined dead letter, if there are more: submit them.
        next: Option<DeadLetterCursor>,
        /// Whether examined ones remain because too many deliveries are pending.
        is_limited: bool,
    },
    /// A reply, and the notifications of triggers that fired. It contains no other such reply.
    WithNotifications(#[serde(deserialize_with = "inner_reply")] Box<Reply>, Vec<Notification>),
    /// The tenant after the change.
    Tenant(TenantId, Box<Tenant>),
    /// What was deleted with a tenant.
    TenantDeleted(Counts),
    /// A tier after the change, or as it was before its deletion.
    Tier(Tier),
    /// Expired data was removed. Submit the command again from this tenant on, if there is one.
    Expired(Option<TenantId>),
    /// What became of the first items of an import, at least one. Submit the rest again.
    Imported(#[serde(deserialize_with = "bounded::<IMPORT_MAX, _, _>")] Vec<Imported>),
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

/// Decodes the reply within [`Reply::WithNotifications`]. Rejects another such reply in it:
/// decoding is recursive, so the bytes of a peer could otherwise exhaust the stack.
fn inner_reply<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Reply>, D::Error> {
    thread_local! {
        static IS_INNER: Cell<bool> = const { Cell::new(false) };
    }
    if IS_INNER.replace(true) {
        return Err(D::Error::custom("notifications within notifications"));
    }
    let reply = Reply::deserialize(deserializer);
    IS_INNER.set(false);
    reply.map(Box::new)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode, encode};

    #[test]
    fn nested_notifications_are_rejected() {
        let reply = Reply::WithNotifications(Box::new(Reply::Done), Vec::new());
        let bytes = encode(&reply);
        assert_eq!(bytes, [1, 15, 10, 0]);
        assert_eq!(decode::<Reply>(&bytes).unwrap(), reply);
        let nested = [&[1][..], &[15; 1_000_000]].concat();
        assert!(decode::<Reply>(&nested).is_err());
        assert_eq!(decode::<Reply>(&bytes).unwrap(), reply, "after a rejection");
    }
}
