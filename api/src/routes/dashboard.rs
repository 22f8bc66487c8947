//! Counts for people and published clients: the dashboard of a tenant, the usage of a month, memories,
//! storage, and this node. All counts of a tenant are replicated, so nodes at one index return the same.

use std::collections::BTreeMap;

use storage::HEAT_BANDS;
use storage::model::analytics::Usage;

use crate::app::VERSION;
use crate::prelude::*;
use crate::responses::memory::Memory;
use crate::responses::{TypeCount, days_of, type_counts};
use crate::routes::activity::{ActivityItem, NamespaceQuery};
use crate::service::status::Summary;

/// Names of the heat bands, from the hottest down.
const BAND_NAMES: [&str; HEAT_BANDS.len()] = ["blazing", "hot", "warm", "cool", "frozen"];
/// Events on the dashboard.
const RECENT_EVENTS: usize = 10;

/// The dashboard of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Dashboard {
    total_nodes: u64,
    total_memories: u64,
    hot_nodes: u64,
    active_memories: u64,
    cold_nodes: u64,
    pinned_count: u64,
    flagged_count: u64,
    edge_count: u64,
    #[schema(minimum = 0, maximum = 1)]
    average_heat: f64,
    #[schema(minimum = 0, maximum = 1)]
    avg_heat: f64,
    heat_distribution: Vec<Band>,
    /// Memories of each type.
    memory_types: BTreeMap<&'static str, u64>,
    type_distribution: Vec<TypeCount>,
    /// Memories of each namespace: of the 1,000 with the most memories.
    namespace_counts: BTreeMap<String, u64>,
    namespace_count: usize,
    storage_usage_bytes: u64,
    #[schema(required)]
    hottest: Option<Memory>,
    #[schema(required)]
    coldest: Option<Memory>,
    /// Requests of this month.
    sync_requests: u64,
    avg_latency_ms: f64,
    #[schema(required)]
    tick: Option<LastTick>,
    recent_activity: Vec<ActivityItem>,
}

/// Memories with a heat from `min_heat` up to the next band.
#[derive(Serialize, ToSchema)]
struct Band {
    /// `blazing`, `hot`, `warm`, `cool` or `frozen`.
    band: &'static str,
    min_heat: f64,
    count: u64,
}

/// The last tick.
#[derive(Serialize, ToSchema)]
struct LastTick {
    number: u64,
    until: Time,
}

/// Usage of a tenant in the present calendar month.
#[derive(Serialize, ToSchema)]
pub(crate) struct UsageView {
    #[schema(format = Date)]
    billing_period_start: String,
    #[schema(format = Date)]
    billing_period_end: String,
    /// Requests.
    sync_requests: u64,
    nodes_added: u64,
    avg_latency_ms: f64,
    max_latency_ms: f64,
}

/// Get counts, distributions and recent activity.
#[utoipa::path(get, path = "/api/v1/admin/dashboard", tag = "analytics", params(ReadHeaders),
    responses((status = OK, body = Dashboard), ReadErrors))]
pub(crate) async fn get_dashboard(
    AdminRead(session, freshness): AdminRead,
) -> ApiResponse<Dashboard> {
    let recent = session.recent_events(None, RECENT_EVENTS, None).await?;
    let Summary { overview, edges, hottest, coldest, usage, tick } = session.summary().await?;
    let bands = BAND_NAMES.iter().zip(HEAT_BANDS).zip(overview.bands);
    let bands = bands.map(|((band, min_heat), count)| Band { band, min_heat, count });
    let total = overview.hot + overview.cold;
    let types = MemoryType::ALL.into_iter().map(MemoryType::name).zip(overview.types);
    let body = Dashboard {
        total_nodes: total,
        total_memories: total,
        hot_nodes: overview.hot,
        active_memories: overview.hot,
        cold_nodes: overview.cold,
        pinned_count: overview.pinned,
        flagged_count: overview.flagged,
        edge_count: edges,
        average_heat: rounded(overview.average_heat),
        avg_heat: rounded(overview.average_heat),
        heat_distribution: bands.collect(),
        memory_types: types.collect(),
        type_distribution: type_counts(&overview),
        namespace_count: overview.namespace_count,
        namespace_counts: overview.namespaces,
        storage_usage_bytes: overview.bytes,
        hottest: hottest.as_ref().map(Memory::from),
        coldest: coldest.as_ref().map(Memory::from),
        sync_requests: usage.requests,
        avg_latency_ms: average_ms(&usage),
        tick: tick.map(|tick| LastTick { number: tick.number, until: Time(tick.until) }),
        recent_activity: recent.items.iter().map(ActivityItem::from).collect(),
    };
    Ok(Success::ok(freshness, body))
}

/// Get the usage of the present calendar month.
#[utoipa::path(get, path = "/api/v1/admin/usage", tag = "analytics", params(ReadHeaders),
    responses((status = OK, body = UsageView), ReadErrors))]
pub(crate) async fn get_usage(AdminRead(session, freshness): AdminRead) -> ApiResponse<UsageView> {
    let (usage, month) = session.usage().await?;
    let (first, last) = days_of(month);
    let body = UsageView {
        billing_period_start: first,
        billing_period_end: last,
        sync_requests: usage.requests,
        nodes_added: usage.nodes_added,
        avg_latency_ms: average_ms(&usage),
        max_latency_ms: rounded(usage.latency_max_micros as f64 / 1e3),
    };
    Ok(Success::ok(freshness, body))
}

/// Mean time of a request, in milliseconds.
fn average_ms(usage: &Usage) -> f64 {
    match usage.requests {
        0 => 0.0,
        requests => rounded(usage.latency_micros as f64 / 1e3 / requests as f64),
    }
}

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
pub(crate) async fn get_memory_status(
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
pub(crate) async fn get_storage(
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
pub(crate) async fn get_metrics(
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
