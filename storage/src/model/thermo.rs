//! A tenant's thermodynamic configuration: half-lives, classes and the weights
//! of the score. Values and defaults; the formulas stand in `heat` and `score`.

use serde::{Deserialize, Serialize};

use crate::model::memory::{DecayClass, MemoryType};

const HOUR_SECONDS: f64 = 3_600.0;
const DAY_SECONDS: f64 = 24.0 * HOUR_SECONDS;

/// How the memories of one type cool and strengthen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Time in which heat halves at stability 1 and class normal, in seconds.
    pub half_life_seconds: f64,
    /// Cooling stops here, 0 to 1.
    pub floor: f32,
    /// Factor of stability that a recall after full forgetting gives.
    pub stability_gain: f32,
}

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
    /// Days in which that boost halves outside the window.
    pub temporal_decay_days: f64,
    /// Boost for memories of the asking agent's namespace.
    pub namespace_boost: f64,
}

/// Everything a tenant can tune.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thermo {
    /// One profile a type, in the order of [`MemoryType::ALL`].
    pub profiles: [Profile; 6],
    /// Half-life factors of volatile, normal and persistent; permanent has none.
    pub class_factors: [f32; 3],
    /// Weights of the score.
    pub recall: RecallWeights,
}

impl Thermo {
    /// The profile of a type.
    pub fn profile(&self, memory_type: MemoryType) -> &Profile {
        &self.profiles[memory_type as usize]
    }

    /// Half-life factor of a class; `None` never cools.
    pub fn class_factor(&self, class: DecayClass) -> Option<f32> {
        self.class_factors.get(class as usize).copied()
    }
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

impl Default for Thermo {
    fn default() -> Self {
        let profile = |half_life_seconds, floor, stability_gain| Profile {
            half_life_seconds,
            floor,
            stability_gain,
        };
        Self {
            profiles: [
                profile(24.0 * HOUR_SECONDS, 0.01, 1.5),
                profile(30.0 * DAY_SECONDS, 0.05, 2.0),
                profile(90.0 * DAY_SECONDS, 0.10, 1.8),
                profile(180.0 * DAY_SECONDS, 0.05, 2.0),
                profile(365.0 * DAY_SECONDS, 0.15, 2.5),
                profile(12.0 * HOUR_SECONDS, 0.01, 1.5),
            ],
            class_factors: [0.5, 1.0, 2.0],
            recall: RecallWeights::default(),
        }
    }
}
