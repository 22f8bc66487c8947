//! What a caller is told when something does not work: a status, a stable code,
//! a text for people. Internals stay out of it; they are logged where they are met.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use raft::{ReadError, SubmitError};
use storage::Rejection;

use crate::embed::EmbedError;
use crate::middleware::request_id;
use crate::openapi::Error;

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    field: Option<String>,
    oldest: Option<String>,
    retry_after_seconds: Option<u32>,
}

/// Result of everything that can be answered with an error.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let (message, field, oldest) = (message.into(), None, None);
        Self { status, code, message, field, oldest, retry_after_seconds: None }
    }

    /// 400, naming the field that is at fault.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::BAD_REQUEST, "invalid_field", message);
        Self { field: Some(field.into()), ..error }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// 503: try again after some seconds.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message);
        Self { retry_after_seconds: Some(1), ..error }
    }

    /// 410: events that were asked for are gone; what is left follows `oldest`.
    pub(crate) fn gone(oldest: String) -> Self {
        let message = "what follows this event is gone: `oldest` says after which to begin";
        let error = Self::new(StatusCode::GONE, "events_gone", message);
        Self { oldest: Some(oldest), ..error }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "send a valid API key: Authorization: Bearer sk-…",
        )
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal",
            "this node could not answer; its operator finds the cause in its log",
        )
    }

    /// The same error about a part of something larger.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = self.field.map(|field| format!("{outer}.{field}"));
        self
    }
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
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        match rejection {
            Rejection::NotFound => Self::new(StatusCode::NOT_FOUND, "not_found", message),
            Rejection::Locked => Self::new(StatusCode::CONFLICT, "locked", message),
            Rejection::StorageLimitReached { .. } => {
                Self::new(StatusCode::FORBIDDEN, "storage_limit_reached", message)
            }
            Rejection::NamespaceForbidden(_) => {
                Self::new(StatusCode::FORBIDDEN, "namespace_forbidden", message)
            }
            Rejection::NotOwner => Self::new(StatusCode::FORBIDDEN, "not_owner", message),
            Rejection::NoSuch(_) => Self::new(StatusCode::NOT_FOUND, "not_found", message),
            Rejection::TooMany { .. } => Self::new(StatusCode::CONFLICT, "too_many", message),
            Rejection::FilterMismatch => {
                Self::new(StatusCode::CONFLICT, "filter_mismatch", message)
            }
            Rejection::NoEdge => Self::new(StatusCode::NOT_FOUND, "not_found", message),
            Rejection::EdgesFull { .. } => Self::new(StatusCode::CONFLICT, "edges_full", message),
            Rejection::Setting(fault) => Self::invalid(fault.name, fault.message),
            Rejection::IdTaken => Self::new(StatusCode::CONFLICT, "id_taken", message),
            Rejection::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", message)
            }
            Rejection::ReceiptsFull => {
                let error = Self::new(StatusCode::TOO_MANY_REQUESTS, "receipts_full", message);
                Self { retry_after_seconds: Some(3_600), ..error }
            }
            Rejection::ModelMismatch => Self::unavailable("model_mismatch", message),
            Rejection::WrongState(_) => Self::new(StatusCode::CONFLICT, "wrong_state", message),
            Rejection::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            }
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Busy => Self::unavailable("busy", error.to_string()),
            SubmitError::NoLeader => Self::unavailable("no_leader", error.to_string()),
            SubmitError::DeadlinePassed => Self::unavailable("busy", error.to_string()),
            SubmitError::Quarantined => Self::unavailable("quarantined", error.to_string()),
            SubmitError::Unknown => Self::new(
                StatusCode::GATEWAY_TIMEOUT,
                "outcome_unknown",
                "the write may or may not have been done: with an Idempotency-Key repeat it, without one look first",
            ),
        }
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::NoLeader => Self::unavailable("no_leader", error.to_string()),
            ReadError::DeadlinePassed => Self::unavailable("index_not_reached", error.to_string()),
            ReadError::Quarantined => Self::unavailable("quarantined", error.to_string()),
        }
    }
}

impl From<EmbedError> for ApiError {
    fn from(error: EmbedError) -> Self {
        match error {
            EmbedError::Busy => Self::unavailable("embedder_busy", error.to_string()),
            EmbedError::Failed => Self::internal(),
        }
    }
}
