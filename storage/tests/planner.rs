//! Among 50,000 memories a search finds the ten that a look at every single one puts first,
//! by the whole score: similarity, heat, words, time and namespace, under every filter.

#![expect(clippy::unwrap_used, reason = "a test says what must hold by unwrapping")]

#[path = "common/brute.rs"]
mod brute;
mod common;

use brute::{Brute, Known};
use common::{Engine, MODEL, TENANT, command, form, new_memory};
use storage::model::access::{Policy, Rule, Rules};
use storage::model::id::{MemoryId, Timestamp};
use storage::model::memory::{DecayClass, Memory, MemoryType, Tier};
use storage::model::tenant::{KeyId, Role};
use storage::model::thermo::SettingValue;
use storage::model::vector::Vector;
use storage::model::words::words;
use storage::{
    Action, CREATE_MAX, Command, Filter, MemoryPatch, NewMemory, Options, SearchRequest, TierFilter,
};

const COUNT: u64 = 50_000;
const DIMENSION: usize = 48;
/// Memories come over half a year.
const STEP: i64 = 180 * Timestamp::DAY_MICROS / (COUNT / 1_000) as i64;
/// Memories in the cold tier, at least.
const COLD: u64 = 5_000;
/// Words that labels are made of.
const WORDS: u64 = 800;
const NAMESPACES: [&str; 3] = ["default", "atlas", "garden"];

/// SplitMix64 (Steele, Lea and Flood, 2014), as a function.
fn random(seed: u64) -> u64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn id(number: u64) -> MemoryId {
    // In no order of age.
    MemoryId(((u128::from(random(number)) << 64) | u128::from(number)).to_be_bytes())
}

/// A direction near one of 500, as texts lie near their subjects.
fn vector(seed: u64) -> Vector {
    let component = |seed: u64| (random(seed) % 2_001) as f32 / 1e3 - 1.0;
    let centre = random(seed) % 500;
    let components = (0..DIMENSION as u64)
        .map(|at| component(centre << 20 | at) + 0.6 * component(seed << 20 | at | 1 << 63));
    Vector::quantise(MODEL, &components.collect::<Vec<_>>()).unwrap()
}

/// Some words, the first ones far more often than the last.
fn text(seed: u64, count: u64) -> String {
    let word = |at| {
        let (l, r) = (random(seed << 8 | at) % WORDS, random(seed << 8 | at | 1 << 62) % WORDS);
        format!("word{}", l.min(r))
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

fn memory(number: u64) -> NewMemory {
    let roll = random(number | 1 << 40);
    NewMemory {
        memory_type: MemoryType::ALL[(roll % 6) as usize],
        decay_class: DecayClass::ALL[(roll / 6 % 4) as usize],
        namespace: NAMESPACES[(roll / 24 % 3) as usize].into(),
        is_pinned: (roll / 72).is_multiple_of(20),
        initial_heat: (roll / 1_440 % 1_001) as f32 / 1e3,
        vector: vector(number),
        ..new_memory(id(number), &text(number, 4 + roll % 9))
    }
}

fn apply(engine: &mut Engine, now: i64, commands: &[Command]) {
    let (decisions, batch) = engine.decide(Timestamp(now), commands);
    decisions.into_iter().for_each(|decision| drop(decision.unwrap()));
    engine.apply(&batch);
}

/// Half a year of memories; some were changed and some archived since.
fn engine(folder: &std::path::Path) -> (Engine, i64) {
    let mut engine = Engine::open(folder, Options::default());
    apply(&mut engine, 0, &[form(DIMENSION)]);
    let mut now = 0;
    for first in (0..COUNT).step_by(1_000) {
        now += STEP;
        let numbers: Vec<u64> = (first..first + 1_000).collect();
        let creates = numbers.chunks(CREATE_MAX).map(|some| {
            command(Action::CreateMemories(some.iter().map(|number| memory(*number)).collect()))
        });
        apply(&mut engine, now, &creates.collect::<Vec<_>>());
        let warm = MemoryPatch { current_heat: Some(0.9), ..MemoryPatch::default() };
        let changed = (first..first + 1_000).step_by(50);
        let changes = changed.map(|number| {
            let older = random(number) % (number + 1);
            command(Action::UpdateMemory(id(older), warm.clone()))
        });
        apply(&mut engine, now + 1, &changes.collect::<Vec<_>>());
    }
    // Some thousand are archived, so that the other tier has its share.
    now += Timestamp::DAY_MICROS;
    while engine.reader.overview(TENANT, &Filter::default()).hot > COUNT - COLD {
        now += 1;
        apply(&mut engine, now, &[command(Action::AdvanceTick)]);
    }
    (engine, now)
}

/// Everything but the namespace "garden".
fn access() -> storage::model::access::Access {
    let closed = Rule {
        number: 1,
        agent: "*".into(),
        namespace: "garden".into(),
        policy: Policy::Deny,
        created_at: Timestamp(0),
    };
    let rules = Rules { last: 1, rules: vec![closed] };
    rules.of(KeyId([1; 8]), "agent", Role::Agent)
}

fn filters() -> [Filter; 8] {
    let any = Filter::default();
    [
        any.clone(),
        Filter { namespace: Some("atlas".into()), ..any.clone() },
        Filter { memory_type: Some(MemoryType::Fact), ..any.clone() },
        Filter { pinned: Some(true), ..any.clone() },
        Filter { access: access(), ..any.clone() },
        Filter { words: Some(vec!["word7".into()]), ..any.clone() },
        Filter { tier: TierFilter::All, ..any.clone() },
        Filter { tier: TierFilter::Cold, pinned: Some(false), ..any },
    ]
}

/// A filter, as simply as can be said.
fn passes(filter: &Filter, memory: &Memory) -> bool {
    let tier = match filter.tier {
        TierFilter::Hot => memory.tier() == Tier::Hot,
        TierFilter::Cold => memory.tier() == Tier::Cold,
        TierFilter::All => true,
    };
    let held = words(memory.texts());
    tier && filter.memory_type.is_none_or(|wanted| wanted == memory.memory_type)
        && filter.namespace.as_ref().is_none_or(|wanted| *wanted == memory.namespace)
        && filter.pinned.is_none_or(|wanted| wanted == memory.is_pinned)
        && (filter.access.is_whole() || memory.namespace != "garden")
        && filter.words.iter().flatten().all(|word| held.contains(word))
}

#[test]
fn of_fifty_thousand_a_search_finds_the_ten_that_brute_force_finds() {
    let folder = tempfile::tempdir().unwrap();
    let (mut engine, mut now) = engine(folder.path());
    let overview = engine.reader.overview(TENANT, &Filter::default());
    assert!(overview.hot > 40_000 && overview.cold >= COLD, "{overview:?}");
    for weights in [[0.7, 0.3, 0.15, 0.5], [0.2, 0.8, 1.0, 2.0]] {
        let names = ["similarity_weight", "heat_weight", "keyword_weight", "temporal_max_boost"];
        let settings = names
            .iter()
            .zip(weights)
            .map(|(name, weight)| (format!("recall.{name}"), SettingValue::Number(weight)));
        now += 1;
        apply(&mut engine, now, &[command(Action::UpdateSettings(settings.collect()))]);
        let thermo = engine.reader.thermo(TENANT);
        let known = (0..COUNT).map(|number| {
            let found = engine.reader.get(TENANT, id(number)).unwrap().unwrap();
            let vector = vector(number).components().unwrap();
            (found.id, Known::new(found.memory, found.anchor, vector))
        });
        let brute = Brute(known.collect());
        for (at, filter) in filters().into_iter().enumerate() {
            for round in 0..5_u64 {
                let seed = COUNT + at as u64 * 100 + round;
                let times = ["", " yesterday", " last month", " 40 days ago", " in March"];
                let request = SearchRequest {
                    query: text(seed, 1 + round) + times[round as usize],
                    vector: (round != 4).then(|| vector(seed).components().unwrap()),
                    filter: filter.clone(),
                    home_namespace: (round % 2 == 0).then(|| "default".into()),
                    limit: 10,
                };
                let expected =
                    brute.best(&request, &thermo, Timestamp(now), |memory| passes(&filter, memory));
                assert_eq!(expected.len(), 10, "{filter:?}");
                let found = engine.reader.search(TENANT, &request).unwrap().hits;
                brute::compare(&found, &expected, &format!("{request:?}"));
            }
        }
    }
    assert_eq!(engine.reader.searches().by_graph(), 0);
}
