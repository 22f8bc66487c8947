//! Consolidation: memories that can be folded into one, folding them, and undoing it.

use storage::command;
use storage::model::quality::FoldReason;
use storage::{FoldGroup, TierFilter};

use crate::prelude::*;
use crate::requests::consolidation::{CandidateQuery, Fold, Unfold};
use crate::responses::memory::{Memory, MemoryOrDeleted};

/// Groups of memories that can be folded.
#[derive(Serialize, ToSchema)]
pub(crate) struct Candidates {
    groups: Vec<Group>,
    /// Continue with it as `after`; null at the end.
    #[schema(required)]
    next: Option<MemoryIdText>,
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
pub(crate) async fn candidates(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<CandidateQuery>,
) -> ApiResponse<Candidates> {
    let filter = Filter {
        memory_type: query.memory_type.map(|it| it.0),
        tier: TierFilter::All,
        ..home.filter(&session, query.namespace)?
    };
    let after = query.after.map(|id| id.0);
    let found = session.fold_candidates(filter, after, query.limit.get()).await?;
    let groups = found.groups.iter().map(Group::from).collect();
    Ok(Success::ok(freshness, Candidates { groups, next: found.next.map(Id) }))
}

/// Fold memories into one with this text. They become part of the cold tier, and it takes over their
/// heat, stability, recalls and edges.
#[utoipa::path(post, path = "/api/v1/agent/consolidation/fold", tag = "consolidation",
    params(OriginHeaders), request_body = Fold,
    responses((status = CREATED, body = WithNotifications<MemoryOrDeleted>), WriteErrors,
        NotFound))]
pub(crate) async fn fold(
    Agent(session): Agent,
    origin: RequestOrigin,
    ValidJson(body): ValidJson<Fold>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let sources = session.present_memories(body.ids()?).await?;
    let new = body.into_memory(&sources, origin.of(&session.caller))?;
    let done = session.create_memories(vec![new]).await?;
    session.request.set_created(done.value.created());
    let memory = done.value.memories.into_iter().next().ok_or_else(ApiError::internal)?;
    let body = WithNotifications::new(memory.into(), &done.notifications);
    Ok(Success { status: StatusCode::CREATED, freshness: done.freshness, body })
}

/// Delete a memory that was folded from others, and restore those.
#[utoipa::path(post, path = "/api/v1/agent/consolidation/unfold", tag = "consolidation",
    request_body = Unfold,
    responses((status = OK, body = WithNotifications<Unfolded>), WriteErrors, NotFound))]
pub(crate) async fn unfold(
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
