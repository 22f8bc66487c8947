//! The journal is read forward and backward to the same events, tells what was trimmed, and finds
//! what triggers did among everything else; the outbox keeps its bound.

#![expect(clippy::unwrap_used, reason = "a test says what must hold by unwrapping")]

mod common;

use common::{DIMENSION, Engine, TENANT, command, form, new_memory};
use storage::model::delivery::{Attempt, AttemptOutcome, DEAD_LETTERS_MAX, PENDING_MAX};
use storage::model::id::{MemoryId, Timestamp, TriggerId};
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::trigger::{Trigger, TriggerAction, TriggerEvent, TriggerFilter};
use storage::{Action, ApplyOutcome, Batch, Change, Command, Options, View};

struct World {
    engine: Engine,
    now: i64,
    stored: u64,
    _folder: tempfile::TempDir,
}

impl World {
    /// A cluster with a trigger that owes a delivery for each memory whose label holds a word.
    fn new(word: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::open(folder.path(), Options::default());
        let mut world = Self { engine, now: 0, stored: 0, _folder: folder };
        world.apply(&[form(DIMENSION)]);
        let url = "https://hooks.example/".to_owned();
        let trigger = Trigger {
            number: 0,
            name: "t".into(),
            description: String::new(),
            event: TriggerEvent::Store,
            action: TriggerAction::Webhook { url, secret: None, retiring: None },
            namespace: None,
            filter: TriggerFilter { label_pattern: Some(word.into()), ..TriggerFilter::default() },
            max_fires: None,
            cooldown_seconds: 0,
            enabled: true,
            owner: None,
            created_at: Timestamp(0),
            updated_at: Timestamp(0),
        };
        world.apply(&[command(Action::CreateTrigger(TriggerId([1; 16]), Box::new(trigger)))]);
        world
    }

    fn apply(&mut self, commands: &[Command]) {
        self.apply_with(commands, |_| {});
    }

    fn apply_with(&mut self, commands: &[Command], change: impl FnOnce(&mut Batch)) {
        self.now += 1;
        let (decisions, mut batch) = self.engine.decide(Timestamp(self.now), commands);
        assert!(decisions.iter().all(Result::is_ok), "{decisions:?}");
        change(&mut batch);
        assert_eq!(self.engine.apply(&batch), ApplyOutcome::Done);
    }

    fn store(&mut self, label: &str) {
        self.stored += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.stored.to_be_bytes());
        self.apply(&[command(Action::CreateMemories(vec![new_memory(MemoryId(id), label)]))]);
    }

    fn after(&self, after: Cursor, limit: usize) -> storage::EventsAfter {
        self.engine.reader.journal_after(TENANT, after, limit, |_| Ok(true)).unwrap()
    }

    fn backward(&self) -> Vec<(Cursor, Event)> {
        self.engine.reader.journal(TENANT, None, 1_000, |_| Ok(true)).unwrap().events
    }
}

#[test]
fn what_is_read_forward_in_parts_is_what_is_read_backward() {
    let mut world = World::new("fox");
    for number in 0..30 {
        world.store(if number % 3 == 0 { "red fox" } else { "blue sea" });
    }
    let mut all = world.backward();
    all.reverse();
    assert_eq!(all.len(), 40);
    for limit in [1, 7, 40, 100] {
        let (mut read, mut cursor) = (Vec::new(), Cursor::default());
        loop {
            let found = world.after(cursor, limit);
            assert!(found.gap.is_none() && found.events.len() <= limit);
            cursor = found.reached;
            read.extend(found.events);
            if !found.more {
                break;
            }
        }
        assert_eq!(read, all, "{limit} at a time");
        assert_eq!(cursor, Cursor::after(all.last().unwrap().0.index));
    }
    // In the middle of an entry as well: the one that stored a memory and fired.
    let (first, second) = (all[0].0, all[1].0);
    assert_eq!(first.index, second.index);
    assert_eq!(world.after(first, 1).events[0].0, second);
    assert_eq!(world.engine.reader.last_event(TENANT), all.last().unwrap().0.index);
    let fired = world.engine.reader.trigger_journal(TENANT, None, 100, |_| true).unwrap();
    let expected = all.iter().rev().filter(|(_, event)| event.kind == EventKind::Fired).cloned();
    assert_eq!(fired.events, expected.collect::<Vec<_>>());
    let page = world.engine.reader.trigger_journal(TENANT, None, 4, |_| true).unwrap();
    let rest = world.engine.reader.trigger_journal(TENANT, page.next, 100, |_| true).unwrap();
    assert_eq!([page.events, rest.events].concat(), fired.events);
}

#[test]
fn a_reader_of_what_was_trimmed_is_told_so_and_where_to_begin() {
    let mut world = World::new("fox");
    for _ in 0..10 {
        world.store("red fox");
    }
    let mut all = world.backward();
    all.reverse();
    // In the middle of an entry: its firing stays.
    let first = all[9].0;
    let trim = Change::EventsTrimmed(TENANT, first);
    world
        .apply_with(&[Command::background(Action::AdvanceClock)], |batch| batch.changes.push(trim));
    assert_eq!(world.after(all[3].0, 100).gap, Some(first));
    assert_eq!(world.after(Cursor::default(), 0).gap, Some(first));
    let found = world.after(first.previous(), 100);
    assert_eq!((found.gap, found.events), (None, all[9..].to_vec()));
    assert!(world.after(all[8].0, 100).gap.is_none(), "nothing is missing after the one before");
    let fired = world.engine.reader.trigger_journal(TENANT, None, 100, |_| true).unwrap();
    assert_eq!(
        fired.events.len(),
        all[9..].iter().filter(|(_, e)| e.kind == EventKind::Fired).count()
    );
}

#[test]
fn more_than_may_be_pending_is_dropped_and_told_and_old_dead_letters_go() {
    let mut world = World::new("fox");
    for _ in 0..PENDING_MAX + 3 {
        world.store("fox");
    }
    let reader = world.engine.reader.clone();
    let outbox = reader.outbox(TENANT).unwrap();
    assert_eq!((outbox.pending, outbox.dead_letters, outbox.dropped), (PENDING_MAX, 0, 3));
    let last = reader.trigger_journal(TENANT, None, 4, |_| true).unwrap().events;
    let results: Vec<_> = last.iter().map(|(_, event)| event.details[5].as_str()).collect();
    assert_eq!(results[..3], ["dropped"; 3]);
    assert!(results[3].starts_with("msg_"));
    // All are given up; then three more than are kept.
    let mut oldest = None;
    for _ in 0..2 {
        let due = reader.due(TENANT, Timestamp(world.now), PENDING_MAX as usize).unwrap();
        oldest = oldest.or(due.first().copied());
        for some in due.chunks(250) {
            let attempt = |id: &_| Attempt {
                id: *id,
                number: 1,
                outcome: AttemptOutcome::Failed { reason: "500".into(), retry_in_micros: None },
            };
            world.apply(&[command(Action::RecordAttempts(some.iter().map(attempt).collect()))]);
        }
        assert_eq!(reader.outbox(TENANT).unwrap().dead_letters, DEAD_LETTERS_MAX);
        for _ in 0..3 {
            world.store("fox");
        }
    }
    let oldest = oldest.unwrap();
    assert!(reader.delivery(TENANT, oldest).unwrap().is_none(), "the oldest went");
    // Replayed, they are pending again, as many as may be.
    world.apply(&[command(Action::ReplayDeliveries(None))]);
    let outbox = reader.outbox(TENANT).unwrap();
    assert_eq!((outbox.pending, outbox.dead_letters), (503, DEAD_LETTERS_MAX - 500));
}
