//! Evaluates the conditions of triggers. Pure functions: `decide::fire` checks access and
//! runs the actions.

use std::cell::{Cell, OnceCell};

use text::pattern::{FoldedText, LabelPattern};

use crate::id::Timestamp;
use crate::memory::{MemoryRecord, MemoryType};
use crate::score::rounded;
use crate::trigger::{Firings, Trigger, TriggerEvent, TriggerFilter};

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

named_enum! {
    /// The reason why a trigger does not fire. Its name is the field that prevents the firing.
    pub enum SkipReason {
        /// The trigger is disabled.
        Disabled = "enabled",
        /// The trigger is for another event.
        Event = "event",
        /// The memory is outside the trigger's namespace.
        Namespace = "namespace",
        /// The memory is outside the filter's namespace.
        FilterNamespace = "filter_namespace",
        /// The memory is of another type.
        MemoryType = "filter_memory_type",
        /// The label does not contain the pattern.
        LabelPattern = "filter_label_pattern",
        /// The heat is not below `heat_below`.
        HeatBelow = "filter_heat_below",
        /// The heat is not above `heat_above`.
        HeatAbove = "filter_heat_above",
        /// The heat did not cross the threshold.
        NotCrossed = "not_crossed",
        /// The owner may not read the memory.
        Access = "access",
        /// `max_fires` is reached.
        MaxFires = "max_fires",
        /// The cooldown has not passed.
        Cooldown = "cooldown_seconds",
        /// The limits of the command are reached.
        NoRoom = "no_room",
    }
}

/// A memory for which triggers are evaluated.
pub struct Subject {
    /// The memory with its present heat.
    pub record: MemoryRecord,
    /// Its label, prepared for pattern search by the first pattern.
    label: OnceCell<FoldedText>,
    searched_bytes: Cell<usize>,
}

impl Subject {
    /// A subject for `record`.
    pub fn new(record: MemoryRecord) -> Self {
        Self { record, label: OnceCell::new(), searched_bytes: Cell::new(0) }
    }

    /// Replaces the memory by its later state.
    pub fn update(&mut self, record: MemoryRecord) {
        if record.memory.label != self.record.memory.label {
            self.label = OnceCell::new();
        }
        self.record = record;
    }

    /// Bytes of the label that were prepared or searched since the last call.
    pub fn take_searched_bytes(&self) -> usize {
        self.searched_bytes.take()
    }

    fn contains(&self, pattern: &LabelPattern) -> bool {
        let prepare = || {
            self.count_bytes(self.record.memory.label.len());
            FoldedText::new(&self.record.memory.label)
        };
        let label = self.label.get_or_init(prepare);
        if !pattern.may_match(label) {
            return false;
        }
        self.count_bytes(label.bytes());
        pattern.matches(label)
    }

    fn count_bytes(&self, bytes: usize) {
        self.searched_bytes.set(self.searched_bytes.get() + bytes);
    }
}

impl Trigger {
    /// Evaluates the trigger's conditions on `event` and `subject`. `transition` is the change of
    /// its heat, for events of ticks. `pattern` is the compiled `label_pattern`. Access,
    /// `max_fires` and cooldown are checked elsewhere.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn matches(
        &self,
        event: TriggerEvent,
        transition: Option<HeatTransition>,
        subject: &Subject,
        pattern: Option<&LabelPattern>,
    ) -> Result<(), SkipReason> {
        let memory = &subject.record.memory;
        self.scope_matches(event, &memory.namespace, memory.memory_type)?;
        self.heat_matches(subject.record.heat, transition)?;
        if pattern.is_some_and(|pattern| !subject.contains(pattern)) {
            return Err(SkipReason::LabelPattern);
        }
        Ok(())
    }

    /// Evaluates the conditions that need no heat and no label.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn scope_matches(
        &self,
        event: TriggerEvent,
        namespace: &str,
        memory_type: MemoryType,
    ) -> Result<(), SkipReason> {
        let filter = &self.filter;
        let is_in = |required: &Option<String>| {
            required.as_ref().is_none_or(|required| *required == namespace)
        };
        let is_of_type = filter.memory_type.is_none_or(|required| required == memory_type);
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
        Ok(())
    }

    fn heat_matches(
        &self,
        heat: f64,
        transition: Option<HeatTransition>,
    ) -> Result<(), SkipReason> {
        let TriggerFilter { heat_below, heat_above, .. } = self.filter;
        let is_below = |heat: f64| heat_below.is_none_or(|bound| rounded(heat) < bound);
        let is_above = |heat: f64| heat_above.is_none_or(|bound| rounded(heat) > bound);
        match (self.event, transition) {
            (TriggerEvent::Decay, Some(transition)) => {
                let bound = heat_below.unwrap_or(transition.cold_threshold);
                let is_reached = |heat| rounded(heat) >= bound;
                let was_reached = is_reached(transition.before) && is_reached(transition.start);
                if !was_reached || is_reached(transition.now) {
                    return Err(SkipReason::NotCrossed);
                }
                if is_above(transition.now) { Ok(()) } else { Err(SkipReason::HeatAbove) }
            }
            (TriggerEvent::Threshold, Some(transition)) => {
                let passes = |heat| is_below(heat) && is_above(heat);
                let has_crossed = match (heat_below, heat_above) {
                    (None, None) => transition.was_cold != transition.is_cold,
                    _ => passes(transition.now) && !passes(transition.before),
                };
                if has_crossed { Ok(()) } else { Err(SkipReason::NotCrossed) }
            }
            (TriggerEvent::Decay | TriggerEvent::Threshold, None) => Err(SkipReason::NotCrossed),
            _ if !is_below(heat) => Err(SkipReason::HeatBelow),
            _ if !is_above(heat) => Err(SkipReason::HeatAbove),
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
        let TriggerFilter { heat_below, heat_above, .. } = self.filter;
        // "Above the bound" is "not below the next step of 1e-6".
        let above = heat_above.filter(|_| self.event == TriggerEvent::Threshold);
        let above = above.map(|bound| rounded(bound + 1e-6));
        let is_used = self.enabled && self.event.is_of_ticks();
        let thresholds = if is_used { [heat_below, above] } else { [None; 2] };
        thresholds.into_iter().flatten()
    }
}
