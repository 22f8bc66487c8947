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
use storage::{
    Command, Filter, ListRequest, MemoryPatch, NewMemory, Order, Reply, ReplyValue, Sort,
    TierFilter, TouchedMemories,
};
use tokio::time::{Instant, sleep};

use crate::world::{Running, World};
use simulation::history::{
    Counter, CounterOperation, Event, Register, RegisterOperation, Set, SetOperation, Verdict,
    check,
};

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
/// Words that memories share.
const GROUPS: u64 = 3;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause between two requests of a client.
const PAUSE_MAX: Duration = Duration::from_millis(150);
/// Attempts with one receipt.
const ATTEMPTS: usize = 8;
/// Sets of operations that a check of a register examines.
const BUDGET: usize = 200_000;

/// What the clients were promised.
#[derive(Default)]
pub struct Promises(Mutex<Record>);

#[derive(Default)]
struct Record {
    next: u64,
    /// Operations on each register. `None` had no effect.
    registers: BTreeMap<u64, Vec<Option<Event<RegisterOperation>>>>,
    /// Reads of how often the trigger has fired.
    counts: Vec<Event<CounterOperation>>,
    /// Reads of the memories with a word.
    sets: BTreeMap<u64, Vec<Event<SetOperation>>>,
    /// Memories that were created once.
    memories: BTreeMap<u64, Fate>,
    /// Memories of which exactly one must be there, or at most one without an acknowledgement.
    alternatives: BTreeMap<u64, Alternatives>,
    /// Operations that returned.
    completed: u64,
}

/// Whether a memory was created, and deleted after that; `None` if that is unknown.
#[derive(Clone, Copy)]
struct Fate {
    /// When the creation was called and returned.
    called: u64,
    returned: Option<u64>,
    created: Option<bool>,
    deleted: Option<bool>,
    /// When its deletion was called and returned.
    deletion: Option<(u64, Option<u64>)>,
}

/// Attempts to create one memory with one receipt.
#[derive(Clone)]
struct Alternatives {
    numbers: Vec<u64>,
    called: u64,
    /// When one of them was acknowledged.
    returned: Option<u64>,
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

/// The number of a memory, if a client has created it.
fn number_of(id: MemoryId) -> Option<u64> {
    u64::try_from(u128::from_be_bytes(id.0)).ok()
}

/// The label of a memory, with a word that others have too.
fn label_of(number: u64) -> String {
    format!("memory {number} group{}", number % GROUPS)
}

/// The memories with the word of a group.
fn with_word(group: u64) -> ListRequest {
    let words = Some(vec![format!("group{group}")]);
    ListRequest {
        filter: Filter { words, tier: TierFilter::All, ..Filter::default() },
        sort: Sort::CreatedAt,
        order: Order::Ascending,
        after: None,
        offset: 0,
        limit: 10_000,
        min_heat: None,
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

    /// Adds an operation to the history of a register. Returns its place.
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
        let mut attempts = Alternatives { numbers: Vec::new(), called, returned: None };
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
                let mut ids = attempts.numbers.iter().map(|number| memory_id(*number));
                if !id.is_some_and(|id| ids.any(|it| it == id)) {
                    let numbers = &attempts.numbers;
                    self.world.violate(format!("a receipt names {id:?} of {numbers:?}"));
                }
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
        // Another client may delete it as well: only one gets it.
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
pub fn preparations() -> [Command; 2] {
    let memories = (0..REGISTERS).map(|number| new_memory(number, format!("register {number}")));
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
            if found || fate.created == Some(true) {
                created += 1;
                add(*number, fate.called, fate.returned);
            }
        }
        for Alternatives { numbers, called, returned } in record.alternatives.values() {
            let there: Vec<u64> =
                numbers.iter().copied().filter(|number| is_there(*number)).collect();
            let count = there.len();
            if count > 1 || returned.is_some() && count == 0 {
                world.violate(format!("{count} of {numbers:?}, which have one receipt"));
            }
            if let Some(number) = there.first() {
                created += 1;
                add(*number, *called, *returned);
            }
        }
        for (number, fate) in &record.memories {
            if let Some((called, returned)) = fate.deletion {
                let operation = SetOperation::Remove(*number);
                sets.entry(number % GROUPS).or_default().push(Event {
                    called,
                    returned,
                    operation,
                });
            }
        }
        let fired = running.reader.firings(TENANT, TRIGGER).total;
        if fired != created {
            world.violate(format!("the trigger has fired {fired} times for {created} memories"));
        }
        report(world, "the counter", check(&Counter, &counts, BUDGET));
        for (group, history) in &sets {
            report(world, &format!("set {group}"), check(&Set, history, BUDGET));
        }
        for (register, history) in &record.registers {
            let history: Vec<_> = history.iter().flatten().cloned().collect();
            report(world, &format!("register {register}"), check(&Register, &history, BUDGET));
        }
    }
}

fn report(world: &World, what: &str, verdict: Verdict) {
    match verdict {
        Verdict::Linearizable => {}
        Verdict::Undecided => world.trace(&format!("{what}: undecided")),
        Verdict::Violation => world.violate(format!("the history of {what} is not linearizable")),
    }
}
