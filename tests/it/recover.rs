//! All nodes die at once under load. Of what their disks hold, `hearth recover` makes a cluster with
//! every acknowledged write: of a majority's disks always, and of one disk all that it had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::backups::serve;
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

/// `hearth recover` with the disks of these nodes, into a new folder: whether it succeeded, and its
/// output.
async fn recover(cluster: &Cluster, nodes: &[&Node], options: &[&str]) -> (bool, String) {
    let disks = nodes.iter().map(|node| node.data().display().to_string());
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
    let nodes: Vec<&Node> = cluster.nodes().collect();

    let (succeeded, text) = recover(&cluster, &nodes, &[]).await;
    assert!(succeeded && text.contains("Nothing was written"), "{text}");
    for subset in [vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 1, 2]] {
        let disks: Vec<&Node> = subset.iter().map(|at| nodes[*at]).collect();
        let config = cluster.restored_config();
        let (succeeded, text) =
            recover(&cluster, &disks, &["--config", config.to_str().unwrap()]).await;
        assert!(succeeded, "{subset:?}: {text}");
        assert!(text.contains("no acknowledged write is missing"), "{subset:?}: {text}");
        assert_recovered(&cluster, &config, &acknowledged).await;
        std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    }
    for node in &nodes {
        let config = cluster.restored_config();
        let (succeeded, text) =
            recover(&cluster, &[node], &["--config", config.to_str().unwrap()]).await;
        assert!(succeeded && text.contains("of the others may be missing"), "{text}");
        std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    }
    let after: Vec<_> = cluster.nodes().map(|node| files_below(&node.data())).collect();
    assert_eq!(after, before, "the old folders stay as they are");
}

#[tokio::test]
async fn running_node_is_not_recovered() {
    let cluster = options().start();
    let (succeeded, text) = recover(&cluster, &[&cluster], &[]).await;
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
    cluster.store_each((0..20).map(labelled)).await;
    let later = eventually("the mark follows", mark, |found| *found != before).await;
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
