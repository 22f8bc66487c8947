//! Clients, which use any node and record what they were promised.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use raft::{NodeId, SubmitError};
use simulation::history::{CounterOperation, Event, RegisterOperation, SetOperation};
use storage::command::DeleteMemory;
use storage::model::receipt::ReceiptRequest;
use storage::{Command, Reader, Reply, ReplyValue, Touched, TouchedMemories, TouchedMemory};
use tokio::time::{Instant, sleep, timeout};

use crate::commands::{
    GROUPS, KEY, REGISTERS, TENANT, TRIGGER, create, label_of, memory_id, new_memory, number_of,
    receipt_key, set, touch, value_of, with_word,
};
use crate::host::request;
use crate::promises::{Alternatives, Attempt, Effect, Fate, Promises};
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
/// Commands that were acknowledged.
pub const REQUESTS: &str = "requests";

/// What became of a command.
enum Outcome {
    Done { index: u64, reply: Box<Reply> },
    Unknown,
    NoEffect,
}

/// A client.
pub struct Client {
    world: Arc<World>,
    promises: Arc<Promises>,
    number: u64,
    /// The last acknowledged write of each register: its index, and when it was called.
    written: BTreeMap<u64, (u64, u64)>,
}

impl Client {
    /// A client with this number.
    pub fn new(world: &Arc<World>, promises: &Arc<Promises>, number: u64) -> Self {
        let (world, promises) = (Arc::clone(world), Arc::clone(promises));
        Self { world, promises, number, written: BTreeMap::new() }
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
            match self.random(16) {
                0..3 => self.write_register().await,
                3..7 => self.read_register().await,
                7 | 8 => self.create().await,
                9 => self.create_with_receipt().await,
                10 => self.delete().await,
                11 | 12 => self.read_set().await,
                13 => self.touch_register().await,
                14 => self.repeat().await,
                _ => self.read_counter().await,
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

    async fn submit(&self, command: Command) -> Outcome {
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
        if matches!(outcome, Outcome::Done { .. }) {
            self.world.count(REQUESTS);
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
                self.promises.record().registers.entry(register).or_default()[at] =
                    Some(event(Some(now_nanos())));
                self.written.insert(register, (index, called));
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

    /// Reads a register at one of the three levels. Each returns what was current at some moment: of a
    /// linearizable read, between its call and its return; of a read of a state that is stale by some time at
    /// most, since then; of a read after an index, since the write with that index was called.
    async fn read_register(&self) {
        let register = self.random(REGISTERS);
        let (level, now) = (self.random(3), now_nanos());
        let written = self.written.get(&register).copied();
        let read = self.at_any_node(|node, Running { handle, reader, .. }| async move {
            let end = Instant::now() + TIMEOUT;
            let called = match level {
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
            called.map(|called| (node, called, reader.get(TENANT, memory_id(register))))
        });
        let Some((node, called, found)) = read.await.flatten() else { return };
        let value = match found {
            Ok(found) => found.and_then(|found| value_of(&found.memory.label)),
            Err(error) => return self.world.violate(format!("a read fails: {error}")),
        };
        let (returned, operation) = (Some(now_nanos()), RegisterOperation::Read(value));
        self.record(register, Event { called, returned, operation });
        let (client, since) = (self.number, called / 1_000_000);
        self.world.trace(&format!(
            "client {client} reads {value:?} in {register} of {node}, since {since} ms"
        ));
    }

    /// Reads a register by a command that changes nothing: the leader replies without an entry.
    async fn touch_register(&self) {
        let (register, called) = (self.random(REGISTERS), now_nanos());
        let Outcome::Done { reply, .. } = self.submit(touch(register)).await else { return };
        let touched = TouchedMemories::from_reply(*reply).map(|it| it.memories);
        let Some([TouchedMemory { now: Touched::Memory(found), .. }]) = touched.as_deref() else {
            return self.world.violate("a command returns no register".into());
        };
        let operation = RegisterOperation::Read(value_of(&found.memory.label));
        self.record(register, Event { called, returned: Some(now_nanos()), operation });
    }

    /// Reads the newest state of the cluster. Returns when this was called, and what `read` found.
    async fn read_newest<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader) -> T + Send + 'static,
    ) -> Option<(u64, T)> {
        let called = now_nanos();
        let read = self.at_any_node(|_, running| async move {
            running.handle.read_index(Instant::now() + TIMEOUT).await.ok()?;
            Some(read(&running.reader))
        });
        Some((called, read.await.flatten()?))
    }

    /// Reads how often the trigger has fired.
    async fn read_counter(&self) {
        let read = self.read_newest(|reader| reader.firings(TENANT, TRIGGER).total);
        let Some((called, total)) = read.await else { return };
        let (returned, operation) = (Some(now_nanos()), CounterOperation::Read(total));
        self.promises.record().counts.push(Event { called, returned, operation });
    }

    /// Finds the memories with a word.
    async fn read_set(&self) {
        let group = self.random(GROUPS);
        let read = self.read_newest(move |reader| reader.list(TENANT, &with_word(group)));
        let Some((called, page)) = read.await else { return };
        let found = match page {
            Ok(page) => page.memories.iter().filter_map(|it| number_of(it.id)).collect(),
            Err(error) => return self.world.violate(format!("a list fails: {error}")),
        };
        let (returned, operation) = (Some(now_nanos()), SetOperation::Read(found));
        let event = Event { called, returned, operation };
        self.promises.record().sets.entry(group).or_default().push(event);
    }

    async fn create(&self) {
        let (number, called) = (self.next(), now_nanos());
        let memory = new_memory(number, label_of(number));
        let set = |effect| {
            let fate = Fate { created: Attempt { called, effect }, deleted: None };
            self.promises.record().memories.insert(number, fate);
        };
        // The run may end before the response arrives.
        set(Effect::Unknown);
        set(effect_of(&self.submit(create(memory)).await));
        self.world.trace(&format!("client {} creates {number}", self.number));
    }

    async fn create_with_receipt(&self) {
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

    /// Creates a memory, unless one was created with this receipt. Returns the memory that the reply names;
    /// `None` without a reply.
    async fn attempt(&self, key: u64, number: u64) -> Option<Option<u64>> {
        let receipt = ReceiptRequest { key: receipt_key(key), body_hash: [1; 32] };
        let memory = new_memory(number, label_of(number));
        let command = Command { actor: Some(KEY), receipt: Some(receipt), ..create(memory) };
        let Outcome::Done { reply, .. } = self.submit(command).await else { return None };
        let touched = TouchedMemories::from_reply(*reply).map(|it| it.memories);
        let id = touched.and_then(|memories| Some(memories.first()?.id));
        Some(id.and_then(number_of))
    }

    /// Repeats a command that was acknowledged, at any node: its receipt still names the same memory.
    async fn repeat(&self) {
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
        if again != Some(named) {
            self.world.violate(format!("a receipt names {again:?} after {named}"));
        }
    }

    async fn delete(&self) {
        let there: Vec<(u64, Fate)> = {
            let record = self.promises.record();
            let is_there = |fate: &Fate| fate.is_there() == Some(true);
            let there = record.memories.iter().filter(|(_, fate)| is_there(fate));
            there.map(|(number, fate)| (*number, *fate)).collect()
        };
        let at = self.random(there.len().max(1) as u64) as usize;
        let Some((number, fate)) = there.get(at).copied() else { return };
        let called = now_nanos();
        let set = |effect| {
            let fate = Fate { deleted: Some(Attempt { called, effect }), ..fate };
            self.promises.record().memories.insert(number, fate);
        };
        // No other client takes it from here on.
        set(Effect::Unknown);
        let deletion = DeleteMemory { id: memory_id(number), rejects: None };
        set(effect_of(&self.submit(Command::of_tenant(TENANT, deletion)).await));
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
