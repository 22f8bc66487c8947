//! Consolidation: memories that can be folded into one, folding them, and undoing it.

use serde::Deserialize;
use storage::model::details::{Details, TAGS_MAX};
use storage::model::duplicate::OnDuplicate;
use storage::model::edge::SUPERSEDED_MAX;
use storage::model::id::MemoryId;
use storage::model::memory::FoldReason;
use storage::model::memory::Origin;
use storage::model::memory::{KEY_POINTS_MAX, MemoryRecord};
use storage::{FoldGroup, TierFilter, command};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use crate::error::{ApiError, ApiResult};
use crate::prelude::*;
use crate::requests::values::Items;
use crate::responses::memory::{Memory, MemoryOrDeleted};
use crate::routes::memories::respond_one;

/// Which memories to group.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CandidateQuery {
    /// Most groups.
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: CandidatesLimit,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// The `next_cursor` of the page before.
    pub(crate) cursor: Option<MemoryIdText>,
}

// The derive below needs a literal.
const _: () = assert!(SUPERSEDED_MAX == 16);

/// Memories to fold into one.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"ids": ["019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c02"], "label": "The customer prefers invoices in German, as PDF."}))]
pub(crate) struct Fold {
    /// Different memories of one namespace.
    #[schema(value_type = Vec<uuid::Uuid>, min_items = 2, max_items = 16)]
    #[serde(alias = "node_ids")]
    ids: Items<MemoryIdText, 2, SUPERSEDED_MAX>,
    /// The text that says what they said.
    label: FullLabel,
    /// That of the first memory by default.
    memory_type: Option<MemoryTypeWord>,
    /// At most 256 bytes each. Those of all by default.
    key_points: Option<KeyPoints>,
}

impl Fold {
    pub(crate) fn ids(&self) -> ApiResult<Vec<MemoryId>> {
        let ids: Vec<_> = self.ids.0.iter().map(|id| id.0).collect();
        let is_repeated = |(at, id): (usize, &MemoryId)| ids[..at].contains(id);
        if ids.iter().enumerate().any(is_repeated) {
            return Err(ApiError::invalid("ids", "must differ from each other"));
        }
        Ok(ids)
    }

    /// The new memory, without its vector. What the request does not say is as in the sources, the
    /// first one first.
    pub(crate) fn into_memory(
        self,
        sources: &[MemoryRecord],
        origin: Origin,
    ) -> ApiResult<storage::NewMemory> {
        let folds = self.ids()?;
        let first = &sources.first().ok_or_else(ApiError::internal)?.memory;
        let is_pinned = sources.iter().any(|source| source.memory.is_pinned);
        let id = MemoryId(Uuid::now_v7().into_bytes());
        Ok(storage::NewMemory {
            memory_type: self.memory_type.map_or(first.memory_type, |it| it.0),
            decay_class: first.decay_class,
            is_pinned,
            min_heat: sources.iter().map(|source| source.memory.min_heat).fold(0.0, f32::max),
            // It becomes as hot as the hottest source.
            initial_heat: 0.0,
            key_points: self.key_points.map_or_else(|| key_points(sources), |it| it.0),
            on_duplicate: Some(OnDuplicate::Allow),
            folds,
            details: details(sources),
            ..storage::NewMemory::of_text(id, self.label.0, first.namespace.clone(), origin)
        })
    }
}

/// The key points of memories, each once.
fn key_points(sources: &[MemoryRecord]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for key_point in sources.iter().flat_map(|source| &source.memory.key_points) {
        if all.len() < KEY_POINTS_MAX && !all.contains(key_point) {
            all.push(key_point.clone());
        }
    }
    all
}

/// The tags of all memories, and the metadata of the first that has some.
fn details(sources: &[MemoryRecord]) -> Option<Box<Details>> {
    let mut all = Details::default();
    for details in sources.iter().filter_map(|source| source.memory.details.as_deref()) {
        for tag in &details.tags {
            if all.tags.len() < TAGS_MAX && !all.tags.contains(tag) {
                all.tags.push(tag.clone());
            }
        }
        if all.metadata.is_empty() {
            all.metadata.clone_from(&details.metadata);
        }
    }
    all.some()
}

/// A memory that was folded from others.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01"}))]
pub(crate) struct Unfold {
    pub(crate) id: MemoryIdText,
}

/// From where on memories are examined.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HygieneQuery {
    /// Most examples of each defect. With 1000, all ids of most responses.
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: ExamplesLimit,
    /// The `next_cursor` of the page before.
    pub(crate) cursor: Option<MemoryIdText>,
}

/// Groups of memories that can be folded.
#[derive(Serialize, ToSchema)]
pub(crate) struct Candidates {
    groups: Vec<Group>,
    /// The next page begins with it as `cursor`. Null at the end.
    #[schema(required)]
    next_cursor: Option<MemoryIdText>,
}

/// Memories that can be folded into one.
#[derive(Serialize, ToSchema)]
struct Group {
    reason: FoldReasonWord,
    /// Of one namespace and type.
    memories: Vec<Memory>,
    /// A text for all: that of the hottest memory, if they say the same.
    label: Nullable<String>,
}

/// What was folded.
#[derive(Serialize, ToSchema)]
pub(crate) struct Unfolded {
    /// The memories that are in the hot tier again.
    restored: Vec<MemoryOrDeleted>,
}

/// List groups of memories that say the same, and of cold memories that are related. A request
/// examines 1,000 memories.
#[utoipa::path(get, path = "/api/v1/agent/consolidation/candidates", tag = "consolidation",
    params(CandidateQuery, NamespaceHeader, ReadHeaders),
    responses((status = OK, body = Candidates), ReadErrors))]
pub(crate) async fn list_fold_candidates(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<CandidateQuery>,
) -> ApiResponse<Candidates> {
    let filter = Filter {
        memory_type: query.memory_type.map(|it| it.0),
        tier: TierFilter::All,
        ..home.filter(&session, query.namespace)?
    };
    let after = query.cursor.map(|id| id.0);
    let found = session.fold_candidates(filter, after, query.limit.get()).await?;
    let groups = found.groups.iter().map(Group::from).collect();
    Ok(Success::ok(freshness, Candidates { groups, next_cursor: found.next.map(Id) }))
}

/// Fold memories into one with this text. They become part of the cold tier, and it takes over their
/// heat, stability, recalls and edges.
#[utoipa::path(post, path = "/api/v1/agent/consolidation/fold", tag = "consolidation",
    params(OriginHeaders), request_body = Fold,
    responses((status = CREATED, body = WithNotifications<MemoryOrDeleted>), WriteErrors,
        NotFound))]
pub(crate) async fn fold_memories(
    Agent(session): Agent,
    origin: RequestOrigin,
    ValidJson(body): ValidJson<Fold>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let sources = session.present_memories(body.ids()?).await?;
    let new = body.into_memory(&sources, origin.of(&session.caller))?;
    let done = session.create_memories(vec![new]).await?;
    session.request.set_created(done.value.created());
    respond_one(&session, done, StatusCode::CREATED)
}

/// Delete a memory that was folded from others, and restore those.
#[utoipa::path(post, path = "/api/v1/agent/consolidation/unfold", tag = "consolidation",
    request_body = Unfold,
    responses((status = OK, body = WithNotifications<Unfolded>), WriteErrors, NotFound))]
pub(crate) async fn unfold_memories(
    Agent(session): Agent,
    ValidJson(request): ValidJson<Unfold>,
) -> ApiResponse<WithNotifications<Unfolded>> {
    let done = session.submit(command::Unfold(request.id.0)).await?;
    let restored = done.value.memories.into_iter().map(Into::into).collect();
    let body = WithNotifications::new(Unfolded { restored }, &done.notifications);
    Ok(Success::ok(done.freshness, body))
}

impl From<&FoldGroup> for Group {
    fn from(group: &FoldGroup) -> Self {
        let says_the_same = group.reason == FoldReason::Duplicates;
        let hottest = group.memories.iter().max_by(|left, right| left.heat.total_cmp(&right.heat));
        let label = hottest.filter(|_| says_the_same).map(|record| record.memory.label.clone());
        Self {
            reason: OneOf(group.reason),
            memories: group.memories.iter().map(Memory::from).collect(),
            label,
        }
    }
}
