//! What somebody says of a memory.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::id::MemoryId;
use storage::model::score::rounded;
use storage::model::tenant::Caller;
use storage::{Action, Reply, Signal};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AgentCaller;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Fields, Id};
use crate::openapi::{Missing, Writing};
use crate::wire::trigger::WithNotifications;
use crate::wire::{self, requests, schema};
use crate::write::{Answer, ask};

/// What feedback did to a memory.
#[derive(Serialize, ToSchema)]
struct Judged {
    /// Always true.
    ok: bool,
    #[schema(format = Uuid)]
    node_id: String,
    #[schema(schema_with = schema::signal)]
    signal: &'static str,
    #[schema(schema_with = schema::heat)]
    heat_before: f64,
    #[schema(schema_with = schema::heat)]
    heat_after: f64,
    stability_before: f64,
    stability_after: f64,
}

/// Say what a memory was worth.
#[utoipa::path(post, path = "/api/v1/feedback", tag = "memories",
    request_body = requests::Feedback,
    responses((status = OK, body = WithNotifications<Judged>), Writing, Missing))]
pub(crate) async fn feedback_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let id = body.fields.memory_id("node_id")?;
    told(&app, &caller, id, &body.fields).await
}

/// Say what a memory, named in the path, was worth.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/feedback", tag = "memories", params(Id),
    request_body = requests::Judgement,
    responses((status = OK, body = WithNotifications<Judged>), Writing, Missing))]
pub(crate) async fn memory_feedback(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    Id(id): Id,
    body: Body,
) -> ApiResult<Response> {
    told(&app, &caller, id, &body.fields).await
}

async fn told(app: &App, caller: &Caller, id: MemoryId, fields: &Fields) -> ApiResult<Response> {
    let signal = signal(fields)?;
    let answer = ask(app, caller, None, Action::GiveFeedback(id, signal)).await?;
    let Answer { freshness, reply, notifications } = answer;
    let Reply::Feedback(done) = reply else { return Err(ApiError::internal()) };
    let body = Judged {
        ok: true,
        node_id: id.to_string(),
        signal: signal.name(),
        heat_before: rounded(done.heat_before),
        heat_after: rounded(done.heat_after),
        stability_before: rounded(f64::from(done.stability_before)),
        stability_after: rounded(f64::from(done.stability_after)),
    };
    Ok((freshness, Json(WithNotifications::new(body, &notifications))).into_response())
}

fn signal(fields: &Fields) -> ApiResult<Signal> {
    let signal = fields.one_of("signal", wire::signal, wire::SIGNALS)?;
    signal.ok_or_else(|| ApiError::invalid("signal", "is required"))
}
