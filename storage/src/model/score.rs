//! The composite score of a search result, exactly as the interface states it.
//! Pure arithmetic; where the factors come from is `search`'s business.
//!
//! ```text
//! base  = (1 − cosine_distance) · similarity_weight + heat · heat_weight
//! fused = base · (1 + keyword_weight · keyword_overlap) · (1 + temporal_boost) · (1 + namespace_boost)
//! ```

use crate::model::thermo::RecallWeights;

/// Overlap of a memory that holds every word of the query.
pub const KEYWORD_OVERLAP_MAX: f64 = 10.0;

/// What one result's score is made of; multiplied out they are the score returned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    /// 1 − cosine distance, −1 to 1.
    pub similarity: f64,
    /// Heat as of the search, 0 to 1.
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

    /// The score, rounded to 1e-6 so that no last bit decides an order.
    pub fn fused(&self, weights: &RecallWeights) -> f64 {
        let fused = self.base(weights)
            * (1.0 + weights.keyword_weight * self.keyword_overlap)
            * (1.0 + self.temporal_boost)
            * (1.0 + self.namespace_boost);
        rounded(fused)
    }
}

/// Rounded to 1e-6, the resolution of every heat and score that leaves the engine.
/// Adding zero turns −0 into 0.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factors_multiply_to_the_score() {
        let factors = Factors {
            similarity: 0.5,
            heat: 0.8,
            keyword_overlap: 5.0,
            temporal_boost: 0.4,
            namespace_boost: 0.1,
        };
        let weights = RecallWeights::default();
        assert!((factors.base(&weights) - 0.59).abs() < 1e-12);
        assert_eq!(factors.fused(&weights), rounded(0.59 * 1.75 * 1.4 * 1.1));
    }

    #[test]
    fn without_words_time_or_namespace_the_score_is_the_base() {
        let factors = Factors {
            similarity: 0.25,
            heat: 1.0,
            keyword_overlap: 0.0,
            temporal_boost: 0.0,
            namespace_boost: 0.0,
        };
        assert_eq!(factors.fused(&RecallWeights::default()), 0.475);
        assert_eq!(rounded(-0.000_000_4).to_bits(), 0.0_f64.to_bits());
    }
}
