//! Benches of the engine's hot paths, each on one core: heat scan, exact scan, words, decide and
//! apply, codec. `make bench` runs them.

use std::sync::OnceLock;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use storage::command::AdvanceTick;
use storage::model::id::{KeyId, TriggerId};
use storage::model::memory::MemoryType;
use storage::model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use storage::model::vector::{Vector, dot};
use storage::text::tokenizer::words;
use storage::{Batch, Command, HotRequest, NewMemory, Options, SearchRequest, codec};
use tests::engine::{
    Engine, MODEL, TENANT, command, create, create_trigger, memory_id, new_memory, random, trigger,
};

const TEXT: &str = "Reverting a deployment: run the previous build again, wait for the canary to \
                    go green, then tell the release channel what was rolled back and why.";

fn main() {
    divan::main();
}

/// An engine with memories of `dimension` components, and the number of the next one.
struct Filled {
    engine: Engine,
    next: u64,
    dimension: usize,
}

fn vector(seed: u64, dimension: usize) -> Vector {
    let component = |at: usize| (random(seed * 1_000 + at as u64) >> 40) as f32 / 1e7 - 0.8;
    let components: Vec<f32> = (0..dimension).map(component).collect();
    Vector::quantise(MODEL, &components).expect("random numbers have a direction")
}

fn memory(number: u64, label: &str, vector: Vector) -> NewMemory {
    let memory_type = MemoryType::ALL[number as usize % 6];
    // As published clients send it: heats differ by age only.
    NewMemory { memory_type, initial_heat: 0.8, vector, ..new_memory(memory_id(number), label) }
}

impl Filled {
    fn new(count: usize, dimension: usize) -> Self {
        // Scans only: the binary `recall` measures graphs.
        let options = Options { exact_max: usize::MAX, ..Options::default() };
        let mut filled =
            Self { engine: Engine::bootstrapped(dimension, options), next: 0, dimension };
        for _ in 0..count.div_ceil(200) {
            let batch = filled.creates(200);
            filled.engine.apply(&batch);
        }
        filled
    }

    fn command(&mut self) -> Command {
        let n = self.next;
        self.next += 1;
        let label = format!(
            "memory {n} about topic{} and subject{} of group{}",
            random(n) % 5_000,
            random(n + 1) % 500,
            n % 50
        );
        let memory = memory(n, &label, vector(n, self.dimension));
        create(NewMemory { is_pinned: n.is_multiple_of(97), ..memory })
    }

    /// Decides commands at 3.6 s after the last batch.
    fn decide(&self, commands: &[Command]) -> Batch {
        let now = self.engine.reader.position().clock.0 + 3_600_000;
        let (decisions, batch) = self.engine.decide(now, commands);
        assert!(decisions.iter().all(Result::is_ok));
        batch
    }

    fn creates(&mut self, count: usize) -> Batch {
        let commands: Vec<_> = (0..count).map(|_| self.command()).collect();
        self.decide(&commands)
    }
}

/// 10,000 memories of 384 components.
fn ten_thousand() -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| Filled::new(10_000, 384))
}

/// A million memories. Their vectors are short, because heat scans do not read them.
fn million() -> &'static Filled {
    static FILLED: OnceLock<Filled> = OnceLock::new();
    FILLED.get_or_init(|| Filled::new(1_000_000, 16))
}

#[divan::bench(sample_count = 100)]
fn exact_scan_of_10_000_by_384(bencher: Bencher<'_, '_>) {
    let reader = &ten_thousand().engine.reader;
    let query = vector(99_999_999, 384).components().expect("a direction");
    let request = SearchRequest { vector: Some(query), limit: 10, ..SearchRequest::default() };
    bencher
        .counter(ItemsCount::new(10_000_u32))
        .bench(|| reader.search(TENANT, black_box(&request)).expect("it is read"));
}

#[divan::bench(sample_count = 100)]
fn search_of_10_000_with_four_words(bencher: Bencher<'_, '_>) {
    let reader = &ten_thousand().engine.reader;
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
    let reader = &million().engine.reader;
    let request = HotRequest { pinned_first: false, limit: 10, ..HotRequest::default() };
    bencher
        .counter(ItemsCount::new(1_000_000_u32))
        .bench(|| reader.hottest(TENANT, black_box(&request)).expect("it is read"));
}

#[divan::bench(sample_count = 30)]
fn tick_over_1_000_000(bencher: Bencher<'_, '_>) {
    let (filled, tick) = (million(), [command(AdvanceTick(None))]);
    bencher.counter(ItemsCount::new(1_000_000_u32)).bench(|| filled.decide(black_box(&tick)));
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

/// The cost of triggers for a create with a label of 1 kB. Of 1,000 on its event, one fires.
#[divan::bench(args = [0, 1_000], sample_count = 1_000)]
fn decide_create_with_triggers(bencher: Bencher<'_, '_>, triggers: usize) {
    let word = |seed: usize| random(seed as u64) % 10_000;
    // Made of the words of labels, but in no label.
    let pattern = |number| match number {
        0 => "WORD".to_owned(),
        number => format!("WORD{} word{}", word(7_000 + 2 * number), word(7_001 + 2 * number)),
    };
    let (filled, command) = with_triggers((0..triggers).map(|n| notify(n, pattern(n), None)));
    bencher.bench_local(|| filled.decide(black_box(&command)));
}

/// The same beside 1,000 triggers whose filters match and whose `max_fires` is reached.
#[divan::bench(sample_count = 1_000)]
fn decide_create_with_spent_triggers(bencher: Bencher<'_, '_>) {
    let (mut filled, command) =
        with_triggers((0..1_000).map(|n| notify(n, "WORD".into(), Some(1))));
    let batch = filled.decide(&command);
    filled.engine.apply(&batch);
    let command = [create(memory(filled.next + 1, &label(), vector(7, 384)))];
    bencher.bench_local(|| filled.decide(black_box(&command)));
}

/// An engine with triggers, and a command to create a memory with a label of 1 kB.
fn with_triggers(triggers: impl Iterator<Item = Command>) -> (Filled, [Command; 1]) {
    let mut filled = Filled::new(1_000, 384);
    let batch = filled.decide(&triggers.collect::<Vec<_>>());
    filled.engine.apply(&batch);
    let command = [create(memory(filled.next, &label(), vector(7, 384)))];
    (filled, command)
}

fn label() -> String {
    let label: String = (0..).map(|n| format!("word{} ", random(n) % 10_000)).take(120).collect();
    label[..1_000].to_owned()
}

/// A trigger of the admin, for labels that contain `pattern`.
fn notify(number: usize, pattern: String, max_fires: Option<u64>) -> Command {
    let trigger = Trigger {
        name: format!("trigger {number}"),
        filter: TriggerFilter { label_pattern: Some(pattern), ..TriggerFilter::default() },
        max_fires,
        owner: Some(KeyId([0; 8])),
        ..trigger(TriggerEvent::Store, TriggerAction::Notify(None))
    };
    let id = TriggerId(memory_id(number as u64).0);
    Command { actor: Some(KeyId([0; 8])), ..create_trigger(id, trigger) }
}

#[divan::bench(sample_count = 30)]
fn apply_64_creates(bencher: Bencher<'_, '_>) {
    let filled = std::cell::RefCell::new(Filled::new(1_000, 384));
    bencher
        .counter(ItemsCount::new(64_u32))
        .with_inputs(|| filled.borrow_mut().creates(64))
        .bench_local_values(|batch| filled.borrow_mut().engine.apply(&batch));
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
