//! The storage engine without Raft, for benches: decide, encode, apply.

use std::sync::Arc;

use storage::model::cluster::{BatchId, Cluster, Member, Model};
use storage::model::id::{MemoryId, TenantId, Timestamp};
use storage::model::memory::{DecayClass, MemoryType};
use storage::model::tenant::{ApiKey, KeyId, Role};
use storage::model::vector::{ModelId, Vector};
use storage::{
    Action, Batch, Command, Draft, Entry, EntryBody, NewMemory, Options, Reader, Writer, codec,
    decide,
};
use tempfile::TempDir;

/// The tenant of all memories.
pub const TENANT: TenantId = TenantId(1);
/// The model of all vectors.
pub const MODEL: ModelId = ModelId([7; 8]);

/// An engine in a temporary folder.
pub struct Engine {
    writer: Writer,
    /// Reads its state.
    pub reader: Reader,
    folder: Arc<TempDir>,
}

/// A pseudo-random number: the output function of SplitMix64.
pub fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A memory with the id of a number.
pub fn memory(number: u64, label: String, vector: Vector) -> NewMemory {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_be_bytes());
    NewMemory {
        id: MemoryId(id),
        memory_type: MemoryType::ALL[number as usize % 6],
        namespace: "default".into(),
        decay_class: DecayClass::Normal,
        is_pinned: false,
        min_heat: 0.0,
        // As published clients send it: heats differ by age only.
        initial_heat: 0.8,
        key_points: Vec::new(),
        suggestions: Vec::new(),
        vector,
        label,
    }
}

/// Creates one memory.
pub fn create(memory: NewMemory) -> Command {
    let action = Action::CreateMemories(vec![memory]);
    Command { tenant: Some(TENANT), actor: None, receipt: None, action }
}

impl Engine {
    /// An empty engine for vectors of `dimension` components.
    pub fn empty(dimension: usize, options: Options) -> Self {
        let folder = Arc::new(TempDir::new().expect("a temporary folder"));
        let mut engine = Self::open(folder, options);
        let model = Model { id: MODEL, name: "bench".into(), dimension: dimension as u32 };
        let cluster = Cluster { id: [1; 16], members: vec![Member::new(1, [2; 16])], model };
        let key = ApiKey {
            name: "admin".into(),
            role: Role::Admin,
            hash: [0; 32],
            namespace: None,
            created_at: Timestamp(0),
            last_used_at: None,
        };
        let action = Action::Bootstrap { cluster, tenant: "t".into(), key_id: KeyId([0; 8]), key };
        let bootstrap = Command { tenant: None, actor: None, receipt: None, action };
        let batch = engine.decide(&[bootstrap]);
        engine.apply(&batch);
        engine
    }

    /// Opens the same data again.
    pub fn reopened(self, options: Options) -> Self {
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::open(folder, options)
    }

    fn open(folder: Arc<TempDir>, options: Options) -> Self {
        let (writer, reader, _log) = storage::open(folder.path(), options).expect("an engine");
        Self { writer, reader, folder }
    }

    /// Decides commands at one hour after the last batch.
    pub fn decide(&self, commands: &[Command]) -> Batch {
        let position = self.reader.position();
        let now = Timestamp(position.clock.0 + 3_600_000);
        let mut draft = Draft::new(&self.reader, now);
        for command in commands {
            decide(&mut draft, command).expect("decided");
        }
        draft.into_batch(BatchId { term: 1, counter: position.batch.counter + 1 })
    }

    /// Applies a batch.
    pub fn apply(&mut self, batch: &Batch) {
        let index = self.reader.position().index + 1;
        let body = EntryBody::Batch(codec::encode(batch));
        self.writer.apply(Entry { index, log_id: vec![1], body }).expect("it is applied");
    }
}
