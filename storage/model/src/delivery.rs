//! The outbox: webhook requests of fired triggers, until they are delivered or dead-lettered.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, Timestamp, TriggerId};
use crate::memory::MemoryType;
use crate::trigger::TriggerEvent;

/// Most pending deliveries per tenant. See [`Outbox::has_room`].
pub const PENDING_MAX: u64 = 10_000;
/// Most dead letters per tenant. Beyond it, the oldest are removed.
pub const DEAD_LETTERS_MAX: u64 = 10_000;
/// Most bytes of a label that a delivery carries.
pub const DELIVERED_LABEL_BYTES_MAX: usize = 16 << 10;
/// Longest reason of a failed attempt, in bytes.
pub const REASON_BYTES_MAX: usize = 256;

/// Identifies a delivery over all attempts, leaders and restorations of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeliveryId {
    /// The trigger that fired.
    pub trigger: TriggerId,
    /// Ascends with the firings of the trigger. See
    /// [`Cluster::delivery_number`](crate::cluster::Cluster::delivery_number).
    pub number: u64,
}

impl fmt::Display for DeliveryId {
    /// Receivers recognise duplicates by it: `msg_`, the trigger in hex, `_`, the number.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let trigger = uuid::Uuid::from_bytes(self.trigger.0);
        write!(out, "msg_{}_{}", trigger.simple(), self.number)
    }
}

impl FromStr for DeliveryId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts = text.strip_prefix("msg_").and_then(|rest| rest.split_once('_'));
        let (trigger, number) = parts.ok_or(())?;
        let trigger = trigger.parse().map_err(drop)?;
        Ok(Self { trigger, number: number.parse().map_err(drop)? })
    }
}

/// A pending or dead-lettered request: the firing as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// The event of the firing.
    pub event: TriggerEvent,
    /// Name of the trigger at that time.
    pub trigger_name: String,
    /// Time of the firing.
    pub fired_at: Timestamp,
    /// The memory.
    pub memory: MemoryId,
    /// Namespace of the memory at that time, as for the fields below.
    pub namespace: String,
    /// Its label, cut to [`DELIVERED_LABEL_BYTES_MAX`] bytes.
    pub label: String,
    /// Its type.
    pub memory_type: MemoryType,
    /// Its heat.
    pub heat: f64,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts before the last replay. The retry schedule starts anew there.
    pub attempts_before: u32,
    /// Reason of the last failed attempt; empty if none failed.
    pub reason: String,
    /// Its stage.
    pub stage: DeliveryStage,
}

/// Stage of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryStage {
    /// Time of the next attempt.
    Pending(Timestamp),
    /// Time of the last attempt.
    DeadLettered(Timestamp),
}

/// Numbers of deliveries of a tenant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// Pending deliveries.
    pub pending: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// Firings that queued no delivery because too many were pending, in total.
    pub dropped: u64,
}

impl Outbox {
    /// Whether a trigger with `of_trigger` pending deliveries may have another one: only if it has
    /// fewer than the tenant may still add (dynamic thresholds of Choudhury and Hahne). One
    /// trigger has half of [`PENDING_MAX`] at most, and a few leave room to all others.
    #[must_use]
    pub fn has_room(self, of_trigger: u64) -> bool {
        of_trigger < PENDING_MAX.saturating_sub(self.pending)
    }

    /// The sums.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pending: self.pending + other.pending,
            dead_letters: self.dead_letters + other.dead_letters,
            dropped: self.dropped + other.dropped,
        }
    }
}

/// Position of a dead letter: the time of its last attempt, and its id.
pub type DeadLetterCursor = (Timestamp, DeliveryId);

/// A delivery attempt and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The delivery.
    pub id: DeliveryId,
    /// Number of the attempt, from 1. A repeated record of it counts once.
    pub number: u32,
    /// Its outcome.
    pub outcome: AttemptOutcome,
}

/// Outcome of a delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    /// The receiver accepted it with this HTTP status.
    Delivered(u16),
    /// The receiver was not reached or did not accept it.
    Failed {
        /// The reason, for users.
        reason: String,
        /// Microseconds until the next attempt; `None` makes it a dead letter.
        retry_in_micros: Option<i64>,
    },
    /// The receiver responded 410 Gone: the trigger is disabled, unless it changed after this
    /// time.
    Gone(Timestamp),
    /// The trigger is disabled: nothing was sent.
    Disabled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_named_by_trigger_and_number() {
        let id = DeliveryId { trigger: TriggerId([0xab; 16]), number: 12 };
        let text = format!("msg_{}_12", "ab".repeat(16));
        assert_eq!(id.to_string(), text);
        assert_eq!(text.parse(), Ok(id));
        for wrong in ["", "msg_", "msg_12", "msg_zz_1", "12", "msg__1"] {
            assert_eq!(wrong.parse::<DeliveryId>(), Err(()), "{wrong}");
        }
    }
}
