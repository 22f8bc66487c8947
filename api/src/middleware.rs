//! What happens around every request: its id, its measure, the end of its body; and
//! around those of agents, their bound.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use storage::model::id::TenantId;
use storage::model::tenant::{Caller, KeyId};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::app::App;
use crate::error::ApiError;
use crate::limits::{DRAIN_BYTES_MAX, DRAIN_TIME};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NODE: HeaderName = HeaderName::from_static("x-hearth-node");
/// Longest request id that is taken over from a caller.
const REQUEST_ID_BYTES_MAX: usize = 64;

tokio::task_local! {
    static CURRENT: Current;
}

/// The request that is being answered.
struct Current {
    id: String,
    /// Whose it is, once its key was looked at.
    caller: OnceLock<(TenantId, KeyId)>,
    /// Memories that it stored.
    added: AtomicU64,
}

/// Id of the request that is being answered; empty outside of one.
pub(crate) fn request_id() -> String {
    CURRENT.try_with(|current| current.id.clone()).unwrap_or_default()
}

/// Notes whose the request is.
pub(crate) fn note_caller(caller: &Caller) {
    let whose = (caller.tenant, caller.key);
    let note = |current: &Current| *current.caller.get_or_init(|| whose);
    // Outside of a request nobody asks.
    let _: Result<_, _> = CURRENT.try_with(note);
}

/// Notes how many memories the request stored.
pub(crate) fn note_added(memories: usize) {
    let note = |current: &Current| current.added.store(memories as u64, Ordering::Relaxed);
    let _: Result<(), _> = CURRENT.try_with(note);
}

/// Gives each request an id (the caller's, if it is a harmless one), and measures it.
pub(crate) async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request
        .headers()
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| is_harmless(id))
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let method = request.method().clone();
    let started = Instant::now();
    let current = Current { id: id.clone(), caller: OnceLock::new(), added: AtomicU64::new(0) };
    let answered = async {
        let response = run(&app, request, next).await;
        let (caller, added) = CURRENT
            .with(|current| (current.caller.get().copied(), current.added.load(Ordering::Relaxed)));
        (response, caller, added)
    };
    let (mut response, caller, added) = CURRENT.scope(current, answered).await;
    let took = started.elapsed();
    app.metrics().request(method.as_str(), &route, response.status().as_u16(), took);
    if let Some((tenant, key)) = caller {
        app.observed().answered(tenant, key, took, added);
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(NODE, app.identity().node.into());
    response
}

/// Serves no more than a bounded number of requests at once. Health and metrics are
/// outside: a node that is busy is not one to be restarted.
pub(crate) async fn bounded(State(app): State<App>, request: Request, next: Next) -> Response {
    match app.requests().try_acquire_owned() {
        Ok(_permit) => next.run(request).await,
        Err(_) => ApiError::unavailable("overloaded", "too many requests at once").into_response(),
    }
}

/// Runs the handler and reads what it left of the request's body: a client that is
/// still sending when the answer comes may otherwise never see it.
async fn run(app: &App, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let shared = Arc::new(Mutex::new(body.into_data_stream()));
    let body = stream::unfold(Arc::clone(&shared), async |body| {
        let chunk = body.lock().await.next().await?;
        Some((chunk, body))
    });
    let response = next.run(Request::from_parts(parts, Body::from_stream(body))).await;
    // Only so many may take their time: the others' clients may not see the answer.
    let Ok(_permit) = app.drains().try_acquire_owned() else { return response };
    let drain = async {
        let (mut rest, mut bytes) = (shared.lock().await, 0);
        while let Some(Ok(chunk)) = rest.next().await {
            bytes += chunk.len();
            if bytes > DRAIN_BYTES_MAX {
                return;
            }
        }
    };
    // Out of time or bytes: the connection is closed on the client.
    drop(tokio::time::timeout(DRAIN_TIME, drain).await);
    response
}

/// The answer to a request whose handler panicked.
pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    tracing::error!(request_id = request_id(), panic = text, "a handler panicked");
    ApiError::internal().into_response()
}

fn is_harmless(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.bytes().all(allowed)
}
