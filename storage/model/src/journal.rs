//! The journal: one append-only row per event of a tenant. Activity, trigger history and the
//! event stream are filters over it.
//!
//! Events hold typed values. Texts for people are rendered where events are shown.

use serde::{Deserialize, Serialize};

use crate::cluster::GroupId;
use crate::id::{KeyId, MemoryId, Timestamp, TriggerId};
use crate::memory::Signal;
use crate::trigger::{DeliveryId, TriggerActionKind, TriggerEvent};

/// Days that events are kept.
pub const JOURNAL_DAYS: i64 = 30;

/// A part of a tenant's journal. Each has limits of its own, so that edges and activities do not push
/// out the history of triggers. The oldest events are trimmed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum JournalPart {
    /// Firings and deliveries.
    Triggers,
    /// All other events.
    Others,
}

impl JournalPart {
    /// All parts.
    pub const ALL: [Self; 2] = [Self::Triggers, Self::Others];

    /// Most events.
    pub fn events_max(self) -> u64 {
        match self {
            Self::Triggers => 250_000,
            Self::Others => 1_000_000,
        }
    }

    /// Most bytes of their rows.
    pub fn bytes_max(self) -> u64 {
        match self {
            Self::Triggers => 64 << 20,
            Self::Others => 256 << 20,
        }
    }
}

/// Identifies an event: Raft group, log index, position within the entry. Ordered, never
/// reused, equal on every node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cursor {
    /// The Raft group whose log holds the entry.
    pub group: GroupId,
    /// Index of the log entry.
    pub index: u64,
    /// Position among the events of that entry, from 0.
    pub ordinal: u32,
}

impl Cursor {
    /// A cursor of the only Raft group that exists today.
    pub fn new(index: u64, ordinal: u32) -> Self {
        Self { group: GroupId::default(), index, ordinal }
    }

    /// The cursor after every event of the entry at `index`.
    pub fn after(index: u64) -> Self {
        Self::new(index, u32::MAX)
    }

    /// The next cursor in order.
    #[must_use]
    pub fn next(self) -> Self {
        let (ordinal, carry) = self.ordinal.overflowing_add(1);
        Self { index: self.index.saturating_add(carry.into()), ordinal, ..self }
    }

    /// The previous cursor in order.
    #[must_use]
    pub fn previous(self) -> Self {
        let (ordinal, borrow) = self.ordinal.overflowing_sub(1);
        Self { index: self.index.saturating_sub(borrow.into()), ordinal, ..self }
    }
}

/// One row of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Cluster clock when it happened.
    pub at: Timestamp,
    /// The key that caused it; `None` for the service itself.
    pub actor: Option<KeyId>,
    /// The memory concerned, if there is one.
    pub subject: Option<MemoryId>,
    /// Namespace of that memory at the time; empty without a subject.
    pub namespace: String,
    /// What happened.
    pub kind: EventKind,
}

impl Event {
    /// Removes all texts that an agent wrote. Returns whether there were any.
    pub fn remove_texts(&mut self) -> bool {
        let before = self.kind.clone();
        match &mut self.kind {
            EventKind::Deleted(text)
            | EventKind::EdgeCreated { relation: text, .. }
            | EventKind::EdgeDeleted { relation: text, .. } => text.clear(),
            EventKind::TriggerFired(fired) => fired.remove_texts(),
            EventKind::Activity(activity) => *activity = AgentActivity::purged(),
            _ => {}
        }
        self.kind != before
    }
}

/// What happened, with its details. New kinds are appended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// A memory was created.
    Created,
    /// These fields of a memory changed, in the order of the record.
    Updated(Vec<MemoryField>),
    /// A memory was deleted. Holds the beginning of its label.
    Deleted(String),
    /// A memory moved to the cold tier.
    Archived,
    /// A memory moved back to the hot tier.
    Restored,
    /// A memory's heat fell below `cold_threshold` between two ticks.
    Cooled,
    /// A memory's heat rose to `cold_threshold` between two ticks.
    Warmed,
    /// Feedback was given on a memory.
    Feedback(Signal),
    /// An edge from the subject was created.
    EdgeCreated {
        /// Its other end.
        other: MemoryId,
        /// Its relation.
        relation: String,
    },
    /// An edge from the subject was deleted.
    EdgeDeleted {
        /// Its other end.
        other: MemoryId,
        /// Its relation.
        relation: String,
    },
    /// An agent recorded an activity of its own.
    Activity(AgentActivity),
    /// A trigger fired.
    TriggerFired(Box<FiredTrigger>),
    /// A webhook delivery succeeded.
    Delivered {
        /// The delivery.
        delivery: DeliveryId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// HTTP status of the response.
        status: u16,
    },
    /// An attempt of a webhook delivery failed.
    DeliveryFailed {
        /// The delivery.
        delivery: DeliveryId,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Why it failed.
        reason: String,
        /// What happens next.
        next: DeliveryNext,
    },
    /// This many triggers did not fire or were not evaluated: the command had reached its limits.
    FiringsSkipped(u64),
}

named_enum! {
    /// The name of a kind of event.
    pub enum EventName {
        /// See [`EventKind::Created`], and so on.
        Created = "created",
        /// An update.
        Updated = "updated",
        /// Feedback.
        Feedback = "feedback",
        /// A crossing upwards.
        Warmed = "warmed",
        /// A crossing downwards.
        Cooled = "cooled",
        /// A move to the cold tier.
        Archived = "archived",
        /// A move to the hot tier.
        Restored = "restored",
        /// A new edge.
        Related = "related",
        /// A deleted edge.
        Unrelated = "unrelated",
        /// A deletion.
        Deleted = "deleted",
        /// A firing.
        Fired = "fired",
        /// A delivery.
        Delivered = "delivered",
        /// A failed attempt.
        DeliveryFailed = "delivery_failed",
        /// Firings that the limits prevented.
        FiringsSkipped = "firings_skipped",
        /// An agent's own activity.
        Activity = "activity",
    }
}

impl EventKind {
    /// Its name.
    pub fn name(&self) -> EventName {
        match self {
            Self::Created => EventName::Created,
            Self::Updated(_) => EventName::Updated,
            Self::Feedback(_) => EventName::Feedback,
            Self::Warmed => EventName::Warmed,
            Self::Cooled => EventName::Cooled,
            Self::Archived => EventName::Archived,
            Self::Restored => EventName::Restored,
            Self::EdgeCreated { .. } => EventName::Related,
            Self::EdgeDeleted { .. } => EventName::Unrelated,
            Self::Deleted(_) => EventName::Deleted,
            Self::TriggerFired(_) => EventName::Fired,
            Self::Delivered { .. } => EventName::Delivered,
            Self::DeliveryFailed { .. } => EventName::DeliveryFailed,
            Self::FiringsSkipped(_) => EventName::FiringsSkipped,
            Self::Activity(_) => EventName::Activity,
        }
    }

    /// The trigger concerned, for firings and deliveries: the events of the history of triggers.
    pub fn trigger(&self) -> Option<TriggerId> {
        match self {
            Self::TriggerFired(fired) => Some(fired.trigger),
            Self::Delivered { delivery, .. } | Self::DeliveryFailed { delivery, .. } => {
                Some(delivery.trigger)
            }
            _ => None,
        }
    }

    /// Where it is kept.
    pub fn part(&self) -> JournalPart {
        if self.trigger().is_some() { JournalPart::Triggers } else { JournalPart::Others }
    }

    /// The other end of an edge event.
    pub fn other_end(&self) -> Option<MemoryId> {
        match self {
            Self::EdgeCreated { other, .. } | Self::EdgeDeleted { other, .. } => Some(*other),
            _ => None,
        }
    }
}

named_enum! {
    /// A field of a memory that an update can change.
    pub enum MemoryField {
        /// The text.
        Label = "label",
        /// The type.
        MemoryType = "memory_type",
        /// The namespace.
        Namespace = "namespace",
        /// The decay class.
        DecayClass = "decay_class",
        /// Whether it is pinned.
        IsPinned = "is_pinned",
        /// Whether it is locked.
        IsLocked = "is_locked",
        /// Whether it is flagged for review.
        FlaggedForReview = "flagged_for_review",
        /// The heat floor.
        MinHeat = "min_heat",
        /// The heat.
        CurrentHeat = "current_heat",
        /// The tags.
        Tags = "tags",
        /// The metadata.
        Metadata = "metadata",
        /// The key points.
        KeyPoints = "key_points",
        /// When it happened.
        OccurredAt = "occurred_at",
        /// From when on it holds.
        ValidFrom = "valid_from",
        /// Until when it holds.
        ValidUntil = "valid_until",
        /// When it expires.
        ExpiresAt = "expires_at",
        /// Whether an admin has reviewed it.
        Reviewed = "reviewed",
    }
}

/// An activity that an agent records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentActivity {
    /// What the agent did.
    pub action: String,
    /// To what; any id of the agent's own.
    pub target_id: Option<String>,
    /// A text for that.
    pub target_label: Option<String>,
    /// Any JSON, serialised.
    pub metadata: String,
}

impl AgentActivity {
    /// What remains of an activity whose texts were removed.
    fn purged() -> Self {
        Self { action: "purged".into(), metadata: "{}".into(), ..Self::default() }
    }
}

/// A firing as it is recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FiredTrigger {
    /// The trigger.
    pub trigger: TriggerId,
    /// Its name at the time.
    pub trigger_name: String,
    /// The event that it fired on.
    pub event: TriggerEvent,
    /// The action that it performed.
    pub action: TriggerActionKind,
    /// The beginning of the memory's label at the time.
    pub label: String,
    /// The result of the action.
    pub result: FiringResult,
}

impl FiredTrigger {
    /// Removes the texts that come from the memory: its label, the message, the tag.
    pub fn remove_texts(&mut self) {
        self.label.clear();
        if let FiringResult::Notified(text) | FiringResult::Tagged(text) = &mut self.result {
            text.clear();
        }
    }
}

/// The result of a trigger's action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FiringResult {
    /// The heat changed, 0 to 1.
    HeatChanged {
        /// Heat before.
        from: f64,
        /// Heat after.
        to: f64,
    },
    /// The memory was pinned.
    Pinned,
    /// The memory was pinned already.
    AlreadyPinned,
    /// This tag was appended, with its `#`.
    Tagged(String),
    /// The label has the tag already.
    AlreadyTagged,
    /// The label has no words to derive a tag from.
    NoTagWords,
    /// The label with the tag would exceed its limit.
    NoTagRoom,
    /// A notification with this message was returned.
    Notified(String),
    /// A webhook delivery was enqueued.
    Enqueued(DeliveryId),
    /// The tenant had too many pending deliveries: nothing was enqueued.
    Dropped,
}

/// What happens after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeliveryNext {
    /// Another attempt follows, after this many microseconds.
    Retry(i64),
    /// The delivery is a dead letter.
    DeadLettered,
    /// The delivery is a dead letter, and the trigger was disabled: the receiver returned 410.
    TriggerDisabled,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_other_ends_of_events() {
        let (other, relation) = (MemoryId([7; 16]), "works with".to_owned());
        let created = EventKind::EdgeCreated { other, relation: relation.clone() };
        let deleted = EventKind::EdgeDeleted { other, relation };
        assert_eq!([created.other_end(), deleted.other_end()], [Some(other); 2]);
        assert_eq!(EventKind::Created.other_end(), None);
        let event = |kind| Event {
            at: Timestamp(1),
            actor: None,
            subject: Some(MemoryId([1; 16])),
            namespace: "default".into(),
            kind,
        };
        for kind in [created, deleted, EventKind::Deleted("prefers tea".into())] {
            let mut event = event(kind);
            assert!(event.remove_texts(), "{event:?}");
            assert!(!event.remove_texts(), "{event:?}: nothing is left");
        }
        assert!(!event(EventKind::Created).remove_texts());
    }
}
