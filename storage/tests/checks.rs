//! What commands check before they have an effect: access, locks, versions, sizes, keys; and what they keep of a
//! memory that they replace.

use std::time::Duration;

use storage::model::access::Policy;
use storage::model::analytics::Usage;
use storage::model::api_key::{EXPIRED_KEPT_SECONDS, NewApiKey};
use storage::model::duplicate::OnDuplicate;
use storage::model::edge::Edge;
use storage::model::guard::{Detection, GuardAction, GuardMark, GuardRule};
use storage::model::receipt::ReceiptRequest;
use storage::model::tenant::{Limits, Role};
use storage::model::times::{Times, TimesPatch};
use storage::{Draft, Etag, OwnTenantPatch, Precondition, Touched, TraceScope, Traces};

use crate::common::*;

const SECOND: i64 = Timestamp::SECOND_MICROS;

/// A command of the key with this number. That of the admin is 0.
fn of_key(key: u8, action: impl Into<TenantAction>) -> Command {
    Command { actor: Some(KeyId([key; 8])), ..command(action) }
}

fn update(id: MemoryId, patch: MemoryPatch) -> UpdateMemory {
    UpdateMemory { id, patch: patch.into() }
}

fn new_label(label: &str) -> MemoryPatch {
    MemoryPatch { label: Some((label.into(), vector(label))), ..MemoryPatch::default() }
}

/// An engine with the agents 1 and 2.
fn with_agents() -> Engine {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let agents = [1, 2].map(|number: u8| CreateKey {
        id: KeyId([number; 8]),
        key: api_key(&format!("agent {number}"), Role::Agent),
    });
    engine.run(1, &agents.map(command));
    engine
}

fn memory_of(engine: &Engine, id: MemoryId) -> Memory {
    engine.reader.get(TENANT, id).unwrap().unwrap().memory
}

#[test]
fn denied_namespace_takes_no_memories() {
    let mut engine = with_agents();
    let (agent, namespace) = ("agent 1".to_owned(), "closed".to_owned());
    let policy = Some(Policy::Deny);
    engine.run(2, &[command(PutRule { agent, namespace: namespace.clone(), policy })]);
    let new = NewMemory { namespace: namespace.clone(), ..new_memory(memory_id(1_u8), "x") };
    let create = CreateMemories(vec![new]);
    let denied = Err(Rejection::NamespaceForbidden(namespace));
    assert_eq!(engine.submit(3, &[of_key(1, create.clone())]), [denied]);
    engine.run(4, &[of_key(2, create)]);
}

#[test]
fn key_rewrites_what_no_other_has_locked() {
    let mut engine = with_agents();
    let guards_locked = OwnTenantPatch { guards_locked: Some(true), ..Default::default() };
    engine.run(2, &[command(ChangeTenant(guards_locked))]);
    let id = memory_id(1_u8);
    engine.run(3, &[create(new_memory(id, "x"))]);
    let lock = MemoryPatch { is_locked: Some(true), ..MemoryPatch::default() };
    engine.run(4, &[of_key(2, update(id, new_label("y"))), of_key(1, update(id, lock))]);
    let rewrites = [2, 1, 0].map(|key| of_key(key, update(id, new_label("z"))));
    let decisions = engine.submit(5, &rewrites);
    assert_eq!(decisions[0], Err(Rejection::LockedByOther));
    assert!(decisions[1].is_ok() && decisions[2].is_ok(), "{decisions:?}");
}

#[test]
fn settings_change_in_the_version_required() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let tag = Etag::of(&engine.reader.tenant(TENANT).unwrap().unwrap());
    let configure = |number| Command {
        condition: Some(Precondition::HasOne(vec![tag])),
        ..configure("recall.heat_weight", number)
    };
    assert!(engine.submit(2, &[configure(0.25)])[0].is_ok());
    assert_eq!(engine.submit(3, &[configure(0.5)]), [Err(Rejection::ConditionFailed)]);
}

#[test]
fn command_of_the_largest_size_is_done() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let many = |from: u16, count: u16| {
        let label = "x".repeat(LABEL_BYTES_MAX);
        let new = |number| new_memory(memory_id(number), &label);
        command(CreateMemories((from..from + count).map(new).collect()))
    };
    assert!(engine.submit(2, &[many(0, 30)])[0].is_ok());
    let decision = &engine.submit(3, &[many(100, 35)])[0];
    assert!(matches!(decision, Err(Rejection::TooLarge(_))), "{:?}", decision.as_ref().err());
    assert_eq!(engine.reader.counts(TENANT).memories, 30);
}

#[test]
fn rejected_command_leaves_nothing_to_log() {
    let engine = Engine::bootstrapped(DIMENSION, Options::default());
    let mut draft = Draft::new(&engine.reader, Timestamp(2));
    assert!(draft.is_empty());
    let delete = |draft: &mut Draft| {
        let delete = DeleteMemory { id: memory_id(1_u8), rejects: None };
        storage::decide(draft, &command(delete)).is_err()
    };
    assert!(delete(&mut draft) && draft.is_empty());
    storage::decide(&mut draft, &create(new_memory(memory_id(2_u8), "x"))).unwrap();
    assert!(delete(&mut draft) && !draft.is_empty());
}

#[test]
fn known_id_is_replaced_by_its_client_only() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let id = memory_id(1_u8);
    let external = |external: Option<&str>, label| NewMemory {
        external_id: external.map(str::to_owned),
        key_points: vec![format!("point of {label}")],
        ..new_memory(id, label)
    };
    engine.run(2, &[create(external(Some("note 1"), "x"))]);
    for other in [None, Some("note 2")] {
        assert_eq!(engine.submit(3, &[create(external(other, "y"))]), [Err(Rejection::IdTaken)]);
    }
    engine.run(4, &[create(external(Some("note 1"), "z"))]);
    let memory = memory_of(&engine, id);
    assert_eq!((&*memory.label, &memory.key_points[..]), ("z", &["point of z".to_owned()][..]));
    engine.run(5, &[create(new_memory(memory_id(2_u8), "without"))]);
    let again = create(new_memory(memory_id(2_u8), "again"));
    assert_eq!(engine.submit(6, &[again]), [Err(Rejection::IdTaken)]);
}

#[test]
fn duplicate_in_a_batch_has_its_place() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let present = memory_id(1_u8);
    engine.run(2, &[create(new_memory(present, "a red fox"))]);
    let new = |number: u8, label: &str| NewMemory {
        on_duplicate: Some(OnDuplicate::Reject),
        ..new_memory(memory_id(number), label)
    };
    let batch = vec![new(2, "a blue whale"), new(3, "a red fox")];
    let decisions = engine.submit(
        3,
        &[command(CreateMemories(batch)), command(CreateMemories(vec![new(4, "a red fox")]))],
    );
    assert_eq!(decisions[0], Err(Rejection::Duplicate { present, at: Some(1) }));
    assert_eq!(decisions[1], Err(Rejection::Duplicate { present, at: None }));
}

fn quarantine() -> GuardMark {
    GuardMark::default().with(Detection::Email, GuardAction::Quarantine)
}

#[test]
fn quarantine_merges_what_one_key_repeats() {
    let mut engine = with_agents();
    let waiting = |number: u8, key: u8| {
        let new = NewMemory {
            guard: quarantine(),
            on_duplicate: Some(OnDuplicate::Merge),
            origin: Origin { key: Some(KeyId([key; 8])), ..Origin::default() },
            ..new_memory(memory_id(number), "write to a@example.org")
        };
        of_key(key, CreateMemories(vec![new]))
    };
    engine.run(2, &[waiting(1, 1), waiting(2, 1), waiting(3, 2)]);
    let is_there =
        [1_u8, 2, 3].map(|it| engine.reader.get(TENANT, memory_id(it)).unwrap().is_some());
    assert_eq!(is_there, [true, false, true], "one of each key");
}

#[test]
fn review_covers_the_reviewed_text_only() {
    let mut engine = with_agents();
    let id = memory_id(1_u8);
    let written = |label: &str| {
        let external_id = Some("note".to_owned());
        let new = NewMemory { external_id, guard: quarantine(), ..new_memory(id, label) };
        of_key(1, CreateMemories(vec![new]))
    };
    engine.run(2, &[written("write to a@example.org")]);
    let review = MemoryPatch { is_reviewed: true, ..MemoryPatch::default() };
    assert_eq!(
        engine.submit(3, &[of_key(1, update(id, review.clone()))])[0],
        Err(Rejection::NotFound)
    );
    engine.run(4, &[of_key(0, update(id, review))]);
    engine.run(5, &[written("write to a@example.org")]);
    assert!(memory_of(&engine, id).guard.is_reviewed());
    let other = &engine.submit(6, &[written("write to b@example.org")])[0];
    assert!(matches!(other, Err(Rejection::WrongState(_))), "{other:?}");
    let pin = MemoryPatch { is_pinned: Some(true), ..MemoryPatch::default() };
    engine.run(7, &[of_key(1, update(id, pin))]);
    assert!(memory_of(&engine, id).guard.is_reviewed(), "the text is the same");
    engine.run(8, &[of_key(1, update(id, new_label("another text")))]);
    assert!(!memory_of(&engine, id).guard.is_reviewed());
}

#[test]
fn replacement_without_new_text_keeps_the_review() {
    let mut engine = with_agents();
    let id = memory_id(1_u8);
    let written = |memory_type, guard| {
        let external_id = Some("note".to_owned());
        let new = NewMemory { external_id, memory_type, guard, ..new_memory(id, "x") };
        of_key(1, CreateMemories(vec![new]))
    };
    engine.run(2, &[written(MemoryType::Episodic, quarantine())]);
    let review = MemoryPatch { is_reviewed: true, ..MemoryPatch::default() };
    engine.run(3, &[of_key(0, update(id, review))]);
    engine.run(4, &[written(MemoryType::Fact, GuardMark::default())]);
    let memory = memory_of(&engine, id);
    assert!(memory.guard.is_reviewed() && memory.memory_type == MemoryType::Fact);
    let new = NewMemory { external_id: Some("note".to_owned()), ..new_memory(id, "y") };
    engine.run(5, &[of_key(1, CreateMemories(vec![new]))]);
    let memory = memory_of(&engine, id);
    assert!(!memory.guard.is_reviewed() && !memory.is_flagged, "{memory:?}");
}

#[test]
fn patch_of_times_keeps_what_it_omits() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let id = memory_id(1_u8);
    engine.run(2, &[create(new_memory(id, "x"))]);
    let patch = |times| MemoryPatch { times, ..MemoryPatch::default() };
    let times = TimesPatch { occurred_at: Some(Some(Timestamp(1))), ..TimesPatch::default() };
    engine.run(3, &[command(update(id, patch(times)))]);
    assert_eq!(memory_of(&engine, id).happened_at(), Timestamp(1));
    engine.run(4, &[command(update(id, patch(TimesPatch::default())))]);
    assert_eq!(memory_of(&engine, id).happened_at(), Timestamp(1));
}

#[test]
fn tag_without_room_leaves_the_label() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let tag = TriggerAction::Tag(Some("note".into()));
    engine.run(2, &[create_trigger(TriggerId([1; 16]), trigger(TriggerEvent::Store, tag))]);
    // The tag takes a space, `#` and four letters.
    for (number, bytes, is_tagged) in
        [(1_u8, LABEL_BYTES_MAX - 6, true), (2, LABEL_BYTES_MAX - 5, false)]
    {
        let label = "x".repeat(bytes);
        engine.run(3, &[create(new_memory(memory_id(number), &label))]);
        let found = memory_of(&engine, memory_id(number)).label;
        assert_eq!(found.ends_with(" #note"), is_tagged, "{bytes}");
        assert_eq!(found.len(), if is_tagged { LABEL_BYTES_MAX } else { bytes });
    }
}

#[test]
fn fold_keeps_directions_and_what_was_cold() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let ids = [1_u8, 2, 3, 4].map(memory_id);
    engine.run(2, &ids.map(|id| create(new_memory(id, "a red fox"))));
    let edge = |source, target, relation: &str| {
        command(CreateEdge(EdgeRef { source, target, relation: relation.into() }))
    };
    let [cold, hot, to, from] = ids;
    engine.run(3, &[edge(hot, to, "leads to"), edge(from, hot, "comes from")]);
    let into = memory_id(9_u8);
    engine.run(4, &[command(Supersede { old: cold, by: to })]);
    let folds = vec![cold, hot];
    engine.run(5, &[create(NewMemory { folds, ..new_memory(into, "foxes") })]);
    let edges = engine.reader.edges(TENANT, into).unwrap();
    let has = |source, target, relation: &str| {
        edges
            .iter()
            .any(|it: &Edge| (it.source, it.target, &*it.relation) == (source, target, relation))
    };
    assert!(has(into, to, "leads to") && has(from, into, "comes from"), "{edges:?}");
    engine.run(6, &[command(Unfold(into))]);
    assert_eq!(memory_of(&engine, hot).tier(), Tier::Hot);
    assert_eq!(memory_of(&engine, cold).tier(), Tier::Cold, "another memory supersedes it");
}

#[test]
fn fold_takes_a_bounded_number_of_edges() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let [source, into] = [1_u8, 2].map(memory_id);
    let others = (100..170_u8).map(memory_id);
    engine.run(2, &[create(new_memory(source, "a red fox"))]);
    for target in others {
        engine.run(3, &[create(new_memory(target, "x"))]);
        let relation = "leads to".to_owned();
        engine.run(4, &[command(CreateEdge(EdgeRef { source, target, relation }))]);
    }
    engine.run(5, &[create(NewMemory { folds: vec![source], ..new_memory(into, "foxes") })]);
    let edges = engine.reader.edges(TENANT, into).unwrap();
    assert_eq!(edges.iter().filter(|it| it.relation == "leads to").count(), 64);
}

#[test]
fn repetition_of_an_edge_returns_it() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let (source, target) = (memory_id(1_u8), memory_id(2_u8));
    engine.run(2, &[source, target].map(|id| create(new_memory(id, "x"))));
    let receipt = Some(ReceiptRequest { key: [1; 32], body_hash: [0; 32] });
    let edge = CreateEdge(EdgeRef { source, target, relation: "leads to".into() });
    let relate = Command { receipt, ..of_key(0, edge) };
    let first = engine.run(3, std::slice::from_ref(&relate));
    assert_eq!(engine.run(4, &[relate]), first);
}

#[test]
fn keys_rotate_until_they_end() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let key = |number: u8| {
        let key = NewApiKey { lifetime_seconds: Some(60), ..api_key("worker", Role::Agent) };
        command(CreateKey { id: KeyId([number; 8]), key })
    };
    let rotate = |number: u8| {
        command(RotateKey { id: KeyId([number; 8]), hash: [number; 32], overlap_seconds: 0 })
    };
    engine.run(1, &[key(1)]);
    assert!(engine.submit(30 * SECOND, &[rotate(1)])[0].is_ok());
    let ended = &engine.submit(200 * SECOND, &[rotate(1)])[0];
    assert!(matches!(ended, Err(Rejection::WrongState(_))), "{ended:?}");
    let ends = |number: u8, lifetime_seconds| {
        let key = NewApiKey { lifetime_seconds, ..api_key("admin", Role::Admin) };
        command(CreateKey { id: KeyId([number; 8]), key })
    };
    engine.run(210 * SECOND, &[ends(8, Some(60)), ends(9, None)]);
    let by = |actor, number: u8| Command { actor: Some(KeyId([actor; 8])), ..rotate(number) };
    let outliving = &engine.submit(220 * SECOND, &[by(8, 9)])[0];
    assert!(matches!(outliving, Err(Rejection::WrongState(_))), "{outliving:?}");
    engine.run(230 * SECOND, &[by(8, 8), by(9, 8)]);
    engine.run(240 * SECOND, &[8, 9].map(|number: u8| command(DeleteKey(KeyId([number; 8])))));
    // One that has ended is listed for a while.
    let week = Duration::from_secs(EXPIRED_KEPT_SECONDS);
    let keys = |engine: &Engine| engine.reader.api_keys(TENANT).unwrap().len();
    engine.run(300 * SECOND, &[key(2)]);
    assert_eq!(keys(&engine), 3);
    engine.run(Timestamp(500 * SECOND).plus(week).0, &[key(3)]);
    assert_eq!(keys(&engine), 2, "the admin's, and the new one");
}

#[test]
fn change_needs_the_guard_that_examined_it() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let written = |guard| Command { guard, ..create(new_memory(memory_id(1_u8), "x")) };
    assert_eq!(engine.submit(2, &[written(Some(77))]), [Err(Rejection::GuardChanged)]);
    let decisions = engine.submit(3, &[written(None)]);
    let Ok(Reply::Memories(created)) = &decisions[0] else { panic!("{decisions:?}") };
    assert!(matches!(created.memories[0].now, Touched::Memory(_)));
}

#[test]
fn recalls_are_counted_with_their_warmings() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let (id, day) = (memory_id(1_u8), 86_400 * SECOND);
    engine.run(2, &[create(NewMemory { initial_heat: 0.5, ..new_memory(id, "x") })]);
    for number in 1..=2_u8 {
        let recalled = report(number.into(), 1, Usage::default(), vec![(id, 1)]);
        engine.run(i64::from(number) * day, &[recalled]);
    }
    let stats = engine.reader.recall_stats(TENANT).unwrap().types[MemoryType::Episodic as usize];
    assert_eq!((stats.recalls, stats.warmings), (2, 2));
    assert!(stats.heat_after > stats.heat_before && stats.heat_before > 0.0, "{stats:?}");
}

#[test]
fn purge_leaves_no_receipt_with_the_memory() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let id = memory_id(1_u8);
    let receipt = Some(ReceiptRequest { key: [1; 32], body_hash: [2; 32] });
    let keyed = Command { receipt, ..create(new_memory(id, "x")) };
    engine.run(2, std::slice::from_ref(&keyed));
    engine.run(3, &[command(PurgeMemories(vec![id]))]);
    let scope = TraceScope { ids: [id].into(), ..TraceScope::default() };
    let traces = engine.reader.traces(TENANT, &scope).unwrap();
    assert_eq!(traces.rows.receipts.len(), 1);
    engine.run(4, &[command(RemoveTraces(traces.rows))]);
    assert_eq!(engine.reader.traces(TENANT, &scope).unwrap(), Traces::default());
    assert_eq!(
        engine.submit(5, &[keyed]),
        [Err(Rejection::KeyReused)],
        "and it does not come back"
    );
}

#[test]
fn guard_has_another_version_after_a_change() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let written = |number: u8, guard| Command {
        guard: Some(guard),
        ..create(new_memory(memory_id(number), "x"))
    };
    engine.run(2, &[written(1, 0), command(UpdateGuard(vec![GuardRule::default()]))]);
    assert_eq!(engine.submit(3, &[written(2, 0)]), [Err(Rejection::GuardChanged)]);
    engine.run(4, &[written(2, 1)]);
}

#[test]
fn rules_change_in_the_version_required() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let put = |namespace: &str, condition| {
        let (agent, namespace) = ("*".to_owned(), namespace.to_owned());
        let put = PutRule { agent, namespace, policy: Some(Policy::Deny) };
        Command { condition: Some(condition), ..command(put) }
    };
    let tag = |engine: &Engine| Etag::of(&engine.reader.access_rules(TENANT).unwrap());
    let before = Precondition::HasOne(vec![tag(&engine)]);
    engine.run(2, &[put("a", before.clone())]);
    assert_eq!(engine.submit(3, &[put("b", before)]), [Err(Rejection::ConditionFailed)]);
    // What a command creates under an id of its own is no resource that a client can name.
    let key = CreateKey { id: KeyId([1; 8]), key: api_key("agent", Role::Agent) };
    let absent = Command { condition: Some(Precondition::Absent), ..command(key) };
    assert_eq!(engine.submit(4, &[absent]), [Err(Rejection::ConditionFailed)]);
}

#[test]
fn one_tier_is_that_of_new_tenants() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let put = |name: &str, limits, becomes_default| {
        Command::of_cluster(PutTier { name: name.into(), limits, becomes_default })
    };
    engine.run(2, &[put("small", Some(Limits::new()), true)]);
    let defaults = engine.reader.tenancy().unwrap().tiers.into_iter().filter(|it| it.is_default);
    assert_eq!(defaults.map(|it| it.name).collect::<Vec<_>>(), ["small"]);
    let removed = &engine.submit(3, &[put("small", None, false)])[0];
    assert!(matches!(removed, Err(Rejection::WrongState(_))), "{removed:?}");
}

#[test]
fn memory_ends_at_the_tick_of_its_time() {
    let (id, at) = (memory_id(1_u8), 7_000 * SECOND);
    for (expires_at, is_there) in [(at, false), (at + 1, true)] {
        let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
        let times = Times { expires_at: Some(Timestamp(expires_at)), ..Times::default() };
        engine.run(2, &[create(NewMemory { times, ..new_memory(id, "x") })]);
        // A tick is as of the last batch before it.
        engine.run(at, &[Command::of_cluster(AdvanceClock)]);
        while engine.run(at + 1, &[command(AdvanceTick(None))]) != [Reply::Progress(Progress::Done)]
        {
        }
        let found = engine.reader.get(TENANT, id).unwrap().is_some();
        assert_eq!(found, is_there, "{expires_at}");
    }
}

#[test]
fn owner_changes_where_a_trigger_belongs() {
    let mut engine = with_agents();
    let id = TriggerId([1; 16]);
    let owner = Some(KeyId([1; 8]));
    let created = Trigger { owner, ..trigger(TriggerEvent::Store, TriggerAction::Notify(None)) };
    engine.run(2, &[of_key(1, CreateTrigger { id, trigger: Box::new(created) })]);
    let patch = |key, patch| of_key(key, UpdateTrigger { id, patch: Box::new(patch) });
    let moved = TriggerPatch { namespace: Some(Some("notes".into())), ..Default::default() };
    let Reply::Trigger(reply) = &engine.run(3, &[patch(1, moved)])[0] else { panic!("a trigger") };
    let (now, _) = reply.now.as_ref().unwrap();
    assert_eq!(now.namespace.as_deref(), Some("notes"));
    let action = TriggerAction::Notify(Some("{label}".into()));
    let other = || TriggerPatch { action: Some(action.clone()), ..Default::default() };
    let decisions = engine.submit(4, &[patch(2, other()), patch(1, other()), patch(0, other())]);
    assert_eq!(decisions[0], Err(Rejection::NotOwner));
    assert!(decisions[1].is_ok() && decisions[2].is_ok(), "{decisions:?}");
}
