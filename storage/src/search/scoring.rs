//! Scores the memories of a search chunk by chunk, and computes little for those that cannot be among
//! the best. The bounds, from cheap to expensive:
//!
//! 1. of a chunk: its highest heat, and all words of the query;
//! 2. of all its rows in one pass: the keyword overlap, and a bound of each heat;
//! 3. of each remaining row: the similarity of the 8-bit codes (`model::sq8`);
//! 4. the exact similarity, and last the exact heat.

use index::chunk::{Chunk, RowRef};
use index::data::IndexData;
use index::{CHUNK_ROWS, chunk_of, row_of, slot_at};
use model::memory::Tier;
use model::score::Factors;
use model::simd::dispatch;
use roaring::RoaringBitmap;

use crate::search::filter::{CompiledFilter, Filter, TierFilter};
use crate::search::query::SearchPlan;
use crate::search::scan::{FEW_ROWS, heat_upper_bound};
use crate::search::top_k::{Rank, TopK, by_score, f64_from_ordered};

/// A search over some of its memories. Arrays are indexed by row; only those of `rows` are valid.
pub(super) struct Scoring<'a> {
    plan: &'a SearchPlan<'a>,
    filter: CompiledFilter,
    best: &'a mut TopK<Factors>,
    /// Archived memories that rank among the best so far, of a search that only counts them.
    archived: Option<&'a mut TopK<Factors>>,
    /// No similarity exceeds it.
    similarity_max: f32,
    weights: BoundWeights,
    /// Rows of the present chunk, highest first: roughly the newest first.
    rows: Vec<u16>,
    overlaps: [f64; CHUNK_ROWS],
    /// Upper bounds.
    heats: [f32; CHUNK_ROWS],
    /// Upper bounds.
    similarities: [f32; CHUNK_ROWS],
    /// A buffer.
    dots: Vec<i32>,
}

impl<'a> Scoring<'a> {
    /// A search that adds to `best`, and what it only counts to `archived`. `None` if no memory matches.
    pub(super) fn new(
        plan: &'a SearchPlan<'a>,
        best: &'a mut TopK<Factors>,
        archived: Option<&'a mut TopK<Factors>>,
        similarity_max: f32,
    ) -> Option<Self> {
        let filter = &plan.request.filter;
        let data = plan.index.read();
        let filter = match archived {
            Some(_) => Filter { tier: TierFilter::All, ..filter.clone() }.compile(&data),
            None => filter.compile(&data),
        }?;
        let similarity_max = if plan.code.is_some() { similarity_max } else { 0.0 };
        Some(Self {
            plan,
            filter,
            best,
            archived,
            similarity_max,
            weights: BoundWeights::new(plan),
            rows: Vec::new(),
            overlaps: [0.0; CHUNK_ROWS],
            heats: [0.0; CHUNK_ROWS],
            similarities: [similarity_max; CHUNK_ROWS],
            dots: Vec::new(),
        })
    }

    /// Scores the matching memories among `slots`.
    pub(super) fn score_slots(&mut self, slots: &RoaringBitmap) {
        let mut next = slots.max();
        while let Some(slot) = next {
            let (number, first) = (chunk_of(slot), slot_at(chunk_of(slot), 0));
            self.rows.clear();
            self.rows.extend(slots.range(first..=slot).rev().map(|slot| row_of(slot) as u16));
            let data = self.plan.index.read();
            if let Some(chunk) = data.chunk(number) {
                self.filter.retain(number, chunk, &mut self.rows);
                self.read_rows(&data, number, chunk);
                self.score_rows(chunk);
            }
            next = slots.range(..first).next_back();
        }
    }

    /// Scores all matching memories, except those in the slots `done`.
    pub(super) fn score_all(&mut self, done: Option<&RoaringBitmap>) {
        let index = self.plan.index;
        // A memory never changes its slot, so no id is visited twice.
        index.visit_chunks(|data, number, chunk| {
            self.select_rows(data, number, chunk);
            self.filter.retain(number, chunk, &mut self.rows);
            if let Some(done) = done {
                self.rows.retain(|row| !done.contains(slot_at(number, usize::from(*row))));
            }
            self.score_rows(chunk);
            true
        });
    }

    /// Selects the rows of a chunk whose scores can reach the threshold.
    fn select_rows(&mut self, data: &IndexData, number: usize, chunk: &Chunk) {
        let (plan, rows) = (self.plan, chunk.rows());
        self.rows.clear();
        let least = self.least_score();
        let overlap_min = least.map_or(0.0, |least| self.overlap_min(chunk, least));
        if overlap_min > 0.0 && plan.terms.overlap_max() < overlap_min {
            return;
        }
        data.overlaps(&plan.terms, number, chunk, &mut self.overlaps);
        let has_enough = |any: bool, overlap: &f64| any | (*overlap >= overlap_min);
        if overlap_min > 0.0 && !self.overlaps.iter().fold(false, has_enough) {
            return;
        }
        chunk.heat_bounds.upper_bounds(plan.now, &mut self.heats);
        match least {
            None => self.rows.extend((0..rows as u16).rev()),
            Some(least) => self.select_reaching(least as f32, rows),
        }
    }

    /// Appends the first `count` rows whose upper bounds are at least `least` to `rows`.
    fn select_reaching(&mut self, least: f32, count: usize) {
        const GROUP: usize = 16;
        let mut bounds = [0.0_f32; CHUNK_ROWS];
        let Self { weights, similarity_max, heats, overlaps, rows, .. } = self;
        dispatch(
            #[inline(always)]
            || {
                for row in 0..CHUNK_ROWS {
                    bounds[row] =
                        weights.upper_bound(*similarity_max, heats[row], overlaps[row] as f32);
                }
            },
        );
        for (group, bounds) in bounds[..count].chunks(GROUP).enumerate().rev() {
            // Without a branch per row: most groups have none.
            if bounds.iter().fold(false, |any, bound| any | (*bound >= least)) {
                let reach = bounds.iter().enumerate().rev().filter(|(_, bound)| **bound >= least);
                rows.extend(reach.map(|(row, _)| (group * GROUP + row) as u16));
            }
        }
    }

    /// Reads overlaps and heats of the present rows: of few one by one, of many with all others.
    fn read_rows(&mut self, data: &IndexData, number: usize, chunk: &Chunk) {
        let plan = self.plan;
        data.overlaps_of(&plan.terms, number, chunk, &self.rows, &mut self.overlaps);
        if self.rows.len() > FEW_ROWS {
            return chunk.heat_bounds.upper_bounds(plan.now, &mut self.heats);
        }
        for row in self.rows.iter().map(|row| usize::from(*row)) {
            self.heats[row] = heat_upper_bound(chunk.row(row), plan.now);
        }
    }

    /// Scores the present rows exactly, as far as their bounds reach the threshold.
    fn score_rows(&mut self, chunk: &Chunk) {
        let Self { plan, rows, similarities, .. } = self;
        match &plan.code {
            Some(code) => chunk.similarity_upper_bounds(code, rows, &mut self.dots, similarities),
            None => similarities.fill(0.0),
        }
        for at in 0..self.rows.len() {
            let row = usize::from(self.rows[at]);
            let (similarity, heat) = (self.similarities[row], self.heats[row]);
            let bound = self.weights.upper_bound(similarity, heat, self.overlaps[row] as f32);
            if self.least_score().is_none_or(|least| f64::from(bound) >= least) {
                self.score_row(chunk.row(row), row);
            }
        }
    }

    fn score_row(&mut self, memory: RowRef<'_>, row: usize) {
        let plan = self.plan;
        let rank = |factors: &Factors| by_score(factors.fused(&plan.weights));
        // What is only counted must rank among the hot memories, too.
        let hot = self.best.threshold();
        let best = match &mut self.archived {
            Some(archived) if memory.attributes().tier() == Tier::Cold => archived,
            _ => &mut self.best,
        };
        let rejects = |rank: Rank| best.rejects(rank) || hot.is_some_and(|hot| hot > rank);
        let mut factors = plan.factors(memory);
        factors.similarity = f64::from(self.similarities[row]);
        factors.heat = f64::from(self.heats[row]);
        factors.own = self.overlaps[row];
        if rejects(rank(&factors)) {
            return;
        }
        if let Some(query) = &plan.request.vector {
            factors.similarity = f64::from(memory.vector().cosine(query).clamp(-1.0, 1.0));
        }
        if rejects(rank(&factors)) {
            return;
        }
        factors.heat = memory.heat(plan.now);
        best.push(rank(&factors), memory.id(), || factors);
    }

    /// The least upper bound of a score with which a row can be among the best, if they are as many
    /// as requested.
    fn least_score(&self) -> Option<f64> {
        let [threshold, ..] = self.best.threshold()?;
        Some(f64_from_ordered(threshold) - self.weights.slack)
    }

    /// The least keyword overlap with which a row of a chunk can reach the score `least`. 0 if a row
    /// without any word of the query can.
    fn overlap_min(&self, chunk: &Chunk, least: f64) -> f64 {
        let plan = self.plan;
        chunk.refresh_max_heat(plan.now);
        let heat = chunk.max(plan.now).map_or(1.0, |max| max.heat);
        let factors = plan.factors_max(self.similarity_max.into(), heat, 0.0);
        // For a negative base the highest score is the one without boosts, at most 0.
        let without_words = factors.unrounded(&plan.weights).max(0.0);
        match without_words >= least {
            true => 0.0,
            // Infinite if no overlap is enough.
            false => (least / without_words - 1.0) / plan.weights.keyword_weight,
        }
    }
}

/// The weights of a search for upper bounds in f32, with the largest possible boosts.
struct BoundWeights {
    similarity: f32,
    heat: f32,
    keyword: f32,
    boost: f32,
    /// Exceeds the error of such a bound and of rounding.
    slack: f64,
}

impl BoundWeights {
    fn new(plan: &SearchPlan<'_>) -> Self {
        let weights = &plan.weights;
        let highest = plan.factors_max(1.0, 1.0, plan.terms.overlap_max());
        let boost = (1.0 + highest.temporal_boost) * (1.0 + highest.namespace_boost);
        Self {
            similarity: weights.similarity_weight as f32,
            heat: weights.heat_weight as f32,
            keyword: weights.keyword_weight as f32,
            boost: boost as f32,
            slack: highest.fused(weights) * 1e-5 + 1e-6,
        }
    }

    /// An upper bound of a score, less [`slack`](Self::slack), from such bounds.
    #[inline(always)]
    fn upper_bound(&self, similarity: f32, heat: f32, overlap: f32) -> f32 {
        let base = similarity * self.similarity + heat * self.heat;
        let by_words = base * (1.0 + self.keyword * overlap);
        // A negative base is highest without a boost.
        (by_words * self.boost).max(by_words)
    }
}
