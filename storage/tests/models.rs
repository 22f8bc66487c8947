//! A change of the embedding model: all memories get a vector of the next model beside the one in use,
//! then one entry switches. Replicas are equal to the byte, and a restart finds the same.

use storage::ImportedMemory;
use storage::backup::examine;
use storage::model::cluster::EmbeddedMemory;
use storage::model::cluster::Model;

use crate::common::*;

const NEXT: ModelId = ModelId([9; 8]);
const MEMORIES: u16 = 300;

fn next_model(dimension: usize) -> Model {
    Model::new(NEXT, "next".into(), dimension as u32)
}

/// A vector of the next model: that of the words, and components of zero after it.
fn next_vector(text: &str, dimension: usize) -> Vector {
    let mut components = vector(text).components().unwrap();
    components.resize(dimension, 0.0);
    Vector::quantise(NEXT, &components).unwrap()
}

fn background(action: impl Into<ClusterAction>) -> Command {
    Command::of_cluster(action)
}

/// The leader's node, and another one that applies the same entries.
struct Pair {
    leader: Engine,
    other: Engine,
    now: i64,
}

impl Pair {
    fn new() -> Self {
        let [leader, other] = [(); 2].map(|()| Engine::empty(Options::default()));
        let mut pair = Self { leader, other, now: 0 };
        pair.run(&[bootstrap(DIMENSION)]);
        pair
    }

    fn submit(&mut self, commands: &[Command]) -> Vec<Result<Reply, Rejection>> {
        self.now += 1;
        let (decisions, batch) = self.leader.decide(self.now, commands);
        for engine in [&mut self.leader, &mut self.other] {
            assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
        }
        decisions
    }

    fn run(&mut self, commands: &[Command]) {
        self.submit(commands).into_iter().for_each(|decided| drop(decided.unwrap()));
    }

    /// Embeds what lacks a vector of the next model. Returns how many memories did.
    fn embed(&mut self, dimension: usize) -> usize {
        let (mut after, mut found) = (None, 0);
        loop {
            let page = self.leader.reader.unembedded(after, 64).unwrap();
            found += page.memories.len();
            let embedded = page.memories.into_iter().map(|(tenant, id, label)| EmbeddedMemory {
                tenant,
                id,
                vector: next_vector(&label, dimension),
                label,
            });
            self.run(&[background(RecordVectors(embedded.collect()))]);
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    }

    fn best(&self, components: Vec<f32>) -> MemoryId {
        let request =
            SearchRequest { vector: Some(components), limit: 1, ..SearchRequest::default() };
        let found = self.leader.reader.search(TENANT, &request).unwrap();
        found.hits[0].record.id
    }

    fn assert_equal(&self) {
        let hash = |engine: &Engine| {
            let folder = engine.folder().join(format!("copy-{}", self.now));
            engine.writer.flusher().checkpoint(&folder).unwrap();
            examine(&folder).unwrap().hash
        };
        assert_eq!(hash(&self.leader), hash(&self.other));
    }
}

fn label(number: u16) -> String {
    format!("text {} of {}", number * 7, number % 13)
}

fn memory(number: u16, dimension: Option<usize>) -> NewMemory {
    let text = label(number);
    let own = |dimension| next_vector(&text, dimension);
    let vector = dimension.map_or_else(|| vector(&text), own);
    NewMemory { vector, ..new_memory(memory_id(number), &text) }
}

#[test]
fn switch_leaves_no_memory_without_a_vector() {
    const NEXT_DIMENSION: usize = 2 * DIMENSION;
    let mut pair = Pair::new();
    for number in 0..MEMORIES {
        pair.run(&[create(memory(number, None))]);
    }
    let before = pair.best(vector(&label(50)).components().unwrap());
    pair.run(&[background(StartModelChange {
        model: next_model(NEXT_DIMENSION),
        folder: "/m".into(),
    })]);
    assert_eq!(pair.embed(NEXT_DIMENSION), usize::from(MEMORIES));
    assert_eq!(pair.best(vector(&label(50)).components().unwrap()), before, "the old ones serve");
    // A new memory, a new text and a deletion meanwhile.
    pair.run(&[create(memory(MEMORIES, None))]);
    let text = "another text".to_owned();
    let patch =
        MemoryPatch { label: Some((text.clone(), vector(&text))), ..MemoryPatch::default() };
    pair.run(&[command(UpdateMemory { id: memory_id(3_u16), patch: patch.into() })]);
    pair.run(&[command(DeleteMemory { id: memory_id(4_u16), rejects: None })]);
    let unready = pair.leader.reader.models().unwrap();
    pair.run(&[background(ReportModelReady(1)), background(BeginModelSwitch)]);
    assert!(pair.leader.reader.models().unwrap().next.unwrap().is_switching);
    // The node cannot load it after all.
    pair.run(&[background(PostponeModelSwitch(Some(1)))]);
    assert_eq!(pair.leader.reader.models().unwrap(), unready);
    let absent = &pair.submit(&[background(BeginModelSwitch)])[0];
    assert_eq!(absent, &Err(Rejection::WrongState("nodes without the model: 1".into())));
    pair.run(&[background(ReportModelReady(1)), background(BeginModelSwitch)]);
    let created = &pair.submit(&[create(memory(MEMORIES + 1, None))])[0];
    assert_eq!(created, &Err(Rejection::ModelMismatch), "no new texts before the switch");
    // An import is rejected whole, so that it is repeated.
    let record = pair.leader.reader.get(TENANT, memory_id(50_u16)).unwrap().unwrap();
    let imported = ImportedMemory {
        id: memory_id(MEMORIES + 1),
        memory: record.memory,
        anchor: record.anchor,
        vector: vector(&label(50)),
        unless_rejected: Vec::new(),
    };
    let imported = command(Import::Memories(vec![imported]));
    assert_eq!(&pair.submit(&[imported])[0], &Err(Rejection::ModelMismatch));
    assert_eq!(pair.embed(NEXT_DIMENSION), 2);
    assert_eq!(pair.embed(NEXT_DIMENSION), 0);
    pair.run(&[background(SwitchModel(next_model(NEXT_DIMENSION)))]);
    pair.assert_equal();

    let found =
        |pair: &Pair| pair.best(next_vector(&label(50), NEXT_DIMENSION).components().unwrap());
    assert_eq!(found(&pair), before);
    let old = &pair.submit(&[create(memory(MEMORIES + 1, None))])[0];
    assert_eq!(old, &Err(Rejection::ModelMismatch));
    pair.run(&[create(memory(MEMORIES + 1, Some(NEXT_DIMENSION)))]);
    assert_eq!(pair.leader.reader.unembedded(None, 1_000).unwrap().memories.len(), 301);
    assert_eq!(pair.leader.reader.next_vectors().unwrap(), 0, "the old ones are gone");
    pair.leader = pair.leader.reopened(Options::default());
    assert_eq!(found(&pair), before);
    assert_eq!(pair.leader.reader.counts(TENANT).memories, u64::from(MEMORIES) + 1);
}

#[test]
fn cancelled_change_leaves_nothing() {
    let mut pair = Pair::new();
    (0..20).for_each(|number| pair.run(&[create(memory(number, None))]));
    for _ in 0..2 {
        pair.run(&[background(StartModelChange {
            model: next_model(DIMENSION),
            folder: "/m".into(),
        })]);
        let again = StartModelChange { model: next_model(DIMENSION), folder: "/other".into() };
        assert!(pair.submit(&[background(again)])[0].is_err(), "one at a time");
        assert_eq!(pair.embed(DIMENSION), 20);
        pair.run(&[background(CancelModelChange)]);
        assert_eq!(pair.leader.reader.next_vectors().unwrap(), 0);
        assert!(pair.submit(&[background(SwitchModel(next_model(DIMENSION)))])[0].is_err());
        pair.run(&[create(memory(100 + pair.now as u16, None))]);
        let id = memory_id(100 + pair.now as u16 - 1);
        pair.run(&[command(DeleteMemory { id, rejects: None })]);
    }
    pair.assert_equal();
}
