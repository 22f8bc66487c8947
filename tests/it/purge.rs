//! A purge deletes the memories of a namespace or of an agent for good. The rows, the indexes, the
//! journal, the deliveries and the receipts hold nothing of them.

use super::*;

const COUNTS: [&str; 5] = ["memories", "edges", "events", "deliveries", "receipts"];

async fn purge(node: &Node, body: &Value) -> Value {
    node.post("/admin/purge", body).await
}

fn counts(report: &Value) -> Vec<u64> {
    COUNTS.map(|count| report[count].as_u64().expect(count)).to_vec()
}

/// Whether a row of the tenant tells of `word`: all pages of all that can be read.
async fn mentions(node: &Node, word: &str) -> Vec<&'static str> {
    let paths = [
        "/agent/nodes?limit=100",
        "/activity?limit=100",
        "/triggers/history?limit=200",
        "/triggers/deliveries?limit=200",
        "/admin/visualize/graph",
        "/admin/hygiene",
        "/admin/audit?limit=100",
    ];
    let mut found = Vec::new();
    for path in paths {
        let separator = if path.contains('?') { '&' } else { '?' };
        let body = node.get(&format!("{path}{separator}consistency=linearizable")).await;
        if body.to_string().contains(word) {
            found.push(path);
        }
    }
    let search = json!({"query": word, "tier": "all", "min_score": 0});
    if node.post("/agent/search", &search).await.to_string().contains(word) {
        found.push("search");
    }
    found
}

#[tokio::test]
async fn purge_of_a_namespace_leaves_nothing() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    let kept = leader.store(&json!({"label": "kept"})).await;
    let webhook = json!({"event": "on_store", "action": "webhook",
        "action_config": {"url": "https://hooks.example/"}});
    create_trigger(&cluster, &webhook).await;
    let notify = json!({"event": "on_store", "action": "notify"});
    create_trigger(&cluster, &notify).await;
    let create = async |label: &str, key: &str| {
        let body = json!({"label": label, "namespace": "patient"});
        let request = leader.request(Method::POST, "/agent/nodes").header("Idempotency-Key", key);
        request.json(&body).send().await
    };
    let first = id(&create("zebra one", "one").await.ok()).to_owned();
    let second = id(&create("zebra two", "two").await.ok()).to_owned();
    let edge = json!({"source_id": first, "target_id": kept, "relation": "zebra_of"});
    leader.post("/agent/graph/relate", &edge).await;
    // The audit log has acts, and no texts: a purge cannot change it.
    let undone = json!({"source_id": second, "target_id": kept, "relation": "zebra_of"});
    leader.post("/agent/graph/relate", &undone).await;
    leader.request(Method::DELETE, "/agent/graph/relate").json(&undone).send().await.ok();
    let tags = json!({"ids": [second], "tags": ["zebra"]});
    leader.post("/agent/nodes/bulk-patch", &tags).await;
    leader.patch(&format!("/agent/nodes/{second}"), &json!({"is_locked": true})).await;
    let third = id(&create("zebra three", "three").await.ok()).to_owned();
    leader.request(Method::DELETE, &format!("/agent/nodes/{third}")).send().await.ok();
    let activity = json!({"action": "visit", "target_id": first, "target_label": "zebra"});
    leader.post("/activity", &activity).await;
    assert_eq!(mentions(rest, "zebra").await.len(), 5);
    // A dry run counts, and changes nothing.
    let dry = purge(rest, &json!({"namespace": "patient", "dry_run": true})).await;
    assert_eq!((dry["memories"].as_u64(), &dry["remaining"]), (Some(2), &Value::Null), "{dry}");
    assert!(counts(&dry).iter().all(|count| *count > 0), "{dry}");
    assert_eq!(mentions(rest, "zebra").await.len(), 5);
    let done = purge(rest, &json!({"namespace": "patient"})).await;
    assert_eq!(counts(&done), counts(&dry));
    assert_eq!(counts(&done["remaining"]), [0; 5]);
    converged(&cluster).await;
    for node in [leader, rest] {
        assert_eq!(mentions(node, "zebra").await, Vec::<&str>::new());
        assert_eq!(node.get("/agent/nodes").await["total"], 1);
    }
    // A repeated write does not bring a memory back.
    create("zebra one", "one").await.assert_error(422, "idempotency_key_reused");
    assert_equal_states(leader).await;
    // What happened is still in the activity.
    let activity = leader.get("/activity?limit=100").await;
    let deleted = array(&activity["items"]).iter().filter(|it| it["action"] == "memory.delete");
    assert_eq!(deleted.count(), 3, "{activity}");
}

#[tokio::test]
async fn purge_of_an_agent_spares_others() {
    let cluster = options().start();
    let key = cluster.post("/keys", &json!({"name": "leaver", "role": "agent"})).await;
    let label = |label: &str| json!({"label": label});
    let by_leaver = |path: &str, body: Value| {
        let request = cluster.request_as(&key, Method::POST, path);
        async move { request.json(&body).send().await.ok() }
    };
    by_leaver("/agent/nodes", label("okapi")).await;
    by_leaver("/agent/nodes", json!({"label": "okapi there", "namespace": "other"})).await;
    for label in ["gone okapi", "okapi that is gone"] {
        let gone = by_leaver("/agent/nodes", json!({ "label": label })).await;
        // One is deleted by another key.
        let path = format!("/agent/nodes/{}", id(&gone));
        let request = match label {
            "gone okapi" => cluster.request_as(&key, Method::DELETE, &path),
            _ => cluster.request(Method::DELETE, &path),
        };
        request.send().await.ok();
    }
    by_leaver("/activity", json!({"action": "okapi", "metadata": {"of": "okapi"}})).await;
    let kept = cluster.store(&label("okapi too")).await;
    // Nothing fits both fields.
    let other = cluster.post("/keys", &json!({"name": "other", "role": "agent"})).await;
    let none = purge(&cluster, &json!({"agent": "leaver", "key_id": id(&other)})).await;
    assert_eq!(counts(&none), [0; 5]);
    let done = purge(&cluster, &json!({"agent": "leaver", "namespace": "other"})).await;
    assert_eq!((&done["memories"], &done["remaining"]["memories"]), (&json!(1), &json!(0)));
    let done = purge(&cluster, &json!({"agent": "leaver"})).await;
    assert_eq!((&done["memories"], counts(&done["remaining"])), (&json!(1), vec![0; 5]));
    let left = cluster.get("/agent/nodes").await;
    assert_eq!(array(&left["items"]).iter().map(id).collect::<Vec<_>>(), [kept]);
    let activity = cluster.get("/activity?limit=100").await.to_string();
    assert!(!activity.contains("okapi\"") && !activity.contains("okapi that"), "{activity}");
}

#[tokio::test]
async fn purge_must_name_what_goes() {
    let cluster = options().start();
    cluster.store(&labelled("kept")).await;
    for body in [json!({}), json!({"namespace": "*"}), json!({"dry_run": false})] {
        let request = cluster.request(Method::POST, "/admin/purge").json(&body);
        request.send().await.assert_error(400, "invalid_field");
    }
    let none = purge(&cluster, &json!({"key_id": "0123456789abcdef"})).await;
    assert_eq!(counts(&none), [0; 5]);
    assert_eq!(cluster.get("/agent/nodes").await["total"], 1);
}
