//! Faults of one kind in random order, under load: crashes, pauses, cuts of the network and harm to disks,
//! each in its file. No acknowledged write is lost or done twice, the histories of objects are linearizable
//! during each fault, and all states are equal. The log is shipped meanwhile. At the end, each restored state is
//! what was acknowledged up to its entry. HEARTH_SECONDS and HEARTH_SEED lengthen and vary the runs.
#![cfg(feature = "failpoints")]

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::backups::serve;
use super::*;

mod disk;
mod kill;
mod partition;
mod pause;

const WRITERS: usize = 4;
/// Writes between two faults, and during one that leaves a majority.
const WRITES: u64 = 30;
/// Longer than an election.
const PAUSE: Duration = Duration::from_millis(2_500);
/// Restorations to chosen entries.
const RESTORATIONS: usize = 3;

struct Run {
    cluster: Arc<Cluster>,
    writers: Writers,
    /// Which paths of the network are cut, in a file for each node; and backups.
    folder: TempDir,
}

impl Run {
    async fn start(options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("backups");
        let options = options
            .nodes(3)
            .env("HEARTH__LOG_COMPACTION__LOG_BYTES", "8388608")
            .env("HEARTH__BACKUP__URL", place.to_str().unwrap())
            .env("HEARTH__BACKUP__KEEP", "0")
            .env("HEARTH__BACKUP__LOG_SECONDS", "1");
        let cluster = Arc::new(options.start());
        let writers = Writers::start(&cluster, WRITERS);
        let run = Self { cluster, writers, folder };
        for node in run.cluster.nodes() {
            node.kill();
            run.restart(node, "").await;
        }
        run
    }

    /// Runs each fault once, and then random ones, each at a random node and over when `inject` returns.
    async fn endure<F: Copy + Debug>(&self, faults: &[F], inject: impl AsyncFn(&Self, F, &Node)) {
        let mut random = setting("HEARTH_SEED", 1);
        let (started, limit) = (Instant::now(), Duration::from_secs(setting("HEARTH_SECONDS", 0)));
        let (mut count, mut operations) = (0, 0);
        while count < faults.len() || started.elapsed() < limit {
            random = random_after(random);
            let node = self.cluster.at((random >> 33) as usize % 3);
            let chosen = if count < faults.len() { count } else { (random >> 40) as usize };
            let fault = faults[chosen % faults.len()];
            println!("{:6.1} s: {fault:?} of node {}", started.elapsed().as_secs_f64(), node.id());
            let objects = Objects::start(&self.cluster).await;
            inject(self, fault, node).await;
            self.writers.acknowledge(WRITES).await;
            let checked = objects.checked().await;
            assert!(checked > 0, "no operation on objects during {fault:?}");
            operations += checked;
            count += 1;
        }
        println!("{count} faults, {operations} operations on objects");
    }

    fn cut_file(&self, node: &Node) -> PathBuf {
        self.folder.path().join(node.id().to_string())
    }

    /// Starts a node that does not run, with one more failpoint.
    async fn restart(&self, node: &Node, point: &str) {
        self.start_node(node, point);
        node.ready().await;
    }

    fn start_node(&self, node: &Node, point: &str) {
        let cut = self.cut_file(node);
        let points = format!("backup-pause=return;peer-cut=return({});{point}", cut.display());
        node.start_with(&[("FAILPOINTS", &points)]);
    }

    /// Makes a node the leader, unless it leads or lags too far behind.
    async fn transfer_to(&self, node: &Node) {
        let transfer = node.ops_request(Method::POST, "/cluster/transfer");
        drop(transfer.json(&json!({"to": node.id()})).try_send().await);
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("backups")
    }

    /// Ends the writers, and compares what the nodes hold with what was acknowledged. Then loses all nodes,
    /// and compares what the place restores.
    async fn check(self) {
        let (place, cluster, written) =
            (self.place(), Arc::clone(&self.cluster), self.writers.written());
        let acknowledged = self.writers.stop().await;
        converged(&cluster).await;
        for node in cluster.nodes() {
            assert_stored_once(node, &acknowledged, WRITERS).await;
        }
        assert_equal_states(&cluster).await;
        println!("{} writes: none is lost or done twice", acknowledged.len());
        assert_restorable(&cluster, &place, &written).await;
    }
}

/// Loses all nodes, and compares what the place restores.
async fn assert_restorable(cluster: &Cluster, place: &Path, written: &[Written]) {
    let check = ["backup", "check", "--data", place.to_str().unwrap()];
    let (succeeded, text) = cluster.run(&check).await;
    assert!(succeeded, "{text}");
    let last = written.iter().map(|write| write.index).max().unwrap();
    let shipped = async || cluster.metric("hearth_backup_log_index").await;
    eventually("all is shipped", shipped, |shipped| *shipped >= last as f64).await;
    cluster.nodes().for_each(Node::kill);
    assert_restores(cluster, place, written, None).await;
    let list = ["backup", "list", "--json", place.to_str().unwrap()];
    let (_, text) = cluster.run(&list).await;
    let oldest: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let oldest = oldest["index"].as_u64().unwrap();
    let later: Vec<u64> =
        written.iter().map(|write| write.index).filter(|index| *index > oldest).collect();
    let random = (random_after(setting("HEARTH_SEED", 1)) >> 33) as usize;
    for at in 0..RESTORATIONS {
        let index = later[(random + at * later.len() / RESTORATIONS) % later.len()];
        assert_restores(cluster, place, written, Some(index)).await;
    }
}

/// Restores to an entry, or to the end. The result is what was acknowledged up to there.
async fn assert_restores(cluster: &Cluster, place: &Path, written: &[Written], at: Option<u64>) {
    let (config, at_text) = (cluster.restored_config(), at.map(|at| at.to_string()));
    let mut restore =
        vec!["restore", place.to_str().unwrap(), "--config", config.to_str().unwrap()];
    restore.extend(at_text.iter().flat_map(|at| ["--at", at]));
    let (succeeded, text) = cluster.run(&restore).await;
    assert!(succeeded, "{text}");
    let mut process = serve(cluster, &config).await;
    let found = stored(cluster).await;
    assert!(process.stop().await, "{}", process.log());
    std::fs::remove_dir_all(cluster.folder().join("restored")).unwrap();
    let end = at.unwrap_or(u64::MAX);
    for Written { label, index, is_repeated } in written {
        let is_there = found.get(label).is_some_and(|ids| ids.len() == 1);
        assert!(is_there || *index > end, "{label} of entry {index} is not in that of {end}");
        assert!(
            !is_there || *is_repeated || *index <= end,
            "{label} of {index} is in that of {end}"
        );
    }
    println!("restored to {at:?}: {} memories", found.len());
}
