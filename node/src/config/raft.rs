//! Sections `raft` and `log_compaction`: timing of elections and verification, and the length of
//! the Raft log.

use serde::Deserialize;

/// An election needs this many missed heartbeats at least.
const HEARTBEATS_PER_ELECTION: u64 = 3;

/// Timing of Raft.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Raft {
    /// Interval of the leader's heartbeats.
    pub heartbeat_ms: u64,
    /// Shortest time without a leader before an election.
    pub election_min_ms: u64,
    /// Longest time without a leader before an election.
    pub election_max_ms: u64,
    /// Interval at which the states of all nodes are compared.
    pub verify_seconds: u64,
}

impl Default for Raft {
    fn default() -> Self {
        Self {
            heartbeat_ms: 100,
            election_min_ms: 400,
            election_max_ms: 800,
            verify_seconds: 86_400,
        }
    }
}

impl Raft {
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.verify_seconds == 0 {
            return Err("raft.verify_seconds must be 1 or more".into());
        }
        if self.heartbeat_ms.saturating_mul(HEARTBEATS_PER_ELECTION) > self.election_min_ms {
            return Err(
                "raft.election_min_ms must be at least three times raft.heartbeat_ms".into()
            );
        }
        Ok(())
    }
}

/// Compaction of the Raft log.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogCompaction {
    /// Growth of the log, in bytes, that triggers compaction.
    pub log_bytes: u64,
    /// Time since the last compaction that triggers one regardless of growth.
    pub interval_seconds: u64,
    /// Entries that compaction keeps.
    pub keep_entries: u64,
    /// Silence after which a follower no longer delays compaction.
    pub follower_timeout_seconds: u64,
}

impl Default for LogCompaction {
    fn default() -> Self {
        Self {
            log_bytes: 128 << 20,
            interval_seconds: 600,
            keep_entries: 1_000,
            follower_timeout_seconds: 300,
        }
    }
}
