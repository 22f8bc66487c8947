//! Clients, which use any node and record what they were promised; and the check of that at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use raft::{NodeId, SubmitError};
use storage::command::{Bootstrap, CreateMemories, CreateTrigger, DeleteMemory, UpdateMemory};
use storage::model::api_key::NewApiKey;
use storage::model::cluster::{Cluster, Member, Model};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_DEFAULT};
use storage::model::receipt::{ReceiptKey, ReceiptRequest};
use storage::model::release::Release;
use storage::model::tenant::Role;
use storage::model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use storage::model::vector::{ModelId, Vector};
use storage::{Command, MemoryPatch, NewMemory, Reply, ReplyValue, TouchedMemories};
use tokio::time::{Instant, sleep};

use crate::history::{Event, Register, RegisterOperation, Verdict, check};
use crate::world::{Running, World};

/// The tenant of all memories.
pub const TENANT: TenantId = TenantId(1);
/// Its key.
pub const KEY: KeyId = KeyId([0; 8]);
/// The model of all vectors.
pub const MODEL: ModelId = ModelId([7; 8]);
/// Components of a vector.
pub const DIMENSION: usize = 4;
/// The trigger that fires for each memory.
pub const TRIGGER: TriggerId = TriggerId([9; 16]);
/// Registers that all clients write.
const REGISTERS: u64 = 3;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause between two requests of a client.
const PAUSE_MAX: Duration = Duration::from_millis(150);
/// Attempts with one receipt.
const ATTEMPTS: usize = 8;
/// Sets of operations that a check of a register examines.
const BUDGET: usize = 2_000_000;

/// What the clients were promised.
#[derive(Default)]
pub struct Promises(Mutex<Record>);

#[derive(Default)]
struct Record {
    next: u64,
    /// Operations on each shared register.
    registers: BTreeMap<u64, Vec<Event<RegisterOperation>>>,
    /// Memories that were created once.
    memories: BTreeMap<u64, Fate>,
    /// Memories of which exactly one must be there, or at most one without an acknowledgement.
    alternatives: BTreeMap<u64, (Vec<u64>, bool)>,
    /// Operations that returned.
    completed: u64,
}

/// Whether a memory was created, and deleted after that; `None` if that is unknown.
#[derive(Clone, Copy)]
struct Fate {
    created: Option<bool>,
    deleted: Option<bool>,
}

impl Fate {
    /// Whether it must be there, or must not.
    fn is_there(self) -> Option<bool> {
        match (self.created, self.deleted) {
            (Some(false), _) | (_, Some(true)) => Some(false),
            (Some(true), Some(false)) => Some(true),
            _ => None,
        }
    }
}

/// What became of a command.
enum Outcome {
    Done { index: u64, reply: Box<Reply> },
    Unknown,
    NoEffect,
}

/// The id of a number.
pub fn memory_id(number: u64) -> MemoryId {
    MemoryId(u128::from(number).to_be_bytes())
}

fn vector() -> Vector {
    Vector::quantise(MODEL, &[1.0; DIMENSION]).expect("it has a length")
}

/// A memory with this number.
pub fn new_memory(number: u64, label: String) -> NewMemory {
    NewMemory {
        id: memory_id(number),
        label,
        memory_type: MemoryType::Episodic,
        namespace: NAMESPACE_DEFAULT.into(),
        decay_class: DecayClass::Normal,
        is_pinned: false,
        min_heat: 0.0,
        initial_heat: 1.0,
        key_points: Vec::new(),
        vector: vector(),
        suggestions: Vec::new(),
        supersedes: None,
        on_duplicate: None,
        origin: Default::default(),
        folds: Vec::new(),
        details: None,
        times: Default::default(),
        external_id: None,
        guard: Default::default(),
        unless_rejected: Vec::new(),
    }
}

fn value_of(label: &str) -> Option<u64> {
    label.strip_prefix("value ")?.parse().ok()
}

/// A client.
pub struct Client {
    world: Arc<World>,
    promises: Arc<Promises>,
    number: u64,
    /// What it has written to its own register, and when that was acknowledged.
    own: Vec<(u64, Instant)>,
}

impl Client {
    /// A client with this number.
    pub fn new(world: &Arc<World>, promises: &Arc<Promises>, number: u64) -> Self {
        let (world, promises) = (Arc::clone(world), Arc::clone(promises));
        Self { world, promises, number, own: Vec::new() }
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
            match self.random(12) {
                0..3 => self.write_register().await,
                3..6 => self.read_register().await,
                6 => self.create().await,
                7 => self.create_with_receipt().await,
                8 => self.delete().await,
                9 => self.write_own().await,
                _ => self.read_own().await,
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

    async fn write_register(&self) {
        let (register, value, called) = (self.random(REGISTERS), self.next(), self.now());
        let outcome = self.submit(set(register, value)).await;
        let returned = match outcome {
            Outcome::Done { .. } => Some(self.now()),
            Outcome::Unknown => None,
            Outcome::NoEffect => return,
        };
        let operation = RegisterOperation::Write(value);
        self.record(register, Event { called, returned, operation });
        self.world.trace(&format!("client {} writes {value}: {returned:?}", self.number));
    }

    fn record(&self, register: u64, event: Event<RegisterOperation>) {
        self.promises.0.lock().registers.entry(register).or_default().push(event);
    }

    async fn read_register(&self) {
        let (register, called) = (self.random(REGISTERS), self.now());
        let Some(value) = self.read_linearizable(register).await else { return };
        let (returned, operation) = (Some(self.now()), RegisterOperation::Read(value));
        self.record(register, Event { called, returned, operation });
        self.world.trace(&format!("client {} reads {value:?}", self.number));
    }

    /// The value of a register; `None` without a response.
    async fn read_linearizable(&self, register: u64) -> Option<Option<u64>> {
        let (node, running) = self.world.any_member()?;
        let started = self.world.with_node(node, |it| it.starts);
        running.handle.read_index(Instant::now() + TIMEOUT).await.ok()?;
        let is_same = self.world.with_node(node, |it| it.process.is_some() && it.starts == started);
        let value = self.read(&running, register);
        is_same.then_some(value)
    }

    fn read(&self, running: &Running, register: u64) -> Option<u64> {
        match running.reader.get(TENANT, memory_id(register)) {
            Ok(found) => found.and_then(|found| value_of(&found.memory.label)),
            Err(error) => {
                self.world.violate(format!("a read fails: {error}"));
                None
            }
        }
    }

    /// A register that only this client writes, with ascending values.
    fn own_register(&self) -> u64 {
        100 + self.number
    }

    async fn write_own(&mut self) {
        let value = self.next();
        let Some((node, running)) = self.world.any_member() else { return };
        let command = set(self.own_register(), value);
        let Outcome::Done { index, .. } = self.submit_at(node, &running, command).await else {
            return;
        };
        self.own.push((value, Instant::now()));
        self.world.trace(&format!("client {} has written {value} at {index}", self.number));
        // Another node has it once it has applied that index.
        let Some((other, running)) = self.world.any_member() else { return };
        if running.handle.wait_applied(index, Instant::now() + TIMEOUT).await.is_ok() {
            let found = self.read(&running, self.own_register());
            if found.is_none_or(|found| found < value) {
                self.world.violate(format!(
                    "node {other} has applied {index} and returns {found:?} for {value}"
                ));
            }
        }
    }

    /// Reads its register from the state of some node: what was acknowledged before the staleness that the
    /// node reports is there.
    async fn read_own(&self) {
        let Some((node, running)) = self.world.any_member() else { return };
        if self.world.with_node(node, |it| *it.paused.borrow()) {
            return;
        }
        let Some(staleness) = running.handle.staleness() else { return };
        let found = self.read(&running, self.own_register());
        let since = Instant::now().checked_sub(staleness);
        let acknowledged = |(_, at): &&(u64, Instant)| since.is_some_and(|since| *at < since);
        let expected = self.own.iter().rfind(acknowledged).map(|(value, _)| *value);
        if found < expected {
            self.world.violate(format!(
                "node {node} returns {found:?} with a staleness of {staleness:?}: {expected:?} was \
                 acknowledged before that"
            ));
        }
    }

    async fn create(&self) {
        let number = self.next();
        let memory = new_memory(number, format!("memory {number}"));
        let set = |created| {
            let fate = Fate { created, deleted: Some(false) };
            self.promises.0.lock().memories.insert(number, fate);
        };
        // The run may end before the response arrives.
        set(None);
        let created = match self.submit(create(memory)).await {
            Outcome::Done { .. } => Some(true),
            Outcome::Unknown => None,
            Outcome::NoEffect => Some(false),
        };
        set(created);
        self.world.trace(&format!("client {} creates {number}: {created:?}", self.number));
    }

    async fn create_with_receipt(&self) {
        let key = self.next();
        let set = |numbers: &[u64], is_acknowledged| {
            let attempts = (numbers.to_vec(), is_acknowledged);
            self.promises.0.lock().alternatives.insert(key, attempts);
        };
        let mut numbers = Vec::new();
        for _ in 0..ATTEMPTS {
            let number = self.next();
            numbers.push(number);
            set(&numbers, false);
            let receipt = ReceiptRequest { key: receipt_key(key), body_hash: [1; 32] };
            let memory = new_memory(number, format!("memory {number}"));
            let command = Command { actor: Some(KEY), receipt: Some(receipt), ..create(memory) };
            match self.submit(command).await {
                Outcome::Done { reply, .. } => {
                    let touched = TouchedMemories::from_reply(*reply).map(|it| it.memories);
                    let id = touched.and_then(|memories| Some(memories.first()?.id));
                    let is_one = id.is_some_and(|id| numbers.iter().any(|it| memory_id(*it) == id));
                    if !is_one {
                        self.world.violate(format!("a receipt names {id:?} of {numbers:?}"));
                    }
                    return set(&numbers, true);
                }
                Outcome::Unknown | Outcome::NoEffect => {}
            }
            sleep(PAUSE_MAX).await;
        }
    }

    async fn delete(&self) {
        let number = {
            let record = self.promises.0.lock();
            let is_there = |fate: &Fate| fate.is_there() == Some(true);
            let there = record.memories.iter().filter(|(_, fate)| is_there(fate));
            let numbers: Vec<u64> = there.map(|(number, _)| *number).collect();
            drop(record);
            let at = self.random(numbers.len().max(1) as u64) as usize;
            numbers.get(at).copied()
        };
        let Some(number) = number else { return };
        // Another client may delete it as well: only one gets it.
        let set = |deleted| {
            let fate = Fate { created: Some(true), deleted };
            self.promises.0.lock().memories.insert(number, fate);
        };
        set(None);
        let deletion = DeleteMemory { id: memory_id(number), rejects: None };
        set(match self.submit(Command::of_tenant(TENANT, deletion)).await {
            Outcome::Done { .. } => Some(true),
            Outcome::Unknown => None,
            Outcome::NoEffect => Some(false),
        });
    }
}

fn receipt_key(number: u64) -> ReceiptKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

fn create(memory: NewMemory) -> Command {
    Command::of_tenant(TENANT, CreateMemories(vec![memory]))
}

fn set(register: u64, value: u64) -> Command {
    let label = Some((format!("value {value}"), vector()));
    let patch = Box::new(MemoryPatch { label, ..MemoryPatch::default() });
    Command::of_tenant(TENANT, UpdateMemory { id: memory_id(register), patch })
}

/// Creates the cluster.
pub fn bootstrap(members: Vec<Member>) -> Command {
    let model = Model::new(MODEL, "simulated".into(), DIMENSION as u32);
    let release = Release::own();
    let cluster = Cluster { id: [1; 16], members, model, restored: None, release };
    let key = NewApiKey {
        name: "admin".into(),
        role: Role::Admin,
        hash: [0; 32],
        namespace: None,
        namespaces: Vec::new(),
        lifetime_seconds: None,
    };
    Command::of_cluster(Bootstrap { cluster, tenant: "default".into(), key_id: KEY, key })
}

/// Creates the registers, and the trigger that fires for each memory from then on.
pub fn preparations(clients: u64) -> [Command; 2] {
    let numbers = (0..REGISTERS).chain((0..clients).map(|client| 100 + client));
    let memories = numbers.map(|number| new_memory(number, format!("register {number}")));
    let trigger = Trigger {
        number: 0,
        name: "each".into(),
        description: String::new(),
        event: TriggerEvent::Store,
        action: TriggerAction::Notify(None),
        namespace: None,
        filter: TriggerFilter::default(),
        max_fires: None,
        cooldown_seconds: 0,
        enabled: true,
        owner: None,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    };
    [
        Command::of_tenant(TENANT, CreateMemories(memories.collect())),
        Command::of_tenant(TENANT, CreateTrigger { id: TRIGGER, trigger: Box::new(trigger) }),
    ]
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
            found
                .map_err(|error| world.violate(format!("a read fails: {error}")))
                .ok()
                .flatten()
                .is_some()
        };
        let mut created = 0;
        for (number, fate) in &record.memories {
            let (expected, found) = (fate.is_there(), is_there(*number));
            if expected.is_some_and(|expected| expected != found) {
                world.violate(format!("memory {number} should be there: {expected:?}"));
            }
            created += u64::from(found || fate.created == Some(true));
        }
        for (numbers, is_acknowledged) in record.alternatives.values() {
            let count = numbers.iter().filter(|number| is_there(**number)).count();
            created += count as u64;
            if count > 1 || *is_acknowledged && count == 0 {
                world.violate(format!("{count} of {numbers:?}, which have one receipt"));
            }
        }
        let fired = running.reader.firings(TENANT, TRIGGER).total;
        if fired != created {
            world.violate(format!("the trigger has fired {fired} times for {created} memories"));
        }
        for (register, history) in &record.registers {
            match check(&Register, history, BUDGET) {
                Verdict::Linearizable => {}
                verdict => world.violate(format!("register {register}: {verdict:?} {history:?}")),
            }
        }
    }
}
