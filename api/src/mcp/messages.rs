//! Messages of JSON-RPC: what is none is rejected before the protocol reads it, and errors of the
//! interface become errors of JSON-RPC.

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::MCP_BYTES_MAX;

const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const INTERNAL_ERROR: i32 = -32_603;
/// The first code that a server may give a meaning of its own. The meaning is `error` in `data`.
const SERVER_ERROR: i32 = -32_000;

/// The code of the error for a body that is no JSON.
const BAD_JSON: &str = "bad_json";

/// A message of a client.
pub(crate) struct Message(Map<String, Value>);

impl Message {
    /// Sets `id` to that of the message. Batches ended with the revision 2025-06-18.
    pub(crate) fn parse(bytes: &[u8], id: &mut Value) -> ApiResult<Self> {
        let message = match serde_json::from_slice(bytes) {
            Ok(Value::Object(message)) => message,
            Ok(Value::Array(_)) => return Err(invalid("batches are not supported")),
            Ok(_) => return Err(invalid("the body must be a JSON object")),
            Err(error) => {
                let message = format!("the body is not valid JSON: {error}");
                return Err(ApiError::bad_request(BAD_JSON, message));
            }
        };
        match message.get("id") {
            None => {}
            Some(found) if found.is_string() || found.is_i64() => id.clone_from(found),
            Some(_) => return Err(invalid("id must be a text or a whole number")),
        }
        if message.get("jsonrpc").is_none_or(|version| version != "2.0") {
            return Err(invalid("jsonrpc must be \"2.0\""));
        }
        if message.get("method").is_some_and(|method| !method.is_string()) {
            return Err(invalid("method must be a text"));
        }
        Ok(Self(message))
    }

    /// What a repeated message has in common with the first one. Clients number their messages.
    pub(crate) fn repeated(&self) -> Vec<u8> {
        let params = |name: &str| self.0.get("params").and_then(|params| params.get(name));
        let parts = [self.0.get("method"), params("name"), params("arguments")];
        json!(parts).to_string().into_bytes()
    }
}

fn invalid(message: &str) -> ApiError {
    ApiError::bad_request("bad_mcp_request", message)
}

/// An error of the interface as one of JSON-RPC, to the message with this id.
pub(super) fn error_response(error: ApiError, id: Value, request_id: &str) -> Response {
    let (code, message) = (code_of(&error), error.message.clone());
    let mut response = error.into_response();
    let Some(error) = response.extensions_mut().remove::<ApiError>() else { return response };
    let error = json!({"code": code, "message": message, "data": error.body(request_id)});
    let (head, body) =
        Json(json!({"jsonrpc": "2.0", "id": id, "error": error})).into_response().into_parts();
    *response.body_mut() = body;
    response.headers_mut().extend(head.headers);
    response
}

/// The code of JSON-RPC for an error of the interface.
pub(super) fn code_of(error: &ApiError) -> i32 {
    match error.kind {
        ErrorKind::Invalid if error.code == BAD_JSON => PARSE_ERROR,
        ErrorKind::Invalid => INVALID_REQUEST,
        ErrorKind::Internal => INTERNAL_ERROR,
        _ => SERVER_ERROR,
    }
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// An error of the protocol, with the id of the request.
pub(super) async fn named(response: Response, request_id: &str) -> Response {
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
pub(super) fn rejected(status: StatusCode) -> ApiError {
    if status == StatusCode::FORBIDDEN {
        let message = "pages of this origin may not use the tools: set public.origins";
        return ApiError::new(ErrorKind::Forbidden, "wrong_origin", message);
    }
    invalid("the protocol rejects the request: check the method and MCP-Protocol-Version")
}
