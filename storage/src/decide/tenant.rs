//! Commands for a tenant as a whole: its settings and its name, its access rules, and activities that
//! agents record.

use model::access::{Policy, RULES_MAX, Rule};
use model::audit::{AuditAction, Fields, short};
use model::bounded::bounded;
use model::duplicate::OnDuplicate;
use model::guard::{GUARD_PATTERNS_OF_TENANT_MAX, GUARD_RULES_MAX, Guard, GuardRule};
use model::journal::{AgentActivity, EventKind};
use model::retention::{RETENTION_RULES_MAX, RetentionRule};
use model::tenant::{Tenant, WEBHOOK_HOSTS_MAX};
use model::thermo::SettingValue;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, texts};
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::tenants::tenant_row;
use crate::error::Result;
use crate::etag::Etag;
use crate::patch::OwnTenantPatch;
use crate::reply::{Rejection, SettingsReply};
use crate::table::view::View;

/// Most settings of a command: more than a request can name.
const SETTINGS_MAX: usize = 1_024;

/// Changes settings, all or none. Anchors stay: from here on the new settings apply to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateSettings(
    #[serde(deserialize_with = "bounded::<SETTINGS_MAX, _, _>")] pub Vec<(String, SettingValue)>,
);

impl TenantRule for UpdateSettings {
    type Reply = SettingsReply;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<SettingsReply> {
        let mut row = existing(context)?;
        let thermo = Box::new(row.thermo.with(&self.0).map_err(Rejection::Setting)?);
        if thermo != row.thermo {
            row.thermo = thermo.clone();
            context.push(Change::TenantPut(context.tenant, row));
        }
        Ok(SettingsReply(thermo))
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.tenant_tag()
    }
}

impl UpdateSettings {
    fn audit(&self, context: &Context<'_>, _reply: Option<&SettingsReply>) -> Result<AuditedAct> {
        let fields = self.audited_row(context)?;
        Ok(AuditedAct::new(AuditAction::SettingsChange, "settings", fields))
    }

    fn audited_row(&self, context: &Context<'_>) -> Result<Fields> {
        let text = |value: SettingValue| match value {
            SettingValue::Number(number) => number.to_string(),
            SettingValue::Switch(on) => on.to_string(),
            SettingValue::OnDuplicate(action) => OnDuplicate::name(action).to_owned(),
            SettingValue::Default => "default".to_owned(),
        };
        let mut thermo = (*context.thermo()?).clone();
        let settings = thermo.settings();
        Ok(settings.iter().map(|setting| (setting.name.clone(), text(setting.value()))).collect())
    }
}

/// Replaces the rules of retention.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateRetention(
    #[serde(deserialize_with = "bounded::<RETENTION_RULES_MAX, _, _>")] pub Vec<RetentionRule>,
);

impl TenantRule for UpdateRetention {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        let too_many = Rejection::too_many("rules of retention", RETENTION_RULES_MAX);
        reject_if(self.0.len() > RETENTION_RULES_MAX, too_many)?;
        let row = existing(context)?;
        if row.retention != self.0 {
            let retention = self.0.clone();
            context.push(Change::TenantPut(context.tenant, Tenant { retention, ..row }));
        }
        Ok(())
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.tenant_tag()
    }
}

impl UpdateRetention {
    fn audit(&self, context: &Context<'_>, _reply: Option<&()>) -> Result<AuditedAct> {
        let fields = self.audited_row(context)?;
        Ok(AuditedAct::new(AuditAction::RetentionChange, "rules of retention", fields))
    }

    fn audited_row(&self, context: &Context<'_>) -> Result<Fields> {
        let rules = context.draft.tenant(context.tenant)?.map(|row| row.retention);
        let text = |rule: &RetentionRule| {
            let RetentionRule { namespace, memory_type, action, after_days } = rule;
            let namespace = namespace.as_deref().unwrap_or("*");
            let memory_type = memory_type.map_or("any", |memory_type| memory_type.name());
            short(&format!(
                "{} {memory_type} of {namespace} after {after_days} days",
                action.name()
            ))
        };
        let rules = (1..).zip(rules.iter().flatten());
        Ok(rules.map(|(number, rule)| (format!("rule {number}"), text(rule))).collect())
    }
}

/// Replaces the rules of the guard. Present memories stay as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateGuard(
    #[serde(deserialize_with = "bounded::<GUARD_RULES_MAX, _, _>")] pub Vec<GuardRule>,
);

impl TenantRule for UpdateGuard {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        let patterns: usize = self.0.iter().map(|rule| rule.patterns.len()).sum();
        let max = GUARD_PATTERNS_OF_TENANT_MAX;
        reject_if(patterns > max, Rejection::too_many("patterns of the guard", max))?;
        let row = existing(context)?;
        if row.guard.rules != self.0 {
            let guard = Guard { version: row.guard.version + 1, rules: self.0.clone() };
            context.push(Change::TenantPut(context.tenant, Tenant { guard, ..row }));
        }
        Ok(())
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.tenant_tag()
    }
}

impl UpdateGuard {
    fn audit(&self, context: &Context<'_>, _reply: Option<&()>) -> Result<AuditedAct> {
        let guard = context.draft.tenant(context.tenant)?.map(|row| row.guard).unwrap_or_default();
        let text = |rule: &GuardRule| {
            let GuardRule { namespace, secrets, numbers, emails, instructions, patterns } = rule;
            let fixed = [
                ("secrets", secrets),
                ("numbers", numbers),
                ("emails", emails),
                ("instructions", instructions),
            ];
            let fixed = fixed.map(|(name, action)| format!("{name} {}", action.name()));
            let own = patterns.iter().map(|own| format!("{} {}", own.name, own.action.name()));
            let all: Vec<_> = fixed.into_iter().chain(own).collect();
            short(&format!("{}: {}", namespace.as_deref().unwrap_or("*"), all.join(", ")))
        };
        let rules = (1..).zip(&guard.rules);
        let rules = rules.map(|(number, rule)| (format!("rule {number}"), text(rule)));
        // A pattern alone may differ.
        let version = ("version".to_owned(), guard.version.to_string());
        let fields = rules.chain([version]).collect();
        Ok(AuditedAct::new(AuditAction::GuardChange, "rules of the guard", fields))
    }
}

/// Changes what an admin may change of the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeTenant(pub OwnTenantPatch);

impl TenantRule for ChangeTenant {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        let (row, patch) = (existing(context)?, self.0.clone());
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
        Ok(())
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.tenant_tag()
    }
}

impl ChangeTenant {
    fn audit(&self, context: &Context<'_>, _reply: Option<&()>) -> Result<AuditedAct> {
        let fields = tenant_row(context.draft, context.tenant)?;
        Ok(AuditedAct::new(
            AuditAction::TenantChange,
            format!("tenant {}", context.tenant.0),
            fields,
        ))
    }
}

/// Appends an agent's own activity to the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordActivity(pub AgentActivity);

impl TenantRule for RecordActivity {
    type Reply = ();
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        let kind = EventKind::Activity(self.0.clone());
        context.draft.append(context.tenant, context.actor, None, kind);
        Ok(())
    }
}

fn existing(context: &Context<'_>) -> Decided<Tenant> {
    let row = context.draft.tenant(context.tenant)?;
    Ok(row.ok_or_else(|| Rejection::no_such("tenant"))?)
}

/// Creates, replaces or deletes the access rule of an agent and a namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutRule {
    /// Id or name of a key, or `*`.
    pub agent: String,
    /// A namespace, or `*`.
    pub namespace: String,
    /// The new policy; `None` deletes the rule.
    pub policy: Option<Policy>,
}

impl PutRule {
    fn is_same(&self, rule: &Rule) -> bool {
        rule.agent == self.agent && rule.namespace == self.namespace
    }
}

impl TenantRule for PutRule {
    type Reply = Rule;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Rule> {
        let (tenant, created_at) = (context.tenant, context.now());
        let rule = |number, policy| Rule {
            number,
            agent: self.agent.clone(),
            namespace: self.namespace.clone(),
            policy,
            created_at,
        };
        let mut rules = context.draft.access_rules(tenant)?;
        let at = rules.rules.iter().position(|rule| self.is_same(rule));
        let put = match (at, self.policy) {
            (Some(_), None) => return delete_rule(context, |rule| self.is_same(rule)),
            // There is none already.
            (None, None) => return Ok(rule(0, Policy::Allow)),
            (Some(at), Some(policy)) => {
                let before = rules.rules[at].clone();
                rules.rules[at].policy = policy;
                if rules.rules[at] == before {
                    return Ok(before);
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
        Ok(put)
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        Ok(Some(Etag::of(&context.draft.access_rules(context.tenant)?)))
    }
}

impl PutRule {
    fn audit(&self, context: &Context<'_>, _reply: Option<&Rule>) -> Result<AuditedAct> {
        let fields = rule_row(context, |rule| self.is_same(rule))?;
        Ok(AuditedAct::new(
            AuditAction::RuleChange,
            format!("access rule of {} for {}", self.agent, self.namespace),
            fields,
        ))
    }
}

/// Deletes the access rule with this number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteRule(pub u64);

impl TenantRule for DeleteRule {
    type Reply = Rule;
    const CLASS: Class = Class::OnlyRemoves;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Rule> {
        delete_rule(context, |rule| rule.number == self.0)
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        Ok(Some(Etag::of(&context.draft.access_rules(context.tenant)?)))
    }
}

impl DeleteRule {
    fn audit(&self, context: &Context<'_>, _reply: Option<&Rule>) -> Result<AuditedAct> {
        let fields = rule_row(context, |rule| rule.number == self.0)?;
        Ok(AuditedAct::new(AuditAction::RuleChange, format!("access rule {}", self.0), fields))
    }
}

fn delete_rule(context: &mut Context<'_>, is_it: impl Fn(&Rule) -> bool) -> Decided<Rule> {
    let mut rules = context.draft.access_rules(context.tenant)?;
    let at = rules.rules.iter().position(is_it).ok_or_else(|| Rejection::no_such("rule"))?;
    let rule = rules.rules.remove(at);
    context.push(Change::RulesPut(context.tenant, rules));
    Ok(rule)
}

fn rule_row(context: &Context<'_>, is_it: impl Fn(&Rule) -> bool) -> Result<Fields> {
    let rules = context.draft.access_rules(context.tenant)?.rules;
    let Some(rule) = rules.into_iter().find(is_it) else { return Ok(Fields::new()) };
    Ok(texts([
        ("agent", Some(short(&rule.agent))),
        ("namespace", Some(short(&rule.namespace))),
        ("policy", Some(format!("{:?}", rule.policy).to_lowercase())),
    ]))
}
