//! Heat: a value from 0 to 1 per memory that decays exponentially, as in spaced repetition.
//!
//! `heat(t) = max(min(floor, h0), h0 · 2^(−age / (half_life · class · stability)))`
//!
//! Decay writes nothing. The state stores an [`Anchor`]: the heat at one instant and the
//! stability. Every later heat is computed from it. `model::decay` computes rate and floor
//! from memory and configuration. `decide` sets new anchors: recalls raise the heat, and
//! raise the stability, which lengthens the half-life.
//!
//! `2^x` comes from `libm`, which returns the same bits on every platform, so all nodes
//! rank alike. `now` is always a parameter: nothing here reads a clock.

use serde::{Deserialize, Serialize};

use crate::id::Timestamp;

/// Highest stability that reinforcement reaches.
pub const STABILITY_MAX: f32 = 100.0;

/// The stored part of a memory's heat: its value at one instant, and its stability.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// Heat at `at`, 0 to 1.
    pub heat: f32,
    /// Instant of `heat`.
    pub at: Timestamp,
    /// Multiplier of the half-life, 1 to [`STABILITY_MAX`].
    pub stability: f32,
    /// Last recall that raised the heat.
    pub last_recall: Option<Timestamp>,
    /// When a search last recalled it.
    pub returned_at: Option<Timestamp>,
    /// Recalls so far.
    pub recall_count: u32,
    /// Heat at the last tick before this anchor was written.
    pub tick_heat: f32,
}

impl Anchor {
    /// The anchor of a memory created at `at`.
    pub fn fresh(heat: f32, at: Timestamp) -> Self {
        Self {
            heat,
            at,
            stability: 1.0,
            last_recall: None,
            returned_at: None,
            recall_count: 0,
            tick_heat: heat,
        }
    }
}

/// The heat at `now` of an anchor `(heat, at)`. `rate` is in half-lives per microsecond,
/// stability included. Columns and single records both use this function, so scans and
/// single reads agree to the bit.
#[inline]
pub fn decayed(heat: f32, at: Timestamp, rate: f64, floor: f32, now: Timestamp) -> f64 {
    let half_lives = now.since(at) as f64 * rate;
    let decayed = f64::from(heat) * libm::exp2(-half_lives);
    decayed.max(f64::from(floor.min(heat)))
}

/// An upper bound of a heat after `half_lives`. The exact heat is at least 99 % of it.
/// Scans prune with it and compute few exact heats. It is f32 without branches and tables,
/// so the compiler vectorises loops over it.
///
/// It bounds `2^−x` from above. The integer part of `x` becomes a float exponent. The fraction
/// uses Taylor's polynomial of `e^−y`, which is too high when it ends at an even power.
#[inline(always)]
pub fn upper_bound(heat: f32, floor: f32, half_lives: f32) -> f32 {
    /// Half-lives after which the heat is practically zero; keeps the exponent in range.
    const HALF_LIVES_MAX: f32 = 120.0;
    /// Exceeds the rounding error of f32.
    const SLACK: f32 = 1.0 + 1e-5;
    let x = half_lives.clamp(0.0, HALF_LIVES_MAX);
    let whole = x as i32;
    let y = (x - whole as f32) * std::f32::consts::LN_2;
    let fraction = 1.0 - y * (1.0 - y * (0.5 - y * (1.0 / 6.0 - y * (1.0 / 24.0))));
    let power = f32::from_bits(((127 - whole) as u32) << 23) * fraction;
    (heat * power * SLACK).max(floor.min(heat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heat_upper_bound_is_above_and_near(
            heat in 0.0_f32..=1.0, half_lives in 0.0_f32..200.0, floor in 0.0_f32..=1.0,
        ) {
            let rate = f64::from(half_lives) / 1e12;
            let exact = decayed(heat, Timestamp(0), rate, floor, Timestamp(1_000_000_000_000));
            let upper_bound = f64::from(upper_bound(heat, floor, half_lives));
            prop_assert!(upper_bound >= exact, "{} < {}", upper_bound, exact);
            prop_assert!(upper_bound * 0.99 <= exact + 1e-30, "{} for {}", upper_bound, exact);
        }
    }
}
