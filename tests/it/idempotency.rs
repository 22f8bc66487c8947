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

/// A request twice under one key. Returns both bodies.
async fn twice(cluster: &Cluster, method: Method, path: &str, body: &Value) -> [Response; 2] {
    let send = || {
        let request = cluster.request(method.clone(), path).header("Idempotency-Key", path);
        request.json(body).send()
    };
    [send().await, send().await]
}

/// Those that would do something a second time.
#[tokio::test]
async fn writes_of_every_kind_are_done_once() {
    let cluster = options().start();
    let (one, two) = (cluster.store(&labelled("one")).await, cluster.store(&labelled("two")).await);
    let (edge, feedback) = (
        json!({"source_id": one, "target_id": two, "relation": "near"}),
        json!({"node_id": one, "signal": "outdated"}),
    );
    let activity = json!({"action": "noted", "target_label": "once"});
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    for (method, path, body) in [
        (Method::POST, "/feedback", &feedback),
        (Method::POST, "/agent/graph/relate", &edge),
        (Method::POST, "/namespaces/acl", &rule),
        (Method::PATCH, "/settings/thermo", &json!({"recall": {"heat_weight": 0.5}})),
        (Method::POST, "/activity", &activity),
        (Method::POST, &format!("/agent/nodes/{two}/boost"), &json!({"strength": 0.2})),
    ] {
        let [first, second] = twice(&cluster, method, path, body).await;
        assert!(first.status.is_success(), "{path}: {}", first.body);
        assert_eq!((second.status, &second.body), (first.status, &first.body), "{path}");
        let again = cluster.request(Method::POST, "/agent/nodes").header("Idempotency-Key", path);
        let again = again.json(&labelled("another request")).send().await;
        again.assert_error(422, "idempotency_key_reused");
    }
    let delete = format!("/agent/nodes/{one}");
    let [first, second] = twice(&cluster, Method::DELETE, &delete, &json!({})).await;
    assert_eq!((first.status, second.status), (StatusCode::OK, StatusCode::OK));
    for (path, body) in [("/keys", json!({"name": "new"}))] {
        let [first, _] = twice(&cluster, Method::POST, path, &body).await;
        first.assert_error(400, "idempotency_unsupported");
    }
    assert_eq!(array(&cluster.get("/keys").await["keys"]).len(), 1);
    let tenant = cluster.ops_request(Method::POST, "/cluster/tenants").json(&json!({"name": "b"}));
    let tenant = tenant.header("Idempotency-Key", "one").send().await;
    tenant.assert_error(400, "idempotency_unsupported");
}

#[tokio::test]
async fn tools_and_imports_are_done_once() {
    let cluster = options().start();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params":
        {"name": "sulcus_remember", "arguments": {"content": "once by a tool"}}});
    let remember = || {
        let request = cluster.client.post(format!("{}/mcp", cluster.url())).json(&call);
        Request(request.bearer_auth(&cluster.key)).header("Idempotency-Key", "tool").send()
    };
    let [first, second] = [remember().await, remember().await];
    let id =
        |response: &Response| response.body["result"]["structuredContent"]["memory_id"].clone();
    assert!(id(&first).is_string(), "{}", first.body);
    assert_eq!(id(&first), id(&second));
    let line = json!({"memory": {"id": "01a22110-5bc3-75b7-a596-c83491ee9caa",
        "label": "once by an import"}})
    .to_string();
    for created in [1, 0] {
        let request = cluster.request(Method::POST, "/import").header("Idempotency-Key", "file");
        let done = request.raw(line.as_str()).send().await.ok();
        assert_eq!(done["created"], created, "{done}");
    }
    assert_eq!(cluster.get("/agent/nodes").await["total"], 2);
}

/// A new operation cannot be forgotten: the document has the header on each write.
#[tokio::test]
async fn document_has_the_header_on_every_write() {
    let document: Value = serde_json::from_str(include_str!("../../docs/openapi.json")).unwrap();
    let mut writes = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let has = |name: &str| {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                parameters.into_iter().any(|parameter| parameter["name"] == name)
            };
            let is_read = method == "get" || has("X-Hearth-Consistency");
            assert_eq!(has("Idempotency-Key"), !is_read, "{method} {path}");
            writes += usize::from(!is_read);
        }
    }
    assert!(writes > 30, "{writes}");
}
