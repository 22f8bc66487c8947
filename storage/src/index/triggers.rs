//! A tenant's triggers by event, in the order in which they are asked, with their patterns
//! made ready. Whether one fires is decided elsewhere.

use std::sync::Arc;

use crate::model::id::TriggerId;
use crate::model::pattern::Pattern;
use crate::model::trigger::{Trigger, TriggerEvent};

/// A trigger that waits for its event.
#[derive(Debug)]
pub struct CompiledTrigger {
    /// Its id.
    pub id: TriggerId,
    /// What it waits for and does.
    pub trigger: Trigger,
    pub(crate) pattern: Option<Pattern>,
}

/// The triggers of one tenant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Triggers {
    /// By event, in the order of their numbers.
    events: [Vec<Arc<CompiledTrigger>>; TriggerEvent::ALL.len()],
    /// Heats at which some of them may begin or cease to hold when a tick looks, in order.
    thresholds: Vec<f64>,
}

impl Triggers {
    /// Those that wait for `event`.
    pub(crate) fn on(&self, event: TriggerEvent) -> &[Arc<CompiledTrigger>] {
        &self.events[event as usize]
    }

    /// All, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<CompiledTrigger>> {
        let mut all: Vec<_> = self.events.iter().flatten().cloned().collect();
        all.sort_by_key(|compiled| compiled.trigger.number);
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.events.iter().map(Vec::len).sum()
    }

    /// The number that the next one gets.
    pub(crate) fn next_number(&self) -> u64 {
        let last = self.events.iter().filter_map(|waiting| waiting.last());
        last.map(|compiled| compiled.trigger.number).max().unwrap_or(0) + 1
    }

    /// See [`Trigger::thresholds`].
    pub(crate) fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// Whether an enabled one waits for `event`.
    pub(crate) fn has_event(&self, event: TriggerEvent) -> bool {
        self.on(event).iter().any(|compiled| compiled.trigger.enabled)
    }

    /// All of a tenant's at once.
    pub(crate) fn of(all: Vec<(TriggerId, Trigger)>) -> Self {
        let mut triggers = Self::default();
        for (id, trigger) in all {
            let pattern = trigger.filter.label_pattern.as_deref().map(Pattern::new);
            let waiting = &mut triggers.events[trigger.event as usize];
            waiting.push(Arc::new(CompiledTrigger { id, trigger, pattern }));
        }
        for waiting in &mut triggers.events {
            waiting.sort_by_key(|compiled| compiled.trigger.number);
        }
        triggers.find_thresholds();
        triggers
    }

    pub(crate) fn put(&mut self, id: TriggerId, trigger: Trigger) {
        let by_tick = matches!(trigger.event, TriggerEvent::Decay | TriggerEvent::Threshold);
        self.take(id);
        let pattern = trigger.filter.label_pattern.as_deref().map(Pattern::new);
        let waiting = &mut self.events[trigger.event as usize];
        let at = waiting.partition_point(|other| other.trigger.number < trigger.number);
        waiting.insert(at, Arc::new(CompiledTrigger { id, trigger, pattern }));
        if by_tick {
            self.find_thresholds();
        }
    }

    pub(crate) fn remove(&mut self, id: TriggerId) {
        self.take(id);
        self.find_thresholds();
    }

    fn take(&mut self, id: TriggerId) {
        self.events.iter_mut().for_each(|waiting| waiting.retain(|other| other.id != id));
    }

    fn find_thresholds(&mut self) {
        let ticks = [TriggerEvent::Decay, TriggerEvent::Threshold];
        let compiled = ticks.into_iter().flat_map(|event| self.on(event));
        let mut thresholds: Vec<f64> =
            compiled.flat_map(|compiled| compiled.trigger.thresholds()).collect();
        thresholds.sort_by(f64::total_cmp);
        thresholds.dedup();
        self.thresholds = thresholds;
    }
}
