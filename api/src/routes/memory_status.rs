//! Counts of memories, storage, and this node, in the shapes that published clients read.

use std::collections::BTreeMap;

use crate::app::VERSION;
use crate::prelude::*;
use crate::requests::activity::NamespaceQuery;
use crate::responses::{TypeCount, type_counts};

/// Counts and capabilities.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryStatus {
    backend: &'static str,
    version: &'static str,
    /// The namespace of the request, or `*`.
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
    #[schema(minimum = 0, maximum = 1)]
    average_heat: f64,
    memory_types: Vec<TypeCount>,
}

/// Capabilities that published clients test for.
#[derive(Serialize, ToSchema)]
struct Capabilities {
    siu_classification: bool,
    semantic_search: bool,
}

/// Storage that memories take.
#[derive(Serialize, ToSchema)]
pub(crate) struct StorageUse {
    total_nodes: u64,
    total_size_bytes: u64,
    namespace_count: usize,
    /// Memories of each namespace: of the 1,000 with the most memories.
    namespaces: BTreeMap<String, u64>,
    #[schema(required)]
    oldest_node: Option<Time>,
    #[schema(required)]
    newest_node: Option<Time>,
}

/// Numbers of a node and of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Numbers {
    node: u64,
    role: &'static str,
    leader: Nullable<u64>,
    term: u64,
    applied_index: u64,
    memories: u64,
    edges: u64,
    events: u64,
    requests_this_month: u64,
    nodes_added_this_month: u64,
}

/// Get counts of memories: of one namespace, if named, and in total.
#[utoipa::path(get, path = "/api/v1/agent/memory/status", tag = "tenant",
    params(NamespaceQuery, NamespaceHeader, ReadHeaders),
    responses((status = OK, body = MemoryStatus), ReadErrors))]
pub(crate) async fn memory_status(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<NamespaceQuery>,
) -> ApiResponse<MemoryStatus> {
    let here = home.filter(&session, query.namespace)?;
    let namespace = here.namespace.clone();
    let filters = match namespace {
        Some(_) => vec![Filter { namespace: None, ..here.clone() }, here],
        None => vec![here],
    };
    let overviews = session.overviews(filters).await?;
    let [all, ..] = &overviews[..] else { return Err(ApiError::internal()) };
    let here = overviews.last().unwrap_or(all);
    let total = all.hot + all.cold;
    let body = MemoryStatus {
        backend: "hearth",
        version: VERSION,
        namespace: namespace.unwrap_or_else(|| "*".to_owned()),
        stats: MemoryCounts {
            namespace_memories: here.hot + here.cold,
            total_memories: total,
            tenant_total_memories: total,
            total_nodes: total,
            hot_nodes: all.hot,
            cold_nodes: all.cold,
            average_heat: rounded(all.average_heat),
            memory_types: type_counts(all),
        },
        capabilities: Capabilities { siu_classification: false, semantic_search: true },
    };
    Ok(Success::ok(freshness, body))
}

/// Get the storage that memories take.
#[utoipa::path(get, path = "/api/v1/agent/storage", tag = "tenant", params(ReadHeaders),
    responses((status = OK, body = StorageUse), ReadErrors))]
pub(crate) async fn storage_get(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<StorageUse> {
    let filter = Filter { access: session.caller.access.clone(), ..Filter::default() };
    let overview = session.overviews(vec![filter]).await?.pop().ok_or_else(ApiError::internal)?;
    let body = StorageUse {
        total_nodes: overview.hot + overview.cold,
        total_size_bytes: overview.bytes,
        namespace_count: overview.namespace_count,
        namespaces: overview.namespaces,
        oldest_node: overview.oldest.map(Time),
        newest_node: overview.newest.map(Time),
    };
    Ok(Success::ok(freshness, body))
}

/// Get numbers of this node and of the tenant. Operators use the Prometheus endpoint instead.
#[utoipa::path(get, path = "/api/v1/metrics", tag = "tenant", params(ReadHeaders),
    responses((status = OK, body = Numbers), ReadErrors))]
pub(crate) async fn metrics_json(
    State(app): State<App>,
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<Numbers> {
    let (counts, (usage, _)) = (session.counts().await?, session.usage().await?);
    let raft = app.service.node_status();
    let body = Numbers {
        node: raft.node,
        role: raft.role.name(),
        leader: raft.leader,
        term: raft.term,
        applied_index: raft.applied_index,
        memories: counts.memories,
        edges: counts.edges,
        events: counts.events,
        requests_this_month: usage.requests,
        nodes_added_this_month: usage.nodes_added,
    };
    Ok(Success::ok(freshness, body))
}
