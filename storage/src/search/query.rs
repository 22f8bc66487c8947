//! Requests, results and counts of searches. [`crate::search::execute`] runs them.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::tz::TimeZone;
use model::id::MemoryId;
use model::memory::MemoryRecord;
use model::score::{Factors, RecallWeights, ScoreContext, rounded};
use model::temporal::Window;

use crate::search::filter::Filter;

/// A search request.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// Text of the query, for keywords and temporal expressions. May be empty.
    pub query: String,
    /// Unit vector of the query. `None` for an empty query: all similarities are 0.
    pub vector: Option<Vec<f32>>,
    /// Which memories to search.
    pub filter: Filter,
    /// Namespace of the caller. Its memories get a boost.
    pub home_namespace: Option<String>,
    /// Maximum number of results.
    pub limit: usize,
    /// Results with a lower score are left out.
    pub min_score: Option<f64>,
    /// Time zone of the times in the query. `None` is UTC.
    pub zone: Option<TimeZone>,
}

/// One result of a search.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The memory.
    pub record: MemoryRecord,
    /// Score, rounded to 1e-6.
    pub score: f64,
    /// Factors of the score. `None` if an edge gave the score, see `via`.
    pub factors: Option<Factors>,
    /// The memory that gave `context_boost`, if one did.
    pub context: Option<ScoreContext>,
    /// Weights of the factors.
    pub weights: RecallWeights,
    /// The edge that gave the score, if one did.
    pub via: Option<Traversal>,
}

/// An edge that passed a share of one result's score to another memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traversal {
    /// The result at the other end of the edge.
    pub seed: MemoryId,
    /// Score of that result.
    pub seed_score: f64,
    /// Weight of the edge.
    pub edge_weight: f64,
    /// Share that an edge of weight 1 passes on.
    pub damping: f64,
}

impl Traversal {
    /// The score passed on: the product of the three factors.
    pub fn score(&self) -> f64 {
        rounded(self.seed_score * self.edge_weight * self.damping)
    }
}

/// Results of a search.
#[derive(Debug, Clone, Default)]
pub struct SearchResults {
    /// The best results, best first, ties by id.
    pub hits: Vec<Hit>,
    /// Time window of the query's temporal expression, if it has one.
    pub window: Option<Window>,
    /// Whether memories created in the window come before all others: the query has nothing else
    /// to search for.
    pub window_first: bool,
    /// Of a search in the hot tier with fewer results than its limit: archived memories, up to 100,
    /// that contain a word of the query and reach `min_score`.
    pub cold_matches: usize,
}

/// Archived memories that a search in the hot tier counts at most.
pub(super) const COLD_MATCHES_MAX: usize = 100;

/// Numbers of executed searches.
#[derive(Debug, Default)]
pub struct SearchCounters {
    exact: AtomicU64,
    by_graph: AtomicU64,
}

impl SearchCounters {
    pub(super) fn count(&self, used_graph: bool) {
        let counter = if used_graph { &self.by_graph } else { &self.exact };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Searches that scanned all matching memories.
    pub fn exact(&self) -> u64 {
        self.exact.load(Ordering::Relaxed)
    }

    /// Searches that used a graph.
    pub fn by_graph(&self) -> u64 {
        self.by_graph.load(Ordering::Relaxed)
    }
}
