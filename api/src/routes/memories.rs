//! Memories one by one, and lists of them.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use storage::model::caller::Caller;
use storage::model::words::words;
use storage::{Action, Filter, ListRequest, TierFilter};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller};
use crate::current::set_created;
use crate::openapi::{IdempotentErrors, NotFound, ReadErrors};
use crate::read::FreshRead;
use crate::requests::ValidQuery;
use crate::requests::headers::{Fresh, Home, Once};
use crate::requests::memories::{ListQuery, MemoryChanges, NewMemory};
use crate::requests::path::MemoryPath;
use crate::responses::Respond;
use crate::responses::memory::{Memory, MemoryOrDeleted};
use crate::responses::trigger::WithNotifications;
use crate::service::error::ApiResult;
use crate::service::freshness::Freshness;
use crate::service::memories::single;
use crate::service::writes::{Done, TouchedMemories};
use crate::words::{order, sort};
use crate::write::Write;

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryPage {
    items: Vec<Memory>,
    /// Memories on all pages.
    total: usize,
    page: usize,
    page_size: usize,
}

/// The body of a request without fields.
#[derive(serde::Deserialize)]
pub(crate) struct EmptyBody {}

/// Create a memory.
#[utoipa::path(post, path = "/api/v1/agent/nodes", tag = "memories", params(Home, Once),
    request_body = NewMemory,
    responses((status = CREATED, body = WithNotifications<MemoryOrDeleted>), IdempotentErrors))]
pub(crate) async fn memory_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    home: Home,
    write: Write<NewMemory>,
) -> ApiResult<Respond<WithNotifications<MemoryOrDeleted>>> {
    let receipt = write.receipt;
    let input = write.body.into_input(home.namespace().as_deref())?;
    let done = app.service().create_memories(&caller, receipt, vec![input]).await?;
    if !done.value.is_replay {
        set_created(1);
    }
    respond_one(done, StatusCode::CREATED)
}

/// Get a memory.
#[utoipa::path(get, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath, Fresh),
    responses((status = OK, body = Memory), ReadErrors, NotFound))]
pub(crate) async fn memory_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    MemoryPath(id): MemoryPath,
) -> ApiResult<Respond<Memory>> {
    let record = app.service().memory(&caller, id).await?;
    Ok(Respond::ok(freshness, (&record).into()))
}

/// Update a memory.
#[utoipa::path(patch, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath, Once), request_body = MemoryChanges,
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), IdempotentErrors,
        NotFound))]
pub(crate) async fn memory_update(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    MemoryPath(id): MemoryPath,
    write: Write<MemoryChanges>,
) -> ApiResult<Respond<WithNotifications<MemoryOrDeleted>>> {
    let receipt = write.receipt;
    let edit = write.body.into_edit()?;
    let done = app.service().update_memory(&caller, receipt, id, edit).await?;
    respond_one(done, StatusCode::OK)
}

/// Delete a memory. Rejected while it is locked.
#[utoipa::path(delete, path = "/api/v1/agent/nodes/{id}", tag = "memories",
    params(MemoryPath, Once),
    responses((status = OK, body = WithNotifications<MemoryOrDeleted>), IdempotentErrors,
        NotFound))]
pub(crate) async fn memory_delete(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    MemoryPath(id): MemoryPath,
    write: Write<EmptyBody>,
) -> ApiResult<Respond<WithNotifications<MemoryOrDeleted>>> {
    let receipt = write.receipt;
    let action = Action::DeleteMemory(id);
    respond_one(app.service().submit_memories(&caller, receipt, action).await?, StatusCode::OK)
}

/// List memories of the hot tier, the hottest first by default.
#[utoipa::path(get, path = "/api/v1/agent/nodes", tag = "memories",
    params(ListQuery, Home, Fresh),
    responses((status = OK, body = MemoryPage), ReadErrors))]
pub(crate) async fn memory_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    home: Home,
    ValidQuery(query): ValidQuery<ListQuery>,
) -> ApiResult<Respond<MemoryPage>> {
    list(&app, &caller, freshness, &home, query, TierFilter::Hot).await
}

/// List archived memories: the cold tier.
#[utoipa::path(get, path = "/api/v1/agent/archive", tag = "memories",
    params(ListQuery, Home, Fresh),
    responses((status = OK, body = MemoryPage), ReadErrors))]
pub(crate) async fn archive_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    home: Home,
    ValidQuery(query): ValidQuery<ListQuery>,
) -> ApiResult<Respond<MemoryPage>> {
    list(&app, &caller, freshness, &home, query, TierFilter::Cold).await
}

async fn list(
    app: &App,
    caller: &Caller,
    freshness: Freshness,
    home: &Home,
    query: ListQuery,
    tier: TierFilter,
) -> ApiResult<Respond<MemoryPage>> {
    let (page, page_size, offset) = query.paging();
    let filter = Filter {
        memory_type: query.memory_type.map(|it| it.0),
        pinned: query.pinned,
        flagged: query.flagged,
        words: query.words().map(|text| words(std::iter::once(text))),
        tier,
        ..home.filter(caller, query.namespace.clone())?
    };
    let (sort, order) = (sort(query.sort()), order(query.order()));
    let request = ListRequest { filter, sort, order, offset, limit: page_size };
    let found = app.service().list(caller.tenant, request).await?;
    let items = found.memories.iter().map(Memory::from).collect();
    let body = MemoryPage { items, total: found.total, page, page_size };
    Ok(Respond::ok(freshness, body))
}

/// The response to a write of one memory.
fn respond_one(
    done: Done<TouchedMemories>,
    status: StatusCode,
) -> ApiResult<Respond<WithNotifications<MemoryOrDeleted>>> {
    let memory = single(done.value.memories)?.into();
    let body = WithNotifications::new(memory, &done.notifications);
    Ok(Respond::ok(done.freshness, body).with_status(status))
}
