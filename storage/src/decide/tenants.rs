//! Commands for the tenants of the cluster and their tiers, on behalf of its operator.

use std::collections::BTreeSet;

use index::data::Counts;
use model::api_key::NewApiKey;
use model::audit::{AuditAction, AuditChain, Fields, short};
use model::id::{KeyId, TenantId};
use model::tenant::{
    Limits, OwnLimits, TENANTS_MAX, TIERS_MAX, Tenancy, Tenant, TenantState, Tier,
};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::AuditedAct;
use crate::decide::context::{Decided, reject_if};
use crate::decide::counted::Counted;
use crate::decide::draft::Draft;
use crate::decide::rule::{Class, ClusterAudit, ClusterRule};
use crate::error::Result;
use crate::patch::TenantPatch;
use crate::reply::{Rejection, TenantDeleted, TenantReply};
use crate::table::view::View;

/// A tenant to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTenant {
    /// Its name.
    pub name: String,
    /// Name of its tier; `None` is the default one.
    pub tier: Option<String>,
    /// Limits of its own.
    pub limits: OwnLimits,
}

/// Creates a tenant with its first key; the rule sets its number and the times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateTenant {
    /// The tenant.
    pub tenant: NewTenant,
    /// Id of its first key.
    pub key_id: KeyId,
    /// Row of that key.
    pub key: NewApiKey,
}

impl ClusterRule for CreateTenant {
    type Reply = TenantReply;
    const CLASS: Class = Class::AddsData;
    const AUDIT: ClusterAudit<Self> = Some(Self::audit);

    fn decide(&self, draft: &mut Draft) -> Decided<TenantReply> {
        reject_if(draft.cluster()?.is_none(), wrong_state("the cluster is not bootstrapped yet"))?;
        let full = Rejection::WrongState(format!("a cluster has {TENANTS_MAX} tenants at most"));
        reject_if(tenants(draft).len() >= TENANTS_MAX, full)?;
        let mut tenancy = draft.tenancy()?;
        let NewTenant { name, tier, limits } = self.tenant.clone();
        let default = || tenancy.default_tier().map(|tier| tier.name.clone());
        let tier = tier.or_else(default).ok_or_else(|| Rejection::no_such("tier"))?;
        check_tier(&tenancy, &tier)?;
        tenancy.last = TenantId(tenancy.last.0 + 1);
        let id = tenancy.last;
        let row = Tenant { name, tier, limits, created_at: draft.now, ..Tenant::default() };
        draft.push(Change::TenancyPut(tenancy));
        draft.push(Change::TenantPut(id, row.clone()));
        let key = self.key.clone().row(draft.now);
        draft.push(Change::ApiKeyPut(id, self.key_id, key));
        Ok(TenantReply { id, tenant: Box::new(row) })
    }
}

impl CreateTenant {
    fn audit(&self, _draft: &Draft, reply: Option<&TenantReply>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |reply| tenant_fields(&reply.tenant));
        // Before it is created it has no id.
        let id = reply.map_or(TenantId::OPERATOR, |reply| reply.id);
        Ok(AuditedAct {
            tenant: Some(id),
            ..AuditedAct::new(AuditAction::TenantCreate, target(id), fields)
        })
    }
}

/// Changes name, state, tier or limits of a tenant. Lower limits remove nothing: from then on they
/// reject what would be more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateTenant {
    /// The tenant.
    pub id: TenantId,
    /// What changes.
    pub patch: TenantPatch,
}

impl ClusterRule for UpdateTenant {
    type Reply = TenantReply;
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(Self::audit);

    fn decide(&self, draft: &mut Draft) -> Decided<TenantReply> {
        let id = self.id;
        let before = existing(draft, id)?;
        let TenantPatch { name, state, tier, limits } = self.patch.clone();
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
        Ok(TenantReply { id, tenant: Box::new(row) })
    }
}

impl UpdateTenant {
    fn audit(&self, draft: &Draft, _reply: Option<&TenantReply>) -> Result<AuditedAct> {
        let fields = tenant_row(draft, self.id)?;
        Ok(AuditedAct {
            tenant: Some(self.id),
            ..AuditedAct::new(AuditAction::TenantChange, target(self.id), fields)
        })
    }
}

/// Deletes a suspended tenant with this name, and all that belongs to it, for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteTenant {
    /// The tenant.
    pub id: TenantId,
    /// Its name.
    pub name: String,
}

impl ClusterRule for DeleteTenant {
    type Reply = TenantDeleted;
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(Self::audit);

    fn decide(&self, draft: &mut Draft) -> Decided<TenantDeleted> {
        let id = self.id;
        let row = existing(draft, id)?;
        reject_if(row.state != TenantState::Suspended, wrong_state("suspend the tenant first"))?;
        reject_if(row.name != self.name, wrong_state("the tenant has another name"))?;
        let [memories, bytes, edges] = [Counted::Memories, Counted::Bytes, Counted::Edges]
            .map(|counted| draft.number(id, counted));
        let counts = Counts { memories, bytes, edges, ..draft.base.counts(id) };
        draft.push(Change::TenantRemoved(id));
        Ok(TenantDeleted(counts))
    }
}

impl DeleteTenant {
    /// The operator keeps the heads of the chains of a deleted tenant.
    fn audit(&self, draft: &Draft, _reply: Option<&TenantDeleted>) -> Result<AuditedAct> {
        let fields = self.audited_row(draft)?;
        Ok(AuditedAct::new(AuditAction::TenantDelete, target(self.id), fields))
    }

    fn audited_row(&self, draft: &Draft) -> Result<Fields> {
        let mut fields = tenant_row(draft, self.id)?;
        if !fields.is_empty() {
            for chain in AuditChain::ALL {
                let ends = draft.audit_ends(self.id, chain)?;
                let head = format!("{} {}", ends.last, hex::encode(ends.head));
                fields.insert(format!("audit.{}", chain.name()), head);
            }
        }
        Ok(fields)
    }
}

/// Creates or replaces a tier, or deletes one that no tenant has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutTier {
    /// Its name.
    pub name: String,
    /// Its limits; `None` deletes it.
    pub limits: Option<Limits>,
    /// Whether it becomes the default tier.
    pub becomes_default: bool,
}

impl ClusterRule for PutTier {
    type Reply = Tier;
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(Self::audit);

    fn decide(&self, draft: &mut Draft) -> Decided<Tier> {
        let Self { name, limits, becomes_default } = self.clone();
        let mut tenancy = draft.tenancy()?;
        let at = tenancy.tiers.iter().position(|tier| tier.name == name);
        let mut tier = match (at, limits) {
            (Some(at), Some(limits)) => {
                tenancy.tiers[at].limits = limits;
                tenancy.tiers[at].clone()
            }
            (None, Some(limits)) => {
                let full = format!("a cluster has {TIERS_MAX} tiers at most");
                reject_if(tenancy.tiers.len() >= TIERS_MAX, Rejection::WrongState(full))?;
                let tier = Tier { name: name.clone(), limits, is_default: false };
                tenancy.tiers.push(tier.clone());
                tier
            }
            (Some(at), None) => {
                for tenant in tenants(draft) {
                    let has_tier = draft.tenant(tenant)?.is_some_and(|row| row.tier == name);
                    reject_if(has_tier, wrong_state("tenants have this tier"))?;
                }
                let reason = "it is the default tier: choose another one first";
                reject_if(tenancy.tiers[at].is_default, wrong_state(reason))?;
                tenancy.tiers.remove(at)
            }
            (None, None) => return Err(Rejection::no_such("tier").into()),
        };
        if becomes_default {
            tenancy.tiers.iter_mut().for_each(|tier| tier.is_default = tier.name == name);
            tier.is_default = true;
        }
        draft.push(Change::TenancyPut(tenancy));
        Ok(tier)
    }
}

impl PutTier {
    fn audit(&self, draft: &Draft, _reply: Option<&Tier>) -> Result<AuditedAct> {
        let fields = self.audited_row(draft)?;
        Ok(AuditedAct::new(AuditAction::TierChange, format!("tier {}", self.name), fields))
    }

    fn audited_row(&self, draft: &Draft) -> Result<Fields> {
        let tenancy = draft.tenancy()?;
        let Some(tier) = tenancy.tier(&self.name) else { return Ok(Fields::new()) };
        let limits = tier.limits.iter();
        let limits = limits.map(|(limit, max)| (limit.name().to_owned(), max.to_string()));
        let default = tier.is_default.then(|| ("default".to_owned(), true.to_string()));
        Ok(limits.chain([("name".to_owned(), tier.name.clone())]).chain(default).collect())
    }
}

fn target(id: TenantId) -> String {
    format!("tenant {}", id.0)
}

/// The values of a tenant that the audit log shows.
pub(super) fn tenant_row(draft: &Draft, id: TenantId) -> Result<Fields> {
    Ok(draft.tenant(id)?.map(|row| tenant_fields(&row)).unwrap_or_default())
}

fn tenant_fields(row: &Tenant) -> Fields {
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
