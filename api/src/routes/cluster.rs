//! The cluster, for its operator: status, members, leadership, verification, backups, and the change of the
//! embedding model. On the operator's listener only. Every route requires the operator key.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use raft::{ClockStatus, ClusterStatus, Operation, OperationResult};
use serde::{Deserialize, Serialize};
use storage::command::{CancelModelChange, ForceModelSwitch, ReleaseWebhooks};
use storage::model::audit::AuditAction;
use storage::model::cluster::Model;
use storage::model::id::Timestamp;
use storage::model::models::FOLDER_BYTES_MAX;

use crate::admission::request::RequestContext;
use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{ADDRESS_BYTES_MAX, BACKUP_URL_BYTES_MAX};
use crate::metrics::HistoryView;
use crate::requests::ValidJson;
use crate::requests::headers::NodePath;
use crate::requests::numbers::Whole;
use crate::requests::values::NonBlank;
use crate::responses::Time;
use crate::routes::audit::operator_audit_list;
use crate::service::Operator;
use crate::service::node::BackupStatus;

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
pub(super) struct HashView {
    id: u64,
    sha256: Option<String>,
}

/// The wall clock of a member.
#[derive(Serialize)]
pub(super) struct WallClockView {
    id: u64,
    /// Wall clock minus cluster time.
    offset_ms: Option<i64>,
}

/// The result of an operation.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum OperationView {
    /// The cluster, as its leader reports it.
    Cluster(ClusterStatus),
    /// The state hashes of all members at one index.
    Verification {
        index: u64,
        equal: bool,
        differ: bool,
        nodes: Vec<HashView>,
        quarantined: Vec<u64>,
        /// Number of rows that cannot be, and the first of them; `null` if they were not searched in
        /// time.
        row_faults: Option<u64>,
        first_row_faults: Vec<String>,
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
        .route("/cluster/local", get(local_get))
        .route("/cluster/audit", get(operator_audit_list))
        .route("/cluster/transfer", post(leader_transfer))
        .route("/cluster/verify", post(cluster_verify))
        .route("/cluster/clock", get(clock_get).post(clock_set))
        .route("/cluster/metrics", get(metrics_history))
        .route("/cluster/backups", get(backup_status).post(backup_create))
        .route("/cluster/webhooks/release", post(webhooks_release))
        .route("/cluster/model", get(model_get).post(model_set).delete(model_cancel))
        .route("/cluster/model/switch", post(model_force))
}

/// The cluster as this node sees it.
async fn local_get(operator: Operator) -> ApiResult<Json<ClusterStatus>> {
    operator.local_status().map(Json)
}

async fn cluster_get(operator: Operator) -> ApiResult<Json<OperationView>> {
    operate(operator, Operation::Status).await
}

/// Adds a pristine node: `{"id": 4, "address": "host:port"}`.
async fn member_add(
    operator: Operator,
    ValidJson(request): ValidJson<NewMember>,
) -> ApiResult<(StatusCode, Json<OperationView>)> {
    let add = Operation::Add { node: request.id.0, address: request.address.0 };
    Ok((StatusCode::ACCEPTED, operate(operator, add).await?))
}

async fn member_remove(
    operator: Operator,
    NodePath(node): NodePath,
) -> ApiResult<Json<OperationView>> {
    operate(operator, Operation::Remove(node)).await
}

/// Transfers leadership to another voter: `{"to": 2}`.
async fn leader_transfer(
    operator: Operator,
    ValidJson(request): ValidJson<Transfer>,
) -> ApiResult<Json<OperationView>> {
    operate(operator, Operation::Transfer(request.to.0)).await
}

async fn cluster_verify(operator: Operator) -> ApiResult<Json<OperationView>> {
    operate(operator, Operation::Verify).await
}

async fn clock_get(operator: Operator) -> ApiResult<Json<OperationView>> {
    operate(operator, Operation::Clock).await
}

/// Moves cluster time forward to the median of the voters' wall clocks.
async fn clock_set(operator: Operator) -> ApiResult<Json<OperationView>> {
    operate(operator, Operation::SetClock).await
}

/// Some metrics of this node in the last hour.
async fn metrics_history(_: Operator, State(app): State<App>) -> Json<HistoryView> {
    Json(app.metrics_history.view())
}

/// Carries out an operation, also if the caller closes the connection. Logs a change with its
/// result.
async fn operate(operator: Operator, operation: Operation) -> ApiResult<Json<OperationView>> {
    let task = tokio::spawn(async move {
        let result = operator.operate(operation.clone()).await;
        if matches!(operation, Operation::Status | Operation::Clock) {
            return result;
        }
        let text = result.as_ref().map_or_else(|error| error.message.as_str(), |_| "done");
        let RequestContext { source, id: request_id, .. } = &*operator.request;
        let source = source.map(tracing::field::display);
        tracing::info!(?operation, source, request_id, result = text, "operator request");
        let recorded = record(&operator, &operation, text).await;
        // The fault of the operation itself is the one that the operator needs.
        let done = result?;
        recorded.map(|()| done)
    });
    match task.await {
        Ok(result) => result.map(|result| Json(OperationView::from(result))),
        Err(panic) => {
            tracing::error!(%panic, "an operation panicked");
            Err(ApiError::internal())
        }
    }
}

/// Records a change of the cluster in the operator's audit log, with its result.
async fn record(operator: &Operator, operation: &Operation, result: &str) -> ApiResult<()> {
    let (action, target, parameter) = match operation {
        Operation::Add { node, address } => {
            (AuditAction::MemberAdd, format!("node {node}"), Some(("address", address.clone())))
        }
        Operation::Remove(node) => (AuditAction::MemberRemove, format!("node {node}"), None),
        Operation::Transfer(node) => (AuditAction::LeaderTransfer, format!("node {node}"), None),
        Operation::Verify => (AuditAction::ClusterVerify, "cluster".into(), None),
        Operation::SetClock => (AuditAction::ClockSet, "cluster".into(), None),
        Operation::Status | Operation::Clock => return Ok(()),
    };
    let fields = [Some(("result", result.to_owned())), parameter].into_iter().flatten();
    let fields = fields.map(|(name, text)| (name.to_owned(), text)).collect();
    record_act(operator, action, target, fields).await
}

/// Records an act of the operator that is done.
pub(super) async fn record_act(
    operator: &Operator,
    action: AuditAction,
    target: String,
    fields: Vec<(String, String)>,
) -> ApiResult<()> {
    operator.record_operation(action, target, fields).await.map_err(|error| {
        tracing::error!(?action, reason = error.message, "an operation is not in the audit log");
        // A repetition would do it again.
        let message = "done, but not recorded in the audit log: check it";
        ApiError::new(ErrorKind::Internal, "audit_failed", message)
    })
}

impl From<OperationResult> for OperationView {
    fn from(result: OperationResult) -> Self {
        match result {
            OperationResult::Status(status) => Self::Cluster(status),
            OperationResult::Verified(result) => {
                let node = |(id, hash): &(_, Option<_>)| HashView {
                    id: *id,
                    sha256: hash.map(|hash: [u8; 32]| hex::encode(hash)),
                };
                Self::Verification {
                    index: result.index,
                    equal: result.agrees(),
                    differ: result.differs(),
                    nodes: result.hashes.iter().map(node).collect(),
                    quarantined: result.quarantined,
                    row_faults: result.faults.as_ref().map(|faults| faults.count),
                    first_row_faults: result
                        .faults
                        .iter()
                        .flat_map(|faults| faults.first.iter().map(ToString::to_string))
                        .collect(),
                }
            }
            OperationResult::Clock(clock) => clock_view(clock),
            OperationResult::Done => Self::Done { done: true },
        }
    }
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

/// Where a backup goes: a folder or a URL.
#[derive(Debug, Deserialize)]
struct NewBackup {
    url: NonBlank<BACKUP_URL_BYTES_MAX>,
}

async fn backup_status(_: Operator, State(app): State<App>) -> ApiResult<Json<BackupStatus>> {
    Ok(Json(app.backups()?.status()))
}

/// Starts a backup: `{"url": "s3://bucket/path"}`.
async fn backup_create(
    operator: Operator,
    State(app): State<App>,
    ValidJson(request): ValidJson<NewBackup>,
) -> ApiResult<(StatusCode, Json<BackupStatus>)> {
    let url = request.url.0;
    let started = app.backups()?.start(url.clone());
    started.map_err(|reason| ApiError::new(ErrorKind::Conflict, "rejected", reason))?;
    let RequestContext { source, id: request_id, .. } = &*operator.request;
    let source = source.map(tracing::field::display);
    tracing::info!(url, source, request_id, "an operator started a backup");
    let (node, fields) = (format!("node {}", app.node), vec![("url".to_owned(), url)]);
    // Without a quorum, this copy may be all that is left: it goes on. A failure is logged.
    let _ = record_act(&operator, AuditAction::BackupCreate, node, fields).await;
    Ok((StatusCode::ACCEPTED, Json(app.backups()?.status())))
}

/// Lets the deliveries of a restored cluster go out. The command itself is in the audit log.
async fn webhooks_release(operator: Operator) -> ApiResult<Json<OperationView>> {
    operator.submit_for_operator(ReleaseWebhooks).await?;
    let RequestContext { source, id: request_id, .. } = &*operator.request;
    let source = source.map(tracing::field::display);
    tracing::info!(source, request_id, "an operator released the deliveries of webhooks");
    Ok(Json(OperationView::Done { done: true }))
}

/// The folder of the next model, the same on every node.
#[derive(Debug, Deserialize)]
struct NewModel {
    folder: NonBlank<FOLDER_BYTES_MAX>,
}

/// A model.
#[derive(Serialize)]
struct ModelView {
    name: String,
    id: String,
    dimension: u32,
}

/// The model in use, and a change that is under way.
#[derive(Serialize)]
struct ModelsView {
    model: ModelView,
    next: Option<NextView>,
}

#[derive(Serialize)]
struct NextView {
    #[serde(flatten)]
    model: ModelView,
    folder: String,
    started_at: Time,
    /// Nodes that have loaded it.
    ready: Vec<u64>,
    is_switching: bool,
    /// Memories that have a vector of it, and all memories.
    embedded: u64,
    memories: u64,
}

impl From<Model> for ModelView {
    fn from(model: Model) -> Self {
        let Model { id, name, dimension } = model;
        Self { name, id: hex::encode(id.0), dimension }
    }
}

async fn model_get(operator: Operator) -> ApiResult<Json<ModelsView>> {
    let (cluster, models, embedded, memories) = operator.models().await?;
    let next = models.next.map(|next| NextView {
        folder: next.folder,
        started_at: Time(next.started_at),
        ready: next.ready,
        is_switching: next.is_switching,
        embedded,
        memories,
        model: next.model.into(),
    });
    Ok(Json(ModelsView { model: cluster.model.clone().into(), next }))
}

/// Begins to change the model: `{"folder": "/models/next"}`.
async fn model_set(
    operator: Operator,
    ValidJson(request): ValidJson<NewModel>,
) -> ApiResult<Json<ModelsView>> {
    operator.set_model(request.folder.0).await?;
    model_get(operator).await
}

/// Gives up a change.
async fn model_cancel(operator: Operator) -> ApiResult<Json<ModelsView>> {
    operator.submit_for_operator(CancelModelChange).await?;
    model_get(operator).await
}

/// Lets the switch leave members behind that have not loaded the model.
async fn model_force(operator: Operator) -> ApiResult<Json<ModelsView>> {
    operator.submit_for_operator(ForceModelSwitch).await?;
    model_get(operator).await
}
