//! Seeded runs against a naive model: random commands in random batches. The engine and the model
//! must agree on every read. Two replicas must be equal in every byte, also after a crash and a
//! replay of the log. HEARTH_SEEDS and HEARTH_STEPS lengthen the run.

use std::path::Path;
use std::sync::Arc;

use storage::RowFaults;
use storage::model::heat::Anchor;
use storage::model::score::rounded;
use storage::text::tokenizer::words;
use tempfile::TempDir;

use storage::{Touched, TouchedMemories};

use crate::common::brute::{self, BruteForce, Candidate, hottest, passes};
use crate::common::world::{NAMESPACES, NaiveMemory, Random, World};
use crate::common::*;

fn outcome(decision: &Decision) -> &'static str {
    match decision {
        Ok(Reply::Memories(TouchedMemories { replay_of: Some(_), .. })) => "replayed",
        Ok(Reply::Memories(TouchedMemories { memories, .. }))
            if memories.iter().any(|memory| memory.now == Touched::Deleted) =>
        {
            "deleted"
        }
        Ok(_) => "done",
        Err(Rejection::NotFound) => "not found",
        Err(Rejection::Locked) => "locked",
        Err(Rejection::KeyReused) => "key reused",
        Err(_) => "other rejection",
    }
}

/// Which commands a run decides.
#[derive(Clone, Copy)]
enum Commands {
    /// Those that the model computes. It is compared after each step.
    Modelled,
    /// All: the model takes the memories of the leader after each step.
    Any,
}

/// Compares every read with brute force over the model.
fn compare(engine: &Engine, world: &World, random: &mut Random) {
    let now = engine.reader.position().clock;
    assert_eq!(engine.reader.counts(TENANT).memories, world.memories.len() as u64);
    for (id, naive) in &world.memories {
        let found = engine.reader.get(TENANT, *id).unwrap().expect("it is in the model");
        // The model does not compute the heat at the last tick.
        let anchor = Anchor { tick_heat: naive.anchor.tick_heat, ..found.anchor };
        assert_eq!((&found.memory, &anchor), (&naive.memory, &naive.anchor));
        assert_eq!(found.heat.to_bits(), World::heat(naive, now).to_bits());
    }
    let namespace = random.chance(50).then(|| random.pick(&NAMESPACES).to_owned());
    let memory_type = random.chance(30).then(|| random.pick(&MemoryType::ALL));
    let details = if random.chance(30) { random.details() } else { Details::default() };
    let filter = Filter { namespace, memory_type, details, ..Filter::default() };
    let passing = |filter: &Filter| -> Vec<_> {
        world.memories.iter().filter(|(_, naive)| passes(filter, &naive.memory)).collect()
    };
    compare_list(engine, &passing(&filter), &filter);
    compare_hot(engine, &passing(&filter), &filter);
    compare_search(engine, world, &filter, random);
    let filter = Filter { words: Some(words(std::iter::once(&*random.text()))), ..filter };
    let matching = passing(&filter).len();
    let request = ListRequest { filter, ..ListRequest::default() };
    assert_eq!(engine.reader.list(TENANT, &request).unwrap().total, matching, "{request:?}");
}

fn compare_list(engine: &Engine, passing: &[(&MemoryId, &NaiveMemory)], filter: &Filter) {
    let now = engine.reader.position().clock;
    let mut expected: Vec<_> =
        passing.iter().map(|(id, naive)| (rounded(World::heat(naive, now)), **id)).collect();
    expected.sort_by(|l, r| r.0.total_cmp(&l.0).then(r.1.cmp(&l.1)));
    let request =
        ListRequest { filter: filter.clone(), offset: 3, limit: 7, ..ListRequest::default() };
    let page = engine.reader.list(TENANT, &request).unwrap();
    assert_eq!(page.total, expected.len());
    let expected: Vec<_> = expected.iter().skip(3).take(7).map(|(_, id)| *id).collect();
    assert_eq!(page.memories.iter().map(|found| found.id).collect::<Vec<_>>(), expected);
}

fn compare_hot(engine: &Engine, passing: &[(&MemoryId, &NaiveMemory)], filter: &Filter) {
    let now = engine.reader.position().clock;
    let expected = passing.iter().map(|(id, naive)| {
        let memory = &naive.memory;
        (memory.is_pinned, rounded(World::heat(naive, now)), memory.updated_at, **id)
    });
    let request =
        HotRequest { filter: filter.clone(), pinned_first: true, limit: 10, budget_chars: None };
    let found = engine.reader.hottest(TENANT, &request).unwrap();
    let found: Vec<_> = found.iter().map(|found| found.id).collect();
    assert_eq!(found, hottest(expected.collect()));
}

fn compare_search(engine: &Engine, world: &World, filter: &Filter, random: &mut Random) {
    let mut query = random.text();
    if random.chance(30) {
        query += random.pick(&[" today", " yesterday", " 3 days ago"]);
    }
    let request = SearchRequest {
        vector: Some(vector(&query).components().unwrap()),
        query,
        filter: filter.clone(),
        home_namespace: Some(random.pick(&NAMESPACES).into()),
        limit: 10,
        ..SearchRequest::default()
    };
    let candidates = world.memories.iter().map(|(id, naive)| {
        let vector = vector(&naive.text_for_vector).components().unwrap();
        (*id, Candidate::new(naive.memory.clone(), naive.anchor, vector))
    });
    let brute = BruteForce(candidates.collect());
    let now = engine.reader.position().clock;
    let expected = brute.best(&request, &Thermo::default(), now);
    let found = engine.reader.search(TENANT, &request).unwrap().hits;
    brute::compare(&found, &expected, &request.query);
    let first = SearchRequest { limit: 3, ..request };
    let first = engine.reader.search(TENANT, &first).unwrap().hits;
    let ids = |hits: &[storage::Hit]| hits.iter().map(|hit| hit.record.id).collect::<Vec<_>>();
    assert_eq!(ids(&first), ids(&found)[..found.len().min(3)]);
}

/// Triggers of all kinds. Those that fire on commands of the model change no memory.
fn triggers() -> Vec<Command> {
    let heat = |below, above| TriggerFilter {
        heat_below: below,
        heat_above: above,
        ..TriggerFilter::default()
    };
    let fox = TriggerFilter { label_pattern: Some("FOX".into()), ..TriggerFilter::default() };
    let url = "https://hooks.example/".to_owned();
    let webhook = TriggerAction::Webhook { url, secret: None, retiring: None };
    let (notify, tag) = (TriggerAction::Notify(None), TriggerAction::Tag(None));
    let boost = TriggerAction::Boost(0.1);
    let all = [
        (TriggerEvent::Store, notify.clone(), heat(None, None), None),
        (TriggerEvent::Store, webhook, fox, Some(7)),
        (TriggerEvent::Boost, notify.clone(), heat(Some(0.6), None), Some(9)),
        (TriggerEvent::Decay, notify, heat(Some(0.5), None), None),
        (TriggerEvent::Threshold, tag, heat(None, Some(0.4)), None),
        (TriggerEvent::Recall, boost, heat(Some(0.3), None), None),
    ];
    let make = |(number, (event, action, filter, max_fires)): (u8, _)| {
        let trigger = Trigger { filter, max_fires, ..trigger(event, action) };
        create_trigger(TriggerId([number; 16]), trigger)
    };
    (1..).zip(all).map(make).collect()
}

/// Random outcomes of up to three due deliveries.
fn attempts(engine: &Engine, random: &mut Random) -> Command {
    let due = engine.reader.due(TENANT, engine.reader.position().clock, 3).unwrap();
    let attempts = due.into_iter().map(|id| {
        let delivery = engine.reader.delivery(TENANT, id).unwrap().unwrap();
        let retry_in_micros = random.chance(50).then_some(1_000_000);
        let outcome = match random.below(3) {
            0 => AttemptOutcome::Delivered(200),
            _ => AttemptOutcome::Failed { reason: "500".into(), retry_in_micros },
        };
        Attempt { id, number: delivery.attempts + 1, outcome }
    });
    command(RecordAttempts(attempts.collect()))
}

/// Every created memory fired once. Limited triggers kept their limit. The outbox counts its
/// deliveries.
fn compare_firings(engine: &Engine, world: &World) {
    let triggers = engine.reader.triggers(TENANT);
    let count = |(compiled, firings): &(Arc<CompiledTrigger>, Firings)| {
        let row: Option<Firings> =
            engine.reader.record(&storage::Key::Firings(TENANT, compiled.id)).unwrap();
        assert_eq!(*firings, row.unwrap_or_default(), "the loaded firings equal the stored ones");
        firings.count
    };
    let counts: Vec<u64> = triggers.iter().map(count).collect();
    assert_eq!(counts[0], world.created);
    assert!(counts[1] <= 7 && counts[2] <= 9, "{counts:?}");
    let mut fired = vec![0; counts.len()];
    let is_firing = |event: &Event| Ok(matches!(event.kind, EventKind::TriggerFired(_)));
    for (_, event) in engine.reader.journal(TENANT, None, 10_000, is_firing).unwrap().events {
        let id = event.kind.trigger().unwrap();
        fired[triggers.iter().position(|(other, _)| other.id == id).unwrap()] += 1;
    }
    assert_eq!(fired, counts, "each firing is in the journal once");
    let outbox = engine.reader.outbox(TENANT).unwrap();
    let pending = |delivery: &Delivery| matches!(delivery.stage, DeliveryStage::Pending(_));
    let count = |filter: &dyn Fn(&Delivery) -> bool| {
        let filter = |_, delivery: &Delivery| Ok(filter(delivery));
        engine.reader.deliveries(TENANT, None, 100, filter).unwrap().deliveries.len() as u64
    };
    assert_eq!((outbox.pending, outbox.dead_letters), (count(&pending), count(&|it| !pending(it))));
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

/// Runs random commands on three replicas, one of which loses steps in a crash.
fn run(kind: Commands, seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut leader = Engine::empty(Options::default());
    // The follower has a graph. It is so small that it finds every memory.
    let mut follower = Engine::empty(Options { exact_max: 5, ..Options::default() });
    let crashed = Arc::new(TempDir::new().unwrap());
    let (mut world, mut now, mut log) = (World::default(), 0, Vec::new());
    let archive_early = [
        configure("consolidation.archive_after_days", 0.2),
        configure("consolidation.active_index_max", 3.0),
    ];
    let first = [vec![bootstrap(DIMENSION)], archive_early.into(), triggers()].concat();
    let (_, first) = leader.decide(now, &first);
    log.push(codec::encode(&first));
    leader.apply(&first);
    let crash_at = random.below(steps);
    for step in 0..steps {
        now += 1 + random.below(36_000) as i64 * Timestamp::SECOND_MICROS / 10;
        // Receipts expire after a day, so the run stays within a day.
        let now = Timestamp(now % Timestamp::DAY_MICROS + step as i64);
        let now = now.max(Timestamp(leader.reader.position().clock.0 + 1));
        let mut commands = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..1 + random.below(8) {
            let next = match kind {
                Commands::Modelled => world.modelled(&mut random),
                Commands::Any => world.command(&mut random),
            };
            expected.push(world.expect(&next, now));
            commands.push(next);
        }
        commands.push(attempts(&leader, &mut random));
        expected.push("done");
        let (decisions, batch) = leader.decide(now.0, &commands);
        assert_eq!(decisions.iter().map(outcome).collect::<Vec<_>>(), expected, "seed {seed}");
        log.push(codec::encode(&batch));
        assert_eq!(leader.apply(&batch), ApplyOutcome::Done);
        match kind {
            Commands::Modelled => compare(&leader, &world, &mut random),
            Commands::Any => world.copy_from(&leader),
        }
        if step == crash_at {
            // The crash loses the steps after this flush. The log replays them.
            leader.writer.flusher().flush().unwrap();
            copy(&leader.folder().join("state"), &crashed.path().join("state"));
        }
    }
    compare(&leader, &world, &mut random);
    compare_firings(&leader, &world);
    replay(&mut follower, &log, 0);
    let mut crashed = Engine::open(crashed, Options::default());
    let from = crashed.reader.position().index as usize + 1;
    assert!(from <= log.len(), "the state is not ahead of the log");
    replay(&mut crashed, &log, from);
    for replica in [&follower, &crashed] {
        compare(replica, &world, &mut random);
        compare_firings(replica, &world);
    }
    assert_equal_hashes([&mut leader, &mut follower, &mut crashed], log.len() as u64, seed);
}

/// Applies the entries of `log` that start at an index.
fn replay(engine: &mut Engine, log: &[Vec<u8>], from: usize) {
    for (index, bytes) in log.iter().enumerate().skip(from) {
        assert_eq!(engine.apply_at(index as u64, bytes.clone()), ApplyOutcome::Done);
    }
}

fn assert_equal_hashes(engines: [&mut Engine; 3], index: u64, seed: u64) {
    let later = engines[0].reader.position().clock.0 + 1;
    let verify = [Command::of_cluster(Verify)];
    let (_, mark) = engines[0].decide(later, &verify);
    let [leader, rest @ ..] = engines;
    let verified = |engine: &Engine| {
        engine.reader.verifier().wait_idle();
        engine.reader.verifier().results().last().unwrap().clone()
    };
    assert_eq!(leader.apply(&mark), ApplyOutcome::Done);
    let expected = verified(leader);
    assert!(expected.hash.is_some());
    assert_eq!(expected.faults, Some(RowFaults::default()), "seed {seed}");
    for engine in rest {
        assert_eq!(engine.apply_at(index, codec::encode(&mark)), ApplyOutcome::Done);
        assert_eq!(verified(engine), expected, "seed {seed}");
    }
    // Different states have different hashes.
    leader.run(later + 1, &verify);
    let other = verified(leader).hash.expect("it was not skipped");
    assert_ne!(Some(other), expected.hash);
}

fn run_seeds(kind: Commands) {
    for seed in 0..setting("HEARTH_SEEDS", 8) {
        run(kind, seed, setting("HEARTH_STEPS", 120) as usize);
    }
}

#[test]
fn modelled_commands_equal_the_model_after_each_step() {
    run_seeds(Commands::Modelled);
}

/// The rows of memories are those of the leader. Reads equal brute force over them.
#[test]
fn replicas_and_reads_agree_after_any_commands() {
    run_seeds(Commands::Any);
}
