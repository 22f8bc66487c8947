//! A disk that stalls for 0.1 to 5 s costs no leader its term. A follower's delays no write; the
//! leader's delays the writes of that time, which succeed. A leader whose disk hangs hands over.
#![cfg(feature = "failpoints")]

use std::time::{Duration, Instant};

use super::*;

/// The longest stall: longer than every timeout of an election.
const STALL: Duration = Duration::from_secs(5);
/// Numbers and milliseconds of the stalls: below an election, above it, and the longest.
const STALLS: &str = "3*sleep(100)->1*sleep(1200)->1*sleep(5000)";
/// Uses of the disk before the stall, and creates: each uses the disk once at least.
const BEFORE: usize = 100;
const CREATES: usize = 500;

/// The node's state stalls, then its log in a write, then in a sync, while another node's client
/// writes. `check` receives the longest time of a create.
async fn stall(leads: bool, check: impl Fn(Duration)) {
    let cluster = options().nodes(3).start();
    let [first, slow, other] = cluster.leader_first().await;
    // The state first: its start applies what the log has.
    for point in ["apply-forget", "log-append", "log-sync"] {
        slow.kill();
        let sleeps = format!("{point}={BEFORE}*off->{STALLS}->off");
        slow.restart_with(&[("FAILPOINTS", &sleeps)]).await;
        let leader = if leads { slow } else { first };
        cluster.transfer_to(leader.id() as usize - 1).await;
        let (term, started) = (leader.term().await, Instant::now());
        let mut longest = Duration::ZERO;
        for number in 0..CREATES {
            let started = Instant::now();
            other.create(&labelled(number)).await;
            longest = longest.max(started.elapsed());
        }
        converged(&cluster).await;
        assert!(started.elapsed() > STALL, "{point}: it stalled");
        check(longest);
        let status = leader.status().await.unwrap();
        assert_fields(&status, json!({"role": "leader", "term": term}));
    }
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn slow_disk_of_a_leader_delays_writes_only() {
    stall(true, |longest| assert!(longest > STALL / 2, "no write waited: {longest:?}")).await;
}

/// The disk does not fail: nothing but another leader ends the wait.
#[tokio::test]
async fn leader_whose_disk_hangs_hands_over() {
    let cluster = options().nodes(3).start();
    // The mark is written once per second.
    for (point, before) in [("log-sync", BEFORE), ("log-append", BEFORE), ("log-mark", 5)] {
        let [hanging, other] = cluster.leader_first().await;
        hanging.kill();
        let hangs = format!("{point}={before}*off->sleep(600000)");
        hanging.restart_with(&[("FAILPOINTS", &hangs)]).await;
        cluster.transfer_to(hanging.id() as usize - 1).await;
        let (mut longest, mut repeated, mut number) = (Duration::ZERO, 0, 0);
        let until = Instant::now() + PATIENCE;
        while longest <= STALL && Instant::now() < until {
            number += 1;
            let (started, key) = (Instant::now(), format!("{point} {number}"));
            let create = async || {
                let request = other.request(Method::POST, "/agent/nodes");
                let request = request.header("Idempotency-Key", &key).json(&labelled(number));
                request.try_send().await.unwrap().status
            };
            while create().await != StatusCode::CREATED {
                repeated += 1;
            }
            longest = longest.max(started.elapsed());
        }
        assert!(repeated <= 1, "{point}: {repeated} requests failed");
        assert!(longest > STALL && longest < 3 * STALL, "{point}: {longest:?}");
        let status = other.status().await.unwrap();
        assert_ne!(status["leader"], hanging.id(), "{point}");
        hanging.kill();
        hanging.restart().await;
        converged(&cluster).await;
        assert_equal_states(&cluster).await;
    }
}

#[tokio::test]
async fn unfinished_sync_is_in_the_metrics() {
    let node = options().start();
    node.kill();
    node.restart_with(&[("FAILPOINTS", "log-sync=50*off->1*sleep(3000)->off")]).await;
    let writers = async {
        for number in 0..60 {
            node.create(&labelled(number)).await;
        }
    };
    let pending = async || node.metric("hearth_log_sync_pending_seconds").await;
    let seen = eventually("it is seen while it lasts", pending, |seconds| *seconds > 1.0);
    tokio::join!(writers, seen);
    assert!(pending().await < 1.0);
}

#[tokio::test]
async fn slow_disk_of_a_follower_delays_nothing() {
    stall(false, |longest| assert!(longest < STALL / 2, "a write waited: {longest:?}")).await;
}
