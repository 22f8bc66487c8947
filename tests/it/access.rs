//! A key that is denied a namespace reads nothing of it and changes nothing in it, whatever
//! operation of docs/openapi.json it sends to whichever node.

use super::*;

/// A word that every closed memory has, and no other.
const SECRET: &str = "Zanzibar";

/// The closed memories, without the heats that cool.
async fn closed(cluster: &Cluster) -> Vec<Value> {
    let list = cluster.get("/agent/nodes?namespace=closed&sort=created_at").await;
    let mut items = array(&list["items"]).clone();
    for item in &mut items {
        for cooling in ["heat", "current_heat"] {
            item.as_object_mut().unwrap().remove(cooling);
        }
    }
    items
}

/// Bodies for an operation that name closed memories and the closed namespace.
fn bodies(document: &Document, operation: &Value, ids: &[String]) -> Vec<Value> {
    let schema = document.body(operation);
    if schema.is_null() {
        return vec![Value::Null];
    }
    let plain = document.sample(schema, &mut ids.iter());
    let mut all = vec![plain.clone()];
    for (name, value) in [
        ("namespace", json!("closed")),
        ("namespace", json!("*")),
        ("query", json!(SECRET)),
        ("memory_type", json!("episodic")),
        ("key_points", json!(["treasure"])),
        ("label", json!("I have the treasure")),
    ] {
        if !document.resolved(schema)["properties"][name].is_null() {
            let mut body = plain.clone();
            body[name] = value;
            all.push(body);
        }
    }
    all
}

/// Creates three closed memories and an open one, related, with triggers that fired for a closed
/// one. Returns the ids of the closed ones, and of the open one.
async fn fill(cluster: &Cluster) -> (Vec<String>, String) {
    let store = async |label: &str, namespace: &str| {
        let body = json!({ "label": label, "namespace": namespace, "key_points": ["treasure"] });
        cluster.store(&body).await
    };
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(store(&format!("{SECRET} {number} keeps the treasure"), "closed").await);
    }
    let open = store("an open memory", "open").await;
    for id in &ids {
        let edge = json!({ "source_id": open, "target_id": id });
        cluster.post("/agent/graph/relate", &edge).await;
    }
    for action in ["notify", "tag"] {
        cluster.post("/triggers", &json!({ "event": "on_boost", "action": action })).await;
    }
    let path = format!("/agent/nodes/{}", ids[0]);
    for heat in [0.3, 0.4] {
        cluster.patch(&path, &json!({ "current_heat": heat })).await;
    }
    (ids, open)
}

/// Sends a request in all its forms to all nodes; no response may contain the secret.
async fn assert_secret(
    cluster: &Cluster,
    key: &Value,
    (method, path): (&Method, &str),
    body: &Value,
) {
    let index = cluster.status().await.unwrap()["applied_index"].to_string();
    for (query, header) in [
        ("", ""),
        ("?namespace=closed", ""),
        ("?namespace=*&search=treasure&depth=3", ""),
        ("", "closed"),
    ] {
        for node in cluster.nodes() {
            let path = format!("{path}{query}");
            let mut request = node.request_as(key, method.clone(), &path);
            request = request.header("X-Hearth-Min-Index", &index);
            if !header.is_empty() {
                request = request.header("X-Namespace", header);
            }
            let response = request.json(body).send().await;
            let text = response.body.to_string();
            assert!(!text.contains(SECRET), "{method} {path} {body}: {text}");
            assert_ne!(response.status, StatusCode::INTERNAL_SERVER_ERROR, "{text}");
        }
    }
}

#[tokio::test]
async fn no_operation_reveals_or_changes_closed_memories() {
    let cluster = options().nodes(3).start();
    let key = denied_key(&cluster).await;
    let (ids, open) = fill(&cluster).await;
    let before = closed(&cluster).await;
    assert_eq!(before.len(), 3);
    let document = Document::committed();
    for (method, path, operation) in document.operations() {
        let Some(path) = path.strip_prefix("/api/v1") else { continue };
        // The event stream has no end: events.rs reads it.
        if path == "/events" {
            continue;
        }
        for in_path in [&ids[0], &open] {
            let path = path.replace("{id}", in_path);
            for body in bodies(&document, operation, &ids) {
                assert_secret(&cluster, &key, (&method, &path), &body).await;
            }
        }
    }
    assert_eq!(closed(&cluster).await, before);
}

#[tokio::test]
async fn automatic_edges_reveal_no_closed_memory() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let label = "the treasure lies in Zanzibar";
    let memory = json!({ "label": label, "namespace": "closed", "key_points": ["treasure"] });
    cluster.create(&memory).await;
    let guess = json!({ "label": label, "key_points": ["treasure"] });
    let request = |method, path: &str| cluster.request_as(&key, method, path);
    let stored = request(Method::POST, "/agent/nodes").json(&guess).send().await.ok();
    assert_eq!(cluster.get("/agent/graph/status").await["total_edges"], 0);
    let activity = request(Method::GET, "/activity").send().await.ok();
    assert!(!activity.to_string().contains("edge.add"), "{activity}");

    // More closed memories, and a key with access to them, change none of the edges.
    for _ in 0..10 {
        cluster.create(&memory).await;
    }
    let edges = cluster.get("/agent/graph/status").await["total_edges"].as_u64();
    let both = json!({ "label": label, "key_points": ["treasure"] });
    let both = cluster.store(&both).await;
    let edge = json!({ "source_id": both, "target_id": closed(&cluster).await[0]["id"] });
    cluster.post("/agent/graph/relate", &edge).await;
    let all = cluster.get("/agent/graph/status").await["total_edges"].as_u64();
    assert_eq!(all, edges.map(|edges| edges + 3), "two automatic ones, to the open memory");
    let path = format!("/agent/graph/neighbors/{both}");
    let found = request(Method::GET, &path).send().await.ok();
    let neighbours: Vec<_> = array(&found["neighbors"]).iter().map(id).collect();
    assert_eq!(neighbours, [id(&stored)]);
    let verified = request(Method::GET, &path.replace("neighbors", "verify")).send().await.ok();
    assert_fields(&verified, json!({ "edges": 2, "verified": true }));
    let activity = request(Method::GET, "/activity?limit=100").send().await.ok();
    let edges = array(&activity["items"]).iter().filter(|item| item["action"] == "edge.add");
    assert_eq!(edges.count(), 2, "{activity}");
}

/// A request by an id: method, path and body, with `ID` for the id and `OPEN` for an open memory.
type ById = (Method, &'static str, Value);

/// Every operation that names memories by id.
fn by_memory() -> Vec<ById> {
    let (edge, back) = (
        json!({ "source_id": "OPEN", "target_id": "ID" }),
        json!({ "source_id": "ID", "target_id": "OPEN" }),
    );
    let ids = json!({ "ids": ["ID"] });
    let with = |name: &str, value: &str| json!({ "ids": ["ID"], name: value });
    vec![
        (Method::GET, "/agent/nodes/ID", Value::Null),
        (Method::PATCH, "/agent/nodes/ID", json!({ "is_pinned": true })),
        (Method::PATCH, "/agent/nodes/ID", json!({ "namespace": "open", "label": "mine" })),
        (Method::PATCH, "/agent/nodes/ID", json!({ "namespace": "closed" })),
        (Method::DELETE, "/agent/nodes/ID", Value::Null),
        (Method::POST, "/agent/nodes/ID/feedback", json!({ "signal": "wrong" })),
        (Method::POST, "/feedback", json!({ "node_id": "ID", "signal": "relevant" })),
        (Method::POST, "/agent/graph/relate", edge.clone()),
        (Method::POST, "/agent/graph/relate", back.clone()),
        (Method::DELETE, "/agent/graph/relate", edge),
        (Method::DELETE, "/agent/graph/relate", back),
        (Method::GET, "/agent/graph/neighbors/ID", Value::Null),
        (Method::GET, "/agent/graph/verify/ID", Value::Null),
        (Method::POST, "/triggers/evaluate", json!({ "event": "on_store", "node_id": "ID" })),
        (Method::POST, "/agent/nodes/bulk-patch", with("label", "mine")),
        (Method::POST, "/agent/nodes/bulk", ids.clone()),
        (Method::POST, "/agent/nodes/bulk", with("memory_type", "moment")),
        (Method::POST, "/agent/nodes/bulk", with("namespace", "open")),
        (Method::POST, "/agent/restore", ids),
    ]
}

/// Every operation that names triggers by id.
fn by_trigger() -> Vec<ById> {
    vec![
        (Method::GET, "/triggers/ID", Value::Null),
        (Method::PATCH, "/triggers/ID", json!({ "enabled": false })),
        (Method::PATCH, "/triggers/ID", json!({ "action_config": { "url": "https://a.example" } })),
        (Method::PATCH, "/triggers/ID", json!({ "namespace": "closed" })),
        (Method::DELETE, "/triggers/ID", Value::Null),
        (Method::GET, "/triggers/history?trigger_id=ID", Value::Null),
    ]
}

/// Asserts that a key gets the same responses for an id that is closed to it and one that does not
/// exist: 404, except where each id has a result of its own.
async fn assert_hidden(
    cluster: &Cluster,
    key: &Value,
    requests: Vec<ById>,
    (closed, open): (&str, &str),
) {
    for (method, path, body) in requests {
        let mut responses = Vec::new();
        for named in [closed, "0192d3a4-5b6c-7def-8123-456789abcdef"] {
            let body = body.to_string().replace("ID", named).replace("OPEN", open);
            let body = serde_json::from_str(&body).unwrap();
            let request = cluster.request_as(key, method.clone(), &path.replace("ID", named));
            let mut response = request.json(&body).send().await;
            if response.status.is_client_error() {
                response.body["request_id"].take();
            }
            let is_of_many =
                path.contains("bulk") || path.contains('?') || path.contains("restore");
            assert!(is_of_many || response.status == 404, "{method} {path}: {}", response.body);
            let text = response.body.to_string();
            assert!(!text.contains("namespace"), "{method} {path}: {text}");
            responses.push((response.status, text.replace(named, "ID")));
        }
        assert_eq!(responses[0], responses[1], "{method} {path} {body}");
    }
}

#[tokio::test]
async fn closed_ids_look_like_unknown_ids() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let (ids, open) = fill(&cluster).await;
    // A locked memory, whose deletion is rejected for another reason.
    cluster.patch(&format!("/agent/nodes/{}", ids[1]), &json!({ "is_locked": true })).await;
    for closed in &ids[..2] {
        assert_hidden(&cluster, &key, by_memory(), (closed, &open)).await;
    }
    let hook = json!({ "url": "https://hooks.example" });
    let trigger = create_webhook(&cluster, hook, None).await;
    assert_hidden(&cluster, &key, by_trigger(), (id(&trigger), &open)).await;
    // A repeated write finds a memory that has moved as a deleted one.
    let repeat = || {
        let request = cluster.request_as(&key, Method::POST, "/agent/nodes");
        request.header("Idempotency-Key", "once").json(&json!({ "label": "it moves" })).send()
    };
    let moved = id(&repeat().await.ok()).to_owned();
    cluster.patch(&format!("/agent/nodes/{moved}"), &json!({ "namespace": "closed" })).await;
    assert_eq!(repeat().await.ok(), json!({ "id": moved, "deleted": true }));
}

/// Names whose values change with time, or with the requests of the key itself.
const MOVING: [&str; 7] = [
    "request_id",
    "heat",
    "current_heat",
    "score",
    "average_heat",
    "applied_index",
    "last_recalled_at",
];

fn remove_moving(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !MOVING.contains(&name.as_str()));
            fields.values_mut().for_each(remove_moving);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_moving),
        _ => {}
    }
}

/// The responses to all reads without an id, by path.
async fn all_reads(cluster: &Cluster, key: &Value) -> Vec<(String, StatusCode, Value)> {
    let document = Document::committed();
    let gets = document.operations().filter(|(method, path, _)| {
        *method == Method::GET && !path.contains("{id}") && !path.ends_with("/events")
    });
    let paths = gets.filter_map(|(method, path, _)| Some((method, path.strip_prefix("/api/v1")?)));
    let posts = ["/agent/hot-context", "/settings/thermo/preview"].map(|path| (Method::POST, path));
    let mut responses = Vec::new();
    for (method, path) in paths.chain(posts) {
        let request = cluster.request_as(key, method, path);
        let mut response = request.json(&json!({})).send().await;
        remove_moving(&mut response.body);
        responses.push((path.to_owned(), response.status, response.body));
    }
    responses
}

#[tokio::test]
async fn counts_and_lists_cover_open_memories_only() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let open = cluster.store(&json!({ "label": "an open memory", "namespace": "open" })).await;
    let activity = json!({ "action": "read", "target_label": "own" });
    cluster.request_as(&key, Method::POST, "/activity").json(&activity).send().await.ok();
    let before = all_reads(&cluster, &key).await;
    let (ids, _) = fill(&cluster).await;
    cluster.delete(&format!("/agent/nodes/{}", ids[1])).await;
    cluster.post("/agent/graph/relate", &json!({ "source_id": open, "target_id": ids[0] })).await;
    cluster.post("/feedback", &json!({ "node_id": ids[0], "signal": "wrong" })).await;
    let metadata = json!({ "text": SECRET });
    let activity = json!({ "action": "read", "target_label": SECRET, "metadata": metadata });
    cluster.post("/activity", &activity).await;
    let searches = json!({ "query": SECRET, "namespace": "closed" });
    cluster.post("/agent/search", &searches).await;
    let analytics = async || cluster.get("/analytics/recall").await;
    eventually("the search is counted", analytics, |found| found["searches"] == 1).await;
    // Another open memory of `fill` is the only difference.
    let other = cluster.get("/agent/nodes?namespace=open&sort=created_at").await;
    cluster.delete(&format!("/agent/nodes/{}", id(&other["items"][0]))).await;
    let after = all_reads(&cluster, &key).await;
    for (before, after) in before.iter().zip(&after) {
        if before.0 != "/activity" {
            assert_eq!(before, after);
        }
    }
    let activity = after.iter().find(|(path, ..)| path == "/activity").unwrap().2.to_string();
    assert!(activity.contains("own") && !activity.contains(SECRET), "{activity}");
    let closed = before.iter().filter(|(path, status, _)| {
        let is_admin =
            path.starts_with("/admin") || ["/keys", "/namespaces/acl"].contains(&path.as_str());
        *status == 403 && !is_admin
    });
    let closed: Vec<_> = closed.map(|(path, ..)| path.as_str()).collect();
    let expected =
        ["/agent/graph/status", "/agent/recall-analytics", "/analytics/recall", "/metrics"];
    assert_eq!(closed, expected);
    let preview = &before.last().unwrap().2["types"][0];
    assert_eq!(preview["total"], 1);
}

#[tokio::test]
async fn scores_depend_on_open_memories_only() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    for label in ["a red fox", "a blue fox"] {
        let memory =
            json!({ "label": label, "namespace": "open", "decay_class": "permanent", "heat": 1 });
        cluster.store(&memory).await;
    }
    let search = async || {
        let request = cluster.request_as(&key, Method::POST, "/agent/search");
        let body = json!({ "query": "red fox", "namespace": "*", "explain": true });
        request.json(&body).send().await.ok()
    };
    let before = search().await;
    for _ in 0..20 {
        cluster.store(&json!({ "label": "red red fox", "namespace": "closed" })).await;
    }
    let after = search().await;
    assert_eq!(array(&before).len(), 2);
    for (before, after) in array(&before).iter().zip(array(&after)) {
        assert_eq!(before["score"], after["score"]);
        assert_eq!(before["explain"], after["explain"]);
    }
}

#[tokio::test]
async fn own_namespace_of_a_key_must_be_open() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let put = |namespace: &str| {
        let request = cluster.request_as(&key, Method::PUT, "/namespaces/default");
        request.json(&json!({ "namespace": namespace })).send()
    };
    put("closed").await.assert_error(403, "namespace_forbidden");
    assert_eq!(put("open").await.ok()["namespace"], "open");
}
