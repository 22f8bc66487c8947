//! Among 50,000 memories, a search finds the same ten as brute force by the complete score:
//! similarity, heat, words, time and namespace, under every filter.

use storage::model::access::{Policy, Rule, Rules};
use storage::model::id::KeyId;
use storage::model::score::{KEYWORD_OVERLAP_MAX, Reading};
use storage::model::tenant::Role;

use crate::common::brute::{self, BruteForce, Candidate};
use crate::common::*;

const COUNT: u64 = 50_000;
const DIMENSION: usize = 48;
/// The time between two batches. All memories are created within half a year.
const STEP: i64 = 180 * Timestamp::DAY_MICROS / (COUNT / 1_000) as i64;
/// The least number of memories in the cold tier.
const COLD: u64 = 5_000;
/// The number of words that labels use.
const WORDS: u64 = 800;
const NAMESPACES: [&str; 3] = ["default", "atlas", "garden"];

fn id(number: u64) -> MemoryId {
    // The order of ids is not the order of creation.
    MemoryId(((u128::from(random(number)) << 64) | u128::from(number)).to_be_bytes())
}

/// A direction near one of 500 centres, as texts of one subject have similar vectors.
fn vector(seed: u64) -> Vector {
    let component = |seed: u64| (random(seed) % 2_001) as f32 / 1e3 - 1.0;
    let centre = random(seed) % 500;
    let components = (0..DIMENSION as u64)
        .map(|at| component(centre << 20 | at) + 0.6 * component(seed << 20 | at | 1 << 63));
    Vector::quantise(MODEL, &components.collect::<Vec<_>>()).unwrap()
}

/// Random words. Words with low numbers are far more frequent.
fn text(seed: u64, count: u64) -> String {
    let word = |at| {
        let (l, r) = (random(seed << 8 | at) % WORDS, random(seed << 8 | at | 1 << 62) % WORDS);
        format!("word{}", l.min(r))
    };
    (0..count).map(word).collect::<Vec<_>>().join(" ")
}

/// A label of any form: some are long, have an author, or are questions.
fn label(number: u64, roll: u64) -> String {
    let count = if number.is_multiple_of(29) { 150 } else { 4 + roll % 9 };
    let words = text(number, count);
    match number % 11 {
        0 => format!("Ann Keller: my {words}"),
        1 => format!("{words}?"),
        _ => words,
    }
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
        ..new_memory(id(number), &label(number, roll))
    }
}

/// An engine with half a year of memories. Some are updated and some are archived.
fn engine() -> (Engine, i64) {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let mut now = 0;
    for first in (0..COUNT).step_by(1_000) {
        now += STEP;
        engine.fill(now, (first..first + 1_000).map(memory));
        let warm = MemoryPatch { current_heat: Some(0.9), ..MemoryPatch::default() };
        let changed = (first..first + 1_000).step_by(50);
        let changes = changed.map(|number| {
            let older = random(number) % (number + 1);
            command(UpdateMemory { id: id(older), patch: warm.clone().into() })
        });
        engine.run(now + 1, &changes.collect::<Vec<_>>());
    }
    // Ticks archive the excess over `active_index_max`, so both tiers are searched.
    now += Timestamp::DAY_MICROS;
    let at_once = [
        configure("consolidation.archive_after_days", 0.0),
        configure("consolidation.active_index_max", (COUNT - COLD) as f64),
    ];
    engine.run(now, &at_once);
    // A tick evaluates or archives up to 1,000 memories per step.
    for _ in 0..4 * COUNT / 1_000 {
        now += 1;
        engine.run(now, &[command(AdvanceTick(None))]);
    }
    (engine, now)
}

/// Everything but the namespace "garden".
fn access() -> storage::model::access::Access {
    let denied = Rule {
        number: 1,
        agent: "*".into(),
        namespace: "garden".into(),
        policy: Policy::Deny,
        created_at: Timestamp(0),
    };
    let rules = Rules { last: 1, rules: vec![denied] };
    let agent = api_key("agent", Role::Agent).row(Timestamp(0));
    rules.access_of(KeyId([1; 8]), &agent)
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

#[test]
fn search_equals_brute_force_over_fifty_thousand() {
    let (mut engine, mut now) = engine();
    let overview = engine.reader.overview(TENANT, &Filter::default());
    assert!(overview.hot > 40_000 && overview.cold >= COLD, "{overview:?}");
    for weights in [[0.7, 0.3, 0.15, 0.5], [0.2, 0.8, 1.0, 2.0]] {
        let names = ["similarity_weight", "heat_weight", "keyword_weight", "temporal_max_boost"];
        let settings = names
            .iter()
            .zip(weights)
            .map(|(name, weight)| (format!("recall.{name}"), SettingValue::Number(weight)));
        now += 1;
        engine.run(now, &[command(UpdateSettings(settings.collect()))]);
        let thermo = engine.reader.thermo(TENANT);
        let candidates = (0..COUNT).map(|number| {
            let found = engine.reader.get(TENANT, id(number)).unwrap().unwrap();
            let vector = vector(number).components().unwrap();
            (found.id, Candidate::new(found.memory, found.anchor, vector))
        });
        let brute = BruteForce(candidates.collect());
        for (at, filter) in filters().into_iter().enumerate() {
            for round in 0..5_u64 {
                let seed = COUNT + at as u64 * 100 + round;
                let names = ["", " Ann Keller"];
                let times = ["", " yesterday", " last month", " 40 days ago", " in March"];
                let request = SearchRequest {
                    query: text(seed, 1 + round) + times[round as usize] + names[at % 2],
                    vector: (round != 4).then(|| vector(seed).components().unwrap()),
                    filter: filter.clone(),
                    home_namespace: (round % 2 == 0).then(|| "default".into()),
                    limit: 10,
                    reading: Reading { unreadable: [0.0, 0.25, 1.0][at % 3], ..Reading::default() },
                    ..SearchRequest::default()
                };
                let expected = brute.best(&request, &thermo, Timestamp(now));
                assert_eq!(expected.len(), 10, "{filter:?}");
                let found = engine.reader.search(TENANT, &request).unwrap().hits;
                brute::compare(&found, &expected, &format!("{request:?}"));
            }
        }
    }
    assert_eq!(engine.reader.searches().by_graph(), 0);
    archived_matches_are_counted(&mut engine, now + 1);
}

/// A memory that is the best by a little only: its similarity and its heat are the highest, as are those of many that a
/// search finds before it, and its word is a little rarer than theirs.
#[test]
fn memory_that_just_exceeds_the_others_is_found() {
    const ROWS: u16 = 2 * 1_024;
    const OTHERS: u16 = 100;
    /// Memories with the word of the first one.
    const FEWER: u16 = 99;
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let memory = |number: u16| {
        let is_last = number >= ROWS - OTHERS;
        let (label, near) = match number {
            0 => ("harbour", true),
            1..FEWER => ("harbour", false),
            _ if is_last => ("river", true),
            _ => ("nothing", false),
        };
        let vector = vector(u64::from(if near { 0 } else { number }));
        NewMemory { is_pinned: near, vector, ..new_memory(memory_id(number), label) }
    };
    engine.run(1, &[configure("recall.context_weight", 0.0)]);
    for first in (0..ROWS).step_by(512) {
        engine.fill(1, (first..first + 512).map(memory));
    }
    let request = SearchRequest {
        query: "harbour river".into(),
        vector: Some(vector(0).components().unwrap()),
        limit: 5,
        ..SearchRequest::default()
    };
    let found = engine.reader.search(TENANT, &request).unwrap().hits;
    assert_eq!(found[0].record.id, memory_id(0_u16));
    assert!(found[1].score > 0.9 * found[0].score, "{} {}", found[0].score, found[1].score);
}

/// A search in the hot tier counts the archived memories that one in both tiers returns.
fn archived_matches_are_counted(engine: &mut Engine, now: i64) {
    let by_meaning = [("context_weight", 0.0), ("similarity_weight", 1.0), ("heat_weight", 0.1)];
    let settings = by_meaning.map(|(name, value)| configure(&format!("recall.{name}"), value));
    engine.run(now, &settings);
    let mut counted = 0;
    for seed in COUNT..COUNT + 20 {
        let request = |tier| SearchRequest {
            query: text(seed, 3),
            vector: Some(vector(seed).components().unwrap()),
            filter: Filter { tier, ..Filter::default() },
            limit: 100,
            ..SearchRequest::default()
        };
        let found = |tier| engine.reader.search(TENANT, &request(tier)).unwrap();
        let is_match = |hit: &&storage::Hit| {
            let factors = hit.factors.unwrap();
            hit.record.memory.archived_at.is_some()
                && factors.superseded_factor == 1.0
                && factors.similarity + factors.own / KEYWORD_OVERLAP_MAX >= 0.5
        };
        let expected = found(TierFilter::All).hits.iter().filter(is_match).count();
        assert_eq!(found(TierFilter::Hot).cold_matches, expected, "{seed}");
        assert_eq!(found(TierFilter::All).cold_matches, 0);
        counted += expected;
    }
    assert!(counted > 20, "{counted}");
}
