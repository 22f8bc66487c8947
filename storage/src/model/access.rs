//! Which namespaces an agent may touch. The most telling rule decides; without one, all
//! are open. Keys that administer their tenant are bound by none.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::Timestamp;
use crate::model::tenant::{KeyId, Role};

/// Most rules of a tenant.
pub const RULES_MAX: usize = 1_000;
/// Longest name of an agent in a rule, in bytes.
pub const AGENT_BYTES_MAX: usize = 128;
/// Every agent, or every namespace.
pub const ANY: &str = "*";

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// The namespace is open.
    Allow,
    /// The namespace is closed.
    Deny,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its number within the tenant, never reused.
    pub number: u64,
    /// Id or name of a key, or [`ANY`].
    pub agent: String,
    /// A namespace, or [`ANY`].
    pub namespace: String,
    /// What holds.
    pub policy: Policy,
    /// When it was made.
    pub created_at: Timestamp,
}

/// All rules of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Number of the last rule that was made.
    pub last: u64,
    /// In the order of their numbers; no two are for the same agent and namespace.
    pub rules: Vec<Rule>,
}

impl Record for Rules {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "access rules";
}

/// What one key may touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The rules for it, the most telling first; empty is everything.
    rules: Vec<(String, Policy)>,
}

impl Rules {
    /// What a key of this name and role may touch.
    pub fn of(&self, key: KeyId, name: &str, role: Role) -> Access {
        if role >= Role::Admin {
            return Access::default();
        }
        let id = key.to_string();
        // An agent's own rules tell more than everybody's, a namespace's more than all's.
        let telling = |rule: &&Rule| (rule.agent == ANY, rule.namespace == ANY);
        let mine = |rule: &&Rule| rule.agent == ANY || rule.agent == id || rule.agent == name;
        let mut rules: Vec<&Rule> = self.rules.iter().filter(mine).collect();
        rules.sort_by_key(telling);
        Access {
            rules: rules.into_iter().map(|rule| (rule.namespace.clone(), rule.policy)).collect(),
        }
    }
}

impl Access {
    /// No namespace at all.
    pub fn nothing() -> Self {
        Self { rules: vec![(ANY.to_owned(), Policy::Deny)] }
    }

    /// Whether every namespace is open.
    pub fn is_whole(&self) -> bool {
        self.rules.iter().all(|(_, policy)| *policy == Policy::Allow)
    }

    /// Whether a namespace is open.
    pub fn allows(&self, namespace: &str) -> bool {
        let rule = self.rules.iter().find(|(of, _)| of == ANY || of == namespace);
        rule.is_none_or(|(_, policy)| *policy == Policy::Allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = KeyId([0, 0, 0, 0, 0, 0, 0, 7]);

    fn rules(rules: &[(&str, &str, Policy)]) -> Rules {
        let rule = |(number, (agent, namespace, policy)): (u64, &(&str, &str, Policy))| Rule {
            number,
            agent: (*agent).into(),
            namespace: (*namespace).into(),
            policy: *policy,
            created_at: Timestamp(0),
        };
        Rules { last: 9, rules: (1..).zip(rules).map(rule).collect() }
    }

    #[test]
    fn without_a_rule_all_is_open() {
        let access = Rules::default().of(KEY, "helper", Role::Agent);
        assert!(access.is_whole() && access.allows("anything"));
    }

    #[test]
    fn the_most_telling_rule_decides() {
        use Policy::{Allow, Deny};
        let rules = rules(&[
            ("*", "*", Deny),
            ("*", "shared", Allow),
            ("helper", "*", Allow),
            ("helper", "secret", Deny),
            ("0000000000000007", "shared", Deny),
        ]);
        let mine = rules.of(KEY, "helper", Role::Agent);
        assert!(mine.allows("anything") && !mine.allows("secret") && !mine.allows("shared"));
        let other = rules.of(KeyId([1; 8]), "other", Role::Reader);
        assert!(!other.allows("anything") && other.allows("shared") && !other.is_whole());
    }

    #[test]
    fn who_administers_is_bound_by_none() {
        let rules = rules(&[("*", "*", Policy::Deny)]);
        assert!(rules.of(KEY, "root", Role::Admin).is_whole());
    }
}
