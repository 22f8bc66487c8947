//! Which path leads to which handler. A handler is: extractors, one or two
//! calls, a view.

mod batch;
mod cluster;
mod health;
mod hot;
mod memories;
mod operator;
mod search;
mod settings;
mod status;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use crate::app::App;
use crate::error::ApiError;
use crate::limits::BODY_BYTES_MAX;
use crate::metrics::Gauges;
use crate::middleware::{around, bounded, panicked};

/// The router of the public HTTPS listener.
pub fn public(app: &App) -> Router {
    let routes = Router::new()
        .route("/api/v1/agent/nodes", post(memories::memory_create).get(memories::memory_list))
        .route(
            "/api/v1/agent/nodes/{id}",
            get(memories::memory_get)
                .patch(memories::memory_update)
                .delete(memories::memory_delete),
        )
        .route("/api/v1/agent/nodes/batch", post(batch::memory_create_batch))
        .route("/api/v1/agent/search", post(search::memory_search))
        .route("/api/v1/agent/hot-context", post(hot::hot_context))
        .route("/api/v1/agent/hot_nodes", get(hot::hot_nodes))
        .route("/api/v1/settings/thermo", get(settings::thermo_get).patch(settings::thermo_update))
        .route("/api/v1/settings/thermo/preview", post(settings::thermo_preview))
        .layer(from_fn_with_state(app.clone(), bounded))
        .route("/api/v1/status", get(status::status_get))
        .merge(health::routes());
    finish(routes, app)
}

/// The router of the operator's listener: health, metrics, the cluster; no key.
pub fn operator(app: &App, gauges: impl Fn() -> Gauges + Clone + Send + Sync + 'static) -> Router {
    let metrics = move |state| operator::metrics_get(state, gauges());
    let routes = health::routes()
        .merge(cluster::routes())
        .route("/metrics", get(metrics))
        .route("/api/v1/status", get(status::status_get));
    finish(routes, app).layer(map_response(name_process))
}

/// Tells whoever started this process that it is this one that answers.
async fn name_process(mut response: Response) -> Response {
    response.headers_mut().insert("x-hearth-process", std::process::id().into());
    response
}

fn finish(routes: Router<App>, app: &App) -> Router {
    routes
        .fallback(async || {
            ApiError::new(StatusCode::NOT_FOUND, "no_such_path", "there is nothing at this path")
        })
        .method_not_allowed_fallback(async || {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            ApiError::new(status, "method_not_allowed", "this path does not take that method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), around))
        .with_state(app.clone())
}
