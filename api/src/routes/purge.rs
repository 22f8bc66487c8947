//! Purging memories: they and everything that the state tells of them are gone.

use serde::Deserialize;
use storage::Traces;
use storage::model::memory::Origin;
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::prelude::*;
use crate::requests::memories::single_namespace;

/// Which memories to purge: those that fit all of these fields. At least one is required.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(min_properties = 1)]
#[schema(example = json!({"namespace": "customer-17", "dry_run": true}))]
pub(crate) struct PurgeRequest {
    /// Memories of this namespace.
    #[schema(schema_with = single_namespace)]
    namespace: Option<RuleNamespace>,
    /// Memories that keys with this name created.
    agent: Option<AgentName>,
    /// Memories that this key created.
    key_id: Option<KeyIdText>,
    /// Whether to count only.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

impl PurgeRequest {
    /// The namespace, and the origin.
    pub(crate) fn scope(self) -> ApiResult<(Option<String>, Origin)> {
        let namespace = self.namespace.map(|name| name.0);
        if namespace.as_deref() == Some("*") {
            return Err(ApiError::invalid("namespace", "must be one namespace"));
        }
        let (key, agent) = (self.key_id.map(|id| id.0), self.agent.map(|name| name.0));
        let origin = Origin { key, agent, ..Origin::default() };
        if namespace.is_none() && origin == Origin::default() {
            return Err(ApiError::invalid(
                "namespace",
                "is required, unless agent or key_id is set",
            ));
        }
        Ok((namespace, origin))
    }
}

/// What a purge found, and what it left.
#[derive(Serialize, ToSchema)]
pub(crate) struct Purged {
    #[serde(flatten)]
    found: TraceCounts,
    /// What the state still tells afterwards: all numbers are 0, unless the request took too long.
    /// Then repeat it. Null for a dry run.
    remaining: Nullable<TraceCounts>,
}

/// Numbers of what the state tells of memories.
#[derive(Serialize, ToSchema)]
struct TraceCounts {
    /// Those with a row or in an index.
    memories: usize,
    edges: usize,
    /// Events with texts of them.
    events: usize,
    /// Deliveries that are pending or failed.
    deliveries: usize,
    /// Receipts of writes that name them.
    receipts: usize,
    /// Tombstones of values that clients rejected.
    rejected_values: usize,
}

/// Delete all memories of a namespace or an agent for good, locked ones too. Texts of them in the
/// journal, their deliveries, and the receipts of their writes are removed.
#[utoipa::path(post, path = "/api/v1/admin/purge", tag = "memories", request_body = PurgeRequest,
    responses((status = OK, body = Purged), UnrepeatedErrors))]
pub(crate) async fn purge_memories(
    Admin(session): Admin,
    ValidJson(request): ValidJson<PurgeRequest>,
) -> ApiResponse<Purged> {
    let dry_run = request.dry_run;
    let (namespace, origin) = request.scope()?;
    let done = session.purge(namespace, origin, dry_run).await?;
    let remaining = done.remaining.as_ref().map(TraceCounts::from);
    Ok(Success::ok(done.freshness, Purged { found: (&done.found).into(), remaining }))
}

impl From<&Traces> for TraceCounts {
    fn from(traces: &Traces) -> Self {
        Self {
            memories: traces.memories,
            edges: traces.edges,
            events: traces.rows.events.len(),
            deliveries: traces.rows.deliveries.len(),
            receipts: traces.rows.receipts.len(),
            rejected_values: traces.rows.tombstones.len(),
        }
    }
}
