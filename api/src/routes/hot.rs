//! The hottest memories: hot context for an agent's turn, and the plain list.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use storage::model::id::TenantId;
use storage::model::tenant::Caller;
use storage::{Filter, HotRequest};

use crate::app::App;
use crate::auth::ReaderCaller;
use crate::consistency::Freshness;
use crate::error::ApiResult;
use crate::extract::{Body, Fields, Query};
use crate::limits::{HOT_CONTEXT_DEFAULT, HOT_NODES_DEFAULT};
use crate::openapi::{Asking, Reading};
use crate::routes::memories::read_namespace;
use crate::wire::memory::Scored;
use crate::wire::requests::{self, Fresh, Home};

/// Load a small context of the highest value: pinned first, then the hottest,
/// then the most recently updated.
#[utoipa::path(post, path = "/api/v1/agent/hot-context", tag = "search", params(Home, Fresh),
    request_body = requests::HotContext,
    responses((status = OK, body = Vec<Scored>), Asking))]
pub(crate) async fn hot_context(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let limit = body.fields.limit(HOT_CONTEXT_DEFAULT)?;
    let mut request = request(&caller, &body.fields, &headers, true, limit)?;
    let active = app.reader().thermo(caller.tenant).active_index;
    request.limit = request.limit.min(active.max_nodes as usize);
    let budget = active.context_budget_chars as usize;
    request.budget_chars = Some(body.fields.clamped("budget_chars", budget, 1, usize::MAX)?);
    hottest(&app, caller.tenant, freshness, request).await
}

/// List the hottest memories.
#[utoipa::path(get, path = "/api/v1/agent/hot_nodes", tag = "search",
    params(requests::HotQuery, Home, Fresh),
    responses((status = OK, body = Vec<Scored>), Reading))]
pub(crate) async fn hot_nodes(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    let limit = query.limit(HOT_NODES_DEFAULT)?;
    let request = request(&caller, &query, &headers, false, limit)?;
    hottest(&app, caller.tenant, freshness, request).await
}

fn request(
    caller: &Caller,
    fields: &Fields,
    headers: &HeaderMap,
    pinned_first: bool,
    limit: usize,
) -> ApiResult<HotRequest> {
    let filter = Filter {
        memory_type: fields.memory_type()?,
        namespace: read_namespace(caller, fields, headers)?,
        access: caller.access.clone(),
        ..Filter::default()
    };
    Ok(HotRequest { filter, pinned_first, limit, budget_chars: None })
}

async fn hottest(
    app: &App,
    tenant: TenantId,
    freshness: Freshness,
    request: HotRequest,
) -> ApiResult<Response> {
    let records = app.read(move |reader| reader.hottest(tenant, &request)).await?;
    let items: Vec<Scored> = records.iter().map(Scored::by_heat).collect();
    Ok((freshness, Json(items)).into_response())
}
