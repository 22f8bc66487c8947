//! Batch create: up to 50 memories, all or none, in one log entry.

use axum::Json;
use axum::extract::{OriginalUri, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::future::try_join_all;
use serde_json::{Value, json};
use storage::{Action, CREATE_MAX};

use crate::app::App;
use crate::auth::AgentCaller;
use crate::error::ApiResult;
use crate::extract::Body;
use crate::routes::memories::new_memory;
use crate::write::{Request, header_namespace, submit};

/// Create several memories.
pub(crate) async fn memory_create_batch(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let namespace = header_namespace(&headers)?;
    let objects = body.fields.objects("nodes", CREATE_MAX)?;
    let new = objects.iter().enumerate().map(async |(at, fields)| {
        let memory = new_memory(&app, fields, namespace.as_deref()).await;
        memory.map_err(|error| error.within(&format!("nodes[{at}]")))
    });
    let new = try_join_all(new).await?;
    let request = Request {
        method: Method::POST,
        path: uri.path(),
        headers: &headers,
        body: &body.bytes,
        status: StatusCode::CREATED,
    };
    let done = submit(&app, &caller, &request, Action::Create(new)).await?;
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
