//! All nodes die at once under load. Of what their disks hold, `hearth recover` makes a cluster with
//! every acknowledged write: of a majority's disks always, and of one disk all that it had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backups::serve;
use super::membership::NewNode;
use super::*;

/// Sizes and times of change of all files below a folder.
fn files_below(folder: &Path) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let about = entry.metadata().unwrap();
        match about.is_dir() {
            true => found.extend(files_below(&entry.path())),
            false => found.push((entry.path(), about.len(), about.modified().unwrap())),
        }
    }
    found.sort();
    found
}

/// `hearth recover` with these disks, into a new folder: whether it succeeded, and its output.
async fn recover(cluster: &Cluster, disks: &[&Path], options: &[&str]) -> (bool, String) {
    let disks = disks.iter().map(|data| data.display().to_string());
    let disks: Vec<String> = disks.flat_map(|data| ["--data".to_owned(), data]).collect();
    let arguments = disks.iter().map(String::as_str).chain(options.iter().copied());
    cluster.run(&[vec!["recover"], arguments.collect()].concat()).await
}

/// Starts the recovered cluster on `config`, and checks that it has each of the writes.
async fn assert_recovered(
    cluster: &Cluster,
    config: &Path,
    acknowledged: &BTreeMap<String, String>,
) {
    let mut process = serve(cluster, config).await;
    assert_stored_once(cluster, acknowledged, 4).await;
    cluster.create(&labelled("the new cluster works")).await;
    assert!(process.stop().await, "{}", process.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn disks_of_a_majority_hold_every_acknowledged_write() {
    let cluster = Arc::new(options().nodes(3).start());
    let writers = Writers::start(&cluster, 4);
    writers.acknowledge(300).await;
    cluster.nodes().for_each(Node::kill);
    let acknowledged = writers.stop().await;
    let before: Vec<_> = cluster.nodes().map(|node| files_below(&node.data())).collect();
    let folders: Vec<PathBuf> = cluster.nodes().map(Node::data).collect();
    let disks: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    // A node that started, and was never added.
    let stranger = NewNode::beside(&cluster);
    let process = stranger.serve();
    let strange = stranger.data();
    let has_state = async || strange.join("state/snapshots").exists();
    eventually("raft starts", has_state, |has| *has).await;
    drop(process);

    let all = [&disks[..], &[&strange]].concat();
    let (succeeded, text) = recover(&cluster, &all, &[]).await;
    assert!(succeeded && text.contains("Nothing was written"), "{text}");
    assert!(text.contains("not used: node 4 was not yet a member"), "{text}");
    for subset in [vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]] {
        let some: Vec<&Path> = subset.iter().map(|at| disks[*at]).collect();
        let config = cluster.restored_config();
        let (succeeded, text) =
            recover(&cluster, &some, &["--config", config.to_str().unwrap()]).await;
        assert!(succeeded, "{subset:?}: {text}");
        assert!(text.contains("no acknowledged write is missing"), "{subset:?}: {text}");
        assert_recovered(&cluster, &config, &acknowledged).await;
        std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    }
    for disk in disks {
        let config = cluster.restored_config();
        let (succeeded, text) =
            recover(&cluster, &[disk], &["--config", config.to_str().unwrap()]).await;
        assert!(succeeded && text.contains("of the others may be missing"), "{text}");
        std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    }
    let after: Vec<_> = cluster.nodes().map(|node| files_below(&node.data())).collect();
    assert_eq!(after, before, "the old folders stay as they are");
}

#[tokio::test]
async fn running_node_is_not_recovered() {
    let cluster = options().start();
    let (succeeded, text) = recover(&cluster, &[&cluster.data()], &[]).await;
    assert!(!succeeded && text.contains("stop the node"), "{text}");
}

/// The log of the only disk ends before what its node had synced.
#[tokio::test]
async fn short_log_is_used_by_consent_only() {
    let cluster = options().start();
    cluster.store(&labelled("kept")).await;
    cluster.crash().await;
    let mark = async || std::fs::read(cluster.data().join("log.mark")).unwrap();
    let before = mark().await;
    cluster.kill();
    let old = cluster.folder().join("old");
    let copied = std::process::Command::new("cp").arg("-a").args([&cluster.data(), &old]).status();
    assert!(copied.unwrap().success());
    cluster.restart().await;
    // It has voted for itself.
    let voted = eventually("the mark follows", mark, |found| *found != before).await;
    cluster.store_each((0..20).map(labelled)).await;
    let later = eventually("the mark follows", mark, |found| *found != voted).await;
    cluster.kill();
    std::fs::write(old.join("log.mark"), later).unwrap();
    let config = cluster.restored_config();
    let (data, config) = (old.display().to_string(), config.display().to_string());
    let arguments = ["recover", "--data", &data, "--config", &config];
    let (succeeded, text) = cluster.run(&arguments).await;
    assert!(!succeeded && text.contains("--accept-loss"), "{text}");
    assert!(!cluster.folder().join("restored").exists(), "nothing is written");
    let (succeeded, text) = cluster.run(&[&arguments[..], &["--accept-loss"]].concat()).await;
    assert!(succeeded && text.contains("of the others may be missing"), "{text}");
}

/// Damage to a file of a data folder.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Removed,
    Halved,
    /// One bit in its middle.
    Changed,
}

impl Damage {
    /// Whether the file was damaged: an empty one cannot be.
    fn of(self, file: &Path) -> bool {
        let mut bytes = std::fs::read(file).unwrap();
        if bytes.is_empty() {
            return false;
        }
        let middle = bytes.len() / 2;
        match self {
            Self::Removed => std::fs::remove_file(file).unwrap(),
            Self::Halved => std::fs::write(file, &bytes[..middle]).unwrap(),
            Self::Changed => {
                bytes[middle] ^= 1;
                std::fs::write(file, bytes).unwrap();
            }
        }
        true
    }
}

/// An attack on the only disk that is left: whatever is done to one of its files, recovery either
/// refuses it, or loses nothing.
#[tokio::test]
async fn damaged_disk_is_refused_or_loses_nothing() {
    let cluster = options().start();
    cluster.store_each((0..60).map(labelled)).await;
    // Its state has a file of its own.
    let place = tempfile::tempdir().unwrap();
    let create = ["backup", "create", place.path().to_str().unwrap(), "--ops", cluster.ops()];
    let (succeeded, text) = cluster.run(&create).await;
    assert!(succeeded, "{text}");
    cluster.store_each((60..80).map(labelled)).await;
    let before = stored(&cluster).await;
    // The mark follows the log within a second.
    let mark = async || std::fs::read(cluster.data().join("log.mark")).unwrap();
    let mut last = mark().await;
    let is_still = async || {
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        let found = mark().await;
        std::mem::replace(&mut last, found.clone()) == found
    };
    eventually("the mark has followed", is_still, |still| *still).await;
    cluster.kill();

    let (mut refused, mut whole) = (0, 0);
    for (file, ..) in files_below(&cluster.data()) {
        let name = file.strip_prefix(cluster.data()).unwrap();
        let is_data = ["log/", "state/", "log.mark"].iter().any(|part| name.starts_with(part));
        // RocksDB's own log, and its settings, which every start replaces.
        let is_replaced = ["LOG", "OPTIONS", "LOCK", "IDENTITY"].iter().any(|part| {
            name.file_name().is_some_and(|name| name.to_string_lossy().starts_with(part))
        });
        if !is_data || is_replaced {
            continue;
        }
        for damage in [Damage::Removed, Damage::Halved, Damage::Changed] {
            let copy = cluster.folder().join("copy");
            let mut copied = std::process::Command::new("cp");
            copied.arg("-a").args([&cluster.data(), &copy]);
            assert!(copied.status().unwrap().success());
            if damage.of(&copy.join(name)) {
                let config = cluster.restored_config();
                let arguments = [
                    "recover",
                    "--data",
                    copy.to_str().unwrap(),
                    "--config",
                    config.to_str().unwrap(),
                ];
                let (succeeded, text) = cluster.run(&arguments).await;
                println!("{} {damage:?}: {succeeded}", name.display());
                if succeeded {
                    let mut process = serve(&cluster, &config).await;
                    let found = stored(&cluster).await;
                    assert_eq!(found, before, "{} {damage:?}: {text}", name.display());
                    assert!(process.stop().await, "{}", process.log());
                    whole += 1;
                } else {
                    assert!(text.contains("hearth: "), "{text}");
                    refused += 1;
                }
            }
            for folder in [copy, cluster.folder().join("restored")] {
                if folder.exists() {
                    std::fs::remove_dir_all(folder).unwrap();
                }
            }
        }
    }
    println!("{refused} refused, {whole} whole");
    assert!(refused > 5, "{refused}");
}
