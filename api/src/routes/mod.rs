//! Which path leads to which handler. A handler is: extractors, one or two
//! calls, a view.

mod activity;
mod admin;
mod batch;
mod bulk;
mod cluster;
mod feedback;
mod graph;
mod health;
mod hot;
mod keys;
mod memories;
mod operator;
mod search;
mod settings;
mod status;
mod tenant;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
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
        .route("/api/v1/agent/nodes/bulk-patch", post(bulk::memory_update_bulk))
        .route("/api/v1/agent/nodes/bulk", post(bulk::memory_delete_bulk))
        .route("/api/v1/agent/nodes/bulk-delete", post(bulk::memory_delete_bulk))
        .route("/api/v1/agent/nodes/{id}/feedback", post(feedback::memory_feedback))
        .route("/api/v1/agent/memory", post(memories::memory_create))
        .route(
            "/api/v1/agent/memory/{id}",
            get(memories::memory_get)
                .patch(memories::memory_update)
                .delete(memories::memory_delete),
        )
        .route("/api/v1/agent/archive", get(memories::archive_list))
        .route("/api/v1/agent/restore", post(bulk::memory_restore))
        .route("/api/v1/feedback", post(feedback::feedback_create))
        .route("/api/v1/agent/graph/relate", post(graph::edge_create).delete(graph::edge_delete))
        .route("/api/v1/agent/graph/neighbors/{id}", get(graph::neighbours_get))
        .route("/api/v1/agent/graph/status", get(graph::graph_status))
        .route("/api/v1/agent/graph/verify/{id}", get(graph::graph_verify))
        .route("/api/v1/admin/visualize/graph", get(graph::graph_get))
        .merge(of_tenant())
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

/// What belongs to a tenant as a whole.
fn of_tenant() -> Router<App> {
    Router::new()
        .route("/api/v1/admin/dashboard", get(admin::dashboard_get))
        .route("/api/v1/admin/usage", get(admin::usage_get))
        .route("/api/v1/admin/recall-analytics", get(admin::recall_analytics_get))
        .route("/api/v1/analytics/recall", get(admin::analytics_recall_get))
        .route("/api/v1/activity", get(activity::activity_list).post(activity::activity_create))
        .route("/api/v1/keys", get(keys::key_list).post(keys::key_create))
        .route("/api/v1/keys/{id}", delete(keys::key_delete))
        .route("/api/v1/namespaces/acl", get(keys::rule_list).post(keys::rule_create))
        .route("/api/v1/namespaces/acl/{id}", delete(keys::rule_delete))
        .route("/api/v1/namespaces/default", put(keys::namespace_default))
        .route("/api/v1/auth/verify", get(tenant::auth_verify))
        .route("/api/v1/org", get(tenant::org_get).patch(tenant::org_update))
        .route("/api/v1/agent/memory/status", get(tenant::memory_status))
        .route("/api/v1/agent/storage", get(tenant::storage_get))
        .route("/api/v1/metrics", get(tenant::metrics_json))
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
