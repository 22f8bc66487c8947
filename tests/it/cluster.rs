//! Three nodes are one service: a write that one node acknowledged is visible on all others,
//! any node serves any request, and the freshness that a request names holds on every node.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn acknowledged_write_is_visible_on_every_node() {
    let cluster = options().nodes(3).start();
    for writer in cluster.nodes() {
        let label = format!("stored through node {}", writer.id());
        let created = writer.send(Method::POST, "/agent/nodes", &json!({"label": label})).await;
        let index = created.number("x-hearth-index");
        assert_eq!(created.headers["x-hearth-node"], writer.id().to_string());
        let created = created.ok();
        // The node that responded shows it at once, to every kind of read.
        let own = writer.get("/agent/nodes?sort=created_at").await;
        assert_eq!(own["items"][0]["id"], created["id"], "a client reads its own write");
        for reader in cluster.nodes() {
            let by_index = reader
                .request(Method::GET, "/agent/nodes?sort=created_at")
                .header("X-Hearth-Min-Index", &index.to_string());
            let by_index = by_index.send().await;
            assert!(by_index.number("x-hearth-index") >= index);
            assert_eq!(by_index.ok()["items"][0]["id"], created["id"]);
            let by_id = reader.get(&format!("/agent/nodes/{}", id(&created))).await;
            assert_eq!(by_id["label"], label);
            let path = "/agent/search?consistency=linearizable";
            let search = json!({"query": label, "limit": 1});
            let search = reader.send(Method::POST, path, &search).await;
            assert_eq!(search.headers["x-hearth-consistency"], "linearizable");
            assert_eq!(search.ok()[0]["id"], created["id"]);
            for (method, path) in
                [(Method::POST, "/agent/hot-context"), (Method::GET, "/agent/hot_nodes")]
            {
                let path = format!("{path}?consistency=linearizable");
                let hot = reader.send(method, &path, &json!({})).await.ok();
                assert_eq!(hot[0]["id"], created["id"], "the newest is the hottest");
            }
        }
    }
    converged(&cluster).await;
    assert_equal_states(cluster.at(1)).await;
}

#[tokio::test]
async fn read_by_id_finds_writes_of_other_nodes() {
    let cluster = options().nodes(3).start();
    for round in 0..30 {
        let (writer, reader) = (cluster.at(round % 3), cluster.at((round + 1) % 3));
        let stored = writer.store(&json!({"label": format!("round {round}")})).await;
        let found = reader.request(Method::GET, &format!("/agent/nodes/{stored}")).send().await;
        assert_eq!(found.status, StatusCode::OK, "round {round}: {}", found.body);
    }
}

#[tokio::test]
async fn follower_returns_the_rejections_of_its_leader() {
    let cluster = options().nodes(3).start();
    let [_, follower] = cluster.leader_first().await;
    let path = format!("/agent/nodes/{}", follower.store(&json!({"label": "keep me"})).await);
    follower.patch(&path, &json!({"is_locked": true})).await;
    follower.request(Method::DELETE, &path).send().await.assert_error(409, "locked");
    let absent = "/agent/nodes/01936d5e-0000-7000-8000-000000000000";
    follower.request(Method::DELETE, absent).send().await.assert_error(404, "not_found");
}

#[tokio::test]
async fn idempotency_key_holds_across_nodes() {
    let cluster = options().nodes(3).start();
    let mut ids = Vec::new();
    for node in cluster.nodes() {
        let request = node.request(Method::POST, "/agent/nodes").header("Idempotency-Key", "one");
        ids.push(request.json(&json!({"label": "only once"})).send().await.ok()["id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn without_quorum_reads_become_stale_and_writes_fail() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "before"})).await;
    converged(&cluster).await;
    let [leader, survivor, second] = cluster.leader_first().await;
    leader.kill();
    second.kill();
    let read = survivor.request(Method::GET, "/agent/nodes").send().await;
    assert!(read.number("x-hearth-staleness-ms") < 10_000);
    assert_eq!(read.ok()["total"], 1, "local reads continue within their staleness");
    let body = json!({"label": "x"});
    let write = || survivor.send(Method::POST, "/agent/nodes", &body);
    let first = write().await;
    let expected = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    assert!(expected.contains(&first.status), "{} {}", first.status, first.body);
    // The first write may have been sent to the dead leader. The second finds no leader.
    write().await.assert_error(503, "no_leader");
    let linearizable = survivor.request(Method::GET, "/agent/nodes?consistency=linearizable");
    assert_eq!(linearizable.send().await.status, StatusCode::SERVICE_UNAVAILABLE);
    let fresh = survivor.request(Method::GET, "/agent/nodes");
    let fresh = fresh.header("X-Hearth-Max-Staleness-Ms", "1").send().await;
    fresh.assert_error(503, "stale");

    assert_recovers(&cluster, [leader, second]).await;
}

/// Starts the killed nodes again. Then the cluster accepts writes, and all states are equal.
async fn assert_recovers(cluster: &Cluster, killed: [&Node; 2]) {
    killed.iter().for_each(|node| node.start());
    for node in cluster.nodes() {
        node.ready().await;
    }
    cluster.create(&json!({"label": "after"})).await;
    converged(cluster).await;
    assert_equal_states(cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_without_quorum_reports_unknown_outcomes_and_stops() {
    let cluster = Arc::new(options().nodes(3).start());
    let leader = cluster.leader().await;
    let alone = cluster.at(leader);
    let write = async || {
        let started = Instant::now();
        (alone.send(Method::POST, "/agent/nodes", &labelled("x")).await, started.elapsed())
    };
    let others = Arc::clone(&cluster);
    let killed = tokio::task::spawn_blocking(move || {
        others.at((leader + 1) % 3).kill();
        others.at((leader + 2) % 3).kill();
    });
    // Without a pause, so that a write is in flight when the other nodes die.
    let (response, took) = loop {
        let (response, took) = write().await;
        if response.status != StatusCode::CREATED {
            break (response, took);
        }
    };
    killed.await.unwrap();
    match response.status {
        // A batch of the service was in flight, and the write waited behind it.
        StatusCode::SERVICE_UNAVAILABLE => response.assert_error(503, "busy"),
        _ => response.assert_error(504, "outcome_unknown"),
    };
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(12), "{took:?}");
    let (response, took) = write().await;
    response.assert_error(503, "no_leader");
    assert!(took < Duration::from_secs(6), "{took:?}");
    alone.request(Method::GET, "/agent/nodes").send().await.assert_error(503, "stale");

    assert_recovers(&cluster, [1, 2].map(|next| cluster.at((leader + next) % 3))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rolling_restart_pauses_writes_under_two_seconds() {
    let cluster = Arc::new(options().nodes(3).start());
    let writers = Writers::start(&cluster, 1);
    for node in cluster.nodes() {
        node.terminate();
        node.wait_gone().await;
        node.restart().await;
    }
    let (longest, requests) = (writers.longest_pause(), writers.most_requests());
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    assert_stored_once(&cluster, &acknowledged, 1).await;
    assert!(
        requests <= 2,
        "a write needed {requests} requests: a repetition at the next node is enough"
    );
    println!("{} writes, the longest pause {longest:?}", acknowledged.len());
    // A leader that dies costs an election instead: a second, at least.
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn leadership_transfer_fails_no_request() {
    let cluster = options().nodes(3).start();
    for _ in 0..3 {
        let [_, next, other] = cluster.leader_first().await;
        let transfer = other.ops_request(Method::POST, "/cluster/transfer");
        let memory = json!({"label": "during the transfer"});
        let (transferred, stored) =
            tokio::join!(transfer.json(&json!({"to": next.id()})).send(), next.create(&memory));
        transferred.ok();
        assert_eq!(stored["label"], "during the transfer");
        assert_eq!(next.status().await.unwrap()["role"], "leader");
    }
}

#[tokio::test]
async fn command_line_shows_and_changes_the_cluster() {
    let cluster = options().nodes(3).start();
    converged(&cluster).await;
    let leader = cluster.leader().await as u64 + 1;
    let command = async |arguments: &[&str]| {
        let all = [&["cluster", "--ops", cluster.at(2).ops()], arguments].concat();
        cluster.run(&all).await
    };
    let (succeeded, text) = command(&["status"]).await;
    assert!(succeeded && text.contains(&format!("Node {leader} leads")), "{text}");
    assert_eq!(text.matches("voter").count(), 2, "{text}");
    let (succeeded, text) = command(&["verify"]).await;
    assert!(succeeded && text.contains("All nodes hold the same"), "{text}");
    let other = (leader % 3 + 1).to_string();
    let (succeeded, text) = command(&["transfer", "--to", &other]).await;
    assert!(succeeded && text.contains(&format!("Node {other} leads")), "{text}");
    let (succeeded, text) = command(&["remove", "--id", &other]).await;
    assert!(succeeded && text.contains("removed"), "a leader transfers leadership first: {text}");
    let (succeeded, text) = command(&["add", "--id", "9", "--address", "127.0.0.1:1"]).await;
    assert!(!succeeded && text.contains("not delivered"), "{text}");
    for address in ["node 4:4282", "node-4", "node-4:99999", "user@node-4:4282", "node-4:4282/x"] {
        let (succeeded, text) = command(&["add", "--id", "9", "--address", address]).await;
        assert!(!succeeded && text.contains("use host:port"), "{address}: {text}");
    }
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn node_with_different_state_is_quarantined_for_good() {
    const REASON: &str = "is not that of most other nodes";
    let cluster = options().nodes(3).env("HEARTH__RAFT__VERIFY_SECONDS", "2").start();
    converged(&cluster).await;
    // A node applies a log entry wrongly, as with a faulty disk or memory.
    let [odd, rest] = cluster.leader_first().await;
    odd.kill();
    let mut process = odd.serve_with(&[("FAILPOINTS", "apply-forget=20*off->1*return")]);
    odd.ready().await;
    let mut number = 0;
    let stopped = async || {
        number += 1;
        let memory = json!({"label": format!("memory {number}")});
        // It may lead: the outcome of a request in flight when it stops is unknown.
        drop(rest.send(Method::POST, "/agent/nodes", &memory).await);
        odd.status().await
    };
    eventually("the different node stops", stopped, Option::is_none).await;
    assert!(!process.ended().await && process.log().contains(REASON));
    // Quarantine survives a restart, even of a process without the fault.
    odd.start();
    odd.up().await;
    let (status, text) = odd.readyz().await.unwrap();
    assert!(status == 503 && text.contains(REASON), "{text}");
    rest.create(&json!({"label": "the others continue"})).await;
    let verified = verify(rest).await;
    assert_eq!(verified["quarantined"], json!([]), "{verified}");
    assert_eq!(verified["nodes"][odd.id() as usize - 1]["sha256"], Value::Null);
}

#[tokio::test]
async fn stopping_leader_transfers_leadership_first() {
    let slow = options().nodes(3).env("HEARTH__RAFT__ELECTION_MIN_MS", "3000");
    let cluster = slow.env("HEARTH__RAFT__ELECTION_MAX_MS", "4000").start();
    converged(&cluster).await;
    let [leader, follower] = cluster.leader_first().await;
    let term = follower.term().await;
    leader.terminate();
    // Without a transfer the other nodes wait for the lease, which is longer.
    let limit = Duration::from_secs(3);
    let changed = |found: &Option<Value>| found.as_ref().is_some_and(|found| found["term"] != term);
    within(limit, "a new leader takes over", async || follower.status().await, changed).await;
    follower.create(&json!({"label": "after"})).await;
    leader.wait_gone().await;
}
