//! What was acknowledged until two intervals before the loss of everything is in the place of backups.
//! A restoration goes to its end, or to an entry or a time before that.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::backups::serve;
use super::model_change::{has_switched, model_folder};
use super::*;

const INTERVAL: Duration = Duration::from_secs(1);
/// The interval under load.
const LONG: Duration = Duration::from_secs(2);
/// Longer than the time between two stamps of an idle cluster.
const STAMP: Duration = Duration::from_secs(6);

fn shipping(place: &Path) -> Options {
    options()
        .env("HEARTH__BACKUP__URL", place.to_str().unwrap())
        .env("HEARTH__BACKUP__LOG_SECONDS", &INTERVAL.as_secs().to_string())
        .env("FAILPOINTS", "backup-pause=return")
}

/// The segments of the log in a place, in their order.
fn segments(place: &Path) -> Vec<PathBuf> {
    let Ok(clusters) = std::fs::read_dir(place.join("log")) else { return Vec::new() };
    let folders = clusters.map(|cluster| std::fs::read_dir(cluster.unwrap().path()).unwrap());
    let mut found: Vec<PathBuf> = folders.flatten().map(|file| file.unwrap().path()).collect();
    found.sort();
    found
}

/// Index up to which the log of a cluster is in its place.
async fn shipped(node: &Node) -> f64 {
    node.metric("hearth_backup_log_index").await
}

/// Waits until the last event is shipped, and returns its index. Stamps that follow it wait.
async fn all_shipped(node: &Node) -> u64 {
    let newest = node.get("/activity?limit=1&consistency=linearizable").await;
    let (index, _) = string(&newest["items"][0]["id"]).split_once('.').unwrap();
    let index: u64 = index.parse().unwrap();
    let observe = async || shipped(node).await;
    eventually("the log is shipped", observe, |shipped| *shipped >= index as f64).await;
    index
}

async fn first_backup(cluster: &Cluster) {
    let newest = async || cluster.metric("hearth_backup_newest_timestamp_seconds").await;
    eventually("there is a backup", newest, |newest| *newest > 0.0).await;
}

/// `hearth restore` of the place into a new folder: whether it succeeded, and its output.
async fn restore(cluster: &Cluster, place: &Path, options: &[&str]) -> (bool, String) {
    let config = cluster.restored_config();
    let arguments = ["restore", place.to_str().unwrap(), "--config", config.to_str().unwrap()];
    cluster.run(&[&arguments[..], options].concat()).await
}

/// Starts what was restored, returns ids by label of its memories, and removes it.
async fn restored(cluster: &Cluster) -> std::collections::BTreeMap<String, Vec<String>> {
    let mut process = serve(cluster, &cluster.restored_config()).await;
    let found = stored(cluster).await;
    assert!(process.stop().await, "{}", process.log());
    std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    found
}

async fn check(cluster: &Cluster, place: &Path) -> (bool, String) {
    cluster.run(&["backup", "check", place.to_str().unwrap(), "--data"]).await
}

/// All nodes die at once: at any place of what they write, or after the node that ships the log died
/// before it wrote a segment, or after that.
#[tokio::test(flavor = "multi_thread")]
async fn killed_cluster_loses_two_intervals() {
    for point in ["", "segment-read=3*off->return", "segment-written=3*off->return"] {
        let place = tempfile::tempdir().unwrap();
        let options = shipping(place.path()).nodes(3);
        let interval = LONG.as_secs().to_string();
        let options = options.env("HEARTH__BACKUP__LOG_SECONDS", &interval);
        let cluster = Arc::new(options.start());
        first_backup(&cluster).await;
        let [_, first, _] = cluster.leader_first().await;
        first.kill();
        first.restart_with(&[("FAILPOINTS", point)]).await;
        // One writer, whose memories have an order, among others.
        let writers = Writers::start(&cluster, 1);
        let others = tokio::spawn({
            let cluster = Arc::clone(&cluster);
            async move {
                loop {
                    let nodes: Vec<_> = (0..20).map(|n| labelled(format!("other {n}"))).collect();
                    let batch = cluster.request(Method::POST, "/agent/nodes/batch");
                    drop(batch.json(&json!({"nodes": nodes})).try_send().await);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
        let started = Instant::now();
        let mut acknowledged = Vec::new();
        while started.elapsed() < LONG * 5 {
            acknowledged.push((Instant::now(), writers.acknowledged()));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let killed = Instant::now();
        for node in cluster.nodes() {
            // One may have died at the point.
            if node.status().await.is_some() {
                node.kill();
            }
        }
        others.abort();
        let all = writers.stop().await;
        let before = |(at, _): &&(Instant, u64)| killed - *at >= LONG * 2;
        let (_, promised) = acknowledged.iter().rfind(before).unwrap();

        let (succeeded, text) = restore(&cluster, place.path(), &[]).await;
        assert!(succeeded && text.contains("and the log after it"), "{point}: {text}");
        let found = restored(&cluster).await;
        let label = |number: u64| format!("writer 0 memory {number}");
        let kept = (0..).take_while(|number| found.contains_key(&label(*number))).count() as u64;
        println!("{point}: {} acknowledged, {promised} promised, {kept} kept", all.len());
        assert!(*promised > 0 && kept >= *promised, "{kept} of {promised} promised");
        // It is a state that the cluster had: no later memory without the earlier ones.
        let of_writer = found.keys().filter(|label| label.starts_with("writer")).count() as u64;
        assert_eq!(of_writer, kept);
        for (label, ids) in found.iter().filter(|(label, _)| label.starts_with("writer")) {
            assert!(all.get(label).is_none_or(|id| ids == std::slice::from_ref(id)), "{label}");
        }
        let (succeeded, text) = check(&cluster, place.path()).await;
        assert!(succeeded && text.contains("The log after it goes to entry"), "{text}");
    }
}

#[tokio::test]
async fn log_is_applied_to_entry_or_time() {
    let place = tempfile::tempdir().unwrap();
    let mut cluster = shipping(place.path()).start();
    first_backup(&cluster).await;
    cluster.store(&labelled("in the backup")).await;
    let create = ["backup", "create", place.path().to_str().unwrap(), "--ops", cluster.ops()];
    let (succeeded, text) = cluster.run(&create).await;
    assert!(succeeded, "{text}");
    let id = cluster.store(&labelled("first")).await;
    let index = all_shipped(&cluster).await;
    let time = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let time = storage::model::id::Timestamp(i64::try_from(time).unwrap());
    // Cluster time follows the clock of the machine within some milliseconds.
    tokio::time::sleep(Duration::from_millis(500)).await;
    cluster.store(&labelled("second")).await;
    cluster.delete(&format!("/agent/nodes/{id}")).await;
    all_shipped(&cluster).await;
    // The report of these requests is a change too.
    let counted = async || {
        let before = segments(place.path()).len();
        tokio::time::sleep(INTERVAL * 2).await;
        (before, segments(place.path()).len())
    };
    let (_, count) = eventually("changes end", counted, |(before, after)| before == after).await;
    let applied = async || cluster.metric("hearth_raft_applied_index").await;
    let before = applied().await;
    eventually("a stamp is written", applied, |index| *index > before).await;
    tokio::time::sleep(INTERVAL * 3).await;
    assert_eq!(segments(place.path()).len(), count, "stamps wait for a change");
    let backup = {
        let list = ["backup", "list", "--json", place.path().to_str().unwrap()];
        let (_, text) = cluster.run(&list).await;
        serde_json::from_str::<Value>(text.lines().next_back().unwrap()).unwrap()
    };
    assert!(cluster.stop().await);

    let (index, time) = (index.to_string(), time.to_string());
    for (options, expected) in [
        (vec![], vec!["in the backup", "second"]),
        (vec!["--at", &index], vec!["first", "in the backup"]),
        (vec!["--at", &time], vec!["first", "in the backup"]),
        (vec!["--at", "2999-01-01T00:00:00Z"], vec!["in the backup", "second"]),
        (vec!["--id", string(&backup["id"])], vec!["in the backup"]),
    ] {
        let (succeeded, text) = restore(&cluster, place.path(), &options).await;
        assert!(succeeded, "{options:?}: {text}");
        assert_eq!(
            restored(&cluster).await.into_keys().collect::<Vec<_>>(),
            expected,
            "{options:?}"
        );
    }
    for (at, message) in [
        ("999999", "the log in the place ends at entry"),
        ("2001-01-01T00:00:00Z", "there is no such backup"),
        ("1", "there is no such backup"),
        ("yesterday", "no index, and no time"),
    ] {
        let (succeeded, text) = restore(&cluster, place.path(), &["--at", at]).await;
        assert!(!succeeded && text.contains(message), "{text}");
        let folder = cluster.folder().join("restored");
        if folder.exists() {
            std::fs::remove_dir_all(folder).unwrap();
        }
    }
    assert_damage_is_found(&cluster, place.path()).await;
}

/// A segment is lost, then another one damaged: the last two, which follow the newest backup.
async fn assert_damage_is_found(cluster: &Cluster, place: &Path) {
    let all = segments(place);
    let [.., lost, damaged] = &all[..] else { panic!("{all:?}") };
    let content = std::fs::read(lost).unwrap();
    std::fs::remove_file(lost).unwrap();
    let (succeeded, text) = check(cluster, place).await;
    assert!(!succeeded && text.contains("of the log is absent"), "{text}");
    let (succeeded, text) = restore(cluster, place, &[]).await;
    assert!(!succeeded && text.contains("`--at"), "{text}");
    std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    std::fs::write(lost, content).unwrap();
    let mut bytes = std::fs::read(damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    for (succeeded, text) in [check(cluster, place).await, restore(cluster, place, &[]).await] {
        assert!(!succeeded && text.contains("its hash is another one"), "{text}");
    }
}

/// The node whose turn is first dies. Another one continues the chain, and hands it back.
#[tokio::test]
async fn next_node_continues_the_chain() {
    let place = tempfile::tempdir().unwrap();
    let cluster = shipping(place.path()).nodes(3).start();
    first_backup(&cluster).await;
    let [leader, first, _] = cluster.leader_first().await;
    for (round, kill) in [false, true, false].into_iter().enumerate() {
        if kill {
            first.kill();
        } else if round > 0 {
            first.restart().await;
        }
        leader.store_each((0..5).map(labelled)).await;
        all_shipped(leader).await;
    }
    // A backup contains more than the log in the place, and a node does not know of that log.
    tokio::time::sleep(STAMP).await;
    let create = ["backup", "create", place.path().to_str().unwrap(), "--ops", leader.ops()];
    let (succeeded, text) = cluster.run(&create).await;
    assert!(succeeded, "{text}");
    first.kill();
    first.restart().await;
    for _ in 0..3 {
        leader.store_each((0..5).map(labelled)).await;
        all_shipped(leader).await;
    }
    let list = ["backup", "list", "--json", place.path().to_str().unwrap()];
    let (_, text) = cluster.run(&list).await;
    for line in text.lines() {
        let backup: Value = serde_json::from_str(line).unwrap();
        let id = string(&backup["id"]);
        let check = ["backup", "check", place.path().to_str().unwrap(), "--data", "--id", id];
        let (succeeded, text) = cluster.run(&check).await;
        assert!(succeeded && text.contains("The log after it goes to entry"), "{text}");
    }
    let before = stored(&cluster).await;
    cluster.nodes().for_each(Node::kill);
    let (succeeded, text) = restore(&cluster, place.path(), &[]).await;
    assert!(succeeded, "{text}");
    assert_eq!(restored(&cluster).await, before);
}

/// The model of the log's end counts, not that of the backup.
#[tokio::test]
async fn log_may_switch_the_model() {
    let place = tempfile::tempdir().unwrap();
    let mut cluster = shipping(place.path()).start();
    first_backup(&cluster).await;
    cluster.store(&labelled("apple pear")).await;
    let folder = model_folder(&cluster, 64);
    let set = ["model", "--ops", cluster.ops(), "set", &folder];
    let (succeeded, text) = cluster.run(&set).await;
    assert!(succeeded, "{text}");
    has_switched(&cluster, 64).await;
    let created = async || cluster.send(Method::POST, "/agent/nodes", &labelled("plum")).await;
    // New texts are rejected in the moment of the switch.
    eventually("it is stored", created, |response| response.status.is_success()).await;
    all_shipped(&cluster).await;
    let before = stored(&cluster).await;
    assert!(cluster.stop().await);
    let (succeeded, text) = restore(&cluster, place.path(), &[]).await;
    assert!(!succeeded && text.contains("set embedder.model"), "{text}");
    std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    let config = cluster.restored_config();
    let mut table: toml::Table = std::fs::read_to_string(&config).unwrap().parse().unwrap();
    let embedder = table["embedder"].as_table_mut().unwrap();
    embedder.insert("model".into(), folder.clone().into());
    std::fs::write(&config, table.to_string()).unwrap();
    let arguments = ["restore", place.path().to_str().unwrap(), "--config"];
    let (succeeded, text) =
        cluster.run(&[&arguments[..], &[config.to_str().unwrap()]].concat()).await;
    assert!(succeeded, "{text}");
    let mut process = serve(&cluster, &config).await;
    assert_eq!(stored(&cluster).await, before);
    assert!(process.stop().await, "{}", process.log());
}

/// While the place takes no segment, the log is kept. Beyond its greatest size, a new backup follows.
#[tokio::test]
async fn compaction_keeps_what_is_not_shipped() {
    let place = tempfile::tempdir().unwrap();
    let options = shipping(place.path()).eager_compaction("1");
    let cluster = options.env("HEARTH__LOG_COMPACTION__INTERVAL_SECONDS", "1").start();
    first_backup(&cluster).await;
    cluster.store(&labelled("before")).await;
    all_shipped(&cluster).await;
    let folder = segments(place.path())[0].parent().unwrap().to_owned();
    let aside = place.path().join("aside");
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    let kept = shipped(&cluster).await as u64;
    cluster.store_each((0..50).map(labelled)).await;
    let failures = async || cluster.metric("hearth_backup_failures_total").await;
    eventually("the place takes no segment", failures, |failures| *failures >= 2.0).await;
    let purged = async || {
        cluster.store(&labelled("later")).await;
        cluster.metric("hearth_raft_purged_index").await as u64
    };
    tokio::time::sleep(INTERVAL * 3).await;
    let purged_index = purged().await;
    assert!(purged_index <= kept, "the log is there: {purged_index} is purged, {kept} shipped");
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    all_shipped(&cluster).await;
    let (succeeded, text) = check(&cluster, place.path()).await;
    assert!(succeeded, "no gap: {text}");
    eventually("the log is compacted", purged, |purged| *purged > kept).await;

    // From here on the log is compacted as if it had its greatest size.
    cluster.kill();
    let points = "backup-pause=return;log-at-its-limit=return";
    cluster.restart_with(&[("FAILPOINTS", points)]).await;
    cluster.store(&labelled("after the start")).await;
    let index = all_shipped(&cluster).await;
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "no folder").unwrap();
    eventually("the log is compacted", purged, |purged| *purged > index + 5).await;
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    let backups = async || std::fs::read_dir(place.path().join("backups")).unwrap().count();
    eventually("a backup follows the gap", backups, |count| *count == 2).await;
    cluster.store(&labelled("after the gap")).await;
    all_shipped(&cluster).await;
    let (succeeded, text) = check(&cluster, place.path()).await;
    assert!(succeeded, "{text}");
    let before = stored(&cluster).await;
    cluster.shut_down().await;
    let (succeeded, text) = restore(&cluster, place.path(), &[]).await;
    assert!(succeeded, "{text}");
    assert_eq!(restored(&cluster).await, before);
}
