//! What a node says of itself to anybody.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::app::App;
use crate::routes::health::{Health, health};

/// Release of the interface that this server speaks.
const INTERFACE_VERSION: &str = "2.9.0";

/// State of the service; needs no key.
pub(crate) async fn status_get(State(app): State<App>) -> Json<Value> {
    let status = match health(&app) {
        Health { live: false, .. } => "down",
        Health { ready: false, .. } => "degraded",
        Health { .. } => "ok",
    };
    let raft = app.raft().status();
    Json(json!({
        "status": status,
        "version": INTERFACE_VERSION,
        "hearth": app.identity().version,
        "node": raft.node,
        "role": raft.role,
        "leader": raft.leader,
        "term": raft.term,
        "applied_index": raft.applied_index,
    }))
}
