//! Clients, which use any node and record what they were promised.

use std::sync::Arc;
use std::time::Duration;

use raft::{NodeId, SubmitError};
use simulation::history::{CounterOperation, Event, RegisterOperation, SetOperation};
use storage::{Command, Reader, Reply, ReplyValue, Touched, TouchedMemories, TouchedMemory};
use tokio::time::{Instant, sleep, timeout};

use crate::commands::{
    GROUPS, REGISTERS, TENANT, create, delete, memory_id, number_of, once, rate, set, touch, twins,
    value_of, with_word,
};
use crate::host::request;
use crate::promises::{Alternatives, Attempt, Effect, Fate, Promises, fired, pairs, ratings};
use crate::timeline::now;
use crate::world::{Running, World};

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which a client gives up on a node.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest pause between two requests of a client.
const PAUSE_MAX: Duration = Duration::from_millis(150);
/// Attempts with one receipt.
const ATTEMPTS: usize = 8;
/// The levels of reads, as they are counted.
const LEVELS: [&str; 3] = ["linearizable reads", "reads with a staleness", "reads at an index"];
/// The level of a read at an index.
const AT_INDEX: u64 = 2;
/// Commands that were acknowledged and changed something.
pub const WRITES: &str = "writes";

/// What became of a command.
enum Outcome {
    Done { index: u64, reply: Box<Reply> },
    Unknown,
    NoEffect,
}

/// What a client has read.
struct Read<T> {
    node: NodeId,
    /// What was found was current at some moment since then.
    since: u64,
    /// The index that the node had reached at least, if the client waited for one.
    index: Option<u64>,
    found: T,
}

/// A client.
pub struct Client {
    world: Arc<World>,
    promises: Arc<Promises>,
    number: u64,
    /// The last acknowledged command: its index, and when it was called.
    written: Option<(u64, u64)>,
}

impl Client {
    /// A client with this number.
    pub fn new(world: &Arc<World>, promises: &Arc<Promises>, number: u64) -> Self {
        let (world, promises) = (Arc::clone(world), Arc::clone(promises));
        Self { world, promises, number, written: None }
    }

    fn random(&self, below: u64) -> u64 {
        self.world.with(|state| state.random.u64(..below))
    }

    fn next(&self) -> u64 {
        let mut record = self.promises.record();
        record.next += 1;
        1_000 + record.next
    }

    /// Sends requests until it is dropped.
    pub async fn run(mut self) {
        loop {
            match self.random(18) {
                0..3 => self.write_register().await,
                3..7 => self.read_register().await,
                7 | 8 => self.create().await,
                9 => self.create_with_receipt().await,
                10 => self.delete().await,
                11 | 12 => self.read_set().await,
                13 => self.touch_register().await,
                14 => self.repeat().await,
                15 => self.rate().await,
                16 => self.read_ratings().await,
                _ => self.read_firings().await,
            }
            sleep(self.world.random_time(Duration::ZERO, PAUSE_MAX)).await;
        }
    }

    /// Runs `work` at any node. `None` without a response, or without a node.
    async fn at_any_node<F>(&self, work: impl FnOnce(NodeId, Running) -> F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (node, running) = self.world.any_member()?;
        timeout(RESPONSE_TIMEOUT, request(&self.world, node, work(node, running))).await.ok()?
    }

    async fn submit(&mut self, command: Command) -> Outcome {
        let called = now_nanos();
        if self.world.members().is_empty() {
            return Outcome::NoEffect;
        }
        let submitted = self.at_any_node(|_, running| async move {
            running.handle.submit(command, Instant::now() + TIMEOUT).await
        });
        let outcome = match submitted.await {
            Some(Ok(outcome)) => match outcome.accepted {
                Ok(accepted) => {
                    Outcome::Done { index: outcome.index, reply: Box::new(accepted.reply) }
                }
                Err(rejection) => {
                    self.world.violate(format!("a command was rejected: {rejection}"));
                    Outcome::NoEffect
                }
            },
            None | Some(Err(SubmitError::Unknown)) => Outcome::Unknown,
            Some(Err(_)) => Outcome::NoEffect,
        };
        if let Outcome::Done { index, .. } = outcome {
            self.written = Some((index, called));
        }
        outcome
    }

    async fn write_register(&mut self) {
        let (register, value, called) = (self.random(REGISTERS), self.next(), now_nanos());
        let event = |returned| {
            let operation = RegisterOperation::Write(value);
            Event { called, returned, operation }
        };
        // The run may end before the response arrives.
        let at = self.record(register, event(None));
        let outcome = self.submit(set(register, value)).await;
        match outcome {
            Outcome::Done { index, .. } => {
                self.world.count(WRITES);
                let mut record = self.promises.record();
                record.writes.entry(register).or_default().add(index, value);
                record.registers.entry(register).or_default()[at] = Some(event(Some(now_nanos())));
            }
            Outcome::Unknown => self.world.trace("unknown:"),
            Outcome::NoEffect => {
                self.world.trace("no effect:");
                self.promises.record().registers.entry(register).or_default()[at] = None;
            }
        }
        self.world.trace(&format!("client {} wrote {value} in {register}", self.number));
    }

    /// Adds an operation to the history of a register. Returns its number there.
    fn record(&self, register: u64, event: Event<RegisterOperation>) -> usize {
        let mut record = self.promises.record();
        let history = record.registers.entry(register).or_default();
        history.push(Some(event));
        history.len() - 1
    }

    /// Reads the state of any node at one of the three levels. What it finds was current at some moment: of a
    /// linearizable read, since its call; of a read of a state that is stale by some time at most, since then; of
    /// a read after the index of the last command, since that was called.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> storage::Result<T> + Send + 'static,
    ) -> Option<Read<T>> {
        let (level, now, written) = (self.random(3), now_nanos(), self.written);
        let found = self.at_any_node(move |node, Running { handle, reader, .. }| async move {
            let end = Instant::now() + TIMEOUT;
            let since = match level {
                0 => handle.read_index(end).await.ok().map(|()| now),
                1 => handle
                    .staleness()
                    .map(|staleness| now_nanos().saturating_sub(staleness.as_nanos() as u64)),
                _ => match written {
                    Some((index, called)) => {
                        handle.wait_applied(index, end).await.ok().map(|()| called)
                    }
                    None => None,
                },
            };
            since.map(|since| (node, since, read(&reader)))
        });
        let (node, since, found) = found.await.flatten()?;
        self.world.count(LEVELS[level as usize]);
        let found = found.map_err(|error| self.world.violate(format!("a read fails: {error}")));
        let index = written.map(|(index, _)| index).filter(|_| level == AT_INDEX);
        Some(Read { node, since, index, found: found.ok()? })
    }

    async fn read_register(&self) {
        let register = self.random(REGISTERS);
        let read = self.read(move |reader| reader.get(TENANT, memory_id(register))).await;
        let Some(Read { node, since: called, index, found }) = read else { return };
        let value = found.and_then(|found| value_of(&found.memory.label));
        let is_older = |index| {
            let record = self.promises.record();
            record.writes.get(&register).is_some_and(|writes| writes.is_older(index, value))
        };
        if index.is_some_and(is_older) {
            self.world.violate(format!("a read at {index:?} finds {value:?} in {register}"));
        }
        let (returned, operation) = (Some(now_nanos()), RegisterOperation::Read(value));
        self.record(register, Event { called, returned, operation });
        let (client, since) = (self.number, called / 1_000_000);
        self.world.trace(&format!(
            "client {client} reads {value:?} in {register} of {node}, since {since} ms"
        ));
    }

    /// Reads a register by a command that changes nothing: the leader replies without an entry.
    async fn touch_register(&mut self) {
        let (register, called) = (self.random(REGISTERS), now_nanos());
        let Outcome::Done { reply, .. } = self.submit(touch(register)).await else { return };
        let touched = TouchedMemories::from_reply(*reply).map(|it| it.memories);
        let Some([TouchedMemory { now: Touched::Memory(found), .. }]) = touched.as_deref() else {
            return self.world.violate("a command returns no register".into());
        };
        let operation = RegisterOperation::Read(value_of(&found.memory.label));
        self.record(register, Event { called, returned: Some(now_nanos()), operation });
    }

    /// Reads how often the trigger has fired.
    async fn read_firings(&self) {
        let read = self.read(|reader| Ok(fired(reader))).await;
        let Some(Read { since: called, index, found, .. }) = read else { return };
        let least = index.map_or(0, |index| self.promises.record().least_firings(index));
        if found < least {
            self.world.violate(format!("a read at {index:?} finds {found} firings of {least}"));
        }
        let (returned, operation) = (Some(now_nanos()), CounterOperation::Read(found));
        self.promises.record().firings.push(Event { called, returned, operation });
    }

    /// Gives feedback once.
    async fn rate(&mut self) {
        let (key, called) = (self.next(), now_nanos());
        let event = |returned| Event { called, returned, operation: CounterOperation::Add(1) };
        let at = {
            let ratings = &mut self.promises.record().ratings;
            ratings.push(event(None));
            ratings.len() - 1
        };
        for _ in 0..ATTEMPTS {
            if let Outcome::Done { index, .. } = self.submit(once(key, rate())).await {
                let mut record = self.promises.record();
                record.ratings[at] = event(Some(now_nanos()));
                record.rated.push(index);
                return;
            }
            sleep(PAUSE_MAX).await;
        }
    }

    /// Reads how often feedback was given.
    async fn read_ratings(&self) {
        let Some(Read { since: called, index, found, .. }) = self.read(ratings).await else {
            return;
        };
        let least = index.map_or(0, |index| self.promises.record().least_ratings(index));
        if found < least {
            self.world.violate(format!("a read at {index:?} finds {found} ratings of {least}"));
        }
        let (returned, operation) = (Some(now_nanos()), CounterOperation::Read(found));
        self.promises.record().ratings.push(Event { called, returned, operation });
    }

    /// Finds the memories with a word.
    async fn read_set(&self) {
        let group = self.random(GROUPS);
        let read = self.read(move |reader| reader.list(TENANT, &with_word(group))).await;
        let Some(Read { since: called, index, found: page, .. }) = read else { return };
        let found = pairs(&self.world, &page);
        let wrong = index.and_then(|index| self.promises.record().outdated(group, index, &found));
        if let Some(number) = wrong {
            self.world.violate(format!("a read at {index:?} is older for {number}"));
        }
        let (returned, operation) = (Some(now_nanos()), SetOperation::Read(found));
        let event = Event { called, returned, operation };
        self.promises.record().sets.entry(group).or_default().push(event);
    }

    async fn create(&mut self) {
        let (number, called) = (self.next(), now_nanos());
        let promises = Arc::clone(&self.promises);
        let set = |effect| {
            let fate = Fate { created: Attempt { called, effect }, deleted: None };
            promises.record().memories.insert(number, fate);
        };
        // The run may end before the response arrives.
        set(Effect::Unknown);
        let outcome = self.submit(create(twins(number))).await;
        set(effect_of(&outcome));
        if let Outcome::Done { index, .. } = outcome {
            self.world.count(WRITES);
            self.promises.record().creates.insert(number, index);
        }
        self.world.trace(&format!("client {} creates {number}", self.number));
    }

    async fn create_with_receipt(&mut self) {
        let (key, called) = (self.next(), now_nanos());
        let mut attempts =
            Alternatives { numbers: Vec::new(), called, returned: None, named: None };
        for _ in 0..ATTEMPTS {
            let number = self.next();
            attempts.numbers.push(number);
            self.promises.record().alternatives.insert(key, attempts.clone());
            if let Some(named) = self.attempt(key, number).await {
                attempts.named = named;
                attempts.returned = Some(now_nanos());
                self.promises.record().alternatives.insert(key, attempts);
                return;
            }
            sleep(PAUSE_MAX).await;
        }
    }

    /// Creates a memory and its twin, unless this was done with this receipt. Returns the memory that the reply
    /// names; `None` without a reply.
    async fn attempt(&mut self, key: u64, number: u64) -> Option<Option<u64>> {
        let command = once(key, create(twins(number)));
        let Outcome::Done { reply, .. } = self.submit(command).await else { return None };
        let touched = TouchedMemories::from_reply(*reply).map(|it| it.memories);
        let id = touched.and_then(|memories| Some(memories.first()?.id));
        Some(id.and_then(number_of))
    }

    /// Repeats a command that was acknowledged, at any node: its receipt still names the same memory.
    async fn repeat(&mut self) {
        let acknowledged: Vec<(u64, u64)> = {
            let record = self.promises.record();
            let named = record.alternatives.iter().map(|(key, it)| Some((*key, it.named?)));
            named.flatten().collect()
        };
        let at = self.random(acknowledged.len().max(1) as u64) as usize;
        let Some((key, named)) = acknowledged.get(at).copied() else { return };
        let number = self.next();
        if let Some(attempts) = self.promises.record().alternatives.get_mut(&key) {
            attempts.numbers.push(number);
        }
        let Some(again) = self.attempt(key, number).await else { return };
        self.world.count("repeated receipts");
        if again != Some(named) && self.world.keeps_receipts() {
            self.world.violate(format!("a receipt names {again:?} after {named}"));
        }
    }

    async fn delete(&mut self) {
        let there: Vec<(u64, Fate)> = {
            let record = self.promises.record();
            let is_there = |fate: &Fate| fate.is_there() == Some(true);
            let there = record.memories.iter().filter(|(_, fate)| is_there(fate));
            there.map(|(number, fate)| (*number, *fate)).collect()
        };
        let at = self.random(there.len().max(1) as u64) as usize;
        let Some((number, fate)) = there.get(at).copied() else { return };
        let (called, promises) = (now_nanos(), Arc::clone(&self.promises));
        let set = |effect| {
            let fate = Fate { deleted: Some(Attempt { called, effect }), ..fate };
            promises.record().memories.insert(number, fate);
        };
        // No other client takes it from here on.
        set(Effect::Unknown);
        let outcome = self.submit(delete(number)).await;
        set(effect_of(&outcome));
        if let Outcome::Done { index, .. } = outcome {
            self.world.count(WRITES);
            self.promises.record().deletes.insert(number, index);
        }
    }
}

fn now_nanos() -> u64 {
    now().as_nanos() as u64
}

fn effect_of(outcome: &Outcome) -> Effect {
    match outcome {
        Outcome::Done { .. } => Effect::Done(now_nanos()),
        Outcome::Unknown => Effect::Unknown,
        Outcome::NoEffect => Effect::None,
    }
}
