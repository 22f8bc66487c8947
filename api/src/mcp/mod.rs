//! The endpoint `/mcp` of the Model Context Protocol: Streamable HTTP without sessions, so any node
//! responds to any request. Tools, resources and prompts are adapters over the service. The key of the
//! request decides which tools there are, and what they see.

mod arguments;
mod calls;
mod graph;
mod graph_types;
mod server;
mod tools;

use std::sync::Arc;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use storage::model::tenant::Role;
use url::Url;

use crate::app::App;
use crate::auth::{ReaderRead, record_use};
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{MCP_BYTES_MAX, MCP_DEADLINE};
use crate::requests::JsonBody;
use crate::requests::headers::{NamespaceHeader, RequestOrigin, ZoneHeader};
use calls::Call;
use server::Server;
pub use tools::McpProfile;
use tools::ToolSet;

/// Origins of pages of this machine.
const LOCAL_PAGES: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// What the configuration of the node says of this endpoint.
#[derive(Clone)]
struct Options {
    protocol: StreamableHttpServerConfig,
    tools: Arc<ToolSet>,
}

/// The endpoint, for web pages of some origins too, with some or all tools. Other methods than POST
/// are 405 before the key is read: clients take a 401 for a wrong key.
pub(crate) fn routes(
    origins: &[String],
    has_local_pages: bool,
    profile: McpProfile,
    tools: Vec<String>,
) -> Result<Router<App>, String> {
    let local = LOCAL_PAGES.iter().filter(|_| has_local_pages).map(|origin| (*origin).to_owned());
    let origins = origins.iter().map(|origin| with_port(origin)).chain(local).collect();
    let options =
        Options { protocol: protocol(origins), tools: Arc::new(ToolSet::new(profile, tools)?) };
    let route = Router::new().route("/mcp", post(serve)).layer(Extension(options));
    Ok(route.layer(DefaultBodyLimit::max(MCP_BYTES_MAX)))
}

async fn serve(
    State(app): State<App>,
    Extension(options): Extension<Options>,
    ReaderRead(session, _): ReaderRead,
    home: NamespaceHeader,
    zone: ZoneHeader,
    origin: RequestOrigin,
    request: Request,
) -> ApiResult<Response> {
    let context = Arc::clone(&session.request);
    let (parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let JsonBody(bytes) = JsonBody::from_request(whole, &app).await?;
    let mut request = Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    // One that only accepts JSON gets JSON, which is all that this endpoint sends.
    let accepted = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(ACCEPT, accepted);
    request.headers_mut().remove(AUTHORIZATION);
    let call = Call { session, home, zone: zone.time_zone(), origin: Arc::new(origin) };
    let server = Server::new(call, options.tools);
    let service = StreamableHttpService::new(
        move || Ok::<_, std::io::Error>(server.clone()),
        Arc::new(NeverSessionManager::default()),
        options.protocol,
    );
    let handled = tokio::time::timeout(MCP_DEADLINE, service.handle(request)).await;
    if context.has_written() {
        // The tool was known only now: a key that writes is used in another way than one that reads.
        record_use(&parts, &app, Role::Agent);
    }
    match handled {
        Ok(response) if response.status().is_client_error() => match is_json(response.headers()) {
            true => Ok(named(response.map(Body::new), &context.id).await),
            false => {
                malformed(&bytes, &context.id).map_or_else(|| Err(rejected(response.status())), Ok)
            }
        },
        Ok(response) => Ok(response.map(Body::new)),
        Err(_) if context.has_written() => {
            let message = "the write may or may not have happened: check before you repeat it";
            Err(ApiError::new(ErrorKind::Unknown, "outcome_unknown", message))
        }
        Err(_) => Err(ApiError::unavailable("busy", "the request took too long")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// An error of the protocol, with the id of the request.
async fn named(response: Response, request_id: &str) -> Response {
    let (mut parts, body) = response.into_parts();
    let bytes = to_bytes(body, MCP_BYTES_MAX).await.unwrap_or_default();
    let mut message: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    if message["error"].is_object() {
        // Clients read there which versions are supported.
        let data = &mut message["error"]["data"];
        if !data.is_object() {
            *data = json!({});
        }
        data["request_id"] = request_id.into();
    }
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(message.to_string()))
}

/// The error for a request that the protocol rejects, in place of its text.
fn rejected(status: StatusCode) -> ApiError {
    if status == StatusCode::FORBIDDEN {
        let message = "pages of this origin may not use the tools: set public.origins";
        return ApiError::new(ErrorKind::Forbidden, "wrong_origin", message);
    }
    let message = "the protocol rejects the request: check Content-Type and MCP-Protocol-Version";
    ApiError::bad_request("bad_mcp_request", message)
}

/// Browsers send no key by themselves, so a page of another site can use none: hosts are not checked
/// here. Requests of web pages of other origins are rejected.
fn protocol(origins: Vec<String>) -> StreamableHttpServerConfig {
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_keep_alive(None)
        .with_sse_retry(None)
        .with_max_request_body_bytes(MCP_BYTES_MAX)
        .disable_allowed_hosts()
        .with_allowed_origins(origins)
        .enforce_origin_validation()
}

/// An origin with its port, also if that is the one of its scheme: without one it would be any port.
fn with_port(origin: &str) -> String {
    let url = Url::parse(origin).ok();
    let with_port = url.and_then(|url| {
        let port = url.port_or_known_default()?;
        Some(format!("{}://{}:{port}", url.scheme(), url.host_str()?))
    });
    with_port.unwrap_or_else(|| origin.to_owned())
}

/// The response to what is no single JSON-RPC message. Batches ended with the revision 2025-06-18.
fn malformed(bytes: &Bytes, request_id: &str) -> Option<Response> {
    let (code, message) = match serde_json::from_slice::<IgnoredAny>(bytes) {
        Err(_) => (-32_700, "the body is not valid JSON"),
        Ok(_) if bytes.trim_ascii().starts_with(b"[") => (-32_600, "batches are not supported"),
        Ok(_) => return None,
    };
    let data = json!({ "request_id": request_id });
    let error = json!({"code": code, "message": message, "data": data});
    let error = json!({"jsonrpc": "2.0", "id": null, "error": error});
    let headers = [(CONTENT_TYPE, "application/json")];
    Some((StatusCode::BAD_REQUEST, headers, error.to_string()).into_response())
}
