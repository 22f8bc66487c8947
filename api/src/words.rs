//! The closed sets of words of the interface: their names, and the aliases that published
//! clients send.

use storage::model::access::Policy;
use storage::model::feedback::Signal;
use storage::model::memory::{DecayClass, MemoryType, Tier};
use storage::model::tenant::Role;
use storage::model::trigger::{TriggerActionKind, TriggerEvent};
use storage::{Order, Sort, TierFilter};

/// A word of a closed set.
pub(crate) trait Word: Copy {
    /// All names, in the order of the documentation.
    fn names() -> Vec<&'static str>;

    /// The word with this name or alias.
    fn parse(text: &str) -> Option<Self>;
}

/// Implements [`Word`] for types with `ALL` and `name`, plus aliases.
macro_rules! words {
    ($type:ty, $all:expr $(, $alias:literal => $word:expr)*) => {
        impl Word for $type {
            fn names() -> Vec<&'static str> {
                $all.into_iter().map(|word| word.name()).collect()
            }

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($alias => Some($word),)*
                    _ => $all.into_iter().find(|word| word.name() == text),
                }
            }
        }
    };
}

words!(MemoryType, MemoryType::ALL, "synthesis" => MemoryType::Semantic);
// `glacial` was published as a half-life of some 30 days: it is not `permanent`.
words!(DecayClass, DecayClass::ALL, "fast" => DecayClass::Volatile,
    "slow" => DecayClass::Persistent, "glacial" => DecayClass::Persistent);
words!(Signal, Signal::ALL);
words!(TriggerEvent, TriggerEvent::ALL, "on_create" => TriggerEvent::Store);
words!(TriggerActionKind, TriggerActionKind::ALL);
words!(Role, Role::OF_KEYS);

/// Implements [`Word`] from pairs of name and value.
macro_rules! named {
    ($type:ty, $($name:literal => $word:expr),+) => {
        impl Word for $type {
            fn names() -> Vec<&'static str> {
                vec![$($name),+]
            }

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($name => Some($word),)+
                    _ => None,
                }
            }
        }
    };
}

named!(Tier, "hot" => Self::Hot, "cold" => Self::Cold);
named!(TierFilter, "hot" => Self::Hot, "cold" => Self::Cold, "all" => Self::All);

/// What an access rule sets; `default` is no rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RulePolicy(pub(crate) Option<Policy>);

named!(RulePolicy, "allow" => Self(Some(Policy::Allow)), "deny" => Self(Some(Policy::Deny)),
    "default" => Self(None));

impl RulePolicy {
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Some(Policy::Allow) => "allow",
            Some(Policy::Deny) => "deny",
            None => "default",
        }
    }
}

/// How fresh a read must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Consistency {
    /// This node's state, within the staleness bound.
    #[default]
    Local,
    /// Everything acknowledged before the request.
    Linearizable,
}

named!(Consistency, "local" => Self::Local, "linearizable" => Self::Linearizable);

impl Consistency {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Linearizable => "linearizable",
        }
    }
}

/// Entries of the trigger history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistoryKind {
    Firing,
    Attempt,
    All,
}

named!(HistoryKind, "firing" => Self::Firing, "attempt" => Self::Attempt, "all" => Self::All);

/// The state of a webhook delivery that has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeliveryStatus {
    Pending,
    DeadLetter,
}

named!(DeliveryStatus, "pending" => Self::Pending, "dead_letter" => Self::DeadLetter);

impl DeliveryStatus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::DeadLetter => "dead_letter",
        }
    }
}

/// The order of a list: an unknown one is by heat, since every client's default must work.
pub(crate) fn sort(name: Option<&str>) -> Sort {
    match name {
        Some("updated_at") => Sort::UpdatedAt,
        Some("created_at") => Sort::CreatedAt,
        Some("memory_type") => Sort::MemoryType,
        _ => Sort::Heat,
    }
}

/// The direction of a list: an unknown one is descending.
pub(crate) fn order(name: Option<&str>) -> Order {
    match name {
        Some("asc") => Order::Ascending,
        _ => Order::Descending,
    }
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
