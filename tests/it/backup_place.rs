//! A place of backups over time: which one is the newest, what is removed, and who may read it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::backups::Place;
use super::*;

/// The paths of everything below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(below(&entry.path()));
        }
    }
    found
}

async fn created(place: &Place, cluster: &Cluster) {
    let (succeeded, text) = place.create(cluster, cluster).await;
    assert!(succeeded, "{text}");
}

async fn pruned(place: &Place, cluster: &Cluster) -> String {
    let (succeeded, text) = cluster.run(&["backup", "prune", place.path(), "--keep", "1"]).await;
    assert!(succeeded, "{text}");
    text
}

/// The older backup says that it was created in years to come.
#[tokio::test]
async fn newest_backup_has_the_highest_index() {
    let (cluster, place) = (options().start(), Place::new());
    cluster.store(&labelled("before")).await;
    created(&place, &cluster).await;
    let first = place.list(&cluster).await.remove(0);
    let id = string(&first["id"]);
    let manifest = |id: &str| Path::new(place.path()).join("backups").join(format!("{id}.json"));
    let text = std::fs::read_to_string(manifest(id)).unwrap();
    let ahead = format!("2031{}", &id[4..]);
    let year = string(&first["created_at"])[..4].to_owned();
    let text = text
        .replace(id, &ahead)
        .replace(&format!("\"created_at\": \"{year}"), "\"created_at\": \"2031");
    std::fs::write(manifest(&ahead), text).unwrap();
    std::fs::remove_file(manifest(id)).unwrap();
    cluster.store(&labelled("after")).await;
    created(&place, &cluster).await;

    let listed = place.list(&cluster).await;
    assert_eq!(string(&listed[0]["id"]), ahead);
    assert!(listed[0]["index"].as_u64() < listed[1]["index"].as_u64(), "{listed:?}");
    let (succeeded, text) = place.check(&cluster, true).await;
    assert!(succeeded && text.contains(string(&listed[1]["id"])), "{text}");
    pruned(&place, &cluster).await;
    assert_eq!(place.list(&cluster).await, [listed[1].clone()], "the later one stays");
}

#[tokio::test]
async fn folder_of_backups_is_private() {
    let (cluster, place) = (options().start(), Place::new());
    cluster.store(&labelled("secret")).await;
    created(&place, &cluster).await;
    let found = below(Path::new(place.path()));
    assert!(found.len() > 4, "{found:?}");
    for path in found {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} {mode:o}", path.display());
    }
}

/// Files that no backup names are removed at the second look, a day later, unless a backup that is
/// being created relies on them.
#[cfg(feature = "failpoints")]
#[tokio::test(flavor = "multi_thread")]
async fn files_of_pending_backups_are_kept() {
    let (cluster, place) = (options().start(), Place::new());
    cluster.store_each((0..20).map(labelled)).await;
    created(&place, &cluster).await;
    let manifest = below(&Path::new(place.path()).join("backups")).remove(0);
    std::fs::remove_file(manifest).unwrap();
    assert!(pruned(&place, &cluster).await.contains("0 files"), "the first look");
    let unnamed = Path::new(place.path()).join("unnamed.json");
    let text = std::fs::read_to_string(&unnamed).unwrap();
    let known: BTreeMap<String, String> = serde_json::from_str(&text).unwrap();
    assert_eq!(known.len(), place.files().len());
    let long_ago = known.keys().map(|name| (name, "2020-01-01T00:00:00Z"));
    let long_ago: BTreeMap<_, _> = long_ago.collect();
    std::fs::write(&unnamed, serde_json::to_vec(&long_ago).unwrap()).unwrap();

    // The node waits with all files in the place and without its manifest.
    cluster.kill();
    cluster.restart_with(&[("FAILPOINTS", "backup-complete=sleep(4000)")]).await;
    let pending = Path::new(place.path()).join("pending");
    let prune = async {
        let is_there = async || pending.is_dir() && !below(&pending).is_empty();
        eventually("the backup is named", is_there, |found| *found).await;
        pruned(&place, &cluster).await
    };
    let ((succeeded, text), removed) = tokio::join!(place.create(&cluster, &cluster), prune);
    assert!(succeeded, "{text}");
    assert!(!removed.contains(" 0 files"), "others were removed: {removed}");
    assert!(below(&pending).is_empty());
    let (succeeded, text) = place.check(&cluster, true).await;
    assert!(succeeded, "{text}");
}

#[tokio::test]
async fn node_that_is_behind_creates_no_backup() {
    let (cluster, place) = (options().nodes(3).start(), Place::new());
    converged(&cluster).await;
    cluster.at(1).kill();
    cluster.at(2).kill();
    let refused = async || place.create(&cluster, &cluster).await;
    let is_behind = |(succeeded, text): &(bool, String)| {
        !succeeded && text.contains("has not caught up with the leader")
    };
    eventually("its contact is old", refused, is_behind).await;
}
