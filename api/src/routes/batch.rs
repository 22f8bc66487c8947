//! Batch create: up to 50 memories, all or none, in one log entry.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use storage::{Action, CREATE_MAX};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AgentCaller;
use crate::error::ApiResult;
use crate::limits::BATCH_EMBED_AHEAD;
use crate::openapi::WritingOnce;
use crate::routes::memories::new_memory;
use crate::wire::memory::Written;
use crate::wire::requests::{self, Home, Once};
use crate::wire::trigger::WithNotifications;
use crate::write::Write;

/// A memory of a batch.
#[derive(Serialize, ToSchema)]
struct Created {
    #[serde(flatten)]
    memory: Written,
    /// `created`, or `deleted` since.
    status: &'static str,
}

/// All memories of a batch, in its order.
#[derive(Serialize, ToSchema)]
struct Batch {
    results: Vec<Created>,
}

/// Create several memories: all or none.
#[utoipa::path(post, path = "/api/v1/agent/nodes/batch", tag = "memories", params(Home, Once),
    request_body = requests::NewMemories,
    responses((status = CREATED, body = WithNotifications<Batch>), WritingOnce))]
pub(crate) async fn memory_create_batch(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    write: Write,
) -> ApiResult<Response> {
    let namespace = write.header_namespace()?;
    let objects = write.fields().objects("nodes", CREATE_MAX)?;
    let (app_of, tenant, namespace) = (&app, caller.tenant, namespace.as_deref());
    let new = objects.into_iter().enumerate().map(|(at, fields)| async move {
        let memory = new_memory(app_of, tenant, &fields, namespace).await;
        memory.map_err(|error| error.within(&format!("nodes[{at}]")))
    });
    let new = stream::iter(new).buffered(BATCH_EMBED_AHEAD).try_collect().await?;
    let done =
        write.submit(&app, &caller, StatusCode::CREATED, Action::CreateMemories(new)).await?;
    let created = |memory| match memory {
        Written::Memory(_) => Created { memory, status: "created" },
        Written::Gone(_) => Created { memory, status: "deleted" },
    };
    let results = done.memories.into_iter().map(created).collect();
    Ok((
        done.status,
        done.freshness,
        Json(WithNotifications::new(Batch { results }, &done.notifications)),
    )
        .into_response())
}
