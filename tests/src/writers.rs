//! Writers that run beside faults and record what was acknowledged, and what a node then holds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::wait::POLL;
use crate::{Cluster, Method, Node, StatusCode, array, eventually, id, json, string};

/// The next state of a linear congruential generator: a seed means the same everywhere.
pub fn random_after(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// So many characters that compress to half of that.
pub fn random_text(seed: u64, characters: usize) -> String {
    let numbers = std::iter::successors(Some(seed), |last| Some(random_after(*last)));
    let mut text: String = numbers.skip(1).take(characters.div_ceil(16)).map(hex).collect();
    text.truncate(characters);
    text
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// Writers that create memories until they are stopped.
pub struct Writers {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<BTreeMap<String, String>>>,
}

struct Shared {
    cluster: Arc<Cluster>,
    stop: AtomicBool,
    acknowledged: AtomicU64,
    /// In milliseconds.
    longest_pause: AtomicU64,
    most_requests: AtomicU64,
    written: Mutex<Vec<Written>>,
}

/// An acknowledged write.
#[derive(Debug, Clone)]
pub struct Written {
    /// Its memory.
    pub label: String,
    /// Entry of the log that contains it, as the response said; that entry or an earlier one, if the
    /// request was repeated.
    pub index: u64,
    /// Whether the request was repeated.
    pub is_repeated: bool,
}

impl Writers {
    /// Starts `count` writers. Each sends to all nodes in turn.
    pub fn start(cluster: &Arc<Cluster>, count: usize) -> Self {
        let (stop, acknowledged, longest_pause, most_requests) = Default::default();
        let (cluster, written) = (Arc::clone(cluster), Mutex::default());
        let shared = Shared { cluster, stop, acknowledged, longest_pause, most_requests, written };
        let shared = Arc::new(shared);
        let task = |writer| tokio::spawn(write(Arc::clone(&shared), writer));
        let tasks = (0..count).map(task).collect();
        Self { shared, tasks }
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::Relaxed)
    }

    /// The longest time that one writer waited for an acknowledgement, so far.
    pub fn longest_pause(&self) -> Duration {
        Duration::from_millis(self.shared.longest_pause.load(Ordering::Relaxed))
    }

    /// The most requests that one write needed, so far. Each goes to the next node.
    pub fn most_requests(&self) -> u64 {
        self.shared.most_requests.load(Ordering::Relaxed)
    }

    /// All acknowledged writes, so far.
    pub fn written(&self) -> Vec<Written> {
        self.shared.written.lock().expect("no writer panics with it").clone()
    }

    /// Waits until `more` writes are acknowledged.
    pub async fn acknowledge(&self, more: u64) {
        let target = self.acknowledged() + more;
        let observe = async || self.acknowledged();
        eventually("writes are acknowledged", observe, |found| *found >= target).await;
    }

    /// Stops them and returns the acknowledged memories: ids by label.
    pub async fn stop(self) -> BTreeMap<String, String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut acknowledged = BTreeMap::new();
        for task in self.tasks {
            acknowledged.extend(task.await.expect("the writer ends"));
        }
        acknowledged
    }
}

/// Creates memories under idempotency keys. Repeats a request until it has a response.
async fn write(shared: Arc<Shared>, writer: usize) -> BTreeMap<String, String> {
    let (mut created, mut turn, mut last) = (BTreeMap::new(), writer, Instant::now());
    for number in 0.. {
        let label = format!("writer {writer} memory {number}");
        for requests in 1.. {
            if shared.stop.load(Ordering::Relaxed) {
                return created;
            }
            turn += 1;
            let node = shared.cluster.at(turn % shared.cluster.nodes().len());
            let request =
                node.request(Method::POST, "/agent/nodes").header("Idempotency-Key", &label);
            match request.json(&json!({"label": label})).try_send().await {
                Ok(response) if response.status == StatusCode::CREATED => {
                    let (index, is_repeated) = (response.number("x-hearth-index"), requests > 1);
                    let written = Written { label: label.clone(), index, is_repeated };
                    shared.written.lock().expect("no writer panics with it").push(written);
                    created.insert(label, id(&response.body).to_owned());
                    shared.acknowledged.fetch_add(1, Ordering::Relaxed);
                    let pause = last.elapsed().as_millis() as u64;
                    shared.longest_pause.fetch_max(pause, Ordering::Relaxed);
                    shared.most_requests.fetch_max(requests, Ordering::Relaxed);
                    last = Instant::now();
                    break;
                }
                Ok(response) => {
                    let unsure = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
                    assert!(unsure.contains(&response.status), "{response:?}");
                }
                // The node is down: the same request again until it is back.
                Err(_) => {}
            }
            tokio::time::sleep(POLL).await;
        }
    }
    created
}

/// Ids by label of all memories that a node holds.
pub async fn stored(node: &Node) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for page in 1.. {
        let path = format!("/agent/nodes?page={page}&page_size=100&sort=created_at&order=asc");
        let body = node.get(&path).await;
        for item in array(&body["items"]) {
            found.entry(string(&item["label"]).into()).or_default().push(id(item).into());
        }
        if array(&body["items"]).len() < 100 {
            break;
        }
    }
    found
}

/// Asserts that a node holds each acknowledged memory, and each memory once. Every writer may
/// have one request that was done without a response.
pub async fn assert_stored_once(
    node: &Node,
    acknowledged: &BTreeMap<String, String>,
    writers: usize,
) {
    let found = stored(node).await;
    for (label, id) in acknowledged {
        let ids = found.get(label);
        assert_eq!(ids, Some(&vec![id.clone()]), "{label} at node {}", node.id());
    }
    assert!(found.values().all(|ids| ids.len() == 1), "a memory is stored twice");
    assert!(found.len() <= acknowledged.len() + writers);
}
