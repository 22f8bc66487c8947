//! Batch create: up to 50 memories, all or none, in one log entry.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use storage::{Action, CREATE_MAX};

use crate::app::App;
use crate::auth::AgentCaller;
use crate::error::ApiResult;
use crate::limits::BATCH_EMBED_AHEAD;
use crate::routes::memories::new_memory;
use crate::write::Write;

/// Create several memories.
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
    let done = write.submit(&app, &caller, StatusCode::CREATED, Action::Create(new)).await?;
    let results: Vec<Value> = done
        .memories
        .into_iter()
        .map(|mut memory| {
            memory["status"] = if memory["deleted"] == true { "deleted" } else { "created" }.into();
            memory
        })
        .collect();
    Ok((done.status, done.freshness, Json(json!({ "results": results }))).into_response())
}
