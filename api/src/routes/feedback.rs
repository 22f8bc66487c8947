//! Feedback on memories.

use axum::extract::State;
use serde::Serialize;
use storage::model::caller::Caller;
use storage::model::feedback::Signal;
use storage::model::id::MemoryId;
use storage::model::score::rounded;
use storage::{Action, Reply};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AgentCaller;
use crate::openapi::{NotFound, WriteErrors};
use crate::requests::ValidJson;
use crate::requests::memories::{Feedback, FeedbackSignal};
use crate::requests::path::MemoryPath;
use crate::responses::trigger::WithNotifications;
use crate::responses::{Respond, word};
use crate::service::error::{ApiError, ApiResult};

/// The effect of feedback on a memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct FeedbackEffect {
    /// Always true.
    ok: bool,
    #[schema(format = Uuid)]
    node_id: String,
    #[schema(schema_with = word::<Signal>)]
    signal: &'static str,
    #[schema(minimum = 0, maximum = 1)]
    heat_before: f64,
    #[schema(minimum = 0, maximum = 1)]
    heat_after: f64,
    stability_before: f64,
    stability_after: f64,
}

/// Give feedback on a memory.
#[utoipa::path(post, path = "/api/v1/feedback", tag = "memories",
    request_body = Feedback,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn feedback_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    ValidJson(request): ValidJson<Feedback>,
) -> ApiResult<Respond<WithNotifications<FeedbackEffect>>> {
    give(&app, &caller, request.node_id.0, request.signal.0).await
}

/// Give feedback on the memory that the path names.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/feedback", tag = "memories",
    params(MemoryPath), request_body = FeedbackSignal,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn memory_feedback(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    MemoryPath(id): MemoryPath,
    ValidJson(request): ValidJson<FeedbackSignal>,
) -> ApiResult<Respond<WithNotifications<FeedbackEffect>>> {
    give(&app, &caller, id, request.signal.0).await
}

async fn give(
    app: &App,
    caller: &Caller,
    id: MemoryId,
    signal: Signal,
) -> ApiResult<Respond<WithNotifications<FeedbackEffect>>> {
    let done = app.service().submit(caller, None, Action::GiveFeedback(id, signal)).await?;
    let Reply::Feedback(effect) = done.value else { return Err(ApiError::internal()) };
    let body = FeedbackEffect {
        ok: true,
        node_id: id.to_string(),
        signal: signal.name(),
        heat_before: rounded(effect.heat_before),
        heat_after: rounded(effect.heat_after),
        stability_before: rounded(f64::from(effect.stability_before)),
        stability_after: rounded(f64::from(effect.stability_after)),
    };
    Ok(Respond::ok(done.freshness, WithNotifications::new(body, &done.notifications)))
}
