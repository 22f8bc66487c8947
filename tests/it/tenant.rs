//! Keys, namespaces, what happened, and how a tenant stands.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Ask, At, Cluster, PATIENCE};

use crate::cluster::settled;
use crate::options;

/// A new key of a role, as its creation was answered.
async fn key(cluster: &Cluster, name: &str, role: &str) -> Value {
    let body = json!({"name": name, "role": role});
    let made = cluster.ask(Method::POST, "/keys").json(&body).send().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    settled(cluster).await;
    made.body
}

fn with<'a>(cluster: &'a Cluster, key: &'a Value) -> impl Fn(Method, &str) -> Ask + 'a {
    move |method, path| {
        let ask = cluster.ask_bare(method, &format!("/api/v1{path}"));
        ask.header("Authorization", &format!("Bearer {}", key["key"].as_str().unwrap()))
    }
}

async fn get(node: &At<'_>, path: &str) -> Value {
    node.ask(Method::GET, path).send().await.ok()
}

#[tokio::test]
async fn keys_are_made_shown_once_used_by_their_role_and_deleted() {
    let cluster = options().start();
    let (reader, agent) =
        (key(&cluster, "eyes", "reader").await, key(&cluster, "hands", "agent").await);
    assert!(reader["key"].as_str().unwrap().starts_with("sk-"));
    let read = with(&cluster, &reader);
    let write = with(&cluster, &agent);
    let memory = json!({"label": "by hands"});
    assert_eq!(read(Method::POST, "/agent/nodes").json(&memory).send().await.status, 403);
    write(Method::POST, "/agent/nodes").json(&memory).send().await.ok();
    assert_eq!(read(Method::GET, "/agent/nodes").send().await.ok()["total"], 1);
    for (method, path) in [
        (Method::GET, "/keys"),
        (Method::PATCH, "/settings/thermo"),
        (Method::GET, "/admin/dashboard"),
        (Method::GET, "/namespaces/acl"),
    ] {
        assert_eq!(write(method, path).send().await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let keys = get(&cluster.at(0), "/keys").await;
    let keys = keys["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key["key"].is_null()), "a key's text is shown once");

    let path = format!("/keys/{}", reader["id"].as_str().unwrap());
    cluster.ask(Method::DELETE, &path).send().await.ok();
    assert_eq!(read(Method::GET, "/agent/nodes").send().await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(cluster.ask(Method::DELETE, &path).send().await.status, StatusCode::NOT_FOUND);
    let own = keys.iter().find(|key| key["role"] == "admin").unwrap();
    let last = format!("/keys/{}", own["id"].as_str().unwrap());
    let refused = cluster.ask(Method::DELETE, &last).send().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "the last key that may administer stays");
    for (body, field) in
        [(json!({"name": 5}), "name"), (json!({"name": "x", "role": "operator"}), "role")]
    {
        let refused = cluster.ask(Method::POST, "/keys").json(&body).send().await;
        assert_eq!(refused.body["field"], field);
    }
}

#[tokio::test]
async fn access_rules_hold_for_reads_and_writes_on_every_node() {
    let cluster = options().nodes(3).start();
    let agent = key(&cluster, "helper", "agent").await;
    for namespace in ["open", "closed"] {
        let body = json!({"label": format!("fox of {namespace}"), "namespace": namespace});
        cluster.create(&body).await;
    }
    let listed = cluster.ask(Method::GET, "/agent/nodes?namespace=closed").send().await.ok();
    let closed = format!("/agent/nodes/{}", listed["items"][0]["id"].as_str().unwrap());
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    let made = cluster.ask(Method::POST, "/namespaces/acl").json(&rule).send().await.ok();
    settled(&cluster).await;
    let ask = with(&cluster, &agent);
    let forbidden = async |ask: Ask| {
        let answer = ask.send().await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
        assert_eq!(answer.body["error"], "namespace_forbidden");
    };
    let search = |namespace: &str| {
        ask(Method::POST, "/agent/search").json(&json!({"query": "fox", "namespace": namespace}))
    };
    forbidden(search("closed")).await;
    let found = search("*").send().await.ok();
    assert_eq!(found.as_array().unwrap().len(), 1, "all that may be read: {found}");
    assert_eq!(ask(Method::GET, "/agent/nodes").send().await.ok()["total"], 1);
    forbidden(ask(Method::GET, &closed)).await;
    forbidden(ask(Method::PATCH, &closed).json(&json!({"is_pinned": true}))).await;
    forbidden(ask(Method::DELETE, &closed)).await;
    let memory = json!({"label": "x", "namespace": "closed"});
    forbidden(ask(Method::POST, "/agent/nodes").json(&memory)).await;
    let id = closed.rsplit('/').next().unwrap();
    let feedback = json!({"node_id": id, "signal": "wrong"});
    forbidden(ask(Method::POST, "/feedback").json(&feedback)).await;
    let bulk = json!({"ids": [id]});
    let bulk = ask(Method::POST, "/agent/nodes/bulk").json(&bulk).send().await.ok();
    assert_eq!((&bulk["deleted"], &bulk["refused"]), (&json!(0), &json!(1)));
    // Who administers is bound by no rule.
    assert_eq!(get(&cluster.at(2), "/agent/nodes").await["total"], 2);

    let rules = get(&cluster.at(1), "/namespaces/acl").await;
    assert_eq!(rules["items"][0]["policy"], "deny");
    let path = format!("/namespaces/acl/{}", made["id"].as_str().unwrap());
    assert_eq!(cluster.ask(Method::DELETE, &path).send().await.ok()["policy"], "default");
    settled(&cluster).await;
    assert_eq!(ask(Method::GET, "/agent/nodes").send().await.ok()["total"], 2);
}

#[tokio::test]
async fn activity_tells_what_happened_page_by_page_and_takes_notes() {
    let cluster = options().start();
    let stored = cluster.create(&json!({"label": "red fox"})).await;
    let path = format!("/agent/nodes/{}", stored["id"].as_str().unwrap());
    cluster.ask(Method::PATCH, &path).json(&json!({"is_pinned": true})).send().await.ok();
    cluster.ask(Method::PATCH, &path).json(&json!({"label": "grey fox"})).send().await.ok();
    let note = json!({"action": "login", "target_label": "console", "metadata": {"ip": "::1"}});
    let noted = cluster.ask(Method::POST, "/activity").json(&note).send().await;
    assert_eq!(noted.status, StatusCode::CREATED);
    cluster.ask(Method::DELETE, &path).send().await.ok();
    let (mut actions, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&cluster.at(0), &format!("/activity?limit=2&cursor={cursor}")).await;
        for item in page["items"].as_array().unwrap() {
            assert_eq!(item["actor"], "admin");
            actions.push(item["action"].as_str().unwrap().to_owned());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(actions, ["memory.delete", "login", "memory.patch", "memory.pin", "memory.add"]);
    let first = get(&cluster.at(0), "/activity?limit=2").await;
    assert_eq!(first["items"][0]["target_label"], "grey fox");
    assert_eq!(first["items"][1]["metadata"], json!({"ip": "::1"}));
    let bad = cluster.ask(Method::GET, "/activity?cursor=x").send().await;
    assert_eq!((bad.status, &bad.body["field"]), (StatusCode::BAD_REQUEST, &json!("cursor")));
    let empty = cluster.ask(Method::POST, "/activity").send().await;
    assert_eq!(empty.body["field"], "action");
}

#[tokio::test]
async fn a_caller_learns_who_it_is_and_how_its_tenant_stands() {
    let cluster = options().start();
    cluster.create(&json!({"label": "four", "namespace": "one", "memory_type": "fact"})).await;
    cluster.create(&json!({"label": "six by now", "namespace": "two"})).await;
    let node = cluster.at(0);
    let verified = get(&node, "/auth/verify").await;
    assert_eq!(
        (&verified["authenticated"], &verified["agent_label"]),
        (&json!(true), &json!("admin"))
    );
    let rename = json!({"org_name": "The Foxes"});
    let org = cluster.ask(Method::PATCH, "/org").json(&rename).send().await.ok();
    assert_eq!((&org["org_name"], &org["seats_used"]), (&json!("The Foxes"), &json!(1)));
    assert_eq!(get(&node, "/org").await["org_name"], "The Foxes");
    let status = get(&node, "/agent/memory/status?namespace=one").await;
    assert_eq!(status["stats"]["namespace_memories"], 1);
    assert_eq!(status["stats"]["total_memories"], 2);
    let storage = get(&node, "/agent/storage").await;
    // Labels of 4 and 10 bytes, vectors of 384 halves.
    assert_eq!(storage["total_size_bytes"], 4 + 10 + 2 * 2 * 384);
    assert_eq!(storage["namespaces"], json!({"one": 1, "two": 1}));
    assert_eq!(get(&node, "/metrics").await["memories"], 2);
    let own = cluster.ask(Method::PUT, "/namespaces/default").json(&json!({"namespace": "two"}));
    assert_eq!(own.send().await.ok()["namespace"], "two");
    let body = json!({"query": "by now", "explain": true});
    let hits = cluster.ask(Method::POST, "/agent/search").json(&body).send().await.ok();
    assert_eq!(hits[0]["explain"]["namespace_boost"], 0.1, "the key's own namespace is boosted");
}

/// Waits until recall analytics count so many searches.
async fn counted(node: &At<'_>, searches: u64) -> Value {
    let started = Instant::now();
    loop {
        let found = get(node, "/analytics/recall").await;
        if found["searches"] == searches {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn counts_are_the_same_on_every_node_and_survive_their_leader() {
    let cluster = options().nodes(3).start();
    let stored = cluster.create(&json!({"label": "red fox", "memory_type": "fact"})).await;
    for node in cluster.nodes() {
        let body = json!({"query": "red fox"});
        let ask = node.ask(Method::POST, "/agent/search");
        ask.header("X-Hearth-Consistency", "linearizable").json(&body).send().await.ok();
    }
    let feedback = json!({"node_id": stored["id"], "signal": "relevant"});
    cluster.ask(Method::POST, "/feedback").json(&feedback).send().await.ok();
    let leader = cluster.leader().await;
    let rest = cluster.at((leader + 1) % 3);
    let found = counted(&rest, 3).await;
    assert_eq!((&found["searches_with_results"], &found["hit_rate"]), (&json!(3), &json!(1.0)));
    let fact = |found: &Value| {
        let stats = found["stats"].as_array().unwrap();
        stats.iter().find(|of_type| of_type["memory_type"] == "fact").unwrap().clone()
    };
    assert_eq!(
        (&fact(&found)["total_recalls"], &fact(&found)["relevant_count"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(fact(&found)["relevance_ratio"], 1.0);
    let dashboard = get(&rest, "/admin/dashboard").await;
    assert_eq!(
        (&dashboard["total_nodes"], &dashboard["memory_types"]["fact"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(dashboard["heat_distribution"][0]["count"], 1);
    assert_eq!(dashboard["hottest"]["id"], stored["id"]);
    assert_eq!(dashboard["recent_activity"][0]["action"], "memory.feedback");

    cluster.at(leader).kill();
    rest.create(&json!({"label": "the next leader"})).await;
    let after = get(&rest, "/admin/recall-analytics").await;
    assert_eq!(fact(&after), fact(&found), "the leader took no count with it");
    let started = Instant::now();
    loop {
        let usage = get(&rest, "/admin/usage").await;
        if usage["nodes_added"] == 2 && usage["sync_requests"].as_u64() > Some(5) {
            assert!(usage["max_latency_ms"].as_f64() >= usage["avg_latency_ms"].as_f64());
            assert!(usage["billing_period_start"].as_str().unwrap().ends_with("-01"));
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{usage}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
