//! Receipts: the results of writes with an `Idempotency-Key`, so that a repeated request
//! changes nothing. Kept in two daily generations, 24 to 48 hours.

use serde::{Deserialize, Serialize};

use crate::model::id::{MemoryId, TriggerId};

/// Most receipts per tenant; beyond it writes with a key are rejected.
pub const RECEIPTS_MAX: u64 = 1_000_000;
/// Most memory ids per receipt: the size of a batch create.
pub const RECEIPT_IDS_MAX: usize = 50;

/// SHA-256 of an `Idempotency-Key`.
pub type ReceiptKey = [u8; 32];

/// A request to keep a receipt of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRequest {
    /// Identifies the receipt within its tenant.
    pub key: ReceiptKey,
    /// Digest of method, path and body: the same key with another digest is rejected.
    pub body_hash: [u8; 32],
}

/// A kept receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Digest of the request.
    pub body_hash: [u8; 32],
    /// What the write did.
    pub effect: WriteEffect,
}

/// What a write did, as far as its repetition must return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteEffect {
    /// It created, changed or deleted these memories.
    Memories(Vec<MemoryId>),
    /// It created this trigger.
    Trigger(TriggerId),
}

impl WriteEffect {
    /// Roughly the bytes that it takes in the log.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Memories(ids) => size_of_val(&ids[..]),
            Self::Trigger(_) => size_of::<TriggerId>(),
        }
    }
}
