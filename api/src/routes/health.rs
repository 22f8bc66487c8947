//! `/livez`: whether to restart this node. `/readyz`: whether to route requests to it. With
//! `?verbose`, one line per check. And the public status of a node. None requires a key.

use axum::Json;
use axum::extract::RawQuery;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::prelude::*;

/// Release of the interface that this server implements.
const INTERFACE_VERSION: &str = "2.9.0";

/// The health of a node.
struct Health {
    live: bool,
    ready: bool,
    /// Name of each check, and the reason if it failed.
    checks: Vec<(&'static str, Option<String>)>,
}

/// Checks everything that a node needs to serve requests.
fn health(app: &App) -> Health {
    let raft = &app.service.raft;
    let fault = raft.fault().cause();
    let cluster = match app.service.reader.cluster() {
        Ok(Some(_)) => None,
        Ok(None) => Some("the cluster is not bootstrapped: start one node with --bootstrap"),
        Err(_) => Some("the cluster's identity cannot be read"),
    };
    let leader = (!app.service.is_in_contact()).then_some("no contact with a leader");
    let accepting = app.is_draining().then_some("this node is shutting down");
    let checks = vec![
        // The cause is in the node's log only.
        ("storage", fault.as_ref().map(|_| "storage failed; this node stops".to_owned())),
        ("log", raft.status().quarantine),
        ("leader", leader.map(str::to_owned)),
        ("cluster", cluster.map(str::to_owned)),
        ("accepting", accepting.map(str::to_owned)),
    ];
    Health {
        live: fault.is_none(),
        ready: checks.iter().all(|(_, reason)| reason.is_none()),
        checks,
    }
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(livez)).routes(routes!(readyz)).routes(routes!(status_get))
}

/// Report whether this node is alive.
#[utoipa::path(get, path = "/livez", tag = "health", security(()),
    responses((status = OK, description = "It is.", body = String),
        (status = SERVICE_UNAVAILABLE, description = "Restart it.", body = String)))]
async fn livez(State(app): State<App>) -> (StatusCode, &'static str) {
    match health(&app).live {
        true => (StatusCode::OK, "ok\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
    }
}

/// Report whether this node is ready for requests; with `?verbose`, check by check.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = OK, description = "It is.", body = String),
        (status = SERVICE_UNAVAILABLE, description = "It is not.", body = String)))]
async fn readyz(State(app): State<App>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let health = health(&app);
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
async fn status_get(State(app): State<App>) -> Json<ServiceStatus> {
    let status = match health(&app) {
        Health { live: false, .. } => "down",
        Health { ready: false, .. } => "degraded",
        Health { .. } => "ok",
    };
    let raft = app.service.raft.status();
    Json(ServiceStatus {
        status,
        version: INTERFACE_VERSION,
        hearth: app.identity.version,
        node: raft.node,
        role: raft.role,
        leader: raft.leader,
        term: raft.term,
        applied_index: raft.applied_index,
    })
}
