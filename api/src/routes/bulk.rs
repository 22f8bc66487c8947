//! Bulk commands: the same to many memories, each by itself. Loops of bounded commands
//! run by the node that was asked; what cannot be done to one keeps no other from it.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::id::MemoryId;
use storage::model::tenant::Caller;
use storage::model::trigger::Notification;
use storage::{Action, BULK_MAX, BulkFilter, Filter, Rejection, Reply, TierFilter};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AgentCaller;
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Ids};
use crate::limits::{BULK_DEADLINE, BULK_ERRORS_MAX, DEADLINE, NOTIFICATIONS_MAX};
use crate::openapi::Writing;
use crate::routes::memories::{patch, read_namespace};
use crate::wire::requests::{self, Home};
use crate::wire::trigger::WithNotifications;
use crate::write::{Answer, ask, header_namespace};

/// What became of a bulk command.
struct Each {
    freshness: Freshness,
    done: usize,
    /// What was refused, the first of them, as texts.
    errors: Vec<String>,
    refused: usize,
    /// Memories that it did not come to, or was not told what became of.
    remaining: usize,
    /// What triggers said, the first of it.
    notifications: Vec<Notification>,
}

/// Memories that were changed.
#[derive(Serialize, ToSchema)]
struct Updated {
    updated: usize,
    /// Id and reason of each that was refused.
    errors: Vec<String>,
    /// Those that it did not come to: ask again.
    remaining: usize,
}

/// Memories that were deleted.
#[derive(Serialize, ToSchema)]
struct Deleted {
    deleted: usize,
    /// Id and reason of the first 500 that were refused.
    errors: Vec<String>,
    refused: usize,
    /// Those that it did not come to: ask again.
    remaining: usize,
}

/// Memories that were brought back.
#[derive(Serialize, ToSchema)]
struct Restored {
    restored: usize,
    /// Id and reason of each that was refused.
    errors: Vec<String>,
    /// Those that it did not come to: ask again.
    remaining: usize,
}

/// Change several memories alike.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk-patch", tag = "memories",
    request_body = requests::BulkChanges,
    responses((status = OK, body = WithNotifications<Updated>), Writing))]
pub(crate) async fn memory_update_bulk(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let ids = body.fields.memory_ids("ids", BULK_MAX)?;
    let ids = ids.ok_or_else(|| ApiError::invalid("ids", "is required"))?;
    let patch = patch(&app, &body.fields).await?;
    let update = |ids| Action::UpdateMemories(ids, patch.clone());
    let each = for_each(&app, &caller, ids, update).await?;
    let body = Updated { updated: each.done, errors: each.errors, remaining: each.remaining };
    Ok((each.freshness, Json(WithNotifications::new(body, &each.notifications))).into_response())
}

/// Delete several memories: those named, or all of a type and namespace. One of these must
/// be said; of both, what both name.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk", tag = "memories", params(Home),
    request_body = requests::BulkDeletion,
    responses((status = OK, body = Deleted), Writing))]
pub(crate) async fn memory_delete_bulk(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let fields = &body.fields;
    header_namespace(&headers)?;
    let ids = fields.memory_ids("ids", BULK_MAX)?;
    let mut of = BulkFilter { memory_type: fields.memory_type()?, namespace: fields.namespace()? };
    if ids.is_none() && of == BulkFilter::default() {
        let message = "is required, unless memory_type or namespace says which memories";
        return Err(ApiError::invalid("ids", message));
    }
    let ids = match ids {
        Some(ids) => {
            of.namespace = of.namespace.filter(|name| name != "*");
            ids
        }
        None => {
            of.namespace = read_namespace(&caller, fields, &headers)?;
            matching(&app, &caller, of.clone()).await?
        }
    };
    let delete = |ids| Action::DeleteMemories(ids, of.clone());
    let each = for_each(&app, &caller, ids, delete).await?;
    let Each { freshness, done: deleted, errors, refused, remaining, .. } = each;
    let body = Deleted { deleted, errors, refused, remaining };
    Ok((freshness, Json(body)).into_response())
}

/// Bring several memories back from the cold tier.
#[utoipa::path(post, path = "/api/v1/agent/restore", tag = "memories",
    request_body = requests::Ids,
    responses((status = OK, body = Restored), Writing))]
pub(crate) async fn memory_restore(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let ids = body.fields.memory_ids("ids", BULK_MAX)?;
    let ids = ids.ok_or_else(|| ApiError::invalid("ids", "is required"))?;
    let each = for_each(&app, &caller, ids, Action::RestoreMemories).await?;
    let body = Restored { restored: each.done, errors: each.errors, remaining: each.remaining };
    Ok((each.freshness, Json(body)).into_response())
}

/// All memories of a type and namespace, as of everything acknowledged so far.
async fn matching(app: &App, caller: &Caller, of: BulkFilter) -> ApiResult<Ids> {
    app.raft().read_index(Instant::now() + DEADLINE).await?;
    let BulkFilter { memory_type, namespace } = of;
    let access = caller.access.clone();
    let tier = TierFilter::All;
    let filter = Filter { memory_type, namespace, access, tier, ..Filter::default() };
    let tenant = caller.tenant;
    let known = app.read(move |reader| Ok(reader.ids(tenant, &filter))).await?;
    Ok(Ids { known: known.into(), unknown: Vec::new() })
}

/// Has the cluster do the same to each memory, in as many commands as it takes.
async fn for_each(
    app: &App,
    caller: &Caller,
    ids: Ids,
    action: impl Fn(Vec<MemoryId>) -> Action,
) -> ApiResult<Each> {
    let until = Instant::now() + BULK_DEADLINE;
    let Ids { known: mut left, unknown } = ids;
    let mut each = Each {
        freshness: Freshness::of_write(app.reader().position().index),
        done: 0,
        errors: Vec::new(),
        refused: 0,
        remaining: 0,
        notifications: Vec::new(),
    };
    unknown.iter().for_each(|text| each.refuse(text, &Rejection::NotFound));
    while !left.is_empty() && Instant::now() < until {
        let some: Vec<MemoryId> = left.iter().take(BULK_MAX).copied().collect();
        let asked = ask(app, caller, None, action(some)).await;
        let Answer { freshness, reply, notifications } = match asked {
            Ok(answer) => answer,
            // What is done is told; the rest may be asked for again.
            Err(_) if each.done + each.refused > 0 => break,
            Err(error) => return Err(error),
        };
        let Reply::Bulk(outcomes) = reply else { return Err(ApiError::internal()) };
        each.freshness = freshness;
        each.notify(notifications);
        for outcome in outcomes {
            let id = left.pop_front().unwrap_or(MemoryId([0; 16]));
            match outcome {
                Ok(()) => each.done += 1,
                Err(rejection) => each.refuse(&id.to_string(), &rejection),
            }
        }
    }
    each.remaining = left.len();
    Ok(each)
}

impl Each {
    fn notify(&mut self, notifications: Vec<Notification>) {
        let room = NOTIFICATIONS_MAX.saturating_sub(self.notifications.len());
        self.notifications.extend(notifications.into_iter().take(room));
    }

    fn refuse(&mut self, id: &str, rejection: &Rejection) {
        self.refused += 1;
        if self.errors.len() < BULK_ERRORS_MAX {
            self.errors.push(format!("{id}: {rejection}"));
        }
    }
}
