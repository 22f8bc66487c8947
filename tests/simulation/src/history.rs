//! Whether a history of concurrent operations is linearizable: whether each can take effect at one moment
//! between its call and its return, so that all results are those of one copy of the data (Herlihy and
//! Wing, 1990).
//!
//! The algorithm is that of Wing and Gong (1993) with Lowe's memo (2017): it takes operations one after
//! the other in an order that their times allow, goes back when none fits, and never visits the same set
//! of operations with the same state twice. A read that fits comes first: it restricts none of the others. If none
//! fits, operations that the next read needs come first. Of equal operations, the one that returns first comes
//! first. Each object has a history of its own, since linearizability is local. An operation without a response
//! may take effect at any time after its call, or never.

use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

/// How an object behaves that has one copy.
pub trait Model {
    /// What it holds.
    type State: Clone + Eq + Hash;
    /// An operation with its result.
    type Operation: PartialEq;

    /// What it holds at first.
    fn initial(&self) -> Self::State;

    /// What it holds after an operation; `None` if the operation cannot have that result.
    fn apply(&self, state: &Self::State, operation: &Self::Operation) -> Option<Self::State>;

    /// Whether an operation has no effect on any state.
    fn is_read(&self, operation: &Self::Operation) -> bool;

    /// Whether an operation shows the effect of `open`, which has no response. If none does, `open` may just as
    /// well have had no effect.
    fn shows(&self, _operation: &Self::Operation, _open: &Self::Operation) -> bool {
        true
    }

    /// How many different operations must come before a read fits.
    fn distance(&self, _state: &Self::State, _read: &Self::Operation) -> usize {
        0
    }

    /// Whether an operation is one of them.
    fn is_step(
        &self,
        _state: &Self::State,
        _read: &Self::Operation,
        _operation: &Self::Operation,
    ) -> bool {
        false
    }
}

/// An operation of a history. Times are those of one clock.
#[derive(Debug, Clone)]
pub struct Event<O> {
    /// When it was called.
    pub called: u64,
    /// When it returned. `None`: it has no response.
    pub returned: Option<u64>,
    /// What it did.
    pub operation: O,
}

/// What a check finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linearizability {
    /// There is an order of all operations.
    Holds,
    /// There is none.
    Broken,
    /// None was found with the budget.
    Undecided,
}

/// Checks the history of one object. It examines `budget` pairs of a set of operations and a state at most.
pub fn check<M: Model>(
    model: &M,
    history: &[Event<M::Operation>],
    budget: usize,
) -> Linearizability {
    let counts = |event: &&Event<M::Operation>| {
        let shows = |other: &Event<M::Operation>| model.shows(&other.operation, &event.operation);
        event.returned.is_some() || history.iter().any(shows)
    };
    let mut order: Vec<&Event<M::Operation>> = history.iter().filter(counts).collect();
    order.sort_by_key(|event| event.called);
    let (taken, state) = (Taken::new(order.len()), model.initial());
    let mut search = Search { model, order, seen: HashSet::new(), budget };
    search.run(taken, state)
}

/// A set of operations, as bits.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Taken(Vec<u64>);

impl Taken {
    fn new(operations: usize) -> Self {
        Self(vec![0; operations.div_ceil(64)])
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    /// Operations from the first one that is not in the set, or a little earlier.
    fn rest(&self) -> usize {
        64 * self.0.iter().take_while(|word| **word == u64::MAX).count()
    }

    fn with(&self, at: usize) -> Self {
        let mut with = self.clone();
        with.0[at / 64] |= 1 << (at % 64);
        with
    }
}

struct Search<'a, M: Model> {
    model: &'a M,
    /// By the times of their calls.
    order: Vec<&'a Event<M::Operation>>,
    seen: HashSet<(Taken, M::State)>,
    budget: usize,
}

impl<M: Model> Search<'_, M> {
    fn run(&mut self, taken: Taken, state: M::State) -> Linearizability {
        let mut paths = vec![(taken, state)];
        while let Some((taken, state)) = paths.pop() {
            if self.is_complete(&taken) {
                return Linearizability::Holds;
            }
            if !self.seen.insert((taken.clone(), state.clone())) {
                continue;
            }
            if self.seen.len() > self.budget {
                return Linearizability::Undecided;
            }
            let goal = self.goal(&taken);
            if goal.is_some_and(|goal| !self.can_reach(&taken, &state, goal)) {
                continue;
            }
            let next = self.next(&taken).into_iter();
            let fitting = next.filter_map(|at| Some((at, self.after(&state, at)?)));
            let fitting: Vec<_> = fitting.collect();
            let read =
                fitting.iter().find(|(at, _)| self.model.is_read(&self.order[*at].operation));
            if let Some((at, _)) = read {
                paths.push((taken.with(*at), state));
                continue;
            }
            // Steps to the read are on top, and of these the first one: histories are almost in the order of calls.
            let is_step = |at: usize| goal.is_some_and(|goal| self.is_step(&state, goal, at));
            for are_steps in [false, true] {
                for (at, after) in fitting.iter().rev().filter(|(at, _)| is_step(*at) == are_steps)
                {
                    if !fitting.iter().any(|(other, _)| self.replaces(*other, *at)) {
                        paths.push((taken.with(*at), after.clone()));
                    }
                }
            }
        }
        Linearizability::Broken
    }

    /// The read that returns first, of those that are not in the set.
    fn goal(&self, taken: &Taken) -> Option<usize> {
        let rest = (taken.rest()..self.order.len()).filter(|at| !taken.has(*at));
        let reads = rest.filter(|at| self.model.is_read(&self.order[*at].operation));
        reads.min_by_key(|at| self.order[*at].returned.unwrap_or(u64::MAX))
    }

    fn is_step(&self, state: &M::State, goal: usize, at: usize) -> bool {
        self.model.is_step(state, &self.order[goal].operation, &self.order[at].operation)
    }

    /// Whether enough operations are left that must come before a read.
    fn can_reach(&self, taken: &Taken, state: &M::State, goal: usize) -> bool {
        let rest = (taken.rest()..self.order.len()).filter(|at| !taken.has(*at));
        let steps = rest.filter(|at| self.is_step(state, goal, *at)).count();
        steps >= self.model.distance(state, &self.order[goal].operation)
    }

    fn after(&self, state: &M::State, at: usize) -> Option<M::State> {
        self.model.apply(state, &self.order[at].operation)
    }

    /// Whether `at` need not be next, since an equal operation that returns earlier can be.
    fn replaces(&self, other: usize, at: usize) -> bool {
        let returned = |at: usize| (self.order[at].returned.unwrap_or(u64::MAX), at);
        self.order[other].operation == self.order[at].operation && returned(other) < returned(at)
    }

    /// Whether all operations with a response are in the set.
    fn is_complete(&self, taken: &Taken) -> bool {
        let mut rest = self.order.iter().enumerate().skip(taken.rest());
        rest.all(|(at, it)| it.returned.is_none() || taken.has(at))
    }

    /// Operations that may be the next one: they were called before each of the others returned.
    fn next(&self, taken: &Taken) -> Vec<usize> {
        let (mut next, mut first_return) = (Vec::new(), u64::MAX);
        for (at, event) in self.order.iter().enumerate().skip(taken.rest()) {
            if event.called > first_return {
                break;
            }
            if !taken.has(at) {
                next.push(at);
                first_return = first_return.min(event.returned.unwrap_or(u64::MAX));
            }
        }
        next
    }
}

/// A register: a value that is written and read.
pub struct Register;

/// An operation on a [`Register`]. `None` is the value before the first write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegisterOperation {
    /// Sets the value.
    Write(u64),
    /// Returns the value.
    Read(Option<u64>),
}

impl Model for Register {
    type State = Option<u64>;
    type Operation = RegisterOperation;

    fn initial(&self) -> Option<u64> {
        None
    }

    fn is_read(&self, operation: &RegisterOperation) -> bool {
        matches!(operation, RegisterOperation::Read(_))
    }

    fn apply(&self, state: &Option<u64>, operation: &RegisterOperation) -> Option<Option<u64>> {
        match operation {
            RegisterOperation::Write(value) => Some(Some(*value)),
            RegisterOperation::Read(value) => (value == state).then_some(*state),
        }
    }

    fn distance(&self, state: &Option<u64>, read: &RegisterOperation) -> usize {
        usize::from(*read != RegisterOperation::Read(*state))
    }

    fn is_step(
        &self,
        _state: &Option<u64>,
        read: &RegisterOperation,
        operation: &RegisterOperation,
    ) -> bool {
        self.shows(read, operation)
    }

    fn shows(&self, operation: &RegisterOperation, open: &RegisterOperation) -> bool {
        match (operation, open) {
            (RegisterOperation::Read(read), RegisterOperation::Write(written)) => {
                *read == Some(*written)
            }
            _ => false,
        }
    }
}

/// The acknowledged writes of a register: the index at which each was done, and its value. Times alone do not say that
/// a read at an index returns what was written up to it.
#[derive(Debug, Default)]
pub struct Writes(Vec<(u64, u64)>);

impl Writes {
    /// Adds one.
    pub fn add(&mut self, index: u64, value: u64) {
        self.0.push((index, value));
    }

    /// Whether the register had another value than this one at an index and after it.
    pub fn is_older(&self, index: u64, value: Option<u64>) -> bool {
        let before = self.0.iter().map(|(at, _)| *at).filter(|at| *at <= index).max();
        let read = self.0.iter().find(|(_, written)| Some(*written) == value);
        match (before, value) {
            // A value of a write without a response may be newer.
            (Some(before), Some(_)) => read.is_some_and(|(at, _)| *at < before),
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// A counter, from 0.
pub struct Counter;

/// An operation on a [`Counter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterOperation {
    /// Adds to the value.
    Add(u64),
    /// Returns the value.
    Read(u64),
}

impl Model for Counter {
    type State = u64;
    type Operation = CounterOperation;

    fn initial(&self) -> u64 {
        0
    }

    fn is_read(&self, operation: &CounterOperation) -> bool {
        matches!(operation, CounterOperation::Read(_))
    }

    fn apply(&self, state: &u64, operation: &CounterOperation) -> Option<u64> {
        match operation {
            CounterOperation::Add(more) => Some(state + more),
            CounterOperation::Read(value) => (value == state).then_some(*state),
        }
    }
}

/// A set.
pub struct Set;

/// An operation on a [`Set`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetOperation {
    /// Adds an element.
    Add(u64),
    /// Removes an element.
    Remove(u64),
    /// Returns all elements.
    Read(BTreeSet<u64>),
}

impl Model for Set {
    type State = BTreeSet<u64>;
    type Operation = SetOperation;

    fn initial(&self) -> BTreeSet<u64> {
        BTreeSet::new()
    }

    fn is_read(&self, operation: &SetOperation) -> bool {
        matches!(operation, SetOperation::Read(_))
    }

    fn apply(&self, state: &BTreeSet<u64>, operation: &SetOperation) -> Option<BTreeSet<u64>> {
        let mut after = state.clone();
        match operation {
            SetOperation::Add(element) => drop(after.insert(*element)),
            SetOperation::Remove(element) => drop(after.remove(element)),
            SetOperation::Read(elements) if elements != state => return None,
            SetOperation::Read(_) => {}
        }
        Some(after)
    }

    fn distance(&self, state: &BTreeSet<u64>, read: &SetOperation) -> usize {
        match read {
            SetOperation::Read(elements) => elements.symmetric_difference(state).count(),
            SetOperation::Add(_) | SetOperation::Remove(_) => 0,
        }
    }

    fn is_step(
        &self,
        state: &BTreeSet<u64>,
        read: &SetOperation,
        operation: &SetOperation,
    ) -> bool {
        let SetOperation::Read(elements) = read else { return false };
        match operation {
            SetOperation::Add(it) => elements.contains(it) && !state.contains(it),
            SetOperation::Remove(it) => state.contains(it) && !elements.contains(it),
            SetOperation::Read(_) => false,
        }
    }

    fn shows(&self, operation: &SetOperation, open: &SetOperation) -> bool {
        match (operation, open) {
            (SetOperation::Read(elements), SetOperation::Add(element)) => {
                elements.contains(element)
            }
            (_, open) => matches!(open, SetOperation::Remove(_)),
        }
    }
}
