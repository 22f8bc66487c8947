//! The journal returns the same events forward and backward, reports trimmed ranges, and filters
//! the events of triggers. The outbox keeps its bounds.

use storage::model::analytics::{ReturnedMemory, Usage};
use storage::model::id::KeyId;
use storage::model::tenant::Role;

use storage::ReplayedDeliveries;

use crate::common::*;

struct Fixture {
    engine: Engine,
    now: i64,
    stored: u64,
}

impl Fixture {
    /// A cluster with a webhook trigger that fires for each label with the given word.
    fn new(word: &str) -> Self {
        let engine = Engine::bootstrapped(DIMENSION, Options::default());
        let mut fixture = Self { engine, now: 0, stored: 0 };
        let url = "https://hooks.example/".to_owned();
        let webhook = TriggerAction::Webhook { url, secret: None, retiring: None };
        let filter = TriggerFilter { label_pattern: Some(word.into()), ..TriggerFilter::default() };
        let trigger = Trigger { filter, ..trigger(TriggerEvent::Store, webhook) };
        fixture.apply(create_trigger(TriggerId([1; 16]), trigger));
        fixture
    }

    fn apply(&mut self, command: Command) {
        self.now += 1;
        self.engine.run(self.now, &[command]);
    }

    fn store(&mut self, label: &str) {
        self.stored += 1;
        self.apply(create(new_memory(memory_id(self.stored), label)));
    }

    fn after(&self, after: Cursor, limit: usize) -> storage::EventsAfter {
        self.engine.reader.journal_after(TENANT, after, limit, |_| Ok(true)).unwrap()
    }

    /// All events, earliest first, by a backward read.
    fn all(&self) -> Vec<(Cursor, Event)> {
        let page = self.engine.reader.journal(TENANT, None, 1_000, |_| Ok(true)).unwrap();
        page.events.into_iter().rev().collect()
    }
}

#[test]
fn last_event_survives_a_restart() {
    let mut fixture = Fixture::new("fox");
    fixture.store("red fox");
    let before = fixture.engine.reader.last_event(TENANT);
    assert!(before > 0);
    let engine = fixture.engine.reopened(Options::default());
    assert_eq!(engine.reader.last_event(TENANT), before);
}

#[test]
fn forward_and_backward_reads_are_equal() {
    let mut fixture = Fixture::new("fox");
    for number in 0..30 {
        fixture.store(if number % 3 == 0 { "red fox" } else { "blue sea" });
    }
    let all = fixture.all();
    assert_eq!(all.len(), 40);
    for limit in [1, 7, 40, 100] {
        let (mut read, mut cursor) = (Vec::new(), Cursor::default());
        loop {
            let found = fixture.after(cursor, limit);
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
    // A cursor in the middle of an entry: the entry with a creation and its firing.
    let (first, second) = (all[0].0, all[1].0);
    assert_eq!(first.index, second.index);
    assert_eq!(fixture.after(first, 1).events[0].0, second);
    assert_eq!(fixture.engine.reader.last_event(TENANT), all.last().unwrap().0.index);
    let fired = fixture.engine.reader.trigger_journal(TENANT, None, 100, |_| Ok(true)).unwrap();
    let expected: Vec<_> = all.iter().rev().filter(|event| is_firing(event)).cloned().collect();
    assert_eq!(fired.events, expected);
    let page = fixture.engine.reader.trigger_journal(TENANT, None, 4, |_| Ok(true)).unwrap();
    let rest = fixture.engine.reader.trigger_journal(TENANT, page.next, 100, |_| Ok(true)).unwrap();
    assert_eq!([page.events, rest.events].concat(), fired.events);
}

/// One entry has a creation and its firing, which are in different parts of the journal.
#[test]
fn following_reader_misses_no_event() {
    const ENTRIES: usize = 3_000;
    let mut fixture = Fixture::new("fox");
    let reader = fixture.engine.reader.clone();
    let mut reached = fixture.after(Cursor::default(), 1_000).reached;
    let followed = std::thread::spawn(move || {
        let mut events = Vec::new();
        while events.last().is_none_or(|(cursor, _): &(Cursor, bool)| {
            cursor.index < reader.position().index || events.len() < 2 * ENTRIES
        }) {
            let position = reader.position().index;
            let after = reader.journal_after(TENANT, reached, 1_000, |_| Ok(true)).unwrap();
            events.extend(after.events.iter().map(|event| (event.0, is_firing(event))));
            reached = after.reached;
            // With a missed event, the number would never be reached.
            if position > ENTRIES as u64 && after.events.is_empty() {
                break;
            }
        }
        events
    });
    (0..ENTRIES).for_each(|_| fixture.store("red fox"));
    let events = followed.join().unwrap();
    assert!(events.is_sorted(), "in the order of their cursors");
    assert_eq!(events.iter().filter(|(_, fired)| *fired).count(), ENTRIES);
    assert_eq!(events.len(), 2 * ENTRIES);
}

#[test]
fn trimmed_range_is_reported_as_gap() {
    let mut fixture = Fixture::new("fox");
    for _ in 0..10 {
        fixture.store("red fox");
    }
    let all = fixture.all();
    // The trim ends in the middle of an entry. Firings are no part of it: streams do not have those
    // before the trim, the history does.
    let first = all[9].0;
    let (_, mut batch) = fixture.engine.decide(fixture.now + 1, &[]);
    batch.changes.push(Change::EventsTrimmed(TENANT, JournalPart::Others, first));
    assert_eq!(fixture.engine.apply(&batch), ApplyOutcome::Done);
    assert_eq!(fixture.after(all[3].0, 100).gap, Some(first));
    assert_eq!(fixture.after(Cursor::default(), 0).gap, Some(first));
    let found = fixture.after(first.previous(), 100);
    assert_eq!((found.gap, found.events), (None, all[9..].to_vec()));
    let gap = fixture.after(all[8].0, 100).gap;
    assert!(gap.is_none(), "no event is missing after the one before the trim");
    let fired = fixture.engine.reader.trigger_journal(TENANT, None, 100, |_| Ok(true)).unwrap();
    assert_eq!(fired.events.len(), all.iter().filter(|event| is_firing(event)).count());
    let (_, mut batch) = fixture.engine.decide(fixture.now + 2, &[]);
    batch.changes.push(Change::EventsTrimmed(TENANT, JournalPart::Triggers, first));
    assert_eq!(fixture.engine.apply(&batch), ApplyOutcome::Done);
    let fired = fixture.engine.reader.trigger_journal(TENANT, None, 100, |_| Ok(true)).unwrap();
    assert_eq!(fired.events.len(), all[9..].iter().filter(|event| is_firing(event)).count());
}

/// Attempts of deliveries that failed for the last time.
fn dead_letters(deliveries: &[DeliveryId]) -> Command {
    let outcome = AttemptOutcome::Failed { reason: "500".into(), retry_in_micros: None };
    let failed =
        deliveries.iter().map(|id| Attempt { id: *id, number: 1, outcome: outcome.clone() });
    command(RecordAttempts(failed.collect()))
}

#[test]
fn long_dead_letters_are_replayed_in_steps() {
    let mut fixture = Fixture::new("fox");
    (0..180).for_each(|_| fixture.store(&format!("fox {}", "x".repeat(20_000))));
    let reader = fixture.engine.reader.clone();
    let due = reader.due(TENANT, Timestamp(fixture.now), 180).unwrap();
    for chunk in due.chunks(20) {
        fixture.apply(dead_letters(chunk));
    }
    let (mut after, mut replayed, mut commands) = (None, 0, 0);
    loop {
        fixture.now += 1;
        let replay = command(ReplayDeliveries(after));
        let replies = fixture.engine.run(fixture.now, &[replay]);
        let [Reply::ReplayedDeliveries(ReplayedDeliveries { count, next, .. })] = replies[..]
        else {
            panic!("{replies:?}");
        };
        (after, replayed, commands) = (next, replayed + count, commands + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(replayed, 180);
    assert!(commands > 5, "{commands} commands");
}

#[test]
fn outbox_keeps_its_bounds() {
    let mut fixture = Fixture::new("fox");
    // One trigger has half of the pending deliveries.
    let max = PENDING_MAX / 2;
    for _ in 0..max + 3 {
        fixture.store("fox");
    }
    let reader = fixture.engine.reader.clone();
    let outbox = reader.outbox(TENANT).unwrap();
    assert_eq!((outbox.pending, outbox.dead_letters, outbox.dropped), (max, 0, 3));
    let last = reader.trigger_journal(TENANT, None, 4, |_| Ok(true)).unwrap().events;
    let results: Vec<_> = last.into_iter().map(|(_, event)| firing_result(event)).collect();
    assert_eq!(results[..3], [FiringResult::Dropped, FiringResult::Dropped, FiringResult::Dropped]);
    assert!(matches!(results[3], FiringResult::Enqueued(_)));
    // All deliveries are dead-lettered. Then there are three more than the bound.
    let mut oldest = None;
    for round in 1..=3 {
        let due = reader.due(TENANT, Timestamp(fixture.now), PENDING_MAX as usize).unwrap();
        oldest = oldest.or(due.first().copied());
        for chunk in due.chunks(250) {
            fixture.apply(dead_letters(chunk));
        }
        let outbox = reader.outbox(TENANT).unwrap();
        assert_eq!(outbox.dead_letters, (round * max).min(DEAD_LETTERS_MAX));
        for _ in 0..if round == 1 { max } else { 3 } {
            fixture.store("fox");
        }
    }
    let oldest = oldest.unwrap();
    assert!(reader.delivery(TENANT, oldest).unwrap().is_none(), "the oldest was removed");
    // A replay makes them pending again, as many as one command may.
    let (mut next, mut commands) = (None, 0);
    loop {
        fixture.now += 1;
        let replay = command(ReplayDeliveries(next));
        let decisions = fixture.engine.submit(fixture.now, &[replay]);
        let [Ok(Reply::ReplayedDeliveries(ReplayedDeliveries { count, next: last, is_limited }))] =
            decisions[..]
        else {
            panic!("{decisions:?}");
        };
        commands += 1;
        assert!(count <= 500 && is_limited == (10..=20).contains(&commands), "{commands}: {count}");
        next = last;
        if next.is_none() {
            break;
        }
    }
    // All were examined, and half of the pending deliveries are of this trigger.
    assert_eq!(commands, DEAD_LETTERS_MAX / 500 + 1);
    assert_eq!(reader.outbox(TENANT).unwrap().pending, max);
}

#[test]
fn one_key_has_half_of_the_triggers() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let create = |at: usize, key: u8| {
        let id = TriggerId((at as u128).to_be_bytes());
        let create = create_trigger(id, trigger(TriggerEvent::Store, TriggerAction::Pin));
        Command { actor: Some(KeyId([key; 8])), ..create }
    };
    let another = CreateKey { id: KeyId([1; 8]), key: api_key("another", Role::Agent) };
    engine.run(0, &[command(another)]);
    let most: Vec<_> = (0..KEY_TRIGGERS_MAX).map(|at| create(at, 0)).collect();
    for (now, commands) in most.chunks(250).enumerate() {
        engine.run(now as i64, commands);
    }
    let more = [create(KEY_TRIGGERS_MAX, 0), create(KEY_TRIGGERS_MAX + 1, 1)];
    let decisions = engine.submit(1_000, &more);
    assert!(matches!(&decisions[0], Err(Rejection::TooMany { .. })), "{decisions:?}");
    assert!(matches!(&decisions[1], Ok(Reply::Trigger(..))), "{decisions:?}");
}

#[test]
fn one_key_has_few_triggers_on_recall() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let create = |at: usize, event| {
        let create = create_trigger(
            TriggerId((at as u128).to_be_bytes()),
            trigger(event, TriggerAction::Pin),
        );
        Command { actor: Some(KeyId([0; 8])), ..create }
    };
    let most: Vec<_> =
        (0..KEY_RECALL_TRIGGERS_MAX).map(|at| create(at, TriggerEvent::Recall)).collect();
    engine.run(1, &most);
    let next = KEY_RECALL_TRIGGERS_MAX;
    let more = [create(next, TriggerEvent::Recall), create(next, TriggerEvent::Store)];
    let decisions = engine.submit(2, &more);
    assert!(matches!(&decisions[0], Err(Rejection::TooMany { .. })), "{decisions:?}");
    assert!(matches!(&decisions[1], Ok(Reply::Trigger(..))), "{decisions:?}");
}

/// Long messages of one owner leave room in a report for the firings of others.
#[test]
fn owners_divide_the_firings_of_a_report() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let [verbose, terse] = [KeyId([1; 8]), KeyId([2; 8])];
    let on_recall = |owner: KeyId, at: u8, message: &str| {
        let notify = TriggerAction::Notify(Some(message.into()));
        let create = create_trigger(TriggerId([at; 16]), trigger(TriggerEvent::Recall, notify));
        Command { actor: Some(owner), ..create }
    };
    let key = |id| command(CreateKey { id, key: api_key("agent", Role::Agent) });
    let mut commands = vec![key(verbose), key(terse)];
    commands.extend((1..=20_u8).map(|at| on_recall(verbose, at, &"{label}".repeat(500))));
    commands.push(on_recall(terse, 21, "{label}"));
    commands.push(create(new_memory(memory_id(1_u8), &"words ".repeat(100))));
    engine.run(1, &commands);
    let of = |owner, times| ReturnedMemory { owner: Some(owner), id: memory_id(1_u8), times };
    let returned = vec![of(verbose, 30), of(terse, 30)];
    engine.run(2, &[report_returned(1, 1, Usage::default(), Vec::new(), returned)]);
    let fired = |at| engine.reader.firings(TENANT, TriggerId([at; 16])).total;
    assert_eq!(fired(21), 30);
    let of_verbose: u64 = (1..=20).map(fired).sum();
    assert!((1..40).contains(&of_verbose), "what is left of the bytes: {of_verbose} firings");
}

fn is_firing((_, event): &(Cursor, Event)) -> bool {
    matches!(event.kind, EventKind::TriggerFired(_))
}

fn firing_result(event: Event) -> FiringResult {
    match event.kind {
        EventKind::TriggerFired(fired) => fired.result,
        other => panic!("not a firing: {other:?}"),
    }
}
