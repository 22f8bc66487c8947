//! A damaged file of a data folder is noticed: the node names it and ends, or takes no part in the
//! cluster, or has lost nothing. It changes no file to get going again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// What a start on a damaged folder came to.
#[derive(Debug)]
enum Start {
    /// It ended with this log.
    Ended(String),
    /// It serves its operator only.
    Quarantined,
    /// It serves all memories, and hashed all of its state.
    Intact,
}

/// One file of each kind of a data folder, by its kind: the largest. Saved graphs have tests of
/// their own.
fn files_by_kind(data: &Path) -> BTreeMap<String, PathBuf> {
    let mut found: BTreeMap<String, (u64, PathBuf)> = BTreeMap::new();
    for folder in ["", "state", "state/000001", "log"] {
        for entry in fs::read_dir(data.join(folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            // Locks are empty. The logs of RocksDB and of this test are no data.
            let is_data = name != "LOCK" && !name.starts_with("LOG");
            let given = ["hearth.toml", "node.pem", "node.key"];
            let is_of_test =
                folder.is_empty() && (name.ends_with(".log") || given.contains(&name.as_str()));
            if !entry.file_type().unwrap().is_file() || !is_data || is_of_test {
                continue;
            }
            // "000018.sst" and "MANIFEST-000005" are kinds of files, whatever their numbers.
            let kind = name.trim_matches(|c: char| c.is_ascii_digit() || c == '-');
            let kind = format!("{folder}/{kind}");
            let (bytes, path) = (entry.metadata().unwrap().len(), entry.path());
            if found.get(&kind).is_none_or(|(most, _)| *most < bytes) {
                found.insert(kind, (bytes, path));
            }
        }
    }
    found.into_iter().map(|(kind, (_, path))| (kind, path)).collect()
}

fn copy(from: &Path, to: &Path) {
    let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// Flips the bits of 16 bytes at a quarter of a file.
fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let start = bytes.len() / 4;
    bytes.iter_mut().skip(start).take(16).for_each(|byte| *byte = !*byte);
    bytes
}

fn truncated(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 2].to_vec()
}

async fn labels_of(node: &Node) -> Vec<String> {
    let list = node.get("/agent/nodes?sort=created_at&page_size=100").await;
    labels(array(&list["items"])).into_iter().map(str::to_owned).collect()
}

async fn start(node: &Node, expected: &[String]) -> Start {
    let mut process = node.serve_with(&[]);
    let observe = async || match process.has_ended() {
        true => Some(None),
        false => node.readyz().await.map(Some),
    };
    let is_known = |seen: &Option<Option<(StatusCode, String)>>| match seen {
        Some(Some((status, text))) => status.is_success() || text.contains("[-] log failed"),
        seen => seen.is_some(),
    };
    match eventually("it ends or responds", observe, is_known).await.flatten() {
        None => return Start::Ended(process.log()),
        Some((status, _)) if !status.is_success() => return Start::Quarantined,
        Some(_) => {}
    }
    // Hashes every row of the state. A fault ends the node.
    let verify = node.ops_request(Method::POST, "/cluster/verify").json(&json!({}));
    let verified = verify.try_send().await.ok().filter(|found| found.status.is_success());
    if verified.is_none_or(|found| found.body["equal"] != true) {
        let ended = async || process.has_ended();
        eventually("a node that cannot hash its state ends", ended, |ended| *ended).await;
        return Start::Ended(process.log());
    }
    assert_eq!(labels_of(node).await, expected);
    Start::Intact
}

#[tokio::test]
async fn each_kind_of_damaged_file_is_noticed() {
    let mut cluster = options().eager_compaction("300").start();
    cluster.store_each((0..60).map(labelled)).await;
    let purged = async || {
        cluster.create(&labelled("one of many")).await;
        cluster.metric("hearth_raft_purged_index").await
    };
    eventually("the log is compacted", purged, |index| *index > 20.0).await;
    let expected = labels_of(&cluster).await;
    assert!(cluster.stop().await);
    // A start moves the log's entries from its write-ahead log to a table.
    cluster.restart().await;
    cluster.shut_down().await;
    let (data, saved) = (cluster.data(), cluster.folder().join("saved"));
    copy(&data, &saved);
    let kinds = files_by_kind(&data);
    for kind in ["/identity.toml", "/log.mark", "log/.sst", "log/MANIFEST", "state/000001/.sst"] {
        assert!(kinds.contains_key(kind), "{kind} of {kinds:?}");
    }
    type Damage = fn(&[u8]) -> Vec<u8>;
    for (kind, path) in kinds {
        for (damage, damaged) in [("flipped", flipped as Damage), ("truncated", truncated)] {
            fs::remove_dir_all(&data).unwrap();
            copy(&saved, &data);
            let bytes = damaged(&fs::read(&path).unwrap());
            fs::write(&path, &bytes).unwrap();
            let found = start(&cluster, &expected).await;
            if let Start::Ended(log) = &found {
                let advice = log.contains("damaged") || log.contains("restore");
                assert!(advice && !log.contains("panicked"), "{kind} {damage}: {log}");
                assert_eq!(fs::read(&path).unwrap(), bytes, "{kind} {damage}: it stays");
            }
            println!("{kind} {damage}: {found:?}");
        }
    }
}
