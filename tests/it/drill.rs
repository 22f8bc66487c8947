//! A drill restores the newest backups with their log into a temporary node, compares states, and
//! leaves nothing behind. Rows that cannot be are named wherever a state is looked at.

use std::path::Path;

use super::*;

async fn drill(cluster: &Cluster, place: &Path, folder: &Path) -> (bool, String) {
    let config = cluster.data().join("hearth.toml");
    let arguments = [
        "backup",
        "drill",
        place.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
        "--folder",
        folder.to_str().unwrap(),
    ];
    cluster.run(&arguments).await
}

async fn create(cluster: &Cluster, place: &Path) {
    let created = ["backup", "create", place.to_str().unwrap(), "--ops", cluster.ops()];
    let (succeeded, text) = cluster.run(&created).await;
    assert!(succeeded, "{text}");
}

async fn shipped(cluster: &Cluster) {
    let index = cluster.status().await.unwrap()["applied_index"].as_u64().unwrap();
    let shipped = async || cluster.metric("hearth_backup_log_index").await;
    eventually("it is shipped", shipped, |shipped| *shipped >= index as f64 - 1.0).await;
}

/// The cluster runs on, and its node and the temporary one share nothing.
#[tokio::test]
async fn drill_compares_states_and_leaves_nothing() {
    let (place, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let shipping = options().env("HEARTH__BACKUP__URL", place.path().to_str().unwrap());
    let cluster = shipping
        .env("HEARTH__BACKUP__LOG_SECONDS", "1")
        .env("FAILPOINTS", "backup-pause=return")
        .start();
    let newest = async || cluster.metric("hearth_backup_newest_timestamp_seconds").await;
    eventually("there is a backup", newest, |newest| *newest > 0.0).await;
    cluster.store_each((0..30).map(labelled)).await;
    shipped(&cluster).await;
    let (succeeded, text) = drill(&cluster, place.path(), folder.path()).await;
    assert!(succeeded && text.contains("no two backups"), "{text}");
    create(&cluster, place.path()).await;
    cluster.store(&labelled("after the second backup")).await;
    shipped(&cluster).await;
    let (succeeded, text) = drill(&cluster, place.path(), folder.path()).await;
    assert!(succeeded && text.contains("The log led from it to the state of backup"), "{text}");
    assert!(text.contains("A node was ready on it"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    let backups = std::fs::read_dir(place.path().join("backups")).unwrap().count();
    assert_eq!(backups, 2, "the temporary node created none");

    // The manifest of the second backup names another state.
    let mut manifests: Vec<_> = std::fs::read_dir(place.path().join("backups"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    manifests.sort();
    let text = std::fs::read_to_string(&manifests[1]).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let other = text.replace(string(&manifest["state_sha256"]), &"0".repeat(64));
    std::fs::write(&manifests[1], other).unwrap();
    let (succeeded, text) = drill(&cluster, place.path(), folder.path()).await;
    assert!(!succeeded && text.contains("the log does not lead to the state of backup"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// A failpoint leaves out the anchors of new memories.
#[tokio::test]
async fn rows_that_cannot_be_are_named() {
    let place = tempfile::tempdir().unwrap();
    let cluster = options().start();
    cluster.store_each((0..3).map(labelled)).await;
    let (succeeded, text) = cluster.run(&["cluster", "--ops", cluster.ops(), "verify"]).await;
    assert!(succeeded && text.contains("All nodes hold the same"), "{text}");
    cluster.kill();
    cluster.restart_with(&[("FAILPOINTS", "forget-anchors=return")]).await;
    let broken = cluster.store(&labelled("without an anchor")).await;
    let fault = format!("Memory {broken} of tenant 1: it has no anchor");
    let (succeeded, text) = cluster.run(&["cluster", "--ops", cluster.ops(), "verify"]).await;
    assert!(!succeeded && text.contains(&fault), "{text}");
    create(&cluster, place.path()).await;
    let check = ["backup", "check", "--data", place.path().to_str().unwrap()];
    let (succeeded, text) = cluster.run(&check).await;
    assert!(!succeeded && text.contains(&fault), "{text}");
    cluster.kill();
    let (config, data) = (cluster.restored_config(), cluster.data());
    let (config, data) = (config.to_str().unwrap(), data.to_str().unwrap());
    // It is named, and no node starts with it.
    let (succeeded, text) = cluster.run(&["recover", "--data", data, "--config", config]).await;
    assert!(!succeeded && text.contains(&fault) && text.contains("corrupt memory"), "{text}");
}
