//! Rules of the audit log: how its hash chains grow and lose their oldest entries, and the parts of an
//! entry. What it shows of a command is in the file of the command.

use model::api_key::ApiKey;
use model::audit::{
    AUDIT_DAYS, AUDIT_ENTRIES_MAX, AuditAct, AuditAction, AuditActor, AuditChain, AuditEnds,
    AuditEntry, Fields, KeyUse, KeyUses, short,
};
use model::id::{KeyId, TenantId, Timestamp};
use sha2::{Digest, Sha256};

use crate::change::Change;
use crate::decide::draft::Draft;
use crate::error::Result;
use crate::table::key::Key;
use crate::table::view::View;

/// Entries that make room at once, so that the next acts remove none.
const REMOVED_AT_ONCE: u64 = 1_000;
/// Most chains of which one run removes old entries.
const EXPIRED_CHAINS_MAX: usize = 200;

/// What differs before and after a command; `None` if nothing does.
pub(super) fn differing(mut before: Fields, mut entry: AuditedAct) -> Option<(Fields, AuditedAct)> {
    keep_differing(&mut before, &mut entry.fields);
    (!before.is_empty() || !entry.fields.is_empty()).then_some((before, entry))
}

/// Appends an entry to the chains of these tenants.
pub(super) fn record(
    draft: &mut Draft,
    actor: AuditActor,
    before: Fields,
    AuditedAct { action, target, fields, .. }: &AuditedAct,
    chains: impl IntoIterator<Item = TenantId>,
) -> Result<()> {
    let (target, after, action) = (short(target), fields.clone(), *action);
    let (at, source) = (draft.now, draft.command.source);
    let act = AuditAct { at, source, action, target, before, after, actor };
    for tenant in chains {
        append(draft, tenant, act.clone())?;
    }
    Ok(())
}

/// The key that acts.
pub(super) fn actor(draft: &Draft, tenant: TenantId, id: KeyId) -> Result<AuditActor> {
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
        trim(draft, tenant, chain, ends, first)?;
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
        trim(draft, tenant, chain, ends, first)?;
    }
    Ok(())
}

/// Removes the entries of a chain before `first`.
fn trim(
    draft: &mut Draft,
    tenant: TenantId,
    chain: AuditChain,
    mut ends: AuditEnds,
    first: u64,
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

/// What the audit log shows of a command. No text of a memory is among it, so that a purge need not change
/// the log. What may be secret is shown as a digest.
pub struct AuditedAct {
    pub(super) action: AuditAction,
    /// What the command is about.
    pub(super) target: String,
    /// The values of what it changes, as they are, and what else it did.
    pub(super) fields: Fields,
    /// The tenant that a command of the cluster changes: its log has the entry too.
    pub(super) tenant: Option<TenantId>,
}

impl AuditedAct {
    pub(super) fn new(action: AuditAction, target: impl Into<String>, fields: Fields) -> Self {
        Self { action, target: target.into(), fields, tenant: None }
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

pub(super) fn texts<const N: usize>(fields: [(&str, Option<String>); N]) -> Fields {
    fields.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect()
}

pub(super) fn numbers(fields: &[(&str, usize)]) -> Fields {
    fields.iter().map(|(name, number)| ((*name).to_owned(), number.to_string())).collect()
}

/// A digest, for what may be secret, cut to 16 bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    format!("SHA-256 {}", hex::encode(&Sha256::digest(bytes)[..16]))
}
