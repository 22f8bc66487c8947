//! Keys that use up the receipts of their tenant.

use std::time::Duration;

use super::*;

/// Writes `count` times with new idempotency keys, without an effect. Returns the statuses.
async fn write_nothing(cluster: &Cluster, key: &Value, path: &str, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in 0..count {
        let request = cluster.request_as(key, Method::PATCH, path);
        let request = request.header("Idempotency-Key", &format!("nothing {number}"));
        let response = request.json(&json!({"is_pinned": false})).send().await;
        statuses.push(response.status.as_u16());
    }
    statuses
}

/// Creates a memory with an idempotency key, and returns its id.
async fn create(cluster: &Cluster, idempotency_key: usize) -> String {
    let request = cluster.request(Method::POST, "/agent/nodes");
    let request = request.header("Idempotency-Key", &format!("create {idempotency_key}"));
    let response = request.json(&json!({"label": "x"})).send().await;
    assert_eq!(response.status, StatusCode::CREATED, "{}", response.body);
    id(&response.body).to_owned()
}

#[tokio::test]
async fn oldest_receipts_make_room() {
    // A tenant keeps 400 receipts, and a key 200 of them. Receipts make room after 1 µs.
    let points = "receipts-max=return(400);receipt-age-min=return(1)";
    let cluster = options().nodes(3).env("FAILPOINTS", points).start();
    let mut ids = Vec::new();
    for number in 0..300 {
        ids.push(create(&cluster, number).await);
    }
    for (number, id) in ids.iter().enumerate().skip(200) {
        assert_eq!(&create(&cluster, number).await, id, "the newest are kept");
    }
    assert_ne!(create(&cluster, 0).await, ids[0], "the oldest is removed");
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn old_receipts_of_any_key_make_room() {
    // A tenant keeps 40 receipts. They make room after 2 s.
    const AGE: Duration = Duration::from_millis(2_500);
    let points = "receipts-max=return(40);receipt-age-min=return(2000000)";
    let cluster = options().env("FAILPOINTS", points).start();
    let path = format!("/agent/nodes/{}", cluster.store(&json!({"label": "x"})).await);
    let mut keys = Vec::new();
    for name in ["old", "large", "writing"] {
        keys.push(cluster.post("/keys", &json!({"name": name, "role": "agent"})).await);
    }
    assert_eq!(write_nothing(&cluster, &keys[0], &path, 10).await, [200; 10]);
    tokio::time::sleep(AGE).await;
    assert_eq!(write_nothing(&cluster, &keys[1], &path, 20).await, [200; 20]);
    assert_eq!(write_nothing(&cluster, &keys[2], &path, 15).await, [200; 15]);
}

#[tokio::test]
async fn one_key_uses_up_only_its_own_receipts() {
    // A tenant keeps 40 receipts, and a key 20 of them.
    let cluster = options().env("FAILPOINTS", "receipts-max=return(40)").start();
    let attacker = cluster.post("/keys", &json!({"name": "attacker", "role": "agent"})).await;
    let path = format!("/agent/nodes/{}", cluster.store(&json!({"label": "x"})).await);
    let statuses = write_nothing(&cluster, &attacker, &path, 25).await;
    assert_eq!(statuses[..20], [200; 20]);
    assert_eq!(statuses[20..], [429; 5], "all receipts of this key are younger than an hour");
    // Its earlier writes are still repeated without an effect.
    cluster.patch(&path, &json!({"is_pinned": true})).await;
    assert_eq!(write_nothing(&cluster, &attacker, &path, 20).await, [200; 20]);
    assert_eq!(cluster.get(&path).await["is_pinned"], true);
    for number in 0..10 {
        let request = cluster.request(Method::POST, "/agent/nodes");
        let request = request.header("Idempotency-Key", &format!("nothing {number}"));
        let response = request.json(&json!({"label": "of another key"})).send().await;
        assert_eq!(response.status, StatusCode::CREATED, "{}", response.body);
    }
}
