//! The error of rules.

use crate::error::Error;
use crate::reply::Rejection;

/// The reason why a command had no effect.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// A rule rejects the command. The caller receives the reason.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The state cannot be read. The node stops.
    #[error(transparent)]
    Fault(#[from] Error),
}

/// Result of a rule.
pub(super) type Decided<T> = Result<T, DecideError>;
