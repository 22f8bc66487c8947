//! The five memory endpoints.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::edge::Suggestion;
use storage::model::id::{MemoryId, TenantId};
use storage::model::memory::{
    DecayClass, KEY_POINT_BYTES_MAX, KEY_POINTS_MAX, LABEL_BYTES_MAX, MemoryType, NAMESPACE_DEFAULT,
};
use storage::model::tenant::Caller;
use storage::model::words::words;
use storage::{Action, Filter, ListRequest, MemoryPatch, NewMemory, Order, Sort, TierFilter};
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller, may_read};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Fields, Id, Query};
use crate::limits::{DEADLINE, LIST_WORDS_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX};
use crate::openapi::{Missing, Reading, WritingOnce};
use crate::wire;
use crate::wire::memory::{Memory, Written};
use crate::wire::requests::{self, Fresh, Home, Once};
use crate::wire::trigger::WithNotifications;
use crate::write::{Done, Write, embed, header_namespace, unit};

/// A page of a list.
#[derive(Serialize, ToSchema)]
struct Page {
    items: Vec<Memory>,
    /// Memories on all pages.
    total: usize,
    page: usize,
    page_size: usize,
}

/// Create a memory.
#[utoipa::path(post, path = "/api/v1/agent/nodes", tag = "memories", params(Home, Once),
    request_body = requests::NewMemory,
    responses((status = CREATED, body = WithNotifications<Written>), WritingOnce))]
pub(crate) async fn memory_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    write: Write,
) -> ApiResult<Response> {
    let namespace = write.header_namespace()?;
    let new = new_memory(&app, caller.tenant, write.fields(), namespace.as_deref()).await?;
    let action = Action::CreateMemories(vec![new]);
    one(write.submit(&app, &caller, StatusCode::CREATED, action).await?)
}

/// Get a memory.
#[utoipa::path(get, path = "/api/v1/agent/nodes/{id}", tag = "memories", params(Id, Fresh),
    responses((status = OK, body = Memory), Reading, Missing))]
pub(crate) async fn memory_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Id(id): Id,
) -> ApiResult<Response> {
    let read = async || app.read(move |reader| reader.get(caller.tenant, id)).await;
    let mut record = read().await?;
    if record.is_none() {
        // It may have been stored through another node: a 404 must be true of the cluster.
        app.raft().read_index(Instant::now() + DEADLINE).await?;
        record = read().await?;
    }
    let record = record.ok_or(storage::Rejection::NotFound)?;
    may_read(&caller, &record.memory.namespace)?;
    Ok((freshness, Json(Memory::from(&record))).into_response())
}

/// Update a memory.
#[utoipa::path(patch, path = "/api/v1/agent/nodes/{id}", tag = "memories", params(Id, Once),
    request_body = requests::MemoryChanges,
    responses((status = OK, body = WithNotifications<Written>), WritingOnce, Missing))]
pub(crate) async fn memory_update(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    Id(id): Id,
    write: Write,
) -> ApiResult<Response> {
    let patch = patch(&app, write.fields()).await?;
    one(write.submit(&app, &caller, StatusCode::OK, Action::UpdateMemory(id, patch)).await?)
}

/// Delete a memory. Refused while it is locked.
#[utoipa::path(delete, path = "/api/v1/agent/nodes/{id}", tag = "memories", params(Id, Once),
    responses((status = OK, body = Written), WritingOnce, Missing))]
pub(crate) async fn memory_delete(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    Id(id): Id,
    write: Write,
) -> ApiResult<Response> {
    one(write.submit(&app, &caller, StatusCode::OK, Action::DeleteMemory(id)).await?)
}

/// List memories of the hot tier, by default the hottest first.
#[utoipa::path(get, path = "/api/v1/agent/nodes", tag = "memories",
    params(requests::ListQuery, Home, Fresh),
    responses((status = OK, body = Page), Reading))]
pub(crate) async fn memory_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    list(&app, &caller, freshness, &headers, query, TierFilter::Hot).await
}

/// List archived memories: the cold tier.
#[utoipa::path(get, path = "/api/v1/agent/archive", tag = "memories",
    params(requests::ListQuery, Home, Fresh),
    responses((status = OK, body = Page), Reading))]
pub(crate) async fn archive_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    list(&app, &caller, freshness, &headers, query, TierFilter::Cold).await
}

async fn list(
    app: &App,
    caller: &Caller,
    freshness: Freshness,
    headers: &HeaderMap,
    query: Fields,
    tier: TierFilter,
) -> ApiResult<Response> {
    let size_name = query.alias(&["page_size", "limit"]).unwrap_or("page_size");
    let page_size = query.clamped(size_name, PAGE_DEFAULT, 1, PAGE_MAX)?;
    let mut page = query.clamped("page", 1, 1, usize::MAX)?;
    let mut offset = (page - 1).saturating_mul(page_size);
    if query.alias(&["page", "offset"]) == Some("offset") {
        offset = query.clamped("offset", 0, 0, usize::MAX)?;
        page = offset / page_size + 1;
    }
    let request = ListRequest {
        filter: Filter { tier, ..list_filter(caller, &query, headers)? },
        sort: sort(&query)?,
        order: order(&query)?,
        offset,
        limit: page_size,
    };
    let tenant = caller.tenant;
    let found = app.read(move |reader| reader.list(tenant, &request)).await?;
    let items = found.memories.iter().map(Memory::from).collect();
    let body = Page { items, total: found.total, page, page_size };
    Ok((freshness, Json(body)).into_response())
}

/// The answer to a write of one memory.
fn one(done: Done) -> ApiResult<Response> {
    let memory = done.memories.into_iter().next().ok_or_else(ApiError::internal)?;
    let body = WithNotifications::new(memory, &done.notifications);
    Ok((done.status, done.freshness, Json(body)).into_response())
}

/// A new memory from the fields of a request; embeds its text.
pub(crate) async fn new_memory(
    app: &App,
    tenant: TenantId,
    fields: &Fields,
    namespace: Option<&str>,
) -> ApiResult<NewMemory> {
    let label = label(fields)?.ok_or_else(|| ApiError::invalid("label", "is required"))?;
    let heat = fields.either(&["initial_heat", "heat"], Fields::heat)?;
    let namespace = match fields.namespace()? {
        Some(named) => concrete(named)?,
        None => concrete(namespace.unwrap_or(NAMESPACE_DEFAULT).to_owned())?,
    };
    let key_points = fields.texts("key_points", KEY_POINTS_MAX, KEY_POINT_BYTES_MAX)?;
    let mut memory = NewMemory {
        id: MemoryId(Uuid::now_v7().into_bytes()),
        memory_type: fields.memory_type()?.unwrap_or(MemoryType::Episodic),
        namespace,
        decay_class: decay_class(fields)?.unwrap_or(DecayClass::Normal),
        is_pinned: fields.boolean("is_pinned")?.unwrap_or(false),
        min_heat: fields.heat("min_heat")?.unwrap_or(0.0),
        initial_heat: heat.unwrap_or(1.0),
        key_points,
        suggestions: Vec::new(),
        // Last: everything cheap was checked before.
        vector: embed(app, &label).await?,
        label,
    };
    memory.suggestions = suggestions(app, tenant, &memory).await?;
    Ok(memory)
}

/// What the memory should be related to.
async fn suggestions(app: &App, tenant: TenantId, new: &NewMemory) -> ApiResult<Vec<Suggestion>> {
    let unit = unit(&new.vector)?;
    let (label, key_points) = (new.label.clone(), new.key_points.clone());
    app.read(move |reader| Ok(reader.suggestions(tenant, &label, &key_points, &unit))).await
}

pub(crate) async fn patch(app: &App, fields: &Fields) -> ApiResult<MemoryPatch> {
    let patch = MemoryPatch {
        label: None,
        memory_type: fields.memory_type()?,
        namespace: fields.namespace()?.map(concrete).transpose()?,
        decay_class: decay_class(fields)?,
        is_pinned: fields.boolean("is_pinned")?,
        is_locked: fields.boolean("is_locked")?,
        min_heat: fields.heat("min_heat")?,
        is_flagged: fields.boolean("flagged_for_review")?,
        current_heat: fields.either(&["current_heat", "heat"], Fields::heat)?,
    };
    match label(fields)? {
        Some(label) => {
            let vector = embed(app, &label).await?;
            Ok(MemoryPatch { label: Some((label, vector)), ..patch })
        }
        None => Ok(patch),
    }
}

/// `pointer_summary` is the full text where clients send both.
fn label(fields: &Fields) -> ApiResult<Option<String>> {
    let read = |fields: &Fields, name: &str| fields.full_text(name, LABEL_BYTES_MAX);
    let text = fields.either(&["pointer_summary", "label", "content"], read)?;
    // An empty one alone is refused.
    if text.is_none() { fields.full_text("label", LABEL_BYTES_MAX) } else { Ok(text) }
}

fn decay_class(fields: &Fields) -> ApiResult<Option<DecayClass>> {
    fields.one_of("decay_class", wire::decay_class, wire::DECAY_CLASSES)
}

/// `*` names all namespaces of a read; a memory lies in one.
fn concrete(namespace: String) -> ApiResult<String> {
    match namespace.as_str() {
        "*" => Err(ApiError::invalid("namespace", "must name one namespace")),
        _ => Ok(namespace),
    }
}

/// The namespace that a read looks in; `None` is all of them.
pub(crate) fn read_namespace(
    caller: &Caller,
    fields: &Fields,
    headers: &HeaderMap,
) -> ApiResult<Option<String>> {
    let named = match fields.namespace()? {
        Some(named) => Some(named),
        None => header_namespace(headers)?,
    };
    let named = named.filter(|name| name != "*");
    if let Some(name) = &named {
        may_read(caller, name)?;
    }
    Ok(named)
}

fn list_filter(caller: &Caller, query: &Fields, headers: &HeaderMap) -> ApiResult<Filter> {
    let search = query.text("search", LIST_WORDS_BYTES_MAX)?.filter(|text| !text.trim().is_empty());
    Ok(Filter {
        memory_type: query.memory_type()?,
        namespace: read_namespace(caller, query, headers)?,
        access: caller.access.clone(),
        pinned: query.boolean("pinned")?,
        flagged: query.boolean("flagged")?,
        words: search.map(|text| words(std::iter::once(text.as_str()))),
        ..Filter::default()
    })
}

/// An unknown order is the default one: every published client's default must work.
fn sort(query: &Fields) -> ApiResult<Sort> {
    let name = query.alias(&["sort", "sort_by"]).unwrap_or("sort");
    Ok(match query.text(name, 64)?.as_deref() {
        Some("updated_at") => Sort::UpdatedAt,
        Some("created_at") => Sort::CreatedAt,
        Some("memory_type") => Sort::MemoryType,
        _ => Sort::Heat,
    })
}

fn order(query: &Fields) -> ApiResult<Order> {
    let name = query.alias(&["order", "sort_order"]).unwrap_or("order");
    Ok(match query.text(name, 64)?.as_deref() {
        Some("asc") => Order::Ascending,
        _ => Order::Descending,
    })
}
