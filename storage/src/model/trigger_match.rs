//! Evaluates the conditions of triggers. Pure functions: `decide::fire` checks access and
//! runs the actions.

use crate::model::id::Timestamp;
use crate::model::memory::Memory;
use crate::model::pattern::{FoldedText, LabelPattern};
use crate::model::score::rounded;
use crate::model::trigger::{Firings, Trigger, TriggerEvent, TriggerFilter};

/// Change of a memory's heat from one tick to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeatTransition {
    /// Heat at the previous tick.
    pub before: f64,
    /// Heat at which the last decay began: the anchor's heat if anchored since the previous
    /// tick, else `before`.
    pub start: f64,
    /// Heat at this tick.
    pub now: f64,
    /// Whether `before` was below the `cold_threshold` of the previous tick.
    pub was_cold: bool,
    /// Whether `now` is below the `cold_threshold` of this tick.
    pub is_cold: bool,
    /// `cold_threshold` of this tick: the threshold of triggers that set none.
    pub cold_threshold: f64,
}

/// The reason why a trigger does not fire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    /// The trigger is disabled.
    Disabled,
    /// The trigger is for another event.
    Event,
    /// The memory is outside the trigger's namespace.
    Namespace,
    /// The memory is outside the filter's namespace.
    FilterNamespace,
    /// The memory is of another type.
    MemoryType,
    /// The label does not contain the pattern.
    LabelPattern,
    /// The heat is not below `heat_below`.
    HeatBelow,
    /// The heat is not above `heat_above`.
    HeatAbove,
    /// The heat did not cross the threshold.
    NotCrossed,
    /// The owner may not read the memory.
    Access,
    /// `max_fires` is reached.
    MaxFires,
    /// The cooldown has not passed.
    Cooldown,
    /// Earlier firings filled the command.
    NoRoom,
}

impl SkipReason {
    /// The name used in JSON and docs: the field that prevents the firing.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "enabled",
            Self::Event => "event",
            Self::Namespace => "namespace",
            Self::FilterNamespace => "filter_namespace",
            Self::MemoryType => "filter_memory_type",
            Self::LabelPattern => "filter_label_pattern",
            Self::HeatBelow => "filter_heat_below",
            Self::HeatAbove => "filter_heat_above",
            Self::NotCrossed => "not_crossed",
            Self::Access => "access",
            Self::MaxFires => "max_fires",
            Self::Cooldown => "cooldown_seconds",
            Self::NoRoom => "no_room",
        }
    }
}

/// The memory for which a trigger is evaluated.
pub struct Subject<'a> {
    /// The memory.
    pub memory: &'a Memory,
    /// Its label, prepared for pattern search.
    pub label: &'a FoldedText,
    /// Its present heat.
    pub heat: f64,
    /// Change of its heat, for events of ticks.
    pub transition: Option<HeatTransition>,
}

impl Trigger {
    /// Evaluates the trigger's conditions on `event` and `subject`. `pattern` is the compiled
    /// `label_pattern`. Access, `max_fires` and cooldown are checked elsewhere.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn matches(
        &self,
        event: TriggerEvent,
        subject: &Subject<'_>,
        pattern: Option<&LabelPattern>,
    ) -> Result<(), SkipReason> {
        let filter = &self.filter;
        let memory = subject.memory;
        let is_in = |namespace: &Option<String>| {
            namespace.as_ref().is_none_or(|required| *required == memory.namespace)
        };
        let is_of_type = filter.memory_type.is_none_or(|required| required == memory.memory_type);
        for (holds, reason) in [
            (self.enabled, SkipReason::Disabled),
            (self.event == event, SkipReason::Event),
            (is_in(&self.namespace), SkipReason::Namespace),
            (is_in(&filter.namespace), SkipReason::FilterNamespace),
            (is_of_type, SkipReason::MemoryType),
        ] {
            if !holds {
                return Err(reason);
            }
        }
        self.heat_matches(subject)?;
        if pattern.is_some_and(|pattern| !pattern.matches(subject.label)) {
            return Err(SkipReason::LabelPattern);
        }
        Ok(())
    }

    fn heat_matches(&self, subject: &Subject<'_>) -> Result<(), SkipReason> {
        let TriggerFilter { heat_below, heat_above, .. } = self.filter;
        let is_below = |heat: f64| heat_below.is_none_or(|bound| rounded(heat) < bound);
        let is_above = |heat: f64| heat_above.is_none_or(|bound| rounded(heat) > bound);
        match (self.event, subject.transition) {
            (
                TriggerEvent::Decay,
                Some(HeatTransition { before, start, now, cold_threshold, .. }),
            ) => {
                let bound = heat_below.unwrap_or(cold_threshold);
                let was_at_or_above = [before, start].iter().all(|heat| rounded(*heat) >= bound);
                if !was_at_or_above || rounded(now) >= bound {
                    return Err(SkipReason::NotCrossed);
                }
                if is_above(now) { Ok(()) } else { Err(SkipReason::HeatAbove) }
            }
            (
                TriggerEvent::Threshold,
                Some(HeatTransition { before, now, was_cold, is_cold, .. }),
            ) => {
                let has_crossed = match (heat_below, heat_above) {
                    (None, None) => was_cold != is_cold,
                    _ => is_below(now) && is_above(now) && !(is_below(before) && is_above(before)),
                };
                if has_crossed { Ok(()) } else { Err(SkipReason::NotCrossed) }
            }
            (TriggerEvent::Decay | TriggerEvent::Threshold, None) => Err(SkipReason::NotCrossed),
            _ if !is_below(subject.heat) => Err(SkipReason::HeatBelow),
            _ if !is_above(subject.heat) => Err(SkipReason::HeatAbove),
            _ => Ok(()),
        }
    }

    /// Checks `max_fires` and cooldown at `now`.
    ///
    /// # Errors
    /// The limit that prevents a firing.
    pub fn may_fire(&self, firings: &Firings, now: Timestamp) -> Result<(), SkipReason> {
        if self.max_fires.is_some_and(|max| firings.count >= max) {
            return Err(SkipReason::MaxFires);
        }
        let cooldown = i64::from(self.cooldown_seconds) * Timestamp::SECOND_MICROS;
        match firings.last_at {
            Some(last) if now.since(last) < cooldown => Err(SkipReason::Cooldown),
            _ => Ok(()),
        }
    }

    /// Heat thresholds of a trigger on tick events, rounded to 1e-6 as heats are. The
    /// conditions depend only on whether a heat is below each threshold.
    pub fn thresholds(&self) -> impl Iterator<Item = f64> {
        let thresholds = match self.event {
            _ if !self.enabled => (None, None),
            TriggerEvent::Decay => (self.filter.heat_below, None),
            // "Above the bound" is "not below the next step of 1e-6".
            TriggerEvent::Threshold => {
                let above = self.filter.heat_above;
                (self.filter.heat_below, above.map(|bound| rounded(bound + 1e-6)))
            }
            _ => (None, None),
        };
        [thresholds.0, thresholds.1].into_iter().flatten()
    }
}
