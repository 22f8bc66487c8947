//! Search by meaning, and the hottest memories: the hot context and the context of an agent's turn, and a
//! plain list.

use axum::http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use storage::model::details::Details;
use storage::{HotRequest, SearchRequest};
use utoipa::{IntoParams, ToSchema};

use crate::prelude::*;
use crate::requests::conditions::{FilterJson, condition};
use crate::requests::context::{ContextRequest, LoadedContext};
use crate::requests::details::{RequiredMetadata, Tags};
use crate::requests::memories::{any_namespace, origin};
use crate::requests::numbers::{Clamped, Score};
use crate::requests::times::TimeSpan;
use crate::requests::values::non_empty;
use crate::responses::memory::{Scored, SearchResult};
use crate::words::Word;

/// A search.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"query": "in which language are invoices?", "limit": 5}))]
pub(crate) struct Search {
    /// At most 64 KiB. Without words the results are ordered by heat.
    pub(crate) query: Query,
    #[serde(default)]
    pub(crate) limit: SearchLimit,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    #[schema(default = "hot")]
    pub(crate) tier: Option<TierWord>,
    /// Name of the key that created the memory.
    pub(crate) agent: Option<AgentName>,
    pub(crate) key_id: Option<KeyIdText>,
    /// Program that created it, with or without its version.
    pub(crate) client: Option<OriginName>,
    pub(crate) tool: Option<OriginName>,
    /// Tags that a memory must have.
    pub(crate) tags: Option<Tags>,
    /// Entries that its metadata must have.
    pub(crate) metadata: Option<RequiredMetadata>,
    /// Only memories created at this time or later. A day is one of the time zone in `X-Timezone`.
    pub(crate) time_from: Option<TimeText>,
    /// Only memories created at this time or earlier, or on this day.
    pub(crate) time_to: Option<TimeText>,
    /// Only memories that hold at this time; others count as replaced by default.
    pub(crate) as_of: Option<TimeText>,
    /// Only memories of this namespace and those below it: names are paths with `/`.
    pub(crate) namespace_prefix: Option<Namespace>,
    /// Conditions combined by and, or and not.
    pub(crate) filter: Option<FilterJson>,
    /// Leaves out results with a lower score.
    pub(crate) min_score: Option<Score>,
    /// Adds every factor of each score.
    pub(crate) explain: Option<bool>,
}

/// A hot context.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"limit": 10, "budget_chars": 4000}))]
pub(crate) struct HotContext {
    #[serde(default)]
    pub(crate) limit: HotContextLimit,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    /// Characters of labels; the first memory is returned in any case.
    pub(crate) budget_chars: Option<Positive>,
}

/// Which of the hottest memories.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HotQuery {
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: HotNodesLimit,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

/// Search memories by meaning, heat, words and namespace. A query without words returns the
/// hottest memories.
#[utoipa::path(post, path = "/api/v1/agent/search", tag = "search",
    params(NamespaceHeader, ZoneHeader, ReadHeaders), request_body = Search,
    responses((status = OK, body = Vec<SearchResult>, headers(
        ("X-Hearth-Evidence" = EvidenceWord, description = "Whether one of the first results may answer the \
        query. Absent for a query without words."),
        ("X-Hearth-Cold-Matches" = u64, description = "Archived memories, up to 100, that may answer the query \
        and would be among the results of both tiers: of a search in the hot tier."))), BodyErrors))]
pub(crate) async fn search_memories(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidJson(request): ValidJson<Search>,
) -> ApiResult<(HeaderMap, Success<Vec<SearchResult>>)> {
    let (limit, explain) = (request.limit.get(), request.explain.unwrap_or(false));
    let min_score = request.min_score.map(|it| it.0);
    let zone = zone.time_zone();
    let filter = Filter {
        memory_type: request.memory_type.map(|it| it.0),
        tier: request.tier.map_or_else(Default::default, |tier| tier.0),
        happened: TimeSpan::between(
            request.time_from.map(|it| it.0),
            request.time_to.map(|it| it.0),
            &zone,
        ),
        valid_at: request.as_of.and_then(|at| at.0.instant_in(&zone)),
        namespace_prefix: non_empty(request.namespace_prefix),
        condition: condition(request.filter.as_ref(), &zone)?,
        now: session.now(),
        origin: origin(request.key_id, &request.agent, &request.client, &request.tool),
        details: Details {
            tags: request.tags.unwrap_or_default().0,
            metadata: request.metadata.unwrap_or_default().0,
        },
        ..home.filter(&session, request.namespace)?
    };
    let home_namespace = home.namespace().or(session.caller.namespace.clone());
    let query = request.query.0;
    let request = SearchRequest {
        query,
        filter,
        home_namespace,
        limit,
        min_score,
        zone: Some(zone),
        ..SearchRequest::default()
    };
    let results = session.search(request).await?;
    let mut headers = HeaderMap::new();
    headers.insert("x-hearth-cold-matches", results.cold_matches.into());
    if let Some(evidence) = results.evidence() {
        headers.insert("x-hearth-evidence", HeaderValue::from_static(evidence.name()));
    }
    let result = |hit| SearchResult::new(hit, &results, explain);
    Ok((headers, Success::ok(freshness, results.hits.iter().map(result).collect())))
}

/// Load the context of an agent's turn: pinned memories first, then the hottest, then the most
/// recently updated.
#[utoipa::path(post, path = "/api/v1/agent/hot-context", tag = "search",
    params(NamespaceHeader, ReadHeaders), request_body = HotContext,
    responses((status = OK, body = Vec<Scored>), BodyErrors))]
pub(crate) async fn get_hot_context(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidJson(request): ValidJson<HotContext>,
) -> ApiResponse<Vec<Scored>> {
    let (limit, budget_chars) = (request.limit.get(), request.budget_chars.map(Clamped::get));
    let memory_type = request.memory_type.map(|it| it.0);
    let filter = Filter { memory_type, ..home.filter(&session, request.namespace)? };
    let request = HotRequest { filter, limit, budget_chars, ..HotRequest::default() };
    let records = session.hot_context(request).await?;
    Ok(Success::ok(freshness, records.iter().map(Scored::by_heat).collect()))
}

/// List the hottest memories.
#[utoipa::path(get, path = "/api/v1/agent/hot_nodes", tag = "search",
    params(HotQuery, NamespaceHeader, ReadHeaders),
    responses((status = OK, body = Vec<Scored>), ReadErrors))]
pub(crate) async fn list_hottest_memories(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<HotQuery>,
) -> ApiResponse<Vec<Scored>> {
    let (limit, memory_type) = (query.limit.get(), query.memory_type.map(|it| it.0));
    let filter = Filter { memory_type, ..home.filter(&session, query.namespace)? };
    let request = HotRequest { filter, limit, ..HotRequest::default() };
    let records = session.hottest(request).await?;
    Ok(Success::ok(freshness, records.iter().map(Scored::by_heat).collect()))
}

/// Load the context of an agent's turn as a text within a budget: what matches a query, then pinned
/// and hot memories.
#[utoipa::path(post, path = "/api/v1/agent/context", tag = "search",
    params(NamespaceHeader, ZoneHeader, ReadHeaders), request_body = ContextRequest,
    responses((status = OK, body = LoadedContext), BodyErrors))]
pub(crate) async fn load_context(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidJson(request): ValidJson<ContextRequest>,
) -> ApiResponse<LoadedContext> {
    Ok(Success::ok(freshness, request.load(&session, &home, zone.time_zone()).await?))
}
