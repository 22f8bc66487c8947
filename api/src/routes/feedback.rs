//! Feedback on memories.

use storage::FeedbackReply;
use storage::model::id::MemoryId;
use storage::model::memory::Signal;

use crate::prelude::*;
use crate::requests::memories::{Feedback, FeedbackSignal};

/// The effect of feedback on a memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct FeedbackEffect {
    /// Always true.
    ok: bool,
    node_id: MemoryIdText,
    signal: SignalWord,
    #[schema(minimum = 0, maximum = 1)]
    heat_before: f64,
    #[schema(minimum = 0, maximum = 1)]
    heat_after: f64,
    stability_before: f64,
    stability_after: f64,
}

/// Give feedback on a memory.
#[utoipa::path(post, path = "/api/v1/feedback", tag = "memories", request_body = Feedback,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn feedback_create(
    Agent(session): Agent,
    ValidJson(request): ValidJson<Feedback>,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    give(&session, request.node_id.0, request.signal.0).await
}

/// Give feedback on the memory that the path names.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/feedback", tag = "memories",
    params(MemoryPath), request_body = FeedbackSignal,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn memory_feedback(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(request): ValidJson<FeedbackSignal>,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    give(&session, id, request.signal.0).await
}

async fn give(
    session: &Session,
    id: MemoryId,
    signal: Signal,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    let done = session.submit::<FeedbackReply>(Action::GiveFeedback(id, signal)).await?;
    let effect = done.value;
    let body = FeedbackEffect {
        ok: true,
        node_id: Id(id),
        signal: OneOf(signal),
        heat_before: rounded(effect.heat_before),
        heat_after: rounded(effect.heat_after),
        stability_before: rounded(f64::from(effect.stability_before)),
        stability_after: rounded(f64::from(effect.stability_after)),
    };
    Ok(Respond::ok(done.freshness, WithNotifications::new(body, &done.notifications)))
}
