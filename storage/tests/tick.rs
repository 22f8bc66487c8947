//! A tick of many steps reports each crossing once, by the heats of a memory at the previous tick
//! and at this one. Writes and restarts between its steps do not change that.

use std::collections::BTreeMap;

use storage::model::analytics::Usage;
use storage::model::cluster::Cluster;
use storage::model::tick::TickStep;
use storage::{TickFinds, TickSteps};

use crate::common::world::Random;
use crate::common::*;

const SECOND: i64 = Timestamp::SECOND_MICROS;
const DAY: i64 = Timestamp::DAY_MICROS;
const THRESHOLD: f64 = 0.10;
/// Memories in the test with many steps.
const COUNT: u16 = 8_000;

fn id(number: u16) -> MemoryId {
    memory_id(number)
}

type Heats = BTreeMap<MemoryId, f64>;
type Crossings = Vec<(MemoryId, EventKind)>;

/// An engine, and the crossings that its ticks reported.
struct Ticks {
    engine: Engine,
    reported: Crossings,
    steps: TickSteps,
}

impl Ticks {
    fn new() -> Self {
        let engine = Engine::bootstrapped(DIMENSION, Options::default());
        Self { engine, reported: Vec::new(), steps: TickSteps::default() }
    }

    fn run(&mut self, now: i64, command: Command) -> Reply {
        let (mut decisions, batch) = self.engine.decide(now, &[command]);
        self.engine.apply(&batch);
        for change in batch.changes {
            if let Change::EventAppended(_, Event { kind, subject: Some(id), .. }) = change
                && matches!(kind, EventKind::Cooled | EventKind::Warmed)
            {
                self.reported.push((id, kind));
            }
        }
        decisions.remove(0).unwrap()
    }

    /// Runs a tick to its end.
    fn tick(&mut self, now: i64) {
        self.run(now, Command::of_cluster(AdvanceClock));
        loop {
            let step = self.find();
            if self.run(now + 1, command(AdvanceTick(step))) == Reply::Progress(Progress::Done) {
                return;
            }
        }
    }

    /// What the next step works on, as the leader finds it.
    fn find(&mut self) -> Option<Box<TickStep>> {
        self.engine.reader.next_tick_step(TENANT, &mut self.steps).unwrap().map(Box::new)
    }

    /// The crossings reported since the last call, in order of ids.
    fn reported(&mut self) -> Crossings {
        self.reported.sort_by_key(|(id, _)| *id);
        std::mem::take(&mut self.reported)
    }

    fn heats(&self) -> Heats {
        let found = (0..COUNT).filter_map(|number| {
            let found = self.engine.reader.get(TENANT, id(number)).unwrap()?;
            Some((id(number), found.heat))
        });
        found.collect()
    }

    /// Warms, cools and recalls memories that the tick has evaluated, and others that it has not.
    fn change_memories(&mut self, now: i64, step: u16) {
        for (number, heat) in [(COUNT - 10, 0.9), (COUNT - 20, 0.01), (3, 0.9)] {
            let patch = MemoryPatch { current_heat: Some(heat), ..MemoryPatch::default() };
            self.run(
                now,
                command(UpdateMemory { id: id(number - step.min(3)), patch: patch.into() }),
            );
        }
        let recalls = vec![(id(COUNT - 30), 1), (id(4), 1)];
        self.run(now, report(step.into(), 1, Usage::default(), recalls));
    }
}

/// The crossings between two sets of heats, in order of ids.
fn crossed(before: &Heats, after: &Heats) -> Crossings {
    let one = |(id, heat): (&MemoryId, &f64)| match (before[id] >= THRESHOLD, *heat >= THRESHOLD) {
        (true, false) => Some((*id, EventKind::Cooled)),
        (false, true) => Some((*id, EventKind::Warmed)),
        _ => None,
    };
    after.iter().filter_map(one).collect()
}

/// The day of an agent: it stores 24 memories with the usual heat, and asks for them weeks later.
#[test]
fn memories_of_last_month_are_all_found() {
    let mut ticks = Ticks::new();
    for number in 0..24 {
        let memory = new_memory(id(number), &format!("note {number}"));
        ticks.run(number.into(), create(NewMemory { initial_heat: 0.8, ..memory }));
    }
    for day in 1..=60 {
        ticks.tick(day * DAY);
        let overview = ticks.engine.reader.overview(TENANT, &Filter::default());
        assert_eq!((overview.hot, overview.cold), (24, 0), "after {day} days");
    }
    let request = SearchRequest { query: "note 7".into(), limit: 24, ..SearchRequest::default() };
    let found = ticks.engine.reader.search(TENANT, &request).unwrap().hits;
    assert_eq!((found.len(), found[0].record.id), (24, id(7)));
}

/// Turns archiving off, because it would remove memories from a count.
fn no_archiving() -> Command {
    configure("consolidation.active_index_max", 1e9)
}

#[test]
fn interrupted_tick_reports_each_crossing_once() {
    let (mut ticks, mut now) = (Ticks::new(), 61 * SECOND);
    // Half of the memories cross within a day and a half.
    let new = (0..COUNT).map(|number| {
        let initial_heat = if number % 2 == 0 { 0.2 } else { 0.9 };
        NewMemory { initial_heat, ..new_memory(id(number), "x") }
    });
    ticks.engine.fill(1, new);
    ticks.run(2, no_archiving());
    ticks.run(now, Command::of_cluster(AdvanceClock));
    let before = ticks.heats();
    ticks.run(now + 1, command(AdvanceTick(None)));
    assert_eq!(ticks.reported(), []);

    now += DAY + DAY / 2;
    ticks.run(now, Command::of_cluster(AdvanceClock));
    let at_tick = ticks.heats();
    let mut step = 0;
    loop {
        step += 1;
        let at = now + i64::from(step) * SECOND;
        // What it finds is older than what it changes. Before the first step, no tick is in progress.
        let found = ticks.find();
        if step > 1 {
            ticks.change_memories(at, step - 1);
        }
        if ticks.run(at + 1, command(AdvanceTick(found))) == Reply::Progress(Progress::Done) {
            break;
        }
        // The leader crashes, and another one continues the tick.
        if step % 2 == 0 {
            ticks.engine = ticks.engine.reopened(Options::default());
            ticks.steps = TickSteps::default();
        }
    }
    assert!(step > 3, "a tick of several steps");
    let expected = crossed(&before, &at_tick);
    assert_eq!(expected.len(), usize::from(COUNT) / 2);
    assert_eq!(ticks.reported(), expected);

    // The next tick reports the crossings of the writes in between, each once.
    now += 200 * SECOND;
    ticks.run(now, Command::of_cluster(AdvanceClock));
    let expected = crossed(&at_tick, &ticks.heats());
    assert!(!expected.is_empty());
    ticks.tick(now);
    assert_eq!(ticks.reported(), expected);
}

/// Upper bounds of heats use a time relative to the chunk's first anchor. Long after it, that
/// time is coarse. A memory that cools within minutes is reported once all the same.
#[test]
fn fast_cooling_in_old_chunk_is_reported_once() {
    let (mut ticks, mut now) = (Ticks::new(), 400 * DAY);
    let permanent = NewMemory { decay_class: DecayClass::Permanent, ..new_memory(id(0), "old") };
    ticks.run(1, create(permanent));
    ticks.run(2, configure("decay_profiles.episodic.half_life", 60.0));
    // Each crosses at another time between two ticks.
    let new = (1..=200).map(|number| {
        let initial_heat = 0.3 + f32::from(number) / 300.0;
        NewMemory { initial_heat, ..new_memory(id(number), "x") }
    });
    ticks.engine.fill(now, new);
    for _ in 0..20 {
        now += 61 * SECOND;
        ticks.tick(now);
    }
    let expected: Vec<_> = (1..=200).map(|number| (id(number), EventKind::Cooled)).collect();
    assert_eq!(ticks.reported(), expected);
}

/// The number of changes that a tick writes for `count` memories, of which 100 have cooled.
fn changes_of_a_tick(count: u16) -> usize {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let new = (0..count).map(|number| {
        let cools = number % (count / 100) == 0;
        let decay_class = if cools { DecayClass::Volatile } else { DecayClass::Permanent };
        NewMemory { decay_class, ..new_memory(id(number), "x") }
    });
    engine.fill(1, new);
    engine.run(2, &[no_archiving()]);
    engine.run(30 * DAY, &[Command::of_cluster(AdvanceClock)]);
    let mut changes = 0;
    for step in 1.. {
        let (decisions, batch) = engine.decide(30 * DAY + step, &[command(AdvanceTick(None))]);
        changes += batch.changes.len();
        engine.apply(&batch);
        if decisions[0] == Ok(Reply::Progress(Progress::Done)) {
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

/// The writes of a minute, if it has any: a new memory, and at times a heat that a client sets, and
/// a recall. `number` counts the memories.
fn write(random: &mut Random, number: &mut u16) -> Vec<Command> {
    if random.chance(90) {
        return Vec::new();
    }
    *number += 1;
    let mut any = || id(1 + random.below(usize::from(*number)) as u16);
    let (changed, recalled) = (any(), any());
    let patch = MemoryPatch { current_heat: Some(random.heat()), ..MemoryPatch::default() };
    let change = command(UpdateMemory { id: changed, patch: patch.into() });
    let recalls = report((*number).into(), 1, Usage::default(), vec![(recalled, 1)]);
    let new = NewMemory { initial_heat: random.heat(), ..new_memory(id(*number), "x") };
    let others = [change, recalls].into_iter().filter(|_| random.chance(50));
    [create(new)].into_iter().chain(others).collect()
}

#[test]
fn ticks_that_find_nothing_can_be_left_out() {
    let (mut random, mut left_out, mut skipped, mut found) = (Random(7), 0, 0, 0);
    let (mut all, mut some) = (Ticks::new(), Ticks::new());
    let (mut now, mut number) = (1, 0);
    for minute in 0..2_000 {
        let mut commands = write(&mut random, &mut number);
        match minute {
            0 => commands.push(configure("decay_profiles.episodic.half_life", 7_200.0)),
            1_000 => commands.push(configure("consolidation.cold_threshold", 0.2)),
            _ => {}
        }
        now += SECOND;
        for command in commands {
            all.run(now, command.clone());
            some.run(now, command);
        }
        now += 60 * SECOND;
        all.tick(now);
        some.run(now, Command::of_cluster(AdvanceClock));
        let due = some.engine.reader.tick_due();
        match some.engine.reader.tick_finds(TENANT).unwrap() {
            _ if due.is_empty() => skipped += 1,
            TickFinds::Something => some.tick(now),
            TickFinds::NothingUntil { until, version } => {
                some.engine.reader.leave_out_ticks(TENANT, until, version);
                left_out += 1;
            }
        }
        let expected = all.reported();
        found += expected.len();
        assert_eq!(some.reported(), expected, "minute {minute}");
    }
    let counts = format!("{left_out} left out, {skipped} not due, {found} crossings");
    assert!(left_out > 100 && skipped > 100 && found > 100, "{counts}");
}

#[test]
fn idle_tenant_archives_long_cold_memories() {
    let mut ticks = Ticks::new();
    let cold = NewMemory { initial_heat: 0.05, ..new_memory(id(1), "x") };
    ticks.run(1, create(cold));
    ticks.run(2, configure("consolidation.active_index_max", 0.0));
    for day in 1..=40 {
        ticks.run(day * DAY, Command::of_cluster(AdvanceClock));
        for tenant in ticks.engine.reader.tick_due() {
            match ticks.engine.reader.tick_finds(tenant).unwrap() {
                TickFinds::Something => ticks.tick(day * DAY),
                TickFinds::NothingUntil { until, version } => {
                    ticks.engine.reader.leave_out_ticks(tenant, until, version);
                }
            }
        }
    }
    assert_eq!(ticks.engine.reader.overview(TENANT, &Filter::default()).cold, 1);
}

/// A restored cluster begins with a tick over the time since its backup.
#[test]
fn tick_over_a_restoration_fires_nothing() {
    let mut ticks = Ticks::new();
    ticks.run(1, create(NewMemory { initial_heat: 0.2, ..new_memory(id(1), "x") }));
    let notify = trigger(TriggerEvent::Decay, TriggerAction::Notify(Some("cooled".into())));
    ticks.run(2, create_trigger(TriggerId([1; 16]), notify));
    ticks.tick(61 * SECOND);
    let count = |ticks: &Ticks| {
        let [(_, firings)] = &ticks.engine.reader.triggers(TENANT)[..] else { panic!() };
        firings.count
    };
    let cluster = ticks.engine.reader.cluster().unwrap().unwrap();
    let (clock, member) = (ticks.engine.reader.position().clock, cluster.members[0]);
    let restored = Cluster::clone(&cluster).restored([9; 16], member, clock, true);
    let (_, batch) = ticks.engine.decide(62 * SECOND, &[Command::of_cluster(AdvanceClock)]);
    let changes = vec![Change::ClusterPut(restored)];
    ticks.engine.apply(&Batch { changes, ..batch });
    ticks.tick(7 * DAY);
    assert_eq!(ticks.reported(), [(id(1), EventKind::Cooled)], "the journal has it");
    assert_eq!(count(&ticks), 0, "it is no news");
    ticks.run(8 * DAY, create(NewMemory { initial_heat: 0.2, ..new_memory(id(2), "y") }));
    ticks.tick(8 * DAY + SECOND);
    ticks.tick(15 * DAY);
    assert_eq!(count(&ticks), 1, "later crossings fire");
}

#[test]
fn new_trigger_fires_for_nothing_of_the_past() {
    let mut ticks = Ticks::new();
    ticks.run(1, create(NewMemory { initial_heat: 0.9, ..new_memory(id(1), "x") }));
    ticks.tick(61 * SECOND);
    // It cools below the bound of the trigger, not below the cold threshold.
    let now = 61 * SECOND + DAY;
    ticks.run(now, Command::of_cluster(AdvanceClock));
    assert_ne!(ticks.engine.reader.tick_finds(TENANT).unwrap(), TickFinds::Something);
    let filter = TriggerFilter { heat_below: Some(0.8), ..TriggerFilter::default() };
    let any = trigger(TriggerEvent::Decay, TriggerAction::Notify(Some("cooled".into())));
    ticks.run(now, create_trigger(TriggerId([1; 16]), Trigger { filter, ..any }));
    assert_eq!(ticks.engine.reader.tick_finds(TENANT).unwrap(), TickFinds::Something);
    ticks.tick(now + 61 * SECOND);
    let [(_, firings)] = &ticks.engine.reader.triggers(TENANT)[..] else { panic!() };
    assert_eq!(firings.count, 0);
}
