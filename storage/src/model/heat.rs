//! How heat cools: one formula and its anchor. Not what warms a memory (that is
//! decided), and no clock: `now` is always handed in.
//!
//! `heat(t) = max(min(floor, h0), h0 · 2^(−age / (half_life · class · stability)))`
//!
//! `2^x` comes from `libm`, whose result is the same bits on every platform, so
//! that nodes rank alike.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::id::Timestamp;
use crate::model::memory::{DecayClass, Memory, MemoryType};
use crate::model::thermo::Thermo;

/// Highest stability that reinforcement reaches.
pub const STABILITY_MAX: f32 = 100.0;

/// Heat as last set, and when: everything about a memory's heat that is stored.
/// Cooling writes nothing; it is this record read at a later time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// Heat at `at`, 0 to 1.
    pub heat: f32,
    /// When `heat` held.
    pub at: Timestamp,
    /// Multiplier of the half-life, 1 to [`STABILITY_MAX`].
    pub stability: f32,
    /// Last recall that warmed the memory.
    pub last_recall: Option<Timestamp>,
    /// Recalls so far.
    pub recall_count: u32,
    /// Heat at the last tick before this anchor was written.
    pub tick_heat: f32,
}

impl Record for Anchor {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "anchor";
}

impl Anchor {
    /// The anchor of a memory stored just now.
    pub fn fresh(heat: f32, at: Timestamp) -> Self {
        Self { heat, at, stability: 1.0, last_recall: None, recall_count: 0, tick_heat: heat }
    }

    /// The same memory at another heat.
    #[must_use]
    pub fn with_heat(self, heat: f32) -> Self {
        Self { heat, ..self }
    }
}

/// How one memory cools: everything but its anchor, folded into two numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cooling {
    /// Half-lives that pass in a microsecond at stability 1; zero does not cool.
    pub rate: f64,
    /// Cooling stops here, 0 to 1.
    pub floor: f32,
}

impl Cooling {
    /// How `memory` cools under `thermo`. Pinned, archived and permanent memories do not.
    pub fn of(memory: &Memory, thermo: &Thermo) -> Self {
        let cools = !memory.is_pinned && memory.archived_at.is_none();
        Self::with(thermo, memory.memory_type, memory.decay_class, memory.min_heat, cools)
    }

    /// How a memory of these properties cools; `cools` is false for pinned and archived ones.
    pub fn with(
        thermo: &Thermo,
        memory_type: MemoryType,
        decay_class: DecayClass,
        min_heat: f32,
        cools: bool,
    ) -> Self {
        let profile = thermo.profile(memory_type);
        let floor = (profile.floor as f32).max(min_heat);
        let rate = match thermo.class_factor(decay_class) {
            Some(factor) if cools => {
                let half_life_micros = profile.half_life_seconds * Timestamp::SECOND_MICROS as f64;
                1.0 / (half_life_micros * factor)
            }
            _ => 0.0,
        };
        Self { rate, floor }
    }
}

/// Heat of a memory at `now`, 0 to 1.
pub fn heat(anchor: &Anchor, cooling: Cooling, now: Timestamp) -> f64 {
    let rate = cooling.rate / f64::from(anchor.stability);
    cooled(anchor.heat, anchor.at, rate, cooling.floor, now)
}

/// [`heat`] with the rate already divided by the stability: the form that the
/// heat columns hold, so that scans and single records agree to the bit.
#[inline]
pub fn cooled(heat: f32, at: Timestamp, rate: f64, floor: f32, now: Timestamp) -> f64 {
    let half_lives = now.since(at) as f64 * rate;
    let fallen = f64::from(heat) * libm::exp2(-half_lives);
    fallen.max(f64::from(floor.min(heat)))
}

/// What a heat is at most, and at least 99 % of, after `half_lives`: for scans that
/// look for the hottest and need the exact heat of few. In f32 and without a branch or
/// a table, so that many are computed at once.
///
/// `2^−x` from above: whole halvings are an exponent; the rest is Taylor's polynomial
/// of `e^−y`, which exceeds it when it ends at an even power.
#[inline(always)]
pub fn upper_bound(heat: f32, floor: f32, half_lives: f32) -> f32 {
    /// Halvings after which it is as good as nothing.
    const WHOLE_MAX: f32 = 120.0;
    /// More than what rounding to f32 can take away.
    const SLACK: f32 = 1.0 + 1e-5;
    let x = half_lives.clamp(0.0, WHOLE_MAX);
    let whole = x as i32;
    let y = (x - whole as f32) * std::f32::consts::LN_2;
    let rest = 1.0 - y * (1.0 - y * (0.5 - y * (1.0 / 6.0 - y * (1.0 / 24.0))));
    let halved = f32::from_bits(((127 - whole) as u32) << 23) * rest;
    (heat * halved * SLACK).max(floor.min(heat))
}

/// Whether a change of these properties alters how a memory cools, so that it
/// must be anchored at its present heat first.
pub fn cools_differently(before: &Memory, after: &Memory) -> bool {
    before.memory_type != after.memory_type
        || before.decay_class != after.decay_class
        || before.is_pinned != after.is_pinned
        || before.min_heat != after.min_heat
        || before.archived_at != after.archived_at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_heats_upper_bound_is_above_it_and_near(
            heat in 0.0_f32..=1.0, half_lives in 0.0_f32..200.0, floor in 0.0_f32..=1.0,
        ) {
            let rate = f64::from(half_lives) / 1e12;
            let exact = cooled(heat, Timestamp(0), rate, floor, Timestamp(1_000_000_000_000));
            let upper_bound = f64::from(upper_bound(heat, floor, half_lives));
            prop_assert!(upper_bound >= exact, "{} < {}", upper_bound, exact);
            prop_assert!(upper_bound * 0.99 <= exact + 1e-30, "{} for {}", upper_bound, exact);
        }
    }

    const HOUR: i64 = 3_600 * Timestamp::SECOND_MICROS;

    fn memory(memory_type: MemoryType) -> Memory {
        Memory { memory_type, ..Memory::example("text") }
    }

    fn heat_after(memory: &Memory, start: f32, hours: i64) -> f64 {
        let anchor = Anchor::fresh(start, Timestamp(0));
        heat(&anchor, Cooling::of(memory, &Thermo::default()), Timestamp(hours * HOUR))
    }

    #[test]
    fn an_episodic_memory_halves_in_a_day_and_a_fact_in_a_year() {
        assert_eq!(heat_after(&memory(MemoryType::Episodic), 0.8, 24), f64::from(0.8_f32) / 2.0);
        assert_eq!(heat_after(&memory(MemoryType::Fact), 1.0, 24 * 365), 0.5);
        assert_eq!(heat_after(&memory(MemoryType::Moment), 1.0, 24), 0.25);
    }

    #[test]
    fn the_floor_stops_the_fall_and_never_lifts() {
        let fact = memory(MemoryType::Fact);
        assert_eq!(heat_after(&fact, 1.0, 24 * 365 * 50), f64::from(0.15_f32));
        assert_eq!(heat_after(&fact, 0.1, 24 * 365 * 50), f64::from(0.1_f32));
        let kept = Memory { min_heat: 0.6, ..memory(MemoryType::Episodic) };
        assert_eq!(heat_after(&kept, 1.0, 24_000), f64::from(0.6_f32));
    }

    #[test]
    fn pinned_archived_and_permanent_memories_do_not_cool() {
        let plain = memory(MemoryType::Moment);
        for still in [
            Memory { is_pinned: true, ..plain.clone() },
            Memory { archived_at: Some(Timestamp(1)), ..plain.clone() },
            Memory { decay_class: DecayClass::Permanent, ..plain.clone() },
        ] {
            assert_eq!(heat_after(&still, 0.7, 1_000_000), f64::from(0.7_f32));
        }
    }

    #[test]
    fn class_and_stability_stretch_the_half_life() {
        let volatile = Memory { decay_class: DecayClass::Volatile, ..memory(MemoryType::Episodic) };
        assert_eq!(heat_after(&volatile, 1.0, 12), 0.5);
        let anchor = Anchor { stability: 2.0, ..Anchor::fresh(1.0, Timestamp(0)) };
        let cooling = Cooling::of(&memory(MemoryType::Episodic), &Thermo::default());
        assert_eq!(heat(&anchor, cooling, Timestamp(48 * HOUR)), 0.5);
    }

    #[test]
    fn a_clock_behind_the_anchor_reads_the_anchor() {
        let anchor = Anchor::fresh(0.5, Timestamp(10 * HOUR));
        let cooling = Cooling::of(&memory(MemoryType::Episodic), &Thermo::default());
        assert_eq!(heat(&anchor, cooling, Timestamp(0)), 0.5);
    }

    proptest! {
        #[test]
        fn heat_only_falls_and_stays_in_bounds(
            start in 0.0_f32..=1.0, min in 0.0_f32..=1.0, a in 0_i64..100_000, b in 0_i64..100_000,
        ) {
            let memory = Memory { min_heat: min, ..memory(MemoryType::Semantic) };
            let (early, late) = (a.min(b), a.max(b));
            let (first, second) = (heat_after(&memory, start, early), heat_after(&memory, start, late));
            prop_assert!(second <= first);
            prop_assert!((0.0..=1.0).contains(&second));
            prop_assert!(first <= f64::from(start));
        }

        #[test]
        fn anchoring_at_the_present_heat_changes_nothing(hours in 0_i64..5_000, later in 0_i64..5_000) {
            let memory = memory(MemoryType::Semantic);
            let cooling = Cooling::of(&memory, &Thermo::default());
            let anchor = Anchor::fresh(0.9, Timestamp(0));
            let at = Timestamp(hours * HOUR);
            let moved = Anchor { at, ..anchor.with_heat(heat(&anchor, cooling, at) as f32) };
            let end = Timestamp((hours + later) * HOUR);
            prop_assert!((heat(&anchor, cooling, end) - heat(&moved, cooling, end)).abs() < 1e-6);
        }
    }
}
