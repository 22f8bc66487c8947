//! What the clients were promised, and the check of that on a state that has everything.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::{Mutex, MutexGuard};
use simulation::history::{
    Counter, CounterOperation, Event, Linearizability, Register, RegisterOperation, Set,
    SetOperation, Writes, check,
};

use storage::model::id::TriggerId;
use storage::model::memory::MemoryType;
use storage::model::score::rounded;
use storage::{Page, Reader, View};

use crate::commands::{
    COOLER, COOLING, FIRES_MAX, GROUPS, LAST, LIMITED, TENANT, TRIGGER, TWINS, memory_id,
    number_of, twin_of, value_of, with_word,
};
use crate::timeline::now;
use crate::world::{Running, World};

/// Sets of operations that a check of a register examines.
const BUDGET: usize = 200_000;

/// What the clients were promised.
#[derive(Default)]
pub struct Promises(Mutex<Record>);

/// See [`Promises`].
#[derive(Default)]
pub struct Record {
    /// The last number that was given away.
    pub next: u64,
    /// Operations on each register. `None` had no effect.
    pub registers: BTreeMap<u64, Vec<Option<Event<RegisterOperation>>>>,
    /// Reads of how often the trigger has fired.
    pub firings: Vec<Event<CounterOperation>>,
    /// Feedback, and reads of how often it was given.
    pub ratings: Vec<Event<CounterOperation>>,
    /// Reads of the memories with a word.
    pub sets: BTreeMap<u64, Vec<Event<SetOperation>>>,
    /// The acknowledged writes of each register.
    pub writes: BTreeMap<u64, Writes>,
    /// The index at which a memory was created once.
    pub creates: BTreeMap<u64, u64>,
    /// The index at which it was deleted.
    pub deletes: BTreeMap<u64, u64>,
    /// Indexes at which feedback was there.
    pub rated: Vec<u64>,
    /// Memories that were created once, with their twins.
    pub memories: BTreeMap<u64, Fate>,
    /// Memories of which exactly one must be there with its twin, or at most one without an acknowledgement.
    pub alternatives: BTreeMap<u64, Alternatives>,
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

/// A memory that was created, or may have been.
struct Created {
    number: u64,
    called: u64,
    returned: Option<u64>,
}

impl Record {
    /// A memory of a group that was there at an index, that no client has deleted, and that is not among `found`;
    /// or one that was deleted there, and is.
    pub fn outdated(&self, group: u64, index: u64, found: &BTreeSet<u64>) -> Option<u64> {
        let is_kept = |number: &u64| {
            self.memories.get(number).is_some_and(|fate| fate.deleted.is_none())
                && number % GROUPS == group
        };
        let until = |(number, at): (&u64, &u64)| (*at <= index).then_some(*number);
        let mut kept = self.creates.iter().filter_map(until).filter(is_kept);
        let mut deleted = self.deletes.iter().filter_map(until);
        kept.find(|it| !found.contains(it)).or_else(|| deleted.find(|it| found.contains(it)))
    }

    /// How often the trigger had fired at an index at least.
    pub fn least_firings(&self, index: u64) -> u64 {
        2 * self.creates.values().filter(|at| **at <= index).count() as u64
    }

    /// How often feedback was given at an index at least.
    pub fn least_ratings(&self, index: u64) -> u64 {
        self.rated.iter().filter(|at| **at <= index).count() as u64
    }

    /// What was created, as a state says that has everything.
    fn created(&self, is_there: impl Fn(u64) -> bool) -> Vec<Created> {
        let single = self.memories.iter().filter_map(|(number, fate)| {
            let (called, returned) = (fate.created.called, fate.created.returned());
            let was_created = returned.is_some() || is_there(*number);
            was_created.then_some(Created { number: *number, called, returned })
        });
        let of_receipts = self.alternatives.values().flat_map(|it| {
            let returned = |number| it.returned.filter(|_| it.named == Some(number));
            let there = it.numbers.iter().copied().filter(|number| is_there(*number));
            let created =
                |number| Created { number, called: it.called, returned: returned(number) };
            there.map(created).collect::<Vec<_>>()
        });
        single.chain(of_receipts).collect()
    }
}

impl Promises {
    /// What they were, locked.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock()
    }

    /// Checks the promises on a state that has everything, and the histories.
    pub fn check(&self, world: &World, running: &Running) {
        self.check_state(world, running, true);
        self.check_counters_and_sets(world, running);
        self.check_registers(world, Some(running));
    }

    /// Checks what holds in a state that may lack the last entries. What clients read was right.
    pub fn check_part(&self, world: &World, running: Option<&Running>) {
        if let Some(running) = running {
            self.check_state(world, running, false);
            for group in 0..GROUPS {
                let found = read(world, running.reader.list(TENANT, &with_word(group)));
                found.iter().for_each(|page| drop(pairs(world, page)));
            }
        }
        self.check_registers(world, None);
    }

    fn check_state(&self, world: &World, running: &Running, has_all: bool) {
        let record = self.record();
        let is_there = |number: u64| is_there(world, running, number);
        for (number, fate) in &record.memories {
            let was_rejected = (fate.created.effect == Effect::None).then_some(false);
            let expected = if has_all { fate.is_there() } else { was_rejected };
            if expected.is_some_and(|expected| expected != is_there(*number)) {
                world.violate(format!("memory {number} should be there: {expected:?}"));
            }
        }
        for Alternatives { numbers, returned, named, .. } in record.alternatives.values() {
            let there: Vec<u64> =
                numbers.iter().copied().filter(|number| is_there(*number)).collect();
            let lacks =
                has_all && returned.is_some() && !named.is_some_and(|it| there.contains(&it));
            if lacks || there.len() > 1 && world.keeps_receipts() {
                world.violate(format!("{there:?} of {numbers:?}; the receipt names {named:?}"));
            }
        }
        let created = record.created(is_there);
        let mut created: Vec<u64> =
            created.iter().flat_map(|it| [it.number, twin_of(it.number)]).collect();
        // That of the last command is no client's.
        created.push(LAST);
        created.sort_unstable();
        let of_trigger = |trigger| read(world, subjects(running, trigger)).unwrap_or_default();
        let fired = of_trigger(TRIGGER);
        let has_fired_twice = fired.windows(2).any(|pair| pair[0] == pair[1]);
        if has_all && fired != created || has_fired_twice {
            world.violate(format!("the trigger has fired for {fired:?}, not for {created:?}"));
        }
        let limited = running.reader.firings(TENANT, LIMITED).total;
        if limited != FIRES_MAX.min(fired.len() as u64) {
            world.violate(format!("a trigger with a limit has fired {limited} times"));
        }
        // None is warmed again: a second crossing would be that of a tick that was done twice.
        let cooled = of_trigger(COOLING);
        if cooled.windows(2).any(|pair| pair[0] == pair[1]) {
            world.violate(format!("memories have cooled twice: {cooled:?}"));
        }
        cooled.iter().for_each(|_| world.count("memories cooled"));
        // The tick over a restoration fires nothing.
        if has_all && !world.is_recovered() {
            check_ticks(world, running, &created, &cooled);
        }
    }

    fn check_counters_and_sets(&self, world: &World, running: &Running) {
        let record = self.record();
        let is_there = |number: u64| is_there(world, running, number);
        let (mut firings, mut sets) = (record.firings.clone(), record.sets.clone());
        for Created { number, called, returned } in record.created(is_there) {
            firings.push(Event { called, returned, operation: CounterOperation::Add(2) });
            let operation = SetOperation::Add(number);
            sets.entry(number % GROUPS).or_default().push(Event { called, returned, operation });
        }
        for (number, fate) in &record.memories {
            if let Some(deletion) = fate.deleted.filter(|it| it.effect != Effect::None) {
                let (called, returned) = (deletion.called, deletion.returned());
                let event = Event { called, returned, operation: SetOperation::Remove(*number) };
                sets.entry(number % GROUPS).or_default().push(event);
            }
        }
        let operation = CounterOperation::Add(1);
        firings.push(Event { called: 0, returned: None, operation });
        firings.push(last_read(CounterOperation::Read(fired(&running.reader))));
        report(world, "the firings", check(&Counter, &firings, BUDGET));
        if world.keeps_receipts() {
            world.count("states with receipts");
            let mut rated = record.ratings.clone();
            let last = read(world, ratings(&running.reader)).map(CounterOperation::Read);
            rated.extend(last.map(last_read));
            report(world, "the ratings", check(&Counter, &rated, BUDGET));
        }
        for (group, history) in &mut sets {
            let found = read(world, running.reader.list(TENANT, &with_word(*group)));
            let found = found.map(|page| SetOperation::Read(pairs(world, &page)));
            history.extend(found.map(last_read));
            report(world, &format!("set {group}"), check(&Set, history, BUDGET));
        }
    }

    /// Checks the histories of registers, whose operations alone say what was written. `running` has a state
    /// that has everything.
    fn check_registers(&self, world: &World, running: Option<&Running>) {
        for (register, history) in &self.record().registers {
            let mut history: Vec<_> = history.iter().flatten().cloned().collect();
            history.extend(running.map(|running| {
                let found = running.reader.get(TENANT, memory_id(*register)).ok().flatten();
                let value = found.and_then(|found| value_of(&found.memory.label));
                last_read(RegisterOperation::Read(value))
            }));
            report(world, &format!("register {register}"), check(&Register, &history, BUDGET));
        }
    }
}

/// A read after all requests.
fn last_read<O>(operation: O) -> Event<O> {
    Event { called: now().as_nanos() as u64, returned: Some(u64::MAX - 1), operation }
}

/// What was read, if reading did not fail.
fn read<T>(world: &World, found: storage::Result<T>) -> Option<T> {
    found.map_err(|error| world.violate(format!("a read fails: {error}"))).ok()
}

fn is_there(world: &World, running: &Running, number: u64) -> bool {
    read(world, running.reader.get(TENANT, memory_id(number))).flatten().is_some()
}

/// Checks that the trigger of ticks has fired for each of these memories that had cooled at the last tick.
fn check_ticks(world: &World, running: &Running, created: &[u64], cooled: &[u64]) {
    let Some(tick) = read(world, running.reader.tick(TENANT)).flatten() else { return };
    for number in created {
        let id = memory_id(*number);
        let found = read(world, running.reader.get(TENANT, id)).flatten();
        let heats = found.and_then(|found| tick.heats(&found.memory, &found.anchor));
        let has_cooled =
            heats.is_some_and(|(_, now)| rounded(now) < COOLER) && !tick.has_not_reached(id);
        if has_cooled && cooled.binary_search(number).is_err() {
            world.violate(format!("memory {number} has cooled, and no tick said so"));
        }
    }
}

/// How often the trigger has fired.
pub fn fired(reader: &Reader) -> u64 {
    reader.firings(TENANT, TRIGGER).total
}

/// How often feedback was given.
pub fn ratings(reader: &Reader) -> storage::Result<u64> {
    Ok(reader.recall_stats(TENANT)?.types[MemoryType::Episodic as usize].wrong)
}

/// The memories of a page, without their twins. A memory without its twin is half of a command.
pub fn pairs(world: &World, page: &Page) -> BTreeSet<u64> {
    let mut found: BTreeSet<u64> = page.memories.iter().filter_map(|it| number_of(it.id)).collect();
    if let Some(half) = found.iter().find(|number| !found.contains(&twin_of(**number))) {
        world.violate(format!("memory {half} is there without its twin"));
    }
    found.retain(|number| *number < TWINS);
    found
}

/// The memories for which a trigger has fired, each as often, in ascending order.
fn subjects(running: &Running, trigger: TriggerId) -> storage::Result<Vec<u64>> {
    let (mut subjects, mut before) = (Vec::new(), None);
    loop {
        let page = running.reader.trigger_journal(TENANT, before, usize::MAX, |event| {
            Ok(event.kind.trigger() == Some(trigger))
        })?;
        let of_page = page.events.into_iter().filter_map(|(_, event)| number_of(event.subject?));
        subjects.extend(of_page);
        before = page.next;
        if before.is_none() {
            subjects.sort_unstable();
            return Ok(subjects);
        }
    }
}

fn report(world: &World, what: &str, found: Linearizability) {
    match found {
        Linearizability::Holds => {}
        Linearizability::Undecided => {
            world.violate(format!("whether the history of {what} is linearizable is undecided"))
        }
        Linearizability::Broken => {
            world.violate(format!("the history of {what} is not linearizable"))
        }
    }
}
