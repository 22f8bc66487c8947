//! Receipts: what a write with an `Idempotency-Key` did, so that its repetition
//! does nothing. Kept in two daily generations, 24 to 48 hours.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::MemoryId;

/// Most receipts a tenant may have kept; beyond it writes with a key are refused.
pub const RECEIPTS_MAX: u64 = 1_000_000;
/// Most ids a receipt lists: the size of a batch create.
pub const RECEIPT_IDS_MAX: usize = 50;

/// SHA-256 of a caller's `Idempotency-Key`.
pub type ReceiptKey = [u8; 32];

/// What a caller asks to be remembered of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRequest {
    /// Names the receipt within its tenant.
    pub key: ReceiptKey,
    /// A digest of method, path and body: the same key with another is refused.
    pub body_hash: [u8; 32],
    /// Status that the front answers on success; opaque here.
    pub status: u16,
}

/// A kept receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// As requested.
    pub body_hash: [u8; 32],
    /// As requested.
    pub status: u16,
    /// The memories that the write created, changed or deleted; or the trigger.
    pub ids: Vec<MemoryId>,
}

impl Record for Receipt {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "receipt";
}
