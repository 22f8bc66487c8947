//! A backup holds the state of one log index, and half a backup is none. A restoration makes it a
//! new cluster that holds everything, and surprises neither clients nor receivers of webhooks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::membership::NewNode;
use super::*;

/// A place for backups, and the command line.
pub(super) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    /// Creates a backup on a node.
    pub(super) async fn create(&self, cluster: &Cluster, node: &Node) -> (bool, String) {
        cluster.run(&["backup", "create", self.path(), "--ops", node.ops()]).await
    }

    /// The backups, oldest first.
    pub(super) async fn list(&self, cluster: &Cluster) -> Vec<Value> {
        let (succeeded, text) = cluster.run(&["backup", "list", "--json", self.path()]).await;
        assert!(succeeded, "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(super) async fn check(&self, cluster: &Cluster, data: bool) -> (bool, String) {
        let data = data.then_some("--data");
        let arguments: Vec<_> = ["backup", "check", self.path()].into_iter().chain(data).collect();
        cluster.run(&arguments).await
    }

    /// The stored files of states.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.folder.path().join("files")).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

/// Runs `hearth restore` with the configuration at `config`.
async fn restore(
    cluster: &Cluster,
    place: &Place,
    config: &Path,
    environment: &[(&str, &str)],
) -> (bool, String) {
    restore_with(cluster, place, config, &[], environment).await
}

/// [`restore`], with further arguments.
async fn restore_with(
    cluster: &Cluster,
    place: &Place,
    config: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
) -> (bool, String) {
    let mut command = tokio::process::Command::new(cluster.binary());
    command.args(["restore", place.path(), "--config"]).arg(config).args(arguments);
    let ran = command.envs(environment.iter().copied()).output().await.unwrap();
    let text = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
    (ran.status.success(), text)
}

/// Starts a node that must not run, and returns whether it ended with success, and its output.
async fn start_restored(cluster: &Cluster, config: &Path) -> (bool, String) {
    cluster.run(&["serve", "--config", config.to_str().unwrap()]).await
}

/// Starts the restored node under the addresses of the first one.
pub(super) async fn serve(cluster: &Cluster, config: &Path) -> Process {
    let mut command = std::process::Command::new(cluster.binary());
    command.args(["serve", "--config"]).arg(config);
    let process = Process::start(&mut command, cluster.folder().join("restored.log"));
    cluster.ready().await;
    process
}

#[tokio::test]
async fn restored_cluster_holds_everything() {
    let (mut cluster, place) = (options().nodes(3).start(), Place::new());
    let ids = cluster.store_each((0..60).map(labelled)).await;
    let key = cluster.post("/keys", &json!({"name": "agent", "role": "agent"})).await;
    let edge = json!({"source_id": ids[0], "target_id": ids[1], "relation": "knows"});
    cluster.post("/agent/graph/relate", &edge).await;
    converged(&cluster).await;
    let (succeeded, text) = place.create(&cluster, cluster.at(2)).await;
    assert!(succeeded && text.contains("Backup"), "{text}");
    let later = cluster.store(&labelled("after the backup")).await;
    let before = stored(&cluster).await;
    let last_index = cluster.status().await.unwrap()["applied_index"].as_u64().unwrap();
    let backups = place.list(&cluster).await;
    let verified = cluster.ops_request(Method::POST, "/cluster/verify").send().await;
    let verified: Value = verified.ok();
    assert_eq!(verified["equal"], true);
    assert_ne!(backups[0]["state_sha256"], verified["nodes"][0]["sha256"], "another index");
    let (succeeded, text) = place.check(&cluster, true).await;
    assert!(succeeded && text.contains("is complete"), "{text}");

    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    let (succeeded, text) = restore(&cluster, &place, &config, &[]).await;
    assert!(succeeded && text.contains("cluster add"), "{text}");
    let mut process = serve(&cluster, &config).await;
    let mut after = stored(&cluster).await;
    after.insert("after the backup".into(), vec![later.clone()]);
    assert_eq!(after, before);
    let read = cluster.request_as(&key, Method::GET, &format!("/agent/nodes/{}", ids[0]));
    // A client holds an index that the old cluster reached after the backup.
    let read = read.header("X-Hearth-Min-Index", &(last_index + 1_000).to_string());
    assert_eq!(read.send().await.ok()["label"], "0");
    let gone = cluster.request(Method::GET, &format!("/agent/nodes/{later}")).send().await;
    assert_eq!(gone.status, StatusCode::NOT_FOUND);
    let neighbours = cluster.get(&format!("/agent/graph/neighbors/{}", ids[0])).await;
    assert!(neighbours.to_string().contains(&ids[1]), "{neighbours}");
    cluster.create(&labelled("the new cluster works")).await;
    assert!(process.stop().await, "{}", process.log());
    let mut process = serve(&cluster, &config).await;
    assert_eq!(stored(&cluster).await.len(), 61, "also after a restart");
    assert!(process.stop().await, "{}", process.log());
}

/// Each node creates a backup while clients write. The newest one becomes a cluster that grows.
#[tokio::test]
async fn backup_beside_writes_becomes_a_cluster_that_grows() {
    let (mut cluster, place) = (options().nodes(3).start(), Place::new());
    let ids = cluster.store_each((0..200).map(labelled)).await;
    for node in cluster.nodes() {
        let writes = async {
            loop {
                cluster.at(1).create(&labelled("beside a backup")).await;
            }
        };
        let index = node.status().await.unwrap()["applied_index"].as_u64();
        let (succeeded, text) = tokio::select! {
            () = writes => continue,
            created = place.create(&cluster, node) => created,
        };
        assert!(succeeded, "{text}");
        let backups = place.list(&cluster).await;
        assert!(backups.last().unwrap()["index"].as_u64() >= index, "{backups:?}");
    }
    let (succeeded, text) = place.check(&cluster, true).await;
    assert!(succeeded, "{text}");
    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    let (succeeded, text) = restore(&cluster, &place, &config, &[]).await;
    assert!(succeeded, "{text}");
    let _process = serve(&cluster, &config).await;
    let stored: BTreeSet<String> = stored(&cluster).await.into_values().flatten().collect();
    assert!(ids.iter().all(|id| stored.contains(id)), "what was acknowledged before is there");
    assert!(stored.len() > ids.len(), "writes went on");
    let new = NewNode::beside(&cluster);
    let _new = new.serve();
    let add = ["cluster", "--ops", cluster.ops(), "add", "--id", "4", "--address", &new.address];
    // It fails until the new node listens.
    let added = async || cluster.run(&add).await;
    eventually("a node joins", added, |(succeeded, _)| *succeeded).await;
    let verified = verify(&cluster).await;
    assert_eq!((&verified["equal"], array(&verified["nodes"]).len()), (&json!(true), 2));
}

/// The node dies at each step of a backup, beside writes.
#[tokio::test(flavor = "multi_thread")]
async fn half_a_backup_is_none() {
    let (cluster, place) = (Arc::new(options().nodes(3).start()), Place::new());
    let (writers, node) = (Writers::start(&cluster, 4), cluster.at(1));
    for step in [
        "backup-copied=return",
        "backup-file=return",
        "backup-file=1*off->return",
        "backup-file=2*off->return",
        "backup-part=return",
        "backup-part=2*off->return",
        "backup-uploaded=return",
    ] {
        node.kill();
        node.restart_with(&[("FAILPOINTS", step)]).await;
        writers.acknowledge(20).await;
        let (succeeded, text) = place.create(&cluster, node).await;
        assert!(!succeeded, "{step}: {text}");
        assert!(place.list(&cluster).await.is_empty(), "{step}: no manifest, no backup");
    }
    node.kill();
    node.restart().await;
    let left = std::fs::read_dir(node.data().join("state/snapshots")).unwrap().count();
    assert_eq!(left, 0, "what was left is removed");
    writers.acknowledge(20).await;
    let (succeeded, text) = place.create(&cluster, node).await;
    assert!(succeeded, "{text}");
    assert_eq!(place.list(&cluster).await.len(), 1);
    let (succeeded, text) = place.check(&cluster, true).await;
    assert!(succeeded, "files that were left by the others are complete: {text}");
    let acknowledged = writers.stop().await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, 4).await;
    }
}

#[tokio::test]
async fn second_backup_uploads_what_is_new() {
    let (cluster, place) = (options().start(), Place::new());
    let uploaded = async || {
        let (succeeded, text) = place.create(&cluster, &cluster).await;
        assert!(succeeded, "{text}");
        let status: Value = cluster.ops_request(Method::GET, "/cluster/backups").send().await.ok();
        let bytes = |name: &str| status["last"][name].as_u64().unwrap();
        (bytes("uploaded_bytes"), bytes("bytes"))
    };
    cluster.store_each((0..300).map(|n| labelled(format!("{n} {}", "words ".repeat(400))))).await;
    let (first, of) = uploaded().await;
    assert!(first > of / 2, "{first} of {of}: nothing was there");
    cluster.create(&labelled("one more")).await;
    let (second, of) = uploaded().await;
    assert!(second < of / 2, "{second} of {of}: most was there");
    let (succeeded, text) = cluster.run(&["backup", "prune", place.path(), "--keep", "1"]).await;
    assert!(succeeded && text.contains("Removed 1 backups"), "{text}");
    assert_eq!(place.list(&cluster).await.len(), 1);
    let (succeeded, text) = place.check(&cluster, true).await;
    assert!(succeeded, "the files of the kept one stay: {text}");
}

#[tokio::test]
async fn damaged_backups_are_found_and_not_restored() {
    let (mut cluster, place) = (options().start(), Place::new());
    cluster.store_each((0..50).map(labelled)).await;
    let (succeeded, text) = place.create(&cluster, &cluster).await;
    assert!(succeeded, "{text}");
    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    let other_key = cluster.folder().join("other.key");
    std::fs::write(&other_key, format!("{}\n", "0a".repeat(32))).unwrap();
    let other_key = [("HEARTH__WEBHOOKS__KEY", other_key.to_str().unwrap())];
    let (succeeded, text) = restore(&cluster, &place, &config, &other_key).await;
    assert!(!succeeded && text.contains("copy cluster.key"), "{text}");
    let other_model = [("HEARTH__EMBEDDER__KIND", "model")];
    let (succeeded, text) = restore(&cluster, &place, &config, &other_model).await;
    assert!(!succeeded && text.contains("another model is configured"), "{text}");
    let used = cluster.data().join("hearth.toml");
    let (succeeded, text) = restore(&cluster, &place, &used, &[]).await;
    assert!(!succeeded && text.contains("is not empty"), "{text}");
    assert!(!cluster.folder().join("restored").exists(), "nothing was written");

    for file in place.files() {
        let bytes = std::fs::read(&file).unwrap();
        // An empty file cannot be damaged.
        if bytes.is_empty() {
            continue;
        }
        let mut damaged = bytes.clone();
        let at = damaged.len() / 2;
        damaged[at] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        let (succeeded, text) = place.check(&cluster, true).await;
        assert!(!succeeded && text.contains("1 files are absent or damaged"), "{file:?}: {text}");
        let (succeeded, text) = restore(&cluster, &place, &config, &[]).await;
        assert!(!succeeded && text.contains("is damaged"), "{file:?}: {text}");
        let (started, text) = start_restored(&cluster, &config).await;
        assert!(!started && text.contains("did not end"), "{text}");
        std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let (succeeded, text) = place.check(&cluster, false).await;
        assert!(!succeeded, "{file:?}: {text}");
        std::fs::write(&file, bytes).unwrap();
    }
    let (succeeded, text) = restore(&cluster, &place, &config, &[]).await;
    assert!(succeeded, "{text}");
}

#[tokio::test]
async fn keys_of_a_backup_can_be_left_out() {
    let (mut cluster, place) = (options().start(), Place::new());
    let stored = cluster.store(&labelled("kept")).await;
    let (succeeded, text) = place.create(&cluster, &cluster).await;
    assert!(succeeded, "{text}");
    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    let (succeeded, text) = restore_with(&cluster, &place, &config, &["--rotate-keys"], &[]).await;
    assert!(succeeded && text.contains("hearth tenant key 1"), "{text}");
    let _process = serve(&cluster, &config).await;
    let path = format!("/agent/nodes/{stored}");
    cluster.request(Method::GET, &path).send().await.assert_error(401, "unauthorized");
    let (succeeded, text) = cluster.run(&["tenant", "--ops", cluster.ops(), "key", "1"]).await;
    assert!(succeeded, "{text}");
    let key = json!({"key": text.trim().rsplit(' ').next().unwrap()});
    assert_eq!(cluster.request_as(&key, Method::GET, &path).send().await.ok()["label"], "kept");
}

#[tokio::test]
async fn deliveries_of_a_backup_wait_for_the_operator() {
    let (mut cluster, place, receiver) =
        (options().start(), Place::new(), Receiver::accepting().await);
    let webhook = json!({"url": receiver.url});
    create_webhook(&cluster, webhook, None).await;
    cluster.create(&labelled("before the backup")).await;
    receiver.reach(1).await;
    let (succeeded, text) = place.create(&cluster, &cluster).await;
    assert!(succeeded, "{text}");
    cluster.create(&labelled("after the backup")).await;
    receiver.reach(2).await;
    assert!(cluster.stop().await);
    let config = cluster.restored_config();
    let (succeeded, text) = restore(&cluster, &place, &config, &[]).await;
    assert!(succeeded && text.contains("release-webhooks"), "{text}");
    let _process = serve(&cluster, &config).await;
    cluster.create(&labelled("in the new cluster")).await;
    // The metric is of the outbox, which every scan of the sender reads first.
    let pending = async || cluster.metric("hearth_webhooks_pending").await;
    eventually("it waits", pending, |pending| *pending == 1.0).await;
    assert_eq!(receiver.received().len(), 2, "nothing goes out");
    let released = ["cluster", "release-webhooks", "--ops", cluster.ops()];
    let (succeeded, text) = cluster.run(&released).await;
    assert!(succeeded, "{text}");
    receiver.reach(3).await;
    let received = receiver.received();
    let ids: BTreeSet<_> = received.iter().map(Delivery::id).collect();
    assert_eq!(ids.len(), 3, "the id of the last firing was used for another: {ids:?}");
}
