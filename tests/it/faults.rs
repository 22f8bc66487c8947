//! Faults of all kinds in random order, under load: no acknowledged write is lost or done twice, and
//! all states are equal. HEARTH_SECONDS and HEARTH_SEED lengthen and vary the run.
#![cfg(feature = "failpoints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::*;

const WRITERS: usize = 6;
/// Writes between two faults, and during one that leaves a majority.
const WRITES: u64 = 40;
/// Size of a node's disk, if this process may mount one.
const DISK_BYTES: u64 = 512 << 20;
/// Below the reserve of a node of `hearth dev`.
const LITTLE_BYTES: u64 = 40 << 20;
/// Longer than an election.
const PAUSE: Duration = Duration::from_millis(2_500);

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    KillAll,
    Restart,
    Pause,
    Partition,
    SlowLog,
    SlowState,
    FullDisk,
    FullDisks,
    NoSpace,
    Transfer,
    Backup,
    Compaction,
}

const FAULTS: [Fault; 13] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Partition,
    Fault::SlowLog,
    Fault::FullDisk,
    Fault::Backup,
    Fault::Restart,
    Fault::SlowState,
    Fault::FullDisks,
    Fault::Compaction,
    Fault::Transfer,
    Fault::NoSpace,
    Fault::KillAll,
];

struct Run {
    cluster: Arc<Cluster>,
    writers: Writers,
    /// Which paths of the network are cut, in a file for each node; and backups.
    folder: TempDir,
    has_disks: bool,
}

impl Run {
    async fn start() -> Self {
        let has_disks = rustix::process::geteuid().is_root();
        let options = options().nodes(3).env("HEARTH__LOG_COMPACTION__LOG_BYTES", "8388608");
        let options = if has_disks { options.disks(DISK_BYTES) } else { options };
        let (cluster, folder) = (Arc::new(options.start()), tempfile::tempdir().unwrap());
        let writers = Writers::start(&cluster, WRITERS);
        let run = Self { cluster, writers, folder, has_disks };
        for node in run.cluster.nodes() {
            node.kill();
            run.restart(node, "").await;
        }
        run
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
        let points = format!("peer-cut=return({});{point}", self.cut_file(node).display());
        node.start_with(&[("FAILPOINTS", &points)]);
    }

    /// Cuts all paths from and to a node, or none.
    fn isolate(&self, lost: Option<&Node>) {
        for node in self.cluster.nodes() {
            let is_cut = |other: &&Node| {
                let pair = [node.id(), other.id()];
                pair[0] != pair[1] && lost.is_some_and(|lost| pair.contains(&lost.id()))
            };
            let cut: Vec<_> = self.cluster.nodes().filter(is_cut).map(Node::peer_address).collect();
            storage::file::replace(&self.cut_file(node), cut.join(" ").as_bytes()).unwrap();
        }
    }

    /// A fault of a node. It is over when this returns.
    async fn inject(&self, fault: Fault, node: &Node) {
        let nodes = || self.cluster.nodes();
        match fault {
            Fault::Kill => {
                node.kill();
                self.writers.acknowledge(WRITES).await;
                self.restart(node, "").await;
            }
            Fault::KillAll => {
                nodes().for_each(Node::kill);
                nodes().for_each(|node| self.start_node(node, ""));
                for node in nodes() {
                    node.ready().await;
                }
            }
            Fault::Restart => {
                node.shut_down().await;
                self.writers.acknowledge(WRITES).await;
                self.restart(node, "").await;
            }
            Fault::Pause => {
                node.pause();
                tokio::time::sleep(PAUSE).await;
                node.resume();
            }
            Fault::Partition => {
                self.isolate(Some(node));
                self.writers.acknowledge(WRITES).await;
                self.isolate(None);
            }
            Fault::SlowLog | Fault::SlowState => {
                let step =
                    if matches!(fault, Fault::SlowLog) { "log-sync" } else { "apply-forget" };
                node.kill();
                self.restart(node, &format!("{step}=5*off->5*sleep(100)->1*sleep(2000)->off"))
                    .await;
                self.writers.acknowledge(WRITES).await;
            }
            Fault::FullDisk => {
                let _filler = self.fill(node, LITTLE_BYTES);
                self.writers.acknowledge(WRITES).await;
            }
            Fault::FullDisks => {
                let _fillers: Vec<_> = nodes().map(|node| self.fill(node, LITTLE_BYTES)).collect();
                tokio::time::sleep(PAUSE).await;
            }
            Fault::NoSpace => self.leave_no_space(node).await,
            Fault::Transfer => {
                let transfer = node.ops_request(Method::POST, "/cluster/transfer");
                // It may lead already, or lag too far behind.
                drop(transfer.json(&json!({"to": node.id()})).try_send().await);
            }
            Fault::Backup => {
                let place = self.folder.path().join("backups");
                let place = place.to_str().unwrap();
                let create = ["backup", "create", place, "--ops", node.ops()];
                let (succeeded, text) = self.cluster.run(&create).await;
                assert!(succeeded, "{text}");
            }
            Fault::Compaction => {
                // It needs a copy of the state when it is back.
                node.kill();
                self.writers.acknowledge(10 * WRITES).await;
                self.restart(node, "").await;
            }
        }
    }

    fn fill(&self, node: &Node, bytes: u64) -> Option<Filler> {
        self.has_disks.then(|| Filler::leave(&node.data(), bytes))
    }

    /// A node without any space ends or goes on. With space, it starts and goes on.
    async fn leave_no_space(&self, node: &Node) {
        let Some(filler) = self.fill(node, 0) else { return };
        self.writers.acknowledge(WRITES).await;
        drop(filler);
        node.kill();
        self.restart(node, "").await;
    }

    /// Ends the writers, and compares what the nodes hold with what was acknowledged.
    async fn check(self) -> usize {
        let acknowledged = self.writers.stop().await;
        converged(&self.cluster).await;
        for node in self.cluster.nodes() {
            assert_stored_once(node, &acknowledged, WRITERS).await;
        }
        assert_equal_states(&self.cluster).await;
        check_backups(&self.cluster, &self.folder.path().join("backups")).await;
        acknowledged.len()
    }
}

async fn check_backups(cluster: &Cluster, place: &Path) {
    let (succeeded, text) =
        cluster.run(&["backup", "check", "--data", place.to_str().unwrap()]).await;
    assert!(succeeded, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_all_kinds_lose_nothing() {
    let (run, mut random) = (Run::start().await, setting("HEARTH_SEED", 1));
    let (started, limit) = (Instant::now(), Duration::from_secs(setting("HEARTH_SECONDS", 0)));
    let mut count = 0;
    // Each at least once.
    while count < FAULTS.len() || started.elapsed() < limit {
        random = random_after(random);
        let node = run.cluster.at((random >> 33) as usize % 3);
        let fault = FAULTS
            [if count < FAULTS.len() { count } else { (random >> 40) as usize % FAULTS.len() }];
        println!("{:6.1} s: {fault:?} of node {}", started.elapsed().as_secs_f64(), node.id());
        run.inject(fault, node).await;
        run.writers.acknowledge(WRITES).await;
        count += 1;
    }
    let writes = run.check().await;
    println!("{count} faults, {writes} writes: none is lost or done twice");
}
