//! Rules for creating, replacing and deleting the access rules of a tenant.

use crate::change::Change;
use crate::decide::context::Context;
use crate::decide::error::Decided;
use crate::model::access::{Policy, RULES_MAX, Rule};
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

/// Replaces the rule for this agent and namespace; `None` deletes it.
pub(super) fn put_rule(
    context: &mut Context<'_, '_>,
    agent: &str,
    namespace: &str,
    policy: Option<Policy>,
) -> Decided<Reply> {
    let mut rules = context.draft.access_rules(context.tenant)?;
    let is_same = |rule: &Rule| rule.agent == agent && rule.namespace == namespace;
    let before = rules.rules.iter().position(is_same).map(|at| rules.rules.remove(at));
    let Some(policy) = policy else {
        let rule = before.ok_or_else(no_rule)?;
        context.push(Change::RulesPut(context.tenant, rules));
        return Ok(Reply::Rule(rule));
    };
    if rules.rules.len() >= RULES_MAX {
        return Err(Rejection::TooMany { what: "rules".into(), max: RULES_MAX }.into());
    }
    rules.last += 1;
    let rule = Rule {
        number: rules.last,
        agent: agent.to_owned(),
        namespace: namespace.to_owned(),
        policy,
        created_at: context.now(),
    };
    rules.rules.push(rule.clone());
    context.push(Change::RulesPut(context.tenant, rules));
    Ok(Reply::Rule(rule))
}

/// Deletes a rule by its number.
pub(super) fn delete_rule(context: &mut Context<'_, '_>, number: u64) -> Decided<Reply> {
    let mut rules = context.draft.access_rules(context.tenant)?;
    let at = rules.rules.iter().position(|rule| rule.number == number).ok_or_else(no_rule)?;
    let rule = rules.rules.remove(at);
    context.push(Change::RulesPut(context.tenant, rules));
    Ok(Reply::Rule(rule))
}

fn no_rule() -> Rejection {
    Rejection::NoSuch("rule".into())
}
