//! Purging memories: they and everything that the state tells of them are gone.

use storage::Traces;

use crate::prelude::*;
use crate::requests::purge::PurgeRequest;

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
}

/// Delete all memories of a namespace or an agent for good, locked ones too. Texts of them in the
/// journal, their deliveries, and the receipts of their writes are removed.
#[utoipa::path(post, path = "/api/v1/admin/purge", tag = "memories", request_body = PurgeRequest,
    responses((status = OK, body = Purged), UnrepeatedErrors))]
pub(crate) async fn purge(
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
        }
    }
}
