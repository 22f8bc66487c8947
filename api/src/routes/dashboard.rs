//! The dashboard: counts, distributions and recent activity of a tenant. All counts are
//! replicated, so nodes at one index return the same.

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Serialize;
use storage::HEAT_BANDS;
use storage::model::memory::MemoryType;
use storage::model::score::rounded;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::AdminCaller;
use crate::openapi::ReadErrors;
use crate::read::FreshRead;
use crate::requests::headers::Fresh;
use crate::responses::event::ActivityItem;
use crate::responses::memory::Memory;
use crate::responses::{Respond, TypeCount, timestamp, type_counts};
use crate::routes::usage::average_ms;
use crate::service::error::ApiResult;

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
    /// Memories of each namespace.
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
    #[schema(format = DateTime)]
    until: String,
}

/// Get counts, distributions and recent activity.
#[utoipa::path(get, path = "/api/v1/admin/dashboard", tag = "analytics", params(Fresh),
    responses((status = OK, body = Dashboard), ReadErrors))]
pub(crate) async fn dashboard_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<Dashboard>> {
    let data = app.service().dashboard(&caller).await?;
    let recent = app.service().recent_events(&caller, None, RECENT_EVENTS).await?;
    let overview = data.overview;
    let bands = BAND_NAMES.iter().zip(HEAT_BANDS).zip(overview.bands);
    let bands = bands.map(|((band, min_heat), count)| Band { band, min_heat, count });
    let total = overview.hot + overview.cold;
    let types = MemoryType::ALL.into_iter().map(MemoryType::name).zip(overview.types);
    let last_tick = |tick: storage::model::tick::Tick| LastTick {
        number: tick.number,
        until: timestamp(tick.until),
    };
    let body = Dashboard {
        total_nodes: total,
        total_memories: total,
        hot_nodes: overview.hot,
        active_memories: overview.hot,
        cold_nodes: overview.cold,
        pinned_count: overview.pinned,
        flagged_count: overview.flagged,
        edge_count: data.edges,
        average_heat: rounded(overview.average_heat),
        avg_heat: rounded(overview.average_heat),
        heat_distribution: bands.collect(),
        memory_types: types.collect(),
        type_distribution: type_counts(&overview),
        namespace_count: overview.namespaces.len(),
        namespace_counts: overview.namespaces,
        storage_usage_bytes: overview.bytes,
        hottest: data.hottest.as_ref().map(Memory::from),
        coldest: data.coldest.as_ref().map(Memory::from),
        sync_requests: data.usage.requests,
        avg_latency_ms: average_ms(&data.usage),
        tick: data.tick.map(last_tick),
        recent_activity: recent.events.iter().map(ActivityItem::from).collect(),
    };
    Ok(Respond::ok(freshness, body))
}
