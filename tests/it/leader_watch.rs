//! The end of the leader's process is noticed at once. A leader that is paused stays until the
//! election timeout, which is long here.

use std::time::{Duration, Instant};

use super::*;

const ELECTION_MIN: Duration = Duration::from_secs(8);

/// Three nodes whose election timeout is 8 to 10 s.
fn patient() -> Cluster {
    let slow = options().nodes(3).env("HEARTH__RAFT__ELECTION_MIN_MS", "8000");
    slow.env("HEARTH__RAFT__ELECTION_MAX_MS", "10000").start()
}

async fn stores(node: &Node) -> bool {
    let stored = node.request(Method::POST, "/agent/nodes").json(&labelled("after")).try_send();
    stored.await.is_ok_and(|response| response.status == StatusCode::CREATED)
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_leader_is_replaced_without_timeout() {
    let cluster = patient();
    for _ in 0..3 {
        let [leader, survivor, other] = cluster.leader_first().await;
        // Followers watch once they know of the leader.
        for node in [leader, survivor, other] {
            node.ready().await;
            assert!(stores(node).await);
        }
        let term = leader.term().await;
        leader.kill();
        let killed = Instant::now();
        eventually("a survivor leads", async || stores(survivor).await, |stored| *stored).await;
        assert!(killed.elapsed() < ELECTION_MIN / 2, "{:?}", killed.elapsed());
        assert_eq!(survivor.term().await, term + 1, "one survivor stood");
        leader.restart().await;
    }
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_stays_until_the_timeout() {
    let cluster = patient();
    let [leader, survivor] = cluster.leader_first().await;
    let term = leader.term().await;
    leader.pause();
    // Without a timeout, an election would begin within milliseconds.
    let paused = Instant::now();
    while paused.elapsed() < Duration::from_secs(3) {
        assert_eq!(survivor.term().await, term);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    leader.resume();
    eventually("the leader goes on", async || stores(survivor).await, |stored| *stored).await;
    assert_eq!(leader.term().await, term);
}
