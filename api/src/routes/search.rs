//! Semantic search.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use storage::{Filter, SearchRequest};

use crate::app::App;
use crate::auth::ReaderCaller;
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::Body;
use crate::limits::{QUERY_BYTES_MAX, SEARCH_DEFAULT};
use crate::openapi::Asking;
use crate::routes::memories::read_namespace;
use crate::wire;
use crate::wire::memory::Found;
use crate::wire::requests::{self, Fresh, Home};
use crate::write::{embed, header_namespace, unit};

/// Search memories by meaning, heat, words and namespace. An empty query is
/// answered by heat.
#[utoipa::path(post, path = "/api/v1/agent/search", tag = "search", params(Home, Fresh),
    request_body = requests::Search,
    responses((status = OK, body = Vec<Found>), Asking))]
pub(crate) async fn memory_search(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Response> {
    let fields = &body.fields;
    let query = fields.text("query", QUERY_BYTES_MAX)?;
    let query = query.ok_or_else(|| ApiError::invalid("query", "is required"))?;
    let explain = fields.boolean("explain")?.unwrap_or(false);
    let filter = Filter {
        memory_type: fields.memory_type()?,
        namespace: read_namespace(&caller, fields, &headers)?,
        access: caller.access.clone(),
        tier: fields.one_of("tier", wire::tier, "hot, cold, all")?.unwrap_or_default(),
        ..Filter::default()
    };
    let limit = fields.limit(SEARCH_DEFAULT)?;
    let home_namespace = header_namespace(&headers)?.or(caller.namespace);
    let vector = match query.trim() {
        "" => None,
        text => Some(unit(&embed(&app, text).await?)?),
    };
    let request = SearchRequest { query, vector, filter, home_namespace, limit };
    let found = app.read(move |reader| reader.search(caller.tenant, &request)).await?;
    app.observed().recalled(caller.tenant, found.hits.iter().map(|hit| hit.record.id));
    let window = found.window.as_ref();
    let hits = found.hits.iter().map(|hit| Found::new(hit, explain.then_some(window)));
    let hits: Vec<Found> = hits.collect();
    Ok((freshness, Json(hits)).into_response())
}
