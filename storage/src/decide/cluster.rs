//! Rules for the cluster itself: its identity, and its members.

use crate::change::Change;
use crate::decide::draft::Draft;
use crate::decide::error::Decided;
use crate::model::cluster::{Cluster, Incarnation, Member};
use crate::model::id::TenantId;
use crate::model::tenant::{ApiKey, KeyId, Tenant};
use crate::reply::{Rejection, Reply};
use crate::table::view::View;

/// Number of the first tenant.
const FIRST_TENANT: TenantId = TenantId(1);

/// The first batch of a cluster: its identity, its first tenant, and that tenant's key.
pub(super) fn bootstrap(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    tenant: &str,
    key_id: KeyId,
    key: &ApiKey,
) -> Decided<Reply> {
    if draft.cluster()?.is_some() {
        return Err(Rejection::WrongState("the cluster is bootstrapped already".into()).into());
    }
    let now = draft.now();
    let row = Tenant {
        name: tenant.to_owned(),
        created_at: now,
        memories_max: None,
        thermo: Box::default(),
    };
    // The identity goes first: it holds the dimension that the tenant's index needs.
    draft.push(Change::ClusterPut(cluster.clone()));
    draft.push(Change::TenantPut(FIRST_TENANT, row));
    let key = ApiKey { created_at: now, ..key.clone() };
    draft.push(Change::ApiKeyPut(FIRST_TENANT, key_id, key));
    Ok(Reply::Done)
}

/// Adds a member under an id that was never used. Raft's membership changes afterwards: peers
/// reject a node that this rule did not add.
pub(super) fn add_member(
    draft: &mut Draft<'_>,
    node: u64,
    incarnation: Incarnation,
) -> Decided<Reply> {
    let mut cluster = existing(draft)?;
    match cluster.members.iter().find(|member| member.node == node) {
        Some(member) if member.incarnation == incarnation && !member.removed => Ok(Reply::Done),
        Some(_) => {
            let next = cluster.members.iter().map(|member| member.node).max().unwrap_or(0) + 1;
            let reason = format!("id {node} was used before; the next free one is {next}");
            Err(Rejection::WrongState(reason).into())
        }
        None => {
            cluster.members.push(Member::new(node, incarnation));
            draft.push(Change::ClusterPut(cluster));
            Ok(Reply::Done)
        }
    }
}

/// Marks a member as removed: peers reject it from here on. Raft's membership changed before.
pub(super) fn remove_member(draft: &mut Draft<'_>, node: u64) -> Decided<Reply> {
    let mut cluster = existing(draft)?;
    let member = cluster.members.iter_mut().find(|member| member.node == node);
    let member =
        member.ok_or_else(|| Rejection::WrongState(format!("node {node} was never a member")))?;
    if !member.removed {
        member.removed = true;
        draft.push(Change::ClusterPut(cluster));
    }
    Ok(Reply::Done)
}

fn existing(draft: &Draft<'_>) -> Decided<Cluster> {
    let cluster = draft.cluster()?;
    Ok(cluster
        .ok_or_else(|| Rejection::WrongState("the cluster is not bootstrapped yet".into()))?)
}
