//! The closed sets of words of the interface: their names, and the aliases that published
//! clients send.

use raft::MemberRole;
use storage::model::access::Policy;
use storage::model::audit::{AuditAction, AuditChain};
use storage::model::duplicate::OnDuplicate;
use storage::model::guard::{Detection, GuardAction, Trust};
use storage::model::memory::{DecayClass, MemoryType, Signal, Tier};
use storage::model::memory::{Defect, FoldReason};
use storage::model::retention::RetentionAction;
use storage::model::score::Evidence;
use storage::model::tenant::{Role, TenantState};
use storage::model::trigger::DeliveryStage;
use storage::model::trigger::{TriggerActionKind, TriggerEvent};
use storage::{Order, Sort, TierFilter};

/// A word of a closed set.
pub(crate) trait Word: Copy + PartialEq + 'static {
    /// The name of the set in the OpenAPI document.
    const NAME: &'static str;

    /// All words with their names, in the order of the documentation.
    const ALL: &[(&'static str, Self)];

    /// Further names that published clients send.
    const ALIASES: &[(&str, Self)] = &[];

    fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|(name, _)| *name).collect()
    }

    /// The word with this name or alias.
    fn parse(text: &str) -> Option<Self> {
        let mut known = Self::ALL.iter().chain(Self::ALIASES);
        known.find(|(name, _)| *name == text).map(|(_, word)| *word)
    }

    fn name(self) -> &'static str {
        let named = Self::ALL.iter().find(|(_, word)| *word == self);
        named.map_or("", |(name, _)| name)
    }
}

/// Implements [`Word`] from arrays of name and word, and aliases.
macro_rules! words {
    ($($type:ty: $all:expr $(, $aliases:expr)?;)+) => {
        $(impl Word for $type {
            const NAME: &'static str = stringify!($type);
            const ALL: &[(&'static str, Self)] = &$all;
            $(const ALIASES: &[(&str, Self)] = &$aliases;)?
        })+
    };
}

/// What an access rule sets; `None` is no rule.
pub(crate) type RulePolicy = Option<Policy>;

/// How fresh a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Consistency {
    /// This node's state, within the staleness bound.
    #[default]
    Local,
    /// Everything acknowledged before the request.
    Linearizable,
}

/// Entries of the trigger history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistoryKind {
    Firing,
    Attempt,
    All,
}

/// The state of a webhook delivery that has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryStatus {
    Pending,
    DeadLetter,
}

impl From<&DeliveryStage> for DeliveryStatus {
    fn from(stage: &DeliveryStage) -> Self {
        match stage {
            DeliveryStage::Pending(_) => Self::Pending,
            DeliveryStage::DeadLettered(_) => Self::DeadLetter,
        }
    }
}

words! {
    MemoryType: Self::NAMED, [("synthesis", Self::Semantic)];
    // `glacial` was published as a half-life of some 30 days: it is not `permanent`.
    DecayClass: Self::NAMED,
        [("fast", Self::Volatile), ("slow", Self::Persistent), ("glacial", Self::Persistent)];
    OnDuplicate: Self::NAMED;
    FoldReason: Self::NAMED;
    Defect: Self::NAMED;
    RetentionAction: Self::NAMED;
    GuardAction: Self::NAMED;
    Detection: Self::NAMED;
    Trust: Self::NAMED;
    Signal: Self::NAMED, [
        ("boost", Self::Relevant),
        ("reinforce", Self::Relevant),
        ("deprecate", Self::Irrelevant),
        ("retract", Self::Wrong),
    ];
    TriggerEvent: Self::NAMED, [("on_create", Self::Store)];
    TriggerActionKind: Self::NAMED;
    Role: [("reader", Self::Reader), ("agent", Self::Agent), ("admin", Self::Admin)];
    TenantState: Self::NAMED;
    MemberRole: [
        ("leader", Self::Leader),
        ("voter", Self::Voter),
        ("learner", Self::Learner),
    ];
    AuditAction: Self::NAMED;
    AuditChain: Self::NAMED;
    Evidence: [("none", Self::None), ("weak", Self::Weak), ("strong", Self::Strong)];
    Tier: [("hot", Self::Hot), ("cold", Self::Cold)];
    TierFilter: [("hot", Self::Hot), ("cold", Self::Cold), ("all", Self::All)];
    Sort: [
        ("heat", Self::Heat),
        ("updated_at", Self::UpdatedAt),
        ("created_at", Self::CreatedAt),
        ("memory_type", Self::MemoryType),
    ];
    Order: [("asc", Self::Ascending), ("desc", Self::Descending)];
    RulePolicy: [("allow", Some(Policy::Allow)), ("deny", Some(Policy::Deny)), ("default", None)];
    Consistency: [("local", Self::Local), ("linearizable", Self::Linearizable)];
    HistoryKind: [("firing", Self::Firing), ("attempt", Self::Attempt), ("all", Self::All)];
    DeliveryStatus: [("pending", Self::Pending), ("dead_letter", Self::DeadLetter)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_aliases_are_accepted() {
        assert_eq!(MemoryType::parse("synthesis"), Some(MemoryType::Semantic));
        assert_eq!(MemoryType::parse("moment"), Some(MemoryType::Moment));
        assert_eq!(MemoryType::parse("Moment"), None);
        assert_eq!(DecayClass::parse("fast"), Some(DecayClass::Volatile));
        assert_eq!(DecayClass::parse("glacial"), Some(DecayClass::Persistent));
        assert_eq!(DecayClass::parse("never"), None);
    }
}
