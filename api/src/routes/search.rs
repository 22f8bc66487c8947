//! Search by meaning, and the hottest memories: the hot context for an agent's turn, and a plain
//! list.

use axum::http::HeaderValue;
use storage::model::details::Details;
use storage::{HotRequest, SearchRequest};

use crate::context::{self, LoadedContext};
use crate::prelude::*;
use crate::requests::memories::origin;
use crate::requests::numbers::Clamped;
use crate::requests::search::{ContextRequest, HotContext, HotQuery, Search};
use crate::requests::times::TimeSpan;
use crate::responses::memory::{Scored, SearchResult};

/// Search memories by meaning, heat, words and namespace. A query without words returns the
/// hottest memories.
#[utoipa::path(post, path = "/api/v1/agent/search", tag = "search",
    params(NamespaceHeader, ZoneHeader, ReadHeaders), request_body = Search,
    responses((status = OK, body = Vec<SearchResult>, headers(("X-Hearth-Cold-Matches" = u64,
        description = "Archived memories, up to 100, that contain a word of the query: of a search \
        in the hot tier with fewer results than its limit."))), BodyErrors))]
pub(crate) async fn memory_search(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    ValidJson(request): ValidJson<Search>,
) -> ApiResult<([(&'static str, HeaderValue); 1], Success<Vec<SearchResult>>)> {
    let (limit, explain) = (request.limit.get(), request.explain.unwrap_or(false));
    let min_score = request.min_score.map(|it| it.0);
    let zone = zone.time_zone();
    let filter = Filter {
        memory_type: request.memory_type.map(|it| it.0),
        tier: request.tier.map_or_else(Default::default, |tier| tier.0),
        created: TimeSpan::between(
            request.time_from.map(|it| it.0),
            request.time_to.map(|it| it.0),
            &zone,
        ),
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
        vector: None,
    };
    let results = session.search(request).await?;
    let result = |hit| SearchResult::new(hit, explain.then_some(&results));
    let cold_matches = [("x-hearth-cold-matches", results.cold_matches.into())];
    Ok((cold_matches, Success::ok(freshness, results.hits.iter().map(result).collect())))
}

/// Load the context of an agent's turn: pinned memories first, then the hottest, then the most
/// recently updated.
#[utoipa::path(post, path = "/api/v1/agent/hot-context", tag = "search",
    params(NamespaceHeader, ReadHeaders), request_body = HotContext,
    responses((status = OK, body = Vec<Scored>), BodyErrors))]
pub(crate) async fn hot_context(
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
pub(crate) async fn hot_nodes(
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
    params(NamespaceHeader, ReadHeaders), request_body = ContextRequest,
    responses((status = OK, body = LoadedContext), BodyErrors))]
pub(crate) async fn context_load(
    ReaderRead(session, freshness): ReaderRead,
    home: NamespaceHeader,
    ValidJson(request): ValidJson<ContextRequest>,
) -> ApiResponse<LoadedContext> {
    Ok(Success::ok(freshness, context::load(&session, &home, request).await?))
}
