//! Damaged data is noticed: a checksum error ends the node, a log that lost its
//! tail keeps it out of the cluster. Nothing is wiped to get going again.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::options;

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found
}

fn flip_in_the_middle(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 4;
    for byte in &mut bytes[middle..middle + 16] {
        *byte = !*byte;
    }
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_checksum_error_in_the_state_ends_the_node_and_says_what_to_do() {
    let cluster = options().start();
    for number in 0..100 {
        cluster.create(&json!({"label": format!("memory {number}")})).await;
    }
    // Stopping in order makes the state durable in a file that can be damaged.
    cluster.kill_node();
    let mut node = cluster.serve();
    cluster.ready().await;
    assert!(node.stop(), "{}", node.log());
    let state = cluster.data().join("state/000001");
    let tables = files(&state, "sst");
    assert!(!tables.is_empty(), "the state was flushed");
    tables.iter().for_each(|table| flip_in_the_middle(table));
    let before = files(&state, "sst");
    let mut node = cluster.serve();
    assert!(!node.ended(), "it must not run on damaged data");
    let log = node.log();
    assert!(log.contains("damaged") && log.contains("restore"), "{log}");
    assert_eq!(files(&state, "sst"), before, "nothing was removed");
}

#[tokio::test]
async fn a_log_that_lost_its_tail_leaves_the_node_up_and_out() {
    let cluster = options().start();
    let log = cluster.data().join("log");
    // The note must follow the log under load too, each second.
    let note = || fs::read(cluster.data().join("log.note")).ok();
    let (started, first) = (std::time::Instant::now(), note());
    while note() == first || note().is_none() {
        assert!(started.elapsed() < tests::PATIENCE, "the note is not renewed");
        cluster.create(&json!({"label": "one of many"})).await;
    }
    cluster.kill_node();
    let wal = files(&log, "log").pop().unwrap();
    let bytes = fs::read(&wal).unwrap();
    fs::write(&wal, &bytes[..bytes.len() / 2]).unwrap();
    let mut node = cluster.serve();
    let started = std::time::Instant::now();
    let (status, text) = loop {
        if let Some(answer) = cluster.readyz().await {
            break answer;
        }
        assert!(started.elapsed() < tests::PATIENCE, "it does not come up: {}", node.log());
        tokio::task::yield_now().await;
    };
    assert_eq!(status, 503);
    assert!(text.contains("[-] log failed") && text.contains("does not vote"), "{text}");
    let create = cluster.ask(reqwest::Method::POST, "/agent/nodes").json(&json!({"label": "no"}));
    let refused = create.send().await;
    assert_eq!((refused.status.as_u16(), &refused.body["error"]), (503, &json!("quarantined")));
    assert_eq!(cluster.metric("hearth_quarantined").await, 1.0);
    assert!(node.stop(), "{}", node.log());
}

#[tokio::test]
async fn a_log_without_its_note_is_not_trusted() {
    let cluster = options().start();
    cluster.create(&json!({"label": "x"})).await;
    cluster.kill_node();
    fs::remove_file(cluster.data().join("log.note")).unwrap();
    let mut node = cluster.serve();
    assert!(!node.ended());
    assert!(node.log().contains("log.note") && node.log().contains("restore"), "{}", node.log());
}
