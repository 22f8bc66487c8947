//! A tick of many steps reports each crossing once, by the heats of a memory at the previous tick
//! and at this one. Writes and restarts between its steps do not change that.

use std::collections::BTreeMap;

use storage::model::analytics::Usage;

use crate::common::*;

const SECOND: i64 = Timestamp::SECOND_MICROS;
const DAY: i64 = Timestamp::DAY_MICROS;
const THRESHOLD: f64 = 0.10;
/// Memories in the test with many steps.
const COUNT: u16 = 8_000;

fn id(number: u16) -> MemoryId {
    memory_id(number)
}

/// Decides and applies commands. Appends the crossings that they report to `reported`.
fn run(
    engine: &mut Engine,
    now: i64,
    commands: &[Command],
    reported: &mut Vec<(MemoryId, EventKind)>,
) -> Vec<Reply> {
    let (decisions, batch) = engine.decide(now, commands);
    engine.apply(&batch);
    for change in &batch.changes {
        if let Change::EventAppended(_, Event { kind, subject: Some(id), .. }) = change
            && matches!(kind, EventKind::Cooled | EventKind::Warmed)
        {
            reported.push((*id, kind.clone()));
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

/// The crossings between two sets of heats, in order of ids.
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

fn advance_clock() -> Command {
    Command::background(Action::AdvanceClock)
}

/// Warms, cools and recalls memories that the tick has evaluated, and others that it has not.
fn change_memories(
    engine: &mut Engine,
    now: i64,
    step: u16,
    reported: &mut Vec<(MemoryId, EventKind)>,
) {
    for (number, heat) in [(COUNT - 10, 0.9), (COUNT - 20, 0.01), (3, 0.9)] {
        let patch = MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() };
        run(engine, now, &[command(Action::UpdateMemory(id(number - step), patch))], reported);
    }
    let recalls = vec![(id(COUNT - 30), 1), (id(4), 1)];
    run(engine, now, &[report(step.into(), 1, Usage::default(), recalls)], reported);
}

/// Turns archiving off, because it would remove memories from a count.
fn no_archiving() -> Command {
    configure("consolidation.cold_count_trigger", 1e6)
}

#[test]
fn interrupted_tick_reports_each_crossing_once() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let (mut now, mut reported) = (61 * SECOND, Vec::new());
    // Half of the memories cross within a day and a half.
    for number in 0..COUNT {
        let initial_heat = if number % 2 == 0 { 0.2 } else { 0.9 };
        let new = NewMemory { initial_heat, ..new_memory(id(number), "x") };
        run(&mut engine, 1, &[create(new)], &mut reported);
    }
    run(&mut engine, 2, &[no_archiving()], &mut reported);
    run(&mut engine, now, &[advance_clock()], &mut reported);
    let before = heats(&engine);
    run(&mut engine, now + 1, &[tick()], &mut reported);
    assert!(reported.is_empty());

    now += DAY + DAY / 2;
    run(&mut engine, now, &[advance_clock()], &mut reported);
    let at_tick = heats(&engine);
    let mut step = 1;
    while run(&mut engine, now + i64::from(step) * SECOND, &[tick()], &mut reported)[0]
        != Reply::Done
    {
        // The leader crashes, and another one continues the tick.
        if step % 2 == 0 {
            engine = engine.reopened(Options::default());
        }
        change_memories(&mut engine, now + i64::from(step) * SECOND, step, &mut reported);
        step += 1;
    }
    assert!(step > 3, "a tick of several steps");
    let expected = crossed(&before, &at_tick);
    assert_eq!(expected.len(), usize::from(COUNT) / 2);
    reported.sort_by_key(|(id, _)| *id);
    assert_eq!(reported, expected);

    // The next tick reports the crossings of the writes in between, each once.
    reported.clear();
    now += 200 * SECOND;
    run(&mut engine, now, &[advance_clock()], &mut reported);
    let after = heats(&engine);
    while run(&mut engine, now + 1, &[tick()], &mut reported)[0] != Reply::Done {}
    let expected = crossed(&at_tick, &after);
    assert!(!expected.is_empty());
    reported.sort_by_key(|(id, _)| *id);
    assert_eq!(reported, expected);
}

/// Upper bounds of heats use a time relative to the chunk's first anchor. Long after it, that
/// time is coarse. A memory that cools within minutes is reported once all the same.
#[test]
fn fast_cooling_in_old_chunk_is_reported_once() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let permanent = NewMemory { decay_class: DecayClass::Permanent, ..new_memory(id(0), "old") };
    let (mut now, mut reported) = (400 * DAY, Vec::new());
    run(&mut engine, 1, &[create(permanent)], &mut reported);
    let fast = configure("decay_profiles.episodic.half_life", 60.0);
    run(&mut engine, 2, &[fast], &mut reported);
    // Each crosses at another time between two ticks.
    let new = (1..=200).map(|number| {
        let initial_heat = 0.3 + f32::from(number) / 300.0;
        create(NewMemory { initial_heat, ..new_memory(id(number), "x") })
    });
    run(&mut engine, now, &new.collect::<Vec<_>>(), &mut reported);
    for _ in 0..20 {
        now += 61 * SECOND;
        run(&mut engine, now, &[advance_clock()], &mut reported);
        while run(&mut engine, now + 1, &[tick()], &mut reported)[0] != Reply::Done {}
    }
    reported.sort_by_key(|(id, _)| *id);
    let expected: Vec<_> = (1..=200).map(|number| (id(number), EventKind::Cooled)).collect();
    assert_eq!(reported, expected);
}

/// The number of changes that a tick writes for `count` memories, of which 100 have cooled.
fn changes_of_a_tick(count: u16) -> usize {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    for first in (0..count).step_by(50) {
        let new = (first..first + 50).map(|number| {
            let cools = number % (count / 100) == 0;
            let decay_class = if cools { DecayClass::Volatile } else { DecayClass::Permanent };
            create(NewMemory { decay_class, ..new_memory(id(number), "x") })
        });
        engine.run(1, &new.collect::<Vec<_>>());
    }
    engine.run(2, &[no_archiving()]);
    engine.run(30 * DAY, &[advance_clock()]);
    let mut changes = 0;
    for step in 1.. {
        let (decisions, batch) = engine.decide(30 * DAY + step, &[tick()]);
        changes += batch.changes.len();
        engine.apply(&batch);
        if decisions[0] == Ok(Reply::Done) {
            break;
        }
    }
    changes
}

#[test]
fn tick_writes_scale_with_crossings_only() {
    let changes = changes_of_a_tick(1_000);
    assert!((100..=210).contains(&changes), "{changes}");
    assert_eq!(changes_of_a_tick(20_000), changes);
}
