//! The routes. A handler consists of extractors, one or two calls of the service, and a
//! response type.

pub(crate) mod activity;
mod analytics;
pub(crate) mod audit;
pub(crate) mod backups;
pub(crate) mod cluster;
pub(crate) mod consolidation;
mod dashboard;
mod events;
pub(crate) mod graph;
pub(crate) mod guard;
mod health;
pub(crate) mod hooks;
mod hygiene;
pub(crate) mod keys;
mod memories;
pub(crate) mod org;
pub(crate) mod published;
pub(crate) mod purge;
pub(crate) mod retention;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod tenants;
mod transfer;
pub(crate) mod triggers;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tower_http::cors::{AllowHeaders, CorsLayer};
use url::Url;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::app::App;
use crate::dashboard_files;
use crate::error::{ApiError, ErrorKind};
use crate::host::{known_host, one_host};
use crate::limits::{BODY_BYTES_MAX, FREE_FORM_BYTES_MAX};
use crate::mcp::{self, McpProfile};
use crate::middleware::{around, counted, strict_transport};
use crate::openapi;

/// What the public listener offers, by the configuration of the node.
#[derive(Debug, Clone, Default)]
pub struct PublicOptions {
    /// Origins whose web pages may use it, as in `https://app.example`.
    pub origins: Vec<String>,
    /// Whether agents in pages of this machine may use MCP: for trials without TLS.
    pub has_local_pages: bool,
    /// Which tools MCP has.
    pub profile: McpProfile,
    /// Names of those that keys see, as far as their roles permit; empty is all.
    pub tools: Vec<String>,
}

/// The router of the public listener.
///
/// # Errors
/// An origin is none, or a tool does not exist.
pub fn public(app: &App, options: PublicOptions) -> Result<Router, String> {
    let aliases = Router::new()
        .route("/api/v1/agent/fold", post(consolidation::fold_memories))
        .route("/api/v1/agent/consolidation-candidates", get(consolidation::list_fold_candidates))
        .route("/api/v1/agent/stats", get(dashboard::get_memory_status))
        .route("/api/v1/agent/recall-analytics", get(analytics::get_recall_totals))
        .route("/api/v1/agent/nodes/bulk-delete", post(memories::delete_memories))
        .route("/api/v1/agent/memory", post(memories::create_memory).get(memories::list_memories))
        .route(
            "/api/v1/agent/memory/{id}",
            get(memories::get_memory)
                .patch(memories::update_memory)
                .delete(memories::delete_memory),
        );
    let (routes, _) = agents().split_for_parts();
    let (open, _) = health::routes().split_for_parts();
    // No external validator is contacted.
    let config = Config::from("/api/v1/openapi.json").validator_url("none");
    // Its own response for a file that it does not have is empty.
    let page: Router<App> = SwaggerUi::new("/docs").config(config).into();
    let page = page.layer(map_response(async |response: Response| match response.status() {
        StatusCode::NOT_FOUND => no_such_path().into_response(),
        _ => response,
    }));
    let page = guarded(page, DOCS_POLICY);
    // All responses share the bytes.
    let document = Bytes::from(public_openapi());
    let document = get(async move || ([(CONTENT_TYPE, "application/json")], document));
    let mcp =
        mcp::routes(&options.origins, options.has_local_pages, options.profile, options.tools)?;
    let routes = routes.merge(aliases).merge(page).merge(mcp);
    let routes = routes.route("/api/v1/openapi.json", document);
    // Health is exempt: a busy node must not be restarted. So are the files of the dashboard: all
    // responses share their bytes.
    let routes = routes.layer(from_fn(counted)).merge(open);
    let routes = routes.merge(guarded(dashboard_files::routes(), DASHBOARD_POLICY));
    // Outside of what checks the key: a browser asks without one what it may send.
    let mut routes = finish(routes, app);
    if let Some(layer) = pages_of(&options.origins)? {
        routes = routes.layer(layer);
    }
    // Without TLS, the node serves one machine.
    Ok(if options.has_local_pages { routes } else { routes.layer(from_fn(strict_transport)) })
}

/// Allows web pages of some origins to send requests, and to read the responses (CORS). Without
/// origins, a request of the method OPTIONS is one that no path has.
fn pages_of(origins: &[String]) -> Result<Option<CorsLayer>, String> {
    const HOUR: Duration = Duration::from_secs(3_600);
    let origin = |text: &String| {
        let is_origin =
            Url::parse(text).is_ok_and(|url| url.origin().ascii_serialization() == *text);
        let value = is_origin.then(|| HeaderValue::from_str(text).ok()).flatten();
        value.ok_or_else(|| format!("{text:?} is no origin: write scheme, host and port only"))
    };
    let origins: Vec<_> = origins.iter().map(origin).collect::<Result<_, _>>()?;
    if origins.is_empty() {
        return Ok(None);
    }
    let shown = [
        "x-hearth-index",
        "x-hearth-node",
        "x-request-id",
        "x-hearth-cold-matches",
        "x-hearth-evidence",
    ];
    let layer = CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(
            shown.map(HeaderName::from_static).into_iter().chain([RETRY_AFTER]).collect::<Vec<_>>(),
        )
        .max_age(HOUR);
    Ok(Some(layer))
}

/// The interface of the operator's listener as OpenAPI 3.1, in JSON.
pub fn operator_openapi() -> String {
    let (_, operations) = operators().merge(health::routes()).split_for_parts();
    format!("{:#}\n", openapi::operator(operations))
}

/// The public interface as OpenAPI 3.1, in JSON.
pub fn public_openapi() -> String {
    let (_, operations) = agents().merge(health::routes()).split_for_parts();
    let document = openapi::public(
        operations,
        &[
            ("/api/v1/agent/nodes", "/api/v1/agent/memory"),
            ("/api/v1/agent/nodes/{id}", "/api/v1/agent/memory/{id}"),
            ("/api/v1/agent/nodes/bulk", "/api/v1/agent/nodes/bulk-delete"),
            ("/api/v1/agent/consolidation/fold", "/api/v1/agent/fold"),
            ("/api/v1/agent/consolidation/candidates", "/api/v1/agent/consolidation-candidates"),
            ("/api/v1/agent/memory/status", "/api/v1/agent/stats"),
            ("/api/v1/analytics/recall", "/api/v1/agent/recall-analytics"),
        ],
    );
    format!("{document:#}\n")
}

/// The operations of agents and administrators; they require a key.
fn agents() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(memories::create_memory, memories::list_memories))
        .routes(routes!(memories::list_versions))
        .routes(routes!(memories::get_memory, memories::update_memory, memories::delete_memory))
        .routes(routes!(memories::create_memories))
        .routes(routes!(memories::update_memories))
        .routes(routes!(memories::delete_memories))
        .routes(routes!(memories::restore_memories))
        .routes(routes!(memories::list_archive))
        .routes(routes!(memories::give_memory_feedback))
        .routes(routes!(memories::supersede_memory))
        .routes(routes!(memories::give_feedback))
        .routes(routes!(published::boost_memories))
        .routes(routes!(published::boost_memory))
        .routes(routes!(published::deprecate_memory))
        .routes(routes!(published::embed_text))
        .routes(routes!(published::backfill_embeddings))
        .routes(routes!(transfer::export_memories))
        .routes(routes!(transfer::import_memories))
        .routes(routes!(consolidation::list_fold_candidates))
        .routes(routes!(consolidation::fold_memories))
        .routes(routes!(consolidation::unfold_memories))
        .routes(routes!(search::search_memories))
        .routes(routes!(search::get_hot_context))
        .routes(routes!(search::list_hottest_memories))
        .routes(routes!(search::load_context))
        .routes(routes!(hooks::begin_session))
        .routes(routes!(hooks::submit_prompt))
        .routes(routes!(hooks::end_tool))
        .routes(routes!(hooks::end_turn))
        .routes(routes!(hooks::compact_context))
        .routes(routes!(graph::create_edge, graph::delete_edge))
        .routes(routes!(graph::get_neighbours))
        .routes(routes!(graph::get_graph_status))
        .routes(routes!(graph::verify_graph))
        .routes(routes!(graph::get_graph))
        .routes(routes!(dashboard::get_dashboard))
        .routes(routes!(dashboard::get_usage))
        .routes(routes!(analytics::get_recall_analytics))
        .routes(routes!(analytics::get_recall_totals))
        .routes(routes!(hygiene::get_hygiene))
        .routes(routes!(purge::purge_memories))
        .routes(routes!(audit::list_audit_entries))
        .routes(routes!(triggers::list_triggers, triggers::create_trigger))
        .routes(routes!(triggers::get_trigger_history))
        .routes(routes!(triggers::evaluate_triggers))
        .routes(routes!(triggers::list_deliveries))
        .routes(routes!(triggers::replay_deliveries))
        .routes(routes!(events::stream_events))
        .routes(routes!(triggers::get_trigger, triggers::update_trigger, triggers::delete_trigger))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::delete_key))
        .routes(routes!(keys::rotate_key))
        .routes(routes!(org::list_access_rules, org::set_access_rule))
        .routes(routes!(org::delete_access_rule))
        .routes(routes!(org::set_default_namespace))
        .routes(routes!(org::verify_key))
        .routes(routes!(org::get_org, org::update_org))
        .routes(routes!(dashboard::get_memory_status))
        .routes(routes!(dashboard::get_storage))
        .routes(routes!(dashboard::get_metrics))
        .routes(routes!(retention::get_retention, retention::set_retention))
        .routes(routes!(retention::preview_retention))
        .routes(routes!(guard::get_guard, guard::set_guard))
        .routes(routes!(guard::preview_guard))
        .merge(free_form())
}

/// Operations whose bodies contain JSON of any form. It becomes a tree, many times as large as
/// its text, so these bodies have a limit of their own.
fn free_form() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(settings::get_settings, settings::update_settings))
        .routes(routes!(settings::preview_settings))
        .routes(routes!(activity::list_activity, activity::record_activity))
        .layer(DefaultBodyLimit::max(FREE_FORM_BYTES_MAX))
}

/// The operations of operators; they require the operator key.
fn operators() -> OpenApiRouter<App> {
    let audit = OpenApiRouter::new().routes(routes!(audit::list_operator_audit_entries));
    cluster::routes().merge(audit).merge(backups::routes()).merge(tenants::routes())
}

/// The router of the operator's listener: health, all metrics of `registry`, and the cluster,
/// which requires the operator key. Clients may use IP addresses, names without a dot, and `hosts`
/// as names of this node.
pub fn operator(app: &App, registry: Registry, hosts: Vec<String>) -> Router {
    let metrics = async move || metrics_get(&registry);
    let (routes, _) = health::routes().merge(operators()).split_for_parts();
    let routes = routes.merge(guarded(dashboard_files::routes(), DASHBOARD_POLICY));
    let routes = routes.route("/metrics", get(metrics));
    let routes = routes.layer(from_fn_with_state(Arc::from(hosts), known_host));
    finish(routes, app).layer(map_response(name_process))
}

/// All metrics of `registry` in the Prometheus text format.
fn metrics_get(registry: &Registry) -> Response {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => ([(CONTENT_TYPE, TEXT_FORMAT)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics cannot be encoded");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// What a page may load and send: scripts, images and requests of this origin, styles as given, and
/// nothing else. A page may hold a key.
macro_rules! policy {
    ($styles:literal) => {
        concat!(
            "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src ",
            $styles
        )
    };
}
const DASHBOARD_POLICY: &str = policy!("'self'");
/// The page of the interface writes styles into its elements.
const DOCS_POLICY: &str = policy!("'self' 'unsafe-inline'");

/// The pages of these routes, with a policy.
fn guarded(routes: Router<App>, policy: &'static str) -> Router<App> {
    routes.layer(map_response(move |mut response: Response| {
        let headers = response.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        std::future::ready(response)
    }))
}

/// Adds the process id, so that the starter of a process can identify it.
async fn name_process(mut response: Response) -> Response {
    response.headers_mut().insert("x-hearth-process", std::process::id().into());
    response
}

fn no_such_path() -> ApiError {
    ApiError::new(ErrorKind::NotFound, "no_such_path", "no endpoint has this path")
}

fn finish(routes: Router<App>, app: &App) -> Router {
    routes
        .fallback(async || no_such_path())
        .method_not_allowed_fallback(async || {
            let message = "this path does not support the method";
            ApiError::new(ErrorKind::MethodNotAllowed, "method_not_allowed", message)
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn(one_host))
        .layer(from_fn_with_state(app.clone(), around))
        .with_state(app.clone())
}
