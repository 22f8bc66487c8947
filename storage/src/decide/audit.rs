//! Rules of the audit log: which commands it records, and how its hash chains grow and lose their
//! oldest entries. `audit_fields.rs` has the values that an entry shows.

use crate::change::Change;
use crate::command::{Action, Command, Priority};
use crate::decide::audit_fields::{bulk_fields, fields, keep_differing, tenant_fields};
use crate::decide::draft::Draft;
use crate::error::Result;
use crate::model::api_key::ApiKey;
use crate::model::audit::{
    AUDIT_DAYS, AUDIT_ENTRIES_MAX, AuditAct, AuditAction, AuditActor, AuditChain, AuditEnds,
    AuditEntry, Fields, KeyUse, KeyUses, short,
};
use crate::model::id::{KeyId, TenantId, Timestamp};
use crate::model::journal::EventKind;
use crate::reply::Reply;
use crate::table::key::Key;
use crate::table::view::View;

/// Entries that make room at once, so that the next acts remove none.
const REMOVED_AT_ONCE: u64 = 1_000;
/// Most chains of which one run removes old entries.
const EXPIRED_CHAINS_MAX: usize = 200;

/// A command that the audit log records.
pub(super) struct Audited {
    action: AuditAction,
    target: String,
    before: Fields,
}

/// What the audit log records of a command that is about to be decided; `None` if nothing.
pub(super) fn begin(draft: &Draft, command: &Command) -> Result<Option<Audited>> {
    let Some((action, target)) = act_of(command) else { return Ok(None) };
    let is_operators = command.actor.is_none() && command.priority() == Priority::Client;
    let target = match command.tenant.filter(|_| is_operators) {
        Some(tenant) => format!("{target} of tenant {}", tenant.0),
        None => target,
    };
    Ok(Some(Audited { action, target, before: fields(draft, command)? }))
}

/// Records what a command did, unless it changed nothing.
pub(super) fn record(
    draft: &mut Draft,
    command: &Command,
    audited: Audited,
    reply: &Reply,
) -> Result<()> {
    let Audited { action, mut target, mut before } = audited;
    let mut after = match &command.action {
        Action::RecordOperation(_, _, fields) => fields.iter().cloned().collect(),
        Action::AdvanceTick(_) => deleted_fields(draft),
        _ => fields(draft, command)?,
    };
    if let Reply::Tenant(id, row) = reply {
        target = format!("tenant {}", id.0);
        after = tenant_fields(row);
    }
    after.extend(bulk_fields(command, reply));
    keep_differing(&mut before, &mut after);
    if before.is_empty() && after.is_empty() {
        return Ok(());
    }
    let actor = actor_of(draft, command)?;
    let act = AuditAct {
        at: draft.now,
        source: command.source,
        action,
        target: short(&target),
        before,
        after,
        actor,
    };
    for tenant in chains_of(command, reply, &act.actor).into_iter().flatten() {
        append(draft, tenant, act.clone())?;
    }
    Ok(())
}

/// Records kinds of use that are new of a key.
pub(super) fn record_key_uses(
    draft: &mut Draft,
    tenant: TenantId,
    id: KeyId,
    kinds: &[&KeyUse],
) -> Result<()> {
    let Some(key) = draft.record::<ApiKey>(&Key::ApiKey(tenant, id))? else { return Ok(()) };
    let mut uses: KeyUses = draft.record(&Key::KeyUses(tenant, id))?.unwrap_or_default();
    let new: Vec<_> = kinds.iter().filter(|kind| uses.add(kind, draft.now)).collect();
    if new.is_empty() {
        return Ok(());
    }
    draft.push(Change::KeyUsesPut(tenant, id, uses));
    let actor = AuditActor::Key { id, name: short(&key.name), role: key.role };
    for kind in new {
        append(draft, tenant, first_use(draft.now, id, &actor, kind))?;
    }
    Ok(())
}

fn first_use(at: Timestamp, id: KeyId, actor: &AuditActor, kind: &KeyUse) -> AuditAct {
    let after = [
        ("network", kind.network.to_string()),
        ("client", short(&kind.client)),
        ("operations_of", kind.role.name().to_owned()),
    ];
    AuditAct {
        at,
        actor: actor.clone(),
        source: Some(kind.network),
        action: AuditAction::KeyUse,
        target: format!("key {id}"),
        before: Fields::new(),
        after: after.map(|(name, text)| (name.to_owned(), text)).into(),
    }
}

/// Removes entries that are too old, of some chains.
pub(super) fn expire(draft: &mut Draft) -> Result<()> {
    let oldest_kept = Timestamp(draft.now.0 - AUDIT_DAYS * Timestamp::DAY_MICROS);
    for (tenant, chain) in draft.base.audits_before(oldest_kept, EXPIRED_CHAINS_MAX) {
        // It may have been deleted in the same batch.
        if tenant != TenantId::OPERATOR && draft.tenant_row(tenant)?.is_none() {
            continue;
        }
        let ends = draft.audit_ends(tenant, chain)?;
        // Entries are in the order of their times.
        let (mut first, mut end) = (ends.first, ends.last + 1);
        while first < end {
            let middle = first + (end - first) / 2;
            let entry = entry(draft, tenant, chain, middle)?;
            match entry.is_none_or(|entry| entry.act.at < oldest_kept) {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        trim(draft, tenant, chain, (ends, first))?;
    }
    Ok(())
}

fn entry(
    draft: &Draft,
    tenant: TenantId,
    chain: AuditChain,
    number: u64,
) -> Result<Option<AuditEntry>> {
    draft.record(&Key::Audit(tenant, chain, number))
}

fn append(draft: &mut Draft, tenant: TenantId, act: AuditAct) -> Result<()> {
    let chain = act.action.chain();
    let mut ends = draft.audit_ends(tenant, chain)?;
    let entry = AuditEntry::after(&ends, act);
    if ends.first > ends.last {
        ends.first_at = entry.act.at;
    }
    (ends.last, ends.head) = (entry.number, entry.hash);
    draft.push(Change::AuditAppended(tenant, chain, entry, ends.clone()));
    if ends.last + 1 - ends.first > AUDIT_ENTRIES_MAX {
        let first = ends.first + REMOVED_AT_ONCE;
        trim(draft, tenant, chain, (ends, first))?;
    }
    Ok(())
}

/// Removes the entries of a chain before `first`.
fn trim(
    draft: &mut Draft,
    tenant: TenantId,
    chain: AuditChain,
    (mut ends, first): (AuditEnds, u64),
) -> Result<()> {
    if first <= ends.first {
        return Ok(());
    }
    ends.anchor = match entry(draft, tenant, chain, first - 1)? {
        Some(last_removed) => last_removed.hash,
        None => ends.head,
    };
    ends.first = first;
    ends.first_at = match entry(draft, tenant, chain, first)? {
        Some(entry) if first <= ends.last => entry.act.at,
        _ => Timestamp(i64::MAX),
    };
    draft.push(Change::AuditTrimmed(tenant, chain, ends));
    Ok(())
}

/// What a command does, and to what; `None` if the audit log does not record it.
fn act_of(command: &Command) -> Option<(AuditAction, String)> {
    use AuditAction as Act;
    Some(match &command.action {
        Action::CreateKey(id, _) => (Act::KeyCreate, format!("key {id}")),
        Action::RotateKey { id, .. } => (Act::KeyRotate, format!("key {id}")),
        Action::DeleteKey(id) => (Act::KeyDelete, format!("key {id}")),
        Action::SetKeyNamespace(id, _) => (Act::KeyNamespace, format!("key {id}")),
        Action::PutRule { agent, namespace, .. } => {
            (Act::RuleChange, format!("access rule of {agent} for {namespace}"))
        }
        Action::DeleteRule(number) => (Act::RuleChange, format!("access rule {number}")),
        Action::ChangeTenant(_) => {
            (Act::TenantChange, format!("tenant {}", command.tenant.map_or(0, |tenant| tenant.0)))
        }
        Action::UpdateSettings(_) => (Act::SettingsChange, "settings".into()),
        Action::UpdateRetention(_) => (Act::RetentionChange, "rules of retention".into()),
        Action::AdvanceTick(_) => (Act::RetentionDelete, "memories".into()),
        Action::DeleteMemory(id) | Action::Unfold(id) => {
            (Act::MemoryDelete, format!("memory {id}"))
        }
        Action::UpdateMemory(id, _) => (Act::MemoryChange, format!("memory {id}")),
        Action::DeleteEdge(edge) => {
            (Act::EdgeDelete, format!("edge from {} to {}", edge.source, edge.target))
        }
        Action::DeleteMemories(..) => (Act::MemoryDeleteBulk, "memories".into()),
        Action::UpdateMemories(..) => (Act::MemoryChangeBulk, "memories".into()),
        Action::RestoreMemories(_) => (Act::MemoryRestoreBulk, "memories".into()),
        Action::Import(_) => (Act::MemoryImport, "import".into()),
        Action::PurgeMemories(_) => (Act::MemoryPurge, "memories".into()),
        Action::RemoveTraces(_) => (Act::MemoryPurge, "traces of memories".into()),
        Action::CreateTrigger(id, _) => (Act::TriggerCreate, format!("trigger {id}")),
        Action::UpdateTrigger(id, _) => (Act::TriggerChange, format!("trigger {id}")),
        Action::DeleteTrigger(id) => (Act::TriggerDelete, format!("trigger {id}")),
        // Its number is known once it is created.
        Action::CreateTenant { .. } => (Act::TenantCreate, "tenant".into()),
        Action::UpdateTenant(id, _) => (Act::TenantChange, format!("tenant {}", id.0)),
        Action::DeleteTenant(id, _) => (Act::TenantDelete, format!("tenant {}", id.0)),
        Action::PutTier { name, .. } => (Act::TierChange, format!("tier {name}")),
        Action::RecordOperation(action, target, _) => (*action, target.clone()),
        Action::ReleaseWebhooks => (Act::WebhooksRelease, "webhooks".into()),
        Action::StartModelChange(model, _) => (Act::ModelChange, format!("model {}", model.name)),
        Action::CancelModelChange | Action::ForceModelSwitch => {
            (Act::ModelChange, "next model".into())
        }
        _ => return None,
    })
}

/// Who sent a command. Commands of clients without a key are those of the operator.
fn actor_of(draft: &Draft, command: &Command) -> Result<AuditActor> {
    let (Some(id), Some(tenant)) = (command.actor, command.tenant) else {
        return Ok(match command.priority() {
            Priority::Client => AuditActor::Operator,
            Priority::Background => AuditActor::Service,
        });
    };
    // A key may have deleted itself.
    let key: Option<ApiKey> = match draft.record(&Key::ApiKey(tenant, id))? {
        None => draft.base.record(&Key::ApiKey(tenant, id))?,
        key => key,
    };
    Ok(key.map_or(AuditActor::Service, |key| AuditActor::Key {
        id,
        name: short(&key.name),
        role: key.role,
    }))
}

/// The tenants in whose chains an act is recorded. What the operator does to a tenant is in both.
fn chains_of(command: &Command, reply: &Reply, actor: &AuditActor) -> [Option<TenantId>; 2] {
    let operator = Some(TenantId::OPERATOR);
    match (&command.action, command.tenant) {
        (Action::DeleteTenant(..), _) => [operator, None],
        (Action::CreateTenant { .. } | Action::UpdateTenant(..), _) => match reply {
            Reply::Tenant(id, _) => [operator, Some(*id)],
            _ => [operator, None],
        },
        (_, Some(tenant)) if *actor == AuditActor::Operator => [operator, Some(tenant)],
        (_, tenant) => [tenant.or(operator), None],
    }
}

/// The number of memories that the command deleted.
fn deleted_fields(draft: &Draft) -> Fields {
    let is_deletion = |change: &&Change| matches!(change, Change::EventAppended(_, event) if matches!(event.kind, EventKind::Deleted(_)));
    let deleted = draft.changes_of_command().iter().filter(is_deletion).count();
    let fields = [("deleted".to_owned(), deleted.to_string())];
    fields.into_iter().filter(|_| deleted > 0).collect()
}
