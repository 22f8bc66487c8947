//! Which path leads to which handler. A handler is: extractors, one or two
//! calls, a view.

mod activity;
mod admin;
mod batch;
mod bulk;
mod cluster;
mod deliveries;
mod events;
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
mod triggers;

pub(crate) use deliveries::STATUSES;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::app::App;
use crate::error::ApiError;
use crate::limits::BODY_BYTES_MAX;
use crate::metrics::Gauges;
use crate::middleware::{around, bounded, panicked};
use crate::openapi::complete;

/// The router of the public HTTPS listener.
pub fn public(app: &App) -> Router {
    let aliases = Router::new()
        .route("/api/v1/agent/nodes/bulk-delete", post(bulk::memory_delete_bulk))
        .route("/api/v1/agent/memory", post(memories::memory_create).get(memories::memory_list))
        .route(
            "/api/v1/agent/memory/{id}",
            get(memories::memory_get)
                .patch(memories::memory_update)
                .delete(memories::memory_delete),
        );
    let (routes, _) = agents().split_for_parts();
    let routes = routes.merge(aliases).layer(from_fn_with_state(app.clone(), bounded));
    let (open, _) = open_to_all().split_for_parts();
    // Nobody outside is asked whether the document is valid.
    let config = Config::default().validator_url("none");
    let page = SwaggerUi::new("/docs").url("/api/v1/openapi.json", document()).config(config);
    finish(routes.merge(open).merge(page), app)
}

/// The public interface as OpenAPI 3.1, in JSON.
pub fn openapi() -> String {
    let json = document().to_pretty_json();
    json.expect("the document has text for names, and no infinite number") + "\n"
}

fn document() -> OpenApi {
    let (_, operations) = agents().merge(open_to_all()).split_for_parts();
    complete(
        operations,
        &[
            ("/api/v1/agent/nodes", "/api/v1/agent/memory"),
            ("/api/v1/agent/nodes/{id}", "/api/v1/agent/memory/{id}"),
            ("/api/v1/agent/nodes/bulk", "/api/v1/agent/nodes/bulk-delete"),
        ],
    )
}

/// What agents and administrators call, with a key.
fn agents() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(memories::memory_create, memories::memory_list))
        .routes(routes!(memories::memory_get, memories::memory_update, memories::memory_delete))
        .routes(routes!(batch::memory_create_batch))
        .routes(routes!(bulk::memory_update_bulk))
        .routes(routes!(bulk::memory_delete_bulk))
        .routes(routes!(bulk::memory_restore))
        .routes(routes!(memories::archive_list))
        .routes(routes!(feedback::memory_feedback))
        .routes(routes!(feedback::feedback_create))
        .routes(routes!(search::memory_search))
        .routes(routes!(hot::hot_context))
        .routes(routes!(hot::hot_nodes))
        .routes(routes!(graph::edge_create, graph::edge_delete))
        .routes(routes!(graph::neighbours_get))
        .routes(routes!(graph::graph_status))
        .routes(routes!(graph::graph_verify))
        .routes(routes!(graph::graph_get))
        .routes(routes!(settings::thermo_get, settings::thermo_update))
        .routes(routes!(settings::thermo_preview))
        .merge(of_tenant())
}

/// What belongs to a tenant as a whole.
fn of_tenant() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(admin::dashboard_get))
        .routes(routes!(admin::usage_get))
        .routes(routes!(admin::recall_analytics_get))
        .routes(routes!(admin::analytics_recall_get))
        .routes(routes!(activity::activity_list, activity::activity_create))
        .routes(routes!(triggers::trigger_list, triggers::trigger_create))
        .routes(routes!(triggers::trigger_history))
        .routes(routes!(triggers::trigger_evaluate))
        .routes(routes!(deliveries::delivery_list))
        .routes(routes!(deliveries::delivery_replay))
        .routes(routes!(events::event_stream))
        .routes(routes!(triggers::trigger_get, triggers::trigger_update, triggers::trigger_delete))
        .routes(routes!(keys::key_list, keys::key_create))
        .routes(routes!(keys::key_delete))
        .routes(routes!(keys::rule_list, keys::rule_create))
        .routes(routes!(keys::rule_delete))
        .routes(routes!(keys::namespace_default))
        .routes(routes!(tenant::auth_verify))
        .routes(routes!(tenant::org_get, tenant::org_update))
        .routes(routes!(tenant::memory_status))
        .routes(routes!(tenant::storage_get))
        .routes(routes!(tenant::metrics_json))
}

/// What needs no key.
fn open_to_all() -> OpenApiRouter<App> {
    health::routes().routes(routes!(status::status_get))
}

/// The router of the operator's listener: health, metrics, the cluster; no key.
pub fn operator(app: &App, gauges: impl Fn() -> Gauges + Clone + Send + Sync + 'static) -> Router {
    let metrics = move |state| operator::metrics_get(state, gauges());
    let (open, _) = open_to_all().split_for_parts();
    let routes = open.merge(cluster::routes()).route("/metrics", get(metrics));
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
