//! Three months of an agent, on the clock of the test: every day it stores 30 memories and searches.
//! What it stored long ago is found, with the default settings as well as by meaning alone.
//! What it recalls often does not displace the rest.
//!
//! Memories and questions are made of random words. The frequency of a word, and of a topic, follows
//! Zipf's law.

use std::collections::BTreeSet;

use storage::model::analytics::Usage;

use crate::common::world::Random;
use crate::common::*;

const HOUR: i64 = 60 * 60 * Timestamp::SECOND_MICROS;
const DAY: i64 = Timestamp::DAY_MICROS;
const DAYS: usize = 91;
/// Memories of one day. Each session of the agent stores [`SESSION`] of them, about one topic.
const DAILY: usize = 30;
const SESSION: usize = 5;
/// Searches of one day, most of them about the last days.
const SEARCHES: usize = 96;
const TOP: usize = 5;
/// Results of a search, and how many of them are recalled by default.
const LIMIT: usize = 20;
const RECALLED: usize = 5;
const WORDS: usize = 4_000;
const COMPONENTS: usize = 128;

/// A rank from 0 to `count − 1`: lower ones are more frequent.
fn zipf(random: &mut Random, count: usize) -> usize {
    let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
    ((count as f64).powf(share) as usize - 1).min(count - 1)
}

fn word(number: usize) -> String {
    let syllable = |number: usize| ["ba", "ke", "di", "mo", "lu", "sa", "te", "ri"][number % 8];
    (0..5).map(|at| syllable(number >> (3 * at))).collect()
}

/// The sum of a random direction per word. Texts that share words are near each other.
fn direction(text: &str) -> Vector {
    let mut components = [1e-3_f32; COMPONENTS];
    for word in text.split(' ') {
        let mut random = Random(word.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte))));
        components.iter_mut().for_each(|component| *component += random.component());
    }
    Vector::quantise(MODEL, &components).unwrap()
}

/// A memory that the agent has stored.
struct Stored {
    id: MemoryId,
    words: Vec<usize>,
}

/// An agent and its memories, in order of creation.
struct Agent {
    engine: Engine,
    random: Random,
    stored: Vec<Stored>,
    reports: u64,
    now: i64,
    /// The tier that it searches.
    tier: TierFilter,
}

impl Agent {
    fn new(settings: &[(&str, f64)], tier: TierFilter) -> Self {
        let mut engine = Engine::bootstrapped(COMPONENTS, Options::default());
        let settings = settings.iter().map(|(name, value)| configure(name, *value));
        engine.run(1, &settings.collect::<Vec<_>>());
        Self { engine, random: Random(7), stored: Vec::new(), reports: 0, now: 1, tier }
    }

    /// Lives one day: the sessions with their searches, of whose results the first are recalled, then
    /// a tick.
    fn live(&mut self, day: usize, recalled: usize) {
        for session in 0..DAILY / SESSION {
            self.now = day as i64 * DAY + (9 + 2 * session as i64) * HOUR;
            // The words of a topic are near each other in the vocabulary.
            let topic = zipf(&mut self.random, WORDS / 10) * 10;
            for _ in 0..SESSION {
                self.store(topic);
            }
            for _ in 0..SEARCHES * SESSION / DAILY {
                self.now += 60 * Timestamp::SECOND_MICROS;
                let (newest, recent) = (self.stored.len() - 1, self.stored.len().min(7 * DAILY));
                let age = match self.random.chance(70) {
                    true => self.random.below(recent),
                    false => self.random.below(newest + 1),
                };
                let question = question(&self.stored[newest - age], &mut self.random);
                let found = self.search(&question, self.tier, LIMIT);
                self.report(&found[..recalled.min(found.len())]);
            }
        }
        self.engine.run(self.now + 1, &[Command::of_cluster(AdvanceClock)]);
        while self.engine.run(self.now + 2, &[command(AdvanceTick(None))])
            != [Reply::Progress(Progress::Done)]
        {}
    }

    fn store(&mut self, topic: usize) {
        self.now += 5 * 60 * Timestamp::SECOND_MICROS;
        let of_topic = (0..3).map(|_| topic + self.random.below(10)).collect::<Vec<_>>();
        let others = (0..4).map(|_| zipf(&mut self.random, WORDS)).collect::<Vec<_>>();
        let words = [of_topic, others].concat();
        let label = words.iter().map(|number| word(*number)).collect::<Vec<_>>().join(" ");
        let id = memory_id(self.stored.len() as u64);
        let memory_type = match self.stored.len() % 10 {
            0..6 => MemoryType::Episodic,
            6..8 => MemoryType::Semantic,
            8 => MemoryType::Procedural,
            _ => MemoryType::Fact,
        };
        let memory = NewMemory { initial_heat: 0.8, memory_type, ..new_memory(id, &label) };
        let memory = NewMemory { vector: direction(&label), ..memory };
        self.engine.run(self.now, &[create(memory)]);
        self.stored.push(Stored { id, words });
    }

    fn search(&self, question: &str, tier: TierFilter, limit: usize) -> Vec<MemoryId> {
        let request = SearchRequest {
            query: question.into(),
            vector: Some(direction(question).components().unwrap()),
            filter: Filter { tier, ..Filter::default() },
            limit,
            ..SearchRequest::default()
        };
        let hits = self.engine.reader.search(TENANT, &request).unwrap().hits;
        hits.into_iter().map(|hit| hit.record.id).collect()
    }

    fn report(&mut self, recalled: &[MemoryId]) {
        self.reports += 1;
        let recalls = recalled.iter().map(|id| (*id, 1)).collect();
        self.engine.run(self.now, &[report(self.reports, 1, Usage::default(), recalls)]);
    }

    /// How many questions about the memories of a day have the memory in the top 5, in percent.
    fn answered(&self, days_ago: usize, tier: TierFilter) -> usize {
        let mut random = Random(days_ago as u64);
        let first = (DAYS - 1 - days_ago) * DAILY;
        let of_day = &self.stored[first..first + DAILY];
        let questions = of_day.iter().flat_map(|stored| [stored; 4]);
        let is_found = |stored: &&Stored| {
            self.search(&question(stored, &mut random), tier, TOP).contains(&stored.id)
        };
        questions.filter(is_found).count() * 100 / (4 * DAILY)
    }

    /// The answered questions about 1, 7, 30 and 90 days ago.
    fn answered_by_age(&self, tier: TierFilter) -> [usize; 4] {
        [1, 7, 30, 90].map(|days_ago| self.answered(days_ago, tier))
    }
}

/// A question about a memory: some of its words, and one that it does not contain.
fn question(stored: &Stored, random: &mut Random) -> String {
    let mut words = stored.words.clone();
    for _ in 0..4 {
        words.swap_remove(random.below(words.len()));
    }
    words.push(zipf(random, WORDS));
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Weights of a score that is the cosine.
const BY_MEANING: [(&str, f64); 4] = [
    ("recall.similarity_weight", 1.0),
    ("recall.heat_weight", 0.0),
    ("recall.keyword_weight", 0.0),
    ("recall.context_weight", 0.0),
];

/// An agent after three months, and how many questions it answers from `all` tiers by age.
fn after_three_months(settings: &[(&str, f64)], tier: TierFilter) -> (Agent, [usize; 4]) {
    let mut agent = Agent::new(settings, tier);
    for day in 0..DAYS {
        agent.live(day, RECALLED);
    }
    let answered = agent.answered_by_age(TierFilter::All);
    (agent, answered)
}

#[test]
fn memories_of_three_months_are_found() {
    let (mut agent, all) = after_three_months(&[], TierFilter::Hot);
    let hot = agent.answered_by_age(TierFilter::Hot);
    let changes = BY_MEANING.map(|(name, value)| configure(name, value));
    agent.engine.run(agent.now, &changes);
    let by_meaning = agent.answered_by_age(TierFilter::All);
    println!("1, 7, 30, 90 days ago: {hot:?} percent, {by_meaning:?} by meaning alone");
    assert_eq!(hot, all, "the hot tier has all of them");
    assert!(hot.iter().all(|percent| *percent >= 70), "{hot:?}");
    assert!(hot.iter().sum::<usize>() + 40 >= by_meaning.iter().sum(), "{hot:?}, {by_meaning:?}");
}

#[test]
fn archived_memories_are_found_and_restored() {
    let settings =
        [("consolidation.active_index_max", 1_000.0), ("consolidation.archive_after_days", 7.0)];
    let (agent, all) = after_three_months(&settings, TierFilter::All);
    let overview = agent.engine.reader.overview(TENANT, &Filter::default());
    println!("1, 7, 30, 90 days ago: {all:?} percent, {} are archived", overview.cold);
    assert!(overview.cold > 1_000, "{} are archived", overview.cold);
    assert!(all.iter().all(|percent| *percent >= 70), "{all:?}");
}

/// The agent asks on Friday, 30 January 1970, what it did on other days.
#[test]
fn questions_for_a_day_list_it_first() {
    let mut agent = Agent::new(&[], TierFilter::Hot);
    for day in 0..30 {
        agent.live(day, RECALLED);
    }
    for (question, days) in [
        ("What did I do yesterday?", [28, 28]),
        ("what happened last Tuesday", [26, 26]),
        ("anything new since Wednesday?", [27, 29]),
        ("what did I do on the 20th of January", [19, 19]),
        ("notes of the morning of January 12", [11, 11]),
        ("what happened last weekend", [23, 24]),
        ("between 3 and 5 January", [2, 4]),
        ("Was habe ich am 15.01.1970 gemacht?", [14, 14]),
        ("was war vorgestern", [27, 27]),
        ("qu'ai-je fait il y a dix jours ?", [19, 19]),
        ("¿qué hice el lunes pasado?", [25, 25]),
        ("我昨天做了什么？", [28, 28]),
    ] {
        let found = agent.search(question, TierFilter::Hot, TOP);
        for id in found {
            let created = agent.engine.reader.get(TENANT, id).unwrap().unwrap().memory.created_at;
            let day = created.0 / DAY;
            assert!((days[0]..=days[1]).contains(&day), "{question}: day {day}, not {days:?}");
        }
    }
}

#[test]
fn recalls_displace_few_others() {
    let distinct = |recalled| {
        let mut agent = Agent::new(&[], TierFilter::Hot);
        for day in 0..30 {
            agent.live(day, recalled);
        }
        let mut random = Random(3);
        let found = (0..500).flat_map(|_| {
            let stored = &agent.stored[random.below(agent.stored.len())];
            agent.search(&question(stored, &mut random), TierFilter::Hot, TOP)
        });
        found.collect::<BTreeSet<_>>().len()
    };
    let [of_five, of_all, none] = [RECALLED, LIMIT, 0].map(distinct);
    println!("distinct memories in the top 5 of 500 questions: {of_five}, {of_all} if all results");
    println!("are recalled, {none} without recalls");
    assert!(of_five * 100 >= none * 90, "{of_five} of {none}");
}
