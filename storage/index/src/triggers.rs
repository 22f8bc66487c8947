//! The triggers of one tenant, indexed by event in the order of evaluation, with compiled
//! patterns. `decide::fire` evaluates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::id::{KeyId, TriggerId};
use model::memory::MemoryType;
use model::trigger::{Trigger, TriggerEvent};
use text::pattern::LabelPattern;

/// A trigger with its compiled pattern.
#[derive(Debug)]
pub struct CompiledTrigger {
    /// Its id.
    pub id: TriggerId,
    /// The stored trigger.
    pub trigger: Trigger,
    pub pattern: Option<LabelPattern>,
}

#[derive(Debug, Clone, Default)]
pub struct Triggers {
    /// By event, in order of their numbers.
    events: [Vec<Arc<CompiledTrigger>>; TriggerEvent::ALL.len()],
    /// Heat thresholds of the triggers on tick events, sorted. See [`Trigger::thresholds`].
    thresholds: Vec<f64>,
    /// The enabled triggers on recall.
    on_recall: BTreeMap<Scope, OwnerCounts>,
}

/// The namespace and type that a trigger requires.
type Scope = (Option<String>, Option<MemoryType>);

/// The number of triggers of each owner. `None` owns those that no key created.
pub type OwnerCounts = BTreeMap<Option<KeyId>, usize>;

impl Triggers {
    pub fn on(&self, event: TriggerEvent) -> &[Arc<CompiledTrigger>] {
        &self.events[event as usize]
    }

    /// All triggers in order of their numbers.
    pub fn all(&self) -> Vec<Arc<CompiledTrigger>> {
        let mut all: Vec<_> = self.events.iter().flatten().cloned().collect();
        all.sort_by_key(|compiled| compiled.trigger.number);
        all
    }

    pub fn count(&self) -> usize {
        self.events.iter().map(Vec::len).sum()
    }

    /// Number of the triggers of an API key.
    pub fn owned_by(&self, owner: KeyId) -> usize {
        let all = self.events.iter().flatten();
        all.filter(|compiled| compiled.trigger.owner == Some(owner)).count()
    }

    pub fn next_number(&self) -> u64 {
        let last = self.events.iter().filter_map(|triggers| triggers.last());
        last.map(|compiled| compiled.trigger.number).max().unwrap_or(0) + 1
    }

    pub fn thresholds(&self) -> &[f64] {
        &self.thresholds
    }

    /// The owners of the enabled triggers that wait for the recall of a memory like this one. Labels
    /// and heats are not compared.
    pub fn owners_on_recall(&self, namespace: &str, memory_type: MemoryType) -> OwnerCounts {
        let mut owners = OwnerCounts::new();
        for namespace in [None, Some(namespace.to_owned())] {
            for memory_type in [None, Some(memory_type)] {
                let of_scope = self.on_recall.get(&(namespace.clone(), memory_type));
                for (owner, count) in of_scope.into_iter().flatten() {
                    *owners.entry(*owner).or_default() += count;
                }
            }
        }
        owners
    }

    /// Whether an enabled trigger for `event` exists.
    pub fn has_event(&self, event: TriggerEvent) -> bool {
        self.on(event).iter().any(|compiled| compiled.trigger.enabled)
    }

    /// Whether an enabled trigger waits for ticks.
    pub fn has_tick_event(&self) -> bool {
        let mut events = TriggerEvent::ALL.into_iter().filter(|event| event.is_of_ticks());
        events.any(|event| self.has_event(event))
    }

    pub fn of(all: Vec<(TriggerId, Trigger)>) -> Self {
        let mut triggers = Self::default();
        for (id, trigger) in all {
            triggers.insert(id, trigger);
        }
        triggers.collect_thresholds();
        triggers
    }

    pub fn put(&mut self, id: TriggerId, trigger: Trigger) {
        let is_of_ticks = trigger.event.is_of_ticks();
        self.take(id);
        self.insert(id, trigger);
        if is_of_ticks {
            self.collect_thresholds();
        }
    }

    fn insert(&mut self, id: TriggerId, trigger: Trigger) {
        if let Some(scope) = scope(&trigger) {
            *self.on_recall.entry(scope).or_default().entry(trigger.owner).or_default() += 1;
        }
        let of_event = &mut self.events[trigger.event as usize];
        let at = of_event.partition_point(|other| other.trigger.number < trigger.number);
        let pattern = trigger.filter.label_pattern.as_deref().map(LabelPattern::new);
        of_event.insert(at, Arc::new(CompiledTrigger { id, trigger, pattern }));
    }

    pub fn remove(&mut self, id: TriggerId) {
        self.take(id);
        self.collect_thresholds();
    }

    fn take(&mut self, id: TriggerId) {
        let on_recall = &self.events[TriggerEvent::Recall as usize];
        let taken = on_recall.iter().find(|compiled| compiled.id == id);
        let counted = taken.and_then(|it| Some((scope(&it.trigger)?, it.trigger.owner)));
        if let Some((scope, owner)) = counted
            && let Some(owners) = self.on_recall.get_mut(&scope)
            && let Some(count) = owners.get_mut(&owner)
        {
            *count -= 1;
            if *count == 0 {
                owners.remove(&owner);
            }
            if owners.is_empty() {
                self.on_recall.remove(&scope);
            }
        }
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

/// What a trigger on recall requires of a memory; `None` if it fires for none.
fn scope(trigger: &Trigger) -> Option<Scope> {
    let Trigger { enabled, event, namespace, filter, .. } = trigger;
    let is_possible =
        namespace.is_none() || filter.namespace.is_none() || *namespace == filter.namespace;
    let namespace = namespace.clone().or_else(|| filter.namespace.clone());
    let waits = *enabled && is_possible && *event == TriggerEvent::Recall;
    waits.then_some((namespace, filter.memory_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Timestamp;
    use model::trigger::{TriggerAction, TriggerFilter};

    const NAMESPACES: [Option<&str>; 3] = [None, Some("one"), Some("other")];

    /// The trigger of a number: every combination of what decides is among the first 324.
    fn trigger(number: u64) -> Trigger {
        let mut rest = number as usize;
        let mut choose = |choices| {
            let choice = rest % choices;
            rest /= choices;
            choice
        };
        let event = [TriggerEvent::Recall, TriggerEvent::Boost][choose(2)];
        let namespace = NAMESPACES[choose(3)].map(str::to_owned);
        let filter = TriggerFilter {
            namespace: NAMESPACES[choose(3)].map(str::to_owned),
            memory_type: [None, Some(MemoryType::Fact), Some(MemoryType::Episodic)][choose(3)],
            ..TriggerFilter::default()
        };
        Trigger {
            number,
            name: String::new(),
            description: String::new(),
            event,
            action: TriggerAction::Pin,
            namespace,
            filter,
            max_fires: None,
            cooldown_seconds: 0,
            enabled: choose(2) == 0,
            owner: [None, Some(KeyId([1; 8])), Some(KeyId([2; 8]))][choose(3)],
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        }
    }

    fn id(number: u64) -> TriggerId {
        TriggerId(u128::from(number).to_be_bytes())
    }

    fn assert_counts_are_those_of_a_scan(triggers: &Triggers) {
        let event = TriggerEvent::Recall;
        for namespace in ["one", "other", "third"] {
            for memory_type in [MemoryType::Fact, MemoryType::Episodic, MemoryType::Semantic] {
                let mut scanned = OwnerCounts::new();
                for compiled in triggers.all() {
                    let trigger = &compiled.trigger;
                    if trigger.scope_matches(event, namespace, memory_type).is_ok() {
                        *scanned.entry(trigger.owner).or_default() += 1;
                    }
                }
                assert_eq!(triggers.owners_on_recall(namespace, memory_type), scanned);
            }
        }
    }

    #[test]
    fn owners_on_recall_are_those_of_a_scan() {
        let mut triggers =
            Triggers::of((0..324).map(|number| (id(number), trigger(number))).collect());
        assert_counts_are_those_of_a_scan(&triggers);
        assert!(triggers.owners_on_recall("one", MemoryType::Fact).len() == 3);
        // Each becomes another one, or goes.
        for number in (0..324).step_by(5) {
            let other = if number % 2 == 0 { number + 162 } else { number + 163 };
            triggers.put(id(number), Trigger { number, ..trigger(other) });
            triggers.remove(id(number + 1));
            assert_counts_are_those_of_a_scan(&triggers);
        }
        (0..324).for_each(|number| triggers.remove(id(number)));
        assert!(triggers.on_recall.is_empty());
    }
}
