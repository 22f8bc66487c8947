//! One engine without Raft: tests and benches decide, encode and apply batches themselves.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage::codec::Record;
use storage::command::*;
use storage::model::analytics::{Report, ReturnedMemory, TenantReport, Usage};
use storage::model::api_key::NewApiKey;
use storage::model::audit::KeyUse;
use storage::model::cluster::{Cluster, Member, Model};
use storage::model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use storage::model::memory::Origin;
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_DEFAULT};
use storage::model::release::Release;
use storage::model::tenant::{OwnLimits, Role};
use storage::model::thermo::SettingValue;
use storage::model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use storage::model::vector::{ModelId, Vector};
use storage::text::tokenizer::words;
use storage::{
    Accepted, ApplyOutcome, Batch, CREATE_MAX, DecideError, Draft, Entry, EntryBody, NewMemory,
    Options, Reader, Rejection, Reply, SearchRequest, Writer, codec, decide,
};
use tempfile::TempDir;

/// A decided command: its reply, or the rule that rejected it.
pub type Decision = Result<Reply, Rejection>;

/// The tenant of all memories.
pub const TENANT: TenantId = TenantId(1);
/// The model of all vectors.
pub const MODEL: ModelId = ModelId([7; 8]);
/// The Raft term of all batches.
const TERM: u64 = 1;
/// Longest time for a graph.
const GRAPH_MAX: Duration = Duration::from_secs(3_600);
/// Components of [`vector`].
pub const DIMENSION: usize = 8;

/// A number in the environment, or `default`.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The increment of SplitMix64 (Steele, Lea and Flood, 2014).
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A pseudo-random number of a seed.
pub fn random(seed: u64) -> u64 {
    mix(seed.wrapping_mul(GOLDEN_GAMMA))
}

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

/// The id of a number. Ids have the order of their numbers.
pub fn memory_id(number: impl Into<u128>) -> MemoryId {
    MemoryId(number.into().to_be_bytes())
}

/// A memory of the label's [`vector`], with defaults.
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
        supersedes: None,
        on_duplicate: None,
        origin: Origin::default(),
        folds: Vec::new(),
        details: None,
        times: Default::default(),
        external_id: None,
        guard: Default::default(),
        unless_rejected: Vec::new(),
    }
}

/// A key without a namespace of its own.
pub fn api_key(name: &str, role: Role) -> NewApiKey {
    NewApiKey {
        name: name.into(),
        role,
        hash: [0; 32],
        namespace: None,
        namespaces: Vec::new(),
        lifetime_seconds: None,
    }
}

/// A trigger without filters and limits.
pub fn trigger(event: TriggerEvent, action: TriggerAction) -> Trigger {
    Trigger {
        number: 0,
        name: String::new(),
        description: String::new(),
        event,
        action,
        namespace: None,
        filter: TriggerFilter::default(),
        max_fires: None,
        cooldown_seconds: 0,
        enabled: true,
        owner: None,
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }
}

/// A command of [`TENANT`].
pub fn command(action: impl Into<TenantAction>) -> Command {
    Command::of_tenant(TENANT, action)
}

/// A command or a reply as another node gets it.
fn sent<R: Record>(record: &R) -> R {
    codec::decode(&codec::encode(record)).expect("an encoded record can be decoded")
}

/// Creates a cluster with vectors of `dimension` components and the admin key `[0; 8]`.
pub fn bootstrap(dimension: usize) -> Command {
    let model = Model::new(MODEL, "test".into(), dimension as u32);
    let cluster = Cluster {
        id: [1; 16],
        members: vec![Member::new(1, [2; 16])],
        model,
        restored: None,
        release: Release::own(),
    };
    let (tenant, key_id, key) = ("default".into(), KeyId([0; 8]), api_key("admin", Role::Admin));
    Command::of_cluster(Bootstrap { cluster, tenant, key_id, key })
}

/// Creates a tenant with an admin key.
pub fn create_tenant(name: &str, tier: &str, key_id: KeyId) -> Command {
    let tenant = NewTenant { name: name.into(), tier: Some(tier.into()), limits: OwnLimits::new() };
    let key = api_key("admin", Role::Admin);
    Command::of_cluster(CreateTenant { tenant, key_id, key })
}

/// Creates one memory.
pub fn create(memory: NewMemory) -> Command {
    command(CreateMemories(vec![memory]))
}

/// Creates a trigger.
pub fn create_trigger(id: TriggerId, trigger: Trigger) -> Command {
    command(CreateTrigger { id, trigger: Box::new(trigger) })
}

/// Changes one setting.
pub fn configure(name: &str, value: f64) -> Command {
    command(UpdateSettings(vec![(name.into(), SettingValue::Number(value))]))
}

/// Reports searches of [`TENANT`] on node 1, one of them with results.
pub fn report(number: u64, searches: u64, usage: Usage, recalls: Vec<(MemoryId, u32)>) -> Command {
    let of_owner =
        |(id, times): &(MemoryId, u32)| ReturnedMemory { owner: None, id: *id, times: *times };
    let returned = recalls.iter().map(of_owner).collect();
    report_returned(number, searches, usage, recalls, returned)
}

/// [`report`] of memories that were recalled, and of those that were returned.
pub fn report_returned(
    number: u64,
    searches: u64,
    usage: Usage,
    recalls: Vec<(MemoryId, u32)>,
    returned: Vec<ReturnedMemory>,
) -> Command {
    let tenant = TenantReport {
        recalls,
        returned,
        searches,
        searches_with_results: 1,
        usage,
        ..TenantReport::empty(TENANT)
    };
    report_of(number, vec![tenant])
}

/// A report of kinds of use of keys.
pub fn report_uses(number: u64, uses: Vec<(KeyId, KeyUse)>) -> Command {
    report_of(number, vec![TenantReport { uses, ..TenantReport::empty(TENANT) }])
}

/// A report of tenants.
pub fn report_of(number: u64, tenants: Vec<TenantReport>) -> Command {
    let report = Report { node: 1, boot: 1, number, tenants };
    Command::of_cluster(RecordReport(report))
}

/// The state of one node, as leader or as follower. Times are in microseconds.
pub struct Engine {
    /// Writes its state.
    pub writer: Writer,
    /// Reads its state.
    pub reader: Reader,
    folder: Arc<TempDir>,
}

impl Engine {
    /// An engine in a new folder, without a cluster.
    pub fn empty(options: Options) -> Self {
        Self::open(Arc::new(TempDir::new().expect("a temporary folder")), options)
    }

    /// An engine with a cluster, at time 0.
    pub fn bootstrapped(dimension: usize, options: Options) -> Self {
        let mut engine = Self::empty(options);
        engine.run(0, &[bootstrap(dimension)]);
        engine
    }

    /// Opens the data in a folder.
    pub fn open(folder: Arc<TempDir>, options: Options) -> Self {
        let (writer, reader, _log) =
            storage::open(folder.path(), options, |_| Ok(0)).expect("an engine");
        Self { writer, reader, folder }
    }

    /// Opens the same data again.
    pub fn reopened(self, options: Options) -> Self {
        let folder = Arc::clone(&self.folder);
        drop(self);
        Self::open(folder, options)
    }

    /// The folder of its data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Decides commands into one batch at the time `now`.
    pub fn decide(&self, now: i64, commands: &[Command]) -> (Vec<Decision>, Batch) {
        let (all, batch) = self.accepted(now, commands);
        (all.into_iter().map(|one| one.map(|accepted| accepted.reply)).collect(), batch)
    }

    /// [`Self::decide`], with the notifications of triggers that fired.
    pub fn accepted(
        &self,
        now: i64,
        commands: &[Command],
    ) -> (Vec<Result<Accepted, Rejection>>, Batch) {
        let mut draft = Draft::new(&self.reader, Timestamp(now));
        let decided = |command: &Command| match decide(&mut draft, &sent(command)) {
            Ok(accepted) => Ok(sent(&accepted)),
            Err(DecideError::Rejected(rejection)) => Err(rejection),
            Err(DecideError::Fault(fault)) => panic!("the state cannot be read: {fault}"),
        };
        let decisions = commands.iter().map(decided).collect();
        (decisions, draft.into_batch(TERM))
    }

    /// Applies a batch as the next log entry.
    pub fn apply(&mut self, batch: &Batch) -> ApplyOutcome {
        let position = self.reader.position();
        let index = if position.log_id.is_empty() { 0 } else { position.index + 1 };
        self.apply_at(index, codec::encode(batch))
    }

    /// Applies the log entry at an index.
    pub fn apply_at(&mut self, index: u64, bytes: Vec<u8>) -> ApplyOutcome {
        let log_id = index.to_be_bytes().to_vec();
        let entry = Entry { index, log_id, body: EntryBody::Batch(&bytes) };
        self.writer.apply(entry).expect("it is applied")
    }

    /// Decides commands and applies their batch.
    pub fn submit(&mut self, now: i64, commands: &[Command]) -> Vec<Decision> {
        let (decisions, batch) = self.decide(now, commands);
        assert_eq!(self.apply(&batch), ApplyOutcome::Done);
        decisions
    }

    /// Creates memories in full commands, 1,000 memories per batch.
    pub fn fill(&mut self, now: i64, memories: impl IntoIterator<Item = NewMemory>) {
        let memories: Vec<_> = memories.into_iter().collect();
        for batch in memories.chunks(20 * CREATE_MAX) {
            let chunks = batch.chunks(CREATE_MAX);
            let creates = chunks.map(|chunk| command(CreateMemories(chunk.to_vec())));
            self.run(now, &creates.collect::<Vec<_>>());
        }
    }

    /// Waits until searches use a graph that covers all memories.
    pub fn wait_for_graph(&self, query: &Vector) {
        let (started, before) = (Instant::now(), self.reader.searches().by_graph());
        let vector = Some(query.components().expect("a direction"));
        let request = SearchRequest { vector, limit: 1, ..SearchRequest::default() };
        while self.reader.searches().by_graph() == before {
            let counts = self.reader.graph_counts(TENANT);
            assert!(started.elapsed() < GRAPH_MAX, "no graph: {counts:?}");
            std::thread::sleep(Duration::from_millis(500));
            if counts.covered > 0 && counts.missing == 0 {
                self.reader.search(TENANT, &request).expect("it is read");
            }
        }
    }

    /// [`Self::submit`] of commands that must succeed.
    pub fn run(&mut self, now: i64, commands: &[Command]) -> Vec<Reply> {
        self.submit(now, commands).into_iter().map(|reply| reply.expect("it is decided")).collect()
    }
}
