//! How fast a memory decays: the rate and the floor that follow from its type, its decay
//! class, its flags, and the tenant's configuration. See `model::heat` for the formula.

use crate::heat::{Anchor, decayed};
use crate::id::Timestamp;
use crate::memory::{DecayClass, Memory, MemoryType};
use crate::thermo::Thermo;

/// Decay rate and floor of one memory, at stability 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    /// Half-lives per microsecond at stability 1. Zero means no decay.
    pub rate: f64,
    /// Decay stops at this heat, 0 to 1.
    pub floor: f32,
}

impl Decay {
    /// Decay of `memory` under `thermo`. Pinned, archived and permanent memories do not decay.
    pub fn of(memory: &Memory, thermo: &Thermo) -> Self {
        let decays = !memory.is_pinned && memory.archived_at.is_none();
        Self::with(thermo, memory.memory_type, memory.decay_class, memory.min_heat, decays)
    }

    /// As [`Self::of`]. `decays` is false for pinned and archived memories.
    pub fn with(
        thermo: &Thermo,
        memory_type: MemoryType,
        decay_class: DecayClass,
        min_heat: f32,
        decays: bool,
    ) -> Self {
        let profile = thermo.profile(memory_type);
        let floor = (profile.floor as f32).max(min_heat);
        let rate = match thermo.class_factor(decay_class) {
            Some(factor) if decays => {
                let half_life_micros = profile.half_life_seconds * Timestamp::SECOND_MICROS as f64;
                1.0 / (half_life_micros * factor)
            }
            _ => 0.0,
        };
        Self { rate, floor }
    }
}

/// Heat of a memory at `now`, 0 to 1.
pub fn heat(anchor: &Anchor, decay: Decay, now: Timestamp) -> f64 {
    let rate = decay.rate / f64::from(anchor.stability);
    decayed(anchor.heat, anchor.at, rate, decay.floor, now)
}

/// Whether a change from `before` to `after` alters the decay of a memory. Such a change
/// must first anchor the memory at its present heat.
pub fn decay_differs(before: &Memory, after: &Memory) -> bool {
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

    const HOUR: i64 = 3_600 * Timestamp::SECOND_MICROS;

    fn memory(memory_type: MemoryType) -> Memory {
        Memory { memory_type, ..Memory::example("text") }
    }

    fn heat_after(memory: &Memory, start: f32, hours: i64) -> f64 {
        let anchor = Anchor::fresh(start, Timestamp(0));
        heat(&anchor, Decay::of(memory, &Thermo::default()), Timestamp(hours * HOUR))
    }

    #[test]
    fn half_life_depends_on_memory_type() {
        assert_eq!(heat_after(&memory(MemoryType::Episodic), 0.8, 24), f64::from(0.8_f32) / 2.0);
        assert_eq!(heat_after(&memory(MemoryType::Fact), 1.0, 24 * 365), 0.5);
        assert_eq!(heat_after(&memory(MemoryType::Moment), 1.0, 24), 0.25);
    }

    #[test]
    fn floor_stops_decay_and_never_raises_heat() {
        let fact = memory(MemoryType::Fact);
        assert_eq!(heat_after(&fact, 1.0, 24 * 365 * 50), f64::from(0.15_f32));
        assert_eq!(heat_after(&fact, 0.1, 24 * 365 * 50), f64::from(0.1_f32));
        let kept = Memory { min_heat: 0.6, ..memory(MemoryType::Episodic) };
        assert_eq!(heat_after(&kept, 1.0, 24_000), f64::from(0.6_f32));
    }

    #[test]
    fn pinned_archived_and_permanent_memories_do_not_decay() {
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
    fn class_and_stability_scale_the_half_life() {
        let volatile = Memory { decay_class: DecayClass::Volatile, ..memory(MemoryType::Episodic) };
        assert_eq!(heat_after(&volatile, 1.0, 12), 0.5);
        let anchor = Anchor { stability: 2.0, ..Anchor::fresh(1.0, Timestamp(0)) };
        let decay = Decay::of(&memory(MemoryType::Episodic), &Thermo::default());
        assert_eq!(heat(&anchor, decay, Timestamp(48 * HOUR)), 0.5);
    }

    #[test]
    fn clock_before_anchor_returns_anchor_heat() {
        let anchor = Anchor::fresh(0.5, Timestamp(10 * HOUR));
        let decay = Decay::of(&memory(MemoryType::Episodic), &Thermo::default());
        assert_eq!(heat(&anchor, decay, Timestamp(0)), 0.5);
    }

    proptest! {
        #[test]
        fn heat_never_rises_and_stays_in_bounds(
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
        fn anchoring_at_present_heat_changes_nothing(hours in 0_i64..5_000, later in 0_i64..5_000) {
            let memory = memory(MemoryType::Semantic);
            let decay = Decay::of(&memory, &Thermo::default());
            let anchor = Anchor::fresh(0.9, Timestamp(0));
            let at = Timestamp(hours * HOUR);
            let moved = Anchor { at, heat: heat(&anchor, decay, at) as f32, ..anchor };
            let end = Timestamp((hours + later) * HOUR);
            prop_assert!((heat(&anchor, decay, end) - heat(&moved, decay, end)).abs() < 1e-6);
        }
    }
}
