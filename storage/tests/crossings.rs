//! Ticks fire on_decay and on_threshold exactly for the memories that a scan of all memories
//! finds, once. Random commands run between the ticks. HEARTH_SEEDS sets the number of runs.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod common;
#[path = "common/world.rs"]
#[expect(dead_code, reason = "this test uses only its commands")]
mod world;

use std::collections::BTreeSet;

use common::{DIMENSION, Engine, TENANT, bootstrap, command};
use storage::model::id::{MemoryId, Timestamp, TriggerId};
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::pattern::FoldedText;
use storage::model::thermo::SettingValue;
use storage::model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use storage::model::trigger_match::Subject;
use storage::{Action, ApplyOutcome, Command, CompiledTrigger, Filter, Options, Reply, View};
use world::{Random, World};

const DAY: i64 = Timestamp::DAY_MICROS;

/// Triggers with random bounds. Bounds and heats are hundredths, so some are equal.
fn triggers(random: &mut Random) -> Vec<Command> {
    let bound = |random: &mut Random| random.chance(60).then(|| f64::from(random.heat()));
    let mut all = Vec::new();
    for number in 0..12_u8 {
        let filter = TriggerFilter {
            heat_below: bound(random).map(storage::model::score::rounded),
            heat_above: bound(random).map(storage::model::score::rounded),
            ..TriggerFilter::default()
        };
        let trigger = Trigger {
            number: 0,
            name: String::new(),
            description: String::new(),
            event: random.pick(&[TriggerEvent::Decay, TriggerEvent::Threshold]),
            action: TriggerAction::Notify { template: Some("x".into()) },
            namespace: None,
            filter,
            max_fires: None,
            cooldown_seconds: 0,
            enabled: number != 3,
            owner: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        };
        all.push(command(Action::CreateTrigger(TriggerId([number; 16]), Box::new(trigger))));
    }
    all
}

/// The firings of the next tick, by a scan of every memory.
fn expected(engine: &Engine) -> BTreeSet<(TriggerId, MemoryId)> {
    let last = engine.reader.tick(TENANT).unwrap().unwrap();
    let next = last.next(engine.reader.position().clock, &engine.reader.thermo(TENANT));
    let mut fires = BTreeSet::new();
    for id in engine.reader.ids(TENANT, &Filter::default()) {
        let found = engine.reader.get(TENANT, id).unwrap().unwrap();
        let Some(transition) = next.transition(&found.memory, &found.anchor) else { continue };
        let label = FoldedText::new(&found.memory.label);
        let subject = Subject {
            memory: &found.memory,
            label: &label,
            heat: found.heat,
            transition: Some(transition),
        };
        for (compiled, _) in engine.reader.triggers(TENANT) {
            let CompiledTrigger { id: trigger_id, trigger, .. } = &*compiled;
            if trigger.matches(trigger.event, &subject, None).is_ok() {
                fires.insert((*trigger_id, id));
            }
        }
    }
    fires
}

fn fired_after(engine: &Engine, after: Cursor) -> Vec<(TriggerId, MemoryId)> {
    let is_firing = |event: &Event| Ok(matches!(event.kind, EventKind::TriggerFired(_)));
    let found = engine.reader.journal_after(TENANT, after, 100_000, is_firing).unwrap();
    let fired = found.events.iter();
    fired.map(|(_, event)| (event.kind.trigger().unwrap(), event.subject.unwrap())).collect()
}

fn run(seed: u64) -> usize {
    let mut random = Random(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut engine = Engine::open(folder.path(), Options::default());
    let (mut world, mut now, mut total) = (World::default(), 0, 0);
    let apply = |engine: &mut Engine, now: &mut i64, commands: &[Command]| {
        *now += 1;
        let (decisions, batch) = engine.decide(Timestamp(*now), commands);
        assert_eq!(engine.apply(&batch), ApplyOutcome::Done);
        decisions
    };
    apply(&mut engine, &mut now, &[bootstrap(DIMENSION)]);
    apply(&mut engine, &mut now, &triggers(&mut random));
    for _ in 0..25 {
        for _ in 0..1 + random.below(6) {
            now += random.below(DAY as usize) as i64;
            let commands: Vec<_> = (0..8).map(|_| world.command(&mut random)).collect();
            // Complete ticks run below, at their time.
            let is_tick = |command: &Command| matches!(command.action, Action::AdvanceTick);
            let commands: Vec<_> = commands.into_iter().filter(|next| !is_tick(next)).collect();
            for next in &commands {
                world.expect(next, Timestamp(now));
            }
            apply(&mut engine, &mut now, &commands);
        }
        if random.chance(20) {
            let threshold = SettingValue::Number(0.05 + random.below(30) as f64 / 100.0);
            let change = ("consolidation.cold_threshold".to_owned(), threshold);
            apply(&mut engine, &mut now, &[command(Action::UpdateSettings(vec![change]))]);
        }
        now += 60 * Timestamp::SECOND_MICROS;
        apply(&mut engine, &mut now, &[Command::background(Action::AdvanceClock)]);
        let (expected, before) = (expected(&engine), engine.reader.position().index);
        while apply(&mut engine, &mut now, &[command(Action::AdvanceTick)]) == [Ok(Reply::Partial)]
        {
        }
        let fired = fired_after(&engine, Cursor::after(before));
        let once: BTreeSet<_> = fired.iter().copied().collect();
        assert_eq!(once, expected, "seed {seed}");
        assert_eq!(fired.len(), expected.len(), "seed {seed}: each fires once");
        total += expected.len();
    }
    total
}

#[test]
fn ticks_fire_each_crossing_once() {
    let seeds = std::env::var("HEARTH_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let fired: usize = (0..seeds).map(run).sum();
    assert!(fired > 500, "{fired} firings are too few");
}
