//! A namespace that is closed to a key is closed on every path: whatever operation of
//! docs/openapi.json it sends to whichever node, it learns nothing of what lies there, and
//! changes nothing of it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::Cluster;

use crate::document::Document;
use crate::options;

/// A word of every closed memory, and of none else.
const SECRET: &str = "Zanzibar";

/// What an outsider must not change of closed memories.
async fn closed(cluster: &Cluster) -> Vec<Value> {
    let list = cluster.ask(Method::GET, "/agent/nodes?namespace=closed&sort=created_at");
    let mut items = list.send().await.ok()["items"].take();
    for item in items.as_array_mut().unwrap() {
        for cooling in ["heat", "current_heat"] {
            item.as_object_mut().unwrap().remove(cooling);
        }
    }
    items.as_array().unwrap().clone()
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
        ("label", json!("somebody keeps the treasure")),
    ] {
        if !document.resolved(schema)["properties"][name].is_null() {
            let mut body = plain.clone();
            body[name] = value;
            all.push(body);
        }
    }
    all
}

#[tokio::test]
async fn a_closed_namespace_is_closed_to_every_operation_on_every_node() {
    let cluster = options().nodes(3).start();
    let post = async |path: &str, body: Value| {
        cluster.ask(Method::POST, path).json(&body).send().await.ok()
    };
    let key = post("/keys", json!({ "name": "outsider", "role": "agent" })).await;
    let bearer = format!("Bearer {}", key["key"].as_str().unwrap());
    post(
        "/namespaces/acl",
        json!({ "agent_id": "outsider", "namespace": "closed", "policy": "deny" }),
    )
    .await;
    let store = async |label: &str, namespace: &str| {
        let body = json!({ "label": label, "namespace": namespace, "key_points": ["treasure"] });
        post("/agent/nodes", body).await["id"].as_str().unwrap().to_owned()
    };
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.push(store(&format!("{SECRET} {number} keeps the treasure"), "closed").await);
    }
    let open = store("an open memory", "open").await;
    for id in &ids {
        let edge = json!({ "source_id": open, "target_id": id });
        post("/agent/graph/relate", edge).await;
    }
    // What fires for closed memories is not told either.
    for action in ["notify", "tag"] {
        let trigger = json!({ "event": "on_boost", "action": action });
        post("/triggers", trigger).await;
    }
    let path = format!("/agent/nodes/{}", ids[0]);
    for heat in [0.3, 0.4] {
        let heat = json!({ "current_heat": heat });
        cluster.ask(Method::PATCH, &path).json(&heat).send().await.ok();
    }
    let before = closed(&cluster).await;
    assert_eq!(before.len(), 3);
    let index = cluster.at(0).status().await.unwrap()["applied_index"].as_u64().unwrap();
    let document = Document::committed();
    for (method, path, operation) in document.operations() {
        // The event stream has no end: `events.rs` reads what it tells.
        if !path.starts_with("/api/v1/") || path == "/api/v1/events" {
            continue;
        }
        for in_path in [&ids[0], &open] {
            let path = path.replace("{id}", in_path);
            for body in bodies(&document, operation, &ids) {
                for (query, header) in [
                    ("", ""),
                    ("?namespace=closed", ""),
                    ("?namespace=*&search=treasure&depth=3", ""),
                    ("", "closed"),
                ] {
                    for node in cluster.nodes() {
                        let mut ask = node.ask_bare(method.clone(), &format!("{path}{query}"));
                        ask = ask.header("Authorization", &bearer);
                        ask = ask.header("X-Hearth-Min-Index", &index.to_string());
                        if !header.is_empty() {
                            ask = ask.header("X-Namespace", header);
                        }
                        let answer =
                            if body.is_null() { ask } else { ask.json(&body) }.send().await;
                        let told = answer.body.to_string();
                        assert!(!told.contains(SECRET), "{method} {path}{query} {body}: {told}");
                        assert_ne!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{told}");
                    }
                }
            }
        }
    }
    assert_eq!(closed(&cluster).await, before);
}

#[tokio::test]
async fn an_automatic_edge_tells_nothing_of_a_closed_namespace() {
    let cluster = options().start();
    let post = async |path: &str, body: Value| {
        cluster.ask(Method::POST, path).json(&body).send().await.ok()
    };
    let key = post("/keys", json!({ "name": "outsider", "role": "agent" })).await;
    let bearer = format!("Bearer {}", key["key"].as_str().unwrap());
    post(
        "/namespaces/acl",
        json!({ "agent_id": "outsider", "namespace": "closed", "policy": "deny" }),
    )
    .await;
    let memory = json!({ "label": "the treasure lies in Zanzibar", "namespace": "closed", "key_points": ["treasure"] });
    post("/agent/nodes", memory).await;
    let guess = json!({ "label": "the treasure lies in Zanzibar", "key_points": ["treasure"] });
    let ask = |method, path: &str| {
        cluster.ask_bare(method, &format!("/api/v1{path}")).header("Authorization", &bearer)
    };
    let stored = ask(Method::POST, "/agent/nodes").json(&guess).send().await.ok();
    let id = stored["id"].as_str().unwrap();
    let status = cluster.ask(Method::GET, "/agent/graph/status").send().await.ok();
    assert_eq!(status["total_edges"], 0);
    let activity = ask(Method::GET, "/activity").send().await.ok();
    assert!(!activity.to_string().contains("edge.add"), "{activity}");

    // Whoever may see both is told.
    let both = post(
        "/agent/nodes",
        json!({ "label": "the treasure lies in Zanzibar", "namespace": "open" }),
    )
    .await;
    let status = cluster.ask(Method::GET, "/agent/graph/status").send().await.ok();
    assert_eq!(status["total_edges"], 2, "{both}");
    let path = format!("/agent/graph/neighbors/{}", both["id"].as_str().unwrap());
    let found = ask(Method::GET, &path).send().await.ok();
    let neighbours: Vec<_> =
        found["neighbors"].as_array().unwrap().iter().map(|n| &n["id"]).collect();
    assert_eq!(neighbours, [&json!(id)]);
    let verified = ask(Method::GET, &path.replace("neighbors", "verify")).send().await.ok();
    assert_eq!((&verified["edges"], &verified["verified"]), (&json!(1), &json!(true)));
    let activity = ask(Method::GET, "/activity?limit=100").send().await.ok();
    let edges =
        activity["items"].as_array().unwrap().iter().filter(|item| item["action"] == "edge.add");
    assert_eq!(edges.count(), 1, "{activity}");
}
