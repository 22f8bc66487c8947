//! The end of the leader's process is noticed at once, and its silence soon. The election timeout,
//! which is long here, decides neither.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;

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
async fn frozen_leader_is_replaced_without_timeout() {
    let cluster = patient();
    for _ in 0..3 {
        let [leader, survivor] = cluster.leader_first().await;
        survivor.ready().await;
        leader.pause();
        let paused = Instant::now();
        // It waits for the paused leader at first, and then for the next one.
        let status = async {
            let status = survivor.ops_request(Method::GET, "/cluster").send().await.ok();
            assert_ne!(status["leader"], leader.id(), "{status}");
        };
        let leads =
            eventually("a survivor leads", async || stores(survivor).await, |stored| *stored);
        tokio::join!(status, leads);
        println!("writes continue after {:?}", paused.elapsed());
        assert!(paused.elapsed() < ELECTION_MIN / 2, "{:?}", paused.elapsed());
        leader.resume();
        converged(&cluster).await;
    }
    assert_equal_states(&cluster).await;
}

/// Survivors with logs that still grow agree on the one that stands.
#[tokio::test(flavor = "multi_thread")]
async fn survivors_under_load_elect_one_at_once() {
    let cluster = patient();
    for _ in 0..5 {
        let [leader, survivor, other] = cluster.leader_first().await;
        for node in [leader, survivor, other] {
            node.ready().await;
        }
        let (term, is_killed) = (leader.term().await, AtomicBool::new(false));
        let load = async |node: &Node| {
            let mut stored = true;
            while stored && !is_killed.load(Ordering::Relaxed) {
                stored = stores(node).await;
            }
        };
        let kill = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            leader.kill();
            is_killed.store(true, Ordering::Relaxed);
            let killed = Instant::now();
            eventually("a survivor leads", async || stores(survivor).await, |stored| *stored).await;
            killed.elapsed()
        };
        let writers = [survivor, other].into_iter().cycle().take(16);
        let (pause, _) = tokio::join!(kill, join_all(writers.map(load)));
        assert!(pause < ELECTION_MIN / 2, "{pause:?}");
        assert_eq!(survivor.term().await, term + 1, "one survivor stood");
        leader.restart().await;
    }
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}

/// To the others it looks as if the process had ended. The next leader is elected once.
#[tokio::test(flavor = "multi_thread")]
async fn restarted_proxy_costs_one_election() {
    let cluster = patient();
    let fast = Slowness::of_delay(Duration::ZERO);
    let mut links = Links::between(&cluster, fast, |_| Vec::new()).await;
    converged(&cluster).await;
    let [leader, survivor] = cluster.leader_first().await;
    let term = leader.term().await;
    let follower = survivor.id() as usize - 1;
    links.restart(follower, Duration::from_millis(200)).await;
    assert!(stores(leader).await && stores(survivor).await);
    assert_eq!(leader.term().await, term, "a follower that cannot be reached deposes no leader");
    let restarted = Instant::now();
    let writes = eventually("writes continue", async || stores(survivor).await, |stored| *stored);
    let restart = links.restart(leader.id() as usize - 1, Duration::from_millis(500));
    tokio::join!(restart, writes);
    eventually("writes continue", async || stores(leader).await, |stored| *stored).await;
    assert!(restarted.elapsed() < ELECTION_MIN / 2, "{:?}", restarted.elapsed());
    converged(&cluster).await;
    assert!(survivor.term().await <= term + 1, "the old leader follows");
    assert_equal_states(&cluster).await;
}

/// Such pauses are common: of a virtual machine that moves, of a full disk queue.
#[tokio::test(flavor = "multi_thread")]
async fn short_pauses_depose_no_leader() {
    let cluster = options().nodes(3).start();
    let [leader, survivor] = cluster.leader_first().await;
    let term = leader.term().await;
    for _ in 0..5 {
        leader.pause();
        tokio::time::sleep(Duration::from_millis(300)).await;
        leader.resume();
        assert!(stores(survivor).await);
    }
    assert_eq!(leader.term().await, term);
}

/// The new process listens at the address of the leader, and does not lead.
#[tokio::test(flavor = "multi_thread")]
async fn restarted_leader_does_not_pass_for_itself() {
    let cluster = patient();
    for _ in 0..3 {
        let [leader, survivor] = cluster.leader_first().await;
        let term = survivor.term().await;
        leader.kill();
        let killed = Instant::now();
        leader.start();
        eventually("a survivor leads", async || stores(survivor).await, |stored| *stored).await;
        assert!(killed.elapsed() < ELECTION_MIN / 2, "{:?}", killed.elapsed());
        assert!(survivor.term().await > term);
        converged(&cluster).await;
    }
    assert_equal_states(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_of_five_replace_a_leader_without_timeout() {
    let slow = options().nodes(5).env("HEARTH__RAFT__ELECTION_MIN_MS", "8000");
    let cluster = slow.env("HEARTH__RAFT__ELECTION_MAX_MS", "10000").start();
    let [leader, other, survivor] = cluster.leader_first().await;
    for node in cluster.nodes() {
        node.ready().await;
    }
    assert!(stores(survivor).await);
    other.kill();
    leader.kill();
    let killed = Instant::now();
    eventually("a survivor leads", async || stores(survivor).await, |stored| *stored).await;
    assert!(killed.elapsed() < ELECTION_MIN / 2, "{:?}", killed.elapsed());
    for node in [leader, other] {
        node.restart().await;
    }
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}
