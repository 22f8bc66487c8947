//! Rules for a tenant as a whole: its settings and its name, its access rules, and activities that
//! agents record.

use crate::change::Change;
use crate::decide::context::{Context, Decided, reject_if};
use crate::model::access::{Policy, RULES_MAX, Rule};
use crate::model::journal::{AgentActivity, EventKind};
use crate::model::retention::{RETENTION_RULES_MAX, RetentionRule};
use crate::model::tenant::{Tenant, WEBHOOK_HOSTS_MAX};
use crate::model::thermo::SettingValue;
use crate::patch::OwnTenantPatch;
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

/// Changes settings, all or none. Anchors stay: from here on the new settings apply to them.
pub(super) fn update_settings(
    context: &mut Context<'_>,
    changes: &[(String, SettingValue)],
) -> Decided<Reply> {
    let mut row = existing(context)?;
    let thermo = Box::new(row.thermo.with(changes).map_err(Rejection::Setting)?);
    if thermo != row.thermo {
        row.thermo = thermo.clone();
        context.push(Change::TenantPut(context.tenant, row));
    }
    Ok(Reply::Settings(thermo))
}

/// Replaces the rules of retention.
pub(super) fn update_retention(
    context: &mut Context<'_>,
    rules: &[RetentionRule],
) -> Decided<Reply> {
    let too_many = Rejection::too_many("rules of retention", RETENTION_RULES_MAX);
    reject_if(rules.len() > RETENTION_RULES_MAX, too_many)?;
    let row = existing(context)?;
    if row.retention != rules {
        let retention = rules.to_vec();
        context.push(Change::TenantPut(context.tenant, Tenant { retention, ..row }));
    }
    Ok(Reply::Done)
}

/// Changes what an admin may change of the tenant.
pub(super) fn change(context: &mut Context<'_>, patch: &OwnTenantPatch) -> Decided<Reply> {
    let (row, patch) = (existing(context)?, patch.clone());
    let too_many = Rejection::too_many("webhook hosts", WEBHOOK_HOSTS_MAX);
    let hosts = patch.webhook_hosts.as_ref().map_or(0, Vec::len);
    reject_if(hosts > WEBHOOK_HOSTS_MAX, too_many)?;
    let changed = Tenant {
        name: patch.name.unwrap_or_else(|| row.name.clone()),
        webhook_hosts: patch.webhook_hosts.unwrap_or_else(|| row.webhook_hosts.clone()),
        guards_locked: patch.guards_locked.unwrap_or(row.guards_locked),
        ..row.clone()
    };
    if changed != row {
        context.push(Change::TenantPut(context.tenant, changed));
    }
    Ok(Reply::Done)
}

/// Appends an agent's own activity to the journal.
pub(super) fn record_activity(context: &mut Context<'_>, activity: &AgentActivity) -> Reply {
    let kind = EventKind::Activity(activity.clone());
    context.draft.append(context.tenant, context.actor, None, kind);
    Reply::Done
}

fn existing(context: &Context<'_>) -> Decided<Tenant> {
    let row = context.draft.tenant(context.tenant)?;
    Ok(row.ok_or_else(|| Rejection::no_such("tenant"))?)
}

/// Replaces the rule for this agent and namespace; `None` deletes it.
pub(super) fn put_rule(
    context: &mut Context<'_>,
    agent: &str,
    namespace: &str,
    policy: Option<Policy>,
) -> Decided<Reply> {
    let is_same = |rule: &Rule| rule.agent == agent && rule.namespace == namespace;
    let (tenant, created_at) = (context.tenant, context.now());
    let rule = |number, policy| Rule {
        number,
        agent: agent.to_owned(),
        namespace: namespace.to_owned(),
        policy,
        created_at,
    };
    let mut rules = context.draft.access_rules(tenant)?;
    let put = match (rules.rules.iter().position(is_same), policy) {
        (Some(_), None) => return delete_rule(context, is_same),
        // There is none already.
        (None, None) => {
            return Ok(Reply::Rule(rule(0, Policy::Allow)));
        }
        (Some(at), Some(policy)) => {
            let before = rules.rules[at].clone();
            rules.rules[at].policy = policy;
            if rules.rules[at] == before {
                return Ok(Reply::Rule(before));
            }
            rules.rules[at].clone()
        }
        (None, Some(policy)) => {
            reject_if(rules.rules.len() >= RULES_MAX, Rejection::too_many("rules", RULES_MAX))?;
            rules.last += 1;
            let new = rule(rules.last, policy);
            rules.rules.push(new.clone());
            new
        }
    };
    context.push(Change::RulesPut(tenant, rules));
    Ok(Reply::Rule(put))
}

pub(super) fn delete_rule(
    context: &mut Context<'_>,
    is_it: impl Fn(&Rule) -> bool,
) -> Decided<Reply> {
    let mut rules = context.draft.access_rules(context.tenant)?;
    let at = rules.rules.iter().position(is_it).ok_or_else(|| Rejection::no_such("rule"))?;
    let rule = rules.rules.remove(at);
    context.push(Change::RulesPut(context.tenant, rules));
    Ok(Reply::Rule(rule))
}
