//! Finds the memories with the best scores, and those created next to them. Every returned score is
//! exact. Without the graph the results are exact too: a memory is skipped only if its score cannot be among the
//! best.
//!
//! # Pruning by upper bounds
//!
//! This is the idea of WAND and MaxScore, applied per row of a chunk (compare block-max WAND:
//! Ding and Suel, 2011). The threshold is the lowest score in the top-k heap. A row whose
//! upper bound is below the threshold is skipped. `search::scoring` has the bounds.
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
//! this bound. With it and the highest heat of a chunk, a memory of the chunk can enter the results
//! only if it contains enough of the query's words. So the pass reads the postings of the words, and
//! nothing of rows that have too few (the bound of a block in block-max WAND). Some memories with the
//! rarest words come before it: they raise the threshold early. The only possible error is a near
//! neighbour that the graph misses and that neither heat nor keywords bring in.
//!
//! A caller to whom namespaces are closed gets an exact scan: which neighbours the graph misses depends
//! on the memories that are closed to it.
//!
//! # Context
//!
//! Memories that were created next to a good result are found too. In a conversation that is stored
//! message by message, the answer often follows the message with the words of the question.
//!
//! Each of the best memories passes a share of its score on to its neighbours in the order of
//! creation within its namespace ([`ScoreContext`]). A memory gets the largest of these shares.

use std::collections::HashMap;

use index::Slot;
use index::graph::NEAREST;
use model::id::MemoryId;
use model::score::{Distance, Factors, Passed, RecallWeights, ScoreContext};
use roaring::RoaringBitmap;

use crate::search::query::SearchPlan;
use crate::search::scan::matches_exceed;
use crate::search::scoring::Scoring;
use crate::search::top_k::{TopK, by_score, f64_from_ordered};
use crate::span::child;

/// One memory in so many is scored before the second pass, since it contains a rare word of the query.
const RAREST_SHARE: usize = 1_000;

impl SearchPlan<'_> {
    /// The best `count` memories, and whether the graph was used. It is used only if more than
    /// `exact_max` memories match, and none is closed to the caller.
    pub(super) fn best(&self, count: usize, exact_max: usize) -> (TopK<Factors>, bool) {
        let mut best = TopK::new(count);
        let Some((candidates, similarity_max)) = self.graph_candidates(exact_max) else {
            self.score(&mut best, 1.0, |scoring| scoring.score_all(None));
            return (best, false);
        };
        self.score(&mut best, 1.0, |scoring| scoring.score_slots(&candidates));
        let rarest = {
            let data = self.index.read();
            data.words.rarest(&self.terms.words, data.live() / RAREST_SHARE) - &candidates
        };
        self.score(&mut best, similarity_max, |scoring| scoring.score_slots(&rarest));
        let done = candidates | rarest;
        self.score(&mut best, similarity_max, |scoring| scoring.score_all(Some(&done)));
        (best, true)
    }

    /// Slots that the graph returns and slots that it does not cover, and an upper bound of
    /// the similarity of all other slots.
    fn graph_candidates(&self, exact_max: usize) -> Option<(RoaringBitmap, f32)> {
        let code = self.code.as_ref()?;
        if !self.request.filter.access.is_unrestricted() {
            return None;
        }
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
        let nearest = child("graph").in_scope(|| graph.nearest(code, NEAREST));
        // With fewer results than requested there is no bound for the others.
        let farthest = nearest.last().filter(|_| nearest.len() == NEAREST);
        let similarity_max = farthest
            .map_or(1.0, |(_, similarity)| code.upper_bound_of(*similarity, error_max).min(1.0));
        let nearest: RoaringBitmap = nearest.into_iter().map(|(slot, _)| slot).collect();
        Some((nearest | uncovered, similarity_max))
    }

    /// The scores of the matching memories among `slots`.
    pub(super) fn scores_of(&self, slots: &RoaringBitmap) -> TopK<Factors> {
        let mut all = TopK::new(slots.len() as usize);
        self.score(&mut all, 1.0, |scoring| scoring.score_slots(slots));
        all
    }

    /// Adds what `score` scores to `best`, if no similarity of it exceeds `similarity_max`.
    fn score(
        &self,
        best: &mut TopK<Factors>,
        similarity_max: f32,
        score: impl FnOnce(&mut Scoring<'_>),
    ) {
        let _scanning = child("scan").entered();
        if let Some(mut scoring) = Scoring::new(self, best, similarity_max) {
            score(&mut scoring);
        }
    }
}

/// Memories that pass context on: the best before context. A constant, so that a search with a
/// lower limit returns the first results of one with a higher limit. Twice as many answer 0.4 %
/// more of the questions of `make eval` at most, and make a search a fifth slower.
const SOURCES: usize = 50;

/// Exceeds the error of a rounded score.
const ROUNDING: f64 = 1e-6;

/// Sources and their neighbours: what each neighbour gets, and its slot.
type Contexts = HashMap<MemoryId, (Passed, Slot)>;

/// The composition of a result's score.
pub(super) struct Found {
    pub(super) factors: Factors,
    pub(super) passed: Passed,
}

impl SearchPlan<'_> {
    /// The best memories, best first, and whether the graph was used. It is used only if more than
    /// `exact_max` memories match.
    pub(super) fn run(&self, exact_max: usize) -> (Vec<(MemoryId, Found)>, bool) {
        let (best, used_graph) = self.best(SOURCES.max(self.request.limit), exact_max);
        let rest_max = best.threshold().map(|[threshold, ..]| f64_from_ordered(threshold));
        let best: Vec<_> = best.into_sorted().collect();
        let _passing_on = child("context").entered();
        let mut contexts = self.contexts(&best[..best.len().min(SOURCES)]);
        let mut results = TopK::new(self.request.limit);
        for (id, factors) in best {
            self.push_with_context(&mut results, &mut contexts, id, factors);
        }
        // `best` has all matching memories, or any other has at most the score of its last one
        // before context.
        if let Some(rest_max) = rest_max {
            let slots = contexts.values().filter(|(passed, _)| {
                let highest = rest_max + self.words_before_max(rest_max) + passed.added();
                !results.rejects(by_score(highest + ROUNDING))
            });
            let slots: RoaringBitmap = slots.map(|(_, slot)| *slot).collect();
            for (id, factors) in self.scores_of(&slots).into_sorted() {
                self.push_with_context(&mut results, &mut contexts, id, factors);
            }
        }
        (results.into_sorted().collect(), used_graph)
    }

    /// Adds a memory to the results, with what its neighbours pass on.
    fn push_with_context(
        &self,
        results: &mut TopK<Found>,
        contexts: &mut Contexts,
        id: MemoryId,
        alone: Factors,
    ) {
        let mut passed = Passed::default();
        if let Some((context, slot)) = contexts.remove(&id) {
            let score = alone.unrounded(&self.weights);
            let highest = score + self.words_before_max(score) + context.added() + ROUNDING;
            if results.rejects(by_score(highest)) {
                return;
            }
            let data = self.index.read();
            let words_before = data.words_before(&self.terms, id) * data.form(&self.terms, slot);
            passed = Passed { words_before, ..context };
        }
        let factors = alone.with_passed(&passed, &self.weights);
        results.push(by_score(factors.fused(&self.weights)), id, || Found { factors, passed });
    }

    /// An upper bound of what words of memories before add to a score.
    fn words_before_max(&self, score: f64) -> f64 {
        let [nearest, ..] = ScoreContext::WORDS;
        score.max(0.0) * self.weights.keyword_weight * nearest * self.terms.overlap_max()
    }

    /// What the sources pass on.
    fn contexts(&self, sources: &[(MemoryId, Factors)]) -> Contexts {
        let mut contexts = Contexts::new();
        let RecallWeights { context_weight, keyword_weight, .. } = self.weights;
        if context_weight == 0.0 || keyword_weight == 0.0 {
            return contexts;
        }
        let data = self.index.read();
        for (id, factors) in sources {
            let Some(slot) = data.slot(*id) else { continue };
            contexts.entry(*id).or_insert((Passed::default(), slot));
            let source_score = factors.without_heat(&self.weights);
            if source_score <= 0.0 {
                continue;
            }
            let is_question = data.is_question(slot);
            data.visit_around(*id, |distance, (neighbour, slot), likeness| {
                let is_answer = is_question && distance == Distance::NEXT;
                let factor = if is_answer { ScoreContext::ANSWER_FACTOR } else { 1.0 };
                let share = context_weight * ScoreContext::DAMPING[distance.step] * factor;
                let full = ScoreContext { id: *id, source_score, share };
                // Sources come best first: of equal contexts, the first one stays.
                let (passed, _) = contexts.entry(neighbour).or_insert((Passed::default(), slot));
                if full.added() * self.terms.form_max() <= passed.added() {
                    return;
                }
                let share = share * likeness() * data.form(&self.terms, slot);
                let context = ScoreContext { share, ..full };
                if context.added() > passed.added() {
                    passed.context = Some(context);
                }
            });
        }
        contexts
    }
}
