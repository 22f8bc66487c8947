//! The journal: what happened to a tenant's memories, one append-only row an
//! event. Activity, trigger history and the event stream are filters over it.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::{MemoryId, Timestamp};
use crate::model::tenant::KeyId;

/// Days that events are kept.
pub const JOURNAL_DAYS: i64 = 30;
/// Most events a tenant keeps; older ones go first.
pub const JOURNAL_EVENTS_MAX: u64 = 1_000_000;

/// Place of an event: log index and position within its batch. Ordered, never
/// reused, the same on every node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// Index of the log entry.
    pub index: u64,
    /// Position among the events of that entry.
    pub ordinal: u32,
}

impl Record for Cursor {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "cursor";
}

impl Cursor {
    /// After every event of an entry.
    pub fn after(index: u64) -> Self {
        Self { index, ordinal: u32::MAX }
    }

    /// The place that follows.
    #[must_use]
    pub fn next(self) -> Self {
        match self.ordinal.checked_add(1) {
            Some(ordinal) => Self { ordinal, ..self },
            None => Self { index: self.index.saturating_add(1), ordinal: 0 },
        }
    }

    /// The place that this one follows.
    #[must_use]
    pub fn previous(self) -> Self {
        match self.ordinal.checked_sub(1) {
            Some(ordinal) => Self { ordinal, ..self },
            None => Self::after(self.index.saturating_sub(1)),
        }
    }
}

/// What can have happened. New kinds are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventKind {
    /// A memory was stored.
    Created,
    /// A memory was changed by somebody.
    Updated,
    /// A memory was deleted.
    Deleted,
    /// A memory moved to the cold tier.
    Archived,
    /// A memory came back from it.
    Restored,
    /// A memory fell below `cold_threshold` between two ticks.
    Cooled,
    /// A memory rose to it.
    Warmed,
    /// Somebody said what a memory was worth.
    Feedback,
    /// Two memories were related.
    Related,
    /// They are no more.
    Unrelated,
    /// Something that an agent wants to be remembered as having happened.
    Noted,
    /// A trigger fired.
    Fired,
    /// What a firing pending was delivered.
    Delivered,
    /// An attempt to deliver it failed.
    DeliveryFailed,
    /// Triggers that held did not fire: one command fires no more than a batch can carry.
    FiringsSkipped,
}

impl EventKind {
    /// Whether it is what a trigger did, or what became of what it pending.
    pub fn is_of_triggers(self) -> bool {
        matches!(self, Self::Fired | Self::Delivered | Self::DeliveryFailed)
    }
}

/// One row of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, by the cluster clock.
    pub at: Timestamp,
    /// What.
    pub kind: EventKind,
    /// By which key; `None` is the service itself.
    pub actor: Option<KeyId>,
    /// To which memory, if to one.
    pub subject: Option<MemoryId>,
    /// Where that one lay; empty without one.
    pub namespace: String,
    /// The fields that changed, for [`EventKind::Updated`]; the signal, for
    /// [`EventKind::Feedback`]; the other memory and the relation, for edges; the
    /// beginning of what it said, for [`EventKind::Deleted`]; action, target, label and more
    /// as JSON, for [`EventKind::Noted`]; trigger, its name, event, action, the beginning of
    /// the label, what came of it, for [`EventKind::Fired`]; trigger, delivery, attempt, what
    /// came of it, what is next, for deliveries; how many, for
    /// [`EventKind::FiringsSkipped`].
    pub details: Vec<String>,
}

impl Record for Event {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "journal event";
}
