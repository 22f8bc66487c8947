//! Errors over HTTP: the status of each kind, and the body that all of them share.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::current::request_id;
use crate::service::error::{ApiError, ErrorKind};

/// The body of an error response.
#[derive(Serialize, ToSchema)]
pub(crate) struct Error {
    /// A stable code.
    error: &'static str,
    /// A text for people.
    message: String,
    request_id: String,
    /// The field at fault, for `invalid_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The id after which an event stream may resume, for `events_gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<String>,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Error {
            error: self.code,
            message: self.message,
            request_id: request_id(),
            field: self.field,
            oldest: self.oldest,
        };
        let status = StatusCode::from_u16(self.kind as u16).expect("each kind is a status");
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == ErrorKind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
