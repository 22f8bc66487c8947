//! Clients, which use any node and record what they were promised.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use raft::{NodeId, SubmitError};
use simulation::history::{CounterOperation, Event, RegisterOperation, SetOperation};
use storage::command::DeleteMemory;
use storage::model::receipt::ReceiptRequest;
use storage::{Command, Reply, ReplyValue, TouchedMemories};
use tokio::time::{Instant, sleep};

use crate::commands::{
    GROUPS, KEY, REGISTERS, TENANT, TRIGGER, create, label_of, memory_id, new_memory, number_of,
    receipt_key, set, value_of, with_word,
};
use crate::promises::{Alternatives, Fate, Promises};
use crate::world::{Running, World};

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause between two requests of a client.
const PAUSE_MAX: Duration = Duration::from_millis(150);
/// Attempts with one receipt.
const ATTEMPTS: usize = 8;
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
        let mut record = self.promises.0.lock();
        record.next += 1;
        1_000 + record.next
    }

    fn now(&self) -> u64 {
        self.world.elapsed().as_nanos() as u64
    }

    /// Sends requests until it is dropped.
    pub async fn run(mut self) {
        loop {
            match self.random(14) {
                0..3 => self.write_register().await,
                3..7 => self.read_register().await,
                7 | 8 => self.create().await,
                9 => self.create_with_receipt().await,
                10 => self.delete().await,
                11 | 12 => self.read_set().await,
                _ => self.read_counter().await,
            }
            sleep(self.world.random_time(Duration::ZERO, PAUSE_MAX)).await;
        }
    }

    async fn submit(&self, command: Command) -> Outcome {
        let Some((node, running)) = self.world.any_member() else {
            sleep(PAUSE_MAX).await;
            return Outcome::NoEffect;
        };
        self.submit_at(node, &running, command).await
    }

    /// The process of the node may end meanwhile: the client then gets no response.
    async fn submit_at(&self, node: NodeId, running: &Running, command: Command) -> Outcome {
        let started = self.world.with_node(node, |it| it.starts);
        let submitted = running.handle.submit(command, Instant::now() + TIMEOUT).await;
        let is_same = self.world.with_node(node, |it| it.process.is_some() && it.starts == started);
        let outcome = match submitted {
            _ if !is_same => Outcome::Unknown,
            Ok(outcome) => match outcome.accepted {
                Ok(accepted) => {
                    Outcome::Done { index: outcome.index, reply: Box::new(accepted.reply) }
                }
                Err(rejection) => {
                    self.world.violate(format!("a command was rejected: {rejection}"));
                    Outcome::NoEffect
                }
            },
            Err(SubmitError::Unknown) => Outcome::Unknown,
            Err(_) => Outcome::NoEffect,
        };
        if matches!(outcome, Outcome::Done { .. }) {
            self.promises.0.lock().completed += 1;
        }
        outcome
    }

    async fn write_register(&mut self) {
        let (register, value, called) = (self.random(REGISTERS), self.next(), self.now());
        let event = |returned| {
            let operation = RegisterOperation::Write(value);
            Event { called, returned, operation }
        };
        // The run may end before the response arrives.
        let at = self.record(register, event(None));
        let outcome = self.submit(set(register, value)).await;
        match outcome {
            Outcome::Done { index, .. } => {
                self.promises.0.lock().registers.entry(register).or_default()[at] =
                    Some(event(Some(self.now())));
                self.written.insert(register, (index, called));
            }
            Outcome::Unknown => self.world.trace("unknown:"),
            Outcome::NoEffect => {
                self.world.trace("no effect:");
                self.promises.0.lock().registers.entry(register).or_default()[at] = None;
            }
        }
        self.world.trace(&format!("client {} wrote {value} in {register}", self.number));
    }

    /// Adds an operation to the history of a register. Returns its number there.
    fn record(&self, register: u64, event: Event<RegisterOperation>) -> usize {
        let mut record = self.promises.0.lock();
        let history = record.registers.entry(register).or_default();
        history.push(Some(event));
        history.len() - 1
    }

    /// Reads a register at one of the three levels. Each returns what was current at some moment: of a
    /// linearizable read, between its call and its return; of a read of a state that is stale by some time at
    /// most, since then; of a read after an index, since the write with that index was called.
    async fn read_register(&self) {
        let register = self.random(REGISTERS);
        let Some((node, running)) = self.world.any_member() else { return };
        let started = self.world.with_node(node, |it| it.starts);
        let called = match self.random(3) {
            0 => {
                let called = self.now();
                let read = running.handle.read_index(Instant::now() + TIMEOUT).await;
                read.ok().map(|()| called)
            }
            1 if !self.world.with_node(node, |it| *it.paused.borrow()) => {
                let staleness = running.handle.staleness();
                staleness.map(|by| self.now().saturating_sub(by.as_nanos() as u64))
            }
            _ => match self.written.get(&register) {
                Some((index, called)) => {
                    let end = Instant::now() + TIMEOUT;
                    let waited = running.handle.wait_applied(*index, end).await;
                    waited.ok().map(|()| *called)
                }
                None => None,
            },
        };
        let Some(called) = called else { return };
        let value = match running.reader.get(TENANT, memory_id(register)) {
            Ok(found) => found.and_then(|found| value_of(&found.memory.label)),
            Err(error) => return self.world.violate(format!("a read fails: {error}")),
        };
        // A process that has ended sends no response.
        if self.world.with_node(node, |it| it.process.is_some() && it.starts == started) {
            let (returned, operation) = (Some(self.now()), RegisterOperation::Read(value));
            self.record(register, Event { called, returned, operation });
            self.world.trace(&format!(
                "client {} reads {value:?} in {register} of {node}, since {} ms",
                self.number,
                called / 1_000_000
            ));
        }
    }

    /// Reads how often the trigger has fired.
    async fn read_counter(&self) {
        let Some((node, running)) = self.world.any_member() else { return };
        let (started, called) = (self.world.with_node(node, |it| it.starts), self.now());
        if running.handle.read_index(Instant::now() + TIMEOUT).await.is_err() {
            return;
        }
        let total = running.reader.firings(TENANT, TRIGGER).total;
        if self.world.with_node(node, |it| it.process.is_some() && it.starts == started) {
            let (returned, operation) = (Some(self.now()), CounterOperation::Read(total));
            self.promises.0.lock().counts.push(Event { called, returned, operation });
        }
    }

    /// Finds the memories with a word.
    async fn read_set(&self) {
        let group = self.random(GROUPS);
        let Some((node, running)) = self.world.any_member() else { return };
        let (started, called) = (self.world.with_node(node, |it| it.starts), self.now());
        if running.handle.read_index(Instant::now() + TIMEOUT).await.is_err() {
            return;
        }
        let found = match running.reader.list(TENANT, &with_word(group)) {
            Ok(page) => page.memories.iter().filter_map(|it| number_of(it.id)).collect(),
            Err(error) => return self.world.violate(format!("a list fails: {error}")),
        };
        if self.world.with_node(node, |it| it.process.is_some() && it.starts == started) {
            let (returned, operation) = (Some(self.now()), SetOperation::Read(found));
            let event = Event { called, returned, operation };
            self.promises.0.lock().sets.entry(group).or_default().push(event);
        }
    }

    async fn create(&self) {
        let (number, called) = (self.next(), self.now());
        let memory = new_memory(number, label_of(number));
        let set = |created, returned| {
            let deleted = Some(false);
            let fate = Fate { called, returned, created, deleted, deletion: None };
            self.promises.0.lock().memories.insert(number, fate);
        };
        // The run may end before the response arrives.
        set(None, None);
        match self.submit(create(memory)).await {
            Outcome::Done { .. } => set(Some(true), Some(self.now())),
            Outcome::Unknown => {}
            Outcome::NoEffect => set(Some(false), None),
        }
        self.world.trace(&format!("client {} creates {number}", self.number));
    }

    async fn create_with_receipt(&self) {
        let (key, called) = (self.next(), self.now());
        let mut attempts =
            Alternatives { numbers: Vec::new(), called, returned: None, named: None };
        for _ in 0..ATTEMPTS {
            let number = self.next();
            attempts.numbers.push(number);
            self.promises.0.lock().alternatives.insert(key, attempts.clone());
            let receipt = ReceiptRequest { key: receipt_key(key), body_hash: [1; 32] };
            let memory = new_memory(number, label_of(number));
            let command = Command { actor: Some(KEY), receipt: Some(receipt), ..create(memory) };
            if let Outcome::Done { reply, .. } = self.submit(command).await {
                let touched = TouchedMemories::from_reply(*reply).map(|it| it.memories);
                let id = touched.and_then(|memories| Some(memories.first()?.id));
                attempts.named = id.and_then(number_of);
                attempts.returned = Some(self.now());
                self.promises.0.lock().alternatives.insert(key, attempts);
                return;
            }
            sleep(PAUSE_MAX).await;
        }
    }

    async fn delete(&self) {
        let there: Vec<(u64, Fate)> = {
            let record = self.promises.0.lock();
            let is_there = |fate: &Fate| fate.is_there() == Some(true);
            let there = record.memories.iter().filter(|(_, fate)| is_there(fate));
            there.map(|(number, fate)| (*number, *fate)).collect()
        };
        let at = self.random(there.len().max(1) as u64) as usize;
        let Some((number, fate)) = there.get(at).copied() else { return };
        // No other client takes it from here on.
        let called = self.now();
        let set = |deleted, deletion| {
            let fate = Fate { deleted, deletion, ..fate };
            self.promises.0.lock().memories.insert(number, fate);
        };
        set(None, Some((called, None)));
        let deletion = DeleteMemory { id: memory_id(number), rejects: None };
        match self.submit(Command::of_tenant(TENANT, deletion)).await {
            Outcome::Done { .. } => set(Some(true), Some((called, Some(self.now())))),
            Outcome::Unknown => {}
            Outcome::NoEffect => set(Some(false), None),
        }
    }
}
