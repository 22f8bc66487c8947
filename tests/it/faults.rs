//! Faults of all kinds in random order, under load: no acknowledged write is lost or done twice, and
//! all states are equal. The log is shipped meanwhile, and drills restore it. At the end, each restored
//! state is what was acknowledged up to its entry. HEARTH_SECONDS and HEARTH_SEED lengthen and vary the
//! run.
#![cfg(feature = "failpoints")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::backups::serve;
use super::*;

const WRITERS: usize = 6;
/// Writes between two faults, and during one that leaves a majority.
const WRITES: u64 = 40;
/// Size of a node's disk, if this process may mount one.
const DISK_BYTES: u64 = 512 << 20;
/// Below the reserve of a node of `hearth dev`.
const LITTLE_BYTES: u64 = 40 << 20;
/// Restorations to chosen entries.
const RESTORATIONS: usize = 3;
/// What a slow disk does.
const SLOW: &str = "5*off->5*sleep(100)->1*sleep(2000)->off";
/// Longer than an election.
const PAUSE: Duration = Duration::from_millis(2_500);

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill,
    KillAll,
    QuickRestart,
    Restart,
    Pause,
    Partition,
    LostResponses,
    RefusedPath,
    SlowLog,
    SlowLogs,
    SlowState,
    HangingLog,
    SlowInstall,
    FullDisk,
    FullDisks,
    NoSpace,
    Transfer,
    Backup,
    Drill,
    Compaction,
}

const FAULTS: [Fault; 20] = [
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
    Fault::Drill,
    Fault::QuickRestart,
    Fault::LostResponses,
    Fault::HangingLog,
    Fault::RefusedPath,
    Fault::SlowInstall,
    Fault::SlowLogs,
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
        let has_disks = is_privileged();
        let options = options().nodes(3).env("HEARTH__LOG_COMPACTION__LOG_BYTES", "8388608");
        let options = if has_disks { options.disks(DISK_BYTES) } else { options };
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("backups");
        let options = options
            .env("HEARTH__BACKUP__URL", place.to_str().unwrap())
            .env("HEARTH__BACKUP__KEEP", "0")
            .env("HEARTH__BACKUP__LOG_SECONDS", "1");
        let cluster = Arc::new(options.start());
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

    /// Writes while paths are cut.
    async fn write_without(&self, kind: impl Fn(u64, u64) -> Option<&'static str>) {
        self.cut(kind);
        self.writers.acknowledge(WRITES).await;
        self.cut(|_, _| None);
    }

    /// Starts a node again, which uses its disk so often until it is slow.
    async fn slow_down(&self, node: &Node, point: &str) {
        node.kill();
        self.restart(node, point).await;
        self.writers.acknowledge(WRITES).await;
    }

    /// Makes a node the leader, unless it leads or lags too far behind.
    async fn transfer_to(&self, node: &Node) {
        let transfer = node.ops_request(Method::POST, "/cluster/transfer");
        drop(transfer.json(&json!({"to": node.id()})).try_send().await);
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
            Fault::QuickRestart => {
                node.kill();
                self.restart(node, "").await;
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
            Fault::Partition | Fault::LostResponses | Fault::RefusedPath => {
                self.cut_paths(fault, node).await;
            }
            Fault::Transfer => self.transfer_to(node).await,
            Fault::Backup => {
                let place = self.place();
                let create = ["backup", "create", place.to_str().unwrap(), "--ops", node.ops()];
                let (succeeded, text) = self.cluster.run(&create).await;
                assert!(succeeded || text.contains("is under way"), "{text}");
            }
            Fault::Drill => self.drill(node).await,
            Fault::Compaction => {
                // It needs a copy of the state when it is back.
                node.kill();
                self.writers.acknowledge(10 * WRITES).await;
                self.restart(node, "").await;
            }
            Fault::SlowInstall => {
                node.kill();
                self.writers.acknowledge(10 * WRITES).await;
                self.start_node(node, "snapshot-open=1*sleep(4000)->off");
                self.writers.acknowledge(WRITES).await;
                // The other one needs the vote of the one that opens the copy.
                let leader = self.cluster.at(self.cluster.leader().await);
                leader.kill();
                self.writers.acknowledge(WRITES).await;
                self.restart(leader, "").await;
                node.ready().await;
            }
            of_disk => self.harm_disk(of_disk, node).await,
        }
    }

    /// A fault of the network.
    async fn cut_paths(&self, fault: Fault, node: &Node) {
        let id = node.id();
        match fault {
            Fault::LostResponses => {
                self.write_without(|from, to| match (from == id, to == id) {
                    (true, _) => Some("from:"),
                    (_, true) => Some(""),
                    _ => None,
                })
                .await;
            }
            Fault::RefusedPath => {
                self.write_without(|from, _| (from == id).then_some("refused:")).await;
            }
            _ => self.write_without(|from, to| [from, to].contains(&id).then_some("")).await,
        }
    }

    /// A fault of disks.
    async fn harm_disk(&self, fault: Fault, node: &Node) {
        let nodes = || self.cluster.nodes();
        match fault {
            Fault::SlowLog => self.slow_down(node, &format!("log-sync={SLOW}")).await,
            Fault::SlowState => self.slow_down(node, &format!("apply-forget={SLOW}")).await,
            Fault::SlowLogs => {
                for node in nodes() {
                    self.slow_down(node, "log-sync=40*sleep(250)->off").await;
                }
            }
            Fault::HangingLog => {
                self.slow_down(node, "log-sync=40*off->1*sleep(12000)->off").await;
                self.transfer_to(node).await;
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
            other => unreachable!("{other:?} is no fault of a disk"),
        }
    }

    async fn drill(&self, node: &Node) {
        let (place, config) = (self.place(), node.data().join("hearth.toml"));
        let (place, config) = (place.to_str().unwrap(), config.to_str().unwrap());
        let (succeeded, text) =
            self.cluster.run(&["backup", "drill", place, "--config", config]).await;
        assert!(succeeded, "{text}");
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

    fn place(&self) -> PathBuf {
        self.folder.path().join("backups")
    }

    /// Ends the writers, and compares what the nodes hold with what was acknowledged. Then loses all
    /// nodes, and compares what the place restores.
    async fn check(self, random: u64) -> usize {
        let (place, cluster) = (self.place(), Arc::clone(&self.cluster));
        let written = self.writers.written();
        let acknowledged = self.writers.stop().await;
        converged(&cluster).await;
        for node in cluster.nodes() {
            assert_stored_once(node, &acknowledged, WRITERS).await;
        }
        assert_equal_states(&cluster).await;
        let check = ["backup", "check", "--data", place.to_str().unwrap()];
        let (succeeded, text) = cluster.run(&check).await;
        assert!(succeeded, "{text}");
        let last = written.iter().map(|write| write.index).max().unwrap();
        let shipped = async || cluster.metric("hearth_backup_log_index").await;
        eventually("all is shipped", shipped, |shipped| *shipped >= last as f64).await;
        cluster.nodes().for_each(Node::kill);
        assert_restores(&cluster, &place, &written, None).await;
        let list = ["backup", "list", "--json", place.to_str().unwrap()];
        let (_, text) = cluster.run(&list).await;
        let oldest: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let oldest = oldest["index"].as_u64().unwrap();
        let later: Vec<u64> =
            written.iter().map(|write| write.index).filter(|index| *index > oldest).collect();
        for at in 0..RESTORATIONS {
            let chosen = (random >> 33) as usize + at * later.len() / RESTORATIONS;
            let index = later[chosen % later.len()];
            assert_restores(&cluster, &place, &written, Some(index)).await;
        }
        acknowledged.len()
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
    let writes = run.check(random).await;
    println!("{count} faults, {writes} writes: none is lost or done twice");
}
