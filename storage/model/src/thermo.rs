//! The configuration of one tenant: half-lives, decay classes, reinforcement, cold tier,
//! and weights of the search score.
//!
//! [`Thermo::settings`] lists every setting once. `model::decay`, `model::score` and `decide`
//! apply the values.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::duplicate::{Duplicates, OnDuplicate};
use crate::id::Timestamp;
use crate::memory::{DecayClass, MemoryType};
use crate::score::{RecallWeights, rounded};

const HOUR_SECONDS: f64 = 3_600.0;
const DAY_SECONDS: f64 = 24.0 * HOUR_SECONDS;

/// Decay and reinforcement of the memories of one type.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Half-life in seconds at stability 1 and class normal.
    pub half_life_seconds: f64,
    /// Decay stops at this heat, 0 to 1.
    pub floor: f64,
    /// Factor by which a recall raises the stability of a memory with no heat left.
    pub stability_gain: f64,
    /// Whether recalls raise heat and stability.
    pub reinforce_on_recall: bool,
}

/// How a recall raises the heat of graph neighbours (spreading activation).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resonance {
    /// Share of the heat gain that a direct neighbour receives.
    pub spread_factor: f64,
    /// Factor per further hop.
    pub damping: f64,
    /// Largest number of hops.
    pub depth: u32,
    /// Neighbours below this heat neither receive nor pass on heat.
    pub thermal_gate: f64,
}

/// How a recall changes the recalled memory itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reinforcement {
    /// Share of the distance to heat 1 that a recall adds.
    pub on_recall: f64,
    /// Minimum number of seconds between two recalls that raise the heat of one memory.
    pub recall_min_interval_seconds: u32,
    /// Results of a search, from the best one on, that are recalls: those that its caller uses.
    pub recalled_results: u32,
    /// Lowest score of a recall, as a share of that of the best result, both without heat.
    pub recalled_share: f64,
}

/// When memories move to the cold tier.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Consolidation {
    /// A memory below this heat is cold.
    pub cold_threshold: f64,
    /// Days that a memory must have been cold and unused before a tick archives it.
    pub archive_after_days: f64,
    /// Number of memories in the hot tier up to which ticks archive nothing.
    pub active_index_max: u32,
}

impl Consolidation {
    /// How many of `long_cold` memories a tick archives, with `hot` memories in the hot tier.
    pub fn archived(&self, hot: u64, long_cold: u64) -> u64 {
        long_cold.min(hot.saturating_sub(self.active_index_max.into()))
    }
}

/// Limits of a hot-context response.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActiveIndex {
    /// Maximum number of memories.
    pub max_nodes: u32,
    /// Maximum number of characters of all labels together.
    pub context_budget_chars: u32,
}

/// The whole configuration of one tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thermo {
    /// One profile per type, in the order of [`MemoryType::ALL`].
    pub profiles: [Profile; 6],
    /// Half-life factors of volatile, normal and persistent. Permanent has none.
    pub class_factors: [f64; 3],
    /// Heat spread to neighbours.
    pub resonance: Resonance,
    /// Seconds from one tick to the next.
    pub tick_interval_seconds: u32,
    /// The cold tier.
    pub consolidation: Consolidation,
    /// Limits of hot context.
    pub active_index: ActiveIndex,
    /// Reinforcement by recall.
    pub reinforcement: Reinforcement,
    /// Weights of the score.
    pub recall: RecallWeights,
    /// New memories whose text is known.
    pub duplicates: Duplicates,
}

impl Thermo {
    /// The profile of a type.
    pub fn profile(&self, memory_type: MemoryType) -> &Profile {
        &self.profiles[memory_type as usize]
    }

    /// Half-life factor of a class. `None` means no decay.
    pub fn class_factor(&self, class: DecayClass) -> Option<f64> {
        self.class_factors.get(class as usize).copied()
    }

    /// Whether memories decay differently under this configuration than under `other`.
    pub fn decay_differs(&self, other: &Self) -> bool {
        self.profiles != other.profiles || self.class_factors != other.class_factors
    }

    /// Whether a heat is cold. Compares rounded heats, so a memory that rests on a floor equal
    /// to the threshold is not cold.
    pub fn is_cold(&self, heat: f64) -> bool {
        rounded(heat) < self.consolidation.cold_threshold
    }

    /// Whether a tick may archive a memory at `now`: it has been cold and unused for long.
    /// `used_at` is the last time that it was recalled, changed or rated, `heat_at` its heat at a
    /// time after that.
    pub fn is_long_cold(
        &self,
        now: Timestamp,
        used_at: Timestamp,
        heat_at: impl FnOnce(Timestamp) -> f64,
    ) -> bool {
        let days = self.consolidation.archive_after_days;
        let since = Timestamp(now.0 - (days * Timestamp::DAY_MICROS as f64) as i64);
        // Heat only falls while a memory is unused.
        used_at <= since && self.is_cold(heat_at(since))
    }

    /// Every setting with its name, value and range. Reading, changing and validating all use
    /// this list.
    pub fn settings(&mut self) -> Vec<Setting<'_>> {
        use SettingField::{Number, Switch, Whole};
        let mut all = Vec::new();
        let mut add = |name: &str, target, range| {
            all.push(Setting { name: name.to_owned(), target, range });
        };
        for (memory_type, profile) in MemoryType::ALL.into_iter().zip(&mut self.profiles) {
            let Profile { half_life_seconds, floor, stability_gain, reinforce_on_recall } = profile;
            for (field, target, range) in [
                ("half_life", Number(half_life_seconds), 1.0..=1e10),
                ("floor", Number(floor), 0.0..=1.0),
                ("stability_gain", Number(stability_gain), 1.0..=10.0),
                ("reinforce_on_recall", Switch(reinforce_on_recall), 0.0..=1.0),
            ] {
                add(&format!("decay_profiles.{}.{field}", memory_type.name()), target, range);
            }
        }
        for (class, factor) in DecayClass::ALL.into_iter().zip(&mut self.class_factors) {
            add(&format!("decay_classes.{}", class.name()), Number(factor), 0.01..=100.0);
        }
        let Resonance { spread_factor, damping, depth, thermal_gate } = &mut self.resonance;
        let Consolidation { cold_threshold, archive_after_days, active_index_max } =
            &mut self.consolidation;
        let ActiveIndex { max_nodes, context_budget_chars } = &mut self.active_index;
        let Reinforcement {
            on_recall,
            recall_min_interval_seconds,
            recalled_results,
            recalled_share,
        } = &mut self.reinforcement;
        let recall = &mut self.recall;
        add("resonance.spread_factor", Number(spread_factor), 0.0..=1.0);
        add("resonance.damping", Number(damping), 0.0..=1.0);
        add("resonance.depth", Whole(depth), 0.0..=4.0);
        add("resonance.thermal_gate", Number(thermal_gate), 0.0..=1.0);
        add("tick.interval", Whole(&mut self.tick_interval_seconds), 1.0..=86_400.0);
        add("consolidation.cold_threshold", Number(cold_threshold), 0.0..=1.0);
        add("consolidation.archive_after_days", Number(archive_after_days), 0.0..=3_650.0);
        add("consolidation.active_index_max", Whole(active_index_max), 0.0..=1e9);
        add("active_index.max_nodes", Whole(max_nodes), 1.0..=1_000.0);
        add("active_index.context_budget_chars", Whole(context_budget_chars), 1.0..=1e7);
        add("reinforcement.on_recall", Number(on_recall), 0.0..=1.0);
        let interval = Whole(recall_min_interval_seconds);
        add("reinforcement.recall_min_interval", interval, 0.0..=86_400.0);
        add("reinforcement.recalled_results", Whole(recalled_results), 0.0..=100.0);
        add("reinforcement.recalled_share", Number(recalled_share), 0.0..=1.0);
        add("recall.similarity_weight", Number(&mut recall.similarity_weight), 0.0..=10.0);
        add("recall.heat_weight", Number(&mut recall.heat_weight), 0.0..=10.0);
        add("recall.keyword_weight", Number(&mut recall.keyword_weight), 0.0..=10.0);
        add("recall.temporal_max_boost", Number(&mut recall.temporal_max_boost), 0.0..=10.0);
        let days = &mut recall.temporal_decay_days;
        add("recall.temporal_decay_days", Number(days), 0.01..=3_650.0);
        add("recall.namespace_boost", Number(&mut recall.namespace_boost), 0.0..=10.0);
        add("recall.context_weight", Number(&mut recall.context_weight), 0.0..=1.0);
        add("recall.superseded_factor", Number(&mut recall.superseded_factor), 0.0..=1.0);
        let Duplicates { on_duplicate, similarity_min, overlap_min, echo_seconds } =
            &mut self.duplicates;
        add("duplicates.on_duplicate", SettingField::OnDuplicate(on_duplicate), 0.0..=1.0);
        // Less similar memories are not looked for: see `SIMILAR_COSINE`.
        add("duplicates.similarity_min", Number(similarity_min), 0.92..=1.0);
        add("duplicates.overlap_min", Number(overlap_min), 0.5..=1.0);
        add("duplicates.echo_seconds", Whole(echo_seconds), 0.0..=86_400.0);
        all
    }

    /// This configuration with `changes` applied in order.
    ///
    /// # Errors
    /// [`SettingFault`] for the first change with an unknown name or an invalid value.
    pub fn with(&self, changes: &[(String, SettingValue)]) -> Result<Self, SettingFault> {
        let mut changed = self.clone();
        for (name, value) in changes {
            let fault = |message: String| SettingFault { name: name.clone(), message };
            let settings = changed.settings();
            let setting = settings.into_iter().find(|setting| setting.name == *name);
            let setting = setting.ok_or_else(|| fault("is no setting".into()))?;
            setting.set(*value).map_err(fault)?;
        }
        Ok(changed)
    }
}

/// One setting of a configuration.
pub struct Setting<'a> {
    /// Name, sections first: `recall.heat_weight`.
    pub name: String,
    target: SettingField<'a>,
    /// Allowed values, if it is a number.
    pub range: RangeInclusive<f64>,
}

/// The configuration field behind a setting.
enum SettingField<'a> {
    Number(&'a mut f64),
    Whole(&'a mut u32),
    Switch(&'a mut bool),
    OnDuplicate(&'a mut OnDuplicate),
}

/// The value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum SettingValue {
    /// A number, whole if the setting is whole.
    Number(f64),
    /// On or off.
    Switch(bool),
    /// What happens to duplicates.
    OnDuplicate(OnDuplicate),
    /// The default value.
    Default,
}

/// An invalid change of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingFault {
    /// Name of the setting.
    pub name: String,
    /// What the value must be.
    pub message: String,
}

impl Setting<'_> {
    /// Whether it is a whole number.
    pub fn is_integer(&self) -> bool {
        matches!(self.target, SettingField::Whole(_))
    }

    /// Its value.
    pub fn value(&self) -> SettingValue {
        match &self.target {
            SettingField::Number(number) => SettingValue::Number(**number),
            SettingField::Whole(number) => SettingValue::Number(f64::from(**number)),
            SettingField::Switch(on) => SettingValue::Switch(**on),
            SettingField::OnDuplicate(action) => SettingValue::OnDuplicate(**action),
        }
    }

    fn set(self, value: SettingValue) -> Result<(), String> {
        let (min, max) = (self.range.start(), self.range.end());
        let fits = |value: f64| self.range.contains(&value);
        match (self.target, value) {
            (target, SettingValue::Default) => {
                let mut defaults = Thermo::default();
                let defaults = defaults.settings();
                let default = defaults.into_iter().find(|setting| setting.name == self.name);
                let default = default.expect("the default configuration has the same settings");
                return Setting { target, ..self }.set(default.value());
            }
            (SettingField::Switch(on), SettingValue::Switch(value)) => *on = value,
            (SettingField::Switch(_), _) => return Err("must be true or false".into()),
            (SettingField::OnDuplicate(action), SettingValue::OnDuplicate(value)) => {
                *action = value
            }
            (SettingField::OnDuplicate(_), _) => return Err(OnDuplicate::EXPECTED.into()),
            (_, SettingValue::OnDuplicate(_)) => return Err("must be a number".into()),
            (_, SettingValue::Switch(_)) => return Err("must be a number".into()),
            (SettingField::Number(number), SettingValue::Number(value)) if fits(value) => {
                *number = value
            }
            (SettingField::Number(_), _) => {
                return Err(format!("must be a number from {min} to {max}"));
            }
            (SettingField::Whole(number), SettingValue::Number(value))
                if fits(value) && value.fract() == 0.0 =>
            {
                *number = value as u32;
            }
            (SettingField::Whole(_), _) => {
                return Err(format!("must be a whole number from {min} to {max}"));
            }
        }
        Ok(())
    }
}

impl Default for Thermo {
    fn default() -> Self {
        let profile = |half_life_seconds, floor, stability_gain| Profile {
            half_life_seconds,
            floor,
            stability_gain,
            reinforce_on_recall: true,
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
            resonance: Resonance {
                spread_factor: 0.30,
                damping: 0.50,
                depth: 2,
                thermal_gate: 0.05,
            },
            tick_interval_seconds: 60,
            consolidation: Consolidation {
                cold_threshold: 0.10,
                archive_after_days: 30.0,
                active_index_max: 100_000,
            },
            active_index: ActiveIndex { max_nodes: 200, context_budget_chars: 50_000 },
            reinforcement: Reinforcement {
                on_recall: 0.1,
                recall_min_interval_seconds: 60,
                recalled_results: 5,
                recalled_share: 0.5,
            },
            recall: RecallWeights::default(),
            duplicates: Duplicates {
                on_duplicate: OnDuplicate::Allow,
                similarity_min: 0.95,
                overlap_min: 0.8,
                echo_seconds: 600,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: SettingValue) -> Result<Thermo, SettingFault> {
        Thermo::default().with(&[(name.to_owned(), value)])
    }

    #[test]
    fn setting_changes_by_name_and_resets_to_default() {
        let hotter = with("recall.heat_weight", SettingValue::Number(0.5)).unwrap();
        assert_eq!(hotter.recall.heat_weight, 0.5);
        let back = hotter.with(&[("recall.heat_weight".into(), SettingValue::Default)]);
        assert_eq!(back, Ok(Thermo::default()));
        let still = with("decay_profiles.fact.reinforce_on_recall", SettingValue::Switch(false));
        assert!(!still.unwrap().profile(MemoryType::Fact).reinforce_on_recall);
    }

    #[test]
    fn invalid_setting_is_rejected_by_name() {
        for (name, value) in [
            ("recall.heat_weight", SettingValue::Number(-0.1)),
            ("recall.heat_weight", SettingValue::Number(f64::NAN)),
            ("recall.heat_weight", SettingValue::Switch(true)),
            ("decay_profiles.fact.half_life", SettingValue::Number(0.0)),
            ("resonance.depth", SettingValue::Number(1.5)),
            ("decay_profiles.fact.reinforce_on_recall", SettingValue::Number(1.0)),
            ("recall.warmth", SettingValue::Number(1.0)),
        ] {
            assert_eq!(with(name, value).unwrap_err().name, name);
        }
    }

    #[test]
    fn defaults_are_in_range_and_names_unique() {
        let mut defaults = Thermo::default();
        let values: Vec<_> =
            defaults.settings().into_iter().map(|it| (it.name.clone(), it.value())).collect();
        assert_eq!(Thermo::default().with(&values), Ok(Thermo::default()));
        let mut names: Vec<_> = values.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6 * 4 + 3 + 26);
    }

    #[test]
    fn whole_numbers_are_known() {
        let mut thermo = Thermo::default();
        let is_integer = |name: &str, settings: &[Setting<'_>]| {
            settings.iter().find(|it| it.name == name).map(Setting::is_integer)
        };
        let settings = thermo.settings();
        assert_eq!(is_integer("resonance.depth", &settings), Some(true));
        assert_eq!(is_integer("recall.heat_weight", &settings), Some(false));
    }
}
