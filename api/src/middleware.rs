//! Around every request: its id, its measurement, the rest of its body. Around requests of
//! agents: the limit of concurrent requests.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::app::App;
use crate::current::{handle, request_id};
use crate::limits::{DRAIN_BYTES_MAX, DRAIN_TIME};
use crate::service::error::ApiError;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NODE: HeaderName = HeaderName::from_static("x-hearth-node");
/// Longest request id that is accepted from a caller.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// Gives each request an id (the caller's, if it is well-formed), and measures it.
pub(crate) async fn around(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request
        .headers()
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|id| is_well_formed(id))
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned);
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unmatched".to_owned(), |path| path.as_str().to_owned());
    let method = request.method().clone();
    let started = Instant::now();
    let (mut response, current) = handle(id, run(&app, request, next)).await;
    let took = started.elapsed();
    app.metrics.request(method.as_str(), &route, response.status().as_u16(), took);
    if let Some((tenant, key)) = current.caller.get() {
        let created = current.created.load(Ordering::Relaxed);
        app.service.recalls().count_request(*tenant, *key, took, created);
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&current.id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(NODE, app.node.into());
    response
}

/// Limits the number of concurrent requests. Health and metrics are exempt: a busy node must not
/// be restarted.
pub(crate) async fn bounded(State(app): State<App>, request: Request, next: Next) -> Response {
    match app.requests.try_acquire() {
        Ok(_permit) => next.run(request).await,
        Err(_) => ApiError::unavailable("overloaded", "too many requests at once").into_response(),
    }
}

/// Runs the handler, then discards the rest of the request's body. A client that is still sending
/// might not read the response otherwise.
async fn run(app: &App, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let shared = Arc::new(Mutex::new(body.into_data_stream()));
    let body = stream::unfold(Arc::clone(&shared), async |body| {
        let chunk = body.lock().await.next().await?;
        Some((chunk, body))
    });
    let response = next.run(Request::from_parts(parts, Body::from_stream(body))).await;
    // Beyond the limit of such requests a client may not read its response.
    let Ok(_permit) = app.drains.try_acquire() else { return response };
    let drain = async {
        let (mut rest, mut bytes) = (shared.lock().await, 0);
        while let Some(Ok(chunk)) = rest.next().await {
            bytes += chunk.len();
            if bytes > DRAIN_BYTES_MAX {
                return;
            }
        }
    };
    // Beyond the limits of time and bytes the connection is closed.
    drop(tokio::time::timeout(DRAIN_TIME, drain).await);
    response
}

/// The response to a request whose handler panicked.
pub(crate) fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no text");
    tracing::error!(request_id = request_id(), panic = text, "a handler panicked");
    ApiError::internal().into_response()
}

fn is_well_formed(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.bytes().all(allowed)
}
