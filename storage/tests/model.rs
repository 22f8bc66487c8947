//! Seeded runs against a naive model: random commands in random batches, then
//! the engine and the model must agree on every read, two replicas on every
//! byte, and a replica that crashed and replayed its log as well.
//! HEARTH_SEEDS and HEARTH_STEPS lengthen the run.

#![expect(clippy::unwrap_used, reason = "a test says what must hold by unwrapping")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{DIMENSION, Engine, MODEL, TENANT, command, form, new_memory, vector};
use storage::model::heat::{Anchor, Cooling, heat};
use storage::model::id::{MemoryId, Timestamp};
use storage::model::memory::{DecayClass, Memory, MemoryType};
use storage::model::receipt::ReceiptRequest;
use storage::model::score::{Factors, KEYWORD_OVERLAP_MAX, rounded};
use storage::model::temporal::window;
use storage::model::thermo::{RecallWeights, Thermo};
use storage::model::vector::dot;
use storage::model::words::{subject_words, words};
use storage::{
    Action, Applied, Command, Filter, HotRequest, ListRequest, MemoryPatch, Options, Refusal,
    Reply, SearchRequest, codec,
};

const WORDS: [&str; 12] = [
    "red", "blue", "fox", "house", "deploy", "rollback", "coffee", "Paris", "京都", "größe",
    "train", "the",
];
const NAMESPACES: [&str; 3] = ["default", "atlas", "garden"];

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn text(&mut self) -> String {
        let count = 1 + self.below(5);
        (0..count).map(|_| self.pick(&WORDS)).collect::<Vec<_>>().join(" ")
    }

    fn heat(&mut self) -> f32 {
        self.below(101) as f32 / 100.0
    }
}

/// What a memory is, as simply as can be said.
#[derive(Clone)]
struct Naive {
    memory: Memory,
    anchor: Anchor,
    text_for_vector: String,
}

#[derive(Default)]
struct World {
    memories: BTreeMap<MemoryId, Naive>,
    receipts: BTreeMap<u8, (u8, MemoryId)>,
    next: u64,
}

impl World {
    fn heat(naive: &Naive, now: Timestamp) -> f64 {
        heat(&naive.anchor, Cooling::of(&naive.memory, &Thermo::default()), now)
    }

    fn command(&mut self, random: &mut Random) -> Command {
        let known: Vec<MemoryId> = self.memories.keys().copied().collect();
        let id = if known.is_empty() || random.chance(5) {
            MemoryId([0xff; 16])
        } else {
            random.pick(&known)
        };
        match random.below(10) {
            0..=4 => {
                self.next += 1;
                let mut bytes = [0; 16];
                // Ids in no order, as those of several nodes are.
                bytes[..8].copy_from_slice(&random.next().to_be_bytes());
                bytes[8..].copy_from_slice(&self.next.to_be_bytes());
                let mut new = new_memory(MemoryId(bytes), &random.text());
                new.memory_type = random.pick(&MemoryType::ALL);
                new.decay_class = random.pick(&DecayClass::ALL);
                new.namespace = random.pick(&NAMESPACES).into();
                new.is_pinned = random.chance(20);
                new.min_heat = if random.chance(20) { random.heat() } else { 0.0 };
                new.initial_heat = random.heat();
                new.key_points = if random.chance(30) { vec![random.text()] } else { Vec::new() };
                let receipt = random.chance(30).then(|| ReceiptRequest {
                    key: [random.below(6) as u8; 32],
                    body_hash: [random.below(2) as u8; 32],
                    status: 201,
                });
                Command { receipt, ..command(Action::Create(vec![new])) }
            }
            5..=7 => {
                let label = random.chance(30).then(|| random.text());
                let patch = MemoryPatch {
                    label: label.map(|label| (label.clone(), vector(&label))),
                    memory_type: random.chance(20).then(|| random.pick(&MemoryType::ALL)),
                    namespace: random.chance(20).then(|| random.pick(&NAMESPACES).into()),
                    decay_class: random.chance(20).then(|| random.pick(&DecayClass::ALL)),
                    is_pinned: random.chance(20).then(|| random.chance(50)),
                    is_locked: random.chance(20).then(|| random.chance(50)),
                    min_heat: random.chance(10).then(|| random.heat()),
                    current_heat: random.chance(20).then(|| random.heat()),
                };
                command(Action::Update(id, patch))
            }
            _ => command(Action::Delete(id)),
        }
    }

    /// What a command must answer, told in a word, and its effect on the model.
    fn expect(&mut self, command: &Command, now: Timestamp) -> &'static str {
        if let Some(receipt) = &command.receipt
            && let Some((body, _)) = self.receipts.get(&receipt.key[0])
        {
            return if *body == receipt.body_hash[0] { "replayed" } else { "key reused" };
        }
        match &command.action {
            Action::Create(new) => {
                let new = &new[0];
                let memory = Memory {
                    label: new.label.clone(),
                    memory_type: new.memory_type,
                    namespace: new.namespace.clone(),
                    decay_class: new.decay_class,
                    is_pinned: new.is_pinned,
                    is_locked: false,
                    is_flagged: false,
                    min_heat: new.min_heat,
                    key_points: new.key_points.clone(),
                    created_at: now,
                    updated_at: now,
                    archived_at: None,
                };
                let anchor = Anchor::fresh(new.initial_heat, now);
                let naive = Naive { memory, anchor, text_for_vector: new.label.clone() };
                self.memories.insert(new.id, naive);
                if let Some(receipt) = &command.receipt {
                    self.receipts.insert(receipt.key[0], (receipt.body_hash[0], new.id));
                }
                "done"
            }
            Action::Update(id, patch) => match self.memories.get_mut(id) {
                None => "not found",
                Some(naive) => {
                    update(naive, patch, now);
                    "done"
                }
            },
            Action::Delete(id) => match self.memories.get(id) {
                None => "not found",
                Some(naive) if naive.memory.is_locked => "locked",
                Some(_) => {
                    self.memories.remove(id);
                    "deleted"
                }
            },
            _ => unreachable!("no other command is made"),
        }
    }
}

fn update(naive: &mut Naive, patch: &MemoryPatch, now: Timestamp) {
    let (before, present) = (naive.memory.clone(), World::heat(naive, now));
    let memory = &mut naive.memory;
    if let Some((label, _)) = &patch.label {
        memory.label.clone_from(label);
        naive.text_for_vector.clone_from(label);
    }
    memory.memory_type = patch.memory_type.unwrap_or(memory.memory_type);
    memory.namespace = patch.namespace.clone().unwrap_or_else(|| memory.namespace.clone());
    memory.decay_class = patch.decay_class.unwrap_or(memory.decay_class);
    memory.is_pinned = patch.is_pinned.unwrap_or(memory.is_pinned);
    memory.is_locked = patch.is_locked.unwrap_or(memory.is_locked);
    memory.min_heat = patch.min_heat.unwrap_or(memory.min_heat);
    if *memory == before && patch.current_heat.is_none() {
        return;
    }
    memory.updated_at = now;
    let cooling = |memory: &Memory| {
        (memory.memory_type, memory.decay_class, memory.is_pinned, memory.min_heat.to_bits())
    };
    if let Some(heat) = patch.current_heat {
        naive.anchor = Anchor { heat, at: now, ..naive.anchor };
    } else if cooling(memory) != cooling(&before) {
        naive.anchor = Anchor { heat: present as f32, at: now, ..naive.anchor };
    }
}

fn told(decision: &storage::Decision) -> &'static str {
    match decision {
        Ok(
            Reply::Memories(_)
            | Reply::Configured(_)
            | Reply::Done
            | Reply::Unfinished
            | Reply::Marked(_),
        ) => "done",
        Ok(Reply::Deleted(_)) => "deleted",
        Ok(Reply::Replayed { .. }) => "replayed",
        Err(Refusal::NotFound) => "not found",
        Err(Refusal::Locked) => "locked",
        Err(Refusal::KeyReused) => "key reused",
        Err(_) => "refused otherwise",
    }
}

/// Every read, compared with brute force over the model.
fn compare(engine: &Engine, world: &World, random: &mut Random) {
    let now = engine.reader.position().clock;
    assert_eq!(engine.reader.counts(TENANT).memories, world.memories.len() as u64);
    for (id, naive) in &world.memories {
        let found = engine.reader.get(TENANT, *id).unwrap().expect("it is in the model");
        assert_eq!((&found.memory, &found.anchor), (&naive.memory, &naive.anchor));
        assert_eq!(found.heat.to_bits(), World::heat(naive, now).to_bits());
    }
    let namespace = random.chance(50).then(|| random.pick(&NAMESPACES).to_owned());
    let memory_type = random.chance(30).then(|| random.pick(&MemoryType::ALL));
    let filter = Filter { namespace, memory_type, ..Filter::default() };
    let passing: Vec<_> = world
        .memories
        .iter()
        .filter(|(_, naive)| filter.namespace.as_ref().is_none_or(|n| *n == naive.memory.namespace))
        .filter(|(_, naive)| filter.memory_type.is_none_or(|t| t == naive.memory.memory_type))
        .collect();
    compare_list(engine, &passing, &filter, now);
    compare_hot(engine, &passing, &filter, now);
    compare_search(engine, world, &passing, &filter, now, random);
    let wanted = words(std::iter::once(random.text().as_str()));
    let holding = passing.iter().filter(|(_, naive)| {
        let held = words(naive.memory.texts());
        wanted.iter().all(|word| held.contains(word))
    });
    let filter = Filter { words: Some(wanted.clone()), ..filter.clone() };
    let page = engine.reader.list(TENANT, &ListRequest { filter, ..ListRequest::default() });
    assert_eq!(page.unwrap().total, holding.count(), "{wanted:?}");
}

fn compare_list(engine: &Engine, passing: &[(&MemoryId, &Naive)], filter: &Filter, now: Timestamp) {
    let mut expected: Vec<_> =
        passing.iter().map(|(id, naive)| (rounded(World::heat(naive, now)), **id)).collect();
    expected.sort_by(|l, r| r.0.total_cmp(&l.0).then(l.1.cmp(&r.1)));
    let request =
        ListRequest { filter: filter.clone(), offset: 3, limit: 7, ..ListRequest::default() };
    let page = engine.reader.list(TENANT, &request).unwrap();
    assert_eq!(page.total, expected.len());
    let expected: Vec<_> = expected.iter().skip(3).take(7).map(|(_, id)| *id).collect();
    assert_eq!(page.memories.iter().map(|found| found.id).collect::<Vec<_>>(), expected);
}

fn compare_hot(engine: &Engine, passing: &[(&MemoryId, &Naive)], filter: &Filter, now: Timestamp) {
    let mut expected: Vec<_> = passing
        .iter()
        .map(|(id, naive)| {
            let memory = &naive.memory;
            (memory.is_pinned, rounded(World::heat(naive, now)), memory.updated_at, **id)
        })
        .collect();
    expected.sort_by(|l, r| {
        let by_heat = r.0.cmp(&l.0).then(r.1.total_cmp(&l.1));
        by_heat.then(r.2.cmp(&l.2)).then(l.3.cmp(&r.3))
    });
    let request = HotRequest { filter: filter.clone(), pinned_first: true, limit: 10 };
    let found = engine.reader.hottest(TENANT, &request).unwrap();
    let expected: Vec<_> = expected.iter().take(10).map(|(.., id)| *id).collect();
    assert_eq!(found.iter().map(|found| found.id).collect::<Vec<_>>(), expected);
}

fn compare_search(
    engine: &Engine,
    world: &World,
    passing: &[(&MemoryId, &Naive)],
    filter: &Filter,
    now: Timestamp,
    random: &mut Random,
) {
    let (mut query, weights) = (random.text(), RecallWeights::default());
    if random.chance(30) {
        query += random.pick(&[" today", " yesterday", " 3 days ago"]);
    }
    let window = window(&query, now);
    let subject = window.as_ref().map_or(query.as_str().into(), |window| window.subject(&query));
    let home = random.pick(&NAMESPACES);
    let vector = vector(&query).components().unwrap();
    let held: BTreeMap<_, Vec<String>> =
        world.memories.iter().map(|(id, naive)| (*id, words(naive.memory.texts()))).collect();
    let idf = |word: &String| {
        let holding = held.values().filter(|words| words.contains(word)).count() as f64;
        libm::log(1.0 + (held.len() as f64 - holding + 0.5) / (holding + 0.5))
    };
    let query_words: Vec<(String, f64)> =
        subject_words(&subject).into_iter().map(|word| (word.clone(), idf(&word))).collect();
    let total: f64 = query_words.iter().map(|(_, idf)| idf).sum();
    let mut expected: Vec<(f64, MemoryId)> = passing
        .iter()
        .map(|(id, naive)| {
            let found = query_words.iter().filter(|(word, _)| held[*id].contains(word));
            let found: f64 = found.map(|(_, idf)| idf).sum();
            let own = common::vector(&naive.text_for_vector).components().unwrap();
            let at_home = naive.memory.namespace == home;
            let factors = Factors {
                similarity: f64::from(dot(&vector, &own).clamp(-1.0, 1.0)),
                heat: World::heat(naive, now),
                keyword_overlap: if total > 0.0 {
                    KEYWORD_OVERLAP_MAX * found / total
                } else {
                    0.0
                },
                temporal_boost: window.as_ref().map_or(0.0, |window| {
                    let days = window.days_outside(naive.memory.created_at);
                    weights.temporal_max_boost * libm::exp2(-days / weights.temporal_decay_days)
                }),
                namespace_boost: if at_home { weights.namespace_boost } else { 0.0 },
            };
            (factors.fused(&weights), **id)
        })
        .collect();
    expected.sort_by(|l, r| r.0.total_cmp(&l.0).then(l.1.cmp(&r.1)));
    expected.truncate(10);
    let request = SearchRequest {
        query,
        vector: Some(vector),
        filter: filter.clone(),
        home_namespace: Some(home.into()),
        limit: 10,
    };
    let found = engine.reader.search(TENANT, &request).unwrap().hits;
    assert_eq!(found.len(), expected.len());
    for (hit, (score, id)) in found.iter().zip(&expected) {
        // Sums in another order may differ in the last digit that counts.
        assert!((hit.score - score).abs() <= 2e-6, "{} {score}", hit.score);
        assert!(hit.record.id == *id || (hit.score - score).abs() < 2e-6);
    }
}

fn hash(engine: &mut Engine, now: i64) -> [u8; 32] {
    let (_, batch) = engine.decide(Timestamp(now), &[Command::duty(Action::Verify)]);
    assert_eq!(engine.apply(&batch), Applied::Done);
    engine.reader.verifier().wait_idle();
    engine.reader.verifier().results().last().unwrap().hash.expect("it was not skipped")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn run(seed: u64, steps: usize) {
    let mut random = Random(seed);
    let folders: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let mut leader = Engine::open(folders[0].path(), Options::default());
    // With a graph, which is too small to leave anything out.
    let graphed = Options { exact_max: 5, ..Options::default() };
    let mut follower = Engine::open(folders[1].path(), graphed);
    let (mut world, mut now, mut log) = (World::default(), 0, Vec::new());
    let (_, first) = leader.decide(Timestamp(now), &[form(DIMENSION)]);
    log.push(codec::encode(&first));
    leader.apply(&first);
    let crash_at = random.below(steps);
    for step in 0..steps {
        now += 1 + random.below(36_000) as i64 * Timestamp::SECOND_MICROS / 10;
        // Receipts of the day before yesterday would be forgotten: stay within a day.
        let now = Timestamp(now % Timestamp::DAY_MICROS + step as i64);
        let now = now.max(Timestamp(leader.reader.position().clock.0 + 1));
        let mut commands = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..1 + random.below(8) {
            let next = world.command(&mut random);
            expected.push(world.expect(&next, now));
            commands.push(next);
        }
        let (decisions, batch) = leader.decide(now, &commands);
        assert_eq!(decisions.iter().map(told).collect::<Vec<_>>(), expected, "seed {seed}");
        log.push(codec::encode(&batch));
        assert_eq!(leader.apply(&batch), Applied::Done);
        if step == crash_at {
            // What a crash leaves: the last flush, in this case some steps back.
            leader.writer.flusher().flush().unwrap();
            copy(&folders[0].path().join("state"), &folders[2].path().join("state"));
        }
    }
    compare(&leader, &world, &mut random);
    for (index, bytes) in log.iter().enumerate() {
        assert_eq!(follower.apply_at(index as u64, bytes.clone()), Applied::Done);
    }
    let mut crashed = Engine::open(folders[2].path(), Options::default());
    let from = crashed.reader.position().index as usize + 1;
    assert!(from <= log.len(), "it is behind, or where the leader is");
    for (index, bytes) in log.iter().enumerate().skip(from) {
        assert_eq!(crashed.apply_at(index as u64, bytes.clone()), Applied::Done);
    }
    for replica in [&follower, &crashed] {
        compare(replica, &world, &mut random);
    }
    let later = leader.reader.position().clock.0 + 1;
    let (_, mark) = leader.decide(Timestamp(later), &[Command::duty(Action::Verify)]);
    let index = log.len() as u64;
    let mut hashes = Vec::new();
    for engine in [&mut leader, &mut follower, &mut crashed] {
        assert_eq!(engine.apply_at(index, codec::encode(&mark)), Applied::Done);
        engine.reader.verifier().wait_idle();
        hashes.push(engine.reader.verifier().results().last().unwrap().clone());
    }
    assert!(hashes[0].hash.is_some());
    assert!(hashes.iter().all(|found| *found == hashes[0]), "seed {seed}: {hashes:?}");
    // And the hash does tell states apart.
    assert_ne!(hash(&mut leader, later + 1), hashes[0].hash.unwrap());
}

#[test]
fn random_commands_leave_engine_model_and_replicas_alike() {
    let setting = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    assert_eq!(MODEL, vector("x").model);
    for seed in 0..setting("HEARTH_SEEDS", 8) {
        run(seed, setting("HEARTH_STEPS", 120) as usize);
    }
}
