//! A tenant's thermodynamic configuration: half-lives, classes, warming, the cold tier,
//! the weights of the score. Values, ranges and names; what they do stands in `heat`,
//! `score` and `decide`.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::model::memory::{DecayClass, MemoryType};
use crate::model::score::rounded;

const HOUR_SECONDS: f64 = 3_600.0;
const DAY_SECONDS: f64 = 24.0 * HOUR_SECONDS;

/// How the memories of one type cool and strengthen.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Time in which heat halves at stability 1 and class normal, in seconds.
    pub half_life_seconds: f64,
    /// Cooling stops here, 0 to 1.
    pub floor: f64,
    /// Factor of stability that a recall after full forgetting gives.
    pub stability_gain: f64,
    /// Whether recalls warm and strengthen.
    pub reinforce_on_recall: bool,
}

/// How a recall warms the neighbours of what was recalled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Resonance {
    /// Share of the heat gained that a neighbour gets.
    pub spread_factor: f64,
    /// Factor of each further hop.
    pub damping: f64,
    /// Hops.
    pub depth: u32,
    /// Neighbours colder than this neither receive nor pass on.
    pub thermal_gate: f64,
}

/// What a recall does to the memory itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reinforcement {
    /// Share of what is missing to heat 1 that a recall gives.
    pub on_recall: f64,
    /// A memory is warmed once in so many seconds at most.
    pub recall_min_interval_seconds: u32,
}

/// When memories move to the cold tier.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Consolidation {
    /// Below this heat a memory is cold.
    pub cold_threshold: f64,
    /// So many cold ones are archived together.
    pub cold_count_trigger: u32,
}

/// What hot context returns at most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ActiveIndex {
    /// Memories.
    pub max_nodes: u32,
    /// Characters of their labels.
    pub context_budget_chars: u32,
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
    pub class_factors: [f64; 3],
    /// Warming of neighbours.
    pub resonance: Resonance,
    /// Seconds from one tick to the next.
    pub tick_interval_seconds: u32,
    /// The cold tier.
    pub consolidation: Consolidation,
    /// Bounds of hot context.
    pub active_index: ActiveIndex,
    /// Warming by recall.
    pub reinforcement: Reinforcement,
    /// Weights of the score.
    pub recall: RecallWeights,
}

impl Thermo {
    /// The profile of a type.
    pub fn profile(&self, memory_type: MemoryType) -> &Profile {
        &self.profiles[memory_type as usize]
    }

    /// Half-life factor of a class; `None` never cools.
    pub fn class_factor(&self, class: DecayClass) -> Option<f64> {
        self.class_factors.get(class as usize).copied()
    }

    /// Whether memories cool otherwise under it than under `other`.
    pub fn cools_differently(&self, other: &Self) -> bool {
        self.profiles != other.profiles || self.class_factors != other.class_factors
    }

    /// Whether a heat counts as cold, in the resolution in which heats are shown: what rests
    /// on a floor at the threshold is not.
    pub fn is_cold(&self, heat: f64) -> bool {
        rounded(heat) < self.consolidation.cold_threshold
    }

    /// Every setting by its name, with the values it may take: the one list that reading,
    /// changing and checking go by.
    pub fn settings(&mut self) -> Vec<Setting<'_>> {
        let mut all = Vec::new();
        let mut add = |name: String, place, range| all.push(Setting { name, place, range });
        for (memory_type, profile) in MemoryType::ALL.into_iter().zip(&mut self.profiles) {
            let name = |field| format!("decay_profiles.{}.{field}", memory_type.name());
            add(name("half_life"), Place::Number(&mut profile.half_life_seconds), 1.0..=1e10);
            add(name("floor"), Place::Number(&mut profile.floor), 0.0..=1.0);
            add(name("stability_gain"), Place::Number(&mut profile.stability_gain), 1.0..=10.0);
            let reinforce = Place::Switch(&mut profile.reinforce_on_recall);
            add(name("reinforce_on_recall"), reinforce, 0.0..=1.0);
        }
        for (class, factor) in DecayClass::ALL.into_iter().zip(&mut self.class_factors) {
            let name = format!("decay_classes.{}", class.name());
            add(name, Place::Number(factor), 0.01..=100.0);
        }
        let Resonance { spread_factor, damping, depth, thermal_gate } = &mut self.resonance;
        let Consolidation { cold_threshold, cold_count_trigger } = &mut self.consolidation;
        let ActiveIndex { max_nodes, context_budget_chars } = &mut self.active_index;
        let Reinforcement { on_recall, recall_min_interval_seconds } = &mut self.reinforcement;
        let recall = &mut self.recall;
        for (name, place, range) in [
            ("resonance.spread_factor", Place::Number(spread_factor), 0.0..=1.0),
            ("resonance.damping", Place::Number(damping), 0.0..=1.0),
            ("resonance.depth", Place::Whole(depth), 0.0..=4.0),
            ("resonance.thermal_gate", Place::Number(thermal_gate), 0.0..=1.0),
            ("tick.interval", Place::Whole(&mut self.tick_interval_seconds), 1.0..=86_400.0),
            ("consolidation.cold_threshold", Place::Number(cold_threshold), 0.0..=1.0),
            ("consolidation.cold_count_trigger", Place::Whole(cold_count_trigger), 1.0..=1e6),
            ("active_index.max_nodes", Place::Whole(max_nodes), 1.0..=1_000.0),
            ("active_index.context_budget_chars", Place::Whole(context_budget_chars), 1.0..=1e7),
            ("reinforcement.on_recall", Place::Number(on_recall), 0.0..=1.0),
            (
                "reinforcement.recall_min_interval",
                Place::Whole(recall_min_interval_seconds),
                0.0..=86_400.0,
            ),
            ("recall.similarity_weight", Place::Number(&mut recall.similarity_weight), 0.0..=10.0),
            ("recall.heat_weight", Place::Number(&mut recall.heat_weight), 0.0..=10.0),
            ("recall.keyword_weight", Place::Number(&mut recall.keyword_weight), 0.0..=10.0),
            (
                "recall.temporal_max_boost",
                Place::Number(&mut recall.temporal_max_boost),
                0.0..=10.0,
            ),
            (
                "recall.temporal_decay_days",
                Place::Number(&mut recall.temporal_decay_days),
                0.01..=3_650.0,
            ),
            ("recall.namespace_boost", Place::Number(&mut recall.namespace_boost), 0.0..=10.0),
        ] {
            add(name.to_owned(), place, range);
        }
        all
    }

    /// This configuration with `changes` made.
    ///
    /// # Errors
    /// [`SettingFault`] at the first change that cannot be made.
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
    /// Its name, sections first: `recall.heat_weight`.
    pub name: String,
    place: Place<'a>,
    /// What it may be set to, if it is a number.
    pub range: RangeInclusive<f64>,
}

enum Place<'a> {
    Number(&'a mut f64),
    Whole(&'a mut u32),
    Switch(&'a mut bool),
}

/// What a setting is set to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum SettingValue {
    /// A number, whole where the setting is.
    Number(f64),
    /// On or off.
    Switch(bool),
    /// What it is by default.
    Default,
}

/// Why a setting cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingFault {
    /// Which one.
    pub name: String,
    /// What it must be.
    pub message: String,
}

impl Setting<'_> {
    /// Whether it is a whole number.
    pub fn is_whole(&self) -> bool {
        matches!(self.place, Place::Whole(_))
    }

    /// What it is set to.
    pub fn value(&self) -> SettingValue {
        match &self.place {
            Place::Number(number) => SettingValue::Number(**number),
            Place::Whole(number) => SettingValue::Number(f64::from(**number)),
            Place::Switch(on) => SettingValue::Switch(**on),
        }
    }

    fn set(self, value: SettingValue) -> Result<(), String> {
        let (least, most) = (self.range.start(), self.range.end());
        match (self.place, value) {
            (place, SettingValue::Default) => {
                let mut defaults = Thermo::default();
                let defaults = defaults.settings();
                let default = defaults.into_iter().find(|setting| setting.name == self.name);
                let default = default.expect("a configuration has the same settings by default");
                Setting { name: self.name, place, range: self.range }.set(default.value())
            }
            (Place::Number(number), SettingValue::Number(value)) => {
                let fits = self.range.contains(&value);
                fits.then(|| *number = value)
                    .ok_or(format!("must be a number from {least} to {most}"))
            }
            (Place::Whole(number), SettingValue::Number(value)) => {
                let fits = self.range.contains(&value) && value.fract() == 0.0;
                let message = format!("must be a whole number from {least} to {most}");
                fits.then(|| *number = value as u32).ok_or(message)
            }
            (Place::Switch(on), SettingValue::Switch(value)) => {
                *on = value;
                Ok(())
            }
            (Place::Switch(_), SettingValue::Number(_)) => Err("must be true or false".into()),
            (_, SettingValue::Switch(_)) => Err("must be a number".into()),
        }
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
            consolidation: Consolidation { cold_threshold: 0.10, cold_count_trigger: 20 },
            active_index: ActiveIndex { max_nodes: 200, context_budget_chars: 50_000 },
            reinforcement: Reinforcement { on_recall: 0.1, recall_min_interval_seconds: 60 },
            recall: RecallWeights::default(),
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
    fn a_setting_is_changed_by_its_name_and_back_to_its_default() {
        let hotter = with("recall.heat_weight", SettingValue::Number(0.5)).unwrap();
        assert_eq!(hotter.recall.heat_weight, 0.5);
        let back = hotter.with(&[("recall.heat_weight".into(), SettingValue::Default)]);
        assert_eq!(back, Ok(Thermo::default()));
        let still = with("decay_profiles.fact.reinforce_on_recall", SettingValue::Switch(false));
        assert!(!still.unwrap().profile(MemoryType::Fact).reinforce_on_recall);
    }

    #[test]
    fn what_is_out_of_range_or_of_another_kind_is_refused_by_name() {
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
    fn every_default_is_within_its_range_and_every_name_is_its_own() {
        let mut defaults = Thermo::default();
        let values: Vec<_> =
            defaults.settings().into_iter().map(|it| (it.name.clone(), it.value())).collect();
        assert_eq!(Thermo::default().with(&values), Ok(Thermo::default()));
        let mut names: Vec<_> = values.into_iter().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6 * 4 + 3 + 17);
    }
}
