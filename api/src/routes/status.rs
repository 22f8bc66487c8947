//! The public status of a node; it requires no key.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::routes::health::{Health, health};

/// Release of the interface that this server implements.
const INTERFACE_VERSION: &str = "2.9.0";

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
    #[schema(required)]
    leader: Option<u64>,
    term: u64,
    applied_index: u64,
}

/// Get the status of the service. Requires no key.
#[utoipa::path(get, path = "/api/v1/status", tag = "tenant", security(()),
    responses((status = OK, body = ServiceStatus)))]
pub(crate) async fn status_get(State(app): State<App>) -> Json<ServiceStatus> {
    let status = match health(&app) {
        Health { live: false, .. } => "down",
        Health { ready: false, .. } => "degraded",
        Health { .. } => "ok",
    };
    let raft = app.service().raft().status();
    Json(ServiceStatus {
        status,
        version: INTERFACE_VERSION,
        hearth: app.identity().version,
        node: raft.node,
        role: raft.role,
        leader: raft.leader,
        term: raft.term,
        applied_index: raft.applied_index,
    })
}
