//! Receipts: the results of writes with an `Idempotency-Key`, so that a repeated request
//! changes nothing. A receipt belongs to the API key that wrote.

use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, Timestamp, TriggerId};

/// Receipts that the API keys of a tenant share. One key has half of them at most. A key with less
/// than a thousandth may exceed it.
pub const RECEIPTS_MAX: u64 = 4_000_000;
/// Age in microseconds from which a receipt may be removed to make room for others.
pub const RECEIPT_AGE_MIN_MICROS: i64 = 10 * 60 * Timestamp::SECOND_MICROS;
/// Most memory ids per receipt: the size of a batch create.
pub const RECEIPT_IDS_MAX: usize = 50;

/// Most bytes of a reply that a receipt keeps.
pub const RECEIPT_REPLY_BYTES_MAX: usize = 4 << 10;

/// SHA-256 of an `Idempotency-Key`, and of the number of a command in its request.
pub type ReceiptKey = [u8; 32];

/// A request to keep a receipt of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRequest {
    /// Identifies the receipt among those of the acting API key.
    pub key: ReceiptKey,
    /// Digest of method, path and body: the same key with another digest is rejected.
    pub body_hash: [u8; 32],
}

/// A kept receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Time of the write.
    pub at: Timestamp,
    /// How long it is kept.
    pub retention: Retention,
    /// Digest of the request.
    pub body_hash: [u8; 32],
    /// What the write did.
    pub effect: WriteEffect,
}

/// How long a receipt is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Retention {
    /// An hour: the write changed nothing.
    Hour,
    /// A day.
    Day,
}

impl Retention {
    /// All values, in the order of their stored numbers.
    pub const ALL: [Self; 2] = [Self::Hour, Self::Day];

    /// The time in microseconds.
    pub fn micros(self) -> i64 {
        match self {
            Self::Hour => Timestamp::HOUR_MICROS,
            Self::Day => Timestamp::DAY_MICROS,
        }
    }
}

/// A memory that a write touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TouchedId {
    /// Its id.
    pub id: MemoryId,
    /// Whether the write was to create a memory that repeats this one.
    pub is_duplicate: bool,
}

/// What a write did, as far as its repetition must return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteEffect {
    /// It touched these memories.
    Memories(Vec<TouchedId>),
    /// It created or changed this trigger.
    Trigger(TriggerId),
    /// It did something else, to these memories, and had this encoded reply; empty if the reply was too
    /// large to be kept.
    Reply(Vec<MemoryId>, Vec<u8>),
}
