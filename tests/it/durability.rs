//! Nothing acknowledged is lost and nothing is done twice, whenever the node is
//! killed. HEARTH_KILLS and HEARTH_SEED lengthen and vary the run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{At, Cluster};

use crate::options;

const WRITERS: u64 = 8;

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A small generator of our own, so that a seed means the same everywhere.
pub(crate) fn random_after(random: u64) -> u64 {
    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Writes through all nodes in turn until told to stop, each memory under a key of its own, repeating the
/// same request until it has an answer. Returns what was acknowledged.
pub(crate) async fn write(
    cluster: Arc<Cluster>,
    writer: u64,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
) -> BTreeMap<String, String> {
    let (mut kept, mut turn) = (BTreeMap::new(), writer as usize);
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let label = format!("writer {writer} memory {number}");
        loop {
            turn += 1;
            let ask = cluster
                .at(turn % cluster.nodes().count())
                .ask(Method::POST, "/agent/nodes")
                .header("Idempotency-Key", &label)
                .json(&json!({"label": label}));
            match ask.try_send().await {
                Ok(answer) if answer.status == StatusCode::CREATED => {
                    kept.insert(label, answer.body["id"].as_str().unwrap().to_owned());
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Ok(answer) => {
                    let unsure = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
                    assert!(unsure.contains(&answer.status), "{} {}", answer.status, answer.body);
                }
                // The node is down: the same request again until it is back.
                Err(_) => {}
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    kept
}

/// Ids by label of everything that a node holds.
pub(crate) async fn stored(node: &At<'_>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for page in 1.. {
        let path = format!("/agent/nodes?page={page}&page_size=100&sort=created_at&order=asc");
        let answer = node.ask(Method::GET, &path).send().await.ok();
        let items: &Vec<Value> = answer["items"].as_array().unwrap();
        for item in items {
            let text = |name: &str| item[name].as_str().unwrap().to_owned();
            found.entry(text("label")).or_default().push(text("id"));
        }
        if items.len() < 100 {
            break;
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_during_writes_it_loses_nothing_and_repeats_nothing() {
    let cluster = Arc::new(options().start());
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            tokio::spawn(write(Arc::clone(&cluster), writer, stop, acknowledged))
        })
        .collect();
    let wait_for = async |target: u64| {
        let started = Instant::now();
        while acknowledged.load(Ordering::Relaxed) < target {
            assert!(started.elapsed() < tests::PATIENCE, "writes are not acknowledged");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // Each kill comes after another number of writes.
    let mut random = setting("HEARTH_SEED", 1);
    let mut node = None;
    for kill in 0..setting("HEARTH_KILLS", 4) {
        random = random_after(random);
        wait_for(acknowledged.load(Ordering::Relaxed) + 100 + (random >> 33) % 400).await;
        match &mut node {
            None => cluster.kill_node(),
            Some(node) => tests::Node::kill(node),
        }
        node = Some(cluster.serve());
        cluster.ready().await;
        println!("kill {kill}: {} acknowledged so far", acknowledged.load(Ordering::Relaxed));
    }
    wait_for(acknowledged.load(Ordering::Relaxed) + 100).await;
    stop.store(true, Ordering::Relaxed);
    let mut kept = BTreeMap::new();
    for writer in writers {
        kept.extend(writer.await.unwrap());
    }
    let found = stored(&cluster.at(0)).await;
    for (label, id) in &kept {
        assert_eq!(found.get(label), Some(&vec![id.clone()]), "{label} was acknowledged");
    }
    assert!(found.values().all(|ids| ids.len() == 1), "something is there twice");
    // Each writer may have one request that was done but never answered.
    assert!(found.len() <= kept.len() + WRITERS as usize);
}

#[tokio::test]
async fn after_its_log_was_cut_it_starts_with_everything() {
    let cut = options().env("HEARTH__RAFT__CUT_BYTES", "1");
    let cluster = cut.env("HEARTH__RAFT__CUT_KEEP_ENTRIES", "5").start();
    let mut kept = BTreeMap::new();
    let started = Instant::now();
    while cluster.metric("hearth_raft_purged_index").await < 20.0 {
        assert!(started.elapsed() < tests::PATIENCE, "the log is not cut");
        let label = format!("memory {}", kept.len());
        let stored = cluster.create(&json!({"label": label})).await;
        kept.insert(label, vec![stored["id"].as_str().unwrap().to_owned()]);
    }
    cluster.kill_node();
    let _node = cluster.serve();
    cluster.ready().await;
    assert_eq!(stored(&cluster.at(0)).await, kept);
}
