//! Rules for becoming a cluster.

use crate::change::Change;
use crate::command::{Decision, Refusal, Reply};
use crate::decide::Draft;
use crate::error::Result;
use crate::model::cluster::Cluster;
use crate::model::id::TenantId;
use crate::model::tenant::{ApiKey, KeyId, Tenant};
use crate::model::thermo::Thermo;
use crate::table::view::View;

/// Number of the first tenant.
const FIRST_TENANT: TenantId = TenantId(1);

/// The first batch of a cluster: its identity, its first tenant and that one's key.
pub(super) fn form(
    draft: &mut Draft<'_>,
    cluster: &Cluster,
    tenant: &str,
    key_id: KeyId,
    key: &ApiKey,
) -> Result<Decision> {
    if draft.cluster()?.is_some() {
        return Ok(Err(Refusal::WrongState("the cluster has formed already".into())));
    }
    let now = draft.now();
    let row = Tenant {
        name: tenant.to_owned(),
        created_at: now,
        memories_max: None,
        thermo: Thermo::default(),
    };
    // The identity goes first: it holds the dimension that the tenant's index needs.
    draft.push(Change::ClusterFormed(cluster.clone()));
    draft.push(Change::TenantPut(FIRST_TENANT, row));
    let key = ApiKey { created_at: now, ..key.clone() };
    draft.push(Change::ApiKeyPut(FIRST_TENANT, key_id, key));
    Ok(Ok(Reply::Done))
}
