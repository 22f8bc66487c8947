//! Why a command ends without success, and the code with which the process then exits.

use std::fmt;
use std::process::ExitCode;

use reqwest::StatusCode;

/// The reason for people, and the exit code for programs.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
}

/// Exit codes. A wrong command line exits with 2, by the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything that has no code of its own.
    Failed = 1,
    /// No node responded in time, or none could serve the request.
    Unavailable = 3,
    /// The key is unknown, or may not do this.
    Denied = 4,
    /// Nothing has this id.
    NotFound = 5,
    /// The request is invalid, or contradicts the present state.
    Rejected = 6,
    /// A limit of the tenant or of the node is reached.
    LimitReached = 7,
    /// A write may have been done.
    Unknown = 8,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// The failure that a response states.
    pub(crate) fn of_response(status: StatusCode, code: &str, message: String) -> Self {
        let exit = match status {
            _ if code == "storage_limit_reached" => Exit::LimitReached,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Exit::Denied,
            StatusCode::NOT_FOUND => Exit::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Exit::LimitReached,
            StatusCode::GATEWAY_TIMEOUT => Exit::Unknown,
            StatusCode::SERVICE_UNAVAILABLE => Exit::Unavailable,
            status if status.is_client_error() => Exit::Rejected,
            _ => Exit::Failed,
        };
        Self { exit, message }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { exit: Exit::Failed, message }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}
