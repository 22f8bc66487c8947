//! Triggers fire on events of memories. The response to the write and the history of every node
//! report each firing.

use std::collections::BTreeSet;

use futures::{StreamExt, stream};

use super::*;

fn messages(body: &Value) -> Vec<&str> {
    let notifications = body["trigger_notifications"].as_array();
    notifications.into_iter().flatten().map(|one| string(&one["message"])).collect()
}

#[tokio::test]
async fn trigger_reads_as_created_and_updated() {
    let cluster = options().start();
    let mut body = json!({
        "event": "on_store", "action": "notify", "name": "Facts", "description": "says so",
        "action_config": {"template": "{label}!"}, "namespace": "atlas",
        "filter_memory_type": "fact", "filter_namespace": "atlas",
        "filter_label_pattern": "deploy", "filter_heat_below": 0.9, "filter_heat_above": 0.1,
        "max_fires": 3, "cooldown_seconds": 1,
    });
    let created = create_trigger(&cluster, &body).await;
    body["action_config"] = json!({"message": "{label}!"});
    assert_fields(&created, body);
    let defaults = json!({"enabled": true, "fire_count": 0, "last_fired_at": null});
    assert_fields(&created, defaults);
    assert_eq!(created["trigger_id"], created["id"]);
    let path = format!("/triggers/{}", id(&created));
    assert_eq!(cluster.get(&path).await, created);
    let changes = json!({
        "name": "Plans", "enabled": false, "filter_memory_type": null, "max_fires": null,
        "cooldown_seconds": 0, "action_config": {"message": "so"}, "filter_heat_above": 0.2,
    });
    let changed = cluster.patch(&path, &changes).await;
    assert_fields(&changed, changes);
    assert_eq!(changed["filter_label_pattern"], "deploy", "an omitted field is unchanged");
    let list = cluster.get("/triggers").await;
    assert_eq!(list["items"], json!([changed]));
    let none = cluster.get("/triggers?event=on_recall").await;
    assert_eq!(none["items"], json!([]));
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 204);
    for method in [Method::GET, Method::DELETE] {
        cluster.request(method, &path).send().await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn invalid_trigger_is_rejected_by_its_field() {
    let cluster = options().start();
    // Invalid values beside those that `bad_fields.rs` derives from docs/openapi.json.
    let too_hot = json!({"event": "on_store", "action": "notify", "filter_heat_below": 1.5});
    cluster.assert_rejected("/triggers", &too_hot, "filter_heat_below").await;
    let long = "x".repeat(100 << 10);
    let short = json!({"url": "https://hooks.example/", "webhook_secret": "short"});
    for (field, action, config) in [
        ("action_config.message", "notify", json!({"message": long})),
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
        ("action_config.webhook_secret", "webhook", short),
    ] {
        let body = json!({"event": "on_store", "action": action, "action_config": config});
        cluster.assert_rejected("/triggers", &body, field).await;
    }
    let list = cluster.get("/triggers").await;
    assert_eq!(list["items"], json!([]), "nothing was stored");
    for path in ["/triggers/history?trigger_id=no-id", "/triggers/history?before=x"] {
        assert_eq!(cluster.request(Method::GET, path).send().await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn responses_and_history_report_each_firing() {
    let cluster = options().nodes(3).start();
    for event in ["on_store", "on_boost", "on_relate", "on_recall"] {
        let config = json!({"message": "{event} {label} {heat:.2f}"});
        let body = json!({"event": event, "action": "notify", "action_config": config});
        create_trigger(&cluster, &body).await;
    }
    let stored = cluster.create(&json!({"label": "red fox", "initial_heat": 0.5})).await;
    assert_eq!(messages(&stored), ["on_store red fox 0.50"]);
    let id = id(&stored);
    let path = format!("/agent/nodes/{id}");
    let cooled = cluster.patch(&path, &json!({"current_heat": 0.4})).await;
    assert!(messages(&cooled).is_empty());
    let heated = cluster.patch(&path, &json!({"current_heat": 0.6})).await;
    assert_eq!(messages(&heated), ["on_boost red fox 0.60"]);
    let response = cluster.post("/feedback", &json!({"node_id": id, "signal": "relevant"})).await;
    assert_eq!(messages(&response), ["on_boost red fox 0.68"]);
    let bulk = json!({"ids": [id], "current_heat": 0.7});
    let response = cluster.post("/agent/nodes/bulk-patch", &bulk).await;
    assert_eq!(messages(&response), ["on_boost red fox 0.70"]);
    let batch = json!({"nodes": [{"label": "blue sea"}, {"label": "green hill"}]});
    let response = cluster.post("/agent/nodes/batch", &batch).await;
    assert_eq!(messages(&response), ["on_store blue sea 1.00", "on_store green hill 1.00"]);
    let edge = json!({"source_id": response["results"][0]["id"], "target_id": id});
    for expected in [vec!["on_relate blue sea 1.00"], vec![]] {
        assert_eq!(messages(&cluster.post("/agent/graph/relate", &edge).await), expected);
    }
    let search = json!({"query": "green hill", "limit": 1});
    for _ in 0..3 {
        let found = cluster.post("/agent/search", &search).await;
        assert!(found.is_array());
    }
    // Each search fires, though the memory is heated once per minute.
    let history = async || trigger_history(cluster.at(1), "").await;
    eventually("recalls fire", history, |firings| firings.len() >= 10).await;
    converged(&cluster).await;
    let first = trigger_history(&cluster, "").await;
    let events: Vec<_> = first.iter().rev().map(|firing| string(&firing["event"])).collect();
    let expected =
        ["on_store", "on_boost", "on_boost", "on_boost", "on_store", "on_store", "on_relate"];
    assert_eq!(events[..7], expected);
    assert_eq!(events[7..], ["on_recall"; 3]);
    for node in cluster.nodes() {
        assert_eq!(trigger_history(node, "").await, first);
    }
    let newest = &first[0];
    let expected = json!({
        "action": "notify", "action_taken": "notify", "trigger_name": "on_recall notify",
        "node_label": "green hill",
    });
    assert_fields(newest, expected);
    assert!(string(&newest["result"]).starts_with("on_recall green hill"));
    assert!(string(&newest["fired_at"]).ends_with('Z'));
    let of_one = format!("&trigger_id={}", string(&newest["trigger_id"]));
    assert_eq!(trigger_history(&cluster, &of_one).await.len(), 3);
    let list = cluster.get("/triggers").await;
    let counts: Vec<_> = array(&list["items"]).iter().map(|t| &t["fire_count"]).collect();
    assert_eq!(counts, [3, 3, 1, 3]);
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn dry_run_gives_reasons_and_fires_nothing() {
    let cluster = options().start();
    let stored = cluster.create(&json!({"label": "red fox", "initial_heat": 0.5})).await;
    let mut expected = Vec::new();
    for (with, reason) in [
        (json!({}), Value::Null),
        (json!({"enabled": false}), json!("enabled")),
        (json!({"event": "on_boost"}), json!("event")),
        (json!({"namespace": "atlas"}), json!("namespace")),
        (json!({"filter_namespace": "atlas"}), json!("filter_namespace")),
        (json!({"filter_memory_type": "fact"}), json!("filter_memory_type")),
        (json!({"filter_label_pattern": "wolf"}), json!("filter_label_pattern")),
        (json!({"filter_label_pattern": "FOX"}), Value::Null),
        (json!({"filter_heat_below": 0.4}), json!("filter_heat_below")),
        (json!({"filter_heat_above": 0.6}), json!("filter_heat_above")),
    ] {
        let mut body = json!({"event": "on_store", "action": "notify"});
        body.as_object_mut().unwrap().extend(with.as_object().unwrap().clone());
        create_trigger(&cluster, &body).await;
        expected.push(reason);
    }
    let request = json!({"event": "on_store", "node_id": stored["id"]});
    let response = cluster.post("/triggers/evaluate", &request).await;
    let items = array(&response["items"]);
    let reasons: Vec<_> = items.iter().map(|item| item["reason"].clone()).collect();
    assert_eq!(reasons, expected);
    assert!(items.iter().all(|item| item["would_fire"] == item["reason"].is_null()));
    assert!(trigger_history(&cluster, "").await.is_empty(), "nothing fired");
    let request = json!({"event": "on_store", "node_id": "00000000-0000-0000-0000-000000000000"});
    let absent = cluster.send(Method::POST, "/triggers/evaluate", &request).await;
    absent.assert_error(404, "not_found");
}

#[tokio::test]
async fn trigger_access_follows_its_owner() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let by_owner = |method: Method, path: &str, body: Value| {
        cluster.request_as(&key, method, path).json(&body).send()
    };
    let notify = json!({"event": "on_store", "action": "notify"});
    let mine = by_owner(Method::POST, "/triggers", notify.clone()).await.ok();
    let bound = json!({"event": "on_store", "action": "notify", "namespace": "closed"});
    let response = by_owner(Method::POST, "/triggers", bound).await;
    assert_eq!(response.status, StatusCode::FORBIDDEN, "{}", response.body);
    let others = create_trigger(&cluster, &notify).await;
    let stored = cluster.create(&json!({"label": "a", "namespace": "closed"})).await;
    let notifications = array(&stored["trigger_notifications"]);
    assert_eq!(notifications.len(), 1, "the other owner has no access: {notifications:?}");
    assert_eq!(notifications[0]["trigger_id"], others["id"]);
    let stored = cluster.create(&json!({"label": "b", "namespace": "open"})).await;
    assert_eq!(array(&stored["trigger_notifications"]).len(), 2);
    // Its history has no firing of the other trigger.
    let response = by_owner(Method::GET, "/triggers/history", json!({})).await.ok();
    assert_eq!(array(&response["items"]).len(), 1, "{response}");
    let path = |trigger: &Value| format!("/triggers/{}", id(trigger));
    for (method, body) in [(Method::PATCH, json!({"enabled": false})), (Method::DELETE, json!({}))]
    {
        let response = by_owner(method, &path(&others), body).await;
        response.assert_error(404, "not_found");
    }
    let changed = by_owner(Method::PATCH, &path(&mine), json!({"enabled": false})).await;
    assert_eq!(changed.ok()["enabled"], false);
    assert_eq!(cluster.request(Method::DELETE, &path(&mine)).send().await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_triggers_fire_and_survive_a_restart() {
    let cluster = options().nodes(3).start();
    let other = cluster.post("/keys", &json!({"name": "other", "role": "agent"})).await;
    // One key may create half of them.
    let create = async |number: usize| {
        let body = json!({
            "event": "on_store", "action": "notify", "name": format!("number {number}"),
            "filter_label_pattern": format!("word {number}."),
        });
        let node = cluster.at(number % 3);
        let request = match number {
            ..5_000 => node.request(Method::POST, "/triggers"),
            _ => node.request_as(&other, Method::POST, "/triggers"),
        };
        request.json(&body).send().await.ok();
    };
    stream::iter((0..10_000).map(create)).buffer_unordered(64).collect::<()>().await;
    let one = json!({"event": "on_store", "action": "pin"});
    for key in [&other, &cluster.post("/keys", &json!({"name": "third", "role": "agent"})).await] {
        let request = cluster.request_as(key, Method::POST, "/triggers").json(&one);
        request.send().await.assert_error(409, "too_many");
    }
    let stored = cluster.create(&json!({"label": "this is word 4711. of many"})).await;
    assert_eq!(messages(&stored), ["on_store: this is word 4711. of many"]);
    converged(&cluster).await;
    let third = cluster.at(2);
    third.crash().await;
    let path = "/triggers?consistency=linearizable";
    let items = pages("cursor", async |cursor| third.get(&format!("{path}{cursor}")).await).await;
    let names: BTreeSet<_> = items.iter().map(|item| string(&item["name"])).collect();
    assert_eq!(names.len(), 10_000);
    let stored = third.create(&json!({"label": "word 9999."})).await;
    assert_eq!(messages(&stored), ["on_store: word 9999."]);
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn readers_see_only_the_host_of_a_webhook() {
    let cluster = options().start();
    let key = cluster.post("/keys", &json!({"name": "r", "role": "reader"})).await;
    for (url, shown) in [
        ("https://hooks.example?token=7", "https://hooks.example"),
        ("https://hooks.example:8443/token/7", "https://hooks.example:8443"),
        ("https:hooks.example/token/7", "https://hooks.example"),
        ("https:\\\\hooks.example\\token", "https://hooks.example"),
    ] {
        let body = json!({"event": "on_store", "action": "webhook", "action_config": {"url": url}});
        let created = cluster.post("/triggers", &body).await;
        assert_eq!(created["action_config"]["url"], url, "{created}");
        let path = format!("/triggers/{}", id(&created));
        let read = cluster.request_as(&key, Method::GET, &path).send().await.ok();
        assert_eq!(read["action_config"]["url"], shown, "{url}");
    }
}
