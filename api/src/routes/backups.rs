//! Backups of this node's state, and the deliveries that wait after a restoration, for the operator.
//! On the operator's listener only.

use axum::Json;
use serde::Deserialize;
use storage::command::ReleaseWebhooks;
use storage::model::audit::AuditAction;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admission::request::RequestContext;
use crate::error::ErrorKind;
use crate::limits::BACKUP_URL_BYTES_MAX;
use crate::openapi::{OperatorErrors, OperatorReadErrors};
use crate::prelude::*;
use crate::requests::values::NonBlank;
use crate::routes::cluster::{Done, record_act};
use crate::service::Operator;
use crate::service::node::{BackupProgress, BackupStatus, BackupSummary};

type BackupUrl = NonBlank<BACKUP_URL_BYTES_MAX, true>;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_backups, create_backup))
        .routes(routes!(release_webhooks))
}

/// Where a backup goes: a folder or a URL.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"url": "s3://backups/hearth"}))]
pub(crate) struct NewBackup {
    url: BackupUrl,
}

/// The backups of this process.
#[derive(Serialize, ToSchema)]
struct BackupsView {
    /// The backup that is under way.
    running: Nullable<RunningBackupView>,
    /// The last one that succeeded.
    last: Nullable<BackupView>,
    /// Why the last one failed; null if it succeeded.
    error: Nullable<String>,
}

/// Progress of a backup.
#[derive(Serialize, ToSchema)]
struct RunningBackupView {
    /// Where it goes.
    url: String,
    /// Bytes of all its files; 0 until they are known.
    total_bytes: u64,
    /// Bytes of those that are done.
    done_bytes: u64,
    /// Bytes that were uploaded: the rest was there already.
    uploaded_bytes: u64,
}

/// A backup.
#[derive(Serialize, ToSchema)]
struct BackupView {
    id: String,
    /// Index of the last log entry that it contains.
    index: u64,
    /// Bytes of all its files.
    bytes: u64,
    uploaded_bytes: u64,
    /// SHA-256 of the state.
    state_sha256: String,
}

impl From<BackupStatus> for BackupsView {
    fn from(BackupStatus { running, last, error }: BackupStatus) -> Self {
        let running = running.map(|running| {
            let BackupProgress { url, total_bytes, done_bytes, uploaded_bytes } = running;
            RunningBackupView { url, total_bytes, done_bytes, uploaded_bytes }
        });
        let last = last.map(|last| {
            let BackupSummary { id, index, bytes, uploaded_bytes, state_sha256 } = last;
            BackupView { id, index, bytes, uploaded_bytes, state_sha256 }
        });
        Self { running, last, error }
    }
}

/// Get the backups of this process.
#[utoipa::path(get, path = "/cluster/backups", tag = "cluster",
    responses((status = OK, body = BackupsView), OperatorReadErrors))]
async fn get_backups(_: Operator, State(app): State<App>) -> ApiResult<Json<BackupsView>> {
    Ok(Json(app.backups()?.status().into()))
}

/// Start a backup of this node's state.
#[utoipa::path(post, path = "/cluster/backups", tag = "cluster", request_body = NewBackup,
    responses((status = ACCEPTED, body = BackupsView), OperatorErrors))]
async fn create_backup(
    operator: Operator,
    State(app): State<App>,
    ValidJson(request): ValidJson<NewBackup>,
) -> ApiResult<(StatusCode, Json<BackupsView>)> {
    let url = request.url.0;
    let started = app.backups()?.start(url.clone());
    started.map_err(|reason| ApiError::new(ErrorKind::Conflict, "rejected", reason))?;
    let RequestContext { source, id: request_id, .. } = &*operator.request;
    let source = source.map(tracing::field::display);
    tracing::info!(url, source, request_id, "an operator started a backup");
    let (node, fields) = (format!("node {}", app.node), vec![("url".to_owned(), url)]);
    // Without a quorum, this copy may be all that is left: it goes on. A failure is logged.
    let _ = record_act(&operator, AuditAction::BackupCreate, node, fields).await;
    Ok((StatusCode::ACCEPTED, Json(app.backups()?.status().into())))
}

/// Let the deliveries of a restored cluster go out.
#[utoipa::path(post, path = "/cluster/webhooks/release", tag = "cluster",
    responses((status = OK, body = Done), OperatorErrors))]
async fn release_webhooks(operator: Operator) -> ApiResult<Json<Done>> {
    // The command itself is in the audit log.
    operator.submit_for_operator(ReleaseWebhooks).await?;
    let RequestContext { source, id: request_id, .. } = &*operator.request;
    let source = source.map(tracing::field::display);
    tracing::info!(source, request_id, "an operator released the deliveries of webhooks");
    Ok(Json(Done { done: true }))
}
