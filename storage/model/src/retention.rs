//! Retention: rules of a tenant that archive or delete memories that have been cold and unused for
//! some days. Of each action, the first rule for the namespace and type of a memory decides.

use serde::{Deserialize, Serialize};

use crate::id::Timestamp;
use crate::memory::MemoryType;
use crate::thermo::Thermo;

/// Most rules of a tenant.
pub const RETENTION_RULES_MAX: usize = 100;
/// Most days of a rule.
pub const RETENTION_DAYS_MAX: u32 = 36_500;

named_enum! {
    /// What happens to a memory.
    pub enum RetentionAction {
        /// It moves to the cold tier.
        Archive = "archive",
        /// It is deleted.
        Delete = "delete",
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionRule {
    /// Memories of this namespace; of all by default.
    pub namespace: Option<String>,
    /// Memories of this type; of all by default.
    pub memory_type: Option<MemoryType>,
    /// What happens to them.
    pub action: RetentionAction,
    /// Days for which they were cold and not used, 1 to [`RETENTION_DAYS_MAX`].
    pub after_days: u32,
}

impl RetentionRule {
    fn covers(&self, namespace: &str, memory_type: MemoryType) -> bool {
        self.namespace.as_ref().is_none_or(|name| name == namespace)
            && self.memory_type.is_none_or(|required| required == memory_type)
    }
}

/// Numbers of the rules that decide whether a memory is deleted, and whether it is archived.
pub fn deciding(
    rules: &[RetentionRule],
    namespace: &str,
    memory_type: MemoryType,
) -> [Option<usize>; 2] {
    [RetentionAction::Delete, RetentionAction::Archive].map(|action| {
        let decides =
            |rule: &RetentionRule| rule.action == action && rule.covers(namespace, memory_type);
        rules.iter().position(decides)
    })
}

/// What a rule must know of a memory.
pub struct RetentionSubject<H> {
    pub is_pinned: bool,
    pub is_archived: bool,
    /// The last time that it was recalled, changed, rated or archived.
    pub used_at: Timestamp,
    /// Its heat at a time after that.
    pub heat_at: H,
}

impl<H: Fn(Timestamp) -> f64> RetentionSubject<H> {
    /// The first of the `deciding` rules that is due at `now`.
    pub fn due(
        &self,
        rules: &[RetentionRule],
        deciding: [Option<usize>; 2],
        thermo: &Thermo,
        now: Timestamp,
    ) -> Option<usize> {
        let is_due = |at: &usize| {
            rules.get(*at).is_some_and(|rule| {
                let is_done = self.is_archived && rule.action == RetentionAction::Archive;
                let since = Timestamp(now.0 - i64::from(rule.after_days) * Timestamp::DAY_MICROS);
                // Heat only falls while a memory is unused.
                !is_done && self.used_at <= since && thermo.is_cold((self.heat_at)(since))
            })
        };
        deciding.into_iter().flatten().find(|at| !self.is_pinned && is_due(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(
        namespace: Option<&str>,
        memory_type: Option<MemoryType>,
        action: RetentionAction,
    ) -> RetentionRule {
        RetentionRule {
            namespace: namespace.map(str::to_owned),
            memory_type,
            action,
            after_days: 9,
        }
    }

    #[test]
    fn first_rule_of_each_action_decides() {
        use RetentionAction::{Archive, Delete};
        let rules = [
            rule(Some("logs"), Some(MemoryType::Fact), Delete),
            rule(None, None, Archive),
            rule(Some("logs"), None, Delete),
        ];
        let of = |namespace, memory_type| deciding(&rules, namespace, memory_type);
        assert_eq!(of("logs", MemoryType::Fact), [Some(0), Some(1)]);
        assert_eq!(of("logs", MemoryType::Episodic), [Some(2), Some(1)]);
        assert_eq!(of("default", MemoryType::Fact), [None, Some(1)]);
        assert_eq!(deciding(&rules[..1], "default", MemoryType::Fact), [None, None]);
    }

    #[test]
    fn rules_are_due_for_what_is_long_cold() {
        let rules = [rule(None, None, RetentionAction::Archive)];
        let (thermo, day) = (Thermo::default(), Timestamp::DAY_MICROS);
        let due = |is_pinned, is_archived, used: i64, heat: f64| {
            let used_at = Timestamp(used * day);
            let subject = RetentionSubject { is_pinned, is_archived, used_at, heat_at: |_| heat };
            subject.due(&rules, [None, Some(0)], &thermo, Timestamp(100 * day)).is_some()
        };
        assert!(due(false, false, 91, 0.05));
        assert!(!due(false, false, 92, 0.05), "used eight days ago");
        assert!(!due(false, false, 1, 0.2), "warm nine days ago");
        assert!(!due(true, false, 1, 0.05), "pinned");
        assert!(!due(false, true, 1, 0.05), "archived already");
    }
}
