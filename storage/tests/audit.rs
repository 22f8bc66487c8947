//! The audit log: what commands record, chains that verify, and retention that leaves an anchor.

use storage::model::audit::{
    AUDIT_DAYS, AUDIT_ENTRIES_MAX, AuditAction, AuditActor, AuditChain, KeyUse,
};
use storage::model::cluster::{Model, Restored};
use storage::model::id::KeyId;
use storage::model::retention::{RetentionAction, RetentionRule};
use storage::model::tenant::Role;
use storage::{AuditPage, AuditRequest, Options, OwnTenantPatch, TenantPatch};

use crate::common::*;

const ROOT: KeyId = KeyId([0; 8]);
const AGENT: KeyId = KeyId([7; 8]);

fn by(key: KeyId, action: impl Into<TenantAction>) -> Command {
    let source = Some("192.0.2.7".parse().unwrap());
    Command { actor: Some(key), source, ..command(action) }
}

fn read(engine: &Engine, tenant: TenantId, chain: AuditChain) -> AuditPage {
    let limit = usize::MAX;
    let mut request = AuditRequest { is_ascending: true, limit, ..AuditRequest::default() };
    let mut page = engine.reader.audit(tenant, chain, &request).unwrap();
    while page.next.is_some() {
        request.after = page.next;
        let next = engine.reader.audit(tenant, chain, &request).unwrap();
        page.entries.extend(next.entries);
        page.next = next.next;
    }
    page
}

/// Asserts that the kept entries are one chain from the anchor to the head.
fn assert_verifies(page: &AuditPage) {
    let (mut previous, mut number) = (page.ends.anchor, page.ends.first);
    for entry in &page.entries {
        assert!(entry.is_intact() && entry.previous == previous && entry.number == number);
        (previous, number) = (entry.hash, number + 1);
    }
    assert_eq!((previous, number), (page.ends.head, page.ends.last + 1));
}

fn acts(page: &AuditPage) -> Vec<(&str, &str)> {
    page.entries.iter().map(|it| (it.act.action.name(), it.act.target.as_str())).collect()
}

fn namespace(number: usize) -> Command {
    by(ROOT, SetKeyNamespace { id: ROOT, namespace: Some(format!("namespace {number}")) })
}

#[test]
fn acts_are_recorded_with_their_effect() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let rule = |policy| PutRule { agent: "*".into(), namespace: "n".into(), policy };
    let heat = |value| {
        let value = storage::model::thermo::SettingValue::Number(value);
        UpdateSettings(vec![("recall.heat_weight".into(), value)])
    };
    let id = memory_id(1_u8);
    engine.run(
        1,
        &[
            by(ROOT, CreateKey { id: AGENT, key: api_key("helper", Role::Agent) }),
            by(ROOT, rule(Some(storage::model::access::Policy::Deny))),
            by(ROOT, rule(Some(storage::model::access::Policy::Deny))),
            by(ROOT, heat(0.5)),
            by(ROOT, heat(0.5)),
            by(AGENT, CreateMemories(vec![new_memory(id, "a secret text")])),
            by(AGENT, DeleteMemory { id, rejects: None }),
        ],
    );
    // What is rejected or changes nothing is no act.
    engine.submit(2, &[by(AGENT, DeleteMemory { id, rejects: None })]);
    let page = read(&engine, TENANT, AuditChain::Administration);
    assert_eq!(
        acts(&page),
        [
            ("key.create", "key 0707070707070707"),
            ("access_rule.change", "access rule of * for n"),
            ("settings.change", "settings"),
        ]
    );
    assert_verifies(&page);
    let [key, .., settings] = &page.entries[..] else { panic!("{page:?}") };
    assert_eq!(
        key.act.actor,
        AuditActor::Key { id: ROOT, name: "admin".into(), role: Role::Admin }
    );
    assert_eq!(key.act.source, Some("192.0.2.7".parse().unwrap()));
    assert_eq!((key.act.before.len(), key.act.after["role"].as_str()), (0, "agent"));
    let heat = |fields: &storage::model::audit::Fields| fields["recall.heat_weight"].clone();
    assert_eq!(
        (heat(&settings.act.before), heat(&settings.act.after)),
        ("0.3".into(), "0.5".into())
    );
    let data = read(&engine, TENANT, AuditChain::Data);
    assert_eq!(acts(&data), [("memory.delete", format!("memory {id}").as_str())]);
    assert_eq!(data.entries[0].act.before["namespace"], "default");
    assert!(!format!("{data:?}").contains("secret"), "no text of a memory");
    assert_verifies(&read(&engine.reopened(Options::default()), TENANT, AuditChain::Data));
}

#[test]
fn rules_of_retention_are_recorded() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let rule = |after_days| RetentionRule {
        namespace: Some("logs".into()),
        memory_type: None,
        action: RetentionAction::Delete,
        after_days,
    };
    for after_days in [30, 60] {
        engine.run(1, &[by(ROOT, UpdateRetention(vec![rule(after_days)]))]);
    }
    let page = read(&engine, TENANT, AuditChain::Administration);
    assert_eq!(acts(&page), [("retention.change", "rules of retention"); 2]);
    let act = &page.entries[1].act;
    let text = |days| format!("delete any of logs after {days} days");
    assert_eq!((&act.before["rule 1"], &act.after["rule 1"]), (&text(30), &text(60)));
}

#[test]
fn changes_of_models_and_deliveries_are_recorded() {
    let mut engine = Engine::empty(Options::default());
    let mut first = bootstrap(DIMENSION);
    let Action::Cluster(ClusterAction::Bootstrap(Bootstrap { cluster, .. })) = &mut first.action
    else {
        panic!("it bootstraps");
    };
    let restored = Restored { number: 1, clock: Timestamp(0), webhooks_held: true };
    cluster.restored = Some(restored);
    let id = ModelId([8; 8]);
    let model = Model::new(id, "next".into(), DIMENSION as u32);
    let start = StartModelChange { model, folder: "/models/next".into() };
    engine.run(0, &[first]);
    engine.run(
        1,
        &[
            Command::of_cluster(start),
            Command::of_cluster(ForceModelSwitch),
            Command::of_cluster(CancelModelChange),
            Command::of_cluster(ReleaseWebhooks),
            // Nothing is held now.
            Command::of_cluster(ReleaseWebhooks),
        ],
    );
    let page = read(&engine, TenantId::OPERATOR, AuditChain::Administration);
    let change = ("model.change", "next model");
    assert_eq!(acts(&page), [change, change, change, ("webhooks.release", "webhooks")]);
    assert_eq!(page.entries[0].act.after["folder"], "/models/next");
    assert_eq!(page.entries[1].act.after["forced"], "true");
    assert_eq!(page.entries[2].act.before["name"], "next");
    assert_eq!(page.entries[3].act.before["held"], "true");
}

#[test]
fn operators_acts_are_in_both_chains() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let tenant =
        NewTenant { name: "b".into(), tier: Some("free".into()), limits: Default::default() };
    let (key_id, key) = (AGENT, api_key("admin", Role::Admin));
    let other = TenantId(2);
    let limits = Some([(storage::model::tenant::Limit::Memories, Some(9))].into());
    engine.run(
        1,
        &[
            Command::of_cluster(CreateTenant { tenant, key_id, key }),
            Command::of_cluster(UpdateTenant {
                id: other,
                patch: TenantPatch { limits, ..Default::default() },
            }),
            Command::of_tenant(
                other,
                CreateKey { id: KeyId([8; 8]), key: api_key("new", Role::Admin) },
            ),
            Command::of_cluster(RecordOperation {
                action: AuditAction::LeaderTransfer,
                target: "cluster".into(),
                fields: vec![("to".into(), "2".into())],
            }),
        ],
    );
    let of_operator = read(&engine, TenantId::OPERATOR, AuditChain::Administration);
    let key = ("key.create", "key 0808080808080808 of tenant 2");
    let of_tenant = [("tenant.create", "tenant 2"), ("tenant.change", "tenant 2"), key];
    assert_eq!(acts(&of_operator)[..3], of_tenant);
    assert_eq!(acts(&of_operator)[3], ("leader.transfer", "cluster"));
    assert!(of_operator.entries.iter().all(|entry| entry.act.actor == AuditActor::Operator));
    assert_eq!(of_operator.entries[1].act.after["limits.memories"], "9");
    assert_verifies(&of_operator);
    assert_eq!(acts(&read(&engine, other, AuditChain::Administration)), of_tenant);
    let state = Some(storage::model::tenant::TenantState::Suspended);
    engine.run(
        2,
        &[
            Command::of_cluster(UpdateTenant {
                id: other,
                patch: TenantPatch { state, ..Default::default() },
            }),
            Command::of_cluster(DeleteTenant { id: other, name: "b".into() }),
        ],
    );
    assert_eq!(engine.reader.tenant_rows(other).unwrap(), 0, "its chains are gone");
    let of_operator = read(&engine, TenantId::OPERATOR, AuditChain::Administration);
    let last = &of_operator.entries.last().unwrap().act;
    assert_eq!((last.action, last.before["name"].as_str()), (AuditAction::TenantDelete, "b"));
    assert!(last.before["audit.administration"].starts_with("4 "), "the head of its chain");
}

#[test]
fn retention_leaves_a_chain_that_verifies() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let day = Timestamp::DAY_MICROS;
    for number in 0..10 {
        engine.run(number * day, &[namespace(number as usize)]);
    }
    let expire = Command::of_cluster(Expire(TenantId(0)));
    engine.run((AUDIT_DAYS + 5) * day + 1, &[expire.clone(), expire.clone()]);
    let page = read(&engine, TENANT, AuditChain::Data);
    assert_eq!((page.ends.first, page.ends.last, page.entries.len()), (7, 10, 4));
    assert_verifies(&page);
    engine.run((2 * AUDIT_DAYS) * day, std::slice::from_ref(&expire));
    let page = read(&engine, TENANT, AuditChain::Data);
    assert_eq!((page.ends.first, page.ends.last, page.entries.len()), (11, 10, 0));
    assert_verifies(&page);
    engine.run((2 * AUDIT_DAYS) * day + 1, &[namespace(77), expire]);
    let page = read(&engine.reopened(Options::default()), TENANT, AuditChain::Data);
    assert_eq!((page.entries[0].number, page.entries.len()), (11, 1));
    assert_verifies(&page);
}

#[test]
fn oldest_entries_make_room_at_the_limit() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let rename = command(ChangeTenant(OwnTenantPatch {
        name: Some("kept".into()),
        ..OwnTenantPatch::default()
    }));
    engine.run(1, &[rename]);
    let all: Vec<_> = (0..AUDIT_ENTRIES_MAX as usize + 10).map(namespace).collect();
    for (now, commands) in all.chunks(2_000).enumerate() {
        engine.run(2 + now as i64, commands);
    }
    let page = read(&engine, TENANT, AuditChain::Data);
    assert_eq!(page.ends.last, AUDIT_ENTRIES_MAX + 10);
    assert!(page.ends.first > 1 && (page.entries.len() as u64) <= AUDIT_ENTRIES_MAX);
    assert_verifies(&page);
    let kept = read(&engine, TENANT, AuditChain::Administration);
    assert_eq!(kept.entries.len(), 1, "acts of administrators stay");
}

#[test]
fn new_kinds_of_use_are_recorded_once() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    let kind = |network: &str| KeyUse {
        network: network.parse().unwrap(),
        client: "client/1".into(),
        role: Role::Agent,
    };
    let used = |number, network| report_uses(number, vec![(ROOT, kind(network))]);
    engine.run(1, &[used(1, "192.0.2.1"), used(2, "192.0.2.1"), used(3, "192.0.2.2")]);
    let mut engine = engine.reopened(Options::default());
    engine.run(2, &[used(4, "192.0.2.1")]);
    let page = read(&engine, TENANT, AuditChain::Data);
    assert_eq!(acts(&page), [("key.use", "key 0000000000000000"); 2]);
    assert_eq!(page.entries[1].act.after["network"], "192.0.2.2");
    let delete = [
        command(CreateKey { id: AGENT, key: api_key("admin", Role::Admin) }),
        command(DeleteKey(ROOT)),
    ];
    engine.run(3, &delete);
    let uses = engine.reader.bytes(&storage::Key::KeyUses(TENANT, ROOT)).unwrap();
    assert!(uses.is_none(), "what is known of a key ends with it");
}

#[test]
fn pages_filter_in_both_directions() {
    let mut engine = Engine::bootstrapped(DIMENSION, Options::default());
    engine.run(1, &[by(ROOT, CreateKey { id: AGENT, key: api_key("helper", Role::Agent) })]);
    for number in 0..6 {
        let key = if number % 2 == 0 { ROOT } else { AGENT };
        engine.run(
            2 + number,
            &[by(key, SetKeyNamespace { id: key, namespace: Some(format!("n{number}")) })],
        );
    }
    let numbers = |request: AuditRequest| {
        let page = engine.reader.audit(TENANT, AuditChain::Data, &request).unwrap();
        (page.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), page.next)
    };
    let two = AuditRequest { limit: 2, ..AuditRequest::default() };
    assert_eq!(numbers(two.clone()), (vec![6, 5], Some(5)));
    assert_eq!(numbers(AuditRequest { after: Some(2), ..two.clone() }), (vec![1], None));
    let ascending = AuditRequest { is_ascending: true, after: Some(3), ..two.clone() };
    assert_eq!(numbers(ascending), (vec![4, 5], Some(5)));
    let of_agent = AuditRequest { key: Some(AGENT), ..two.clone() };
    assert_eq!(numbers(of_agent), (vec![6, 4], Some(3)));
    let none = AuditRequest { action: Some(AuditAction::KeyUse), ..two };
    assert_eq!(numbers(none), (vec![], None));
}
