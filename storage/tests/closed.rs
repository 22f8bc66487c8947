//! Memories that are closed to a caller change no response to it: every read returns the same beside them as
//! without them. Those in quarantine are not found.

use storage::model::access::{Access, Policy, Rule, Rules};
use storage::model::guard::{Detection, GuardAction, GuardMark};
use storage::model::tenant::Role;

use crate::common::*;

/// Of each kind, open and not.
const MEMORIES: u16 = 60;
const OPEN: &str = "default";
const CLOSED: &str = "closed";

/// What a key may access to which the closed namespace is denied.
fn access() -> Access {
    let (agent, namespace) = ("*".to_owned(), CLOSED.to_owned());
    let denied =
        Rule { number: 1, agent, namespace, policy: Policy::Deny, created_at: Timestamp(0) };
    let rules = Rules { last: 1, rules: vec![denied] };
    rules.access_of(KeyId([9; 8]), &api_key("restricted", Role::Agent).row(Timestamp(0)))
}

/// Edges of equal weight are in the order of ids: those to closed memories come first.
fn open(number: u16) -> MemoryId {
    memory_id(1_000 + number % MEMORIES)
}

/// Of equal memories, those with the highest id are first: that is one in quarantine.
fn quarantined(number: u16) -> MemoryId {
    memory_id(3_000 + number)
}

/// What is beside the open memories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    Closed,
    Quarantined,
}

impl Beside {
    /// As the open memory with this number, with the same words.
    fn memory(self, number: u16) -> NewMemory {
        let guard = GuardMark::default().with(Detection::Email, GuardAction::Quarantine);
        match self {
            Self::Quarantined => {
                NewMemory { id: quarantined(number), guard, ..memory(number, OPEN) }
            }
            Self::Nothing | Self::Closed => {
                NewMemory { id: memory_id(number), ..memory(number, CLOSED) }
            }
        }
    }
}

fn memory(number: u16, namespace: &str) -> NewMemory {
    let id = open(number);
    let label = format!("report {} of river {} and harbour {number}", number % 7, number % 3);
    NewMemory {
        namespace: namespace.into(),
        key_points: vec!["water".into()],
        // The others cool, and move to the cold tier.
        is_pinned: number.is_multiple_of(2),
        ..new_memory(id, &label)
    }
}

/// The id of a memory in the open namespace that is like no other, and is only found over an edge.
fn unlike(number: u16) -> MemoryId {
    memory_id(2_000 + number)
}

fn near(source: MemoryId, target: MemoryId) -> Command {
    command(CreateEdge(EdgeRef { source, target, relation: "near".into() }))
}

/// Open memories with edges; and beside them as many others with the same words, the same key point, and more
/// edges to each open one than a search follows.
fn engine(options: Options, beside: Beside) -> Engine {
    let mut engine = Engine::bootstrapped(DIMENSION, options);
    engine.fill(1, (0..MEMORIES).map(|number| memory(number, OPEN)));
    let other = |number: u16| new_memory(unlike(number), &format!("{number} apples"));
    engine.fill(1, (0..MEMORIES).map(other));
    if beside != Beside::Nothing {
        engine.fill(1, (0..MEMORIES).map(|number| beside.memory(number)));
    }
    for number in 0..MEMORIES {
        if beside != Beside::Nothing {
            let to_other = |of| near(open(number), beside.memory((number + of) % MEMORIES).id);
            engine.run(2, &(0..20).map(to_other).collect::<Vec<_>>());
        }
        engine.run(2, &[near(open(number), open(number + 7)), near(open(number), unlike(number))]);
    }
    let archive =
        [("consolidation.archive_after_days", 0.2), ("consolidation.active_index_max", 1.0)];
    engine.run(3, &archive.map(|(name, value)| configure(name, value)));
    for step in 1..40 {
        engine.run(step * 10 * Timestamp::DAY_MICROS, &[command(AdvanceTick(None))]);
    }
    engine
}

/// Every read with the access of the caller, as text.
fn reads(engine: &Engine) -> Vec<(&'static str, String)> {
    let (reader, access) = (&engine.reader, access());
    let filter = |tier| Filter { access: access.clone(), tier, ..Filter::default() };
    let mut found = Vec::new();
    for tier in [TierFilter::Hot, TierFilter::Cold, TierFilter::All] {
        for query in ["report of harbour 3", "river", "harbuor", "water", "unknown words"] {
            let components = vector(query).components().unwrap();
            for (vector, limit) in
                [(Some(components.clone()), 20), (Some(components), 100), (None, 20)]
            {
                let request = SearchRequest {
                    query: query.into(),
                    vector,
                    filter: filter(tier),
                    limit,
                    ..SearchRequest::default()
                };
                let results = reader.search(TENANT, &request).unwrap();
                found.push(("search", format!("{results:?}")));
            }
        }
        let list = ListRequest { filter: filter(tier), limit: 50, ..ListRequest::default() };
        found.push(("list", format!("{:?}", reader.list(TENANT, &list).unwrap())));
        let mut ids = reader.ids(TENANT, &filter(tier));
        ids.sort_unstable();
        found.push(("ids", format!("{ids:?}")));
        found.push(("overview", format!("{:?}", reader.overview(TENANT, &filter(tier)))));
    }
    let hot = HotRequest { filter: filter(TierFilter::Hot), limit: 30, ..HotRequest::default() };
    found.push(("hottest", format!("{:?}", reader.hottest(TENANT, &hot).unwrap())));
    found.push(("graph view", format!("{:?}", reader.graph_view(TENANT, &hot).unwrap())));
    for number in [0_u16, 7, 33] {
        let near = reader.neighbours(TENANT, open(number), &access, 2, 10).unwrap().unwrap();
        assert!(!near.is_empty());
        found.push(("neighbours", format!("{near:?}")));
        let label = memory(number + 1_000, OPEN).label;
        let unit = vector(&label).components().unwrap();
        let key_points = ["water".to_owned()];
        let suggestions = reader.suggestions(TENANT, OPEN, &label, &key_points, &unit);
        found.push(("suggestions", format!("{suggestions:?}")));
    }
    let filter = filter(TierFilter::Hot);
    let candidates = reader.fold_candidates(TENANT, &filter, None, 20).unwrap();
    found.push(("candidates", format!("{candidates:?}")));
    found
}

#[test]
fn closed_memories_change_no_read() {
    let of_default = |beside| engine(Options::default(), beside);
    let (alone, beside) = (of_default(Beside::Nothing), of_default(Beside::Closed));
    assert!(beside.reader.counts(TENANT).memories > alone.reader.counts(TENANT).memories);
    assert!(alone.reader.cold_memories(TENANT) > 10, "some are in the cold tier");
    for (without, with) in reads(&alone).into_iter().zip(reads(&beside)) {
        assert_eq!(without, with);
    }
}

/// Their words count where the frequency of a word does, but they are not found, and displace nothing that is.
#[test]
fn memories_in_quarantine_take_no_places() {
    let engine = engine(Options::default(), Beside::Quarantined);
    let is_open = |id: MemoryId| (0..MEMORIES).all(|number| id != quarantined(number));
    let reader = &engine.reader;
    for tier in [TierFilter::Cold, TierFilter::All] {
        let filter = Filter { tier, ..Filter::default() };
        for query in ["report of harbour 3", "river", "water"] {
            let (query, vector) = (query.to_owned(), vector(query).components().ok());
            let request = SearchRequest {
                query,
                vector,
                filter: filter.clone(),
                limit: 20,
                ..SearchRequest::default()
            };
            let hits = reader.search(TENANT, &request).unwrap().hits;
            assert_eq!(hits.iter().filter(|hit| is_open(hit.record.id)).count(), 20);
        }
        let list = ListRequest { filter: filter.clone(), limit: 50, ..ListRequest::default() };
        let page = reader.list(TENANT, &list).unwrap();
        assert_eq!(page.memories.iter().filter(|it| is_open(it.id)).count(), 50);
        assert!(reader.ids(TENANT, &filter).into_iter().all(is_open));
    }
    for access in [access(), Access::default()] {
        let near = reader.neighbours(TENANT, open(0), &access, 2, 100).unwrap().unwrap();
        assert!(!near.is_empty() && near.iter().all(|it| is_open(it.record.id)));
    }
}

/// The graph holds the memories of all namespaces, so what it misses would depend on closed ones.
#[test]
fn restricted_searches_are_exact() {
    let with_graph = |beside| engine(Options { exact_max: 20, ..Options::default() }, beside);
    let (alone, beside) = (with_graph(Beside::Nothing), with_graph(Beside::Closed));
    let query = vector("report of harbour 3");
    for engine in [&alone, &beside] {
        engine.wait_for_graph(&query);
    }
    let by_graph = beside.reader.searches().by_graph();
    for (without, with) in reads(&alone).into_iter().zip(reads(&beside)) {
        assert_eq!(without, with);
    }
    assert_eq!(beside.reader.searches().by_graph(), by_graph);
}
