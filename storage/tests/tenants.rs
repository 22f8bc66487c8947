//! Tenants and their limits: exact within one batch and over several, and a deletion leaves no row.

use storage::model::analytics::{ReturnedMemory, TenantReport};
use storage::model::edge::{SIMILAR_TO, Suggestion};
use storage::model::id::KeyId;
use storage::model::tenant::{Limit, Limits, Role, TenantState};
use storage::{Counts, Options, Rejection, TenantPatch};

use storage::{TenantDeleted, TenantReply};

use crate::common::*;

const OTHER: TenantId = TenantId(2);
/// Of the keys of [`api_key`].
const KEY_HASH: [u8; 32] = [0; 32];

fn update_tenant(id: TenantId, patch: TenantPatch) -> Command {
    Command::of_cluster(UpdateTenant { id, patch })
}

fn limits(limits: &[(Limit, u64)]) -> TenantPatch {
    let own = limits.iter().map(|(limit, max)| (*limit, Some(*max))).collect();
    TenantPatch { limits: Some(own), ..TenantPatch::default() }
}

fn state(state: TenantState) -> TenantPatch {
    TenantPatch { state: Some(state), ..TenantPatch::default() }
}

fn delete_tenant(id: TenantId, name: &str) -> Command {
    Command::of_cluster(DeleteTenant { id, name: name.into() })
}

/// A command of the first key of a tenant.
fn of(tenant: TenantId, action: impl Into<TenantAction>) -> Command {
    let key = if tenant == TENANT { 0 } else { 7 };
    Command { actor: Some(KeyId([key; 8])), ..Command::of_tenant(tenant, action) }
}

fn create_in(tenant: TenantId, number: u32, label: &str) -> Command {
    let action = CreateMemories(vec![new_memory(memory_id(number), label)]);
    of(tenant, action)
}

/// Numbers of the commands that were accepted.
fn accepted(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| decision.is_ok()).count()
}

#[test]
fn limits_are_exact_within_a_batch() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(1, &[update_tenant(TENANT, limits(&[(Limit::Memories, 3)]))]);
    let creates: Vec<_> = (0..5).map(|number| create_in(TENANT, number, "fox")).collect();
    let decisions = engine.submit(2, &creates);
    assert_eq!(accepted(&decisions), 3);
    let full = Rejection::StorageLimitReached { limit: Limit::Memories, max: 3 };
    assert_eq!(decisions[3], Err(full.clone()));
    // A deletion makes room, in the same batch too.
    let delete = of(TENANT, DeleteMemory { id: memory_id(0_u32), rejects: None });
    let decisions = engine.submit(3, &[delete, creates[3].clone(), creates[4].clone()]);
    assert!(decisions[1].is_ok());
    assert_eq!(decisions[2], Err(full));
    // All of a command or none.
    let two = vec![new_memory(memory_id(8_u32), "a"), new_memory(memory_id(9_u32), "b")];
    engine.run(4, &[of(TENANT, DeleteMemory { id: memory_id(1_u32), rejects: None })]);
    assert_eq!(accepted(&engine.submit(5, &[of(TENANT, CreateMemories(two))])), 0);
    assert_eq!(engine.reader.counts(TENANT).memories, 2);
    // A lower limit removes nothing.
    engine.run(6, &[update_tenant(TENANT, limits(&[(Limit::Memories, 1)]))]);
    assert_eq!(engine.reader.counts(TENANT).memories, 2);
    assert_eq!(accepted(&engine.submit(7, &[create_in(TENANT, 10, "late")])), 0);
}

#[test]
fn bytes_of_drafts_and_of_the_index_agree() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let each = 10 + 2 * DIMENSION as u64;
    engine.run(1, &[update_tenant(TENANT, limits(&[(Limit::Bytes, 3 * each)]))]);
    let label = "0123456789";
    let creates: Vec<_> = (0..4).map(|number| create_in(TENANT, number, label)).collect();
    assert_eq!(accepted(&engine.submit(2, &creates)), 3);
    assert_eq!(engine.reader.counts(TENANT).bytes, 3 * each);
    let relabel = |label: &str| {
        let label = Some((label.to_owned(), vector(label)));
        let patch = storage::MemoryPatch { label, ..Default::default() };
        of(TENANT, UpdateMemory { id: memory_id(0_u32), patch: patch.into() })
    };
    assert_eq!(accepted(&engine.submit(3, &[relabel("01234567890")])), 0, "it would grow");
    assert_eq!(accepted(&engine.submit(4, &[relabel("0"), relabel("012")])), 2);
    assert_eq!(engine.reader.counts(TENANT).bytes, 3 * each - 7);
    engine.run(5, &[of(TENANT, DeleteMemory { id: memory_id(1_u32), rejects: None })]);
    assert_eq!(engine.reader.counts(TENANT).bytes, 2 * each - 7);
    let engine = engine.reopened(Options::default());
    assert_eq!(engine.reader.counts(TENANT).bytes, 2 * each - 7, "as rebuilt from the rows");
}

#[test]
fn limits_of_keys_triggers_and_edges_hold() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let limits = limits(&[(Limit::Keys, 2), (Limit::Triggers, 1), (Limit::Edges, 4)]);
    engine.run(1, &[update_tenant(TENANT, limits)]);
    let key = |number| CreateKey { id: KeyId([number; 8]), key: api_key("worker", Role::Agent) };
    assert_eq!(accepted(&engine.submit(2, &[of(TENANT, key(1)), of(TENANT, key(2))])), 1);
    // An operator replaces a lost key.
    assert_eq!(accepted(&engine.submit(3, &[command(key(3)), command(key(4))])), 1);
    let notify = || trigger(TriggerEvent::Store, TriggerAction::Notify(None));
    let triggers = [1, 2].map(|number| create_trigger(TriggerId([number; 16]), notify()));
    assert_eq!(accepted(&engine.submit(4, &triggers)), 1);

    let suggestion = |other| Suggestion { other, relation: SIMILAR_TO.into(), weight: 1.0 };
    let new = |number: u32| {
        let suggestions = (0..number).map(|other| suggestion(memory_id(other))).collect();
        NewMemory { suggestions, ..new_memory(memory_id(number), "fox") }
    };
    // A new memory gets the edges for which there is room, and leaves a quarter for those of callers.
    assert_eq!(accepted(&engine.submit(5, &[0, 1, 2, 3].map(|number| create(new(number))))), 4);
    assert_eq!(engine.reader.counts(TENANT).edges, 3);
    let edge = |relation: &str| {
        let (source, target) = (memory_id(3_u32), memory_id(0_u32));
        command(CreateEdge(EdgeRef { source, target, relation: relation.into() }))
    };
    assert_eq!(accepted(&engine.submit(6, &[edge("one"), edge("two")])), 1);
}

#[test]
fn tier_of_a_new_tenant_is_not_deleted() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let tier = |limits| {
        let (name, becomes_default) = ("small".into(), false);
        Command::of_cluster(PutTier { name, limits, becomes_default })
    };
    let create = create_tenant("other", "small", KeyId([7; 8]));
    let decisions = engine.submit(1, &[tier(Some(Limits::new())), create, tier(None)]);
    assert!(decisions[1].is_ok() && decisions[2].is_err(), "{decisions:?}");
}

#[test]
fn suspended_tenant_rejects_commands_of_keys() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(1, &[create_tenant("other", "free", KeyId([7; 8]))]);
    let suspended = update_tenant(OTHER, state(TenantState::Suspended));
    let decisions = engine.submit(2, &[suspended, create_in(OTHER, 1, "fox")]);
    assert_eq!(decisions[1], Err(Rejection::TenantSuspended));
    assert!(
        !engine.reader.is_usable(KeyId([7; 8]), &KEY_HASH)
            && engine.reader.is_usable(KeyId([0; 8]), &KEY_HASH)
    );
    let engine = engine.reopened(Options::default());
    assert!(!engine.reader.is_usable(KeyId([7; 8]), &KEY_HASH), "after a start");
    let mut engine = engine;
    engine.run(3, &[update_tenant(OTHER, state(TenantState::Active)), create_in(OTHER, 1, "fox")]);
    assert!(engine.reader.is_usable(KeyId([7; 8]), &KEY_HASH));
}

#[test]
fn deleted_tenant_leaves_no_row() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(
        1,
        &[create_tenant("other", "enterprise", KeyId([7; 8])), create_in(TENANT, 1, "own")],
    );
    let before = engine.reader.tenant_rows(TENANT).unwrap();
    let creates: Vec<_> = (0..50).map(|number| create_in(OTHER, number, "fox of other")).collect();
    engine.run(2, &creates);
    let pins = trigger(TriggerEvent::Recall, TriggerAction::Pin);
    let pins = CreateTrigger { id: TriggerId([1; 16]), trigger: Box::new(pins) };
    let pins = Command::of_tenant(OTHER, pins);
    engine.run(3, &[pins]);
    assert!(engine.reader.tenant_rows(OTHER).unwrap() > 150);
    let reject = |engine: &mut Engine, command: Command| {
        assert!(matches!(engine.submit(3, &[command])[0], Err(Rejection::WrongState(_))));
    };
    reject(&mut engine, delete_tenant(OTHER, "other"));
    engine.run(4, &[update_tenant(OTHER, state(TenantState::Suspended))]);
    reject(&mut engine, delete_tenant(OTHER, "another"));
    // What follows in the same batch finds no tenant: no row comes back. Its entries of the audit
    // log are old by then, and a trigger waits for the memories of the report.
    let id = memory_id(1_u32);
    let returned = vec![ReturnedMemory { owner: None, id, times: 1 }];
    let of_other = TenantReport { recalls: vec![(id, 2)], returned, ..TenantReport::empty(OTHER) };
    let tick = Command::of_tenant(OTHER, AdvanceTick(None));
    let commands = [
        delete_tenant(OTHER, "other"),
        create_in(OTHER, 99, "late"),
        tick,
        Command::of_cluster(Expire(TENANT)),
        report_of(1, vec![of_other]),
    ];
    let decisions = engine.submit(401 * Timestamp::DAY_MICROS, &commands);
    let Ok(Reply::TenantDeleted(TenantDeleted(Counts { memories: 50, .. }))) = decisions[0] else {
        panic!("{:?}", decisions[0]);
    };
    assert_eq!(decisions[1], Err(Rejection::NoSuch("tenant".into())));
    assert!(decisions[2].is_err() && decisions[3].is_ok());
    assert_eq!(engine.reader.tenant_rows(OTHER).unwrap(), 0);
    assert_eq!(engine.reader.tenants(), [TENANT]);
    assert_eq!(engine.reader.counts(OTHER), Counts::default());
    assert!(!engine.reader.is_usable(KeyId([7; 8]), &KEY_HASH));
    assert!(engine.reader.tenant_rows(TENANT).unwrap() >= before);
    let mut engine = engine.reopened(Options::default());
    assert_eq!(engine.reader.tenants(), [TENANT]);
    let created = engine.run(6, &[create_tenant("other", "free", KeyId([8; 8]))]);
    assert!(
        matches!(created[0], Reply::Tenant(TenantReply { id: TenantId(3), .. })),
        "no id is used twice"
    );
}

#[test]
fn tiers_limit_their_tenants() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let tier = |name: &str, max: Option<u64>| {
        let limits = max.map(|max| [(Limit::Memories, max)].into());
        Command::of_cluster(PutTier { name: name.into(), limits, becomes_default: false })
    };
    let decisions = engine.submit(1, &[create_tenant("other", "small", KeyId([7; 8]))]);
    assert_eq!(decisions[0], Err(Rejection::NoSuch("tier".into())));
    engine.run(2, &[tier("small", Some(2)), create_tenant("other", "small", KeyId([7; 8]))]);
    let creates: Vec<_> = (0..4).map(|number| create_in(OTHER, number, "fox")).collect();
    assert_eq!(accepted(&engine.submit(3, &creates)), 2);
    assert!(engine.submit(4, &[tier("small", None)])[0].is_err(), "a tenant has it");
    assert_eq!(engine.reader.limit(OTHER, Limit::Memories), Some(2));
    let decisions =
        engine.submit(5, &[tier("small", Some(3)), creates[2].clone(), creates[3].clone()]);
    assert_eq!(accepted(&decisions), 2, "a changed tier holds at once");
    assert_eq!(engine.reader.limit(OTHER, Limit::Memories), Some(3));
    let free = TenantPatch { tier: Some("free".into()), ..TenantPatch::default() };
    engine.run(6, &[update_tenant(OTHER, free), tier("small", None)]);
    assert_eq!(engine.reader.limit(OTHER, Limit::Memories), Some(1_000));
}
