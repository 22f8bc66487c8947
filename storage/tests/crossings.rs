//! Ticks fire on_decay and on_threshold exactly for the memories that a scan of all memories
//! finds, once. Random commands run between the ticks. HEARTH_SEEDS sets the number of runs.

use std::collections::BTreeSet;

use storage::model::score::rounded;
use storage::model::trigger_match::Subject;

use crate::common::world::{Random, World};
use crate::common::*;

const DAY: i64 = Timestamp::DAY_MICROS;

/// Triggers with random bounds. Bounds and heats are hundredths, so some are equal.
fn triggers(random: &mut Random) -> Vec<Command> {
    let bound = |random: &mut Random| random.chance(60).then(|| rounded(random.heat().into()));
    let mut all = Vec::new();
    for number in 0..12_u8 {
        let filter = TriggerFilter {
            heat_below: bound(random),
            heat_above: bound(random),
            ..TriggerFilter::default()
        };
        let event = random.pick(&[TriggerEvent::Decay, TriggerEvent::Threshold]);
        let any = trigger(event, TriggerAction::Notify(Some("x".into())));
        let trigger = Trigger { filter, enabled: number != 3, ..any };
        all.push(create_trigger(TriggerId([number; 16]), trigger));
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
        let subject = Subject::new(found);
        for (compiled, _) in engine.reader.triggers(TENANT) {
            let CompiledTrigger { id: trigger_id, trigger, .. } = &*compiled;
            if trigger.matches(trigger.event, Some(transition), &subject, None).is_ok() {
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
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let (mut world, mut now, mut total) = (World::default(), 0, 0);
    let apply = |engine: &mut Engine, now: &mut i64, commands: &[Command]| {
        *now += 1;
        engine.submit(*now, commands)
    };
    apply(&mut engine, &mut now, &triggers(&mut random));
    for _ in 0..25 {
        for _ in 0..1 + random.below(6) {
            now += random.below(DAY as usize) as i64;
            let mut commands: Vec<_> = (0..8).map(|_| world.command(&mut random)).collect();
            // Complete ticks run below, at their time.
            commands.retain(|next| *next != command(AdvanceTick(None)));
            for next in &commands {
                world.expect(next, Timestamp(now));
            }
            apply(&mut engine, &mut now, &commands);
        }
        if random.chance(20) {
            let threshold = 0.05 + random.below(30) as f64 / 100.0;
            let change = configure("consolidation.cold_threshold", threshold);
            apply(&mut engine, &mut now, &[change]);
        }
        now += 60 * Timestamp::SECOND_MICROS;
        apply(&mut engine, &mut now, &[Command::of_cluster(AdvanceClock)]);
        let (expected, before) = (expected(&engine), engine.reader.position().index);
        while apply(&mut engine, &mut now, &[command(AdvanceTick(None))])
            == [Ok(Reply::Progress(Progress::Partial))]
        {}
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
    let fired: usize = (0..setting("HEARTH_SEEDS", 12)).map(run).sum();
    assert!(fired > 500, "{fired} firings are too few");
}
