//! What a collector of logs gets: lines of JSON that name their node, the start, and requests.

use futures::future::join_all;

use super::*;

#[tokio::test]
async fn lines_name_node_cluster_and_requests() {
    let cluster = options().start();
    cluster.kill();
    let json = ("HEARTH__LOG__FORMAT", "json");
    let all = ("HEARTH__LOG__ONE_OF", "1");
    let process = cluster.serve_with(&[json, all]);
    cluster.ready().await;
    let stored = cluster.send(Method::POST, "/agent/nodes", &labelled("a secret text")).await;
    let request_id = stored.headers["x-request-id"].to_str().unwrap();
    // Far more than ten in a second.
    let unknown = "/agent/nodes/00000000-0000-7000-8000-000000000000";
    join_all((0..60).map(|_| cluster.request(Method::GET, unknown).send())).await;
    let lines = async || {
        let log = process.log();
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let message = |line: &Value| line["fields"]["message"].as_str().unwrap_or_default().to_owned();
    let of_request = |line: &Value| line["target"] == "request";
    let has_rejection = |lines: &Vec<Value>| lines.iter().any(|it| it["fields"]["status"] == 404);
    let lines = eventually("the rejections are logged", lines, has_rejection).await;
    let start = lines.iter().find(|line| message(line) == "starts").unwrap();
    assert_fields(
        &start["fields"],
        json!({"node": 1, "commit": "development", "model": "hashing (tests only)"}),
    );
    assert!(start["fields"]["memory_limit"].as_u64() > Some(0), "{start}");
    for line in lines.iter().filter(|line| of_request(line)) {
        assert_eq!((&line["node"], line["version"].is_string()), (&json!(1), true), "{line}");
        assert_eq!(line["cluster"].as_str().unwrap().len(), 32, "{line}");
    }
    let created = lines.iter().find(|line| line["fields"]["request_id"] == request_id).unwrap();
    let expected =
        json!({"method": "POST", "route": "/api/v1/agent/nodes", "status": 201, "tenant": 1});
    assert_fields(&created["fields"], expected);
    assert!(created["fields"]["key"].is_string(), "{created}");
    let rejected = lines.iter().filter(|line| line["fields"]["status"] == 404).count();
    assert!((10..60).contains(&rejected), "{rejected}");
    assert!(!process.log().contains("a secret text"));
}
