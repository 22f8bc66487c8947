//! What the clients were promised, and the check of that on a state that has everything.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use simulation::history::{
    Counter, CounterOperation, Event, Linearizability, Register, RegisterOperation, Set,
    SetOperation, check,
};

use crate::commands::{GROUPS, TENANT, TRIGGER, memory_id, number_of, value_of, with_word};
use crate::timeline::now;
use crate::world::{Running, World};

/// Sets of operations that a check of a register examines.
const BUDGET: usize = 200_000;

/// What the clients were promised.
#[derive(Default)]
pub struct Promises(pub Mutex<Record>);

/// See [`Promises`].
#[derive(Default)]
pub struct Record {
    /// The last number that was given away.
    pub next: u64,
    /// Operations on each register. `None` had no effect.
    pub registers: BTreeMap<u64, Vec<Option<Event<RegisterOperation>>>>,
    /// Reads of how often the trigger has fired.
    pub counts: Vec<Event<CounterOperation>>,
    /// Reads of the memories with a word.
    pub sets: BTreeMap<u64, Vec<Event<SetOperation>>>,
    /// Memories that were created once.
    pub memories: BTreeMap<u64, Fate>,
    /// Memories of which exactly one must be there, or at most one without an acknowledgement.
    pub alternatives: BTreeMap<u64, Alternatives>,
    /// Operations that returned.
    pub completed: u64,
}

/// A request, and what became of it.
#[derive(Clone, Copy)]
pub struct Attempt {
    /// When it was called.
    pub called: u64,
    /// Its effect.
    pub effect: Effect,
}

/// The effect of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It was acknowledged at this time.
    Done(u64),
    /// It may have one, also later.
    Unknown,
    /// It has none.
    None,
}

/// The creation of a memory, and its deletion after that.
#[derive(Clone, Copy)]
pub struct Fate {
    pub created: Attempt,
    pub deleted: Option<Attempt>,
}

/// Attempts to create one memory with one receipt.
#[derive(Clone)]
pub struct Alternatives {
    /// The memory of each attempt.
    pub numbers: Vec<u64>,
    /// When the first one was called.
    pub called: u64,
    /// When one of them was acknowledged, and the memory that the reply named.
    pub returned: Option<u64>,
    pub named: Option<u64>,
}

impl Attempt {
    fn returned(self) -> Option<u64> {
        match self.effect {
            Effect::Done(at) => Some(at),
            Effect::Unknown | Effect::None => None,
        }
    }
}

impl Fate {
    /// Whether the memory must be there, or must not.
    pub fn is_there(self) -> Option<bool> {
        match (self.created.effect, self.deleted.map(|it| it.effect)) {
            (Effect::None, _) | (_, Some(Effect::Done(_))) => Some(false),
            (Effect::Done(_), None | Some(Effect::None)) => Some(true),
            _ => None,
        }
    }
}

impl Promises {
    /// Operations that returned.
    pub fn completed(&self) -> u64 {
        self.0.lock().completed
    }

    /// Checks the promises on a state that has everything, and the histories.
    pub fn check(&self, world: &World, running: &Running) {
        let record = self.0.lock();
        let is_there = |number: u64| {
            let found = running.reader.get(TENANT, memory_id(number));
            let found = found.map_err(|error| world.violate(format!("a read fails: {error}")));
            found.ok().flatten().is_some()
        };
        let (mut counts, mut sets) = (record.counts.clone(), record.sets.clone());
        let mut add = |number, called, returned| {
            counts.push(Event { called, returned, operation: CounterOperation::Add(1) });
            let operation = SetOperation::Add(number);
            sets.entry(number % GROUPS).or_default().push(Event { called, returned, operation });
        };
        let mut created = 0;
        for (number, fate) in &record.memories {
            let (expected, found) = (fate.is_there(), is_there(*number));
            if expected.is_some_and(|expected| expected != found) {
                world.violate(format!("memory {number} should be there: {expected:?}"));
            }
            let Fate { created: creation, .. } = fate;
            if found || creation.returned().is_some() {
                created += 1;
                add(*number, creation.called, creation.returned());
            }
        }
        for Alternatives { numbers, called, returned, named } in record.alternatives.values() {
            let there: Vec<u64> =
                numbers.iter().copied().filter(|number| is_there(*number)).collect();
            let count = there.len();
            if count > 1 || returned.is_some() && there != named.iter().copied().collect::<Vec<_>>()
            {
                world.violate(format!("{there:?} of {numbers:?}; the receipt names {named:?}"));
            }
            if let Some(number) = there.first() {
                created += 1;
                add(*number, *called, *returned);
            }
        }
        for (number, fate) in &record.memories {
            if let Some(deletion) = fate.deleted.filter(|it| it.effect != Effect::None) {
                let (called, returned) = (deletion.called, deletion.returned());
                let event = Event { called, returned, operation: SetOperation::Remove(*number) };
                sets.entry(number % GROUPS).or_default().push(event);
            }
        }
        // That of the last command, which is no client's.
        created += u64::from(is_there(900));
        let fired = running.reader.firings(TENANT, TRIGGER).total;
        if fired != created {
            world.violate(format!("the trigger has fired {fired} times for {created} memories"));
        }
        let (called, never) = (now().as_nanos() as u64, u64::MAX - 1);
        let operation = CounterOperation::Read(fired);
        counts.push(Event { called, returned: Some(never), operation });
        let (last, add) = (is_there(900), CounterOperation::Add(1));
        counts.extend(last.then_some(Event { called: 0, returned: None, operation: add }));
        report(world, "the counter", check(&Counter, &counts, BUDGET));
        for (group, history) in &mut sets {
            let page = running.reader.list(TENANT, &with_word(*group));
            let page = page.map_err(|error| world.violate(format!("a list fails: {error}")));
            let found = page.ok().map(|it| it.memories).unwrap_or_default();
            let found = found.iter().filter_map(|it| number_of(it.id)).collect();
            let operation = SetOperation::Read(found);
            history.push(Event { called, returned: Some(never), operation });
            report(world, &format!("set {group}"), check(&Set, history, BUDGET));
        }
        for (register, history) in &record.registers {
            let mut history: Vec<_> = history.iter().flatten().cloned().collect();
            let found = running.reader.get(TENANT, memory_id(*register)).ok().flatten();
            let value = found.and_then(|found| value_of(&found.memory.label));
            let operation = RegisterOperation::Read(value);
            history.push(Event { called, returned: Some(never), operation });
            report(world, &format!("register {register}"), check(&Register, &history, BUDGET));
        }
    }
}

fn report(world: &World, what: &str, found: Linearizability) {
    match found {
        Linearizability::Holds => {}
        Linearizability::Undecided => {
            world.trace(&format!("{what}: undecided"));
            world.with(|state| state.undecided += 1);
        }
        Linearizability::Broken => {
            world.violate(format!("the history of {what} is not linearizable"))
        }
    }
}
