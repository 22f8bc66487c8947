//! The world of a run: its nodes with their disks and clocks, and the network between them. A seed decides
//! all that is random in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use raft::simulation::{DiskStep, Endpoint};
use raft::{Handle, NodeId};
use storage::{Reader, View};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::process::{End, copy_remains};
use crate::trace::Trace;

/// Wall clock at the start of a run, in microseconds since 1970.
pub const EPOCH_MICROS: i64 = 1_790_000_000_000_000;
/// Boot time of the first node at the start of a run. Each node started at another time.
const BOOTTIME: Duration = Duration::from_secs(1_000);

/// Shared by all that happens in a run. It is locked for short steps only, and by one task at a time.
pub struct World {
    state: Mutex<State>,
    /// The start of the run.
    pub started: Instant,
    folder: PathBuf,
}

/// See [`World`].
pub struct State {
    /// What happened.
    pub trace: Trace,
    /// Decides what network and disks do.
    pub random: Rng,
    /// The first members.
    pub founders: Vec<NodeId>,
    /// All nodes, also those that do not run.
    pub nodes: BTreeMap<NodeId, Node>,
    /// The network.
    pub network: Network,
    /// What must not have happened.
    pub violations: Vec<String>,
    /// Histories that were not decided.
    pub undecided: u32,
    /// The state at each index that some node reached: its hash.
    pub hashes: BTreeMap<u64, [u8; 32]>,
    /// Whether the wall clocks of a minority only were wrong so far.
    pub has_good_clocks: bool,
    /// The node that led a term of a cluster.
    pub leaders: BTreeMap<([u8; 16], u64), NodeId>,
}

/// A node.
pub struct Node {
    /// Its data folder.
    pub data: PathBuf,
    /// Disks so far.
    pub disks: u8,
    /// Processes so far.
    pub starts: u32,
    /// Their ends, and losses of power without one.
    pub ends: u32,
    /// Its process.
    pub process: Option<Process>,
    /// Whether its process is paused.
    pub paused: watch::Sender<bool>,
    /// Its disk.
    pub disk: Disk,
    /// Its clocks.
    pub clock: Clock,
    /// When its next process starts.
    pub starts_at: Option<Instant>,
}

/// A process that runs.
pub struct Process {
    /// Number of this process of its node.
    pub number: u32,
    /// The way into it, once raft runs.
    pub raft: Option<Running>,
    /// Whether a step of its disk has failed.
    pub has_failed_step: bool,
    /// Its tasks.
    pub tasks: Vec<AbortHandle>,
}

/// Raft on a node.
#[derive(Clone)]
pub struct Running {
    /// Of the node itself.
    pub handle: Handle,
    /// Of other nodes.
    pub endpoint: Endpoint,
    /// Its state.
    pub reader: Reader,
}

/// What a disk does.
#[derive(Default)]
pub struct Disk {
    /// Longest time that a step takes.
    pub step_max: Duration,
    /// Whether it has no space.
    pub is_full: bool,
    /// The step at which the node ends, after so many of its kind.
    pub end_at: Option<EndAt>,
    /// Steps that wait for ever, until the disk does not hang any longer.
    pub hangs: watch::Sender<bool>,
}

/// When a process ends: before it takes the step of this kind for so many times.
#[derive(Debug, Clone, Copy)]
pub struct EndAt {
    /// The kind.
    pub step: DiskStep,
    /// How many of them are left.
    pub count: u32,
    /// How it ends.
    pub end: End,
    /// Time until the next process starts.
    pub down: Duration,
}

/// How the clocks of a machine differ from real time.
#[derive(Default)]
pub struct Clock {
    /// Error of the wall clock, in microseconds.
    pub error_micros: i64,
    /// Time in which it was suspended.
    pub suspended: Duration,
}

/// What the network does.
#[derive(Default)]
pub struct Network {
    /// Directed paths that lose everything.
    pub cut: BTreeSet<(NodeId, NodeId)>,
    /// Longest delay of a message.
    pub delay_max: Duration,
    /// Shortest one.
    pub delay_min: Duration,
    /// Messages of a hundred that are lost.
    pub lost_percent: u8,
    /// Calls of Raft of a hundred that arrive twice.
    pub doubled_percent: u8,
    /// Time to receive a snapshot.
    pub snapshot: Duration,
}

impl World {
    /// A world without nodes. Their files are below `folder`.
    pub fn new(seed: u64, founders: &[NodeId], trace: Trace, folder: &Path) -> Arc<Self> {
        let state = State {
            trace,
            random: Rng::with_seed(seed),
            founders: founders.to_vec(),
            nodes: BTreeMap::new(),
            network: Network::default(),
            violations: Vec::new(),
            undecided: 0,
            hashes: BTreeMap::new(),
            has_good_clocks: true,
            leaders: BTreeMap::new(),
        };
        Arc::new(Self { state: Mutex::new(state), started: Instant::now(), folder: folder.into() })
    }

    /// Runs a step on the state.
    pub fn with<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        step(&mut self.state.lock())
    }

    /// Runs a step on a node.
    pub fn with_node<T>(&self, node: NodeId, step: impl FnOnce(&mut Node) -> T) -> T {
        self.with(|state| step(state.nodes.get_mut(&node).expect("the node is in the world")))
    }

    /// Adds a line to the trace.
    pub fn trace(&self, text: &str) {
        self.with(|state| state.trace.add(text));
    }

    /// Records what must not have happened.
    pub fn violate(&self, text: String) {
        self.with(|state| {
            state.trace.add(&format!("VIOLATION {text}"));
            state.violations.push(text);
        });
    }

    /// Adds a node with an empty data folder, which does not run.
    pub fn add_node(&self, node: NodeId) {
        let data = self.new_folder(&format!("node-{node}-0"));
        let (paused, disk, clock) = (watch::Sender::new(false), Disk::default(), Clock::default());
        let (disks, starts, ends, process, starts_at) = (1, 0, 0, None, None);
        let added = Node { data, disks, starts, ends, process, paused, disk, clock, starts_at };
        self.with(|state| drop(state.nodes.insert(node, added)));
    }

    /// A path in the folder of the run, where nothing is yet.
    pub fn new_folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Ends the process of a node, and replaces its disk by an empty one.
    pub fn lose_disk(&self, node: NodeId, down: Duration) {
        self.end(node, End::Power, Some(down));
        self.with(|state| {
            let it = state.nodes.get_mut(&node).expect("the node is in the world");
            it.disks += 1;
            it.data = self.new_folder(&format!("node-{node}-disk-{}", it.disks));
            state.trace.add(&format!("node {node} has lost its disk"));
        });
    }

    /// Time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Boot time of a node's machine now.
    pub fn boottime(&self, node: NodeId) -> Duration {
        BOOTTIME * node as u32 + self.elapsed()
    }

    /// A time from `min` to `max`, in microseconds.
    pub fn random_time(&self, min: Duration, max: Duration) -> Duration {
        let (min, max) = (min.as_micros() as u64, max.as_micros() as u64);
        Duration::from_micros(self.with(|state| state.random.u64(min..=max.max(min))))
    }

    /// All nodes that run.
    pub fn all_running(&self) -> Vec<(NodeId, Running)> {
        self.with(|state| {
            let nodes = state.nodes.iter();
            nodes
                .filter_map(|(id, node)| Some((*id, node.process.as_ref()?.raft.clone()?)))
                .collect()
        })
    }

    /// All nodes that run and have a cluster.
    pub fn members(&self) -> Vec<(NodeId, Running)> {
        let mut running = self.all_running();
        running.retain(|(_, it)| it.reader.cluster().is_ok_and(|cluster| cluster.is_some()));
        running
    }

    /// One of them, whether or not it is of use to a client.
    pub fn any_member(&self) -> Option<(NodeId, Running)> {
        let mut running = self.members();
        if running.is_empty() {
            return None;
        }
        Some(running.swap_remove(self.with(|state| state.random.usize(..running.len()))))
    }

    /// Keeps a task of a process, which ends with it.
    pub fn keep_task(&self, node: NodeId, number: u32, task: AbortHandle) {
        self.with_node(node, |it| match &mut it.process {
            Some(process) if process.number == number => process.tasks.push(task),
            _ => task.abort(),
        });
    }

    /// Ends the process of a node, if it runs, at this very moment. Its disk has what `end` leaves, also
    /// without a process. The next one starts after this time, or not by itself.
    pub fn end(&self, node: NodeId, end: End, down: Option<Duration>) {
        let ended = self.with(|state| {
            let it = state.nodes.get_mut(&node)?;
            let process = it.process.take();
            if process.is_none() && end == End::Kill {
                return None;
            }
            state.trace.add(&format!("node {node} ends by {end:?}"));
            it.ends += 1;
            let left = self.new_folder(&format!("node-{node}-{}", it.ends));
            let before = std::mem::replace(&mut it.data, left);
            if before.exists() {
                copy_remains(&before, &it.data, end, state.random.u64(..))
                    .expect("the files of a node can be copied");
            }
            it.disk.end_at = None;
            it.starts_at = down.map(|down| Instant::now() + down);
            process
        });
        let Some(Process { raft, tasks, .. }) = ended else { return };
        tasks.iter().for_each(AbortHandle::abort);
        // What is left of it is without effect: its disk and its network are not those of the node.
        if let Some(Running { handle, .. }) = raft {
            tokio::spawn(async move { handle.shutdown().await });
        }
    }
}
