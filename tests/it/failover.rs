//! Nothing acknowledged is lost and nothing is done twice when leaders die, and no
//! linearizable read ever shows the past. HEARTH_KILLS and HEARTH_SEED lengthen and
//! vary the runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Cluster, Node, PATIENCE};

use crate::cluster::{assert_equal_states, settled};
use crate::durability::{random_after, setting, stored, write};
use crate::options;

/// A cluster with processes that tests started beside those of `hearth dev`.
pub(crate) struct Lives {
    cluster: Arc<Cluster>,
    later: Vec<Option<Node>>,
}

impl Lives {
    pub(crate) fn of(cluster: Arc<Cluster>) -> Self {
        Self { later: cluster.nodes().map(|_| None).collect(), cluster }
    }

    pub(crate) fn kill(&mut self, at: usize) {
        match &mut self.later[at] {
            None => self.cluster.at(at).kill(),
            Some(node) => node.kill(),
        }
    }

    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Holds a process, as a pause of its machine would.
    pub(crate) fn hold(&self, at: usize) {
        tests::signal(self.pid(at), "STOP");
    }

    /// Has it go on.
    pub(crate) fn go_on(&self, at: usize) {
        tests::signal(self.pid(at), "CONT");
    }

    fn pid(&self, at: usize) -> u32 {
        self.later[at].as_ref().map_or_else(|| self.cluster.at(at).pid(), Node::pid)
    }

    fn start(&mut self, at: usize) {
        self.later[at] = Some(self.cluster.at(at).serve());
    }

    pub(crate) async fn bring_back(&mut self, at: usize) {
        self.start(at);
        self.cluster.at(at).ready().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leaders_killed_under_load_lose_nothing_and_repeat_nothing() {
    let cluster = Arc::new(options().nodes(3).start());
    let mut lives = Lives::of(Arc::clone(&cluster));
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            tokio::spawn(write(Arc::clone(&cluster), writer, stop, acknowledged))
        })
        .collect();
    let wait_for = async |more: u64| {
        let (started, target) = (Instant::now(), acknowledged.load(Ordering::Relaxed) + more);
        while acknowledged.load(Ordering::Relaxed) < target {
            assert!(started.elapsed() < PATIENCE, "writes are not acknowledged");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let mut random = setting("HEARTH_SEED", 1);
    for kill in 0..setting("HEARTH_KILLS", 3) {
        random = random_after(random);
        wait_for(50 + (random >> 33) % 200).await;
        let leader = cluster.leader().await;
        lives.kill(leader);
        let killed = Instant::now();
        wait_for(20).await;
        println!("kill {kill}: node {}, writing again after {:?}", leader + 1, killed.elapsed());
        lives.bring_back(leader).await;
    }
    wait_for(50).await;
    stop.store(true, Ordering::Relaxed);
    let mut kept = BTreeMap::new();
    for writer in writers {
        kept.extend(writer.await.unwrap());
    }
    settled(&cluster).await;
    for node in cluster.nodes() {
        let found = stored(&node).await;
        for (label, id) in &kept {
            let there = found.get(label);
            assert_eq!(there, Some(&vec![id.clone()]), "{label} at node {}", node.id());
        }
        assert!(found.values().all(|ids| ids.len() == 1), "something is there twice");
    }
    assert_equal_states(&cluster.at(0)).await;
}

/// Sets the label of a memory to one number after the other, and has another
/// client read it linearizably on every node in turn: no read that began after a
/// write was acknowledged may show less.
struct Counter {
    cluster: Arc<Cluster>,
    path: String,
    acknowledged: AtomicU64,
    reads: AtomicU64,
    stop: AtomicBool,
}

impl Counter {
    async fn start(cluster: Arc<Cluster>) -> Arc<Self> {
        let stored = cluster.create(&json!({"label": "0"})).await;
        let path = format!("/agent/nodes/{}", stored["id"].as_str().unwrap());
        let (acknowledged, reads, stop) = Default::default();
        Arc::new(Self { cluster, path, acknowledged, reads, stop })
    }

    async fn write(self: Arc<Self>) {
        let agent = self.cluster.another_client();
        let mut number = 0;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            let node = self.cluster.at(number as usize % 3);
            let ask = agent.ask_at(&node, Method::PATCH, &self.path);
            let answer = ask.json(&json!({"label": number.to_string()})).try_send().await;
            // Else its fate is unknown: it counts as neither done nor not done.
            if answer.is_ok_and(|answer| answer.status == StatusCode::OK) {
                self.acknowledged.store(number, Ordering::SeqCst);
            }
        }
    }

    async fn read(self: Arc<Self>) {
        let agent = self.cluster.another_client();
        for turn in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let at_least = self.acknowledged.load(Ordering::SeqCst);
            let path = format!("{}?consistency=linearizable", self.path);
            let answer = agent.ask_at(&self.cluster.at(turn % 3), Method::GET, &path);
            let Ok(answer) = answer.try_send().await else { continue };
            if answer.status != StatusCode::OK {
                assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
                continue;
            }
            let found: u64 = label(&answer.body).parse().unwrap();
            assert!(found >= at_least, "read {found} after {at_least} was acknowledged");
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn until(&self, reads: u64) {
        let (started, target) = (Instant::now(), self.reads.load(Ordering::Relaxed) + reads);
        while self.reads.load(Ordering::Relaxed) < target {
            assert!(started.elapsed() < PATIENCE, "no linearizable read is answered");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn label(memory: &Value) -> &str {
    memory["label"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_restarted_within_its_election_timeout_never_shows_an_old_value() {
    // Long enough that a restart fits in: the old leader is back before anybody stands.
    let slow = options().nodes(3).env("HEARTH__RAFT__ELECTION_MIN_MS", "4000");
    let cluster = Arc::new(slow.env("HEARTH__RAFT__ELECTION_MAX_MS", "5000").start());
    let mut lives = Lives::of(Arc::clone(&cluster));
    let counter = Counter::start(Arc::clone(&cluster)).await;
    let tasks =
        [tokio::spawn(Arc::clone(&counter).write()), tokio::spawn(Arc::clone(&counter).read())];
    for _ in 0..setting("HEARTH_KILLS", 2) {
        counter.until(50).await;
        let leader = cluster.leader().await;
        lives.kill(leader);
        let killed = Instant::now();
        lives.start(leader);
        cluster.at(leader).up().await;
        assert!(killed.elapsed() < Duration::from_secs(4), "back within the election timeout");
    }
    counter.until(50).await;
    counter.stop.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_held_for_five_seconds_shows_nothing_of_the_past_when_it_goes_on() {
    let cluster = Arc::new(options().nodes(3).start());
    let counter = Counter::start(Arc::clone(&cluster)).await;
    let leader = cluster.leader().await;
    let (held, survivor) = (cluster.at(leader), cluster.at((leader + 1) % 3));
    tests::signal(held.pid(), "STOP");
    let stopped = Instant::now();
    // Writes go on without it; then a read is sent to it, which it finds when it goes on.
    let mut acknowledged = 0;
    while acknowledged < 20 || stopped.elapsed() < Duration::from_secs(5) {
        assert!(stopped.elapsed() < PATIENCE, "the others do not go on without it");
        let next = json!({"label": (acknowledged + 1).to_string()});
        let ask = survivor.ask(Method::PATCH, &counter.path).json(&next);
        if ask.try_send().await.is_ok_and(|answer| answer.status == StatusCode::OK) {
            acknowledged += 1;
        }
    }
    let agent = cluster.another_client();
    let path = format!("{}?consistency=linearizable", counter.path);
    let reads = (0..8).map(|_| agent.ask_at(&held, Method::GET, &path).try_send());
    let (answers, ()) = tokio::join!(futures::future::join_all(reads), async {
        // The requests are in its sockets: nothing tells when, but a moment is enough,
        // and too short a one makes the test weaker, not wrong.
        tokio::time::sleep(Duration::from_millis(100)).await;
        tests::signal(held.pid(), "CONT");
    });
    let shown = answers.into_iter().flatten().filter(|answer| answer.status == StatusCode::OK);
    let shown: Vec<u64> = shown.map(|answer| label(&answer.body).parse().unwrap()).collect();
    assert!(shown.iter().all(|found| *found >= acknowledged), "{shown:?} after {acknowledged}");
    assert!(!shown.is_empty(), "the held node answers again");
    settled(&cluster).await;
    assert_equal_states(&cluster.at(0)).await;
}
