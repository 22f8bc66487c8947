//! Requests name the freshness that they need, and responses report the freshness that they have.

use reqwest::Method;
use serde_json::json;
use tests::id;

use crate::options;

#[tokio::test]
async fn reads_report_and_reach_an_index() {
    let cluster = options().start();
    let created =
        cluster.request(Method::POST, "/agent/nodes").json(&json!({"label": "x"})).send().await;
    let index = created.number("x-hearth-index");
    let path = format!("/agent/nodes/{}", id(&created.body));
    let read = cluster
        .request(Method::GET, &path)
        .header("X-Hearth-Min-Index", &index.to_string())
        .send()
        .await;
    assert!(read.number("x-hearth-index") >= index);
    assert_eq!(read.headers["x-hearth-consistency"], "local");
    assert_eq!(read.number("x-hearth-staleness-ms"), 0);
    let linearizable = cluster.request(Method::GET, &format!("{path}?consistency=linearizable"));
    let linearizable = linearizable.send().await;
    assert_eq!(linearizable.headers["x-hearth-consistency"], "linearizable");
    let status = cluster.bare_request(Method::GET, "/api/v1/status").send().await.ok();
    assert!(status["applied_index"].as_u64().unwrap() >= index);
}

#[tokio::test]
async fn unreachable_index_is_a_503() {
    let cluster = options().start();
    let request =
        cluster.request(Method::GET, "/agent/nodes").header("X-Hearth-Min-Index", "999999");
    let response = request.send().await;
    assert_eq!(response.status, 503);
    assert_eq!(response.body["error"], "index_not_reached");
    assert_eq!(response.headers["retry-after"], "1");
}

#[tokio::test]
async fn safe_request_ids_are_kept_and_others_replaced() {
    let cluster = options().start();
    let request =
        |id: &str| cluster.request(Method::GET, "/agent/nodes").header("X-Request-Id", id).send();
    assert_eq!(request("trace-7.a_b").await.headers["x-request-id"], "trace-7.a_b");
    assert_ne!(request("a b").await.headers["x-request-id"], "a b");
}
