//! The composite score of a search result. The factors come from `search`.
//!
//! ```text
//! base  = (1 − cosine_distance) · similarity_weight + heat · heat_weight
//! fused = base · (1 + keyword_weight · keyword_overlap) · (1 + temporal_boost) · (1 + namespace_boost)
//! ```

use serde::{Deserialize, Serialize};

/// Keyword overlap of a memory that contains every word of the query.
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
    /// 0 to [`KEYWORD_OVERLAP_MAX`].
    pub keyword_overlap: f64,
    /// 0 to `temporal_max_boost`.
    pub temporal_boost: f64,
    /// 0 or `namespace_boost`.
    pub namespace_boost: f64,
}

impl Factors {
    /// `base` of the formula.
    pub fn base(&self, weights: &RecallWeights) -> f64 {
        self.similarity * weights.similarity_weight + self.heat * weights.heat_weight
    }

    /// The score, rounded to 1e-6 so that the last bit never decides an order.
    pub fn fused(&self, weights: &RecallWeights) -> f64 {
        let fused = self.base(weights)
            * (1.0 + weights.keyword_weight * self.keyword_overlap)
            * (1.0 + self.temporal_boost)
            * (1.0 + self.namespace_boost);
        rounded(fused)
    }
}

/// Rounds to 1e-6, the resolution of heats and scores in responses, and turns −0 into 0.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Factors of a memory with similarity, heat, keyword overlap, and the two boosts.
    fn factors(
        [similarity, heat, keyword_overlap, temporal_boost, namespace_boost]: [f64; 5],
    ) -> Factors {
        Factors { similarity, heat, keyword_overlap, temporal_boost, namespace_boost }
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
