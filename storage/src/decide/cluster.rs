//! Rules for becoming a cluster, and for who belongs to it.

use crate::change::Change;
use crate::command::{Decision, Rejection, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::cluster::{Cluster, Incarnation, Member};
use crate::model::id::TenantId;
use crate::model::tenant::{ApiKey, KeyId, Tenant};
use crate::table::view::View;

/// Number of the first tenant.
const FIRST_TENANT: TenantId = TenantId(1);

/// The first batch of a cluster: its identity, its first tenant and that one's key.
pub(super) fn bootstrap(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    tenant: &str,
    key_id: KeyId,
    key: &ApiKey,
) -> Result<Decision> {
    if draft.cluster()?.is_some() {
        return Ok(Err(Rejection::WrongState("the cluster has formed already".into())));
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
    Ok(Ok(Reply::Done))
}

/// Lets a node in, under an id that nobody ever had. Raft is told separately, and
/// after: peers deal with nobody whom this did not name.
pub(super) fn add_member(
    draft: &mut Draft<'_>,
    node: u64,
    incarnation: Incarnation,
) -> Result<Decision> {
    let Some(mut cluster) = draft.cluster()? else { return Ok(Err(not_formed())) };
    match cluster.members.iter().find(|member| member.node == node) {
        Some(member) if member.incarnation == incarnation && !member.removed => Ok(Ok(Reply::Done)),
        Some(_) => {
            let next = cluster.members.iter().map(|member| member.node).max().unwrap_or(0) + 1;
            let rejection = format!("id {node} was used before; the next free one is {next}");
            Ok(Err(Rejection::WrongState(rejection)))
        }
        None => {
            cluster.members.push(Member::new(node, incarnation));
            draft.push(Change::ClusterPut(cluster));
            Ok(Ok(Reply::Done))
        }
    }
}

/// Has peers deal with a node no more. Raft was told before.
pub(super) fn remove_member(draft: &mut Draft<'_>, node: u64) -> Result<Decision> {
    let Some(mut cluster) = draft.cluster()? else { return Ok(Err(not_formed())) };
    match cluster.members.iter_mut().find(|member| member.node == node) {
        None => Ok(Err(Rejection::WrongState(format!("node {node} never was a member")))),
        Some(member) if member.removed => Ok(Ok(Reply::Done)),
        Some(member) => {
            member.removed = true;
            draft.push(Change::ClusterPut(cluster));
            Ok(Ok(Reply::Done))
        }
    }
}

fn not_formed() -> Rejection {
    Rejection::WrongState("the cluster has not formed yet".into())
}
