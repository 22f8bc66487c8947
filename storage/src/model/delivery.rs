//! The outbox: requests that fired triggers owe to the world. Who sends them, when, and what
//! they look like on the wire is not known here.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::{MemoryId, Timestamp, TriggerId};
use crate::model::memory::MemoryType;
use crate::model::trigger::TriggerEvent;

/// Most deliveries that a tenant owes; what fires beyond it owes none, and says so.
pub const PENDING_MAX: u64 = 10_000;
/// Most deliveries that a tenant keeps after the last attempt; the oldest go first.
pub const DEAD_LETTERS_MAX: u64 = 10_000;
/// Most bytes of a label that a delivery carries.
pub const DELIVERED_LABEL_BYTES_MAX: usize = 16 << 10;
/// Longest reason of a failed attempt, in bytes.
pub const REASON_BYTES_MAX: usize = 256;

/// Names a delivery, over all attempts and leaders: the n-th firing of a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeliveryId {
    /// The trigger that fired.
    pub trigger: TriggerId,
    /// Which of its firings, from 1.
    pub number: u64,
}

impl fmt::Display for DeliveryId {
    /// What receivers tell duplicates by: `msg_`, the trigger in hex, `_`, the number.
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

/// A request that is pending, or was given up: the firing as it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// On what the trigger fired.
    pub event: TriggerEvent,
    /// Its name then.
    pub trigger_name: String,
    /// When it fired.
    pub fired_at: Timestamp,
    /// For which memory.
    pub memory: MemoryId,
    /// Where that lay.
    pub namespace: String,
    /// What it said: [`DELIVERED_LABEL_BYTES_MAX`] bytes of it at most.
    pub label: String,
    /// Its type.
    pub memory_type: MemoryType,
    /// Its heat.
    pub heat: f64,
    /// Attempts so far.
    pub attempts: u32,
    /// Attempts when somebody last had it sent anew; the schedule begins there.
    pub attempts_before: u32,
    /// Why the last attempt failed; empty before one did.
    pub reason: String,
    /// Where it stands.
    pub stage: DeliveryStage,
}

impl Record for Delivery {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "delivery";
}

/// Where a delivery stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryStage {
    /// The next attempt is due then.
    Pending(Timestamp),
    /// Given up then.
    DeadLettered(Timestamp),
}

/// How many deliveries a tenant has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbox {
    /// Those pending.
    pub pending: u64,
    /// Those given up and kept.
    pub dead_letters: u64,
    /// Firings that enqueued nothing because too many deliveries were pending, since the tenant was created.
    pub dropped: u64,
}

impl Outbox {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pending: self.pending + other.pending,
            dead_letters: self.dead_letters + other.dead_letters,
            dropped: self.dropped + other.dropped,
        }
    }
}

impl Record for Outbox {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "outbox";
}

/// What became of an attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Of which delivery.
    pub id: DeliveryId,
    /// Which attempt, from 1: one that is recorded already counts once.
    pub number: u32,
    /// What became of it.
    pub outcome: AttemptOutcome,
}

/// What became of an attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttemptOutcome {
    /// The receiver took it with this status.
    Delivered(u16),
    /// It did not arrive, or was not taken.
    Failed {
        /// Why, for people.
        reason: String,
        /// Microseconds until the next attempt; `None` gives it up.
        retry_in_micros: Option<i64>,
    },
    /// The receiver wants none of this trigger any more, as that was last changed then.
    Gone(Timestamp),
    /// The trigger rests: nothing was sent.
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
