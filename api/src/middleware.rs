//! Around every request: its id, its measurement, the rest of its body, and the count of the
//! bytes of its response until they are sent.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, ETAG, HOST, STRICT_TRANSPORT_SECURITY};
use axum::http::uri::{Authority, PathAndQuery};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt, StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tracing::Instrument;
use uuid::Uuid;

use crate::admission::budget::KeyShare;
use crate::admission::request::{Held, Once, RequestContext};
use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{DRAIN_BYTES_MAX, DRAIN_TIME};
use crate::request_log::Ended;
use crate::requests::context_of;
use crate::requests::headers::{NAMESPACE, idempotency_key, precondition};
use crate::responses::name_request;
use crate::spans::{self, trace_id};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const NODE: HeaderName = HeaderName::from_static("x-hearth-node");
/// Limit, requests that remain, and seconds until there is room again.
const RATE_LIMIT: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];
/// Longest request id that is accepted from a caller.
const REQUEST_ID_BYTES_MAX: usize = 64;

/// Gives each request an id (the caller's, if it is well-formed), and measures it.
pub(crate) async fn around(State(app): State<App>, mut request: Request, next: Next) -> Response {
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
    let method = name_of(request.method());
    let started = Instant::now();
    let precondition = precondition(request.headers());
    let (once, rejection) = match once(&request) {
        Ok(once) => (once, None),
        Err(error) => (None, Some(error)),
    };
    let source = request.extensions().get().map(|ConnectInfo(source)| *source);
    let responses = Arc::clone(&app.budgets.responses);
    let span = app.spans.start(&id, request.headers(), method, &route);
    let context =
        Arc::new(RequestContext::new(id, span.clone(), source, once, precondition, responses));
    request.extensions_mut().insert(Arc::clone(&context));
    let mut response = match rejection {
        Some(error) => error.into_response(),
        None => run(&app, &context, request, next).instrument(span).await,
    };
    // A response with a size has its shares. Streams have budgets of their own, and a task of MCP may
    // keep the context after its deadline.
    drop(context.release());
    name_request(&mut response, &context.id);
    let took = started.elapsed();
    let status = response.status().as_u16();
    app.metrics.request(method, &route, status, took);
    let (id, route, key) = (&context.id, &route, context.key());
    spans::end(&context.span, status, key.map(|(tenant, _)| tenant.0));
    let ended = Ended { id, method, route, status, took, key, trace: trace_id(&context.span) };
    app.request_log.record(&ended, |(_, key)| app.service.key_name(key));
    if let Some((tenant, key)) = context.key() {
        app.service.recalls().count_request(tenant, key, took, context.created());
        let is_rejected = response.status() == StatusCode::TOO_MANY_REQUESTS;
        app.tenant_requests.count(tenant, is_rejected, took);
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&context.id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(NODE, app.node.into());
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(tag) = context.tag().and_then(|tag| HeaderValue::from_str(&tag.to_string()).ok()) {
        headers.insert(ETAG, tag);
    }
    if let Some(rate_status) = context.rate_status() {
        let reset = rate_status.wait.as_millis().div_ceil(1_000) as u64;
        let values = [rate_status.limit, rate_status.remaining, reset];
        for (name, value) in RATE_LIMIT.into_iter().zip(values) {
            headers.insert(name, value.into());
        }
    }
    response
}

/// The name of a method in metrics, lines and spans. Clients choose it: one name for all unusual ones bounds
/// what they add.
fn name_of(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "PUT" => "PUT",
        "HEAD" => "HEAD",
        _ => "other",
    }
}

/// The idempotency key of a request, with a digest of its method, address and namespace.
fn once(request: &Request) -> ApiResult<Option<Once>> {
    let Some(key) = idempotency_key(request.headers())? else { return Ok(None) };
    let namespace = request.headers().get(NAMESPACE).map_or(&b""[..], HeaderValue::as_bytes);
    let address = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    let mut digest = Sha256::new();
    for part in [request.method().as_str().as_bytes(), address.as_bytes(), namespace] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    Ok(Some(Once::new(key, digest.finalize().into())))
}

/// Counts the bytes of a response, and the permit of its request, until they are sent. A client
/// may delay that for as long as it likes.
pub(crate) async fn counted(request: Request, next: Next) -> Response {
    let context = Arc::clone(context_of(request.extensions()));
    let mut response = next.run(request).await;
    name_request(&mut response, &context.id);
    // Event streams have no size and limits of their own.
    let Some(size) = response.body().size_hint().exact().filter(|size| *size > 0) else {
        return response;
    };
    if let Err(error) = context.take_response_bytes(size as usize) {
        return error.into_response();
    }
    let (parts, body) = response.into_parts();
    // A large body is built only now, when its bytes are counted.
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => {
            let Held { permit, response, .. } = context.release();
            let unsent = Unsent { bytes, _permit: permit, _response: response };
            Response::from_parts(parts, Body::from(Bytes::from_owner(unsent)))
        }
        Err(error) => {
            tracing::error!(request_id = context.id, %error, "a response cannot be built");
            ApiError::internal().into_response()
        }
    }
}

/// The bytes of a response with their shares. Slices of the bytes keep it, so the shares end with
/// the memory.
struct Unsent {
    bytes: Bytes,
    _permit: Option<KeyShare>,
    _response: Option<KeyShare>,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Tells browsers to use HTTPS only, for a year. Not on addresses and names of one machine: other
/// services share them.
pub(crate) async fn strict_transport(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let host = host.as_ref().or(request.uri().authority()).map(Authority::host);
    let is_public = host.is_some_and(|host| host.contains('.') && host.parse::<IpAddr>().is_err());
    let mut response = next.run(request).await;
    if is_public {
        let value = HeaderValue::from_static("max-age=31536000");
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, value);
    }
    response
}

fn headers_too_large() -> ApiError {
    let message = "the request has too many headers, or too long ones";
    ApiError::new(ErrorKind::HeadersTooLarge, "too_many_headers", message)
}

/// The response to a request with too many headers, which no handler sees.
pub fn too_many_headers() -> Response {
    let mut response = headers_too_large().into_response();
    name_request(&mut response, &Uuid::now_v7().to_string());
    response
}

/// The last response of a connection of HTTP/1, as it is sent: the head of a request is too large,
/// or is no head of a request.
pub fn unreadable_head(is_too_large: bool) -> String {
    let id = Uuid::now_v7().to_string();
    let message = "this is no request of HTTP/1";
    let (status, error) = match is_too_large {
        true => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, headers_too_large()),
        false => (StatusCode::BAD_REQUEST, ApiError::new(ErrorKind::Invalid, "bad_http", message)),
    };
    let body = serde_json::to_string(&error.body(&id)).unwrap_or_default();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         cache-control: no-store\r\nx-request-id: {id}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Runs the handler, then discards the rest of the request's body. A client that is still sending
/// might not read the response otherwise.
async fn run(app: &App, context: &RequestContext, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return handle(context, request, next).await;
    }
    let (parts, body) = request.into_parts();
    let shared = Arc::new(Mutex::new(body.into_data_stream()));
    let body = stream::unfold(Arc::clone(&shared), async |body| {
        let chunk = body.lock().await.next().await?;
        Some((chunk, body))
    });
    let request = Request::from_parts(parts, Body::from_stream(body));
    let response = handle(context, request, next).await;
    // Beyond the limit of such requests a client may not read its response.
    let Ok(_share) = app.budgets.drains.take(context.key(), 1) else { return response };
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

/// Runs the handler. A panic ends its request alone.
async fn handle(context: &RequestContext, request: Request, next: Next) -> Response {
    let handling = AssertUnwindSafe(next.run(request)).catch_unwind();
    handling.await.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no text");
        let tenant = context.key().map(|(tenant, _)| tenant.0);
        tracing::error!(tenant, request_id = context.id, panic = text, "a handler panicked");
        ApiError::internal().into_response()
    })
}

fn is_well_formed(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.bytes().all(allowed)
}
