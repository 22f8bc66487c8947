//! The cluster, for its operator: status, members, leadership, verification. On the operator's
//! listener only.

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use raft::{ClockStatus, ClusterStatus, Operation, OperationResult};
use serde::{Deserialize, Serialize};
use storage::model::id::Timestamp;

use crate::app::App;
use crate::limits::ADDRESS_BYTES_MAX;
use crate::requests::ValidJson;
use crate::requests::numbers::Whole;
use crate::requests::path::NodePath;
use crate::requests::values::NonBlank;
use crate::responses::Time;
use crate::service::error::{ApiError, ApiResult, ErrorKind};

/// A node to add.
#[derive(Debug, Deserialize)]
struct NewMember {
    id: Whole<1, { u64::MAX }>,
    /// Host and port of its peer listener.
    address: NonBlank<ADDRESS_BYTES_MAX>,
}

/// A voter that should lead.
#[derive(Debug, Deserialize)]
struct Transfer {
    to: Whole<1, { u64::MAX }>,
}

/// The state hash of a member.
#[derive(Serialize)]
struct HashView {
    id: u64,
    sha256: Option<String>,
}

/// The wall clock of a member.
#[derive(Serialize)]
struct WallClockView {
    id: u64,
    /// Wall clock minus cluster time.
    offset_ms: Option<i64>,
}

/// The result of an operation.
#[derive(Serialize)]
#[serde(untagged)]
enum OperationView {
    /// The cluster, as its leader reports it.
    Cluster(ClusterStatus),
    /// The state hashes of all members at one index.
    Verification {
        index: u64,
        equal: bool,
        differ: bool,
        nodes: Vec<HashView>,
        quarantined: Vec<u64>,
    },
    /// Cluster time and the wall clocks of all members.
    Clock {
        cluster_time: Time,
        /// The median of the voters' wall clocks minus cluster time.
        median_offset_ms: Option<i64>,
        nodes: Vec<WallClockView>,
    },
    /// An operation was carried out: always true.
    Done { done: bool },
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/cluster", get(cluster_get))
        .route("/cluster/members", post(member_add))
        .route("/cluster/members/{id}", delete(member_remove))
        .route("/cluster/transfer", post(leader_transfer))
        .route("/cluster/verify", post(cluster_verify))
        .route("/cluster/clock", get(clock_get).post(clock_set))
}

async fn cluster_get(State(app): State<App>) -> ApiResult<Json<OperationView>> {
    operate(&app, Operation::Status).await
}

/// Adds a pristine node: `{"id": 4, "address": "host:port"}`.
async fn member_add(
    State(app): State<App>,
    _: JsonOnly,
    ValidJson(request): ValidJson<NewMember>,
) -> ApiResult<(StatusCode, Json<OperationView>)> {
    let add = Operation::Add { node: request.id.0, address: request.address.0 };
    Ok((StatusCode::ACCEPTED, operate(&app, add).await?))
}

async fn member_remove(
    State(app): State<App>,
    NodePath(node): NodePath,
) -> ApiResult<Json<OperationView>> {
    operate(&app, Operation::Remove(node)).await
}

/// Transfers leadership to another voter: `{"to": 2}`.
async fn leader_transfer(
    State(app): State<App>,
    _: JsonOnly,
    ValidJson(request): ValidJson<Transfer>,
) -> ApiResult<Json<OperationView>> {
    operate(&app, Operation::Transfer(request.to.0)).await
}

async fn cluster_verify(State(app): State<App>, _: JsonOnly) -> ApiResult<Json<OperationView>> {
    operate(&app, Operation::Verify).await
}

async fn clock_get(State(app): State<App>) -> ApiResult<Json<OperationView>> {
    operate(&app, Operation::Clock).await
}

/// Moves cluster time forward to the median of the voters' wall clocks.
async fn clock_set(State(app): State<App>, _: JsonOnly) -> ApiResult<Json<OperationView>> {
    operate(&app, Operation::SetClock).await
}

/// A request with a JSON content type. This listener requires no key, and a web page in a local
/// browser must not change the cluster: browsers send JSON to other origins only with their
/// consent.
struct JsonOnly;

impl FromRequestParts<App> for JsonOnly {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> ApiResult<Self> {
        let sent = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match sent.is_some_and(|sent| sent.starts_with("application/json")) {
            true => Ok(Self),
            false => Err(ApiError::new(
                ErrorKind::UnsupportedType,
                "json_only",
                "send Content-Type: application/json",
            )),
        }
    }
}

async fn operate(app: &App, operation: Operation) -> ApiResult<Json<OperationView>> {
    Ok(Json(match app.service.operate(operation).await? {
        OperationResult::Status(status) => OperationView::Cluster(status),
        OperationResult::Verified(result) => {
            let node = |(id, hash): &(_, Option<_>)| HashView {
                id: *id,
                sha256: hash.map(|hash: [u8; 32]| hex::encode(hash)),
            };
            OperationView::Verification {
                index: result.index,
                equal: result.agrees(),
                differ: result.differs(),
                nodes: result.hashes.iter().map(node).collect(),
                quarantined: result.quarantined,
            }
        }
        OperationResult::Clock(clock) => clock_view(clock),
        OperationResult::Done => OperationView::Done { done: true },
    }))
}

fn clock_view(clock: ClockStatus) -> OperationView {
    let offset_ms = |at: Timestamp| at.0.saturating_sub(clock.cluster_time.0) / 1_000;
    let view =
        |(id, at): (u64, Option<Timestamp>)| WallClockView { id, offset_ms: at.map(offset_ms) };
    OperationView::Clock {
        cluster_time: Time(clock.cluster_time),
        median_offset_ms: clock.median.map(offset_ms),
        nodes: clock.wall_clocks.into_iter().map(view).collect(),
    }
}
