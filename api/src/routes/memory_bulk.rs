//! Several memories at once: batch create, all or none, in one log entry; and bulk writes: the
//! same change, deletion or restoration of many memories, each by itself.

use storage::{Touched, TouchedMemory};

use crate::prelude::*;
use crate::requests::JsonBody;
use crate::requests::memories::{BulkChanges, BulkDeletion, BulkIds, NewMemories};
use crate::responses::memory::MemoryOrDeleted;
use crate::service::bulk::BulkResult;

/// A memory of a batch.
#[derive(Serialize, ToSchema)]
struct BatchItem {
    #[serde(flatten)]
    memory: MemoryOrDeleted,
    /// `created`, or `deleted` since.
    status: &'static str,
}

/// All memories of a batch, in its order.
#[derive(Serialize, ToSchema)]
pub(crate) struct Batch {
    results: Vec<BatchItem>,
}

/// Memories that were changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct Updated {
    updated: usize,
    /// Id and reason of each rejection.
    errors: Vec<String>,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
}

impl From<BulkResult> for Updated {
    fn from(result: BulkResult) -> Self {
        Self { updated: result.done, errors: result.errors, remaining: result.remaining }
    }
}

/// Memories that were deleted.
#[derive(Serialize, ToSchema)]
pub(crate) struct BulkDeleted {
    deleted: usize,
    /// Id and reason of the first 500 rejections.
    errors: Vec<String>,
    rejected: usize,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
}

/// Memories that were restored.
#[derive(Serialize, ToSchema)]
pub(crate) struct Restored {
    restored: usize,
    /// Id and reason of each rejection.
    errors: Vec<String>,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
}

/// Create several memories: all or none.
#[utoipa::path(post, path = "/api/v1/agent/nodes/batch", tag = "memories",
    params(NamespaceHeader, OriginHeaders), request_body = NewMemories,
    responses((status = CREATED, body = WithNotifications<Batch>), WriteErrors, NotFound))]
pub(crate) async fn memory_create_batch(
    Agent(session): Agent,
    home: NamespaceHeader,
    origin: RequestOrigin,
    ValidJson(body): ValidJson<NewMemories>,
) -> ApiResponse<WithNotifications<Batch>> {
    let home = session.store_namespace(home.namespace());
    let origin = origin.of(&session.caller);
    let nodes = body.nodes.0.into_iter().enumerate();
    let new = nodes.map(|(at, node)| {
        let new = node.0.into_memory(&home, origin.clone());
        new.map_err(|error| error.within(&format!("nodes[{at}]")))
    });
    let new = new.collect::<ApiResult<Vec<_>>>()?;
    let done = session.create_memories(new).await?;
    session.request.set_created(done.value.created());
    let item = |memory: TouchedMemory| {
        let status = match (&memory.now, memory.is_duplicate) {
            (Touched::Deleted, _) => "deleted",
            (_, true) => "duplicate",
            (_, false) => "created",
        };
        BatchItem { memory: memory.into(), status }
    };
    let results = done.value.memories.into_iter().map(item).collect();
    let body = WithNotifications::new(Batch { results }, &done.notifications);
    Ok(Success::created(done.freshness, body))
}

/// Change several memories alike.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk-patch", tag = "memories",
    request_body = BulkChanges,
    responses((status = OK, body = WithNotifications<Updated>), WriteErrors))]
pub(crate) async fn memory_update_bulk(
    Agent(session): Agent,
    body: JsonBody,
) -> ApiResponse<WithNotifications<Updated>> {
    let BulkChanges { ids, changes } = BulkChanges::parse(&body)?;
    drop(body);
    let result = session.update_memories(ids.ids.0, changes.into_patch()?).await?;
    let (freshness, notifications) = (result.freshness, result.notifications.clone());
    let body = WithNotifications::new(Updated::from(result), &notifications);
    Ok(Success::ok(freshness, body))
}

/// Delete several memories: by ids, by type and namespace, or by both: then the intersection is
/// deleted. With neither, the request is rejected.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk", tag = "memories", params(NamespaceHeader),
    request_body = BulkDeletion, responses((status = OK, body = BulkDeleted), WriteErrors))]
pub(crate) async fn memory_delete_bulk(
    Agent(session): Agent,
    home: NamespaceHeader,
    ValidJson(request): ValidJson<BulkDeletion>,
) -> ApiResponse<BulkDeleted> {
    let (filter, targets) = (request.filter()?, request.ids.map(|ids| ids.0));
    let result = session.delete_memories(targets, filter, home.namespace()).await?;
    let body = BulkDeleted {
        deleted: result.done,
        errors: result.errors,
        rejected: result.rejected,
        remaining: result.remaining,
    };
    Ok(Success::ok(result.freshness, body))
}

/// Restore several memories from the cold tier.
#[utoipa::path(post, path = "/api/v1/agent/restore", tag = "memories", request_body = BulkIds,
    responses((status = OK, body = Restored), WriteErrors))]
pub(crate) async fn memory_restore(
    Agent(session): Agent,
    ValidJson(request): ValidJson<BulkIds>,
) -> ApiResponse<Restored> {
    let result = session.restore_memories(request.ids.0).await?;
    let body =
        Restored { restored: result.done, errors: result.errors, remaining: result.remaining };
    Ok(Success::ok(result.freshness, body))
}
