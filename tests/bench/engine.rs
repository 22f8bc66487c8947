//! Benches of the engine's hot paths, one core each: heat scan, exact scan,
//! words, decide and apply, codec. `make bench` runs them.

use std::sync::OnceLock;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use storage::model::cluster::{BatchId, Cluster, Member, Model};
use storage::model::id::{MemoryId, TenantId, Timestamp};
use storage::model::memory::{DecayClass, MemoryType};
use storage::model::tenant::{ApiKey, KeyId, Role};
use storage::model::vector::{ModelId, Vector, dot};
use storage::model::words::words;
use storage::{
    Action, Batch, Body, Command, Draft, Entry, HotRequest, NewMemory, Options, Reader,
    SearchRequest, Writer, codec, decide,
};
use tempfile::TempDir;

const TENANT: TenantId = TenantId(1);
const MODEL: ModelId = ModelId([7; 8]);
const TEXT: &str = "Reverting a deployment: run the previous build again, wait for the canary to \
                    go green, then tell the release channel what was rolled back and why.";

fn main() {
    divan::main();
}

/// An engine with `count` memories of `dimension` components.
struct Filled {
    writer: Writer,
    reader: Reader,
    next: u64,
    dimension: usize,
    _folder: TempDir,
}

/// A generator of its own, so that every run sees the same data.
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn vector(seed: u64, dimension: usize) -> Vector {
    let component = |at: usize| (random(seed * 1_000 + at as u64) >> 40) as f32 / 1e7 - 0.8;
    let components: Vec<f32> = (0..dimension).map(component).collect();
    Vector::quantise(MODEL, &components).expect("random numbers have a direction")
}

impl Filled {
    fn new(count: usize, dimension: usize) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (writer, reader, _log) =
            storage::open(folder.path(), Options::default()).expect("an engine");
        let mut filled = Self { writer, reader, next: 0, dimension, _folder: folder };
        let model = Model { id: MODEL, name: "bench".into(), dimension: dimension as u32 };
        let cluster = Cluster { id: [1; 16], members: vec![Member::new(1, [2; 16])], model };
        let key = ApiKey {
            name: "admin".into(),
            role: Role::Admin,
            hash: [0; 32],
            namespace: None,
            created_at: Timestamp(0),
        };
        let form = Action::Form { cluster, tenant: "t".into(), key_id: KeyId([0; 8]), key };
        let form = Command { tenant: None, actor: None, receipt: None, action: form };
        let batch = filled.decide(&[form]);
        filled.apply(&batch);
        for _ in 0..count.div_ceil(200) {
            let batch = filled.creates(200);
            filled.apply(&batch);
        }
        filled
    }

    fn command(&mut self) -> Command {
        let n = self.next;
        self.next += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&n.to_be_bytes());
        let label = format!(
            "memory {n} about topic{} and subject{} of group{}",
            random(n) % 5_000,
            random(n + 1) % 500,
            n % 50
        );
        let new = NewMemory {
            id: MemoryId(id),
            memory_type: MemoryType::ALL[n as usize % 6],
            namespace: "default".into(),
            decay_class: DecayClass::Normal,
            is_pinned: n.is_multiple_of(97),
            min_heat: 0.0,
            // What published clients send: all begin alike, and age tells them apart.
            initial_heat: 0.8,
            key_points: Vec::new(),
            vector: vector(n, self.dimension),
            label,
        };
        let action = Action::Create(vec![new]);
        Command { tenant: Some(TENANT), actor: None, receipt: None, action }
    }

    fn decide(&self, commands: &[Command]) -> Batch {
        let position = self.reader.position();
        let now = Timestamp(position.clock.0 + 3_600 * 1_000);
        let mut draft = Draft::new(&self.reader, now);
        for command in commands {
            decide(&mut draft, command).expect("the state is read").expect("no refusal");
        }
        draft.into_batch(BatchId { term: 1, counter: position.batch.counter + 1 })
    }

    fn creates(&mut self, count: usize) -> Batch {
        let commands: Vec<_> = (0..count).map(|_| self.command()).collect();
        self.decide(&commands)
    }

    fn apply(&mut self, batch: &Batch) {
        let index = self.reader.position().index + 1;
        let body = Body::Batch(codec::encode(batch));
        self.writer.apply(Entry { index, log_id: vec![1], body }).expect("it is applied");
    }
}

/// 10,000 memories of 384 components.
fn ten_thousand() -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| Filled::new(10_000, 384))
}

/// A million memories; their vectors are short, since heat does not look at them.
fn million() -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| Filled::new(1_000_000, 16))
}

#[divan::bench(sample_count = 100)]
fn exact_scan_of_10_000_by_384(bencher: Bencher<'_, '_>) {
    let reader = &ten_thousand().reader;
    let query = vector(99_999_999, 384).components().expect("a direction");
    let request = SearchRequest { vector: Some(query), limit: 10, ..SearchRequest::default() };
    bencher
        .counter(ItemsCount::new(10_000_u32))
        .bench(|| reader.search(TENANT, black_box(&request)).expect("it is read"));
}

#[divan::bench(sample_count = 100)]
fn search_of_10_000_with_four_words(bencher: Bencher<'_, '_>) {
    let reader = &ten_thousand().reader;
    let query = vector(99_999_999, 384).components().expect("a direction");
    let request = SearchRequest {
        query: "memory about topic17 and subject99 of group7".into(),
        vector: Some(query),
        limit: 20,
        ..SearchRequest::default()
    };
    bencher.bench(|| reader.search(TENANT, black_box(&request)).expect("it is read"));
}

#[divan::bench(sample_count = 30)]
fn heat_scan_of_1_000_000(bencher: Bencher<'_, '_>) {
    let reader = &million().reader;
    let request = HotRequest { pinned_first: false, limit: 10, ..HotRequest::default() };
    bencher
        .counter(ItemsCount::new(1_000_000_u32))
        .bench(|| reader.hottest(TENANT, black_box(&request)).expect("it is read"));
}

#[divan::bench]
fn dot_of_384(bencher: Bencher<'_, '_>) {
    let (left, right) = (vector(1, 384), vector(2, 384));
    let (left, right) = (left.components().expect("ok"), right.components().expect("ok"));
    bencher.bench(|| dot(black_box(&left), black_box(&right)));
}

#[divan::bench]
fn words_of_a_label() -> Vec<String> {
    words(std::iter::once(black_box(TEXT)))
}

#[divan::bench(sample_count = 30)]
fn decide_64_creates(bencher: Bencher<'_, '_>) {
    let mut filled = Filled::new(1_000, 384);
    let commands: Vec<_> = (0..64).map(|_| filled.command()).collect();
    bencher.counter(ItemsCount::new(64_u32)).bench_local(|| filled.decide(black_box(&commands)));
}

#[divan::bench(sample_count = 30)]
fn apply_64_creates(bencher: Bencher<'_, '_>) {
    let filled = std::cell::RefCell::new(Filled::new(1_000, 384));
    bencher
        .counter(ItemsCount::new(64_u32))
        .with_inputs(|| filled.borrow_mut().creates(64))
        .bench_local_values(|batch| filled.borrow_mut().apply(&batch));
}

#[divan::bench]
fn encode_a_batch_of_64(bencher: Bencher<'_, '_>) {
    let batch = Filled::new(0, 384).creates(64);
    bencher.bench(|| codec::encode(black_box(&batch)));
}

#[divan::bench]
fn decode_a_batch_of_64(bencher: Bencher<'_, '_>) {
    let bytes = codec::encode(&Filled::new(0, 384).creates(64));
    bencher.bench(|| codec::decode::<Batch>(black_box(&bytes)).expect("it is whole"));
}
