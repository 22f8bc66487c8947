//! Memories one by one, lists of them, and feedback on them.

use serde::de::IgnoredAny;
use storage::command::{GiveFeedback, Supersede};
use storage::model::id::MemoryId;
use storage::model::memory::Signal;
use storage::text::words::words;
use storage::{ListRequest, TierFilter, TouchedMemories};

use crate::prelude::*;
use crate::requests::memories::{
    Feedback, FeedbackSignal, ListQuery, MemoryChanges, MemoryQuery, NewMemory, Supersession,
};
use crate::requests::times::TimeSpan;
use crate::responses::memory::{AnchoredMemory, Memory, MemoryOrDeleted};
use crate::service::writes::WriteResult;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryPage {
    items: Vec<Memory>,
    /// Memories on all pages.
    total: usize,
    page: usize,
    page_size: usize,
}

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

/// Create a memory.
#[utoipa::path(post, path = "/api/v1/agent/nodes", tag = "memories",
    params(NamespaceHeader, OriginHeaders), request_body = NewMemory,
    responses((status = CREATED, body = WithNotifications<MemoryOrDeleted>),
        (status = OK, body = WithNotifications<MemoryOrDeleted>,
            description = "The namespace has this text already, and `on_duplicate` is `merge`."),
        WriteErrors, NotFound))]
pub(crate) async fn memory_create(
    Agent(session): Agent,
    home: NamespaceHeader,
    origin: RequestOrigin,
    ValidJson(body): ValidJson<NewMemory>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let origin = origin.of(&session.caller);
    let home = session.store_namespace(home.namespace());
    let new = body.into_memory(&home, origin)?;
    let done = session.create_memories(vec![new]).await?;
    session.request.set_created(done.value.created());
    let memory = done.value.memories.into_iter().next().ok_or_else(ApiError::internal)?;
    let status = if memory.is_duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let body = WithNotifications::new(memory.into(), &done.notifications);
    Ok(Success { status, freshness: done.freshness, body })
}

/// Get a memory.
#[utoipa::path(get, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath, MemoryQuery, ReadHeaders),
    responses((status = OK, body = AnchoredMemory), ReadErrors, NotFound))]
pub(crate) async fn memory_get(
    ReaderRead(session, freshness): ReaderRead,
    MemoryPath(id): MemoryPath,
    ValidQuery(query): ValidQuery<MemoryQuery>,
) -> ApiResponse<AnchoredMemory> {
    let record = session.memory(id).await?;
    let body = AnchoredMemory::new(&record, query.anchor.unwrap_or(false));
    Ok(Success::ok(freshness, body))
}

/// Update a memory.
#[utoipa::path(patch, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath), request_body = MemoryChanges,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors,
        NotFound))]
pub(crate) async fn memory_update(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(body): ValidJson<MemoryChanges>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let patch = body.into_patch()?;
    respond_one(session.update_memory(id, patch).await?, StatusCode::OK)
}

/// Delete a memory. Rejected while it is locked.
#[utoipa::path(delete, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath),
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors,
        NotFound))]
pub(crate) async fn memory_delete(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    _: ValidJson<IgnoredAny>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    respond_one(session.delete_memory(id).await?, StatusCode::OK)
}

/// List memories, the hottest first by default.
#[utoipa::path(get, path = "/api/v1/agent/nodes", tag = "memories",
    params(ListQuery, NamespaceHeader, ZoneHeader, ReadHeaders),
    responses((status = OK, body = MemoryPage), ReadErrors))]
pub(crate) async fn memory_list(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidQuery(query): ValidQuery<ListQuery>,
) -> ApiResponse<MemoryPage> {
    let tier = query.tier();
    list(&session, freshness, &home, zone, query, tier).await
}

/// List archived memories: the cold tier.
#[utoipa::path(get, path = "/api/v1/agent/archive", tag = "memories",
    params(ListQuery, NamespaceHeader, ZoneHeader, ReadHeaders),
    responses((status = OK, body = MemoryPage), ReadErrors))]
pub(crate) async fn archive_list(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidQuery(query): ValidQuery<ListQuery>,
) -> ApiResponse<MemoryPage> {
    list(&session, freshness, &home, zone, query, TierFilter::Cold).await
}

async fn list(
    session: &Session,
    freshness: Freshness,
    home: &NamespaceHeader,
    zone: ZoneHeader,
    query: ListQuery,
    tier: TierFilter,
) -> ApiResponse<MemoryPage> {
    let (page, page_size, offset) = query.paging();
    let (from, to) = (query.time_from.map(|it| it.0), query.time_to.map(|it| it.0));
    let filter = Filter {
        memory_type: query.memory_type.map(|it| it.0),
        pinned: query.pinned,
        flagged: query.flagged,
        words: query.words().map(|text| words(std::iter::once(text))),
        tier,
        created: TimeSpan::between(from, to, &zone.time_zone()),
        origin: query.origin(),
        details: query.details(),
        ..home.filter(session, query.namespace.clone())?
    };
    let (sort, order) = (query.sort(), query.order());
    let min_heat = query.min_heat.map(|heat| heat.0);
    let request = ListRequest { filter, sort, order, offset, limit: page_size, min_heat };
    let found = session.list(request).await?;
    let items = found.memories.iter().map(Memory::from).collect();
    let body = MemoryPage { items, total: found.total, page, page_size };
    Ok(Success::ok(freshness, body))
}

/// The response to a write of one memory.
pub(crate) fn respond_one(
    done: WriteResult<TouchedMemories>,
    status: StatusCode,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let memory = done.value.memories.into_iter().next().ok_or_else(ApiError::internal)?;
    let body = WithNotifications::new(memory.into(), &done.notifications);
    Ok(Success { status, freshness: done.freshness, body })
}

/// Replace a memory by another one of its namespace. It becomes cold, and searches rank it lower.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/supersede", tag = "memories",
    params(MemoryPath), request_body = Supersession,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors, NotFound))]
pub(crate) async fn memory_supersede(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(request): ValidJson<Supersession>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    respond_one(session.submit(Supersede { old: id, by: request.by.0 }).await?, StatusCode::OK)
}

/// Give feedback on a memory.
#[utoipa::path(post, path = "/api/v1/feedback", tag = "memories", request_body = Feedback,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn feedback_create(
    Agent(session): Agent,
    ValidJson(request): ValidJson<Feedback>,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    give_feedback(&session, request.node_id.0, request.signal.0).await
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
    give_feedback(&session, id, request.signal.0).await
}

async fn give_feedback(
    session: &Session,
    id: MemoryId,
    signal: Signal,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    let done = session.submit(GiveFeedback { id, signal }).await?;
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
    Ok(Success::ok(done.freshness, WithNotifications::new(body, &done.notifications)))
}
