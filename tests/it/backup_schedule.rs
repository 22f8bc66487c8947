//! Scheduled backups: each cluster looks after its own ones in a place, and one node creates the next.
//! Metrics show the newest one, and failures.

use std::path::{Path, PathBuf};

use super::*;

/// Manifests in a place, oldest first.
fn manifests(place: &Path) -> Vec<Value> {
    let Ok(files) = std::fs::read_dir(place.join("backups")) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    let manifest = |path: PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    paths.into_iter().map(manifest).collect()
}

fn scheduled(place: &Path) -> Options {
    options()
        .env("HEARTH__BACKUP__URL", place.to_str().unwrap())
        .env("HEARTH__BACKUP__KEEP", "2")
        .env("FAILPOINTS", "backup-pause=return")
}

#[tokio::test]
async fn one_follower_creates_the_next_backup() {
    let (place, other) = (tempfile::tempdir().unwrap(), options().start());
    let create = ["backup", "create", place.path().to_str().unwrap(), "--ops", other.ops()];
    for _ in 0..3 {
        let (succeeded, text) = other.run(&create).await;
        assert!(succeeded, "{text}");
    }
    let cluster = scheduled(place.path()).nodes(3).start();
    cluster.store_each((0..20).map(labelled)).await;
    let own = |all: &[Value]| all.iter().filter(|it| it["node"] != 1 || all.len() > 3).count();
    let all = async || manifests(place.path());
    eventually("the newest one of another cluster counts for nothing", all, |all| own(all) > 0)
        .await;
    for node in cluster.nodes() {
        let newest = async || node.metric("hearth_backup_newest_timestamp_seconds").await;
        eventually("each node sees it", newest, |newest| *newest > 0.0).await;
        assert_eq!(node.metric("hearth_backup_interval_seconds").await, 86_400.0);
        assert_eq!(node.metric("hearth_backup_failures_total").await, 0.0);
    }
    let all = manifests(place.path());
    let clusters: std::collections::BTreeSet<_> =
        all.iter().map(|manifest| string(&manifest["cluster"]).to_owned()).collect();
    assert_eq!(clusters.len(), 2);
    let of_other = all[0]["cluster"].clone();
    let (others, own): (Vec<_>, Vec<_>) = all.iter().partition(|it| it["cluster"] == of_other);
    assert_eq!((others.len(), own.len()), (2, 1), "two of each cluster stay: {all:?}");
    let leader = cluster.at(cluster.leader().await).id();
    assert_ne!(own[0]["node"].as_u64().unwrap(), leader, "a follower created it");

    // The newest backup of two clusters: which one is meant?
    let check = ["backup", "check", place.path().to_str().unwrap()];
    let (succeeded, text) = cluster.run(&check).await;
    assert!(
        !succeeded && text.contains("backups of 2 clusters: choose one by --cluster"),
        "{text}"
    );
    let id = string(&own[0]["id"]);
    let (succeeded, text) = cluster.run(&[&check[..], &["--id", id, "--data"]].concat()).await;
    assert!(succeeded, "{text}");
}

#[tokio::test]
async fn failed_backups_are_counted() {
    let place = tempfile::tempdir().unwrap();
    // A file where the folder of the place should be.
    let wrong = place.path().join("file");
    std::fs::write(&wrong, "").unwrap();
    let node = scheduled(&wrong).start();
    let failures = async || node.metric("hearth_backup_failures_total").await;
    eventually("failures are counted", failures, |failures| *failures >= 2.0).await;
    assert_eq!(node.metric("hearth_backup_newest_timestamp_seconds").await, 0.0);
}

#[tokio::test]
async fn damaged_file_is_uploaded_again_once_removed() {
    let (place, node) = (tempfile::tempdir().unwrap(), options().start());
    node.store_each((0..50).map(labelled)).await;
    let path = place.path().to_str().unwrap();
    let create = async || {
        let (succeeded, text) = node.run(&["backup", "create", path, "--ops", node.ops()]).await;
        assert!(succeeded, "{text}");
    };
    create().await;
    let files = std::fs::read_dir(place.path().join("files")).unwrap();
    let largest = files
        .map(|file| file.unwrap().path())
        .max_by_key(|path| std::fs::metadata(path).unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&largest, &bytes).unwrap();
    let check = async |arguments: &[&str]| {
        node.run(&[&["backup", "check", path, "--data"], arguments].concat()).await
    };
    create().await;
    let (succeeded, text) = check(&[]).await;
    assert!(!succeeded && text.contains("--remove-damaged"), "it is named again: {text}");
    let (succeeded, text) = check(&["--remove-damaged"]).await;
    assert!(!succeeded && text.contains("is removed"), "{text}");
    create().await;
    let (succeeded, text) = check(&[]).await;
    assert!(succeeded, "{text}");
}
