//! Rules of retention archive and delete what has been cold and unused for their days, and nothing
//! else. A preview counts the same.

use storage::DueRequest;
use storage::model::analytics::Usage;
use storage::model::retention::{RetentionAction, RetentionRule};

use crate::common::*;

const DAY: i64 = Timestamp::DAY_MICROS;
/// Memories per kind: a tick takes several steps.
const COUNT: u64 = 700;

fn rule(namespace: &str, action: RetentionAction, after_days: u32) -> RetentionRule {
    RetentionRule { namespace: Some(namespace.into()), memory_type: None, action, after_days }
}

fn id(kind: u64, number: u64) -> MemoryId {
    memory_id(kind * 10_000 + number)
}

fn tick(engine: &mut Engine, now: i64) {
    engine.run(now, &[Command::of_cluster(AdvanceClock)]);
    for step in 0.. {
        let replies = engine.submit(now + 1, &[command(AdvanceTick(None))]);
        if matches!(replies[0], Ok(Reply::Progress(Progress::Done))) {
            break;
        }
        assert!(step < 100, "the tick ends");
    }
}

/// Memories of the namespace in the hot tier, and in the cold tier.
fn tiers(engine: &Engine, namespace: &str) -> [u64; 2] {
    let filter =
        Filter { namespace: Some(namespace.into()), tier: TierFilter::All, ..Filter::default() };
    let overview = engine.reader.overview(TENANT, &filter);
    [overview.hot, overview.cold]
}

#[test]
fn rules_archive_and_delete_after_their_days() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    for (kind, namespace) in ["logs", "notes", "default"].into_iter().enumerate() {
        for number in 0..COUNT {
            let memory = new_memory(id(kind as u64, number), &format!("memory {number}"));
            engine
                .run(number as i64, &[create(NewMemory { namespace: namespace.into(), ..memory })]);
        }
    }
    let patch = |id, patch: MemoryPatch| command(UpdateMemory { id, patch: patch.into() });
    let pinned = MemoryPatch { is_pinned: Some(true), ..MemoryPatch::default() };
    let locked = MemoryPatch { is_locked: Some(true), ..MemoryPatch::default() };
    engine.run(1_000, &[patch(id(0, 1), pinned), patch(id(0, 2), locked)]);
    let rules = vec![
        rule("logs", RetentionAction::Delete, 30),
        rule("notes", RetentionAction::Archive, 10),
        rule("notes", RetentionAction::Delete, 60),
    ];
    engine.run(1_001, &[command(UpdateRetention(rules.clone()))]);
    let due = |engine: &Engine| {
        let (thermo, now) = (&Thermo::default(), engine.reader.position().clock);
        let request = DueRequest { rules: &rules, thermo, now, reached: None, limit: 0 };
        engine.reader.retention_due(TENANT, &request).1
    };
    // An episodic memory is cold after some four days.
    tick(&mut engine, 12 * DAY);
    assert_eq!(due(&engine), [0, 0, 0]);
    tick(&mut engine, 20 * DAY);
    assert_eq!(tiers(&engine, "logs"), [COUNT, 0]);
    assert_eq!(tiers(&engine, "notes"), [0, COUNT]);
    // A recall is a use.
    engine.run(25 * DAY, &[report(1, 1, Usage::default(), vec![(id(0, 3), 1)])]);
    engine.run(40 * DAY, &[Command::of_cluster(AdvanceClock)]);
    assert_eq!(due(&engine), [COUNT - 2, 0, 0], "the locked one counts");
    tick(&mut engine, 40 * DAY + 10);
    assert_eq!(tiers(&engine, "logs"), [2, 1]);
    for kept in [1, 2, 3] {
        assert!(engine.reader.get(TENANT, id(0, kept)).unwrap().is_some(), "{kept}");
    }
    // The days until the deletion begin with the archiving.
    tick(&mut engine, 79 * DAY);
    assert_eq!(tiers(&engine, "notes"), [0, COUNT]);
    tick(&mut engine, 81 * DAY);
    assert_eq!(tiers(&engine, "notes"), [0, 0]);
    assert_eq!(tiers(&engine, "default"), [COUNT, 0], "no rule covers it");
    let engine = engine.reopened(Options::default());
    assert_eq!(engine.reader.tenant(TENANT).unwrap().unwrap().retention, rules);
}
