//! Readers say how fresh an answer must be, and answers say how fresh they are.

use reqwest::Method;
use serde_json::json;

use crate::options;

#[tokio::test]
async fn a_write_is_read_at_its_index_and_reads_tell_theirs() {
    let cluster = options().start();
    let created =
        cluster.ask(Method::POST, "/agent/nodes").json(&json!({"label": "x"})).send().await;
    let index = created.number("x-hearth-index");
    let path = format!("/agent/nodes/{}", created.body["id"].as_str().unwrap());
    let read = cluster
        .ask(Method::GET, &path)
        .header("X-Hearth-Min-Index", &index.to_string())
        .send()
        .await;
    assert!(read.number("x-hearth-index") >= index);
    assert_eq!(read.headers["x-hearth-consistency"], "local");
    assert_eq!(read.number("x-hearth-staleness-ms"), 0);
    let linearizable = cluster.ask(Method::GET, &format!("{path}?consistency=linearizable"));
    let linearizable = linearizable.send().await;
    assert_eq!(linearizable.headers["x-hearth-consistency"], "linearizable");
    let status = cluster.ask_bare(Method::GET, "/api/v1/status").send().await.ok();
    assert!(status["applied_index"].as_u64().unwrap() >= index);
}

#[tokio::test]
async fn an_index_that_is_not_reached_is_a_503_that_says_so() {
    let cluster = options().start();
    let ask = cluster.ask(Method::GET, "/agent/nodes").header("X-Hearth-Min-Index", "999999");
    let answer = ask.send().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.body["error"], "index_not_reached");
    assert_eq!(answer.headers["retry-after"], "1");
}

#[tokio::test]
async fn a_harmless_request_id_is_taken_over_and_another_is_replaced() {
    let cluster = options().start();
    let ask = |id: &str| cluster.ask(Method::GET, "/agent/nodes").header("X-Request-Id", id).send();
    assert_eq!(ask("trace-7.a_b").await.headers["x-request-id"], "trace-7.a_b");
    assert_ne!(ask("a b").await.headers["x-request-id"], "a b");
}
