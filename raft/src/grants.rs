//! Grants of requests per minute: what a node requests of the leader, and what that grants. The rule is in
//! `leader/rates`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use storage::model::bounded::bounded;
use storage::model::id::TenantId;

/// Time for which a grant may be used.
pub const GRANT_TIME: Duration = Duration::from_secs(1);
/// Seconds for which a grant counts.
pub const WINDOW_SECONDS: i64 = 62;
/// Most seconds of a window.
const SECONDS_MAX: usize = WINDOW_SECONDS as usize;

/// A node's request for grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// Requests that wait.
    pub waiting: u32,
    /// More of them that are likely to come within a second.
    pub expected: u32,
    /// For a leader that has not got it yet.
    pub history: Option<History>,
    /// What the node has accepted without a leader, and has not reported yet.
    pub alone: Counts,
    /// The part of an earlier grant that was not used: its term, its second and the number.
    pub unused: Option<(u64, i64, u32)>,
}

/// The grants of the last minute, as a node has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Requests that were granted: seconds ago, and how many.
    pub seconds: Counts,
    /// Age in milliseconds of the last grant, whose window this is: that of all nodes. `None` is
    /// what this node has accepted with grants.
    pub age_ms: Option<u64>,
}

/// Numbers of requests: seconds ago, and how many.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts(#[serde(deserialize_with = "bounded::<SECONDS_MAX, _, _>")] pub Vec<(u8, u32)>);

/// The leader's response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The term of the leader.
    pub term: u64,
    /// The second of that term in which it was made.
    pub second: i64,
    /// Requests that the node may accept within [`GRANT_TIME`].
    pub granted: u32,
    /// Requests that could be granted after these.
    pub remaining: u64,
    /// Milliseconds until one more may be granted; 0 if it may be now.
    pub wait_ms: u64,
    /// Whether the leader has the history of this node.
    pub has_history: bool,
    /// What all nodes were granted, these included.
    pub window: Counts,
}

impl Grant {
    /// All that a node requests, for a tenant without a limit.
    pub(crate) fn unlimited(term: u64, granted: u32) -> Self {
        let remaining = u64::MAX;
        let (wait_ms, window) = (0, Counts::default());
        Self { term, second: 0, granted, remaining, wait_ms, has_history: true, window }
    }
}
