//! A write that is repeated under the same `Idempotency-Key` is done once.

use super::*;

#[tokio::test]
async fn repeated_create_returns_the_first_memory() {
    let cluster = options().start();
    let create = |label: &str| {
        let request = cluster.request(Method::POST, "/agent/nodes");
        request.header("Idempotency-Key", "one").json(&json!({"label": label})).send()
    };
    let first = create("once").await;
    let second = create("once").await;
    assert_eq!((first.status, second.status), (StatusCode::CREATED, first.status));
    assert_eq!(first.body["id"], second.body["id"]);
    create("another").await.assert_error(422, "idempotency_key_reused");
    cluster.delete(&format!("/agent/nodes/{}", id(&first.body))).await;
    let after = create("once").await;
    assert_eq!(after.body, json!({"id": first.body["id"], "deleted": true}));
    assert_eq!(cluster.get("/agent/nodes").await["total"], 0);
}

#[tokio::test]
async fn repeated_trigger_is_created_once() {
    let cluster = options().start();
    let make = |name: &str| {
        let request = cluster.request(Method::POST, "/triggers").header("Idempotency-Key", "one");
        request.json(&json!({"event": "on_store", "action": "notify", "name": name})).send()
    };
    let first = make("greets").await;
    assert_eq!(first.status, 201);
    let stored = cluster.create(&json!({"label": "x"})).await;
    assert_eq!(array(&stored["trigger_notifications"]).len(), 1);
    cluster.crash().await;
    let second = make("greets").await;
    assert_eq!((second.status, &second.body["id"]), (first.status, &first.body["id"]));
    assert_eq!(second.body["fire_count"], 1, "its current state");
    let stored = cluster.create(&json!({"label": "y"})).await;
    assert_eq!(array(&stored["trigger_notifications"]).len(), 1);
    make("another").await.assert_error(422, "idempotency_key_reused");
    // A key identifies one request across all operations.
    let memory = cluster.request(Method::POST, "/agent/nodes").header("Idempotency-Key", "one");
    assert_eq!(memory.json(&json!({"label": "z"})).send().await.status, 422);
    let path = format!("/triggers/{}", id(&first.body));
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 204);
    assert_eq!(make("greets").await.body, json!({"id": first.body["id"], "deleted": true}));
    assert_eq!(cluster.get("/triggers").await["items"], json!([]));
}

#[tokio::test]
async fn repeated_writes_survive_a_restart() {
    let cluster = options().start();
    let memory = cluster.create(&json!({"label": "x"})).await;
    let path = format!("/agent/nodes/{}", id(&memory));
    let patch = || {
        let request = cluster.request(Method::PATCH, &path).header("Idempotency-Key", "patch");
        request.json(&json!({"is_pinned": true})).send()
    };
    let first = patch().await.ok();
    cluster.crash().await;
    let second = patch().await.ok();
    assert_eq!(first["updated_at"], second["updated_at"], "the second update has no effect");
    let delete = || cluster.request(Method::DELETE, &path).header("Idempotency-Key", "gone").send();
    assert_eq!(delete().await.status, 200);
    assert_eq!(delete().await.status, 200);
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 404);
}

#[tokio::test]
async fn idempotency_key_belongs_to_its_api_key() {
    let cluster = options().start();
    let other = cluster.post("/keys", &json!({"name": "other", "role": "agent"})).await;
    let create = |request: Request, label: &str| {
        let request = request.header("Idempotency-Key", "one");
        request.json(&json!({"label": label})).send()
    };
    let by_admin = || cluster.request(Method::POST, "/agent/nodes");
    let by_other = || cluster.request_as(&other, Method::POST, "/agent/nodes");
    let first = create(by_admin(), "of the admin").await;
    let second = create(by_other(), "of the other key").await;
    assert_eq!((first.status, second.status), (StatusCode::CREATED, StatusCode::CREATED));
    assert_eq!(second.body["label"], "of the other key");
    assert_eq!(create(by_admin(), "of the admin").await.body["id"], first.body["id"]);
    assert_eq!(create(by_other(), "of the other key").await.body["id"], second.body["id"]);
    assert_eq!(cluster.get("/agent/nodes").await["total"], 2);
}

/// The first response had room for these memories. Then their labels grew.
#[tokio::test]
async fn repetition_omits_texts_that_have_grown() {
    let cluster = options().start();
    let nodes: Vec<_> = (0..50).map(labelled).collect();
    let nodes = json!({ "nodes": nodes });
    let create = async || {
        let request = cluster.request(Method::POST, "/agent/nodes/batch").json(&nodes);
        request.header("Idempotency-Key", "grown").send().await.ok()
    };
    let created = create().await;
    let ids: Vec<_> = array(&created["results"]).iter().map(id).collect();
    let label = "\u{1}".repeat(65_000);
    for id in &ids {
        cluster.patch(&format!("/agent/nodes/{id}"), &json!({ "label": label })).await;
    }
    let repeated = create().await;
    let results = array(&repeated["results"]);
    let (whole, omitted) = results.split_at(8);
    assert!(whole.iter().all(|memory| memory["label"] == label));
    for (memory, id) in omitted.iter().zip(&ids[8..]) {
        assert_eq!(memory, &json!({ "id": id, "status": "created", "too_long": true }));
    }
    assert_eq!(results.len(), 50);
}
