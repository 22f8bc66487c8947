//! The commands of a run, and what its memories contain.

use storage::command::{
    Bootstrap, BulkFilter, CreateMemories, CreateTrigger, DeleteMemories, GiveFeedback,
    UpdateMemory, UpdateSettings,
};
use storage::model::api_key::NewApiKey;
use storage::model::cluster::{Cluster, Member, Model};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_DEFAULT};
use storage::model::receipt::{ReceiptKey, ReceiptRequest};
use storage::model::release::Release;
use storage::model::tenant::Role;
use storage::model::thermo::SettingValue;
use storage::model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use storage::model::vector::{ModelId, Vector};
use storage::{
    Command, Filter, ListRequest, MemoryPatch, NewMemory, Order, Signal, Sort, TierFilter,
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
/// The trigger that fires when a memory has cooled a little.
pub const COOLING: TriggerId = TriggerId([8; 16]);
/// A trigger that fires for each memory, but only so often.
pub const LIMITED: TriggerId = TriggerId([7; 16]);
/// Its limit.
pub const FIRES_MAX: u64 = 20;
/// Heat that a memory has after some seconds.
pub const COOLER: f64 = 0.999_99;
/// Seconds between ticks.
const TICK_SECONDS: f64 = 4.0;
/// Registers that all clients write.
pub const REGISTERS: u64 = 3;
/// The memory of the last command.
pub const LAST: u64 = 900;
/// The memory to which clients give feedback.
pub const RATED: u64 = 901;
/// Words that memories share.
pub const GROUPS: u64 = 3;
/// Numbers of twins begin here.
pub const TWINS: u64 = 1 << 40;
/// The id of a number.
pub fn memory_id(number: u64) -> MemoryId {
    MemoryId(u128::from(number).to_be_bytes())
}

/// The vector of all memories.
pub fn vector() -> Vector {
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

/// The number of a memory.
pub fn number_of(id: MemoryId) -> Option<u64> {
    u64::try_from(u128::from_be_bytes(id.0)).ok()
}

/// The number of the memory that is created and deleted with this one, in one command.
pub fn twin_of(number: u64) -> u64 {
    number ^ TWINS
}

/// The label of a memory, with a word that others have too.
pub fn label_of(number: u64) -> String {
    format!("memory {number} group{}", number % GROUPS)
}

/// The memories that one command creates.
pub fn twins(number: u64) -> Vec<NewMemory> {
    [number, twin_of(number)].map(|it| new_memory(it, label_of(number))).into()
}

/// The memories with the word of a group.
pub fn with_word(group: u64) -> ListRequest {
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

/// The value in the label of a register.
pub fn value_of(label: &str) -> Option<u64> {
    label.strip_prefix("value ")?.parse().ok()
}

/// The key of a receipt.
fn receipt_key(number: u64) -> ReceiptKey {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// Creates memories.
pub fn create(memories: Vec<NewMemory>) -> Command {
    Command::of_tenant(TENANT, CreateMemories(memories))
}

/// Deletes a memory and its twin.
pub fn delete(number: u64) -> Command {
    let ids = [number, twin_of(number)].map(memory_id).into();
    let deletion = DeleteMemories { ids, filter: BulkFilter::default(), rejects: Vec::new() };
    Command::of_tenant(TENANT, deletion)
}

/// Gives feedback, which is counted and warms nothing.
pub fn rate() -> Command {
    let feedback = GiveFeedback { id: memory_id(RATED), signal: Signal::Wrong };
    Command::of_tenant(TENANT, feedback)
}

/// A command that is done once, however often it arrives.
pub fn once(key: u64, command: Command) -> Command {
    let receipt = ReceiptRequest { key: receipt_key(key), body_hash: [1; 32] };
    Command { actor: Some(KEY), receipt: Some(receipt), ..command }
}

/// Sets a register.
pub fn set(register: u64, value: u64) -> Command {
    let label = Some((format!("value {value}"), vector()));
    let patch = Box::new(MemoryPatch { label, ..MemoryPatch::default() });
    Command::of_tenant(TENANT, UpdateMemory { id: memory_id(register), patch })
}

/// Changes nothing of a register, and returns it.
pub fn touch(register: u64) -> Command {
    let patch = Box::new(MemoryPatch::default());
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

/// A command that no client has sent.
pub fn last_command() -> Command {
    create(vec![new_memory(LAST, "the last one".into())])
}

/// Creates the registers, the memory that gets feedback, and the triggers.
pub fn preparations() -> [Command; 5] {
    let memories = (0..REGISTERS).map(|number| new_memory(number, format!("register {number}")));
    let memories = memories.chain([new_memory(RATED, "rated".into())]);
    let interval = ("tick.interval".to_owned(), SettingValue::Number(TICK_SECONDS));
    let cooler = TriggerFilter { heat_below: Some(COOLER), ..TriggerFilter::default() };
    [
        create(memories.collect()),
        Command::of_tenant(TENANT, UpdateSettings(vec![interval])),
        create_trigger(TRIGGER, TriggerEvent::Store, TriggerFilter::default(), None),
        create_trigger(COOLING, TriggerEvent::Decay, cooler, None),
        create_trigger(LIMITED, TriggerEvent::Store, TriggerFilter::default(), Some(FIRES_MAX)),
    ]
}

fn create_trigger(
    id: TriggerId,
    event: TriggerEvent,
    filter: TriggerFilter,
    max_fires: Option<u64>,
) -> Command {
    let trigger = Trigger {
        number: 0,
        name: hex::encode(id.0),
        description: String::new(),
        event,
        action: TriggerAction::Notify(None),
        namespace: None,
        filter,
        max_fires,
        cooldown_seconds: 0,
        enabled: true,
        owner: None,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    };
    Command::of_tenant(TENANT, CreateTrigger { id, trigger: Box::new(trigger) })
}
