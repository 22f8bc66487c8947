//! One engine without Raft. A test decides, encodes and applies batches itself.

use std::path::Path;

use storage::model::cluster::{BatchId, Cluster, Member, Model};
use storage::model::id::{MemoryId, TenantId, Timestamp};
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_DEFAULT};
use storage::model::tenant::{ApiKey, KeyId, Role};
use storage::model::vector::{ModelId, Vector};
use storage::model::words::words;
use storage::{
    Action, ApplyOutcome, Batch, Command, DecideError, Draft, Entry, EntryBody, NewMemory, Options,
    Reader, Rejection, Reply, Writer, codec, decide,
};

/// A decided command: its reply, or the rule that rejected it.
pub type Decision = Result<Reply, Rejection>;

pub const TENANT: TenantId = TenantId(1);
pub const MODEL: ModelId = ModelId([7; 8]);
pub const DIMENSION: usize = 8;

/// A vector that depends on the words of a text.
pub fn vector(text: &str) -> Vector {
    let mut components = [0.01_f32; DIMENSION];
    for word in words(std::iter::once(text)) {
        for (at, byte) in word.bytes().enumerate() {
            components[(at + byte as usize) % DIMENSION] += f32::from(byte % 7) - 2.0;
        }
    }
    Vector::quantise(MODEL, &components).expect("never zero: every component starts at 0.01")
}

pub fn new_memory(id: MemoryId, label: &str) -> NewMemory {
    NewMemory {
        id,
        label: label.into(),
        memory_type: MemoryType::Episodic,
        namespace: NAMESPACE_DEFAULT.into(),
        decay_class: DecayClass::Normal,
        is_pinned: false,
        min_heat: 0.0,
        initial_heat: 1.0,
        key_points: Vec::new(),
        vector: vector(label),
        suggestions: Vec::new(),
    }
}

/// Creates a cluster with vectors of `dimension` components.
pub fn bootstrap(dimension: usize) -> Command {
    let model = Model { id: MODEL, name: "test".into(), dimension: dimension as u32 };
    let cluster = Cluster { id: [1; 16], members: vec![Member::new(1, [2; 16])], model };
    let key = ApiKey {
        name: "admin".into(),
        role: Role::Admin,
        hash: [0; 32],
        namespace: None,
        created_at: Timestamp(0),
        last_used_at: None,
    };
    let action =
        Action::Bootstrap { cluster, tenant: "default".into(), key_id: KeyId([0; 8]), key };
    Command { tenant: None, actor: None, receipt: None, action }
}

pub fn command(action: Action) -> Command {
    Command { tenant: Some(TENANT), actor: None, receipt: None, action }
}

/// The state of one node, as leader or as follower.
pub struct Engine {
    pub writer: Writer,
    pub reader: Reader,
    counter: u64,
}

impl Engine {
    pub fn open(folder: &Path, options: Options) -> Self {
        let (writer, reader, _log) = storage::open(folder, options).unwrap();
        Self { writer, reader, counter: 0 }
    }

    /// Decides commands into one batch at the time `now`.
    pub fn decide(&mut self, now: Timestamp, commands: &[Command]) -> (Vec<Decision>, Batch) {
        let mut draft = Draft::new(&self.reader, now);
        let decisions =
            commands.iter().map(|command| decided(decide(&mut draft, command))).collect();
        self.counter += 1;
        let term = self.reader.position().batch.term + u64::from(self.counter == 1);
        (decisions, draft.into_batch(BatchId { term, counter: self.counter }))
    }

    /// Applies a batch as the next log entry.
    pub fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let position = self.reader.position();
        let index = if position.log_id.is_empty() { 0 } else { position.index + 1 };
        self.apply_at(index, codec::encode(batch))
    }

    pub fn apply_at(&mut self, index: u64, bytes: Vec<u8>) -> ApplyOutcome {
        let log_id = index.to_be_bytes().to_vec();
        self.writer.apply(Entry { index, log_id, body: EntryBody::Batch(bytes) }).unwrap()
    }
}

fn decided(result: Result<Reply, DecideError>) -> Decision {
    match result {
        Ok(reply) => Ok(reply),
        Err(DecideError::Rejected(rejection)) => Err(rejection),
        Err(DecideError::Fault(fault)) => panic!("the state cannot be read: {fault}"),
    }
}
