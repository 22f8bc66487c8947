//! A node that was away for longer than the log reaches catches up from a copy of
//! the state, while writes go on and whatever is killed in the middle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{Cluster, Node, PATIENCE};

use crate::cluster::{assert_equal_states, settled};
use crate::options;

/// Three nodes that cut their logs all the time, one of them (its position is
/// returned) dead since before the first entry that is left.
async fn with_one_left_behind() -> (Cluster, usize) {
    let cut = options().nodes(3).env("HEARTH__RAFT__CUT_BYTES", "1");
    let cut = cut.env("HEARTH__RAFT__CUT_HOLD_SECONDS", "2");
    let cluster = cut.env("HEARTH__RAFT__CUT_KEEP_ENTRIES", "5").start();
    let leader = cluster.leader().await;
    let away = (leader + 1) % 3;
    let last = cluster.at(away).metric("hearth_raft_last_log_index").await;
    cluster.at(away).kill();
    let started = Instant::now();
    while cluster.at(leader).metric("hearth_raft_purged_index").await <= last {
        assert!(started.elapsed() < PATIENCE, "the log is not cut");
        cluster.at(leader).create(&json!({"label": "meanwhile"})).await;
    }
    (cluster, away)
}

async fn caught_up(cluster: &Cluster, away: usize) {
    cluster.at(away).ready().await;
    assert!(cluster.at(away).metric("hearth_memories").await > 0.0);
    settled(cluster).await;
    assert_equal_states(&cluster.at(away)).await;
}

/// Waits until a node that is to die in the middle has.
fn dead(mut node: Node) {
    assert!(!node.ended(), "it was to be killed in the middle: {}", node.log());
}

#[tokio::test]
async fn a_node_that_was_away_past_the_log_catches_up_while_writes_go_on() {
    let (cluster, away) = with_one_left_behind().await;
    let other = cluster.at((away + 1) % 3);
    let behind = other.metric("hearth_raft_purged_index").await;
    let written = AtomicU64::new(0);
    let writes = async {
        loop {
            other.create(&json!({"label": "while it catches up"})).await;
            written.fetch_add(1, Ordering::Relaxed);
        }
    };
    let _node = cluster.at(away).serve();
    tokio::select! {
        () = writes => {}
        () = shows_nothing_old(&cluster, away, behind) => {}
    }
    assert!(written.into_inner() > 0, "writes went on meanwhile");
    caught_up(&cluster, away).await;
}

/// Until it has caught up the node shows nothing of what it held when it went away.
async fn shows_nothing_old(cluster: &Cluster, away: usize, behind: f64) {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < PATIENCE, "it never answers");
        let read = cluster.at(away).ask(Method::GET, "/agent/nodes").try_send().await;
        match read {
            Ok(read) if read.status == StatusCode::OK => {
                assert!(read.number("x-hearth-index") as f64 > behind, "{}", read.body);
                return;
            }
            Ok(read) => assert_eq!(read.body["error"], "stale", "{}", read.body),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_receiver_killed_in_the_middle_of_a_copy_starts_again() {
    let (cluster, away) = with_one_left_behind().await;
    for point in ["snapshot-receive=2*off->return", "snapshot-install=return"] {
        dead(cluster.at(away).serve_with(&[("FAILPOINTS", point)]));
    }
    let _node = cluster.at(away).serve();
    caught_up(&cluster, away).await;
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_leader_killed_while_it_makes_a_copy_is_replaced_by_another() {
    let (cluster, away) = with_one_left_behind().await;
    let leader = cluster.leader().await;
    cluster.at(leader).kill();
    // The first copies are raft's own looks at the state when it starts.
    let dying = cluster.at(leader).serve_with(&[("FAILPOINTS", "snapshot-build=2*off->return")]);
    cluster.at(leader).ready().await;
    // The one left behind has no way to lead; the third may lead already.
    let (started, to) = (Instant::now(), json!({"to": cluster.at(leader).id()}));
    while cluster.leader().await != leader {
        assert!(started.elapsed() < PATIENCE, "it does not lead again");
        let transfer = cluster.at(leader).operate(Method::POST, "/cluster/transfer");
        drop(transfer.json(&to).try_send().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _node = cluster.at(away).serve();
    dead(dying);
    let _again = cluster.at(leader).serve();
    cluster.at(leader).ready().await;
    caught_up(&cluster, away).await;
}
