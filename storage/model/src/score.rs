//! The composite score of a search result. The factors come from `search`.
//!
//! ```text
//! base  = (1 − cosine_distance) · similarity_weight + heat · heat_weight
//! score = base · (1 + keyword_weight · keyword_overlap) · (1 + temporal_boost) · (1 + namespace_boost)
//! ```
//!
//! This is the formula of the interface. `keyword_overlap` is the sum of what the memory's own words give,
//! and of what its neighbours give. The score of a memory that another one supersedes is multiplied
//! by `superseded_factor`, outside of the formula.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, Timestamp};

/// Keyword overlap of a memory that contains every word of the query, before the factor of its form.
pub const KEYWORD_OVERLAP_MAX: f64 = 10.0;

/// Weights of the search score (the interface's `recall.*`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecallWeights {
    /// Weight of semantic similarity.
    pub similarity_weight: f64,
    /// Weight of heat.
    pub heat_weight: f64,
    /// Weight of the keyword-overlap boost.
    pub keyword_weight: f64,
    /// Largest boost for closeness in time.
    pub temporal_max_boost: f64,
    /// Days outside the window in which that boost halves.
    pub temporal_decay_days: f64,
    /// Boost for memories of the caller's namespace.
    pub namespace_boost: f64,
    /// Share of its score that a result passes on to the memories created next to it.
    pub context_weight: f64,
    /// Factor of the score of a memory that another one supersedes.
    pub superseded_factor: f64,
}

impl Default for RecallWeights {
    fn default() -> Self {
        Self {
            similarity_weight: 0.7,
            heat_weight: 0.3,
            keyword_weight: 0.15,
            temporal_max_boost: 0.4,
            temporal_decay_days: 7.0,
            namespace_boost: 0.1,
            context_weight: 0.5,
            superseded_factor: 0.3,
        }
    }
}

/// The factors of one result's score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// 1 − cosine distance, −1 to 1.
    pub similarity: f64,
    /// Heat at the time of the search, 0 to 1.
    pub heat: f64,
    /// Keyword overlap of the memory's own words, at least 0.
    pub own: f64,
    /// Keyword overlap that memories created next to this one pass on, at least 0. See [`Passed`].
    pub neighbours: f64,
    /// 0 to `temporal_max_boost`.
    pub temporal_boost: f64,
    /// 0 or `namespace_boost`.
    pub namespace_boost: f64,
    /// 1, or less if another memory supersedes this one.
    pub superseded_factor: f64,
}

impl Factors {
    /// `keyword_overlap` of the formula.
    pub fn keyword_overlap(&self) -> f64 {
        self.own + self.neighbours
    }

    /// `base` of the formula.
    pub fn base(&self, weights: &RecallWeights) -> f64 {
        self.similarity * weights.similarity_weight + self.heat * weights.heat_weight
    }

    /// The score, rounded to 1e-6 so that the last bit never decides an order.
    pub fn fused(&self, weights: &RecallWeights) -> f64 {
        let fused = self.unrounded(weights);
        // A lower score is a worse one.
        let factor = if fused > 0.0 { self.superseded_factor } else { 1.0 };
        rounded(fused * factor)
    }

    /// The formula: the score before rounding, if no other memory supersedes this one.
    pub fn unrounded(&self, weights: &RecallWeights) -> f64 {
        self.base(weights)
            * (1.0 + weights.keyword_weight * self.keyword_overlap())
            * (1.0 + self.temporal_boost)
            * (1.0 + self.namespace_boost)
    }

    /// How well the memory matches the query, whatever its heat: its similarity, plus the share of the query's words
    /// that it has. If the similarity counts less, their sum counts more.
    pub fn evidence(&self, reading: Reading) -> f64 {
        let similarity = self.similarity * reading.evidence_scale * reading.trust();
        2.0 * (similarity + self.own / KEYWORD_OVERLAP_MAX) / (1.0 + reading.trust())
    }

    /// The score of this memory with heat 0.
    pub fn without_heat(&self, weights: &RecallWeights) -> f64 {
        Self { heat: 0.0, ..*self }.fused(weights)
    }

    /// Sets `neighbours` so that what neighbours pass on is added to the score. A score of 0 or less stays,
    /// as does every score if keywords have no weight.
    #[must_use]
    pub fn with_passed(self, passed: &Passed, weights: &RecallWeights) -> Self {
        // Not rounded: the factor of a low score is large.
        let score = self.unrounded(weights);
        if rounded(score) <= 0.0 || weights.keyword_weight == 0.0 {
            return self;
        }
        let own_factor = 1.0 + weights.keyword_weight * self.own;
        let context = passed.added() / score * own_factor / weights.keyword_weight;
        let neighbours = passed.words_before + context;
        Self { neighbours, ..self }
    }
}

/// What memories that were created next to a memory pass on to it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Passed {
    /// The largest share of the score of a good result.
    pub context: Option<ScoreContext>,
    /// Keyword overlap of words that the memory lacks, and that the three memories before it have.
    pub words_before: f64,
}

impl Passed {
    /// What the context adds to the score.
    pub fn added(&self) -> f64 {
        self.context.map_or(0.0, |context| context.added())
    }
}

/// What a good result, the source, adds to the score of a memory that was created next to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreContext {
    /// The source.
    pub id: MemoryId,
    /// Score of the source with heat 0 and without context, above 0.
    pub source_score: f64,
    /// `context_weight`, times the factor of [`DAMPING`](Self::DAMPING), times the
    /// [likeness](Self::likeness) of both, and the form of the memory.
    pub share: f64,
}

impl ScoreContext {
    /// How much a word counts that the first, second or third memory before has.
    pub const WORDS: [f64; 3] = [0.3, 0.2, 0.1];
    /// Factor of the share that a short question passes on to the next memory.
    pub const ANSWER_FACTOR: f64 = 1.5;
    /// Factors of the share for the first, second, … neighbour on each side. Further ones get
    /// nothing.
    pub const DAMPING: [f64; 5] = [1.0, 0.8, 0.64, 0.512, 0.4096];
    /// Cosine of source and neighbour from which the whole share is passed on.
    const FULL_COSINE: f64 = 0.3;
    /// Largest difference between the times of creation.
    const GAP_MAX: Duration = Duration::from_secs(3_600);

    /// Whether two times of creation are near enough.
    pub fn is_near(one: Timestamp, other: Timestamp) -> bool {
        one.0.abs_diff(other.0) <= Self::GAP_MAX.as_micros() as u64
    }

    /// How much of the share a neighbour gets whose cosine to the source is this: 0 to 1. What has
    /// nothing to do with a result gets no context from it.
    pub fn likeness(cosine: f32) -> f64 {
        (f64::from(cosine) / Self::FULL_COSINE).clamp(0.0, 1.0)
    }

    /// What is added to the score.
    pub fn added(&self) -> f64 {
        self.source_score * self.share
    }
}

/// How a model reads a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Share of its letters that the model cannot read, from 0 to 1.
    pub unreadable: f64,
    /// What the similarities of this model are multiplied by, to be as good an evidence as those of others.
    pub evidence_scale: f64,
}

impl Default for Reading {
    fn default() -> Self {
        Self { unreadable: 0.0, evidence_scale: 1.0 }
    }
}

impl Reading {
    /// How much the similarity counts for a query of which the model can read no letter.
    const UNREADABLE_TRUST: f64 = 0.1;

    /// How much the similarity of the query counts, from 0 to 1.
    pub fn trust(self) -> f64 {
        1.0 - self.unreadable * (1.0 - Self::UNREADABLE_TRUST)
    }
}

/// Whether memories that a search found may answer its query. Calibrated with the questions of `make eval`,
/// put where the answer is and where it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// None of them seems to: the answer is probably not there.
    None,
    /// One of them may.
    Weak,
    /// One of them probably does.
    Strong,
}

impl Evidence {
    const WEAK: f64 = 0.5;
    const STRONG: f64 = 1.0;

    /// The level of a memory. What another memory replaces is no answer.
    pub fn of(factors: &Factors, reading: Reading) -> Self {
        match factors.evidence(reading) {
            _ if factors.superseded_factor != 1.0 => Self::None,
            value if value >= Self::STRONG => Self::Strong,
            value if value >= Self::WEAK => Self::Weak,
            _ => Self::None,
        }
    }
}

/// Rounds to 1e-6, the resolution of heats and scores in responses, and turns −0 into 0.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors of a memory with similarity, heat, keyword overlap, and two boosts.
    fn factors([similarity, heat, own, temporal_boost, namespace_boost]: [f64; 5]) -> Factors {
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

    /// Context of a source with this score.
    fn passed(source_score: f64) -> Passed {
        let context = ScoreContext { id: MemoryId([1; 16]), source_score, share: 0.4 };
        Passed { context: Some(context), words_before: 0.0 }
    }

    #[test]
    fn superseded_memories_score_less() {
        let weights = RecallWeights::default();
        let present = factors([0.5, 0.8, 5.0, 0.0, 0.0]);
        let old = Factors { superseded_factor: 0.3, ..present };
        assert_eq!(old.fused(&weights), rounded(present.fused(&weights) * 0.3));
        let context = passed(1.0);
        let with_context =
            |factors: Factors| factors.with_passed(&context, &weights).fused(&weights);
        assert!((with_context(old) - with_context(present) * 0.3).abs() < 2e-6);
        let opposite = Factors { similarity: -0.9, heat: 0.0, ..old };
        assert!(opposite.fused(&weights) < 0.0);
        assert_eq!(
            opposite.fused(&weights),
            Factors { superseded_factor: 1.0, ..opposite }.fused(&weights)
        );
    }

    #[test]
    fn context_adds_a_share_of_the_source() {
        let weights = RecallWeights::default();
        let source = factors([0.9, 1.0, 10.0, 0.0, 0.0]).without_heat(&weights);
        assert_eq!(source, rounded(0.9 * 0.7 * 2.5), "heat is not passed on");
        let context = passed(source);
        let alone = factors([0.1, 0.5, 1.0, 0.0, 0.1]);
        let added = alone.with_passed(&context, &weights).fused(&weights) - alone.fused(&weights);
        assert!((added - source * 0.4).abs() < 2e-6);
        let low = factors([0.005_717_552_267, 0.0, 0.0, 0.0, 0.0]);
        let added = low.with_passed(&context, &weights).fused(&weights) - low.fused(&weights);
        assert!((added - source * 0.4).abs() < 2e-6, "a low score is as exact: {added}");
        let opposite = factors([-0.9, 0.1, 0.0, 0.0, 0.0]);
        assert_eq!(opposite.with_passed(&context, &weights), opposite);
        let with_words = Passed { words_before: 2.0, ..Passed::default() };
        let found = alone.with_passed(&with_words, &weights);
        assert_eq!((found.own, found.neighbours, found.keyword_overlap()), (1.0, 2.0, 3.0));
        let without_words = RecallWeights { keyword_weight: 0.0, ..weights };
        assert_eq!(alone.with_passed(&context, &without_words), alone);
    }

    #[test]
    fn evidence_is_similarity_and_words() {
        let of = |similarity, own| {
            Evidence::of(&factors([similarity, 0.9, own, 0.4, 0.1]), Reading::default())
        };
        assert_eq!([of(0.49, 0.0), of(0.0, 4.9)], [Evidence::None; 2]);
        assert_eq!([of(0.5, 0.0), of(0.3, 2.1), of(-0.1, 10.0)], [Evidence::Weak; 3]);
        assert_eq!([of(0.5, 5.0), of(0.0, 10.0)], [Evidence::Strong; 2]);
        let old = Factors { superseded_factor: 0.3, ..factors([0.9, 0.9, 10.0, 0.0, 0.0]) };
        assert_eq!(
            Evidence::of(&old, Reading::default()),
            Evidence::None,
            "what another one replaces is no answer"
        );
        let unread = Reading { unreadable: 1.0, ..Reading::default() };
        let of = |similarity, own| Evidence::of(&factors([similarity, 0.9, own, 0.0, 0.0]), unread);
        assert_eq!(of(0.9, 0.0), Evidence::None, "a similarity that means little");
        assert_eq!([of(0.0, 2.8), of(0.0, 5.6)], [Evidence::Weak, Evidence::Strong], "words do");
        let scaled = Reading { evidence_scale: 1.5, ..Reading::default() };
        assert_eq!(Evidence::of(&factors([0.34, 0.9, 0.0, 0.0, 0.0]), scaled), Evidence::Weak);
    }

    #[test]
    fn factors_multiply_to_the_score() {
        let factors = factors([0.5, 0.8, 5.0, 0.4, 0.1]);
        let weights = RecallWeights::default();
        assert!((factors.base(&weights) - 0.59).abs() < 1e-12);
        assert_eq!(factors.fused(&weights), rounded(0.59 * 1.75 * 1.4 * 1.1));
    }

    #[test]
    fn score_without_boosts_is_the_base() {
        let factors = factors([0.25, 1.0, 0.0, 0.0, 0.0]);
        assert_eq!(factors.fused(&RecallWeights::default()), 0.475);
        assert_eq!(rounded(-0.000_000_4).to_bits(), 0.0_f64.to_bits());
    }
}
