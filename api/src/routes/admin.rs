//! Views for whoever administers a tenant: dashboard, usage, recall analytics. Their counts
//! are replicated, so every node at one index shows the same.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::analytics::{RecallStats, TypeStats, Usage};
use storage::model::memory::MemoryType;
use storage::model::score::rounded;
use storage::model::tenant::Caller;
use storage::{Filter, HEAT_BANDS, HotRequest, View};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::ApiResult;
use crate::openapi::Reading;
use crate::routes::activity::{ShownEvent, recent};
use crate::wire::memory::Memory;
use crate::wire::requests::Fresh;
use crate::wire::{self, TypeCount, schema};

/// Names of the bands of heat, from the hottest down.
const BAND_NAMES: [&str; HEAT_BANDS.len()] = ["blazing", "hot", "warm", "cool", "frozen"];
/// Events of the dashboard.
const RECENT_EVENTS: usize = 10;
/// Feedback from which a type is judged by it.
const FEEDBACK_MIN: u64 = 10;
/// SearchCounters from which the hit rate is judged.
const SEARCHES_MIN: u64 = 20;

/// How the memories of a tenant stand.
#[derive(Serialize, ToSchema)]
struct Dashboard {
    total_nodes: u64,
    total_memories: u64,
    hot_nodes: u64,
    active_memories: u64,
    cold_nodes: u64,
    pinned_count: u64,
    flagged_count: u64,
    edge_count: u64,
    #[schema(schema_with = schema::heat)]
    average_heat: f64,
    #[schema(schema_with = schema::heat)]
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
    recent_activity: Vec<ShownEvent>,
}

/// Memories from a heat up to the next band's.
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

/// What a tenant used in the present calendar month.
#[derive(Serialize, ToSchema)]
struct MonthsUsage {
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

/// What searches found, and what became of it.
#[derive(Serialize, ToSchema)]
struct RecallAnalytics {
    stats: Vec<TypeRecalls>,
    searches: u64,
    searches_with_results: u64,
    #[schema(required, minimum = 0, maximum = 1)]
    hit_rate: Option<f64>,
    /// What the counts suggest to change.
    suggestions: Vec<String>,
    #[schema(required)]
    period: Option<String>,
}

/// Recalls and feedback of a type.
#[derive(Serialize, ToSchema)]
struct TypeRecalls {
    #[schema(schema_with = schema::memory_type)]
    memory_type: &'static str,
    total_recalls: u64,
    relevant_count: u64,
    irrelevant_count: u64,
    outdated_count: u64,
    wrong_count: u64,
    #[schema(required, minimum = 0, maximum = 1)]
    relevance_ratio: Option<f64>,
    #[schema(required)]
    avg_heat_before: Option<f64>,
    #[schema(required)]
    avg_heat_after: Option<f64>,
}

/// Get counts, distributions and recent activity.
#[utoipa::path(get, path = "/api/v1/admin/dashboard", tag = "analytics", params(Fresh),
    responses((status = OK, body = Dashboard), Reading))]
pub(crate) async fn dashboard_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let tenant = caller.tenant;
    let (overview, hottest, coldest, usage, tick, edges) = app
        .read(move |reader| {
            let overview = reader.overview(tenant, &Filter::default());
            let request = HotRequest { limit: 1, ..HotRequest::default() };
            let hottest = reader.hottest(tenant, &request)?.into_iter().next();
            let coldest = overview.coldest.map(|id| reader.get(tenant, id)).transpose()?.flatten();
            let usage = reader.usage(tenant, reader.position().clock.month())?;
            let tick = reader.tick(tenant)?;
            Ok((overview, hottest, coldest, usage, tick, reader.counts(tenant).edges))
        })
        .await?;
    let (recent_activity, _) = recent(&app, &caller, None, RECENT_EVENTS).await?;
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
        type_distribution: wire::type_counts(&overview),
        namespace_count: overview.namespaces.len(),
        namespace_counts: overview.namespaces,
        storage_usage_bytes: overview.bytes,
        hottest: hottest.as_ref().map(Memory::from),
        coldest: coldest.as_ref().map(Memory::from),
        sync_requests: usage.requests,
        avg_latency_ms: average_ms(&usage),
        tick: tick.map(|tick| LastTick { number: tick.number, until: wire::timestamp(tick.until) }),
        recent_activity,
    };
    Ok((freshness, Json(body)).into_response())
}

/// Get what the tenant used in the present calendar month.
#[utoipa::path(get, path = "/api/v1/admin/usage", tag = "analytics", params(Fresh),
    responses((status = OK, body = MonthsUsage), Reading))]
pub(crate) async fn usage_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let (usage, month) = app
        .read(move |reader| {
            let month = reader.position().clock.month();
            Ok((reader.usage(caller.tenant, month)?, month))
        })
        .await?;
    let (first, last) = wire::days_of(month);
    let body = MonthsUsage {
        billing_period_start: first,
        billing_period_end: last,
        sync_requests: usage.requests,
        nodes_added: usage.nodes_added,
        avg_latency_ms: average_ms(&usage),
        max_latency_ms: rounded(usage.latency_max_micros as f64 / 1e3),
    };
    Ok((freshness, Json(body)).into_response())
}

/// Get recall patterns, hit rates and suggestions for tuning.
#[utoipa::path(get, path = "/api/v1/admin/recall-analytics", tag = "analytics", params(Fresh),
    responses((status = OK, body = RecallAnalytics), Reading))]
pub(crate) async fn recall_analytics_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    recall_analytics(&app, &caller, freshness).await
}

/// Get recall patterns, where published clients ask for them.
#[utoipa::path(get, path = "/api/v1/analytics/recall", tag = "analytics", params(Fresh),
    responses((status = OK, body = RecallAnalytics), Reading))]
pub(crate) async fn analytics_recall_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    recall_analytics(&app, &caller, freshness).await
}

async fn recall_analytics(app: &App, caller: &Caller, freshness: Freshness) -> ApiResult<Response> {
    let tenant = caller.tenant;
    let (stats, since) = app
        .read(move |reader| {
            let since = reader.tenant(tenant)?.map(|tenant| tenant.created_at);
            Ok((reader.recall_stats(tenant)?, since))
        })
        .await?;
    let types = MemoryType::ALL.into_iter().zip(&*stats.types);
    let body = RecallAnalytics {
        stats: types.map(|(name, of)| of_type(name, of)).collect(),
        searches: stats.searches,
        searches_with_results: stats.searches_with_results,
        hit_rate: ratio(stats.searches_with_results, stats.searches),
        suggestions: suggestions(&stats),
        period: since.map(|since| format!("since {}", wire::timestamp(since))),
    };
    Ok((freshness, Json(body)).into_response())
}

fn of_type(memory_type: MemoryType, stats: &TypeStats) -> TypeRecalls {
    let average = |sum: f64| (stats.warmings > 0).then(|| rounded(sum / stats.warmings as f64));
    TypeRecalls {
        memory_type: memory_type.name(),
        total_recalls: stats.recalls,
        relevant_count: stats.relevant,
        irrelevant_count: stats.irrelevant,
        outdated_count: stats.outdated,
        wrong_count: stats.wrong,
        relevance_ratio: ratio(stats.relevant, feedback(stats)),
        avg_heat_before: average(stats.heat_before),
        avg_heat_after: average(stats.heat_after),
    }
}

fn feedback(stats: &TypeStats) -> u64 {
    stats.relevant + stats.irrelevant + stats.outdated + stats.wrong
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| rounded(part as f64 / whole as f64))
}

/// What the counts suggest to change.
fn suggestions(stats: &RecallStats) -> Vec<String> {
    let mut suggestions = Vec::new();
    let hits = ratio(stats.searches_with_results, stats.searches);
    if stats.searches >= SEARCHES_MIN && hits.is_some_and(|hits| hits < 0.5) {
        suggestions.push(
            "more than half of all searches find nothing: look at the namespaces and types that \
             they filter by, or search with tier all"
                .into(),
        );
    }
    for (memory_type, of_type) in MemoryType::ALL.into_iter().zip(&*stats.types) {
        let (name, all) = (memory_type.name(), feedback(of_type));
        if all < FEEDBACK_MIN {
            continue;
        }
        if of_type.outdated * 3 > all {
            suggestions.push(format!(
                "more than a third of the feedback on {name} memories says that they are \
                 outdated: shorten decay_profiles.{name}.half_life"
            ));
        }
        if of_type.irrelevant * 2 > all {
            suggestions.push(format!(
                "more than half of the feedback on {name} memories says that they do not help: \
                 lower recall.heat_weight, so that similarity counts for more"
            ));
        }
        if of_type.wrong * 4 > all {
            suggestions.push(format!(
                "more than a quarter of the feedback on {name} memories says that they are \
                 wrong: review what GET /agent/nodes?flagged=true lists"
            ));
        }
    }
    suggestions
}

fn average_ms(usage: &Usage) -> f64 {
    match usage.requests {
        0 => 0.0,
        requests => rounded(usage.latency_micros as f64 / 1e3 / requests as f64),
    }
}
