//! Semantic search.

use axum::extract::State;
use storage::{Filter, SearchRequest};

use crate::app::App;
use crate::auth::ReaderCaller;
use crate::openapi::BodyErrors;
use crate::read::FreshRead;
use crate::requests::ValidJson;
use crate::requests::headers::{Fresh, Home};
use crate::requests::search::Search;
use crate::responses::Respond;
use crate::responses::memory::SearchResult;
use crate::service::error::ApiResult;

/// Search memories by meaning, heat, words and namespace. A query without words returns the
/// hottest memories.
#[utoipa::path(post, path = "/api/v1/agent/search", tag = "search", params(Home, Fresh),
    request_body = Search,
    responses((status = OK, body = Vec<SearchResult>), BodyErrors))]
pub(crate) async fn memory_search(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    home: Home,
    ValidJson(request): ValidJson<Search>,
) -> ApiResult<Respond<Vec<SearchResult>>> {
    let (limit, explain) = (request.limit(), request.explain.unwrap_or(false));
    let filter = Filter {
        memory_type: request.memory_type.map(|it| it.0),
        tier: request.tier.map_or_else(Default::default, |tier| tier.0),
        ..home.filter(&caller, request.namespace)?
    };
    let home_namespace = home.namespace().or(caller.namespace.clone());
    let query = request.query.0;
    let request = SearchRequest { query, vector: None, filter, home_namespace, limit };
    let results = app.service().search(&caller, request).await?;
    let window = results.window.as_ref();
    let result = |hit| SearchResult::new(hit, explain.then_some(window));
    Ok(Respond::ok(freshness, results.hits.iter().map(result).collect()))
}
