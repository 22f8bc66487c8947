//! Requests, results and counts of searches. [`crate::search::execute`] runs them.
//!
//! A search with everything prepared that does not depend on the memory: words and their weights, the
//! time that the query names, and the query vector.

use std::sync::atomic::{AtomicU64, Ordering};

use index::chunk::RowRef;
use index::data::TenantIndex;
use index::inverted_index::{QUERY_WORDS_MAX, QueryWord};
use index::overlaps::OverlapTerms;
use jiff::tz::TimeZone;
use model::id::{MemoryId, Timestamp};
use model::memory::MemoryRecord;
use model::score::{Evidence, Factors, Passed, Reading, RecallWeights, rounded};
use model::sq8::Code;
use model::temporal::{Window, window};
use model::vector::ModelId;
use text::form::named_authors;
use text::spelling::names;
use text::tokenizer::content_words;

use crate::search::filter::Filter;

/// A search request.
#[derive(Debug, Clone, Default)]
pub struct SearchRequest {
    /// Text of the query, for keywords and temporal expressions. May be empty.
    pub query: String,
    /// Unit vector of the query. `None` for an empty query: all similarities are 0.
    pub vector: Option<Vec<f32>>,
    /// The model of the vector. `None` is the cluster's.
    pub model: Option<ModelId>,
    /// How the model reads the query.
    pub reading: Reading,
    /// Which memories to search.
    pub filter: Filter,
    /// Namespace of the caller. Its memories get a boost.
    pub home_namespace: Option<String>,
    /// Maximum number of results.
    pub limit: usize,
    /// As many are found, if they are more: the caller orders them anew, and takes `limit` of them.
    pub candidates: usize,
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
    /// What gave `neighbours`.
    pub passed: Passed,
    /// Weights of the factors.
    pub weights: RecallWeights,
    /// The edge that gave the score, if one did.
    pub via: Option<Traversal>,
    /// What a reranker says of it.
    pub relevance: Option<f64>,
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
    /// The best results, best first, of equal ones the newest first.
    pub hits: Vec<Hit>,
    /// Time window of the query's temporal expression, if it has one.
    pub window: Option<Window>,
    /// Whether memories created in the window come before all others: the query has nothing else
    /// to search for.
    pub window_first: bool,
    /// How the model read the query. `None` for a query without words.
    pub reading: Option<Reading>,
    /// Of a search in the hot tier: archived memories, up to 100, that may answer the query and would be among
    /// the results of both tiers.
    pub cold_matches: usize,
}

impl SearchRequest {
    /// Number of results that are found.
    pub(super) fn found_max(&self) -> usize {
        self.limit.max(self.candidates)
    }
}

impl SearchResults {
    /// Whether one of the first results may answer the query. `None` for a query without words. If the time comes
    /// before the score, each memory of that time does.
    pub fn evidence(&self) -> Option<Evidence> {
        let reading = self.reading?;
        let first = self.hits.iter().take(EVIDENT_HITS);
        Some(first.map(|hit| self.evidence_of(hit, reading)).max().unwrap_or(Evidence::None))
    }

    /// The results that may answer the query by themselves; all, if it has no words.
    pub fn evident(&self) -> impl Iterator<Item = &Hit> {
        let may_answer =
            |hit: &&Hit| self.reading.is_none_or(|it| self.evidence_of(hit, it) > Evidence::None);
        self.hits.iter().filter(may_answer)
    }

    fn evidence_of(&self, hit: &Hit, reading: Reading) -> Evidence {
        match self.window.as_ref().filter(|_| self.window_first) {
            Some(window) if window.contains(hit.record.memory.happened_at()) => Evidence::Strong,
            Some(_) => Evidence::None,
            None => hit.factors.as_ref().map_or(Evidence::None, |it| Evidence::of(it, reading)),
        }
    }
}

/// First results that say whether the query has an answer.
const EVIDENT_HITS: usize = 5;
/// How much a word counts that only names a relative time.
const TIME_WORD_WEIGHT: f64 = 0.3;

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

/// A search with everything prepared that does not depend on the row.
pub(crate) struct SearchPlan<'a> {
    pub(super) index: &'a TenantIndex,
    pub(super) request: &'a SearchRequest,
    pub(super) weights: RecallWeights,
    pub(super) now: Timestamp,
    pub(super) terms: OverlapTerms,
    /// Number of the caller's namespace, if it contains memories.
    home: Option<u32>,
    /// Time window of the query's temporal expression.
    pub(crate) window: Option<Window>,
    /// Whether the query has nothing else to search for. Its similarities mean nothing then.
    pub(super) window_first: bool,
    /// The query vector, quantised.
    pub(super) code: Option<Code>,
    /// The time for which the results are to hold.
    held_at: Timestamp,
}

impl<'a> SearchPlan<'a> {
    pub(crate) fn new(
        index: &'a TenantIndex,
        request: &'a SearchRequest,
        weights: RecallWeights,
        now: Timestamp,
    ) -> Self {
        let window = window(&request.query, now, request.zone.as_ref().unwrap_or(&TimeZone::UTC));
        let time_words = window.as_ref().map(|window| window.words(&request.query));
        let names = names(&request.query);
        let word = |text: String| {
            let names_time = time_words.as_ref().is_some_and(|words| words.contains(&text));
            let weight = if names_time { TIME_WORD_WEIGHT } else { 1.0 };
            QueryWord { is_name: names.contains(&text), text, weight }
        };
        let window_first = window.as_ref().is_some_and(|it| it.is_all_of(&request.query));
        let words = content_words(&request.query, QUERY_WORDS_MAX);
        let words = words.into_iter().map(word).collect();
        let authors = named_authors(&request.query);
        let (terms, home) = {
            let data = index.read();
            let home =
                request.home_namespace.as_deref().and_then(|name| data.namespaces.number(name));
            let Filter { namespace, access, .. } = &request.filter;
            let visible = data.namespaces.visible(namespace.as_deref(), access);
            (data.overlap_terms(authors, words, visible.as_deref()), home)
        };
        let code = request.vector.as_deref().map(Code::of);
        let held_at = request.filter.valid_at.unwrap_or(now);
        Self { index, request, weights, now, terms, home, window, window_first, code, held_at }
    }

    /// The same search among the memories of the window, if these come first.
    pub(super) fn window_request(&self) -> Option<SearchRequest> {
        let Window { start, end, .. } = self.window.as_ref().filter(|_| self.window_first)?;
        let filter = self.request.filter.clone();
        let happened = match &filter.happened {
            Some(time) => *start.max(&time.start)..*end.min(&time.end),
            None => *start..*end,
        };
        let filter = Filter { happened: Some(happened), ..filter };
        Some(SearchRequest { filter, ..self.request.clone() })
    }

    /// The factors of a memory that depend neither on the query's words and vector nor on heat.
    pub(super) fn factors(&self, memory: RowRef<'_>) -> Factors {
        let attributes = memory.attributes();
        // What holds no more, or not yet, counts as what is replaced.
        let is_superseded = attributes.is_superseded() || !memory.holds_at(self.held_at);
        Factors {
            similarity: 0.0,
            heat: 0.0,
            own: 0.0,
            neighbours: 0.0,
            temporal_boost: self.temporal_boost(memory.happened_at()),
            namespace_boost: self.namespace_boost(self.home == Some(attributes.namespace())),
            superseded_factor: if is_superseded { self.weights.superseded_factor } else { 1.0 },
        }
    }

    /// Distance of a time from the query's window, in half-lives of the boost.
    fn half_lives_outside(&self, at: Timestamp) -> Option<f64> {
        let window = self.window.as_ref()?;
        Some(window.days_outside(at) / self.weights.temporal_decay_days)
    }

    /// Temporal boost of a memory: `max · 2^(−days outside the window / decay days)`.
    fn temporal_boost(&self, created_at: Timestamp) -> f64 {
        let Some(half_lives) = self.half_lives_outside(created_at) else { return 0.0 };
        self.weights.temporal_max_boost * libm::exp2(-half_lives)
    }

    /// These factors with the largest possible boosts, without context.
    pub(super) fn factors_max(&self, similarity: f64, heat: f64, own: f64) -> Factors {
        let temporal_boost = self.window.as_ref().map_or(0.0, |_| self.weights.temporal_max_boost);
        let namespace_boost = self.namespace_boost(true);
        Factors {
            similarity,
            heat,
            own,
            neighbours: 0.0,
            temporal_boost,
            namespace_boost,
            superseded_factor: 1.0,
        }
    }

    fn namespace_boost(&self, is_home: bool) -> f64 {
        if is_home && self.home.is_some() { self.weights.namespace_boost } else { 0.0 }
    }
}
