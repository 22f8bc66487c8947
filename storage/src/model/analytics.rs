//! What is counted of a tenant's use: recalls and feedback by type, searches, requests.
//! Sums ride in the replicated state, so that they survive and agree on every node.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::memory::MemoryType;
use crate::model::tenant::KeyId;

/// Most memories whose recalls one report carries.
pub const REPORT_RECALLS_MAX: usize = 2_000;

/// Recalls and feedback of the memories of one type.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeStats {
    /// Times that memories were returned by a search.
    pub recalls: u64,
    /// Feedback `relevant`.
    pub relevant: u64,
    /// Feedback `irrelevant`.
    pub irrelevant: u64,
    /// Feedback `outdated`.
    pub outdated: u64,
    /// Feedback `wrong`.
    pub wrong: u64,
    /// Recalls that warmed.
    pub warmings: u64,
    /// Sum of heats before those.
    pub heat_before: f64,
    /// Sum of heats after them.
    pub heat_after: f64,
}

/// What is known of a tenant's recalls since it was created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RecallStats {
    /// By type, in the order of [`MemoryType::ALL`].
    pub types: Box<[TypeStats; MemoryType::ALL.len()]>,
    /// SearchCounters.
    pub searches: u64,
    /// SearchCounters that found something.
    pub searches_with_results: u64,
}

impl Record for RecallStats {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "recall statistics";
}

/// What a tenant used in a calendar month.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Requests answered.
    pub requests: u64,
    /// Memories stored.
    pub nodes_added: u64,
    /// Sum of the times that answers took, in microseconds.
    pub latency_micros: u64,
    /// The longest of them.
    pub latency_max_micros: u64,
}

impl Record for Usage {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "usage";
}

impl Usage {
    /// Adds what was used besides.
    pub fn add(&mut self, more: &Self) {
        self.requests += more.requests;
        self.nodes_added += more.nodes_added;
        self.latency_micros += more.latency_micros;
        self.latency_max_micros = self.latency_max_micros.max(more.latency_max_micros);
    }
}

/// The last report of a node that is in the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastReport {
    /// Random name of that life of its process.
    pub boot: u64,
    /// Number of the report within that life.
    pub number: u64,
}

impl Record for LastReport {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "last report";
}

/// What a node saw since its last report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The node.
    pub node: u64,
    /// Random name of this life of its process.
    pub boot: u64,
    /// Number of this report, from 1: one that comes twice counts once.
    pub number: u64,
    /// What it saw of each tenant.
    pub tenants: Vec<TenantReport>,
}

/// What a node saw of one tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantReport {
    /// Which tenant.
    pub tenant: TenantId,
    /// Memories that searches returned, each with how often.
    pub recalls: Vec<(MemoryId, u32)>,
    /// SearchCounters.
    pub searches: u64,
    /// SearchCounters that found something.
    pub searches_with_results: u64,
    /// Requests.
    pub usage: Usage,
    /// Keys that were used, with when.
    pub keys: Vec<(KeyId, Timestamp)>,
}
