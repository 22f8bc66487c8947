//! Callers and access rules: which namespaces an API key may use. A key may be bound to some when
//! it is created. Of those, the most specific rule decides. A namespace without a matching rule is
//! allowed. Rules do not apply to admin keys.

use serde::{Deserialize, Serialize};

use crate::api_key::ApiKey;
use crate::id::{KeyId, TenantId, Timestamp};
use crate::memory::Memory;
use crate::tenant::Role;

/// Maximum number of rules per tenant.
pub const RULES_MAX: usize = 1_000;
/// Longest name of an agent in a rule, in bytes.
pub const AGENT_BYTES_MAX: usize = 128;
/// Wildcard for all agents, or for all namespaces.
pub const ANY: &str = "*";
/// What ends the name of a namespace for it and all namespaces below it: `team/*`.
const BELOW: &str = "/*";

/// Whether a namespace is this one, or lies below it: names are paths with `/`.
pub fn is_below(namespace: &str, prefix: &str) -> bool {
    let rest = namespace.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.is_empty())
}

/// Whether a pattern covers a namespace: [`ANY`], its name, or `team/*`.
fn covers(pattern: &str, namespace: &str) -> bool {
    pattern == ANY
        || pattern == namespace
        || pattern.strip_suffix(BELOW).is_some_and(|prefix| is_below(namespace, prefix))
}

/// Orders patterns, the most specific first: a name, then `team/agents/*` before `team/*`, then [`ANY`].
fn generality(pattern: &str) -> (bool, bool, std::cmp::Reverse<usize>) {
    let prefix = pattern.strip_suffix(BELOW);
    (pattern == ANY, prefix.is_some(), std::cmp::Reverse(prefix.map_or(0, str::len)))
}

/// The effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Access is allowed.
    Allow,
    /// Access is denied.
    Deny,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Number within the tenant, never reused.
    pub number: u64,
    /// Id or name of a key, or [`ANY`].
    pub agent: String,
    /// A namespace, one with all below it (`team/*`), or [`ANY`].
    pub namespace: String,
    /// Effect of the rule.
    pub policy: Policy,
    /// Creation time.
    pub created_at: Timestamp,
}

/// All rules of a tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Number of the newest rule ever created.
    pub last: u64,
    /// Rules in order of their numbers. At most one per agent and namespace.
    pub rules: Vec<Rule>,
}

/// The namespaces that one key may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Namespace and effect of the rules for the key, most specific first. Empty allows all.
    rules: Vec<(String, Policy)>,
    /// The namespaces to which the key is bound; empty is all.
    bound_to: Vec<String>,
}

/// The caller of a request, from its key. The tenant comes from no other part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The tenant.
    pub tenant: TenantId,
    /// Whether the tenant is suspended: the caller may then do nothing.
    pub is_suspended: bool,
    /// Requests per minute of the tenant; `None` is unlimited.
    pub requests_per_minute: Option<u64>,
    /// The key.
    pub key: KeyId,
    /// SHA-256 of its text: a rotation may end the text before the key.
    pub key_hash: [u8; 32],
    /// Its role.
    pub role: Role,
    /// Name of the key.
    pub name: String,
    /// Namespace of the key, if it has one.
    pub namespace: Option<String>,
    /// The namespaces that it may use.
    pub access: Access,
}

impl Rules {
    /// Access of a key.
    pub fn access_of(&self, id: KeyId, key: &ApiKey) -> Access {
        if key.role >= Role::Admin {
            return Access::default();
        }
        let id = id.to_string();
        let applies = |rule: &&Rule| [ANY, &id, &key.name].contains(&rule.agent.as_str());
        let mut rules: Vec<&Rule> = self.rules.iter().filter(applies).collect();
        // Most specific first: a named agent before all agents, then a named namespace
        // before those below one, and before all. `false` sorts before `true`. Of two rules that name a key by its
        // name and by its id, the one that denies decides.
        let allows = |rule: &Rule| rule.policy == Policy::Allow;
        rules.sort_by_key(|rule| (rule.agent == ANY, generality(&rule.namespace), allows(rule)));
        let rules = rules.into_iter().map(|rule| (rule.namespace.clone(), rule.policy));
        Access { rules: rules.collect(), bound_to: key.namespaces.clone() }
    }
}

impl Access {
    /// Access to no namespace.
    pub fn none() -> Self {
        Self { rules: vec![(ANY.to_owned(), Policy::Deny)], bound_to: Vec::new() }
    }

    /// Whether every namespace is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.bound_to.is_empty() && self.rules.iter().all(|(_, policy)| *policy == Policy::Allow)
    }

    /// The only namespace that the key may use, if it is bound to one.
    pub fn only(&self) -> Option<&str> {
        match &self.bound_to[..] {
            [only] if !only.ends_with(BELOW) => Some(only),
            _ => None,
        }
    }

    /// The namespaces to which the key is bound; empty is all.
    pub fn bound_to(&self) -> &[String] {
        &self.bound_to
    }

    /// Whether it allows to read a memory. In quarantine, only admins do.
    pub fn allows_memory(&self, memory: &Memory) -> bool {
        self.allows(&memory.namespace) && !memory.guard.is_quarantined()
    }

    /// Whether a namespace is allowed.
    pub fn allows(&self, namespace: &str) -> bool {
        if !self.bound_to.is_empty() && !self.bound_to.iter().any(|name| covers(name, namespace)) {
            return false;
        }
        let rule = self.rules.iter().find(|(pattern, _)| covers(pattern, namespace));
        rule.is_none_or(|(_, policy)| *policy == Policy::Allow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, role: Role) -> ApiKey {
        let text = crate::api_key::KeyText::of(KEY, [1; 32]);
        crate::api_key::NewApiKey::new(name, role, &text).row(Timestamp(0))
    }

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
    fn access_is_unrestricted_without_rules() {
        let access = Rules::default().access_of(KEY, &key("helper", Role::Agent));
        assert!(access.is_unrestricted() && access.allows("anything"));
    }

    #[test]
    fn most_specific_rule_wins() {
        use Policy::{Allow, Deny};
        let rules = rules(&[
            ("*", "*", Deny),
            ("*", "shared", Allow),
            ("helper", "*", Allow),
            ("helper", "secret", Deny),
            ("0000000000000007", "shared", Deny),
        ]);
        let helper = rules.access_of(KEY, &key("helper", Role::Agent));
        assert!(helper.allows("anything") && !helper.allows("secret") && !helper.allows("shared"));
        let other = rules.access_of(KeyId([1; 8]), &key("other", Role::Reader));
        assert!(!other.allows("anything") && other.allows("shared") && !other.is_unrestricted());
    }

    #[test]
    fn namespaces_are_paths() {
        use Policy::{Allow, Deny};
        let rules = rules(&[
            ("*", "*", Deny),
            ("*", "team/*", Allow),
            ("*", "team/secret/*", Deny),
            ("*", "team/secret/open", Allow),
        ]);
        let access = rules.access_of(KEY, &key("helper", Role::Agent));
        for open in ["team", "team/a", "team/a/b", "team/secret/open"] {
            assert!(access.allows(open), "{open}");
        }
        for closed in ["teams", "other", "team/secret", "team/secret/a", "team/secret/open/b"] {
            assert!(!access.allows(closed), "{closed}");
        }
        let bound = ApiKey { namespaces: vec!["team/*".into()], ..key("helper", Role::Agent) };
        let access = Rules::default().access_of(KEY, &bound);
        assert!(access.allows("team/a") && !access.allows("teams") && access.only().is_none());
    }

    #[test]
    fn denial_decides_between_id_and_name() {
        use Policy::{Allow, Deny};
        let both = [("helper", "closed", Deny), ("0000000000000007", "closed", Allow)];
        for order in [[0, 1], [1, 0]] {
            let access = rules(&order.map(|at| both[at]));
            let access = access.access_of(KEY, &key("helper", Role::Agent));
            assert!(!access.allows("closed") && access.allows("other"));
        }
    }

    #[test]
    fn rules_do_not_apply_to_admins() {
        let rules = rules(&[("*", "*", Policy::Deny)]);
        assert!(rules.access_of(KEY, &key("root", Role::Admin)).is_unrestricted());
    }
}
