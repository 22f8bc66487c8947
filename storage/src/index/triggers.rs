//! The triggers of one tenant, indexed by event in the order of evaluation, with compiled
//! patterns. `decide::fire` evaluates them.

use std::sync::Arc;

use crate::model::id::{KeyId, TriggerId};
use crate::model::pattern::LabelPattern;
use crate::model::trigger::{Trigger, TriggerEvent};

/// A trigger with its compiled pattern.
#[derive(Debug)]
pub struct CompiledTrigger {
    /// Its id.
    pub id: TriggerId,
    /// The stored trigger.
    pub trigger: Trigger,
    pub(crate) pattern: Option<LabelPattern>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Triggers {
    /// By event, in order of their numbers.
    events: [Vec<Arc<CompiledTrigger>>; TriggerEvent::ALL.len()],
    /// Heat thresholds of the triggers on tick events, sorted. See [`Trigger::thresholds`].
    thresholds: Vec<f64>,
}

impl Triggers {
    pub(crate) fn on(&self, event: TriggerEvent) -> &[Arc<CompiledTrigger>] {
        &self.events[event as usize]
    }

    /// All triggers in order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<CompiledTrigger>> {
        let mut all: Vec<_> = self.events.iter().flatten().cloned().collect();
        all.sort_by_key(|compiled| compiled.trigger.number);
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.events.iter().map(Vec::len).sum()
    }

    /// Number of the triggers of an API key.
    pub(crate) fn owned_by(&self, owner: KeyId) -> usize {
        let all = self.events.iter().flatten();
        all.filter(|compiled| compiled.trigger.owner == Some(owner)).count()
    }

    pub(crate) fn next_number(&self) -> u64 {
        let last = self.events.iter().filter_map(|triggers| triggers.last());
        last.map(|compiled| compiled.trigger.number).max().unwrap_or(0) + 1
    }

    pub(crate) fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// Whether an enabled trigger for `event` exists.
    pub(crate) fn has_event(&self, event: TriggerEvent) -> bool {
        self.on(event).iter().any(|compiled| compiled.trigger.enabled)
    }

    /// Whether an enabled trigger waits for ticks.
    pub(crate) fn has_tick_event(&self) -> bool {
        let mut events = TriggerEvent::ALL.into_iter().filter(|event| event.is_of_ticks());
        events.any(|event| self.has_event(event))
    }

    pub(crate) fn of(all: Vec<(TriggerId, Trigger)>) -> Self {
        let mut triggers = Self::default();
        for (id, trigger) in all {
            triggers.insert(id, trigger);
        }
        triggers.collect_thresholds();
        triggers
    }

    pub(crate) fn put(&mut self, id: TriggerId, trigger: Trigger) {
        let is_of_ticks = trigger.event.is_of_ticks();
        self.take(id);
        self.insert(id, trigger);
        if is_of_ticks {
            self.collect_thresholds();
        }
    }

    fn insert(&mut self, id: TriggerId, trigger: Trigger) {
        let of_event = &mut self.events[trigger.event as usize];
        let at = of_event.partition_point(|other| other.trigger.number < trigger.number);
        let pattern = trigger.filter.label_pattern.as_deref().map(LabelPattern::new);
        of_event.insert(at, Arc::new(CompiledTrigger { id, trigger, pattern }));
    }

    pub(crate) fn remove(&mut self, id: TriggerId) {
        self.take(id);
        self.collect_thresholds();
    }

    fn take(&mut self, id: TriggerId) {
        self.events.iter_mut().for_each(|of_event| of_event.retain(|other| other.id != id));
    }

    fn collect_thresholds(&mut self) {
        let events = TriggerEvent::ALL.into_iter().filter(|event| event.is_of_ticks());
        let compiled = events.flat_map(|event| self.on(event));
        let mut thresholds: Vec<f64> =
            compiled.flat_map(|compiled| compiled.trigger.thresholds()).collect();
        thresholds.sort_by(f64::total_cmp);
        thresholds.dedup();
        self.thresholds = thresholds;
    }
}
