//! Corrupted data is detected: a checksum error ends the node, and a log without its tail
//! quarantines it. No file is deleted to recover.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found
}

fn corrupt(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let start = bytes.len() / 4;
    for byte in &mut bytes[start..start + 16] {
        *byte = !*byte;
    }
    fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn checksum_error_ends_the_node_with_advice() {
    let cluster = options().start();
    cluster.store_each((0..100).map(labelled)).await;
    // An orderly stop flushes the state to a file.
    cluster.crash().await;
    cluster.shut_down().await;
    let state = cluster.data().join("state/000001");
    let tables = files(&state, "sst");
    assert!(!tables.is_empty(), "the state was flushed");
    tables.iter().for_each(|table| corrupt(table));
    let log = cluster.failed_start(&[]).await;
    assert!(log.contains("damaged") && log.contains("restore"), "{log}");
    assert_eq!(files(&state, "sst"), tables, "no file was removed");
}

#[tokio::test]
async fn log_without_its_tail_quarantines_the_node() {
    let cluster = options().start();
    // The durable high-water mark follows the log under load too, once per second.
    let mark = || fs::read(cluster.data().join("log.mark")).ok();
    let first = mark();
    let renewed = async || {
        cluster.create(&json!({"label": "one of many"})).await;
        mark()
    };
    let is_new = |found: &Option<_>| found.is_some() && *found != first;
    eventually("the high-water mark is renewed", renewed, is_new).await;
    cluster.kill();
    let wal = files(&cluster.data().join("log"), "log").pop().unwrap();
    let bytes = fs::read(&wal).unwrap();
    fs::write(&wal, &bytes[..bytes.len() / 2]).unwrap();
    cluster.start();
    cluster.up().await;
    let (status, text) = cluster.readyz().await.unwrap();
    assert_eq!(status, 503);
    assert!(text.contains("[-] log failed") && text.contains("does not vote"), "{text}");
    let create = cluster.send(Method::POST, "/agent/nodes", &json!({"label": "no"})).await;
    create.assert_error(503, "quarantined");
    assert_eq!(cluster.metric("hearth_quarantined").await, 1.0);
    cluster.shut_down().await;
}

#[tokio::test]
async fn log_without_its_high_water_mark_is_rejected() {
    let cluster = options().start();
    cluster.create(&json!({"label": "x"})).await;
    cluster.kill();
    fs::remove_file(cluster.data().join("log.mark")).unwrap();
    let log = cluster.failed_start(&[]).await;
    assert!(log.contains("log.mark") && log.contains("restore"), "{log}");
}

#[tokio::test]
async fn missing_state_behind_a_compacted_log_is_rejected() {
    let mut cluster = options().eager_compaction("300").start();
    let purged = async || {
        cluster.create(&labelled("one of many")).await;
        cluster.metric("hearth_raft_purged_index").await
    };
    eventually("the log is compacted", purged, |index| *index > 20.0).await;
    assert!(cluster.stop().await);
    let (state, saved) = (cluster.data().join("state"), cluster.data().join("saved"));
    let manifest = fs::read_dir(state.join("000001")).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.to_string_lossy().contains("MANIFEST").then_some(path)
    });
    let manifest = manifest.unwrap();
    let bytes = fs::read(&manifest).unwrap();
    for length in [0, bytes.len() / 2] {
        fs::write(&manifest, &bytes[..length]).unwrap();
        let log = cluster.failed_start(&[]).await;
        let advice = log.contains("damaged") && log.contains("restore");
        assert!(advice && !log.contains("panicked"), "{length} bytes: {log}");
    }
    fs::write(&manifest, &bytes).unwrap();
    fs::rename(&state, &saved).unwrap();
    let log = cluster.failed_start(&[]).await;
    let reason = log.contains("files of the state are missing") && log.contains("restore");
    assert!(reason && !log.contains("panicked"), "{log}");
    fs::remove_dir_all(&state).unwrap();
    fs::rename(&saved, &state).unwrap();
    cluster.restart().await;
}
