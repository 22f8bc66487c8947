//! The hottest memories: the hot context for an agent's turn, and a plain list.

use axum::extract::State;

use crate::app::App;
use crate::auth::ReaderCaller;
use crate::openapi::{BodyErrors, ReadErrors};
use crate::read::FreshRead;
use crate::requests::headers::{Fresh, Home};
use crate::requests::memories::named_namespace;
use crate::requests::search::{HotContext, HotQuery};
use crate::requests::{ValidJson, ValidQuery};
use crate::responses::Respond;
use crate::responses::memory::Scored;
use crate::service::error::ApiResult;
use crate::service::read_namespace;
use crate::service::search::HottestInput;

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
    let named = named_namespace(request.namespace.clone())?;
    let input = HottestInput {
        limit: request.limit(),
        memory_type: request.memory_type.map(|it| it.0),
        namespace: read_namespace(&caller, named, home.namespace())?,
    };
    let records = app.service().hot_context(&caller, input, request.budget_chars()).await?;
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
    let named = named_namespace(query.namespace.clone())?;
    let input = HottestInput {
        limit: query.limit(),
        memory_type: query.memory_type.map(|it| it.0),
        namespace: read_namespace(&caller, named, home.namespace())?,
    };
    let records = app.service().hot_memories(&caller, input).await?;
    Ok(Respond::ok(freshness, records.iter().map(Scored::by_heat).collect()))
}
