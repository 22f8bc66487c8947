//! The dashboard of a tenant: counts, distributions, recent activity, and the usage of a month. All
//! counts are replicated, so nodes at one index return the same.

use std::collections::BTreeMap;

use storage::HEAT_BANDS;
use storage::model::analytics::Usage;

use crate::prelude::*;
use crate::responses::event::ActivityItem;
use crate::responses::memory::Memory;
use crate::responses::{TypeCount, days_of, type_counts};
use crate::service::tenant::Summary;

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
pub(crate) async fn dashboard_get(
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
pub(crate) async fn usage_get(AdminRead(session, freshness): AdminRead) -> ApiResponse<UsageView> {
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
