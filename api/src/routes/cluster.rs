//! The cluster, for its operator: how it stands, who belongs to it, who leads, and
//! whether all nodes hold the same. On the operator's listener only.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use raft::{ClusterStatus, MemberStatus, OperateError, Operation, OperationResult, Verification};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::extract::Body;
use crate::limits::OPERATION_DEADLINE;

/// Longest host name with its port.
const ADDRESS_BYTES_MAX: usize = 512;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/cluster", get(cluster_get))
        .route("/cluster/members", post(member_add))
        .route("/cluster/members/{id}", delete(member_remove))
        .route("/cluster/transfer", post(leader_transfer))
        .route("/cluster/verify", post(cluster_verify))
}

async fn cluster_get(State(app): State<App>) -> ApiResult<Json<Value>> {
    operate(&app, Operation::Status).await
}

/// Lets a pristine node in: `{"id": 4, "address": "host:port"}`.
async fn member_add(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<Value>)> {
    json_only(&headers)?;
    let address = body.fields.full_text("address", ADDRESS_BYTES_MAX)?;
    let address = address.ok_or_else(|| ApiError::invalid("address", "is required"))?;
    let add = Operation::Add { node: body.fields.node("id")?, address };
    Ok((StatusCode::ACCEPTED, operate(&app, add).await?))
}

async fn member_remove(State(app): State<App>, Path(id): Path<String>) -> ApiResult<Json<Value>> {
    let node = id.parse().map_err(|_| ApiError::invalid("id", "must be the id of a node"))?;
    operate(&app, Operation::Remove { node }).await
}

/// Has another voter lead: `{"to": 2}`.
async fn leader_transfer(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<Value>> {
    json_only(&headers)?;
    operate(&app, Operation::Transfer { to: body.fields.node("to")? }).await
}

async fn cluster_verify(State(app): State<App>, headers: HeaderMap) -> ApiResult<Json<Value>> {
    json_only(&headers)?;
    operate(&app, Operation::Verify).await
}

/// This listener takes no key: a page in a browser on this machine must not be able
/// to change the cluster. Browsers send JSON to others only with their consent.
fn json_only(headers: &HeaderMap) -> ApiResult<()> {
    let sent = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    match sent.is_some_and(|sent| sent.starts_with("application/json")) {
        true => Ok(()),
        false => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "json_only",
            "send Content-Type: application/json",
        )),
    }
}

async fn operate(app: &App, operation: Operation) -> ApiResult<Json<Value>> {
    let deadline = Instant::now() + OPERATION_DEADLINE;
    match app.raft().operate(operation, deadline).await {
        Ok(OperationResult::Status(status)) => Ok(Json(cluster(&status))),
        Ok(OperationResult::Verified(verification)) => Ok(Json(verified(&verification))),
        Ok(OperationResult::Done) => Ok(Json(json!({ "done": true }))),
        Err(error @ OperateError::NoLeader) => {
            Err(ApiError::unavailable("no_leader", error.to_string()))
        }
        Err(error @ OperateError::Unknown) => {
            Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "outcome_unknown", error.to_string()))
        }
        Err(OperateError::Refused(reason)) => {
            Err(ApiError::new(StatusCode::CONFLICT, "refused", reason))
        }
    }
}

fn cluster(status: &ClusterStatus) -> Value {
    let member = |member: &MemberStatus| {
        json!({
            "id": member.node,
            "address": member.address,
            "role": member.role,
            "lag": member.lag,
            "last_contact_ms": member.last_contact_ms,
        })
    };
    json!({
        "leader": status.leader,
        "term": status.term,
        "last_log_index": status.last_log_index,
        "changing": status.changing,
        "members": status.members.iter().map(member).collect::<Vec<_>>(),
    })
}

fn verified(verification: &Verification) -> Value {
    let hex = |hash: &[u8; 32]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let node = |(node, hash): &(u64, Option<[u8; 32]>)| json!({ "id": node, "sha256": hash.as_ref().map(hex) });
    json!({
        "index": verification.index,
        "equal": verification.agrees(),
        "differ": verification.differs(),
        "nodes": verification.hashes.iter().map(node).collect::<Vec<_>>(),
        "quarantined": verification.quarantined,
    })
}
