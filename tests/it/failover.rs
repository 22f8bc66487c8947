//! Crashes of leaders lose nothing acknowledged and repeat nothing, and linearizable reads
//! never return an older value. HEARTH_KILLS and HEARTH_SEED lengthen and vary the runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn leader_crashes_under_load_lose_and_repeat_nothing() {
    let cluster = Arc::new(options().nodes(3).start());
    let writers = Writers::start(&cluster, 6);
    let mut random = setting("HEARTH_SEED", 1);
    for kill in 0..setting("HEARTH_KILLS", 3) {
        random = random_after(random);
        writers.acknowledge(50 + (random >> 33) % 200).await;
        let [leader] = cluster.leader_first().await;
        leader.kill();
        let killed = Instant::now();
        writers.acknowledge(20).await;
        println!("kill {kill}: node {}, writing again after {:?}", leader.id(), killed.elapsed());
        leader.restart().await;
    }
    writers.acknowledge(50).await;
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, 6).await;
    }
    assert_equal_states(&cluster).await;
}

/// Sets the label of a memory to increasing numbers while another client reads it linearizably
/// on each node in turn. A read that starts after a write was acknowledged returns at least
/// the number of that write.
struct Counter {
    cluster: Arc<Cluster>,
    path: String,
    acknowledged: AtomicU64,
    reads: AtomicU64,
    stop: AtomicBool,
}

impl Counter {
    async fn start(cluster: &Arc<Cluster>) -> Arc<Self> {
        let path = format!("/agent/nodes/{}", cluster.store(&json!({"label": "0"})).await);
        let (acknowledged, reads, stop) = Default::default();
        Arc::new(Self { cluster: Arc::clone(cluster), path, acknowledged, reads, stop })
    }

    async fn write(self: Arc<Self>) {
        let agent = self.cluster.new_agent();
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            let node = self.cluster.at(number as usize % 3);
            let request = agent.request(node, Method::PATCH, &self.path);
            let response = request.json(&json!({"label": number.to_string()})).try_send().await;
            // Without a 200 the outcome is unknown: the write is not counted.
            if response.is_ok_and(|response| response.status == StatusCode::OK) {
                self.acknowledged.store(number, Ordering::SeqCst);
            }
        }
    }

    async fn read(self: Arc<Self>) {
        let agent = self.cluster.new_agent();
        for turn in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let at_least = self.acknowledged.load(Ordering::SeqCst);
            let path = format!("{}?consistency=linearizable", self.path);
            let request = agent.request(self.cluster.at(turn % 3), Method::GET, &path);
            let Ok(response) = request.try_send().await else { continue };
            if response.status != StatusCode::OK {
                let (status, body) = (response.status, response.body);
                assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
                continue;
            }
            let found = number(&response.body);
            assert!(found >= at_least, "read {found} after {at_least} was acknowledged");
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits for 50 more reads.
    async fn advance(&self) {
        let target = self.reads.load(Ordering::Relaxed) + 50;
        let reads = async || self.reads.load(Ordering::Relaxed);
        eventually("linearizable reads succeed", reads, |reads| *reads >= target).await;
    }
}

fn number(memory: &Value) -> u64 {
    string(&memory["label"]).parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn restarted_leader_returns_no_old_value() {
    // Long enough for a restart: the old leader is back before the next election.
    let slow = options().nodes(3).env("HEARTH__RAFT__ELECTION_MIN_MS", "4000");
    let slow = slow.env("FAILPOINTS", "leader-watch=return");
    let cluster = Arc::new(slow.env("HEARTH__RAFT__ELECTION_MAX_MS", "5000").start());
    let counter = Counter::start(&cluster).await;
    let tasks =
        [tokio::spawn(Arc::clone(&counter).write()), tokio::spawn(Arc::clone(&counter).read())];
    for _ in 0..setting("HEARTH_KILLS", 2) {
        counter.advance().await;
        let [leader] = cluster.leader_first().await;
        leader.kill();
        let killed = Instant::now();
        leader.start();
        leader.up().await;
        assert!(killed.elapsed() < Duration::from_secs(4), "back within the election timeout");
    }
    counter.advance().await;
    counter.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_leader_returns_no_old_value() {
    let cluster = Arc::new(options().nodes(3).start());
    let counter = Counter::start(&cluster).await;
    let [paused, survivor] = cluster.leader_first().await;
    paused.pause();
    let started = Instant::now();
    // The other nodes accept writes. Then the paused node receives reads in its sockets.
    let mut acknowledged = 0;
    let write = async || {
        let next = json!({"label": (acknowledged + 1).to_string()});
        let request = survivor.request(Method::PATCH, &counter.path).json(&next);
        let response = request.try_send().await;
        acknowledged += u64::from(response.is_ok_and(|found| found.status == StatusCode::OK));
        acknowledged
    };
    let enough = |count: &u64| *count >= 20 && started.elapsed() >= Duration::from_secs(5);
    let acknowledged = eventually("the other nodes accept writes", write, enough).await;
    let agent = cluster.new_agent();
    let path = format!("{}?consistency=linearizable", counter.path);
    let reads = (0..8).map(|_| agent.request(paused, Method::GET, &path).try_send());
    let (responses, ()) = tokio::join!(futures::future::join_all(reads), async {
        // No signal says that the requests are in its sockets. A pause that is too short
        // makes the test weaker, not wrong.
        tokio::time::sleep(Duration::from_millis(100)).await;
        paused.resume();
    });
    let read = responses.into_iter().flatten().filter(|found| found.status == StatusCode::OK);
    let read: Vec<u64> = read.map(|response| number(&response.body)).collect();
    assert!(read.iter().all(|found| *found >= acknowledged), "{read:?} after {acknowledged}");
    assert!(!read.is_empty(), "the resumed node responds");
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}
