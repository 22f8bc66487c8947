//! Finds the memories with the best scores, before those next to them pass something on
//! (`search::context`). Every returned score is exact. Without the graph the results are exact too: a
//! memory is skipped only if its score cannot be among the best.
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

use index::graph::NEAREST;
use model::score::Factors;
use roaring::RoaringBitmap;

use crate::search::filter::TierFilter;
use crate::search::query::SearchPlan;
use crate::search::scan::matches_exceed;
use crate::search::scoring::Scoring;
use crate::search::top_k::TopK;
use crate::span::child;

/// One memory in so many is scored before the second pass, since it contains a rare word of the query.
const RAREST_SHARE: usize = 1_000;

/// Archived memories that a search in the hot tier counts at most.
const ARCHIVED_MAX: usize = 100;

/// What a search finds before context.
pub(super) struct Best {
    /// The best memories.
    pub(super) memories: TopK<Factors>,
    /// Of a search in the hot tier: the best archived memories, as far as they could be among `memories`.
    pub(super) archived: TopK<Factors>,
    /// Whether the graph was used.
    pub(super) used_graph: bool,
}

impl SearchPlan<'_> {
    /// The best `count` memories. The graph is used only if more than `exact_max` memories match, and none is
    /// closed to the caller.
    pub(super) fn best(&self, count: usize, exact_max: usize) -> Best {
        let (memories, archived) = (TopK::new(count), TopK::new(ARCHIVED_MAX));
        let mut best = Best { memories, archived, used_graph: false };
        let Some((candidates, similarity_max)) = self.graph_candidates(exact_max) else {
            self.score(&mut best, 1.0, |scoring| scoring.score_all(None));
            return best;
        };
        best.used_graph = true;
        self.score(&mut best, 1.0, |scoring| scoring.score_slots(&candidates));
        let rarest = {
            let data = self.index.read();
            data.words.rarest(&self.terms.words, data.live() / RAREST_SHARE) - &candidates
        };
        self.score(&mut best, similarity_max, |scoring| scoring.score_slots(&rarest));
        let done = candidates | rarest;
        self.score(&mut best, similarity_max, |scoring| scoring.score_all(Some(&done)));
        best
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
        if let Some(mut scoring) = Scoring::new(self, &mut all, None, 1.0) {
            scoring.score_slots(slots);
        }
        all
    }

    /// Adds what `score` scores to `best`, if no similarity of it exceeds `similarity_max`.
    fn score(&self, best: &mut Best, similarity_max: f32, score: impl FnOnce(&mut Scoring<'_>)) {
        let _scanning = child("scan").entered();
        let Best { memories, archived, .. } = best;
        let is_hot = self.request.filter.tier == TierFilter::Hot;
        let archived = (is_hot && self.index.read().cold() > 0).then_some(archived);
        if let Some(mut scoring) = Scoring::new(self, memories, archived, similarity_max) {
            score(&mut scoring);
        }
    }
}
