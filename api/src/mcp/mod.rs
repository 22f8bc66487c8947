//! The endpoint `/mcp` of the Model Context Protocol: Streamable HTTP without sessions, so any node
//! responds to any request. Tools, resources and prompts are adapters over the service. The key of the
//! request decides which tools there are, and what they see.

mod arguments;
mod calls;
mod confirmation;
mod graph;
mod graph_types;
pub(crate) mod messages;
mod profiles;
mod prompts;
mod resources;
mod results;
mod server;
mod subscriptions;
pub(crate) mod tools;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request, State};
use axum::http::HeaderValue;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::Value;
use storage::model::tenant::Role;
use url::Url;

use crate::app::App;
use crate::auth::{ReaderRead, record_use};
use crate::error::ApiResult;
use crate::limits::MCP_BYTES_MAX;
use crate::requests::headers::{NamespaceHeader, RequestOrigin, ZoneHeader};
use crate::requests::values::OneOf;
use crate::requests::{JsonBody, ValidQuery, context_of};
use calls::Call;
use messages::{Message, error_response, is_json, named, rejected};
pub use profiles::McpProfile;
use profiles::ToolSet;
use server::Server;

/// Origins of pages of this machine.
const LOCAL_PAGES: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// What the configuration of the node says of this endpoint.
#[derive(Clone)]
struct Options {
    protocol: StreamableHttpServerConfig,
    tools: Arc<ToolSet>,
}

/// What the address of the endpoint says.
#[derive(Deserialize)]
struct McpQuery {
    /// In place of the profile in the configuration: programs choose the tools that they can use.
    profile: Option<OneOf<McpProfile>>,
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
    let route = Router::new().route("/mcp", post(serve)).route("/mcp/", post(serve));
    let route = route.layer(Extension(options));
    Ok(route.layer(DefaultBodyLimit::max(MCP_BYTES_MAX)))
}

/// Errors are errors of JSON-RPC, with the status and the code of the interface.
async fn serve(
    State(app): State<App>,
    Extension(options): Extension<Options>,
    request: Request,
) -> Response {
    let request_id = context_of(request.extensions()).id.clone();
    let mut id = Value::Null;
    let served = respond(&app, options, request, &mut id).await;
    served.unwrap_or_else(|error| error_response(error, id, &request_id))
}

/// Sets `id` to that of the message, once it is read.
async fn respond(
    app: &App,
    options: Options,
    request: Request,
    id: &mut Value,
) -> ApiResult<Response> {
    let (mut parts, body) = request.into_parts();
    let ReaderRead(session, freshness) = ReaderRead::from_request_parts(&mut parts, app).await?;
    let home = NamespaceHeader::from_request_parts(&mut parts, app).await?;
    let zone = ZoneHeader::from_request_parts(&mut parts, app).await?;
    let origin = RequestOrigin::from_request_parts(&mut parts, app).await?;
    let query = ValidQuery::<McpQuery>::from_request_parts(&mut parts, app).await?.0;
    let context = Arc::clone(&session.request);
    let JsonBody(bytes) =
        JsonBody::from_request(Request::from_parts(parts.clone(), body), app).await?;
    let message = Message::parse(&bytes, id)?;
    context.set_once_body(&message.repeated());
    let mut request = Request::from_parts(parts.clone(), Body::from(bytes));
    let reads_streams = parts.headers.get_all(ACCEPT).iter().any(|accepted| {
        accepted.to_str().is_ok_and(|accepted| accepted.contains("text/event-stream"))
    });
    // One that accepts JSON only gets JSON: streams are for those who want notifications.
    let accepted = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(ACCEPT, accepted);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers_mut().remove(AUTHORIZATION);
    let call = Call { session, freshness, home, zone: zone.time_zone(), origin: Arc::new(origin) };
    let offered = match query.profile {
        Some(profile) => Arc::new(options.tools.with_profile(profile.0)),
        None => options.tools,
    };
    let server = Server { app: app.clone(), call, offered, reads_streams };
    let service = StreamableHttpService::new(
        move || Ok::<_, std::io::Error>(server.clone()),
        Arc::new(NeverSessionManager::default()),
        options.protocol,
    );
    let response = service.handle(request).await;
    if context.has_written() {
        // The tool was known only now: a key that writes is used in another way than one that reads.
        record_use(&parts, app, Role::Agent);
    }
    match response.status().is_client_error() {
        false => Ok(response.map(Body::new)),
        true if is_json(response.headers()) => {
            Ok(named(response.map(Body::new), &context.id).await)
        }
        true => Err(rejected(response.status())),
    }
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
