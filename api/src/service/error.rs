//! Errors of the service: a kind, a stable code, and a text for people. Causes are logged where
//! they occur and are no part of an error.

use raft::{OperateError, ReadError, SubmitError};
use storage::Rejection;

use crate::service::embedder::EmbedError;

/// What an error means for the caller. HTTP maps each to one status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The request is malformed.
    Invalid,
    /// No valid key.
    Unauthorized,
    /// The key may not do this.
    Forbidden,
    /// No such thing.
    NotFound,
    /// The method is not available here.
    MethodNotAllowed,
    /// The request body took too long to arrive.
    Timeout,
    /// The present state does not permit this.
    Conflict,
    /// It existed and is gone.
    Gone,
    /// The request, or what it decides to, is too large.
    TooLarge,
    /// The body has another type than required.
    UnsupportedType,
    /// The idempotency key belongs to another request.
    KeyReused,
    /// Too many requests of a kind.
    TooMany,
    /// This node failed.
    Internal,
    /// Nothing happened: retry.
    Unavailable,
    /// It may or may not have happened.
    Unknown,
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) kind: ErrorKind,
    code: &'static str,
    message: String,
    field: Option<String>,
    oldest: Option<String>,
    pub(crate) retry_after_seconds: Option<u32>,
}

/// Result of the service.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Self {
        let (message, field, oldest) = (message.into(), None, None);
        Self { kind, code, message, field, oldest, retry_after_seconds: None }
    }

    /// An invalid field of the request.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let error = Self::new(ErrorKind::Invalid, "invalid_field", message);
        Self { field: Some(field.into()), ..error }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, code, message)
    }

    /// Nothing happened: retry after a second.
    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        let error = Self::new(ErrorKind::Unavailable, code, message);
        Self { retry_after_seconds: Some(1), ..error }
    }

    /// The requested events were trimmed; those that remain follow `oldest`.
    pub(crate) fn gone(oldest: String) -> Self {
        let message = "the events after this one were trimmed: resume after `oldest`";
        let error = Self::new(ErrorKind::Gone, "events_gone", message);
        Self { oldest: Some(oldest), ..error }
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(
            ErrorKind::Unauthorized,
            "unauthorized",
            "send a valid API key: Authorization: Bearer sk-…",
        )
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            ErrorKind::Internal,
            "internal",
            "this node failed to handle the request; the cause is in its log",
        )
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &'static str {
        self.code
    }

    /// The text for people.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The field at fault.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// The id after which an event stream may resume.
    pub(crate) fn oldest(&self) -> Option<&str> {
        self.oldest.as_deref()
    }

    /// The same error of a field within `outer`.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = self.field.map(|field| format!("{outer}.{field}"));
        self
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        match rejection {
            Rejection::NotFound => Self::new(ErrorKind::NotFound, "not_found", message),
            Rejection::Locked => Self::new(ErrorKind::Conflict, "locked", message),
            Rejection::StorageLimitReached { .. } => {
                Self::new(ErrorKind::Forbidden, "storage_limit_reached", message)
            }
            Rejection::NamespaceForbidden(_) => {
                Self::new(ErrorKind::Forbidden, "namespace_forbidden", message)
            }
            Rejection::NotOwner => Self::new(ErrorKind::Forbidden, "not_owner", message),
            Rejection::NoSuch(_) => Self::new(ErrorKind::NotFound, "not_found", message),
            Rejection::TooMany { .. } => Self::new(ErrorKind::Conflict, "too_many", message),
            Rejection::FilterMismatch => Self::new(ErrorKind::Conflict, "filter_mismatch", message),
            Rejection::NoEdge => Self::new(ErrorKind::NotFound, "not_found", message),
            Rejection::EdgesFull { .. } => Self::new(ErrorKind::Conflict, "edges_full", message),
            Rejection::Setting(fault) => Self::invalid(fault.name, fault.message),
            Rejection::IdTaken => Self::new(ErrorKind::Conflict, "id_taken", message),
            Rejection::KeyReused => {
                Self::new(ErrorKind::KeyReused, "idempotency_key_reused", message)
            }
            Rejection::ReceiptsFull => {
                let error = Self::new(ErrorKind::TooMany, "receipts_full", message);
                Self { retry_after_seconds: Some(3_600), ..error }
            }
            Rejection::ModelMismatch => Self::unavailable("model_mismatch", message),
            Rejection::WrongState(_) => Self::new(ErrorKind::Conflict, "wrong_state", message),
            Rejection::TooLarge { .. } => Self::new(ErrorKind::TooLarge, "too_large", message),
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
                ErrorKind::Unknown,
                "outcome_unknown",
                "the write may or may not have happened: repeat it if it has an Idempotency-Key, else check first",
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

impl From<OperateError> for ApiError {
    fn from(error: OperateError) -> Self {
        let message = error.to_string();
        match error {
            OperateError::NoLeader => Self::unavailable("no_leader", message),
            OperateError::Unknown => Self::new(ErrorKind::Unknown, "outcome_unknown", message),
            OperateError::Rejected(_) => Self::new(ErrorKind::Conflict, "rejected", message),
        }
    }
}
