//! Who the caller is, and how its tenant stands, in the shapes that published clients
//! read. A service of one's own has no plans: limits are `null`, everything is included.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::id::TenantId;
use storage::model::score::rounded;
use storage::model::tenant::KEY_NAME_BYTES_MAX;
use storage::{Action, Filter, View};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Fields, Query};
use crate::openapi::{Reading, Writing};
use crate::routes::memories::read_namespace;
use crate::wire::requests::{self, Fresh, Home};
use crate::wire::{self, TypeCount, schema};
use crate::write::ask;

/// What published clients call a plan.
const PLAN: &str = "self-hosted";
/// What this service does.
const FEATURES: [&str; 8] = [
    "semantic_search",
    "hot_context",
    "graph",
    "feedback",
    "analytics",
    "cold_tier",
    "bulk",
    "acl",
];

/// Whose a key is.
#[derive(Serialize, ToSchema)]
struct Whose {
    /// Always true.
    authenticated: bool,
    tenant_id: String,
    plan_tier: &'static str,
    /// Name of the key.
    agent_label: String,
    #[schema(schema_with = schema::role)]
    role: &'static str,
    #[schema(required)]
    namespace: Option<String>,
    limits: TenantLimits,
    features: [&'static str; FEATURES.len()],
}

/// What a tenant may have; null is without a limit.
#[derive(Serialize, ToSchema)]
struct TenantLimits {
    #[schema(required)]
    ops_per_month: Option<u64>,
    #[schema(required)]
    max_nodes: Option<u64>,
    #[schema(required)]
    max_agents: Option<u64>,
    #[schema(required)]
    max_sync_requests: Option<u64>,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
struct Org {
    tenant_id: String,
    org_name: String,
    plan_tier: &'static str,
    #[schema(required)]
    ops_limit: Option<u64>,
    #[schema(required)]
    nodes_limit: Option<u64>,
    #[schema(required)]
    max_seats: Option<u64>,
    seats_used: usize,
    features: String,
    #[schema(format = DateTime)]
    created_at: String,
}

/// How the memory stands.
#[derive(Serialize, ToSchema)]
struct MemoryStatus {
    backend: &'static str,
    version: &'static str,
    /// That of the request, or `*`.
    namespace: String,
    stats: MemoryCounts,
    capabilities: Capabilities,
}

/// Memories by namespace, tier and type.
#[derive(Serialize, ToSchema)]
struct MemoryCounts {
    namespace_memories: u64,
    total_memories: u64,
    tenant_total_memories: u64,
    total_nodes: u64,
    hot_nodes: u64,
    cold_nodes: u64,
    #[schema(schema_with = schema::heat)]
    average_heat: f64,
    memory_types: Vec<TypeCount>,
}

/// What published clients ask a memory for.
#[derive(Serialize, ToSchema)]
struct Capabilities {
    siu_classification: bool,
    semantic_search: bool,
}

/// What memories take.
#[derive(Serialize, ToSchema)]
struct StorageUse {
    total_nodes: u64,
    total_size_bytes: u64,
    /// Memories of each namespace.
    namespaces: BTreeMap<String, u64>,
    #[schema(required, format = DateTime)]
    oldest_node: Option<String>,
    #[schema(required, format = DateTime)]
    newest_node: Option<String>,
}

/// Numbers of a node and of a tenant.
#[derive(Serialize, ToSchema)]
struct Numbers {
    node: u64,
    role: &'static str,
    #[schema(required)]
    leader: Option<u64>,
    term: u64,
    applied_index: u64,
    memories: u64,
    edges: u64,
    events: u64,
    requests_this_month: u64,
    nodes_added_this_month: u64,
}

/// Tell whose key this is.
#[utoipa::path(get, path = "/api/v1/auth/verify", tag = "tenant", params(Fresh),
    responses((status = OK, body = Whose), Reading))]
pub(crate) async fn auth_verify(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let tenant = app.read(move |reader| reader.tenant(caller.tenant)).await?;
    let max_nodes = tenant.and_then(|tenant| tenant.memories_max);
    let body = Whose {
        authenticated: true,
        tenant_id: caller.tenant.0.to_string(),
        plan_tier: PLAN,
        agent_label: caller.name,
        role: caller.role.name(),
        namespace: caller.namespace,
        limits: TenantLimits {
            ops_per_month: None,
            max_nodes,
            max_agents: None,
            max_sync_requests: None,
        },
        features: FEATURES,
    };
    Ok((freshness, Json(body)).into_response())
}

/// Get the tenant.
#[utoipa::path(get, path = "/api/v1/org", tag = "tenant", params(Fresh),
    responses((status = OK, body = Org), Reading))]
pub(crate) async fn org_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let body = org(&app, caller.tenant).await?;
    Ok((freshness, Json(body)).into_response())
}

/// Give the tenant another name.
#[utoipa::path(patch, path = "/api/v1/org", tag = "tenant",
    request_body = requests::OrgChanges,
    responses((status = OK, body = Org), Writing))]
pub(crate) async fn org_update(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    body: Body,
) -> ApiResult<Response> {
    let read = |fields: &Fields, name: &str| fields.full_text(name, KEY_NAME_BYTES_MAX);
    let freshness = match body.fields.either(&["org_name", "name"], read)? {
        Some(name) => ask(&app, &caller, None, Action::RenameTenant(name)).await?.freshness,
        // Nothing named is nothing changed.
        None => Freshness::of_write(app.reader().position().index),
    };
    let body = org(&app, caller.tenant).await?;
    Ok((freshness, Json(body)).into_response())
}

async fn org(app: &App, id: TenantId) -> ApiResult<Org> {
    let (tenant, keys) =
        app.read(move |reader| Ok((reader.tenant(id)?, reader.api_keys(id)?))).await?;
    let tenant = tenant.ok_or_else(ApiError::internal)?;
    Ok(Org {
        tenant_id: id.0.to_string(),
        org_name: tenant.name,
        plan_tier: PLAN,
        ops_limit: None,
        nodes_limit: tenant.memories_max,
        max_seats: None,
        seats_used: keys.len(),
        features: FEATURES.join(","),
        created_at: wire::timestamp(tenant.created_at),
    })
}

/// Tell how the memory stands: of one namespace, if it is named, and in all.
#[utoipa::path(get, path = "/api/v1/agent/memory/status", tag = "tenant",
    params(requests::NamespaceQuery, Home, Fresh),
    responses((status = OK, body = MemoryStatus), Reading))]
pub(crate) async fn memory_status(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    let namespace = read_namespace(&caller, &query, &headers)?;
    let (tenant, access) = (caller.tenant, caller.access.clone());
    let of = Filter { namespace: namespace.clone(), access: access.clone(), ..Filter::default() };
    let (here, all) = app
        .read(move |reader| {
            let here = reader.overview(tenant, &of);
            let all = match of.namespace {
                None => here.clone(),
                Some(_) => reader.overview(tenant, &Filter { access, ..Filter::default() }),
            };
            Ok((here, all))
        })
        .await?;
    let total = all.hot + all.cold;
    let body = MemoryStatus {
        backend: "hearth",
        version: app.identity().version,
        namespace: namespace.unwrap_or_else(|| "*".to_owned()),
        stats: MemoryCounts {
            namespace_memories: here.hot + here.cold,
            total_memories: total,
            tenant_total_memories: total,
            total_nodes: total,
            hot_nodes: all.hot,
            cold_nodes: all.cold,
            average_heat: rounded(all.average_heat),
            memory_types: wire::type_counts(&all),
        },
        capabilities: Capabilities { siu_classification: false, semantic_search: true },
    };
    Ok((freshness, Json(body)).into_response())
}

/// Tell what the memories take.
#[utoipa::path(get, path = "/api/v1/agent/storage", tag = "tenant", params(Fresh),
    responses((status = OK, body = StorageUse), Reading))]
pub(crate) async fn storage_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let filter = Filter { access: caller.access.clone(), ..Filter::default() };
    let overview = app.read(move |reader| Ok(reader.overview(caller.tenant, &filter))).await?;
    let body = StorageUse {
        total_nodes: overview.hot + overview.cold,
        total_size_bytes: overview.bytes,
        namespaces: overview.namespaces,
        oldest_node: overview.oldest.map(wire::timestamp),
        newest_node: overview.newest.map(wire::timestamp),
    };
    Ok((freshness, Json(body)).into_response())
}

/// Get numbers of this node and of the tenant. Prometheus has a richer page, for operators.
#[utoipa::path(get, path = "/api/v1/metrics", tag = "tenant", params(Fresh),
    responses((status = OK, body = Numbers), Reading))]
pub(crate) async fn metrics_json(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let tenant = caller.tenant;
    let (counts, usage) = app
        .read(move |reader| {
            let month = reader.position().clock.month();
            Ok((reader.counts(tenant), reader.usage(tenant, month)?))
        })
        .await?;
    let raft = app.raft().status();
    let body = Numbers {
        node: raft.node,
        role: raft.role,
        leader: raft.leader,
        term: raft.term,
        applied_index: raft.applied_index,
        memories: counts.memories,
        edges: counts.edges,
        events: counts.events,
        requests_this_month: usage.requests,
        nodes_added_this_month: usage.nodes_added,
    };
    Ok((freshness, Json(body)).into_response())
}
