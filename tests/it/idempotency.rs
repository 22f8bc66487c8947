//! A write repeated with the same `Idempotency-Key` is done once.

use reqwest::Method;
use serde_json::json;

use crate::options;

#[tokio::test]
async fn a_repeated_create_answers_the_first_one_and_stores_nothing() {
    let cluster = options().start();
    let create = |label: &str| {
        cluster
            .ask(Method::POST, "/agent/nodes")
            .header("Idempotency-Key", "one")
            .json(&json!({"label": label}))
            .send()
    };
    let first = create("once").await;
    let second = create("once").await;
    assert_eq!((first.status, second.status), (reqwest::StatusCode::CREATED, first.status));
    assert_eq!(first.body["id"], second.body["id"]);
    let other = create("another").await;
    assert_eq!(other.status, 422);
    assert_eq!(other.body["error"], "idempotency_key_reused");
    let path = format!("/agent/nodes/{}", first.body["id"].as_str().unwrap());
    cluster.ask(Method::DELETE, &path).send().await.ok();
    let after = create("once").await;
    assert_eq!(after.body, json!({"id": first.body["id"], "deleted": true}));
    assert_eq!(cluster.ask(Method::GET, "/agent/nodes").send().await.ok()["total"], 0);
}

#[tokio::test]
async fn a_repeated_trigger_is_one_trigger() {
    let cluster = options().start();
    let make = |name: &str| {
        let ask = cluster.ask(Method::POST, "/triggers").header("Idempotency-Key", "one");
        ask.json(&json!({"event": "on_store", "action": "notify", "name": name})).send()
    };
    let first = make("greets").await;
    assert_eq!(first.status, 201);
    let told = cluster.create(&json!({"label": "x"})).await;
    assert_eq!(told["trigger_notifications"].as_array().unwrap().len(), 1);
    cluster.kill_node();
    let _node = cluster.serve();
    cluster.ready().await;
    let second = make("greets").await;
    assert_eq!((second.status, &second.body["id"]), (first.status, &first.body["id"]));
    assert_eq!(second.body["fire_count"], 1, "as it is now");
    let told = cluster.create(&json!({"label": "y"})).await;
    assert_eq!(told["trigger_notifications"].as_array().unwrap().len(), 1);
    let other = make("another").await;
    assert_eq!(
        (other.status.as_u16(), &other.body["error"]),
        (422, &json!("idempotency_key_reused"))
    );
    // A key means one request only, memories included.
    let memory = cluster.ask(Method::POST, "/agent/nodes").header("Idempotency-Key", "one");
    assert_eq!(memory.json(&json!({"label": "z"})).send().await.status, 422);
    let path = format!("/triggers/{}", first.body["id"].as_str().unwrap());
    assert_eq!(cluster.ask(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(make("greets").await.body, json!({"id": first.body["id"], "deleted": true}));
    assert_eq!(cluster.ask(Method::GET, "/triggers").send().await.ok()["items"], json!([]));
}

#[tokio::test]
async fn deletes_and_updates_are_repeatable_and_survive_a_restart() {
    let cluster = options().start();
    let memory = cluster.create(&json!({"label": "x"})).await;
    let path = format!("/agent/nodes/{}", memory["id"].as_str().unwrap());
    let patch = || {
        let ask = cluster.ask(Method::PATCH, &path).header("Idempotency-Key", "patch");
        ask.json(&json!({"is_pinned": true})).send()
    };
    let first = patch().await.ok();
    cluster.kill_node();
    let _node = cluster.serve();
    cluster.ready().await;
    let second = patch().await.ok();
    assert_eq!(first["updated_at"], second["updated_at"], "the second one did nothing");
    let delete = || cluster.ask(Method::DELETE, &path).header("Idempotency-Key", "gone").send();
    assert_eq!(delete().await.status, 200);
    assert_eq!(delete().await.status, 200);
    assert_eq!(cluster.ask(Method::DELETE, &path).send().await.status, 404);
}
