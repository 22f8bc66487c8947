//! The values that an entry of the audit log shows: of the row that a command changes, and of what
//! a command did to several memories. No text of a memory is among them, so that a purge need not
//! change the log.

use sha2::{Digest, Sha256};

use crate::command::{Action, Command, EdgeRef};
use crate::decide::draft::Draft;
use crate::error::Result;
use crate::model::access::Rule;
use crate::model::api_key::ApiKey;
use crate::model::audit::{AuditChain, Fields, short};
use crate::model::duplicate::OnDuplicate;
use crate::model::edge::{Edge, relation_key};
use crate::model::id::{KeyId, MemoryId, TenantId, TriggerId};
use crate::model::retention::RetentionRule;
use crate::model::tenant::Tenant;
use crate::model::thermo::{SettingValue, Thermo};
use crate::model::trigger::{Trigger, TriggerAction};
use crate::patch::MemoryPatch;
use crate::reply::{Imported, Reply};
use crate::table::key::Key;
use crate::table::view::View;

/// Most ids of memories that an entry names.
const IDS_MAX: usize = 10;

/// The values of the row that a command is about, as the draft has it now.
pub(super) fn fields(draft: &Draft, command: &Command) -> Result<Fields> {
    let tenant = match (&command.action, command.tenant) {
        (Action::UpdateTenant(id, _), _) => return of_tenant(draft, *id),
        (Action::DeleteTenant(id, _), _) => return of_deleted_tenant(draft, *id),
        (Action::PutTier { name, .. }, _) => return of_tier(draft, name),
        (_, Some(tenant)) => tenant,
        (_, None) => return Ok(Fields::new()),
    };
    match &command.action {
        Action::CreateKey(id, _)
        | Action::RotateKey { id, .. }
        | Action::DeleteKey(id)
        | Action::SetKeyNamespace(id, _) => of_key(draft, tenant, *id),
        Action::PutRule { agent, namespace, .. } => {
            of_rule(draft, tenant, |rule| rule.agent == *agent && rule.namespace == *namespace)
        }
        Action::DeleteRule(number) => of_rule(draft, tenant, |rule| rule.number == *number),
        Action::ChangeTenant(_) => of_tenant(draft, tenant),
        Action::UpdateSettings(_) => Ok(settings(&mut (*draft.thermo(tenant)?).clone())),
        Action::UpdateRetention(_) => of_retention(draft, tenant),
        Action::DeleteMemory(id) | Action::Unfold(id) => of_memory(draft, tenant, *id),
        Action::UpdateMemory(id, _) => of_edited(draft, tenant, *id),
        Action::DeleteEdge(edge) => of_edge(draft, tenant, edge),
        Action::CreateTrigger(id, _) | Action::UpdateTrigger(id, _) | Action::DeleteTrigger(id) => {
            of_trigger(draft, tenant, *id)
        }
        _ => Ok(Fields::new()),
    }
}

/// Removes what is equal in both.
pub(super) fn keep_differing(before: &mut Fields, after: &mut Fields) {
    let equal: Vec<_> = before
        .iter()
        .filter(|(name, text)| after.get(*name) == Some(*text))
        .map(|(name, _)| name.clone())
        .collect();
    for name in equal {
        before.remove(&name);
        after.remove(&name);
    }
}

/// What a command did to several memories, or rows about them.
pub(super) fn bulk_fields(command: &Command, reply: &Reply) -> Fields {
    if let Reply::Imported(outcomes) = reply {
        let created = outcomes.iter().filter(|it| **it == Imported::Created).count();
        return if created > 0 { numbers(&[("created", created)]) } else { Fields::new() };
    }
    let ids = match &command.action {
        Action::DeleteMemories(ids, _)
        | Action::UpdateMemories(ids, _)
        | Action::RestoreMemories(ids)
        | Action::PurgeMemories(ids) => ids,
        Action::RemoveTraces(rows) => {
            let count = rows.events.len() + rows.deliveries.len() + rows.receipts.len();
            return numbers(&[("rows", count)]);
        }
        _ => return Fields::new(),
    };
    let Reply::Bulk(outcomes) = reply else { return Fields::new() };
    let done: Vec<_> = ids.iter().zip(outcomes).filter(|(_, outcome)| outcome.is_ok()).collect();
    if done.is_empty() {
        return Fields::new();
    }
    let rejected = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let mut fields = numbers(&[("done", done.len()), ("rejected", rejected)]);
    let named: Vec<_> = done.iter().take(IDS_MAX).map(|(id, _)| id.to_string()).collect();
    fields.insert("first_ids".into(), named.join(" "));
    let all: Vec<_> = done.iter().flat_map(|(id, _)| id.0).collect();
    fields.insert("ids".into(), digest(&all));
    if let Action::UpdateMemories(_, patch) = &command.action {
        fields.extend(patch_fields(patch));
    }
    fields
}

/// What a bulk change sets. Texts show that they are set.
fn patch_fields(patch: &MemoryPatch) -> Fields {
    let MemoryPatch { label, memory_type, namespace, decay_class, .. } = patch;
    let flag = |flag: Option<bool>| flag.map(|on| on.to_string());
    let heat = |heat: Option<f32>| heat.map(|heat| heat.to_string());
    texts([
        ("set.label", label.as_ref().map(|_| "changed".to_owned())),
        ("set.memory_type", memory_type.map(|memory_type| memory_type.name().to_owned())),
        ("set.namespace", namespace.as_deref().map(short)),
        ("set.decay_class", decay_class.map(|class| class.name().to_owned())),
        ("set.is_pinned", flag(patch.is_pinned)),
        ("set.is_locked", flag(patch.is_locked)),
        ("set.is_flagged", flag(patch.is_flagged)),
        ("set.min_heat", heat(patch.min_heat)),
        ("set.current_heat", heat(patch.current_heat)),
        ("set.tags", patch.details.tags.as_ref().map(|_| "changed".to_owned())),
        ("set.metadata", patch.details.metadata.as_ref().map(|_| "changed".to_owned())),
    ])
}

/// The values of a tenant.
pub(super) fn tenant_fields(row: &Tenant) -> Fields {
    let limits = row.limits.iter().map(|(limit, max)| {
        let max = max.map_or_else(|| "unlimited".to_owned(), |max| max.to_string());
        (format!("limits.{}", limit.name()), max)
    });
    let own = [
        ("name".to_owned(), short(&row.name)),
        ("state".to_owned(), row.state.name().to_owned()),
        ("tier".to_owned(), row.tier.clone()),
        ("webhook_hosts".to_owned(), short(&row.webhook_hosts.join(" "))),
        ("guards_locked".to_owned(), row.guards_locked.to_string()),
    ];
    own.into_iter().chain(limits).collect()
}

fn of_tenant(draft: &Draft, id: TenantId) -> Result<Fields> {
    Ok(draft.tenant(id)?.map(|row| tenant_fields(&row)).unwrap_or_default())
}

/// Of a deleted tenant, the operator keeps the heads of its chains.
fn of_deleted_tenant(draft: &Draft, id: TenantId) -> Result<Fields> {
    let mut fields = of_tenant(draft, id)?;
    if !fields.is_empty() {
        for chain in AuditChain::ALL {
            let ends = draft.audit_ends(id, chain)?;
            let head = format!("{} {}", ends.last, hex::encode(ends.head));
            fields.insert(format!("audit.{}", chain.name()), head);
        }
    }
    Ok(fields)
}

fn of_tier(draft: &Draft, name: &str) -> Result<Fields> {
    let tenancy = draft.tenancy()?;
    let Some(tier) = tenancy.tier(name) else { return Ok(Fields::new()) };
    let limits = tier.limits.iter();
    let limits = limits.map(|(limit, max)| (limit.name().to_owned(), max.to_string()));
    let default = tier.is_default.then(|| ("default".to_owned(), true.to_string()));
    Ok(limits.chain([("name".to_owned(), tier.name.clone())]).chain(default).collect())
}

fn of_key(draft: &Draft, tenant: TenantId, id: KeyId) -> Result<Fields> {
    let Some(key) = draft.record::<ApiKey>(&Key::ApiKey(tenant, id))? else {
        return Ok(Fields::new());
    };
    Ok(texts([
        ("name", Some(short(&key.name))),
        ("role", Some(key.role.name().to_owned())),
        ("namespace", key.namespace),
        ("namespaces", Some(short(&key.namespaces.join(" "))).filter(|names| !names.is_empty())),
        ("expires_at", key.expires_at.map(|at| at.to_string())),
        ("rotated_at", key.rotated_at.map(|at| at.to_string())),
        ("former_valid_until", key.former.map(|former| former.valid_until.to_string())),
    ]))
}

fn of_rule(draft: &Draft, tenant: TenantId, is_it: impl Fn(&Rule) -> bool) -> Result<Fields> {
    let rules = draft.access_rules(tenant)?.rules;
    let Some(rule) = rules.into_iter().find(is_it) else { return Ok(Fields::new()) };
    Ok(texts([
        ("agent", Some(short(&rule.agent))),
        ("namespace", Some(short(&rule.namespace))),
        ("policy", Some(format!("{:?}", rule.policy).to_lowercase())),
    ]))
}

fn of_retention(draft: &Draft, tenant: TenantId) -> Result<Fields> {
    let rules = draft.tenant(tenant)?.map(|row| row.retention).unwrap_or_default();
    let text = |rule: &RetentionRule| {
        let RetentionRule { namespace, memory_type, action, after_days } = rule;
        let namespace = namespace.as_deref().unwrap_or("*");
        let memory_type = memory_type.map_or("any", |memory_type| memory_type.name());
        short(&format!("{} {memory_type} of {namespace} after {after_days} days", action.name()))
    };
    Ok((1..).zip(&rules).map(|(number, rule)| (format!("rule {number}"), text(rule))).collect())
}

fn of_memory(draft: &Draft, tenant: TenantId, id: MemoryId) -> Result<Fields> {
    let Some(memory) = draft.memory(tenant, id)? else { return Ok(Fields::new()) };
    Ok(texts([
        ("namespace", Some(short(&memory.namespace))),
        ("memory_type", Some(memory.memory_type.name().to_owned())),
        ("created_at", Some(memory.created_at.to_string())),
    ]))
}

/// What an edit of a memory may change: its text, its lock and its namespace. The id is part of the
/// digest, so that the log does not tell which memories have equal texts.
fn of_edited(draft: &Draft, tenant: TenantId, id: MemoryId) -> Result<Fields> {
    let Some(memory) = draft.memory(tenant, id)? else { return Ok(Fields::new()) };
    Ok(texts([
        ("label", Some(digest(&[&id.0, memory.label.as_bytes()].concat()))),
        ("is_locked", Some(memory.is_locked.to_string())),
        ("namespace", Some(short(&memory.namespace))),
    ]))
}

fn of_edge(draft: &Draft, tenant: TenantId, named: &EdgeRef) -> Result<Fields> {
    let EdgeRef { source, target, relation } = named;
    let key = Key::Edge(tenant, *source, *target, relation_key(relation));
    let edge: Option<Edge> = draft.record(&key)?;
    Ok(texts([("relation", edge.map(|edge| digest(edge.relation.as_bytes())))]))
}

fn of_trigger(draft: &Draft, tenant: TenantId, id: TriggerId) -> Result<Fields> {
    let Some(trigger) = draft.trigger(tenant, id)? else { return Ok(Fields::new()) };
    let Trigger { name, event, action, namespace, filter, max_fires, enabled, .. } = trigger;
    let (url, secret) = match &action {
        TriggerAction::Webhook { url, secret, .. } => {
            (Some(address(url)), secret.as_ref().map(|secret| digest(&secret.0)))
        }
        _ => (None, None),
    };
    let parameter = match &action {
        TriggerAction::Boost(strength) => Some(strength.to_string()),
        TriggerAction::Tag(text) | TriggerAction::Notify(text) => {
            text.as_deref().map(|text| digest(text.as_bytes()))
        }
        _ => None,
    };
    let count = draft.firings(tenant, id)?.count;
    let description = Some(&trigger.description).filter(|text| !text.is_empty());
    let description = description.map(|text| digest(text.as_bytes()));
    let cooldown = Some(trigger.cooldown_seconds).filter(|seconds| *seconds > 0);
    let pattern = filter.label_pattern.as_ref().map(|pattern| digest(pattern.as_bytes()));
    Ok(texts([
        ("name", Some(short(&name))),
        ("owner", trigger.owner.map(|key| key.to_string())),
        ("count", Some(count).filter(|count| *count > 0).map(|count| count.to_string())),
        ("event", Some(event.name().to_owned())),
        ("action", Some(action.kind().name().to_owned())),
        ("url", url),
        ("secret", secret),
        ("action_parameter", parameter),
        ("description", description),
        ("namespace", namespace.as_deref().map(short)),
        ("filter_namespace", filter.namespace.as_deref().map(short)),
        ("filter_memory_type", filter.memory_type.map(|of| of.name().to_owned())),
        ("filter_label_pattern", pattern),
        ("filter_heat_below", filter.heat_below.map(|heat| heat.to_string())),
        ("filter_heat_above", filter.heat_above.map(|heat| heat.to_string())),
        ("cooldown_seconds", cooldown.map(|seconds| seconds.to_string())),
        ("max_fires", max_fires.map(|max| max.to_string())),
        ("enabled", Some(enabled.to_string())),
    ]))
}

/// An address without the parts that may be secret. The digest tells two of one host apart.
fn address(url: &str) -> String {
    let host = url.split("://").nth(1).unwrap_or(url).split(['/', '?', '#']).next();
    let host = host.unwrap_or_default().rsplit('@').next().unwrap_or_default();
    format!("{} ({})", short(host), digest(url.as_bytes()))
}

/// A digest, for what may be secret, cut to 16 bytes.
fn digest(bytes: &[u8]) -> String {
    format!("SHA-256 {}", hex::encode(&Sha256::digest(bytes)[..16]))
}

fn settings(thermo: &mut Thermo) -> Fields {
    let text = |value: SettingValue| match value {
        SettingValue::Number(number) => number.to_string(),
        SettingValue::Switch(on) => on.to_string(),
        SettingValue::OnDuplicate(action) => OnDuplicate::name(action).to_owned(),
        SettingValue::Default => "default".to_owned(),
    };
    thermo.settings().iter().map(|setting| (setting.name.clone(), text(setting.value()))).collect()
}

fn texts<const N: usize>(fields: [(&str, Option<String>); N]) -> Fields {
    fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect()
}

fn numbers(fields: &[(&str, usize)]) -> Fields {
    fields.iter().map(|(name, number)| ((*name).to_owned(), number.to_string())).collect()
}
