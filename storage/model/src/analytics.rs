//! Usage statistics per tenant: recalls and feedback per type, searches, requests. Each
//! node reports its counts to the leader. The sums are part of the replicated state.

use serde::{Deserialize, Serialize};

use crate::audit::KeyUse;
use crate::bounded::bounded;
use crate::id::{KeyId, MemoryId, TenantId, Timestamp};
use crate::memory::MemoryType;

/// Maximum number of tenants with counts per report, of recalled memories, of used API keys, and of
/// kinds of use of API keys; over all tenants of the report. With all of them, it stays below the
/// limit of one command: the test `largest_report_is_recorded` measures that.
pub const REPORT_TENANTS_MAX: usize = 500;
/// See [`REPORT_TENANTS_MAX`].
pub const REPORT_RECALLS_MAX: usize = 500;
/// See [`REPORT_TENANTS_MAX`].
pub const REPORT_KEYS_MAX: usize = 1_000;
/// See [`REPORT_TENANTS_MAX`].
pub const REPORT_USES_MAX: usize = 64;

/// Recalls and feedback of the memories of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeStats {
    /// Recalls.
    pub recalls: u64,
    /// Feedback `relevant`.
    pub relevant: u64,
    /// Feedback `irrelevant`.
    pub irrelevant: u64,
    /// Feedback `outdated`.
    pub outdated: u64,
    /// Feedback `wrong`.
    pub wrong: u64,
    /// Recalls that raised the heat.
    pub warmings: u64,
    /// Sum of the heats before those recalls.
    pub heat_before: f64,
    /// Sum of the heats after them.
    pub heat_after: f64,
    /// Echoes that were stored, or merged with what they repeat.
    pub echoes: u64,
}

/// Recall statistics of a tenant since its creation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecallStats {
    /// Per type, in the order of [`MemoryType::ALL`].
    pub types: Box<[TypeStats; MemoryType::ALL.len()]>,
    /// Searches.
    pub searches: u64,
    /// Searches with at least one result.
    pub searches_with_results: u64,
}

/// Usage of a tenant in one calendar month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Completed requests.
    pub requests: u64,
    /// Created memories.
    pub nodes_added: u64,
    /// Sum of all response times, in microseconds.
    pub latency_micros: u64,
    /// Longest response time, in microseconds.
    pub latency_max_micros: u64,
}

impl Usage {
    /// Adds further usage.
    pub fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.nodes_added += more.nodes_added;
        self.latency_micros += more.latency_micros;
        self.latency_max_micros = self.latency_max_micros.max(more.latency_max_micros);
    }
}

/// Process incarnations of a node whose reports are known. A report of an older one that arrives late
/// would count again.
const BOOTS_MAX: usize = 8;

/// The last reports of a node that the state includes: the random id of a process incarnation and
/// the number of its last report, the latest incarnation last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReports(pub Vec<(u64, u64)>);

impl LastReports {
    /// Adds a report. Returns false if it is included already.
    pub fn add(&mut self, boot: u64, number: u64) -> bool {
        if let Some((_, last)) = self.0.iter_mut().find(|(of, _)| *of == boot) {
            let is_new = *last < number;
            *last = number.max(*last);
            return is_new;
        }
        if self.0.len() == BOOTS_MAX {
            self.0.remove(0);
        }
        self.0.push((boot, number));
        true
    }
}

/// Counts of one node since its previous report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Id of the node.
    pub node: u64,
    /// Random id of the node's process incarnation.
    pub boot: u64,
    /// Number of this report, from 1. A report that arrives twice counts once.
    pub number: u64,
    /// Counts per tenant. Besides [`REPORT_TENANTS_MAX`] of them, each kind of use may add one.
    #[serde(deserialize_with = "bounded::<{ REPORT_TENANTS_MAX + REPORT_USES_MAX }, _, _>")]
    pub tenants: Vec<TenantReport>,
}

/// Counts of one node for one tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantReport {
    /// The tenant.
    pub tenant: TenantId,
    /// Recalled memories, with the number of times.
    pub recalls: Vec<(MemoryId, u32)>,
    /// Memories that searches returned, for the triggers that wait for it.
    pub returned: Vec<ReturnedMemory>,
    /// Searches.
    pub searches: u64,
    /// Searches with at least one result.
    pub searches_with_results: u64,
    /// Usage.
    pub usage: Usage,
    /// Used API keys, with the time of the last use.
    #[serde(deserialize_with = "bounded::<REPORT_KEYS_MAX, _, _>")]
    pub keys: Vec<(KeyId, Timestamp)>,
    /// Kinds of use of API keys, which the state may not know yet.
    #[serde(deserialize_with = "bounded::<REPORT_USES_MAX, _, _>")]
    pub uses: Vec<(KeyId, KeyUse)>,
}

impl TenantReport {
    /// A report of nothing.
    pub fn empty(tenant: TenantId) -> Self {
        Self {
            tenant,
            recalls: Vec::new(),
            returned: Vec::new(),
            searches: 0,
            searches_with_results: 0,
            usage: Usage::default(),
            keys: Vec::new(),
            uses: Vec::new(),
        }
    }
}

/// A memory that searches returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReturnedMemory {
    /// The owner of the triggers that wait for it.
    pub owner: Option<KeyId>,
    /// The memory.
    pub id: MemoryId,
    /// The number of times.
    pub times: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_adds_up() {
        let usage = |requests, nodes_added, latency_micros, latency_max_micros| Usage {
            requests,
            nodes_added,
            latency_micros,
            latency_max_micros,
        };
        let mut sum = usage(2, 3, 500, 400);
        sum.add(&usage(1, 4, 90, 90));
        assert_eq!(sum, usage(3, 7, 590, 400));
    }
}
