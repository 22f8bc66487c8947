//! Finds the memories with the best scores, before context. Every returned score is exact. Without
//! the graph the results are exact too: a memory is skipped only if its score cannot be among the
//! best.
//!
//! # Pruning by upper bounds
//!
//! This is the idea of WAND and MaxScore, applied per row of a chunk (compare block-max WAND:
//! Ding and Suel, 2011). The threshold is the lowest score in the top-k heap. A row whose
//! upper bound is below the threshold is skipped. The bounds, from cheap to expensive:
//!
//! 1. heat bound and exact keyword overlap, with the largest possible similarity;
//! 2. in addition a similarity bound from 8-bit codes (`model::sq8`);
//! 3. the exact similarity, and last the exact heat.
//!
//! No weight is negative, so a score never falls when similarity or heat rises. Upper bounds
//! of both therefore give an upper bound of the score. Boosts lower a score with a negative
//! base, so its bound is taken without them.
//!
//! # The graph
//!
//! Up to `exact_max` matching memories are all scanned. With more, the HNSW graph returns the
//! nearest memories first, ignoring the filter. They are scored, together with all memories
//! that the graph does not cover. The most distant one that the graph returned, plus the
//! quantisation error, bounds the similarity of the rest. A second pass scans the rest with
//! this bound. If no memory of the rest can enter the results without a query term, the pass visits
//! only memories that contain one. Frequent terms together may weigh too little: then it visits
//! only those that contain one of the others (the essential lists of MaxScore: Turtle and Flood,
//! 1995). So the only possible error is a near neighbour that the graph misses and that neither
//! heat nor keywords bring in.

use jiff::tz::TimeZone;
use roaring::RoaringBitmap;

use crate::index::tenant::TenantIndex;
use crate::index::words::{QUERY_WORDS_MAX, QueryTerms};
use crate::index::{CHUNK_ROWS, slot_at};
use crate::model::heat::upper_bound;
use crate::model::id::Timestamp;
use crate::model::score::{Factors, KEYWORD_OVERLAP_MAX, RecallWeights};
use crate::model::sq8::Code;
use crate::model::temporal::{Window, window};
use crate::model::term::WordHash;
use crate::model::words::content_words;
use crate::search::filter::Filter;
use crate::search::query::SearchRequest;
use crate::search::scan::{ChunkCandidates, FEW_ROWS, matches_exceed, max_heat, scan};
use crate::search::top_k::{TopK, by_score, f64_from_ordered};
use crate::simd::dispatch;

/// Memories requested from the graph.
const GRAPH_NEAREST: usize = 100;

/// A search with everything prepared that does not depend on the row.
pub(crate) struct SearchPlan<'a> {
    pub(super) index: &'a TenantIndex,
    pub(super) request: &'a SearchRequest,
    pub(super) weights: RecallWeights,
    now: Timestamp,
    terms: QueryTerms,
    /// Number of the caller's namespace, if it contains memories.
    home: Option<u32>,
    /// Time window of the query's temporal expression.
    pub(crate) window: Option<Window>,
    /// Whether the query has nothing else to search for. Its similarities mean nothing then.
    pub(super) window_first: bool,
    /// The query vector, quantised.
    code: Option<Code>,
}

impl<'a> SearchPlan<'a> {
    pub(crate) fn new(
        index: &'a TenantIndex,
        request: &'a SearchRequest,
        weights: RecallWeights,
        now: Timestamp,
    ) -> Self {
        let window = window(&request.query, now, request.zone.as_ref().unwrap_or(&TimeZone::UTC));
        let subject = window.as_ref().map(|window| window.subject(&request.query));
        let subject = subject.as_deref().unwrap_or(&request.query);
        let window_first = window.as_ref().is_some_and(|it| it.is_all_of(&request.query));
        let words = content_words(subject, QUERY_WORDS_MAX);
        let (terms, home) = {
            let data = index.read();
            let home =
                request.home_namespace.as_deref().and_then(|name| data.namespaces.number(name));
            let Filter { namespace, access, .. } = &request.filter;
            let visible = data.namespaces.visible(namespace.as_deref(), access);
            (data.words.query_terms(words, visible.as_deref(), data.live()), home)
        };
        let code = request.vector.as_deref().map(Code::of);
        Self { index, request, weights, now, terms, home, window, window_first, code }
    }

    /// The same search among the memories created in the window, if these come first.
    pub(super) fn window_request(&self) -> Option<SearchRequest> {
        let Window { start, end, .. } = self.window.as_ref().filter(|_| self.window_first)?;
        let filter = self.request.filter.clone();
        let created = match &filter.created {
            Some(time) => *start.max(&time.start)..*end.min(&time.end),
            None => *start..*end,
        };
        let filter = Filter { created: Some(created), ..filter };
        Some(SearchRequest { filter, ..self.request.clone() })
    }

    /// The best `count` memories, and whether the graph was used. It is used only if more than
    /// `exact_max` memories match.
    pub(super) fn best(&self, count: usize, exact_max: usize) -> (TopK<Factors>, bool) {
        let mut best = TopK::new(count);
        let Some((candidates, similarity_max)) = self.graph_candidates(exact_max) else {
            self.score(&mut best, None, None, 1.0);
            return (best, false);
        };
        self.score(&mut best, Some(&candidates), None, 1.0);
        let terms = self.essential_terms(&best, similarity_max);
        let with_terms = terms.map(|terms| self.index.read().words.union(&terms));
        self.score(&mut best, with_terms.as_ref(), Some(&candidates), similarity_max);
        (best, true)
    }

    /// Slots that the graph returns and slots that it does not cover, and an upper bound of
    /// the similarity of all other slots.
    fn graph_candidates(&self, exact_max: usize) -> Option<(RoaringBitmap, f32)> {
        let code = self.code.as_ref()?;
        // Read before the graph search: slots that become covered later are still in
        // `uncovered`.
        let (graph, uncovered, error_max) = {
            let data = self.index.read();
            let (graph, uncovered) = data.coverage.graph()?;
            (graph, uncovered, data.code_error_max)
        };
        if !matches_exceed(self.index, &self.request.filter, exact_max) {
            return None;
        }
        let nearest = graph.nearest(code, GRAPH_NEAREST);
        // With fewer results than requested there is no bound for the others.
        let farthest = nearest.last().filter(|_| nearest.len() == GRAPH_NEAREST);
        let similarity_max = farthest
            .map_or(1.0, |(_, similarity)| code.upper_bound_of(*similarity, error_max).min(1.0));
        let nearest: RoaringBitmap = nearest.into_iter().map(|(slot, _)| slot).collect();
        Some((nearest | uncovered, similarity_max))
    }

    /// The query terms of which a memory of at most this similarity must contain one to enter
    /// `best`. `None` if memories without any term can enter.
    fn essential_terms(&self, best: &TopK<Factors>, similarity_max: f32) -> Option<Vec<WordHash>> {
        let [threshold, ..] = best.threshold()?;
        let heat = max_heat(self.index, self.now);
        let is_too_low = |overlap: f64| {
            let factors = self.factors_max(f64::from(similarity_max), heat, overlap);
            // For a negative base the highest score is the one without boosts, at most 0.
            let highest = factors.fused(&self.weights).max(0.0) + self.rounding_slack();
            highest < f64_from_ordered(threshold)
        };
        is_too_low(0.0).then(|| self.terms.essential(is_too_low))
    }

    /// The scores of the matching memories among `slots`.
    pub(super) fn scores_of(&self, slots: &RoaringBitmap) -> TopK<Factors> {
        let mut all = TopK::new(slots.len() as usize);
        self.score(&mut all, Some(slots), None, 1.0);
        all
    }

    /// Scores all matching memories and adds them to `best`. `slots` restricts the scan,
    /// `done` excludes slots. All similarities are known to be at most `similarity_max`.
    fn score(
        &self,
        best: &mut TopK<Factors>,
        slots: Option<&RoaringBitmap>,
        done: Option<&RoaringBitmap>,
        similarity_max: f32,
    ) {
        let similarity_max = if self.code.is_some() { similarity_max } else { 0.0 };
        let mut similarities = [similarity_max; CHUNK_ROWS];
        let mut dots = Vec::new();
        let filter = &self.request.filter;
        scan(self.index, filter, slots, Some(&self.terms), self.now, |mut candidates| {
            // Pruning computes all rows of a chunk. For few rows, scoring is cheaper.
            if candidates.rows.len() > FEW_ROWS {
                similarities.fill(similarity_max);
                self.prune(&mut candidates, &similarities, best);
            }
            if let Some(done) = done {
                let slot = |row: u16| slot_at(candidates.number, row.into());
                candidates.rows.retain(|row| !done.contains(slot(*row)));
            }
            if let Some(code) = &self.code {
                let ChunkCandidates { chunk, rows, .. } = &candidates;
                chunk.similarity_upper_bounds(code, rows, &mut dots, &mut similarities);
            } else {
                similarities.fill(similarity_max);
            }
            if candidates.rows.len() > FEW_ROWS {
                self.prune(&mut candidates, &similarities, best);
            }
            self.score_rows(&candidates, &similarities, best);
        });
    }

    /// Removes rows whose score cannot reach the threshold. `similarities` are upper bounds.
    fn prune(
        &self,
        candidates: &mut ChunkCandidates<'_>,
        similarities: &[f32; CHUNK_ROWS],
        best: &TopK<Factors>,
    ) {
        let Some([threshold, ..]) = best.threshold() else { return };
        let mut upper_bounds = [0.0; CHUNK_ROWS];
        self.upper_bounds(candidates, similarities, &mut upper_bounds);
        let lowest = (f64_from_ordered(threshold) - self.rounding_slack()) as f32;
        candidates.rows.retain(|row| upper_bounds[usize::from(*row)] >= lowest);
    }

    /// Writes an upper bound of the score of each row, up to
    /// [`rounding_slack`](Self::rounding_slack).
    fn upper_bounds(
        &self,
        candidates: &ChunkCandidates<'_>,
        similarities: &[f32; CHUNK_ROWS],
        upper_bounds: &mut [f32; CHUNK_ROWS],
    ) {
        let similarity_weight = self.weights.similarity_weight as f32;
        let heat_weight = self.weights.heat_weight as f32;
        let keyword_weight = self.weights.keyword_weight as f32;
        let mut boosts = [self.namespace_boost(true) as f32 + 1.0; CHUNK_ROWS];
        self.multiply_temporal_boosts(candidates, &mut boosts);
        let (heats, overlaps) = (candidates.heat_upper_bounds, candidates.overlaps);
        dispatch(
            #[inline(always)]
            || {
                for row in 0..CHUNK_ROWS {
                    let base = similarities[row] * similarity_weight + heats[row] * heat_weight;
                    let by_words = base * (1.0 + keyword_weight * overlaps[row] as f32);
                    // A negative base is highest without a boost.
                    upper_bounds[row] = (by_words * boosts[row]).max(by_words);
                }
            },
        );
    }

    /// Multiplies `boosts` by an upper bound of the temporal boost of each row.
    fn multiply_temporal_boosts(
        &self,
        candidates: &ChunkCandidates<'_>,
        boosts: &mut [f32; CHUNK_ROWS],
    ) {
        let max = self.weights.temporal_max_boost as f32;
        for (row, memory) in candidates.iter() {
            let Some(half_lives) = self.half_lives_outside(memory.created_at()) else { return };
            boosts[row] *= 1.0 + upper_bound(max, 0.0, half_lives as f32);
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
    fn factors_max(&self, similarity: f64, heat: f64, keyword_overlap: f64) -> Factors {
        let temporal_boost = self.window.as_ref().map_or(0.0, |_| self.weights.temporal_max_boost);
        let namespace_boost = self.namespace_boost(true);
        Factors {
            similarity,
            heat,
            keyword_overlap,
            temporal_boost,
            namespace_boost,
            context_boost: 0.0,
            superseded_factor: 1.0,
        }
    }

    fn namespace_boost(&self, is_home: bool) -> f64 {
        if is_home && self.home.is_some() { self.weights.namespace_boost } else { 0.0 }
    }

    /// Exceeds the error of scores computed in f32 and of rounding.
    fn rounding_slack(&self) -> f64 {
        self.factors_max(1.0, 1.0, KEYWORD_OVERLAP_MAX).fused(&self.weights) * 1e-5 + 1e-6
    }

    /// Scores each row exactly, as far as its bounds reach the threshold.
    fn score_rows(
        &self,
        candidates: &ChunkCandidates<'_>,
        similarities: &[f32; CHUNK_ROWS],
        best: &mut TopK<Factors>,
    ) {
        let rank = |factors: &Factors| by_score(factors.fused(&self.weights));
        for (row, memory) in candidates.iter() {
            let attributes = memory.attributes();
            let is_home = self.home == Some(attributes.namespace());
            let is_superseded = attributes.is_superseded();
            let mut factors = Factors {
                similarity: f64::from(similarities[row]),
                heat: candidates.heat_upper_bounds[row].into(),
                keyword_overlap: candidates.overlaps[row],
                temporal_boost: self.temporal_boost(memory.created_at()),
                namespace_boost: self.namespace_boost(is_home),
                context_boost: 0.0,
                superseded_factor: if is_superseded { self.weights.superseded_factor } else { 1.0 },
            };
            if best.rejects(rank(&factors)) {
                continue;
            }
            if let Some(query) = &self.request.vector {
                factors.similarity = f64::from(memory.vector().cosine(query).clamp(-1.0, 1.0));
            }
            if best.rejects(rank(&factors)) {
                continue;
            }
            factors.heat = memory.heat(self.now);
            best.push(rank(&factors), memory.id(), || factors);
        }
    }
}
