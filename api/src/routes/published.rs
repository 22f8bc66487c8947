//! Operations of published clients that are other forms of operations of this interface: heats by
//! boosts, embeddings, and what needs nothing to be done here.

use serde::Deserialize;
use storage::model::memory::{DecayClass, MemoryRecord};
use storage::{BULK_MAX, MemoryPatch};
use utoipa::ToSchema;

use crate::prelude::*;
use crate::requests::numbers::{Heat, Strength};
use crate::requests::values::Items;
use crate::responses::memory::MemoryOrDeleted;
use crate::routes::memories::{Updated, respond_one};
use crate::service::bulk::{BulkResult, BulkTargets};

/// What a `boost` adds to the heat without a strength.
const BOOST_DEFAULT: f64 = 0.3;

// The derive below needs a literal.
const _: () = assert!(BULK_MAX == 500);

/// Heats that several memories get.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"boosts": [{"id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "heat": 0.7}]}))]
pub(crate) struct BoostBatch {
    #[schema(value_type = Vec<Boosted>, min_items = 1, max_items = 500)]
    pub(crate) boosts: Items<Boosted, 1, BULK_MAX>,
}

/// The heat that a memory gets.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(crate) struct Boosted {
    pub(crate) id: MemoryIdText,
    pub(crate) heat: Heat,
}

/// What to add to the heat of a memory.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"strength": 0.2}))]
pub(crate) struct Boost {
    #[schema(default = 0.3)]
    strength: Option<Strength>,
}

impl BoostBatch {
    /// The memories that get the same heat, with that heat.
    pub(crate) fn by_heat(self) -> Vec<(BulkTargets, MemoryPatch)> {
        let mut groups: Vec<(f32, BulkTargets)> = Vec::new();
        for Boosted { id, heat } in self.boosts.0 {
            let heat = heat.0 as f32;
            match groups.iter_mut().find(|(of, _)| *of == heat) {
                Some((_, targets)) => targets.ids.push_back(id.0),
                None => {
                    groups.push((heat, BulkTargets { ids: [id.0].into(), unknown: Vec::new() }))
                }
            }
        }
        let patch = |heat| MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() };
        groups.into_iter().map(|(heat, targets)| (targets, patch(heat))).collect()
    }
}

impl Boost {
    /// The change of a memory. Two boosts at once may count as one.
    pub(crate) fn patch(&self, present: &MemoryRecord) -> MemoryPatch {
        let strength = self.strength.map_or(BOOST_DEFAULT, |it| it.0);
        let heat = (present.heat + strength).min(1.0) as f32;
        MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() }
    }
}

/// Why a memory loses heat.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"reason": "The contract ended."}))]
pub(crate) struct Deprecation {
    /// Not stored.
    #[expect(dead_code, reason = "validated only")]
    reason: Option<Description>,
}

impl Deprecation {
    /// The change of a memory: as by the action `deprecate` of a trigger.
    pub(crate) fn patch(present: &MemoryRecord) -> MemoryPatch {
        MemoryPatch {
            current_heat: Some((present.heat / 2.0) as f32),
            decay_class: Some(DecayClass::Volatile),
            ..MemoryPatch::default()
        }
    }
}

/// A text to embed.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"text": "invoice language"}))]
pub(crate) struct EmbedText {
    pub(crate) text: FullLabel,
}

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
pub(crate) async fn boost_memories(
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
pub(crate) async fn boost_memory(
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
pub(crate) async fn deprecate_memory(
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
    respond_one(session, session.update_memory(id, patch(present)).await?, StatusCode::OK)
}

/// Embed a text, as memories are embedded.
#[utoipa::path(post, path = "/api/v1/agent/embed", tag = "search", params(ReadHeaders),
    request_body = EmbedText, responses((status = OK, body = Embedding), BodyErrors))]
pub(crate) async fn embed_text(
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
pub(crate) async fn backfill_embeddings(
    ReaderRead(_, freshness): ReaderRead,
) -> ApiResponse<Backfill> {
    let message = "every memory has a vector: it is embedded before it is stored";
    Ok(Success::ok(freshness, Backfill { queued: 0, message }))
}
