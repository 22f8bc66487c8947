//! Memories one by one, lists of them, and feedback on them. Several at once: batch create, all or none, in
//! one log entry; and bulk writes: the same change, deletion or restoration of many memories, each by itself.

use jiff::tz::TimeZone;
use serde::de::IgnoredAny;
use storage::command::{GiveFeedback, Supersede};
use storage::model::id::MemoryId;
use storage::model::memory::{Editor, Signal};
use storage::model::tenant::Role;
use storage::text::tokenizer::words;
use storage::{
    Etag, ListRequest, QuarantineFilter, TierFilter, Touched, TouchedMemories, TouchedMemory,
};

use crate::prelude::*;
use crate::requests::JsonBody;
use crate::requests::conditions::condition;
use crate::requests::lists::{ListQuery, MemoryQuery};
use crate::requests::memories::{
    BulkChanges, BulkDeletion, BulkIds, DeletionQuery, Feedback, FeedbackSignal, MemoryChanges,
    NewMemories, NewMemory, Supersession, external_id_of,
};
use crate::requests::times::TimeSpan;
use crate::requests::values::{MemoryCursor, non_empty};
use crate::responses::memory::{AnchoredMemory, Memory, MemoryOrDeleted};
use crate::service::bulk::BulkResult;
use crate::service::writes::WriteResult;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryPage {
    items: Vec<Memory>,
    /// Memories on all pages.
    total: usize,
    page: usize,
    page_size: usize,
    /// The next page begins with it as `cursor`. Null at the end.
    next_cursor: Nullable<String>,
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
    /// `hot` once `relevant` has returned it from the cold tier. A memory that another one replaces stays there, and is
    /// not warmed.
    tier: MemoryTier,
}

/// Create a memory.
#[utoipa::path(post, path = "/api/v1/agent/nodes", tag = "memories",
    params(NamespaceHeader, OriginHeaders), request_body = NewMemory,
    responses((status = CREATED, body = WithNotifications<MemoryOrDeleted>),
        (status = OK, body = WithNotifications<MemoryOrDeleted>,
            description = "The namespace has this text already, and `on_duplicate` is `merge`."),
        WriteErrors, NotFound))]
pub(crate) async fn create_memory(
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
    let is_duplicate = done.value.memories.first().is_some_and(|memory| memory.is_duplicate);
    let status = if is_duplicate { StatusCode::OK } else { StatusCode::CREATED };
    respond_one(&session, done, status)
}

/// Get a memory.
#[utoipa::path(get, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath, MemoryQuery, ReadHeaders),
    responses((status = OK, body = AnchoredMemory), ReadErrors, NotFound))]
pub(crate) async fn get_memory(
    ReaderRead(session, freshness): ReaderRead,
    MemoryPath(id): MemoryPath,
    ValidQuery(query): ValidQuery<MemoryQuery>,
) -> ApiResponse<AnchoredMemory> {
    let mut record = session.memory(id).await?;
    session.request.set_tag(Etag::of(&record.memory));
    if let Some(at) = query.as_of.and_then(|at| at.0.instant_in(&TimeZone::UTC)) {
        record.memory.label = session.label_at(&record, at).await?;
    }
    let body = AnchoredMemory::new(&record, query.anchor.unwrap_or(false));
    Ok(Success::ok(freshness, body))
}

/// A text that a memory had.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionView {
    label: String,
    /// Since when the memory had it.
    from: Time,
    /// Until when; null for the present text.
    #[schema(required)]
    until: Option<Time>,
    /// Name of the key that wrote it.
    agent: Nullable<String>,
}

/// The texts of a memory, the newest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct VersionList {
    versions: Vec<VersionView>,
}

/// List the texts of a memory: the present one, and up to ten before it, of at most 64 KiB together.
#[utoipa::path(get, path = "/api/v1/agent/nodes/{id}/versions", tag = "memories",
    params(MemoryPath, ReadHeaders),
    responses((status = OK, body = VersionList), ReadErrors, NotFound))]
pub(crate) async fn list_versions(
    ReaderRead(session, freshness): ReaderRead,
    MemoryPath(id): MemoryPath,
) -> ApiResponse<VersionList> {
    let (record, versions) = session.versions(id).await?;
    let creator = record.memory.origin.agent.clone();
    let author = |author: Option<Editor>| author.map(|by| by.agent).or_else(|| creator.clone());
    let present = VersionView {
        from: Time(versions.since.unwrap_or(record.memory.created_at)),
        until: None,
        agent: author(versions.author),
        label: record.memory.label,
    };
    let past = versions.past.into_iter().rev().map(|version| VersionView {
        label: version.label,
        from: Time(version.from),
        until: Some(Time(version.until)),
        agent: author(version.author),
    });
    let versions = std::iter::once(present).chain(past).collect();
    Ok(Success::ok(freshness, VersionList { versions }))
}

/// Update a memory.
#[utoipa::path(patch, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath), request_body = MemoryChanges,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors,
        NotFound))]
pub(crate) async fn update_memory(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(body): ValidJson<MemoryChanges>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let patch = body.into_patch()?;
    respond_one(&session, session.update_memory(id, patch).await?, StatusCode::OK)
}

/// Delete a memory. Rejected while it is locked.
#[utoipa::path(delete, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath, DeletionQuery),
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors,
        NotFound))]
pub(crate) async fn delete_memory(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidQuery(query): ValidQuery<DeletionQuery>,
    _: ValidJson<IgnoredAny>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    respond_one(
        &session,
        session.delete_memory(id, query.reject.unwrap_or(false)).await?,
        StatusCode::OK,
    )
}

/// List memories, the hottest first by default.
#[utoipa::path(get, path = "/api/v1/agent/nodes", tag = "memories",
    params(ListQuery, NamespaceHeader, ZoneHeader, ReadHeaders),
    responses((status = OK, body = MemoryPage), ReadErrors))]
pub(crate) async fn list_memories(
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
pub(crate) async fn list_archive(
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
    let zone = zone.time_zone();
    if let Some(external_id) = &query.external_id {
        let named = named_namespace(query.namespace.clone())?.or(home.namespace());
        let namespace = session.store_namespace(named);
        let id = external_id_of(&namespace, &external_id.0);
        let items: Vec<_> = session.existing(id).await?.iter().map(Memory::from).collect();
        let total = items.len();
        return Ok(Success::ok(
            freshness,
            MemoryPage { items, total, page, page_size, next_cursor: None },
        ));
    }
    let quarantine = match query.quarantined {
        Some(true) => {
            session.check_role(Role::Admin)?;
            QuarantineFilter::Only
        }
        _ => QuarantineFilter::Without,
    };
    let (from, to) = (query.time_from.map(|it| it.0), query.time_to.map(|it| it.0));
    let filter = Filter {
        memory_type: query.memory_type.map(|it| it.0),
        pinned: query.pinned,
        flagged: query.flagged,
        quarantine,
        words: query.words().map(|text| words(std::iter::once(text))),
        tier,
        happened: TimeSpan::between(from, to, &zone),
        valid_at: query.as_of.and_then(|at| at.0.instant_in(&zone)),
        namespace_prefix: non_empty(query.namespace_prefix.clone()),
        condition: condition(query.filter.as_ref(), &zone)?,
        now: session.now(),
        origin: query.origin(),
        details: query.details(),
        ..home.filter(session, query.namespace.clone())?
    };
    let (sort, order) = (query.sort(), query.order());
    let min_heat = query.min_heat.map(|heat| heat.0);
    let after = query.cursor.map(|cursor| cursor.0.0);
    if after.is_some_and(|after| (after.sort, after.order) != (sort, order)) {
        return Err(ApiError::invalid("cursor", "is of a list in another order"));
    }
    let offset = if after.is_some() { 0 } else { offset };
    let request = ListRequest { filter, sort, order, after, offset, limit: page_size, min_heat };
    let found = session.list(request).await?;
    let items = found.memories.iter().map(Memory::from).collect();
    let next_cursor = found.next.map(|next| MemoryCursor(next).to_string());
    let body = MemoryPage { items, total: found.total, page, page_size, next_cursor };
    Ok(Success::ok(freshness, body))
}

/// The response to a write of one memory.
pub(crate) fn respond_one(
    session: &Session,
    done: WriteResult<TouchedMemories>,
    status: StatusCode,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    let memory = done.value.memories.into_iter().next().ok_or_else(ApiError::internal)?;
    if let Touched::Memory(record) = &memory.now {
        session.request.set_tag(Etag::of(&record.memory));
    }
    let body = WithNotifications::new(memory.into(), &done.notifications);
    Ok(Success { status, freshness: done.freshness, body })
}

/// Replace a memory by another one of its namespace. It becomes cold, and searches rank it lower.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/supersede", tag = "memories",
    params(MemoryPath), request_body = Supersession,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), WriteErrors, NotFound))]
pub(crate) async fn supersede_memory(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(request): ValidJson<Supersession>,
) -> ApiResponse<WithNotifications<MemoryOrDeleted>> {
    respond_one(
        &session,
        session.submit(Supersede { old: id, by: request.by.0 }).await?,
        StatusCode::OK,
    )
}

/// Give feedback on a memory.
#[utoipa::path(post, path = "/api/v1/feedback", tag = "memories", request_body = Feedback,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn give_feedback(
    Agent(session): Agent,
    ValidJson(request): ValidJson<Feedback>,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    submit_feedback(&session, request.node_id.0, request.signal.0).await
}

/// Give feedback on the memory that the path names.
#[utoipa::path(post, path = "/api/v1/agent/nodes/{id}/feedback", tag = "memories",
    params(MemoryPath), request_body = FeedbackSignal,
    responses((status = OK, body = WithNotifications<FeedbackEffect>), WriteErrors, NotFound))]
pub(crate) async fn give_memory_feedback(
    Agent(session): Agent,
    MemoryPath(id): MemoryPath,
    ValidJson(request): ValidJson<FeedbackSignal>,
) -> ApiResponse<WithNotifications<FeedbackEffect>> {
    submit_feedback(&session, id, request.signal.0).await
}

async fn submit_feedback(
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
        tier: OneOf(effect.tier),
    };
    Ok(Success::ok(done.freshness, WithNotifications::new(body, &done.notifications)))
}

/// A memory of a batch.
#[derive(Serialize, ToSchema)]
struct BatchItem {
    #[serde(flatten)]
    memory: MemoryOrDeleted,
    /// `created`; `duplicate`, if it was there, with the same text or the same `external_id`; or `deleted` since.
    status: &'static str,
}

/// All memories of a batch, in its order.
#[derive(Serialize, ToSchema)]
pub(crate) struct Batch {
    results: Vec<BatchItem>,
}

/// Memories that were changed.
#[derive(Serialize, ToSchema)]
pub(crate) struct Updated {
    updated: usize,
    /// Id and reason of each rejection.
    errors: Vec<String>,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
}

impl From<BulkResult> for Updated {
    fn from(result: BulkResult) -> Self {
        Self { updated: result.done, errors: result.errors, remaining: result.remaining }
    }
}

/// Memories that were deleted.
#[derive(Serialize, ToSchema)]
pub(crate) struct BulkDeleted {
    deleted: usize,
    /// Id and reason of the first 500 rejections.
    errors: Vec<String>,
    rejected: usize,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
}

/// Memories that were restored.
#[derive(Serialize, ToSchema)]
pub(crate) struct Restored {
    restored: usize,
    /// Id and reason of each rejection.
    errors: Vec<String>,
    /// Memories that were not reached: repeat the request for them.
    remaining: usize,
}

/// Create several memories: all or none.
#[utoipa::path(post, path = "/api/v1/agent/nodes/batch", tag = "memories",
    params(NamespaceHeader, OriginHeaders), request_body = NewMemories,
    responses((status = CREATED, body = WithNotifications<Batch>), WriteErrors, NotFound))]
pub(crate) async fn create_memories(
    Agent(session): Agent,
    home: NamespaceHeader,
    origin: RequestOrigin,
    ValidJson(body): ValidJson<NewMemories>,
) -> ApiResponse<WithNotifications<Batch>> {
    let home = session.store_namespace(home.namespace());
    let origin = origin.of(&session.caller);
    let nodes = body.nodes.0.into_iter().enumerate();
    let new = nodes.map(|(at, node)| {
        let new = node.0.into_memory(&home, origin.clone());
        new.map_err(|error| error.within(&format!("nodes[{at}]")))
    });
    let new = new.collect::<ApiResult<Vec<_>>>()?;
    let done = session.create_memories(new).await?;
    session.request.set_created(done.value.created());
    let item = |memory: TouchedMemory| {
        let status = match (&memory.now, memory.is_duplicate) {
            (Touched::Deleted, _) => "deleted",
            (_, true) => "duplicate",
            (_, false) => "created",
        };
        BatchItem { memory: memory.into(), status }
    };
    let results = done.value.memories.into_iter().map(item).collect();
    let body = WithNotifications::new(Batch { results }, &done.notifications);
    Ok(Success::created(done.freshness, body))
}

/// Change several memories alike.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk-patch", tag = "memories",
    request_body = BulkChanges,
    responses((status = OK, body = WithNotifications<Updated>), WriteErrors))]
pub(crate) async fn update_memories(
    Agent(session): Agent,
    body: JsonBody,
) -> ApiResponse<WithNotifications<Updated>> {
    let BulkChanges { ids, changes } = BulkChanges::parse(&body)?;
    drop(body);
    let result = session.update_memories(ids.ids.0, changes.into_patch()?).await?;
    let (freshness, notifications) = (result.freshness, result.notifications.clone());
    let body = WithNotifications::new(Updated::from(result), &notifications);
    Ok(Success::ok(freshness, body))
}

/// Delete several memories: by ids, by type and namespace, or by both: then the intersection is
/// deleted. With neither, the request is rejected.
#[utoipa::path(post, path = "/api/v1/agent/nodes/bulk", tag = "memories", params(NamespaceHeader),
    request_body = BulkDeletion, responses((status = OK, body = BulkDeleted), WriteErrors))]
pub(crate) async fn delete_memories(
    Agent(session): Agent,
    home: NamespaceHeader,
    ValidJson(request): ValidJson<BulkDeletion>,
) -> ApiResponse<BulkDeleted> {
    let (filter, rejects) = (request.filter()?, request.reject);
    let targets = request.ids.map(|ids| ids.0);
    let result = session.delete_memories(targets, filter, home.namespace(), rejects).await?;
    let body = BulkDeleted {
        deleted: result.done,
        errors: result.errors,
        rejected: result.rejected,
        remaining: result.remaining,
    };
    Ok(Success::ok(result.freshness, body))
}

/// Restore several memories from the cold tier.
#[utoipa::path(post, path = "/api/v1/agent/restore", tag = "memories", request_body = BulkIds,
    responses((status = OK, body = Restored), WriteErrors))]
pub(crate) async fn restore_memories(
    Agent(session): Agent,
    ValidJson(request): ValidJson<BulkIds>,
) -> ApiResponse<Restored> {
    let result = session.restore_memories(request.ids.0).await?;
    let body =
        Restored { restored: result.done, errors: result.errors, remaining: result.remaining };
    Ok(Success::ok(result.freshness, body))
}
