//! Bulk writes: the same change, deletion or restoration of many memories, each by itself.

use axum::extract::State;
use serde::Serialize;
use storage::{Action, BulkFilter};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AgentCaller;
use crate::openapi::WriteErrors;
use crate::requests::headers::Home;
use crate::requests::memories::{BulkChanges, BulkDeletion, BulkIds, MemoryChanges};
use crate::requests::{JsonBody, ValidJson};
use crate::responses::Respond;
use crate::responses::trigger::WithNotifications;
use crate::service::error::{ApiError, ApiResult};
use crate::service::read_namespace;

/// Memories that were changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct Updated {
    updated: usize,
    /// Id and reason of each rejection.
    errors: Vec<String>,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
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

/// Change several memories alike.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk-patch", tag = "memories",
    request_body = BulkChanges,
    responses((status = OK, body = WithNotifications<Updated>), WriteErrors))]
pub(crate) async fn memory_update_bulk(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: JsonBody,
) -> ApiResult<Respond<WithNotifications<Updated>>> {
    let BulkIds { ids } = body.parse()?;
    let edit = body.parse::<MemoryChanges>()?.into_edit()?;
    drop(body);
    let patch = app.service().patch(edit).await?;
    let update = |ids| Action::UpdateMemories(ids, patch.clone());
    let result = app.service().for_each(&caller, ids.0, update).await?;
    let body = Updated { updated: result.done, errors: result.errors, remaining: result.remaining };
    let body = WithNotifications::new(body, &result.notifications);
    Ok(Respond::ok(result.freshness, body))
}

/// Delete several memories: by ids, by type and namespace, or by both: then the intersection is
/// deleted. With neither, the request is rejected.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk", tag = "memories", params(Home),
    request_body = BulkDeletion,
    responses((status = OK, body = BulkDeleted), WriteErrors))]
pub(crate) async fn memory_delete_bulk(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    home: Home,
    ValidJson(request): ValidJson<BulkDeletion>,
) -> ApiResult<Respond<BulkDeleted>> {
    let mut filter = request.filter()?;
    if request.ids.is_none() && filter == BulkFilter::default() {
        let message = "is required, unless memory_type or namespace selects the memories";
        return Err(ApiError::invalid("ids", message));
    }
    let targets = match request.ids {
        Some(ids) => {
            filter.namespace = filter.namespace.filter(|name| name != "*");
            ids.0
        }
        None => {
            filter.namespace = read_namespace(&caller, filter.namespace, home.namespace())?;
            app.service().matching(&caller, filter.clone()).await?
        }
    };
    let delete = |ids| Action::DeleteMemories(ids, filter.clone());
    let result = app.service().for_each(&caller, targets, delete).await?;
    let body = BulkDeleted {
        deleted: result.done,
        errors: result.errors,
        rejected: result.rejected,
        remaining: result.remaining,
    };
    Ok(Respond::ok(result.freshness, body))
}

/// Restore several memories from the cold tier.
#[utoipa::path(post, path = "/api/v1/agent/restore", tag = "memories",
    request_body = BulkIds,
    responses((status = OK, body = Restored), WriteErrors))]
pub(crate) async fn memory_restore(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    ValidJson(request): ValidJson<BulkIds>,
) -> ApiResult<Respond<Restored>> {
    let targets = request.ids.0;
    let result = app.service().for_each(&caller, targets, Action::RestoreMemories).await?;
    let body =
        Restored { restored: result.done, errors: result.errors, remaining: result.remaining };
    Ok(Respond::ok(result.freshness, body))
}
