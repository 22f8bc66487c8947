//! Three nodes are one service: what one acknowledged, every other shows; who leads
//! does not matter to callers; what a caller asks of freshness holds on every node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{At, Cluster, PATIENCE};

use crate::options;

/// Waits until all nodes have applied as much as the one that has most.
pub(crate) async fn settled(cluster: &Cluster) {
    let started = Instant::now();
    loop {
        let mut indexes = Vec::new();
        for node in cluster.nodes() {
            indexes.push(node.status().await.map(|status| status["applied_index"].clone()));
        }
        if indexes.iter().all(|index| index.is_some() && *index == indexes[0]) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "the nodes do not settle: {indexes:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// All nodes hash the same state.
pub(crate) async fn assert_equal_states(node: &At<'_>) {
    let found = node.operate(Method::POST, "/cluster/verify").json(&json!({})).send().await.ok();
    assert_eq!(found["equal"], true, "{found}");
}

#[tokio::test]
async fn what_one_node_acknowledged_every_other_shows() {
    let cluster = options().nodes(3).start();
    for writer in cluster.nodes() {
        let label = format!("stored through node {}", writer.id());
        let answer =
            writer.ask(Method::POST, "/agent/nodes").json(&json!({"label": label})).send().await;
        let index = answer.number("x-hearth-index");
        assert_eq!(answer.headers["x-hearth-node"], writer.id().to_string());
        let id = answer.ok()["id"].as_str().unwrap().to_owned();
        let path = format!("/agent/nodes/{id}");
        // At once at the node that answered, however it is read.
        let own = writer.ask(Method::GET, "/agent/nodes?sort=created_at").send().await.ok();
        assert_eq!(own["items"][0]["id"], id, "a caller reads its own write");
        for reader in cluster.nodes() {
            let by_index = reader
                .ask(Method::GET, "/agent/nodes?sort=created_at")
                .header("X-Hearth-Min-Index", &index.to_string());
            let by_index = by_index.send().await;
            assert!(by_index.number("x-hearth-index") >= index);
            assert_eq!(by_index.ok()["items"][0]["id"], id);
            let by_id = reader.ask(Method::GET, &path).send().await.ok();
            assert_eq!(by_id["label"], label);
            let search = reader
                .ask(Method::POST, "/agent/search?consistency=linearizable")
                .json(&json!({"query": label, "limit": 1}));
            let search = search.send().await;
            assert_eq!(search.headers["x-hearth-consistency"], "linearizable");
            assert_eq!(search.ok()[0]["id"], id);
            for (method, path) in
                [(Method::POST, "/agent/hot-context"), (Method::GET, "/agent/hot_nodes")]
            {
                let path = format!("{path}?consistency=linearizable");
                let hot = reader.ask(method, &path).json(&json!({})).send().await.ok();
                assert_eq!(hot[0]["id"], id, "the newest is the hottest");
            }
        }
    }
    settled(&cluster).await;
    assert_equal_states(&cluster.at(1)).await;
}

#[tokio::test]
async fn a_read_by_id_finds_on_any_node_what_was_just_acknowledged_on_another() {
    let cluster = options().nodes(3).start();
    for round in 0..30 {
        let (writer, reader) = (cluster.at(round % 3), cluster.at((round + 1) % 3));
        let stored = writer.create(&json!({"label": format!("round {round}")})).await;
        let path = format!("/agent/nodes/{}", stored["id"].as_str().unwrap());
        let found = reader.ask(Method::GET, &path).send().await;
        assert_eq!(found.status, StatusCode::OK, "round {round}: {}", found.body);
    }
}

#[tokio::test]
async fn a_refusal_is_as_true_through_a_follower_as_at_the_leader() {
    let cluster = options().nodes(3).start();
    let follower = cluster.at((cluster.leader().await + 1) % 3);
    let stored = follower.create(&json!({"label": "keep me"})).await;
    let path = format!("/agent/nodes/{}", stored["id"].as_str().unwrap());
    follower.ask(Method::PATCH, &path).json(&json!({"is_locked": true})).send().await.ok();
    let refused = follower.ask(Method::DELETE, &path).send().await;
    assert_eq!((refused.status, &refused.body["error"]), (StatusCode::CONFLICT, &json!("locked")));
    let nobody = "/agent/nodes/01936d5e-0000-7000-8000-000000000000";
    let missing = follower.ask(Method::DELETE, nobody).send().await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_key_used_on_two_nodes_does_the_write_once() {
    let cluster = options().nodes(3).start();
    let mut ids = Vec::new();
    for node in cluster.nodes() {
        let ask = node.ask(Method::POST, "/agent/nodes").header("Idempotency-Key", "one");
        ids.push(ask.json(&json!({"label": "only once"})).send().await.ok()["id"].clone());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn with_two_of_three_down_reads_go_stale_and_writes_are_turned_away_until_they_return() {
    let cluster = options().nodes(3).start();
    cluster.create(&json!({"label": "from better days"})).await;
    settled(&cluster).await;
    let leader = cluster.leader().await;
    let (survivor, second) = (cluster.at((leader + 1) % 3), cluster.at((leader + 2) % 3));
    cluster.at(leader).kill();
    second.kill();
    let read = survivor.ask(Method::GET, "/agent/nodes").send().await;
    assert!(read.number("x-hearth-staleness-ms") < 10_000);
    assert_eq!(read.ok()["total"], 1, "local reads go on within their staleness");
    let write = survivor.ask(Method::POST, "/agent/nodes").json(&json!({"label": "x"}));
    let write = write.send().await;
    let turned_away = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    assert!(turned_away.contains(&write.status), "{} {}", write.status, write.body);
    // The first may have gone out to the dead leader; by now nobody is taken for one.
    let write = survivor.ask(Method::POST, "/agent/nodes").json(&json!({"label": "x"}));
    let write = write.send().await;
    let no_leader = (StatusCode::SERVICE_UNAVAILABLE, &json!("no_leader"));
    assert_eq!((write.status, &write.body["error"]), no_leader);
    let linearizable = survivor.ask(Method::GET, "/agent/nodes?consistency=linearizable");
    assert_eq!(linearizable.send().await.status, StatusCode::SERVICE_UNAVAILABLE);
    let soon = survivor.ask(Method::GET, "/agent/nodes").header("X-Hearth-Max-Staleness-Ms", "1");
    let soon = soon.send().await;
    assert_eq!(
        (soon.status, &soon.body["error"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("stale"))
    );

    let _back = [cluster.at(leader).serve(), second.serve()];
    for node in cluster.nodes() {
        node.ready().await;
    }
    survivor.create(&json!({"label": "and better days again"})).await;
    settled(&cluster).await;
    assert_equal_states(&survivor).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_loses_its_quorum_says_what_it_does_not_know_and_then_takes_nothing_more() {
    let cluster = Arc::new(options().nodes(3).start());
    let leader = cluster.leader().await;
    let alone = cluster.at(leader);
    let write = async || {
        let started = Instant::now();
        let ask = alone.ask(Method::POST, "/agent/nodes").json(&json!({"label": "x"}));
        let answer = ask.send().await;
        (answer.status, answer.body["error"].clone(), started.elapsed())
    };
    let others = Arc::clone(&cluster);
    let killed = tokio::task::spawn_blocking(move || {
        others.at((leader + 1) % 3).kill();
        others.at((leader + 2) % 3).kill();
    });
    // One after the other, so that one is under way when the others are gone.
    let (status, error, took) = loop {
        let answered = write().await;
        if answered.0 != StatusCode::CREATED {
            break answered;
        }
    };
    killed.await.unwrap();
    assert_eq!((status, error), (StatusCode::GATEWAY_TIMEOUT, json!("outcome_unknown")));
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(12), "{took:?}");
    let (status, error, took) = write().await;
    assert_eq!((status, error), (StatusCode::SERVICE_UNAVAILABLE, json!("no_leader")));
    assert!(took < Duration::from_secs(6), "{took:?}");
    let read = alone.ask(Method::GET, "/agent/nodes").send().await;
    let stale = (StatusCode::SERVICE_UNAVAILABLE, &json!("stale"));
    assert_eq!((read.status, &read.body["error"]), stale);

    let _back = [cluster.at((leader + 1) % 3).serve(), cluster.at((leader + 2) % 3).serve()];
    for node in cluster.nodes() {
        node.ready().await;
    }
    alone.create(&json!({"label": "and on it goes"})).await;
    settled(&cluster).await;
    assert_equal_states(&alone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_restarted_one_after_the_other_and_writes_hardly_pause() {
    let cluster = Arc::new(options().nodes(3).start());
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (cluster, stop) = (Arc::clone(&cluster), Arc::clone(&stop));
        tokio::spawn(async move {
            let agent = cluster.another_client();
            let (mut written, mut longest, mut last) = (0_u64, Duration::ZERO, Instant::now());
            while !stop.load(Ordering::Relaxed) {
                // As an agent does that has the addresses of all nodes: the next, if one is away.
                for turn in 0..3 {
                    let ask = agent.ask_at(&cluster.at(turn), Method::POST, "/agent/nodes");
                    let key = format!("write {written}");
                    let ask = ask.header("Idempotency-Key", &key).json(&json!({"label": key}));
                    if ask.try_send().await.is_ok_and(|answer| answer.status.is_success()) {
                        (written, longest) = (written + 1, longest.max(last.elapsed()));
                        last = Instant::now();
                        break;
                    }
                }
            }
            (written, longest)
        })
    };
    let mut nodes = Vec::new();
    for node in cluster.nodes() {
        tests::signal(node.pid(), "TERM");
        tokio::task::block_in_place(|| node.gone());
        nodes.push(node.serve());
        node.ready().await;
    }
    stop.store(true, Ordering::Relaxed);
    let (written, longest) = writer.await.unwrap();
    let total = cluster.ask(Method::GET, "/agent/nodes?consistency=linearizable").send().await.ok();
    assert_eq!(total["total"], written, "nothing lost, nothing twice");
    println!("{written} writes, the longest pause {} ms", longest.as_millis());
    // A leader that died instead would cost an election: a second, at least.
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_equal_states(&cluster.at(0)).await;
}

#[tokio::test]
async fn leadership_is_handed_over_without_an_error_to_anybody() {
    let cluster = options().nodes(3).start();
    for _ in 0..3 {
        let leader = cluster.leader().await;
        let next = cluster.at((leader + 1) % 3);
        let transfer = cluster.at((leader + 2) % 3).operate(Method::POST, "/cluster/transfer");
        let memory = json!({"label": "in between"});
        let (transferred, stored) =
            tokio::join!(transfer.json(&json!({"to": next.id()})).send(), next.create(&memory),);
        transferred.ok();
        assert_eq!(stored["label"], "in between");
        assert_eq!(next.status().await.unwrap()["role"], "leader");
    }
}

/// What `hearth cluster` says, and whether it went well.
pub(crate) async fn command(ops: &str, arguments: &[&str]) -> (bool, String) {
    let ran = tokio::process::Command::new(env!("CARGO_BIN_EXE_hearth-under-test"))
        .args(["cluster", "--ops", ops])
        .args(arguments)
        .output()
        .await
        .unwrap();
    let text = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[tokio::test]
async fn the_command_line_shows_and_changes_the_cluster() {
    let cluster = options().nodes(3).start();
    settled(&cluster).await;
    let (leader, third) = (cluster.leader().await as u64 + 1, cluster.at(2));
    let ops = third.ops();
    let (done, text) = command(ops, &["status"]).await;
    assert!(done && text.contains(&format!("Node {leader} leads")), "{text}");
    assert_eq!(text.matches("voter").count(), 2, "{text}");
    let (done, text) = command(ops, &["verify"]).await;
    assert!(done && text.contains("All nodes hold the same"), "{text}");
    let other = (leader % 3 + 1).to_string();
    let (done, text) = command(ops, &["transfer", "--to", &other]).await;
    assert!(done && text.contains(&format!("Node {other} leads")), "{text}");
    let (done, text) = command(ops, &["remove", "--id", &other]).await;
    assert!(done && text.contains("removed"), "a leader hands over first: {text}");
    let (done, text) = command(ops, &["add", "--id", "9", "--address", "127.0.0.1:1"]).await;
    assert!(!done && text.contains("not reached"), "{text}");
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_node_whose_state_is_not_that_of_the_others_is_kept_out_for_good() {
    let cluster = options().nodes(3).env("HEARTH__RAFT__VERIFY_SECONDS", "2").start();
    settled(&cluster).await;
    // A node loses what a log entry says: its disk lied, or its memory is bad.
    let odd = cluster.leader().await;
    cluster.at(odd).kill();
    let mut node = cluster.at(odd).serve_with(&[("FAILPOINTS", "apply-forget=20*off->1*return")]);
    cluster.at(odd).ready().await;
    let rest = cluster.at((odd + 1) % 3);
    let started = Instant::now();
    let mut number = 0;
    while cluster.at(odd).status().await.is_some() {
        assert!(started.elapsed() < PATIENCE, "nobody notices");
        // It may lead, and what is under way at it as it stops is not known.
        let label = json!({"label": format!("memory {number}")});
        drop(rest.ask(Method::POST, "/agent/nodes").json(&label).send().await);
        number += 1;
    }
    assert!(!node.ended() && node.log().contains("is not that of most other nodes"));
    // For good: also when it is started again, and as whole as ever.
    let _again = cluster.at(odd).serve();
    cluster.at(odd).up().await;
    let (status, text) = cluster.at(odd).readyz().await.unwrap();
    assert!(status == 503 && text.contains("is not that of most other nodes"), "{text}");
    rest.create(&json!({"label": "the others go on"})).await;
    let found = rest.operate(Method::POST, "/cluster/verify").json(&json!({})).send().await.ok();
    assert_eq!(found["quarantined"], json!([]), "{found}");
    assert_eq!(found["nodes"][odd]["sha256"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_leader_that_is_told_to_stop_hands_over_first() {
    let slow = options().nodes(3).env("HEARTH__RAFT__ELECTION_MIN_MS", "3000");
    let cluster = slow.env("HEARTH__RAFT__ELECTION_MAX_MS", "4000").start();
    settled(&cluster).await;
    let leader = cluster.leader().await;
    let follower = cluster.at((leader + 1) % 3);
    let term = follower.status().await.unwrap()["term"].as_u64().unwrap();
    tests::signal(cluster.at(leader).pid(), "TERM");
    let told = Instant::now();
    while follower.status().await.is_none_or(|status| status["term"] == term) {
        // Without a hand-over the others would wait for the lease before they stand.
        assert!(told.elapsed() < Duration::from_secs(3), "nobody takes over at once");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    follower.create(&json!({"label": "and on it goes"})).await;
    cluster.at(leader).gone();
}
