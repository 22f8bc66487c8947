//! Rules for what belongs to a tenant as a whole: its configuration, its keys, who may
//! touch which namespace, its name, and what its agents want noted.

use crate::change::Change;
use crate::command::{Decision, Rejection, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::access::{Access, Policy, RULES_MAX, Rule};
use crate::model::id::TenantId;
use crate::model::journal::{Event, EventKind};
use crate::model::tenant::{ApiKey, KEYS_MAX, KeyId, Role, Tenant};
use crate::model::thermo::SettingValue;
use crate::table::view::View;

/// Old anchors are read by the new configuration from here on: nothing is anchored anew.
pub(super) fn configure(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    changes: &[(String, SettingValue)],
) -> Result<Decision> {
    let Some(mut row) = draft.tenant(tenant)? else { return Ok(Err(no("tenant"))) };
    let thermo = match row.thermo.with(changes) {
        Ok(thermo) => Box::new(thermo),
        Err(fault) => return Ok(Err(Rejection::Setting(fault))),
    };
    if thermo != row.thermo {
        row.thermo = thermo.clone();
        draft.push(Change::TenantPut(tenant, row));
    }
    Ok(Ok(Reply::Settings(thermo)))
}

pub(super) fn rename(draft: &mut Draft<'_>, tenant: TenantId, name: &str) -> Result<Decision> {
    let Some(row) = draft.tenant(tenant)? else { return Ok(Err(no("tenant"))) };
    draft.push(Change::TenantPut(tenant, Tenant { name: name.to_owned(), ..row }));
    Ok(Ok(Reply::Done))
}

pub(super) fn create_key(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    id: KeyId,
    key: &ApiKey,
) -> Result<Decision> {
    let keys = draft.api_keys(tenant)?;
    if keys.len() >= KEYS_MAX {
        return Ok(Err(Rejection::TooMany { what: "keys".into(), max: KEYS_MAX }));
    }
    if keys.iter().any(|(known, _)| *known == id) {
        return Ok(Err(Rejection::IdTaken));
    }
    let key = ApiKey { created_at: draft.now(), last_used_at: None, ..key.clone() };
    draft.push(Change::ApiKeyPut(tenant, id, key.clone()));
    Ok(Ok(Reply::ApiKey(id, key)))
}

/// A tenant keeps one key that may administer it.
pub(super) fn delete_key(draft: &mut Draft<'_>, tenant: TenantId, id: KeyId) -> Result<Decision> {
    let keys = draft.api_keys(tenant)?;
    let Some((_, key)) = keys.iter().find(|(known, _)| *known == id) else {
        return Ok(Err(no("key")));
    };
    let administers = |(other, key): &&(KeyId, ApiKey)| *other != id && key.role >= Role::Admin;
    if key.role >= Role::Admin && keys.iter().filter(administers).count() == 0 {
        return Ok(Err(Rejection::WrongState(
            "this is the last key that may administer the tenant: create another one first".into(),
        )));
    }
    draft.push(Change::ApiKeyRemoved(tenant, id));
    Ok(Ok(Reply::ApiKey(id, key.clone())))
}

pub(super) fn set_key_namespace(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    id: KeyId,
    namespace: Option<&str>,
) -> Result<Decision> {
    let keys = draft.api_keys(tenant)?;
    let Some((_, key)) = keys.into_iter().find(|(known, _)| *known == id) else {
        return Ok(Err(no("key")));
    };
    let key = ApiKey { namespace: namespace.map(str::to_owned), ..key };
    draft.push(Change::ApiKeyPut(tenant, id, key.clone()));
    Ok(Ok(Reply::ApiKey(id, key)))
}

pub(super) fn put_rule(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    (agent, namespace): (&str, &str),
    policy: Option<Policy>,
) -> Result<Decision> {
    let mut rules = draft.access_rules(tenant)?;
    let same = |rule: &Rule| rule.agent == agent && rule.namespace == namespace;
    let before = rules.rules.iter().position(same).map(|at| rules.rules.remove(at));
    let Some(policy) = policy else {
        let Some(rule) = before else { return Ok(Err(no("rule"))) };
        draft.push(Change::RulesPut(tenant, rules));
        return Ok(Ok(Reply::Rule(rule)));
    };
    if rules.rules.len() >= RULES_MAX {
        return Ok(Err(Rejection::TooMany { what: "rules".into(), max: RULES_MAX }));
    }
    rules.last += 1;
    let rule = Rule {
        number: rules.last,
        agent: agent.to_owned(),
        namespace: namespace.to_owned(),
        policy,
        created_at: draft.now(),
    };
    rules.rules.push(rule.clone());
    draft.push(Change::RulesPut(tenant, rules));
    Ok(Ok(Reply::Rule(rule)))
}

pub(super) fn delete_rule(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    number: u64,
) -> Result<Decision> {
    let mut rules = draft.access_rules(tenant)?;
    let Some(at) = rules.rules.iter().position(|rule| rule.number == number) else {
        return Ok(Err(no("rule")));
    };
    let rule = rules.rules.remove(at);
    draft.push(Change::RulesPut(tenant, rules));
    Ok(Ok(Reply::Rule(rule)))
}

pub(super) fn note(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    details: &[String],
) -> Decision {
    let (at, kind, details) = (draft.now(), EventKind::Noted, details.to_vec());
    let event = Event { at, kind, actor, subject: None, namespace: String::new(), details };
    draft.push(Change::EventAppended(tenant, event));
    Ok(Reply::Done)
}

/// Whether whoever asks may touch `namespace`. The service itself may.
pub(super) fn check_access(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    namespace: &str,
) -> Result<std::result::Result<(), Rejection>> {
    let Some(id) = actor else { return Ok(Ok(())) };
    let access = match draft.command.access.take() {
        Some(access) => access,
        None => access_of(draft, tenant, id)?,
    };
    let allowed = access.allows(namespace);
    draft.command.access = Some(access);
    Ok(if allowed { Ok(()) } else { Err(Rejection::NamespaceForbidden(namespace.to_owned())) })
}

/// What a key may touch.
pub(super) fn access_of(draft: &Draft<'_>, tenant: TenantId, id: KeyId) -> Result<Access> {
    let rules = draft.access_rules(tenant)?;
    if rules.rules.is_empty() {
        return Ok(Access::default());
    }
    let key: Option<ApiKey> = draft.record(&crate::table::key::Key::ApiKey(tenant, id))?;
    Ok(key.map_or_else(Access::nothing, |key| rules.of(id, &key.name, key.role)))
}

fn no(what: &str) -> Rejection {
    Rejection::NoSuch(what.to_owned())
}
