//! Backups of this node's state, and the deliveries that wait after a restoration, for the operator.
//! On the operator's listener only.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use storage::command::ReleaseWebhooks;
use storage::model::audit::AuditAction;

use crate::admission::request::RequestContext;
use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::BACKUP_URL_BYTES_MAX;
use crate::requests::ValidJson;
use crate::requests::values::NonBlank;
use crate::routes::cluster::{OperationView, record_act};
use crate::service::Operator;
use crate::service::node::BackupStatus;

/// Where a backup goes: a folder or a URL.
#[derive(Debug, Deserialize)]
struct NewBackup {
    url: NonBlank<BACKUP_URL_BYTES_MAX>,
}

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/cluster/backups", get(backup_status).post(backup_create))
        .route("/cluster/webhooks/release", post(webhooks_release))
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
