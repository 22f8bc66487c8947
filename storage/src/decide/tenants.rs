//! Rules for the tenants of the cluster and their tiers, on behalf of its operator.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::command::NewTenant;
use crate::decide::context::{Decided, reject_if};
use crate::decide::counted::Counted;
use crate::decide::draft::Draft;
use crate::index::data::Counts;
use crate::model::api_key::NewApiKey;
use crate::model::id::{KeyId, TenantId};
use crate::model::limits::{Limits, TENANTS_MAX, TIERS_MAX, Tenancy, Tier};
use crate::model::tenant::{Tenant, TenantState};
use crate::patch::TenantPatch;
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

/// Creates a tenant with its first key.
pub(super) fn create(
    draft: &mut Draft,
    new: &NewTenant,
    (key_id, key): (KeyId, &NewApiKey),
) -> Decided<Reply> {
    reject_if(draft.cluster()?.is_none(), wrong_state("the cluster is not bootstrapped yet"))?;
    let full = Rejection::WrongState(format!("a cluster has {TENANTS_MAX} tenants at most"));
    reject_if(tenants(draft).len() >= TENANTS_MAX, full)?;
    let mut tenancy = draft.tenancy()?;
    let default = || tenancy.default_tier().map(|tier| tier.name.clone());
    let tier = new.tier.clone().or_else(default).ok_or_else(|| Rejection::no_such("tier"))?;
    check_tier(&tenancy, &tier)?;
    tenancy.last = TenantId(tenancy.last.0 + 1);
    let id = tenancy.last;
    let NewTenant { name, limits, .. } = new.clone();
    let row = Tenant { name, tier, limits, created_at: draft.now, ..Tenant::default() };
    draft.push(Change::TenancyPut(tenancy));
    draft.push(Change::TenantPut(id, row.clone()));
    let key = key.clone().row(draft.now);
    draft.push(Change::ApiKeyPut(id, key_id, key));
    Ok(Reply::Tenant(id, Box::new(row)))
}

/// Changes name, state, tier or limits of a tenant. Lower limits remove nothing: from then on they
/// reject what would be more.
pub(super) fn update(draft: &mut Draft, id: TenantId, patch: &TenantPatch) -> Decided<Reply> {
    let before = existing(draft, id)?;
    let TenantPatch { name, state, tier, limits } = patch.clone();
    if let Some(tier) = &tier {
        check_tier(&draft.tenancy()?, tier)?;
    }
    let row = Tenant {
        name: name.unwrap_or_else(|| before.name.clone()),
        state: state.unwrap_or(before.state),
        tier: tier.unwrap_or_else(|| before.tier.clone()),
        limits: limits.unwrap_or_else(|| before.limits.clone()),
        ..before.clone()
    };
    if row != before {
        draft.push(Change::TenantPut(id, row.clone()));
    }
    Ok(Reply::Tenant(id, Box::new(row)))
}

/// Deletes a suspended tenant with this name, and all that belongs to it.
pub(super) fn delete(draft: &mut Draft, id: TenantId, name: &str) -> Decided<Reply> {
    let row = existing(draft, id)?;
    reject_if(row.state != TenantState::Suspended, wrong_state("suspend the tenant first"))?;
    reject_if(row.name != name, wrong_state("the tenant has another name"))?;
    let [memories, bytes, edges] = [Counted::Memories, Counted::Bytes, Counted::Edges]
        .map(|counted| draft.number(id, counted));
    let counts = Counts { memories, bytes, edges, ..draft.base.counts(id) };
    draft.push(Change::TenantRemoved(id));
    Ok(Reply::TenantDeleted(counts))
}

/// Creates or replaces a tier; without limits, deletes it.
pub(super) fn put_tier(
    draft: &mut Draft,
    name: &str,
    limits: Option<&Limits>,
    becomes_default: bool,
) -> Decided<Reply> {
    let mut tenancy = draft.tenancy()?;
    let at = tenancy.tiers.iter().position(|tier| tier.name == name);
    let mut tier = match (at, limits) {
        (Some(at), Some(limits)) => {
            tenancy.tiers[at].limits.clone_from(limits);
            tenancy.tiers[at].clone()
        }
        (None, Some(limits)) => {
            let full = Rejection::WrongState(format!("a cluster has {TIERS_MAX} tiers at most"));
            reject_if(tenancy.tiers.len() >= TIERS_MAX, full)?;
            let (name, limits) = (name.to_owned(), limits.clone());
            let tier = Tier { name, limits, is_default: false };
            tenancy.tiers.push(tier.clone());
            tier
        }
        (Some(at), None) => {
            for tenant in tenants(draft) {
                let has_tier = draft.tenant(tenant)?.is_some_and(|row| row.tier == name);
                reject_if(has_tier, wrong_state("tenants have this tier"))?;
            }
            let is_default = tenancy.tiers[at].is_default;
            reject_if(is_default, wrong_state("it is the default tier: choose another one first"))?;
            tenancy.tiers.remove(at)
        }
        (None, None) => return Err(Rejection::no_such("tier").into()),
    };
    if becomes_default {
        tenancy.tiers.iter_mut().for_each(|tier| tier.is_default = tier.name == name);
        tier.is_default = true;
    }
    draft.push(Change::TenancyPut(tenancy));
    Ok(Reply::Tier(tier))
}

/// All tenants, also those that earlier commands of the batch have created or deleted.
fn tenants(draft: &Draft) -> BTreeSet<TenantId> {
    let created = draft.changes().iter().filter_map(|change| match change {
        Change::TenantPut(id, _) => Some(*id),
        _ => None,
    });
    draft.base.tenants().into_iter().chain(created).collect()
}

fn existing(draft: &Draft, id: TenantId) -> Decided<Tenant> {
    Ok(draft.tenant(id)?.ok_or_else(|| Rejection::no_such("tenant"))?)
}

fn check_tier(tenancy: &Tenancy, name: &str) -> Decided<()> {
    reject_if(tenancy.tier(name).is_none(), Rejection::no_such("tier"))
}

fn wrong_state(reason: &str) -> Rejection {
    Rejection::WrongState(reason.to_owned())
}
