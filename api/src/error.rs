//! Errors: a kind, a stable code, and a text for people. Causes are logged where
//! they occur and are no part of an error.

use std::time::Duration;

use raft::{OperateError, ReadError, SubmitError};
use storage::Rejection;
use storage::model::id::MemoryId;

/// A disk is not enlarged within a second.
const DISK_FULL_RETRY: Duration = Duration::from_secs(30);
/// Receipts expire.
const RECEIPTS_FULL_RETRY: Duration = Duration::from_secs(60);

/// What an error means for the caller, with its status over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    Invalid = 400,
    Unauthorized = 401,
    Forbidden = 403,
    NotFound = 404,
    MethodNotAllowed = 405,
    /// The request body took too long to arrive.
    Timeout = 408,
    /// The present state does not permit this.
    Conflict = 409,
    Gone = 410,
    /// The resource is not what `If-Match` requires.
    ConditionFailed = 412,
    /// The request, or what it decides to, is too large.
    TooLarge = 413,
    /// It is understood, but must not be done: the idempotency key belongs to another request, or the guard
    /// rejects a text.
    Unprocessable = 422,
    HeadersTooLarge = 431,
    /// Too many requests of a kind.
    TooMany = 429,
    Internal = 500,
    /// Nothing happened: retry.
    Unavailable = 503,
    /// It may or may not have happened.
    Unknown = 504,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) kind: ErrorKind,
    /// A stable code.
    pub(crate) code: &'static str,
    /// A text for people.
    pub(crate) message: String,
    /// The field at fault.
    pub(crate) field: Option<String>,
    /// The id after which an event stream may resume.
    pub(crate) oldest: Option<String>,
    /// The memory that a new one repeats.
    pub(crate) duplicate_of: Option<MemoryId>,
    pub(crate) retry_after_seconds: Option<u32>,
}

pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    pub(crate) fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code,
            message: message.into(),
            field: None,
            oldest: None,
            duplicate_of: None,
            retry_after_seconds: None,
        }
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
        Self::new(ErrorKind::Unavailable, code, message).retry_after(Duration::from_secs(1))
    }

    /// The same error, after which a client should wait: whole seconds, at least one.
    pub(crate) fn retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_millis().div_ceil(1_000).max(1);
        Self { retry_after_seconds: Some(u32::try_from(seconds).unwrap_or(u32::MAX)), ..self }
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

    /// The same error of a field within `outer`.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = self.field.map(|field| format!("{outer}.{field}"));
        self
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let message = rejection.to_string();
        let (kind, code) = match rejection {
            Rejection::NotFound | Rejection::NoSuch(_) | Rejection::NoEdge => {
                (ErrorKind::NotFound, "not_found")
            }
            Rejection::StorageLimitReached { .. } => {
                (ErrorKind::Forbidden, "storage_limit_reached")
            }
            Rejection::KeyInvalid => return Self::unauthorized(),
            Rejection::TenantSuspended => (ErrorKind::Forbidden, "tenant_suspended"),
            Rejection::NamespaceForbidden(_) => (ErrorKind::Forbidden, "namespace_forbidden"),
            Rejection::NotOwner => (ErrorKind::Forbidden, "not_owner"),
            Rejection::NotReviewer => (ErrorKind::Forbidden, "forbidden"),
            Rejection::Locked => (ErrorKind::Conflict, "locked"),
            Rejection::LockedByOther => (ErrorKind::Forbidden, "locked_by_other"),
            Rejection::TooMany { .. } => (ErrorKind::Conflict, "too_many"),
            Rejection::FilterMismatch => (ErrorKind::Conflict, "filter_mismatch"),
            Rejection::EdgesFull(_) => (ErrorKind::Conflict, "edges_full"),
            Rejection::IdTaken => (ErrorKind::Conflict, "id_taken"),
            Rejection::AlreadyDone => (ErrorKind::Conflict, "already_done"),
            Rejection::Duplicate { present, .. } => {
                let error = Self::new(ErrorKind::Conflict, "duplicate", message);
                return Self { duplicate_of: Some(present), ..error };
            }
            Rejection::WrongState(_) => (ErrorKind::Conflict, "wrong_state"),
            Rejection::ConditionFailed => (ErrorKind::ConditionFailed, "condition_failed"),
            Rejection::KeyReused => (ErrorKind::Unprocessable, "idempotency_key_reused"),
            Rejection::TooLarge(_) => (ErrorKind::TooLarge, "too_large"),
            Rejection::Setting(fault) => return Self::invalid(fault.name, fault.message),
            Rejection::ValueRejected => (ErrorKind::Conflict, "value_rejected"),
            Rejection::GuardChanged => return Self::unavailable("guard_changed", message),
            Rejection::ModelMismatch => return Self::unavailable("model_mismatch", message),
            Rejection::ReceiptsFull => {
                let error = Self::new(ErrorKind::TooMany, "receipts_full", message);
                return error.retry_after(RECEIPTS_FULL_RETRY);
            }
        };
        Self::new(kind, code, message)
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let code = match error {
            SubmitError::Busy | SubmitError::DeadlinePassed => "busy",
            SubmitError::NoLeader => "no_leader",
            SubmitError::Quarantined => "quarantined",
            SubmitError::MemoryFull => "memory_full",
            SubmitError::DiskFull => {
                return Self::unavailable("disk_full", error.to_string())
                    .retry_after(DISK_FULL_RETRY);
            }
            SubmitError::Unknown => {
                return Self::new(
                    ErrorKind::Unknown,
                    "outcome_unknown",
                    "the write may or may not have happened: repeat it if it has an Idempotency-Key, else check first",
                );
            }
        };
        Self::unavailable(code, error.to_string())
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        let code = match error {
            ReadError::NoLeader => "no_leader",
            ReadError::DeadlinePassed => "index_not_reached",
            ReadError::Quarantined => "quarantined",
        };
        Self::unavailable(code, error.to_string())
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
