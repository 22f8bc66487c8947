//! How the best results of a search are found. A score is never approximated: what is
//! skipped is what could not be among the best at its highest.
//!
//! Without a graph, or where few enough memories pass the filter, all of them are scored
//! exactly. Otherwise the graph is asked first, without the filter. Those it names are
//! scored, and the most distant of them bounds the similarity of all others: one pass
//! over the columns of heat and words then finds every memory that could still be among
//! the best, and scores it exactly too; where heat alone can bring none in, over those that
//! hold a word of the query only. So the only thing that the graph can make wrong is to
//! overlook a near neighbour that neither its heat nor its words bring in.

use std::panic::{AssertUnwindSafe, catch_unwind};

use roaring::RoaringBitmap;

use crate::index::chunk::{CHUNK_ROWS, Slot};
use crate::index::graph::Graph;
use crate::index::tenant::TenantIndex;
use crate::index::words::QueryWords;
use crate::model::heat::upper_bound;
use crate::model::id::Timestamp;
use crate::model::score::{Factors, KEYWORD_OVERLAP_MAX};
use crate::model::sq8::Code;
use crate::model::temporal::{Window, window};
use crate::model::thermo::RecallWeights;
use crate::model::vector::dot;
use crate::model::words::subject_words;
use crate::search::query::SearchRequest;
use crate::search::scan::{ChunkCandidates, FEW_ROWS, highest_heat, more_pass, scan};
use crate::search::top_k::{TopK, of_f64, to_f64};
use crate::simd::dispatch;

/// Memories that the graph is asked for.
const GRAPH_NEAREST: usize = 100;

/// What a graph names; `None` if it failed, and is given up then: its crate panics on what
/// it did not expect.
pub(crate) fn nearest(
    index: &TenantIndex,
    graph: &Graph,
    code: &Code,
    count: usize,
) -> Option<Vec<(Slot, f32)>> {
    let nearest = catch_unwind(AssertUnwindSafe(|| graph.nearest(code, count)));
    if nearest.is_err() {
        tracing::error!("a graph failed: its tenant is scanned");
        drop(index.abandon_graph());
    }
    nearest.ok()
}

/// A search with everything looked up once.
pub(crate) struct Search<'a> {
    index: &'a TenantIndex,
    request: &'a SearchRequest,
    weights: RecallWeights,
    now: Timestamp,
    words: QueryWords,
    /// Number of the namespace whose memories are boosted.
    home: Option<u32>,
    /// The time that the query names.
    window: Option<Window>,
    code: Option<Code>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        index: &'a TenantIndex,
        request: &'a SearchRequest,
        weights: RecallWeights,
        now: Timestamp,
    ) -> Self {
        let window = window(&request.query, now);
        let subject = window.as_ref().map(|window| window.subject(&request.query));
        let words = subject_words(subject.as_deref().unwrap_or(&request.query));
        let (words, home) = {
            let inner = index.read();
            let home = request.home_namespace.as_deref().and_then(|name| inner.namespace(name));
            (inner.weigh(words), home)
        };
        let code = request.vector.as_deref().map(Code::of);
        Self { index, request, weights, now, words, home, window, code }
    }

    /// The time that the query names, if it names one.
    pub(crate) fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    /// The best, and whether the graph was asked for them: only where more than
    /// `exact_max` pass.
    pub(crate) fn best(&self, exact_max: usize) -> (TopK<Factors>, bool) {
        let mut best = TopK::new(self.request.limit);
        match self.ask_graph(exact_max) {
            Some((named, rest_at_most)) => {
                self.score(&mut best, Some(&named), None, 1.0);
                let by_words = self.only_words_help(&best, rest_at_most);
                self.score(&mut best, by_words.as_ref(), Some(&named), rest_at_most);
                (best, true)
            }
            None => {
                self.score(&mut best, None, None, 1.0);
                (best, false)
            }
        }
    }

    /// Slots that the graph names and those that it does not hold, and what the similarity
    /// of all others is at most.
    fn ask_graph(&self, exact_max: usize) -> Option<(RoaringBitmap, f32)> {
        let code = self.code.as_ref()?;
        // Read before the graph is asked: what leaves `unheld` from here on is in it.
        let (graph, unheld, error_max) = {
            let inner = self.index.read();
            let (graph, unheld) = inner.graph()?;
            (graph, unheld, inner.code_error_max())
        };
        if !more_pass(self.index, &self.request.filter, exact_max) {
            return None;
        }
        let nearest = nearest(self.index, &graph, code, GRAPH_NEAREST)?;
        // Fewer than asked for: what else there is may be anywhere.
        let farthest = nearest.last().filter(|_| nearest.len() == GRAPH_NEAREST);
        let rest_at_most = farthest
            .map_or(1.0, |(_, similarity)| code.upper_bound_of(*similarity, error_max).min(1.0));
        let named: RoaringBitmap = nearest.into_iter().map(|(slot, _)| slot).collect();
        Some((named | unheld, rest_at_most))
    }

    /// Slots that hold a word of the query, if no other of this similarity at most would be
    /// kept, hot as it may be.
    fn only_words_help(&self, best: &TopK<Factors>, at_most: f32) -> Option<RoaringBitmap> {
        let [worst, ..] = best.worst()?;
        let wordless = Factors {
            similarity: f64::from(at_most),
            heat: highest_heat(self.index, self.now),
            keyword_overlap: 0.0,
            temporal_boost: self.window.as_ref().map_or(0.0, |_| self.weights.temporal_max_boost),
            namespace_boost: self.boost(true),
        };
        // A base below zero is highest without a boost: then it is left alone.
        let highest = wordless.fused(&self.weights).max(0.0) + self.slack();
        (highest < to_f64(worst)).then(|| self.index.read().holding_any(&self.words))
    }

    /// Offers all that pass to `best`; of the slots in `within` only, if it is given, and
    /// none in `done`, with similarities that are known to be at most `at_most`.
    ///
    /// No weight is negative, so a score only rises with similarity and with heat:
    /// neither is computed for what cannot be kept at its highest.
    fn score(
        &self,
        best: &mut TopK<Factors>,
        within: Option<&RoaringBitmap>,
        done: Option<&RoaringBitmap>,
        at_most: f32,
    ) {
        let at_most = if self.code.is_some() { at_most } else { 0.0 };
        let mut similarities = [at_most; CHUNK_ROWS];
        let mut dots = Vec::new();
        let filter = &self.request.filter;
        scan(self.index, filter, within, Some(&self.words), self.now, |mut candidates| {
            // Of few, each is scored at once.
            let many = candidates.rows.len() > FEW_ROWS;
            if many {
                similarities.fill(at_most);
                self.keep_possible(&mut candidates, &similarities, best);
            }
            if let Some(done) = done {
                candidates.exclude(done);
            }
            if let Some(code) = &self.code {
                candidates.chunk.similarity_upper_bounds(
                    code,
                    candidates.rows,
                    &mut dots,
                    &mut similarities,
                );
            } else {
                similarities.fill(at_most);
            }
            if candidates.rows.len() > FEW_ROWS {
                self.keep_possible(&mut candidates, &similarities, best);
            }
            self.score_each(&candidates, &similarities, best);
        });
    }

    /// Strikes off what would not be kept if it were as similar as `similarities` say.
    fn keep_possible(
        &self,
        candidates: &mut ChunkCandidates<'_>,
        similarities: &[f32; CHUNK_ROWS],
        best: &TopK<Factors>,
    ) {
        let Some([worst, ..]) = best.worst() else { return };
        let mut upper_bounds = [0.0; CHUNK_ROWS];
        self.upper_bounds(candidates, similarities, &mut upper_bounds);
        let lowest = (to_f64(worst) - self.slack()) as f32;
        candidates.rows.retain(|at| upper_bounds[usize::from(*at)] >= lowest);
    }

    /// What the score of each row is at most, nearly: see [`slack`](Self::slack).
    fn upper_bounds(
        &self,
        candidates: &ChunkCandidates<'_>,
        similarities: &[f32; CHUNK_ROWS],
        upper_bounds: &mut [f32; CHUNK_ROWS],
    ) {
        let similarity_weight = self.weights.similarity_weight as f32;
        let heat_weight = self.weights.heat_weight as f32;
        let keyword_weight = self.weights.keyword_weight as f32;
        let mut boosts = [self.boost(true) as f32 + 1.0; CHUNK_ROWS];
        self.boost_in_time(candidates, &mut boosts);
        let (heats, overlaps) = (candidates.heat_upper_bounds, candidates.overlaps);
        dispatch(
            #[inline(always)]
            || {
                for at in 0..CHUNK_ROWS {
                    let base = similarities[at] * similarity_weight + heats[at] * heat_weight;
                    let by_words = base * (1.0 + keyword_weight * overlaps[at] as f32);
                    // A base below zero is highest without a boost.
                    upper_bounds[at] = (by_words * boosts[at]).max(by_words);
                }
            },
        );
    }

    /// Multiplies `boosts` by what closeness in time gives each row at most.
    fn boost_in_time(&self, candidates: &ChunkCandidates<'_>, boosts: &mut [f32; CHUNK_ROWS]) {
        let Some(window) = &self.window else { return };
        let most = self.weights.temporal_max_boost as f32;
        for (at, row) in candidates.each() {
            let half_lives =
                window.days_outside(row.created_at()) / self.weights.temporal_decay_days;
            boosts[at] *= 1.0 + upper_bound(most, 0.0, half_lives as f32);
        }
    }

    /// What closeness in time gives a memory: `max · 2^(−days outside / decay days)`.
    fn temporal_boost(&self, created_at: Timestamp) -> f64 {
        let Some(window) = &self.window else { return 0.0 };
        let half_lives = window.days_outside(created_at) / self.weights.temporal_decay_days;
        self.weights.temporal_max_boost * libm::exp2(-half_lives)
    }

    /// More than what computing in f32 and rounding can take from a score.
    fn slack(&self) -> f64 {
        let most = Factors {
            similarity: 1.0,
            heat: 1.0,
            keyword_overlap: KEYWORD_OVERLAP_MAX,
            temporal_boost: self.window.as_ref().map_or(0.0, |_| self.weights.temporal_max_boost),
            namespace_boost: self.boost(true),
        };
        most.fused(&self.weights) * 1e-5 + 1e-6
    }

    fn boost(&self, at_home: bool) -> f64 {
        if at_home && self.home.is_some() { self.weights.namespace_boost } else { 0.0 }
    }

    fn score_each(
        &self,
        candidates: &ChunkCandidates<'_>,
        similarities: &[f32; CHUNK_ROWS],
        best: &mut TopK<Factors>,
    ) {
        let rank = |factors: &Factors| [of_f64(factors.fused(&self.weights)), 0, 0];
        for (at, row) in candidates.each() {
            let at_home = self.home == Some(row.properties().namespace());
            let mut factors = Factors {
                similarity: f64::from(similarities[at]),
                heat: candidates.heat_upper_bounds[at].into(),
                keyword_overlap: candidates.overlaps[at],
                temporal_boost: self.temporal_boost(row.created_at()),
                namespace_boost: self.boost(at_home),
            };
            if best.refuses(rank(&factors)) {
                continue;
            }
            if let Some(query) = &self.request.vector {
                factors.similarity = f64::from(dot(query, row.vector()).clamp(-1.0, 1.0));
            }
            if best.refuses(rank(&factors)) {
                continue;
            }
            factors.heat = row.heat(self.now);
            best.offer(rank(&factors), row.id(), || factors);
        }
    }
}
