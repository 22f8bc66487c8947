//! Attacks on the memory of a node.

use futures::future::join_all;

use super::attacker::{connect_tls, memory_mb};
use super::held_back::{HeldBack, get};
use super::*;

/// Memory that one attacker may take, in MB.
const GROWTH_MAX: u64 = 256;

/// A client of the public listener that reads no body.
async fn held_back(cluster: &Cluster, window: u32, path: &str, key: &str) -> HeldBack {
    let stream = connect_tls(cluster, cluster).await;
    let url = format!("{}/api/v1{path}", cluster.url());
    HeldBack::start(stream, get(&url, key), window).await.unwrap()
}

/// The responses to repeated batches are large, and a write cannot be rejected for its response.
#[tokio::test]
async fn unread_responses_to_writes_take_little_memory() {
    let cluster = options().start();
    let key = cluster.post("/keys", &json!({"name": "hostile", "role": "agent"})).await;
    let nodes: Vec<_> = (0..50).map(labelled).collect();
    let body = json!({"nodes": nodes}).to_string();
    let repeat = || {
        let request = cluster.request_as(&key, Method::POST, "/agent/nodes/batch");
        request.header("Idempotency-Key", "large").raw(body.clone())
    };
    let created = repeat().send().await.ok();
    for memory in array(&created["results"]) {
        let label = json!({"label": "\u{1}".repeat(65_000)});
        cluster.patch(&format!("/agent/nodes/{}", id(memory)), &label).await;
    }
    let before = memory_mb(&cluster, "VmRSS");
    let request = http::Request::post(format!("{}/api/v1/agent/nodes/batch", cluster.url()))
        .header("authorization", format!("Bearer {}", string(&key["key"])))
        .header("idempotency-key", "large");
    let request = request.body(body.clone().into()).unwrap();
    let stream = connect_tls(&cluster, &cluster).await;
    let held = HeldBack::start(stream, request, 0).await.unwrap();
    repeat().send().await.assert_error(504, "response_dropped");
    cluster.create(&json!({"label": "meanwhile"})).await;
    let growth = memory_mb(&cluster, "VmHWM").saturating_sub(before);
    held.abort();
    assert!(growth < GROWTH_MAX, "{growth} MB");
}

#[tokio::test]
async fn held_back_responses_take_little_memory_and_end() {
    let cluster = options().start();
    let reader = cluster.post("/keys", &json!({"name": "hostile", "role": "reader"})).await;
    let memories = (0..100).map(|at| labelled(format!("{at} {}", "x".repeat(64_000))));
    cluster.store_each(memories).await;
    let before = memory_mb(&cluster, "VmRSS");
    let mut clients = Vec::new();
    for at in 0..20 {
        clients.push(held_back(&cluster, at % 2, "/openapi.json", "none").await);
    }
    clients.push(held_back(&cluster, 1, "/unknown", "none").await);
    for _ in 0..2 {
        let pages = "/agent/nodes?page_size=100";
        clients.push(held_back(&cluster, 0, pages, string(&reader["key"])).await);
    }
    cluster.create(&json!({"label": "meanwhile"})).await;
    let growth = memory_mb(&cluster, "VmHWM").saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} MB");
    join_all(clients.into_iter().map(HeldBack::ended)).await;
    let taken = async || cluster.metric("hearth_response_bytes").await;
    eventually("all is given back", taken, |bytes| *bytes == 0.0).await;
}

/// Bodies of many small values under a field that does not exist.
#[tokio::test]
async fn unknown_fields_take_little_memory() {
    let cluster = options().start();
    let agents = [(); 6].map(|()| cluster.new_agent());
    let before = memory_mb(&cluster, "VmRSS");
    let junk = format!("{{\"label\":\"x\",\"junk\":{{{}\"\":0}}}}", "\"\":0,".repeat(390_000));
    let waits = (0..60).map(|at| {
        let request = agents[at % 6].request(&cluster, Method::POST, "/agent/search");
        request.header("X-Hearth-Min-Index", "9999999999").raw(junk.clone()).try_send()
    });
    let creates = (0..60).map(|at| {
        let request = agents[at % 6].request(&cluster, Method::POST, "/agent/nodes");
        request.raw(junk.clone()).try_send()
    });
    let (_, created) = tokio::join!(join_all(waits), join_all(creates));
    let created = created.into_iter().flatten().filter(|response| response.status == 201);
    assert!(created.count() > 0, "none was created");
    let growth = memory_mb(&cluster, "VmHWM").saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} MB");
}

#[tokio::test]
async fn full_memory_rejects_new_work_but_not_health() {
    let cluster = options().env("HEARTH__MEMORY__MAX_BYTES", "1").start();
    let memory = json!({"label": "one too many"});
    let create = async || cluster.send(Method::POST, "/agent/nodes", &memory).await;
    let is_full = |response: &Response| response.body["error"] == "memory_full";
    let rejected = eventually("the limit holds", create, is_full).await;
    rejected.assert_error(503, "memory_full");
    assert_eq!(rejected.number("retry-after"), 1);
    cluster.send(Method::GET, "/agent/nodes", &Value::Null).await.assert_error(503, "memory_full");
    let unknown = "/agent/nodes/00000000-0000-7000-8000-000000000000";
    cluster.send(Method::DELETE, unknown, &Value::Null).await.assert_error(404, "not_found");
    let (ready, _) = cluster.readyz().await.expect("a response");
    assert!(ready.is_success());
    assert!(cluster.metric("hearth_memory_rejected_total").await >= 2.0);
}

/// A control character takes six bytes of JSON, and a memory contains its label twice.
#[tokio::test]
async fn pages_are_counted_before_they_are_built() {
    let cluster = options().start();
    let label = "\u{1}".repeat(64_000);
    cluster.store_each((0..100).map(|_| labelled(&label))).await;
    let before = memory_mb(&cluster, "VmRSS");
    let key = cluster.post("/keys", &json!({"name": "hostile", "role": "reader"})).await;
    let pages = "/agent/nodes?page_size=100";
    let held = held_back(&cluster, 0, pages, string(&key["key"])).await;
    let growth = memory_mb(&cluster, "VmHWM").saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{growth} MB");
    held.abort();
    // A page of a list is complete. Other results end at 4 MiB of text.
    assert_eq!(array(&cluster.get(pages).await["items"]).len(), 100);
    let all = json!({"query": "", "limit": 100, "budget_chars": 10_000_000});
    let found = [
        cluster.post("/agent/search", &all).await,
        cluster.post("/agent/hot-context", &all).await,
        cluster.get("/agent/hot_nodes?limit=100").await,
        cluster.get("/admin/visualize/graph?limit=100").await["nodes"].clone(),
    ];
    assert_eq!(found.map(|found| array(&found).len()), [65; 4]);
}

/// The leader checks its own memory for commands that other nodes forward.
#[tokio::test]
async fn full_leader_accepts_only_deletions() {
    let cluster = options().nodes(3).start();
    let [full, other, _] = cluster.leader_first().await;
    let namespaces = ["a", "b", "b", "c"].map(|name| json!({"label": "x", "namespace": name}));
    let ids = other.store_each(namespaces).await;
    full.kill();
    full.restart_with(&[("HEARTH__MEMORY__MAX_BYTES", "1")]).await;
    let lead = async || {
        let to = json!({"to": full.id()});
        other.ops_request(Method::POST, "/cluster/transfer").json(&to).send().await.status
    };
    eventually("the full node leads", lead, StatusCode::is_success).await;
    let create = async || other.send(Method::POST, "/agent/nodes", &labelled("more")).await;
    let is_full = |response: &Response| response.body["error"] == "memory_full";
    let rejected = eventually("the leader is full", create, is_full).await;
    rejected.assert_error(503, "memory_full");
    assert!(full.metric("hearth_memory_rejected_total").await >= 1.0);
    // Deletions by filter read on the receiving node.
    other.delete(&format!("/agent/nodes/{}", ids[0])).await;
    for (node, namespace, deleted) in [(full, "b", 2), (other, "c", 1)] {
        let found = node.post("/agent/nodes/bulk", &json!({"namespace": namespace})).await;
        assert_eq!(found["deleted"], deleted, "{found}");
    }
}

/// JSON of any form becomes a tree, which is much larger than its text.
#[tokio::test]
async fn bodies_of_any_form_are_small() {
    let cluster = options().start();
    let metadata = vec![json!({"": 0}); 10_000];
    for path in ["/activity", "/settings/thermo/preview"] {
        let body = json!({"action": "a", "metadata": metadata});
        cluster.send(Method::POST, path, &body).await.assert_error(413, "too_large");
    }
}
