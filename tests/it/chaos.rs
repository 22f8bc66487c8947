//! Faults of one kind in random order, under load: crashes, pauses, cuts of the network and harm to disks,
//! each in its file. No acknowledged write is lost or done twice, the histories of registers are linearizable
//! during each fault, and all states are equal. HEARTH_SECONDS and HEARTH_SEED lengthen and vary the runs.
#![cfg(feature = "failpoints")]

use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

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
            let registers = Registers::start(&self.cluster).await;
            inject(self, fault, node).await;
            self.writers.acknowledge(WRITES).await;
            operations += registers.checked().await;
            count += 1;
        }
        println!("{count} faults, {operations} operations on registers");
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

    /// Cuts the paths from one node to another for which `kind` returns how (the failpoint `peer-cut`).
    fn cut(&self, kind: impl Fn(u64, u64) -> Option<&'static str>) {
        for node in self.cluster.nodes() {
            let others = self.cluster.nodes().filter(|other| other.id() != node.id());
            let path = |other: &Node| {
                let kind = kind(node.id(), other.id())?;
                Some(format!("{kind}{}", other.peer_address()))
            };
            let cut: Vec<_> = others.filter_map(path).collect();
            storage::file::replace(&self.cut_file(node), cut.join(" ").as_bytes()).unwrap();
        }
    }

    /// Writes while paths are cut. Each writer waits at a node that reaches no leader.
    async fn write_without(&self, kind: impl Fn(u64, u64) -> Option<&'static str>) {
        self.cut(kind);
        self.writers.acknowledge(WRITES / 3).await;
        self.cut(|_, _| None);
    }

    /// Makes a node the leader, unless it leads or lags too far behind.
    async fn transfer_to(&self, node: &Node) {
        let transfer = node.ops_request(Method::POST, "/cluster/transfer");
        drop(transfer.json(&json!({"to": node.id()})).try_send().await);
    }

    /// Ends the writers, and compares what the nodes hold with what was acknowledged. Returns that, and the
    /// folder.
    async fn check(self) -> (Vec<Written>, TempDir) {
        let (cluster, written) = (Arc::clone(&self.cluster), self.writers.written());
        let acknowledged = self.writers.stop().await;
        converged(&cluster).await;
        for node in cluster.nodes() {
            assert_stored_once(node, &acknowledged, WRITERS).await;
        }
        assert_equal_states(&cluster).await;
        println!("{} writes: none is lost or done twice", acknowledged.len());
        (written, self.folder)
    }
}
