//! Writing: a request becomes a command with the caller's name and, if asked
//! for, a receipt; a decision becomes an answer.

use axum::extract::{FromRequest, FromRequestParts, OriginalUri, Request};
use axum::http::{HeaderMap, Method, StatusCode};
use sha2::{Digest, Sha256};
use storage::model::id::MemoryId;
use storage::model::memory::{MemoryRecord, NAMESPACE_BYTES_MAX};
use storage::model::receipt::ReceiptRequest;
use storage::model::tenant::Caller;
use storage::model::trigger::Notification;
use storage::model::vector::Vector;
use storage::{Action, Command, Reply};
use tokio::time::Instant;

use crate::app::App;
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Fields};
use crate::limits::{APPLY_WAIT, DEADLINE, IDEMPOTENCY_KEY_BYTES_MAX};
use crate::middleware::note_added;
use crate::wire::memory::Written;

/// A request to change something, with everything that its receipt covers.
pub(crate) struct Write {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Body,
}

/// A write that was done, now or by an earlier request with the same key.
pub(crate) struct Done {
    pub(crate) freshness: Freshness,
    pub(crate) status: StatusCode,
    /// The memories it touched.
    pub(crate) memories: Vec<Written>,
    /// What triggers said.
    pub(crate) notifications: Vec<Notification>,
}

/// What the cluster answers.
pub(crate) struct Answer {
    pub(crate) freshness: Freshness,
    pub(crate) reply: Reply,
    /// What triggers said.
    pub(crate) notifications: Vec<Notification>,
}

impl FromRequest<App> for Write {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> ApiResult<Self> {
        let (mut parts, body) = request.into_parts();
        let Ok(OriginalUri(uri)) = OriginalUri::from_request_parts(&mut parts, app).await;
        let (method, headers) = (parts.method.clone(), parts.headers.clone());
        let body = Body::from_request(Request::from_parts(parts, body), app).await?;
        Ok(Self { method, path: uri.path().to_owned(), headers, body })
    }
}

impl Write {
    /// The body's fields.
    pub(crate) fn fields(&self) -> &Fields {
        &self.body.fields
    }

    /// The namespace named beside the body.
    pub(crate) fn header_namespace(&self) -> ApiResult<Option<String>> {
        header_namespace(&self.headers)
    }

    /// Has the cluster do `action` to memories. `status` is the answer's when it is done.
    pub(crate) async fn submit(
        &self,
        app: &App,
        caller: &Caller,
        status: StatusCode,
        action: Action,
    ) -> ApiResult<Done> {
        let receipt = self.receipt(status)?;
        let Answer { freshness, reply, notifications } = ask(app, caller, receipt, action).await?;
        let (status, memories) = match reply {
            Reply::Memories(records) => {
                if status == StatusCode::CREATED {
                    note_added(records.len());
                }
                (status, records.iter().map(present).collect())
            }
            Reply::Deleted(id) => (status, vec![Written::Gone(id.into())]),
            Reply::Replayed { status: first, memories } => {
                let written = |(id, record): &(MemoryId, Option<MemoryRecord>)| {
                    record.as_ref().map_or_else(|| Written::Gone((*id).into()), present)
                };
                let memories = memories.iter().map(written).collect();
                (StatusCode::from_u16(first).unwrap_or(status), memories)
            }
            _ => return Err(ApiError::internal()),
        };
        Ok(Done { freshness, status, memories, notifications })
    }

    /// As [`Write::submit`], of what may hold a secret, and whatever the reply is.
    pub(crate) async fn submit_secret(
        &self,
        app: &App,
        caller: &Caller,
        status: StatusCode,
        action: Action,
    ) -> ApiResult<Answer> {
        let mut receipt = self.receipt(status)?;
        if let Some(receipt) = &mut receipt {
            // Who reads the state could guess a weak secret by its plain digest.
            receipt.body_hash = app.hooks().blind(receipt.body_hash);
        }
        ask(app, caller, receipt, action).await
    }

    /// The receipt that the caller asks for with `Idempotency-Key`.
    fn receipt(&self, status: StatusCode) -> ApiResult<Option<ReceiptRequest>> {
        let Some(key) = self.headers.get("idempotency-key") else { return Ok(None) };
        let key = key.as_bytes();
        if key.is_empty() || key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
            let message = format!("must have 1 to {IDEMPOTENCY_KEY_BYTES_MAX} bytes");
            return Err(ApiError::invalid("Idempotency-Key", message));
        }
        let mut body = Sha256::new();
        // Everything that decides what the write does.
        let namespace = self.headers.get("x-namespace").map(|value| value.as_bytes());
        let (method, path) = (self.method.as_str().as_bytes(), self.path.as_bytes());
        for part in [method, path, namespace.unwrap_or_default(), &self.body.bytes] {
            body.update((part.len() as u64).to_be_bytes());
            body.update(part);
        }
        Ok(Some(ReceiptRequest {
            key: Sha256::digest(key).into(),
            body_hash: body.finalize().into(),
            status: status.as_u16(),
        }))
    }
}

/// Has the cluster do `action`, and waits a little until this node shows it.
pub(crate) async fn ask(
    app: &App,
    caller: &Caller,
    receipt: Option<ReceiptRequest>,
    action: Action,
) -> ApiResult<Answer> {
    let (tenant, actor) = (Some(caller.tenant), Some(caller.key));
    let command = Command { tenant, actor, receipt, action };
    let outcome = app.raft().submit(command, Instant::now() + DEADLINE).await?;
    // Not reached in time: the caller gets its answer all the same, with the true
    // index, and may send that along with its next read.
    let _: Result<(), _> =
        app.raft().wait_applied(outcome.index, Instant::now() + APPLY_WAIT).await;
    let freshness = Freshness::of_write(outcome.index);
    Ok(match outcome.decision? {
        Reply::WithNotifications(reply, notifications) => {
            Answer { freshness, reply: *reply, notifications }
        }
        reply => Answer { freshness, reply, notifications: Vec::new() },
    })
}

fn present(record: &MemoryRecord) -> Written {
    Written::Memory(Box::new(record.into()))
}

/// The meaning of `text`, ready to be stored.
pub(crate) async fn embed(app: &App, text: &str) -> ApiResult<Vector> {
    let embedding = app.embedder().embed(text.to_owned()).await?;
    Vector::quantise(app.embedder().model().id, &embedding).map_err(|fault| {
        tracing::error!(%fault, "the model made an unusable vector");
        ApiError::internal()
    })
}

/// A vector as memories are compared by it: through the rounding that is stored.
pub(crate) fn unit(vector: &Vector) -> ApiResult<Vec<f32>> {
    vector.components().map_err(|fault| {
        tracing::error!(%fault, "the model made an unusable vector");
        ApiError::internal()
    })
}

/// The namespace that a request names beside its body.
pub(crate) fn header_namespace(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let Some(value) = headers.get("x-namespace") else { return Ok(None) };
    match str::from_utf8(value.as_bytes()).map(str::trim) {
        Ok("") => Ok(None),
        Ok(name) if name.len() <= NAMESPACE_BYTES_MAX => Ok(Some(name.to_owned())),
        _ => {
            let message = format!("must be UTF-8 of {NAMESPACE_BYTES_MAX} bytes at most");
            Err(ApiError::invalid("X-Namespace", message))
        }
    }
}
