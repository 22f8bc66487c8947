//! The cluster, for its operator: status, members, leadership, verification, and the change of the embedding
//! model. On the operator's listener only. Every route requires the operator key.

use axum::Json;
use raft::{ClusterStatus, MemberRole, MemberStatus, Operation, OperationResult};
use serde::Deserialize;
use storage::command::{CancelModelChange, ForceModelSwitch};
use storage::model::audit::AuditAction;
use storage::model::cluster::FOLDER_BYTES_MAX;
use storage::model::cluster::Model;
use storage::model::id::Timestamp;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admission::request::RequestContext;
use crate::error::ErrorKind;
use crate::limits::ADDRESS_BYTES_MAX;
use crate::metrics::HistoryView;
use crate::openapi::{OperatorErrors, OperatorReadErrors};
use crate::prelude::*;
use crate::requests::headers::NodePath;
use crate::requests::numbers::Whole;
use crate::requests::values::NonBlank;
use crate::service::Operator;

type NodeIdNumber = Whole<1, { u64::MAX }>;
type PeerAddress = NonBlank<ADDRESS_BYTES_MAX>;
type ModelFolder = NonBlank<FOLDER_BYTES_MAX, true>;
type MemberRoleWord = OneOf<MemberRole>;

/// A node to add.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"id": 4, "address": "node4.example.com:4202"}))]
pub(crate) struct NewMember {
    id: NodeIdNumber,
    /// Host and port of its peer listener.
    address: PeerAddress,
}

/// A voter that should lead.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"to": 2}))]
pub(crate) struct Transfer {
    to: NodeIdNumber,
}

/// The cluster as one node sees it, the leader by preference.
#[derive(Serialize, ToSchema)]
struct ClusterView {
    /// Null without contact to a leader.
    leader: Nullable<u64>,
    /// The node that reports this.
    node: u64,
    term: u64,
    last_log_index: u64,
    commit_index: u64,
    applied_index: u64,
    /// That of all members, as the state holds it.
    feature_level: u16,
    /// Whether the members are being changed.
    changing: bool,
    members: Vec<MemberView>,
}

/// A member of the cluster.
#[derive(Serialize, ToSchema)]
struct MemberView {
    id: u64,
    /// Host and port of its peer listener.
    address: String,
    /// `leader`, `voter` or `learner`.
    role: MemberRoleWord,
    /// Entries of the leader's log that it has not confirmed. Only the leader knows it.
    lag: Nullable<u64>,
    /// Since its last response to the leader, or its last message to another node that reports this.
    last_contact_ms: Nullable<u64>,
    /// Whether its disk has less free space than its reserve.
    disk_full: bool,
    /// Version of Hearth that it runs; null if it has sent no message yet.
    version: Nullable<String>,
}

/// The state hashes of all members at one index.
#[derive(Serialize, ToSchema)]
struct Verification {
    index: u64,
    /// Whether all members sent the same hash.
    equal: bool,
    /// Whether two of them differ.
    differ: bool,
    nodes: Vec<HashView>,
    quarantined: Vec<u64>,
    /// Number of rows that cannot be; null if they were not searched in time.
    row_faults: Nullable<u64>,
    /// The first of them.
    first_row_faults: Vec<String>,
}

/// The state hash of a member.
#[derive(Serialize, ToSchema)]
struct HashView {
    id: u64,
    /// Null if it sent none in time.
    sha256: Nullable<String>,
}

/// Cluster time and the wall clocks of all members.
#[derive(Serialize, ToSchema)]
struct ClockView {
    cluster_time: Time,
    /// The median of the voters' wall clocks minus cluster time.
    median_offset_ms: Nullable<i64>,
    nodes: Vec<WallClockView>,
}

/// The wall clock of a member.
#[derive(Serialize, ToSchema)]
struct WallClockView {
    id: u64,
    /// Wall clock minus cluster time; null if it sent none within an hour.
    offset_ms: Nullable<i64>,
}

/// An operation was carried out.
#[derive(Serialize, ToSchema)]
pub(super) struct Done {
    /// Always true.
    pub(super) done: bool,
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_cluster))
        .routes(routes!(get_local_status))
        .routes(routes!(add_member))
        .routes(routes!(remove_member))
        .routes(routes!(transfer_leader))
        .routes(routes!(verify_cluster))
        .routes(routes!(get_clock, set_clock))
        .routes(routes!(get_metrics_history))
        .routes(routes!(get_models, set_model, cancel_model_change))
        .routes(routes!(force_model_switch))
}

/// Get the cluster as its leader sees it.
#[utoipa::path(get, path = "/cluster", tag = "cluster",
    responses((status = OK, body = ClusterView), OperatorReadErrors))]
async fn get_cluster(operator: Operator) -> ApiResult<Json<ClusterView>> {
    match operate(operator, Operation::Status).await? {
        OperationResult::Status(status) => Ok(Json(status.into())),
        _ => Err(ApiError::internal()),
    }
}

/// Get the cluster as this node sees it, also without a leader.
#[utoipa::path(get, path = "/cluster/local", tag = "cluster",
    responses((status = OK, body = ClusterView), OperatorReadErrors))]
async fn get_local_status(operator: Operator) -> ApiResult<Json<ClusterView>> {
    operator.local_status().map(|status| Json(status.into()))
}

/// Add a pristine node. It becomes a voter once it has the state.
#[utoipa::path(post, path = "/cluster/members", tag = "cluster", request_body = NewMember,
    responses((status = ACCEPTED, body = Done), OperatorErrors))]
async fn add_member(
    operator: Operator,
    ValidJson(request): ValidJson<NewMember>,
) -> ApiResult<(StatusCode, Json<Done>)> {
    let add = Operation::Add { node: request.id.0, address: request.address.0 };
    Ok((StatusCode::ACCEPTED, done(operate(operator, add).await?)?))
}

/// Remove a member.
#[utoipa::path(delete, path = "/cluster/members/{id}", tag = "cluster", params(NodePath),
    responses((status = OK, body = Done), OperatorErrors))]
async fn remove_member(operator: Operator, NodePath(node): NodePath) -> ApiResult<Json<Done>> {
    done(operate(operator, Operation::Remove(node)).await?)
}

/// Transfer leadership to another voter.
#[utoipa::path(post, path = "/cluster/transfer", tag = "cluster", request_body = Transfer,
    responses((status = OK, body = Done), OperatorErrors))]
async fn transfer_leader(
    operator: Operator,
    ValidJson(request): ValidJson<Transfer>,
) -> ApiResult<Json<Done>> {
    done(operate(operator, Operation::Transfer(request.to.0)).await?)
}

/// Compare the states of all members at one log index.
#[utoipa::path(post, path = "/cluster/verify", tag = "cluster",
    responses((status = OK, body = Verification), OperatorErrors))]
async fn verify_cluster(operator: Operator) -> ApiResult<Json<Verification>> {
    let OperationResult::Verified(result) = operate(operator, Operation::Verify).await? else {
        return Err(ApiError::internal());
    };
    let node = |(id, hash): &(_, Option<_>)| HashView {
        id: *id,
        sha256: hash.map(|hash: [u8; 32]| hex::encode(hash)),
    };
    Ok(Json(Verification {
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
    }))
}

/// Get cluster time, and the wall clocks of all members.
#[utoipa::path(get, path = "/cluster/clock", tag = "cluster",
    responses((status = OK, body = ClockView), OperatorReadErrors))]
async fn get_clock(operator: Operator) -> ApiResult<Json<ClockView>> {
    clock_view(operate(operator, Operation::Clock).await?)
}

/// Move cluster time forward to the median of the voters' wall clocks.
#[utoipa::path(post, path = "/cluster/clock", tag = "cluster",
    responses((status = OK, body = ClockView), OperatorErrors))]
async fn set_clock(operator: Operator) -> ApiResult<Json<ClockView>> {
    clock_view(operate(operator, Operation::SetClock).await?)
}

fn clock_view(result: OperationResult) -> ApiResult<Json<ClockView>> {
    let OperationResult::Clock(clock) = result else { return Err(ApiError::internal()) };
    let offset_ms = |at: Timestamp| at.0.saturating_sub(clock.cluster_time.0) / 1_000;
    let view =
        |(id, at): (u64, Option<Timestamp>)| WallClockView { id, offset_ms: at.map(offset_ms) };
    Ok(Json(ClockView {
        cluster_time: Time(clock.cluster_time),
        median_offset_ms: clock.median.map(offset_ms),
        nodes: clock.wall_clocks.into_iter().map(view).collect(),
    }))
}

/// Get some metrics of this node in the last hour.
#[utoipa::path(get, path = "/cluster/metrics", tag = "cluster",
    responses((status = OK, body = HistoryView), OperatorReadErrors))]
async fn get_metrics_history(_: Operator, State(app): State<App>) -> Json<HistoryView> {
    Json(app.metrics_history.view())
}

fn done(result: OperationResult) -> ApiResult<Json<Done>> {
    match result {
        OperationResult::Done => Ok(Json(Done { done: true })),
        _ => Err(ApiError::internal()),
    }
}

/// Carries out an operation, also if the caller closes the connection. Logs a change with its
/// result.
async fn operate(operator: Operator, operation: Operation) -> ApiResult<OperationResult> {
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
    task.await.unwrap_or_else(|panic| {
        tracing::error!(%panic, "an operation panicked");
        Err(ApiError::internal())
    })
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

impl From<ClusterStatus> for ClusterView {
    fn from(status: ClusterStatus) -> Self {
        Self {
            leader: status.leader,
            node: status.node,
            term: status.term,
            last_log_index: status.last_log_index,
            commit_index: status.commit_index,
            applied_index: status.applied_index,
            feature_level: status.feature_level,
            changing: status.changing,
            members: status.members.into_iter().map(MemberView::from).collect(),
        }
    }
}

impl From<MemberStatus> for MemberView {
    fn from(member: MemberStatus) -> Self {
        Self {
            id: member.node,
            address: member.address,
            role: OneOf(member.role),
            lag: member.lag,
            last_contact_ms: member.last_contact_ms,
            disk_full: member.disk_full,
            version: member.version,
        }
    }
}

/// The folder of the next model, the same on every node.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"folder": "/models/next"}))]
pub(crate) struct NewModel {
    folder: ModelFolder,
}

/// A model.
#[derive(Serialize, ToSchema)]
struct ModelView {
    name: String,
    id: String,
    dimension: u32,
}

/// The model in use, and a change that is under way.
#[derive(Serialize, ToSchema)]
struct ModelsView {
    model: ModelView,
    /// Null without one.
    next: Nullable<NextView>,
}

/// A change of the model.
#[derive(Serialize, ToSchema)]
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
        let Model { id, name, dimension, .. } = model;
        Self { name, id: hex::encode(id.0), dimension }
    }
}

/// Get the embedding model, and a change that is under way.
#[utoipa::path(get, path = "/cluster/model", tag = "cluster",
    responses((status = OK, body = ModelsView), OperatorReadErrors))]
async fn get_models(operator: Operator) -> ApiResult<Json<ModelsView>> {
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

/// Begin to change the model.
#[utoipa::path(post, path = "/cluster/model", tag = "cluster", request_body = NewModel,
    responses((status = OK, body = ModelsView), OperatorErrors))]
async fn set_model(
    operator: Operator,
    ValidJson(request): ValidJson<NewModel>,
) -> ApiResult<Json<ModelsView>> {
    operator.set_model(request.folder.0).await?;
    get_models(operator).await
}

/// Give up a change of the model.
#[utoipa::path(delete, path = "/cluster/model", tag = "cluster",
    responses((status = OK, body = ModelsView), OperatorErrors))]
async fn cancel_model_change(operator: Operator) -> ApiResult<Json<ModelsView>> {
    operator.submit_for_operator(CancelModelChange).await?;
    get_models(operator).await
}

/// Let the switch leave members behind that have not loaded the model.
#[utoipa::path(post, path = "/cluster/model/switch", tag = "cluster",
    responses((status = OK, body = ModelsView), OperatorErrors))]
async fn force_model_switch(operator: Operator) -> ApiResult<Json<ModelsView>> {
    operator.submit_for_operator(ForceModelSwitch).await?;
    get_models(operator).await
}
