//! `/livez`: whether to restart this node. `/readyz`: whether to route requests to it. With
//! `?verbose`, one line per check. And the public status of a node. None requires a key.

use axum::Json;
use axum::extract::RawQuery;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::VERSION;
use crate::prelude::*;
use crate::service::status::Health;

/// Release of the interface that this server implements.
const INTERFACE_VERSION: &str = "2.9.0";

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(check_liveness))
        .routes(routes!(check_readiness))
        .routes(routes!(get_status))
}

/// Report whether this node is alive.
#[utoipa::path(get, path = "/livez", tag = "health", security(()),
    responses((status = OK, description = "It is.", body = String),
        (status = SERVICE_UNAVAILABLE, description = "Restart it.", body = String)))]
async fn check_liveness(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.service.health(app.is_draining()).live {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
    }
}

/// Report whether this node is ready for requests; with `?verbose`, check by check.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = OK, description = "It is.", body = String),
        (status = SERVICE_UNAVAILABLE, description = "It is not.", body = String)))]
async fn check_readiness(
    State(app): State<App>,
    RawQuery(query): RawQuery,
) -> (StatusCode, String) {
    let health = app.service.health(app.is_draining());
    let status = if health.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part == "verbose"));
    let shown = health.checks.iter().filter(|(_, reason)| verbose || reason.is_some());
    let lines: String = shown
        .map(|(name, reason)| match reason {
            None => format!("[+] {name} ok\n"),
            Some(reason) => format!("[-] {name} failed: {reason}\n"),
        })
        .collect();
    let last = if health.ready { "ready\n" } else { "not ready\n" };
    (status, lines + last)
}

/// Status of the service.
#[derive(Serialize, ToSchema)]
pub(crate) struct ServiceStatus {
    /// `ok`, `degraded` or `down`.
    status: &'static str,
    /// Release of the interface.
    version: &'static str,
    /// Release of the product.
    hearth: &'static str,
    node: u64,
    /// Role of this node in its cluster.
    role: &'static str,
    leader: Nullable<u64>,
    term: u64,
    applied_index: u64,
}

/// Get the status of the service. Requires no key.
#[utoipa::path(get, path = "/api/v1/status", tag = "tenant", security(()),
    responses((status = OK, body = ServiceStatus)))]
async fn get_status(State(app): State<App>) -> Json<ServiceStatus> {
    let status = match app.service.health(app.is_draining()) {
        Health { live: false, .. } => "down",
        Health { ready: false, .. } => "degraded",
        Health { .. } => "ok",
    };
    let raft = app.service.node_status();
    Json(ServiceStatus {
        status,
        version: INTERFACE_VERSION,
        hearth: VERSION,
        node: raft.node,
        role: raft.role.name(),
        leader: raft.leader,
        term: raft.term,
        applied_index: raft.applied_index,
    })
}
