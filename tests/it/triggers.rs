//! Triggers fire on what happens to memories, and say so: in the answer of what fired them, in
//! their history. They do what they are told and no more.

use std::time::Instant;

use futures::{StreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{At, Cluster, PATIENCE};

use crate::cluster::{assert_equal_states, settled};
use crate::options;

/// Makes a trigger.
pub(crate) async fn trigger(cluster: &Cluster, body: &Value) -> Value {
    let answer = cluster.ask(Method::POST, "/triggers").json(body).send().await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
    answer.body
}

/// All firings, or what `query` asks for, the latest first.
pub(crate) async fn history(node: &At<'_>, query: &str) -> Vec<Value> {
    let mut items = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/triggers/history?limit=200{query}{cursor}");
        let body = node.ask(Method::GET, &path).send().await.ok();
        items.extend(body["items"].as_array().unwrap().clone());
        match body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&before={next}"),
            None => return items,
        }
    }
}

async fn refused(cluster: &Cluster, body: &Value, field: &str) {
    let answer = cluster.ask(Method::POST, "/triggers").json(body).send().await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{body}: {}", answer.body);
    assert_eq!(answer.body["field"], field, "{body}: {}", answer.body);
}

fn messages(body: &Value) -> Vec<&str> {
    let said = body["trigger_notifications"].as_array();
    said.into_iter().flatten().map(|said| said["message"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_trigger_reads_as_it_was_made_and_changed() {
    let cluster = options().start();
    let made = trigger(
        &cluster,
        &json!({
            "event": "on_store", "action": "notify", "name": "Facts", "description": "says so",
            "action_config": {"template": "{label}!"}, "namespace": "atlas",
            "filter_memory_type": "fact", "filter_namespace": "atlas",
            "filter_label_pattern": "deploy", "filter_heat_below": 0.9, "filter_heat_above": 0.1,
            "max_fires": 3, "cooldown_seconds": 1,
        }),
    )
    .await;
    let expected = json!({
        "name": "Facts", "description": "says so", "event": "on_store", "action": "notify",
        "action_config": {"message": "{label}!"}, "namespace": "atlas",
        "filter_memory_type": "fact", "filter_namespace": "atlas",
        "filter_label_pattern": "deploy", "filter_heat_below": 0.9, "filter_heat_above": 0.1,
        "max_fires": 3, "cooldown_seconds": 1, "enabled": true, "fire_count": 0,
        "last_fired_at": null,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&made[name], value, "{name}");
    }
    assert_eq!(made["trigger_id"], made["id"]);
    let path = format!("/triggers/{}", made["id"].as_str().unwrap());
    assert_eq!(cluster.ask(Method::GET, &path).send().await.ok(), made);
    let changes = json!({
        "name": "Plans", "enabled": false, "filter_memory_type": null, "max_fires": null,
        "cooldown_seconds": 0, "action_config": {"message": "so"}, "filter_heat_above": 0.2,
    });
    let changed = cluster.ask(Method::PATCH, &path).json(&changes).send().await.ok();
    for (name, value) in changes.as_object().unwrap() {
        assert_eq!(&changed[name], value, "{name}");
    }
    assert_eq!(changed["filter_label_pattern"], "deploy", "what is not named stays");
    let list = cluster.ask(Method::GET, "/triggers").send().await.ok();
    assert_eq!(list["items"], json!([changed]));
    let none = cluster.ask(Method::GET, "/triggers?event=on_recall").send().await.ok();
    assert_eq!(none["items"], json!([]));
    let gone = cluster.ask(Method::DELETE, &path).send().await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    for method in [Method::GET, Method::DELETE] {
        let answer = cluster.ask(method, &path).send().await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{}", answer.body);
    }
}

#[tokio::test]
async fn what_a_trigger_cannot_be_is_refused_by_its_field() {
    let cluster = options().start();
    let with = |name: &str, value: Value| {
        let mut body = json!({"event": "on_store", "action": "notify"});
        body[name] = value;
        body
    };
    let long = "x".repeat(100 << 10);
    for (field, body) in [
        ("event", json!({"action": "notify"})),
        ("action", json!({"event": "on_store"})),
        ("event", with("event", json!("on_full_moon"))),
        ("action", with("action", json!("explode"))),
        ("action_config", with("action_config", json!("message"))),
        ("action_config.message", with("action_config", json!({"message": long}))),
        ("filter_label_pattern", with("filter_label_pattern", json!(long))),
        ("filter_memory_type", with("filter_memory_type", json!("thought"))),
        ("filter_heat_below", with("filter_heat_below", json!(1.5))),
        ("filter_heat_above", with("filter_heat_above", json!("hot"))),
        ("max_fires", with("max_fires", json!(0))),
        ("cooldown_seconds", with("cooldown_seconds", json!(-1))),
        ("cooldown_seconds", with("cooldown_seconds", json!(0.5))),
        ("enabled", with("enabled", json!("yes"))),
        ("name", with("name", json!(long))),
    ] {
        refused(&cluster, &body, field).await;
    }
    for (field, action, config) in [
        ("action_config.strength", "boost", json!({"strength": 0})),
        ("action_config.strength", "boost", json!({"strength": 2})),
        ("action_config.label", "tag", json!({"label": "#"})),
        ("action_config.label", "tag", json!({"label": long})),
        ("action_config.url", "webhook", json!({})),
        ("action_config.url", "webhook", json!({"url": "hooks.example"})),
        ("action_config.url", "webhook", json!({"url": "ftp://hooks.example/"})),
        ("action_config.url", "webhook", json!({"url": "http://hooks.example.org:80@10.0.0.1/"})),
        ("action_config.url", "webhook", json!({"url": "https://10.0.0.1/"})),
        ("action_config.url", "webhook", json!({"url": "https://[::ffff:169.254.169.254]/"})),
        ("action_config.url", "webhook", json!({"url": "https://0xa9fea9fe/"})),
        (
            "action_config.webhook_secret",
            "webhook",
            json!({"url": "https://hooks.example/", "webhook_secret": "short"}),
        ),
    ] {
        let body = json!({"event": "on_store", "action": action, "action_config": config});
        refused(&cluster, &body, field).await;
    }
    let list = cluster.ask(Method::GET, "/triggers").send().await.ok();
    assert_eq!(list["items"], json!([]), "nothing was stored");
    for path in
        ["/triggers/no-id", "/triggers/history?trigger_id=no-id", "/triggers/history?before=x"]
    {
        let answer = cluster.ask(Method::GET, path).send().await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn what_fires_is_told_in_the_answer_and_in_the_history_of_every_node() {
    let cluster = options().nodes(3).start();
    for event in ["on_store", "on_boost", "on_relate", "on_recall"] {
        let config = json!({"message": "{event} {label} {heat:.2f}"});
        let body = json!({"event": event, "action": "notify", "action_config": config});
        trigger(&cluster, &body).await;
    }
    let stored = cluster.create(&json!({"label": "red fox", "initial_heat": 0.5})).await;
    assert_eq!(messages(&stored), ["on_store red fox 0.50"]);
    let id = stored["id"].as_str().unwrap();
    let patch = |heat: f64| {
        cluster
            .ask(Method::PATCH, &format!("/agent/nodes/{id}"))
            .json(&json!({"current_heat": heat}))
    };
    assert!(messages(&patch(0.4).send().await.ok()).is_empty(), "it was cooled");
    assert_eq!(messages(&patch(0.6).send().await.ok()), ["on_boost red fox 0.60"]);
    let feedback = json!({"node_id": id, "signal": "relevant"});
    let told = cluster.ask(Method::POST, "/feedback").json(&feedback).send().await.ok();
    assert_eq!(messages(&told), ["on_boost red fox 0.68"]);
    let bulk = json!({"ids": [id], "current_heat": 0.7});
    let told = cluster.ask(Method::POST, "/agent/nodes/bulk-patch").json(&bulk).send().await.ok();
    assert_eq!(messages(&told), ["on_boost red fox 0.70"]);
    let batch = json!({"nodes": [{"label": "blue sea"}, {"label": "green hill"}]});
    let told = cluster.ask(Method::POST, "/agent/nodes/batch").json(&batch).send().await.ok();
    assert_eq!(messages(&told), ["on_store blue sea 1.00", "on_store green hill 1.00"]);
    let edge = json!({"source_id": told["results"][0]["id"], "target_id": id});
    for expected in [vec!["on_relate blue sea 1.00"], vec![]] {
        let relate = cluster.ask(Method::POST, "/agent/graph/relate").json(&edge);
        assert_eq!(messages(&relate.send().await.ok()), expected);
    }
    let search = json!({"query": "green hill", "limit": 1});
    for _ in 0..3 {
        let found = cluster.ask(Method::POST, "/agent/search").json(&search).send().await.ok();
        assert!(found.is_array());
    }
    let started = Instant::now();
    // Each return is one, though the memory is warmed once a minute.
    while history(&cluster.at(1), "").await.len() < 10 {
        assert!(started.elapsed() < PATIENCE, "{:?}", history(&cluster.at(1), "").await);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    settled(&cluster).await;
    let first = history(&cluster.at(0), "").await;
    let events: Vec<_> =
        first.iter().rev().map(|firing| firing["event"].as_str().unwrap()).collect();
    let expected =
        ["on_store", "on_boost", "on_boost", "on_boost", "on_store", "on_store", "on_relate"];
    assert_eq!(events[..7], expected);
    assert_eq!(events[7..], ["on_recall"; 3]);
    for node in cluster.nodes() {
        assert_eq!(history(&node, "").await, first);
    }
    let newest = &first[0];
    assert_eq!(newest["action"], "notify");
    assert_eq!(newest["action_taken"], "notify");
    assert_eq!(newest["trigger_name"], "on_recall notify");
    assert_eq!(newest["node_label"], "green hill");
    assert!(newest["result"].as_str().unwrap().starts_with("on_recall green hill"));
    assert!(newest["fired_at"].as_str().unwrap().ends_with('Z'));
    let of_one = format!("&trigger_id={}", newest["trigger_id"].as_str().unwrap());
    assert_eq!(history(&cluster.at(0), &of_one).await.len(), 3);
    let list = cluster.ask(Method::GET, "/triggers").send().await.ok();
    let counts: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|t| &t["fire_count"]).collect();
    assert_eq!(counts, [3, 3, 1, 3]);
    assert_equal_states(&cluster.at(0)).await;
}

#[tokio::test]
async fn a_dry_run_says_what_would_fire_and_why_not_the_rest_and_fires_nothing() {
    let cluster = options().start();
    let stored = cluster.create(&json!({"label": "red fox", "initial_heat": 0.5})).await;
    let mut expected = Vec::new();
    for (with, why) in [
        (json!({}), Value::Null),
        (json!({"enabled": false}), json!("enabled")),
        (json!({"event": "on_boost"}), json!("event")),
        (json!({"namespace": "atlas"}), json!("namespace")),
        (json!({"filter_namespace": "atlas"}), json!("filter_namespace")),
        (json!({"filter_memory_type": "fact"}), json!("filter_memory_type")),
        (json!({"filter_label_pattern": "wolf"}), json!("filter_label_pattern")),
        (json!({"filter_label_pattern": "FOX"}), Value::Null),
        (json!({"filter_heat_below": 0.5}), json!("filter_heat_below")),
        (json!({"filter_heat_above": 0.5}), json!("filter_heat_above")),
    ] {
        let mut body = json!({"event": "on_store", "action": "notify"});
        body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        trigger(&cluster, &body).await;
        expected.push(why);
    }
    let ask = json!({"event": "on_store", "node_id": stored["id"]});
    let told = cluster.ask(Method::POST, "/triggers/evaluate").json(&ask).send().await.ok();
    let items = told["items"].as_array().unwrap();
    let why: Vec<_> = items.iter().map(|item| item["reason"].clone()).collect();
    assert_eq!(why, expected);
    assert!(items.iter().all(|item| item["would_fire"] == item["reason"].is_null()));
    assert!(history(&cluster.at(0), "").await.is_empty(), "nothing fired");
    let ask = json!({"event": "on_store", "node_id": "00000000-0000-0000-0000-000000000000"});
    let answer = cluster.ask(Method::POST, "/triggers/evaluate").json(&ask).send().await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_trigger_knows_no_more_than_its_owner_and_obeys_no_stranger() {
    let cluster = options().start();
    let post = async |path: &str, body: Value| {
        cluster.ask(Method::POST, path).json(&body).send().await.ok()
    };
    let key = post("/keys", json!({"name": "helper", "role": "agent"})).await;
    let bearer = format!("Bearer {}", key["key"].as_str().unwrap());
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    post("/namespaces/acl", rule).await;
    let by_helper = |method: Method, path: &str, body: Value| {
        let ask = cluster.ask_bare(method, &format!("/api/v1{path}"));
        ask.header("Authorization", &bearer).json(&body).send()
    };
    let notify = json!({"event": "on_store", "action": "notify"});
    let mine = by_helper(Method::POST, "/triggers", notify.clone()).await.ok();
    let bound = json!({"event": "on_store", "action": "notify", "namespace": "closed"});
    let answer = by_helper(Method::POST, "/triggers", bound).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
    let others = trigger(&cluster, &notify).await;
    let stored = cluster.create(&json!({"label": "a", "namespace": "closed"})).await;
    let said = stored["trigger_notifications"].as_array().unwrap();
    assert_eq!(said.len(), 1, "the owner of the other may not know: {said:?}");
    assert_eq!(said[0]["trigger_id"], others["id"]);
    let stored = cluster.create(&json!({"label": "b", "namespace": "open"})).await;
    assert_eq!(stored["trigger_notifications"].as_array().unwrap().len(), 2);
    // What fired in the closed namespace is not told to it either.
    let told = by_helper(Method::GET, "/triggers/history", json!({})).await.ok();
    assert_eq!(told["items"].as_array().unwrap().len(), 2, "{told}");
    let path = |trigger: &Value| format!("/triggers/{}", trigger["id"].as_str().unwrap());
    for (method, body) in [(Method::PATCH, json!({"enabled": false})), (Method::DELETE, json!({}))]
    {
        let answer = by_helper(method, &path(&others), body).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.body);
        assert_eq!(answer.body["error"], "not_owner");
    }
    let changed = by_helper(Method::PATCH, &path(&mine), json!({"enabled": false})).await;
    assert_eq!(changed.ok()["enabled"], false);
    assert_eq!(
        cluster.ask(Method::DELETE, &path(&mine)).send().await.status,
        StatusCode::NO_CONTENT
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_triggers_are_asked_listed_and_there_after_a_restart() {
    let cluster = std::sync::Arc::new(options().nodes(3).start());
    let make = |number: usize| {
        let body = json!({
            "event": "on_store", "action": "notify", "name": format!("number {number}"),
            "filter_label_pattern": format!("word {number}."),
        });
        let cluster = std::sync::Arc::clone(&cluster);
        async move {
            let ask = cluster.at(number % 3).ask(Method::POST, "/triggers").json(&body);
            ask.send().await.ok();
        }
    };
    stream::iter((0..10_000).map(make)).buffer_unordered(64).collect::<()>().await;
    let one = json!({"event": "on_store", "action": "pin"});
    let answer = cluster.ask(Method::POST, "/triggers").json(&one).send().await;
    assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.body);
    assert_eq!(answer.body["error"], "too_many");
    let stored = cluster.create(&json!({"label": "this is word 4711. of many"})).await;
    assert_eq!(messages(&stored), ["on_store: this is word 4711. of many"]);
    settled(&cluster).await;
    cluster.at(2).kill();
    let _node = cluster.at(2).serve();
    cluster.at(2).ready().await;
    let (mut names, mut cursor) = (std::collections::BTreeSet::new(), String::new());
    loop {
        let path = format!("/triggers?consistency=linearizable{cursor}");
        let body = cluster.at(2).ask(Method::GET, &path).send().await.ok();
        let items = body["items"].as_array().unwrap();
        names.extend(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        match body["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(names.len(), 10_000);
    let stored = cluster.at(2).create(&json!({"label": "word 9999."})).await;
    assert_eq!(messages(&stored), ["on_store: word 9999."]);
    assert_equal_states(&cluster.at(0)).await;
}
