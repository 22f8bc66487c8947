//! Requests name the freshness that they need, and responses report the freshness that they have.

use super::*;

#[tokio::test]
async fn reads_report_and_reach_an_index() {
    let cluster = options().start();
    let created = cluster.send(Method::POST, "/agent/nodes", &json!({"label": "x"})).await;
    let index = created.number("x-hearth-index");
    let path = format!("/agent/nodes/{}", id(&created.body));
    let read = cluster.request(Method::GET, &path);
    let read = read.header("X-Hearth-Min-Index", &index.to_string()).send().await;
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
    let request = cluster.request(Method::GET, "/agent/nodes");
    let response = request.header("X-Hearth-Min-Index", "999999").send().await;
    response.assert_error(503, "index_not_reached");
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

#[tokio::test]
async fn reads_by_id_find_what_another_node_created() {
    let cluster = options().nodes(3).start();
    let [leader, other, _] = cluster.leader_first().await;
    for _ in 0..20 {
        for path in ["nodes/", "graph/neighbors/", "graph/verify/"] {
            let memory = leader.store(&labelled("x")).await;
            other.get(&format!("/agent/{path}{memory}")).await;
        }
        let event = json!({"event": "on_recall", "node_id": leader.store(&labelled("x")).await});
        other.post("/triggers/evaluate", &event).await;
        let trigger = json!({"event": "on_recall", "action": "pin"});
        let trigger = leader.post("/triggers", &trigger).await;
        other.get(&format!("/triggers/{}", id(&trigger))).await;
    }
}
