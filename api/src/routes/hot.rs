//! The hottest memories: the hot context for an agent's turn, and a plain list.

use axum::extract::State;
use storage::{Filter, HotRequest};

use crate::app::App;
use crate::auth::ReaderCaller;
use crate::openapi::{BodyErrors, ReadErrors};
use crate::read::FreshRead;
use crate::requests::headers::{Fresh, Home};
use crate::requests::search::{HotContext, HotQuery};
use crate::requests::{ValidJson, ValidQuery};
use crate::responses::Respond;
use crate::responses::memory::Scored;
use crate::service::error::ApiResult;

/// Load the context of an agent's turn: pinned memories first, then the hottest, then the most
/// recently updated.
#[utoipa::path(post, path = "/api/v1/agent/hot-context", tag = "search", params(Home, Fresh),
    request_body = HotContext,
    responses((status = OK, body = Vec<Scored>), BodyErrors))]
pub(crate) async fn hot_context(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    home: Home,
    ValidJson(request): ValidJson<HotContext>,
) -> ApiResult<Respond<Vec<Scored>>> {
    let (limit, budget_chars) = (request.limit(), request.budget_chars());
    let memory_type = request.memory_type.map(|it| it.0);
    let filter = Filter { memory_type, ..home.filter(&caller, request.namespace)? };
    let request = HotRequest { filter, limit, budget_chars, ..HotRequest::default() };
    let records = app.service().hot_context(&caller, request).await?;
    Ok(Respond::ok(freshness, records.iter().map(Scored::by_heat).collect()))
}

/// List the hottest memories.
#[utoipa::path(get, path = "/api/v1/agent/hot_nodes", tag = "search",
    params(HotQuery, Home, Fresh),
    responses((status = OK, body = Vec<Scored>), ReadErrors))]
pub(crate) async fn hot_nodes(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    home: Home,
    ValidQuery(query): ValidQuery<HotQuery>,
) -> ApiResult<Respond<Vec<Scored>>> {
    let (limit, memory_type) = (query.limit(), query.memory_type.map(|it| it.0));
    let filter = Filter { memory_type, ..home.filter(&caller, query.namespace)? };
    let request = HotRequest { filter, limit, ..HotRequest::default() };
    let records = app.service().hottest(&caller, request).await?;
    Ok(Respond::ok(freshness, records.iter().map(Scored::by_heat).collect()))
}
