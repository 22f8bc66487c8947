//! Operations of published clients that are other forms of operations of this interface: heats by
//! boosts, embeddings, and what needs nothing to be done here.

use storage::MemoryPatch;
use storage::model::memory::MemoryRecord;

use crate::prelude::*;
use crate::requests::published::{Boost, BoostBatch, Deprecation, EmbedText};
use crate::responses::memory::MemoryOrDeleted;
use crate::routes::memories::respond_one;
use crate::routes::memory_bulk::Updated;
use crate::service::bulk::BulkResult;

/// The vector of a text.
#[derive(Serialize, ToSchema)]
pub(crate) struct Embedding {
    /// Of length 1.
    embedding: Vec<f32>,
    /// Name of the model.
    model: String,
    dimensions: usize,
}

/// Memories without a vector.
#[derive(Serialize, ToSchema)]
pub(crate) struct Backfill {
    /// Always 0.
    queued: u64,
    message: &'static str,
}

/// Set the heats of several memories.
#[utoipa::path(post, path = "/api/v1/agent/boost-batch", tag = "memories", request_body = BoostBatch,
    responses((status = OK, body = WithNotifications<Updated>), WriteErrors))]
pub(crate) async fn boost_batch(
    Agent(session): Agent,
    ValidJson(request): ValidJson<BoostBatch>,
) -> ApiResponse<WithNotifications<Updated>> {
    let mut all = BulkResult::default();
    for (targets, patch) in request.by_heat() {
        let count = targets.ids.len();
        // What is done is reported; the caller repeats the request for the rest.
        if all.remaining > 0 {
            all.remaining += count;
            continue;
        }
        match session.update_memories(targets, patch).await {
            Ok(result) => all.add(result),
            Err(error) if all.done == 0 => return Err(error),
            Err(_) => all.remaining += count,
        }
    }
    let freshness = std::mem::take(&mut all.freshness);
    let notifications = std::mem::take(&mut all.notifications);
    let body = WithNotifications::new(Updated::from(all), &notifications);
    Ok(Success::ok(freshness, body))
}

/// Raise the heat of a memory.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/boost", tag = "memories", params(MemoryPath),
    request_body = Boost,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors, NotFound))]
pub(crate) async fn memory_boost(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(request): ValidJson<Boost>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    change(&session, id, |present| request.patch(present)).await
}

/// Halve the heat of a memory, and let it cool twice as fast.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/deprecate", tag = "memories",
    params(MemoryPath), request_body = Deprecation,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors, NotFound))]
pub(crate) async fn memory_deprecate(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(_): ValidJson<Deprecation>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    change(&session, id, Deprecation::patch).await
}

/// Changes a memory by what it is now.
async fn change(
    session: &Session,
    id: storage::model::id::MemoryId,
    patch: impl FnOnce(&MemoryRecord) -> MemoryPatch,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let present = session.present_memories(vec![id]).await?;
    let present = present.first().ok_or_else(ApiError::internal)?;
    respond_one(session.update_memory(id, patch(present)).await?, StatusCode::OK)
}

/// Embed a text, as memories are embedded.
#[utoipa::path(post, path = "/api/v1/agent/embed", tag = "search", params(ReadHeaders),
    request_body = EmbedText, responses((status = OK, body = Embedding), BodyErrors))]
pub(crate) async fn embed(
    ReaderRead(session, freshness): ReaderRead,
    ValidJson(request): ValidJson<EmbedText>,
) -> ApiResponse<Embedding> {
    let (embedding, model) = session.embedding(&request.text.0).await?;
    let dimensions = embedding.len();
    Ok(Success::ok(freshness, Embedding { embedding, model, dimensions }))
}

/// Report memories that have no vector: none, since each is embedded before it is stored.
#[utoipa::path(post, path = "/api/v1/agent/backfill-embeddings", tag = "memories",
    params(ReadHeaders), responses((status = OK, body = Backfill), ReadErrors))]
pub(crate) async fn embeddings_backfill(
    ReaderRead(_, freshness): ReaderRead,
) -> ApiResponse<Backfill> {
    let message = "every memory has a vector: it is embedded before it is stored";
    Ok(Success::ok(freshness, Backfill { queued: 0, message }))
}
