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

    // A key with access to both namespaces creates edges to both memories.
    let both = cluster.store(&json!({ "label": label, "namespace": "open" })).await;
    assert_eq!(cluster.get("/agent/graph/status").await["total_edges"], 2);
    let path = format!("/agent/graph/neighbors/{both}");
    let found = request(Method::GET, &path).send().await.ok();
    let neighbours: Vec<_> = array(&found["neighbors"]).iter().map(id).collect();
    assert_eq!(neighbours, [id(&stored)]);
    let verified = request(Method::GET, &path.replace("neighbors", "verify")).send().await.ok();
    assert_fields(&verified, json!({ "edges": 1, "verified": true }));
    let activity = request(Method::GET, "/activity?limit=100").send().await.ok();
    let edges = array(&activity["items"]).iter().filter(|item| item["action"] == "edge.add");
    assert_eq!(edges.count(), 1, "{activity}");
}
