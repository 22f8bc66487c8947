//! A tick of many steps, interrupted by everything: each crossing is told once, by what a
//! memory was at the tick before and is at this one.

#![expect(clippy::unwrap_used, reason = "a test says what must hold by unwrapping")]

mod common;

use std::collections::BTreeMap;

use common::{DIMENSION, Engine, TENANT, command, form, new_memory};
use storage::model::analytics::{Report, TenantReport, Usage};
use storage::model::id::{MemoryId, Timestamp};
use storage::model::journal::{Event, EventKind};
use storage::model::memory::DecayClass;
use storage::model::thermo::SettingValue;
use storage::{Action, Change, Command, MemoryPatch, NewMemory, Options, Reply};

const SECOND: i64 = Timestamp::SECOND_MICROS;
const DAY: i64 = Timestamp::DAY_MICROS;
const THRESHOLD: f64 = 0.10;
/// Memories of the test of many steps.
const COUNT: u16 = 8_000;

fn id(number: u16) -> MemoryId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    MemoryId(bytes)
}

/// Decides and applies; what crossed in between is added to `told`.
fn run(
    engine: &mut Engine,
    now: i64,
    commands: &[Command],
    told: &mut Vec<(MemoryId, EventKind)>,
) -> Vec<Reply> {
    let (decisions, batch) = engine.decide(Timestamp(now), commands);
    engine.apply(&batch);
    for change in &batch.changes {
        if let Change::EventAppended(_, Event { kind, subject: Some(id), .. }) = change
            && matches!(kind, EventKind::Cooled | EventKind::Warmed)
        {
            told.push((*id, *kind));
        }
    }
    decisions.into_iter().map(Result::unwrap).collect()
}

fn heats(engine: &Engine) -> BTreeMap<MemoryId, f64> {
    let found = (0..COUNT).filter_map(|number| {
        let found = engine.reader.get(TENANT, id(number)).unwrap()?;
        Some((id(number), found.heat))
    });
    found.collect()
}

/// What crossed between two looks, in order of ids.
fn crossed(
    before: &BTreeMap<MemoryId, f64>,
    after: &BTreeMap<MemoryId, f64>,
) -> Vec<(MemoryId, EventKind)> {
    let one = |(id, heat): (&MemoryId, &f64)| match (before[id] >= THRESHOLD, *heat >= THRESHOLD) {
        (true, false) => Some((*id, EventKind::Cooled)),
        (false, true) => Some((*id, EventKind::Warmed)),
        _ => None,
    };
    after.iter().filter_map(one).collect()
}

fn tick() -> Command {
    command(Action::AdvanceTick)
}

fn stamp() -> Command {
    Command::background(Action::AdvanceClock)
}

/// Warms, cools and recalls memories ahead of a tick's step and behind it.
fn disturb(engine: &mut Engine, now: i64, step: u16, told: &mut Vec<(MemoryId, EventKind)>) {
    for (number, heat) in [(COUNT - 10, 0.9), (COUNT - 20, 0.01), (3, 0.9)] {
        let patch = MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() };
        run(engine, now, &[command(Action::UpdateMemory(id(number - step), patch))], told);
    }
    let tenant = TenantReport {
        tenant: TENANT,
        recalls: vec![(id(COUNT - 30), 1), (id(4), 1)],
        searches: 1,
        searches_with_results: 1,
        usage: Usage::default(),
        keys: Vec::new(),
    };
    let report = Report { node: 1, boot: 1, number: step.into(), tenants: vec![tenant] };
    run(engine, now, &[Command::background(Action::RecordReport(report))], told);
}

/// Thousands of memories, half of which cross within a day and a half; no cold tier, which
/// would take away what is counted.
fn fill(engine: &mut Engine, told: &mut Vec<(MemoryId, EventKind)>) {
    run(engine, 0, &[form(DIMENSION)], told);
    for number in 0..COUNT {
        let mut new = new_memory(id(number), "x");
        new.initial_heat = if number % 2 == 0 { 0.2 } else { 0.9 };
        run(engine, 1, &[command(Action::CreateMemories(vec![new]))], told);
    }
    let never = ("consolidation.cold_count_trigger".to_owned(), SettingValue::Number(1e6));
    run(engine, 2, &[command(Action::UpdateSettings(vec![never]))], told);
}

#[test]
fn a_tick_of_many_steps_tells_each_crossing_once_whatever_comes_between() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Engine::open(folder.path(), Options::default());
    let mut told = Vec::new();
    fill(&mut engine, &mut told);
    let mut now = 61 * SECOND;
    run(&mut engine, now, &[stamp()], &mut told);
    let before = heats(&engine);
    run(&mut engine, now + 1, &[tick()], &mut told);
    assert!(told.is_empty());

    now += DAY + DAY / 2;
    run(&mut engine, now, &[stamp()], &mut told);
    let at_tick = heats(&engine);
    let mut step = 1;
    while run(&mut engine, now + i64::from(step) * SECOND, &[tick()], &mut told)[0] != Reply::Done {
        // The leader dies, and another goes on.
        if step % 2 == 0 {
            drop(engine);
            engine = Engine::open(folder.path(), Options::default());
        }
        disturb(&mut engine, now + i64::from(step) * SECOND, step, &mut told);
        step += 1;
    }
    assert!(step > 3, "a tick of several steps");
    let expected = crossed(&before, &at_tick);
    assert_eq!(expected.len(), usize::from(COUNT) / 2);
    told.sort_by_key(|(id, _)| *id);
    assert_eq!(told, expected);

    // The next one tells what came of all that in between, and nothing twice.
    told.clear();
    now += 200 * SECOND;
    run(&mut engine, now, &[stamp()], &mut told);
    let after = heats(&engine);
    while run(&mut engine, now + 1, &[tick()], &mut told)[0] != Reply::Done {}
    let expected = crossed(&at_tick, &after);
    assert!(!expected.is_empty());
    told.sort_by_key(|(id, _)| *id);
    assert_eq!(told, expected);
}

/// A time long after the chunk's first anchor is coarse where heats are bounded; the
/// crossing of what cools within minutes must be told all the same, and once.
#[test]
fn what_cools_within_minutes_is_told_in_an_old_chunk_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Engine::open(folder.path(), Options::default());
    let mut told = Vec::new();
    run(&mut engine, 0, &[form(DIMENSION)], &mut told);
    let kept = NewMemory { decay_class: DecayClass::Permanent, ..new_memory(id(0), "old") };
    run(&mut engine, 1, &[command(Action::CreateMemories(vec![kept]))], &mut told);
    let fast = ("decay_profiles.episodic.half_life".to_owned(), SettingValue::Number(60.0));
    run(&mut engine, 2, &[command(Action::UpdateSettings(vec![fast]))], &mut told);
    let mut now = 400 * DAY;
    // Each ends up somewhere else between two ticks.
    let new = (1..=200).map(|number| NewMemory {
        initial_heat: 0.3 + f32::from(number) / 300.0,
        ..new_memory(id(number), "x")
    });
    let new: Vec<_> = new.collect();
    for some in new.chunks(50) {
        run(&mut engine, now, &[command(Action::CreateMemories(some.to_vec()))], &mut told);
    }
    for _ in 0..20 {
        now += 61 * SECOND;
        run(&mut engine, now, &[stamp()], &mut told);
        while run(&mut engine, now + 1, &[tick()], &mut told)[0] != Reply::Done {}
    }
    told.sort_by_key(|(id, _)| *id);
    let expected: Vec<_> = (1..=200).map(|number| (id(number), EventKind::Cooled)).collect();
    assert_eq!(told, expected);
}

/// Changes that a tick writes over `count` memories of which 100 have cooled.
fn changes_of_a_tick(count: u16) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Engine::open(folder.path(), Options::default());
    let mut told = Vec::new();
    run(&mut engine, 0, &[form(DIMENSION)], &mut told);
    for first in (0..count).step_by(50) {
        let new = (first..first + 50).map(|number| {
            let cools = number % (count / 100) == 0;
            let decay_class = if cools { DecayClass::Volatile } else { DecayClass::Permanent };
            NewMemory { decay_class, ..new_memory(id(number), "x") }
        });
        run(&mut engine, 1, &[command(Action::CreateMemories(new.collect()))], &mut told);
    }
    let never = ("consolidation.cold_count_trigger".to_owned(), SettingValue::Number(1e6));
    run(&mut engine, 2, &[command(Action::UpdateSettings(vec![never]))], &mut told);
    run(&mut engine, 30 * DAY, &[stamp()], &mut told);
    let mut changes = 0;
    for step in 1.. {
        let (decisions, batch) = engine.decide(Timestamp(30 * DAY + step), &[tick()]);
        changes += batch.changes.len();
        engine.apply(&batch);
        if decisions[0] == Ok(Reply::Done) {
            break;
        }
    }
    changes
}

#[test]
fn a_tick_writes_some_200_changes_for_100_crossings_however_many_memories_there_are() {
    let changes = changes_of_a_tick(1_000);
    assert!((100..=210).contains(&changes), "{changes}");
    assert_eq!(changes_of_a_tick(20_000), changes);
}
