//! Commands for the cluster as a whole: its identity and members, its clock, and the mark at which every
//! node hashes its state.

use std::sync::Arc;

use model::api_key::NewApiKey;
use model::audit::{AuditAction, Fields};
use model::bounded::bounded;
use model::cluster::{Cluster, Incarnation, Member};
use model::id::{KeyId, TenantId};
use model::release::Release;
use model::tenant::{Tenancy, Tenant};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, texts};
use crate::decide::context::{Decided, reject_if};
use crate::decide::draft::Draft;
use crate::decide::rule::{Class, ClusterAudit, ClusterRule};
use crate::error::Result;
use crate::reply::{Rejection, VerifyMark};
use crate::table::view::View;

const FIRST_TENANT: TenantId = TenantId(1);
/// Most named values of an operation.
const OPERATION_FIELDS_MAX: usize = 8;

/// The first batch of a cluster: its identity, its first tenant, and that tenant's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Identity and members.
    pub cluster: Cluster,
    /// Name of the first tenant.
    pub tenant: String,
    /// Id of the tenant's first key.
    pub key_id: KeyId,
    /// That key.
    pub key: NewApiKey,
}

impl ClusterRule for Bootstrap {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let Self { cluster, tenant, key_id, key } = self;
        reject_if(
            draft.cluster()?.is_some(),
            Rejection::WrongState("the cluster is bootstrapped already".into()),
        )?;
        let now = draft.now;
        let row = Tenant { name: tenant.clone(), created_at: now, ..Tenant::default() };
        // The identity goes first: it holds the dimension that the tenant's index needs.
        draft.push(Change::ClusterPut(cluster.clone()));
        draft.push(Change::TenancyPut(Tenancy { last: FIRST_TENANT, ..Tenancy::default() }));
        draft.push(Change::TenantPut(FIRST_TENANT, row));
        let key = key.clone().row(now);
        draft.push(Change::ApiKeyPut(FIRST_TENANT, *key_id, key));
        Ok(())
    }
}

/// Adds a member under an id that was never used. Raft's membership changes afterwards: peers
/// reject a node that this rule did not add.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AddMember {
    /// Its id, which no node had before.
    pub node: u64,
    /// Incarnation of its data folder.
    pub incarnation: Incarnation,
}

impl ClusterRule for AddMember {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let Self { node, incarnation } = *self;
        let mut cluster = existing(draft)?;
        match cluster.members.iter().find(|member| member.node == node) {
            Some(member) if member.incarnation == incarnation && !member.removed => Ok(()),
            Some(_) => {
                let next = cluster.members.iter().map(|member| member.node).max().unwrap_or(0) + 1;
                let reason = format!("id {node} was used before; the next free one is {next}");
                Err(Rejection::WrongState(reason).into())
            }
            None => {
                cluster.members.push(Member::new(node, incarnation));
                draft.push(Change::ClusterPut(cluster));
                Ok(())
            }
        }
    }
}

/// Marks a member as removed: peers reject it from here on. Raft's membership changed before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoveMember(pub u64);

impl ClusterRule for RemoveMember {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let node = self.0;
        let mut cluster = existing(draft)?;
        let member = cluster.members.iter_mut().find(|member| member.node == node);
        let member = member
            .ok_or_else(|| Rejection::WrongState(format!("node {node} was never a member")))?;
        if !member.removed {
            member.removed = true;
            draft.push(Change::ClusterPut(cluster));
        }
        Ok(())
    }
}

/// Raises the feature level to the lowest release of all members, as the leader knows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RaiseLevel(pub Release);

impl ClusterRule for RaiseLevel {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let release = self.0;
        let mut cluster = existing(draft)?;
        if release.level > cluster.release.level {
            cluster.release = release;
            draft.push(Change::ClusterPut(cluster));
        }
        Ok(())
    }
}

/// Lets the deliveries of a restored cluster go out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleaseWebhooks;

impl ClusterRule for ReleaseWebhooks {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(Self::audit);

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let mut cluster = existing(draft)?;
        if let Some(restored) = cluster.restored.as_mut().filter(|restored| restored.webhooks_held)
        {
            restored.webhooks_held = false;
            draft.push(Change::ClusterPut(cluster));
        }
        Ok(())
    }
}

impl ReleaseWebhooks {
    fn audit(&self, draft: &Draft, _reply: Option<&()>) -> Result<AuditedAct> {
        let restored = draft.cluster()?.and_then(|cluster| cluster.restored);
        let fields = texts([("held", restored.map(|it| it.webhooks_held.to_string()))]);
        Ok(AuditedAct::new(AuditAction::WebhooksRelease, "webhooks", fields))
    }
}

fn existing(draft: &Draft) -> Decided<Cluster> {
    let cluster = draft.cluster()?;
    let cluster = cluster
        .ok_or_else(|| Rejection::WrongState("the cluster is not bootstrapped yet".into()))?;
    Ok(Arc::unwrap_or_clone(cluster))
}

/// Makes every node hash its state at this entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verify;

impl ClusterRule for Verify {
    type Reply = VerifyMark;
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<VerifyMark> {
        // Unique: no other batch is decided on this index and applied.
        let number = draft.position.index + 1;
        if draft.count(|change| matches!(change, Change::VerifyMark(_))) == 0 {
            draft.push(Change::VerifyMark(number));
        }
        Ok(VerifyMark(number))
    }
}

/// Advances the cluster clock, without another change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdvanceClock;

impl ClusterRule for AdvanceClock {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        draft.stamp_requested = true;
        Ok(())
    }
}

/// Records an operation on the cluster in the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordOperation {
    /// What was done.
    pub action: AuditAction,
    /// To what.
    pub target: String,
    /// Named values.
    #[serde(deserialize_with = "bounded::<OPERATION_FIELDS_MAX, _, _>")]
    pub fields: Vec<(String, String)>,
}

impl ClusterRule for RecordOperation {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: ClusterAudit<Self> = Some(Self::audit);

    fn decide(&self, _draft: &mut Draft) -> Decided<()> {
        Ok(())
    }
}

impl RecordOperation {
    fn audit(&self, _draft: &Draft, reply: Option<&()>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |()| self.fields.iter().cloned().collect());
        Ok(AuditedAct::new(self.action, &self.target, fields))
    }
}
