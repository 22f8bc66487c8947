//! The world of a run: its nodes with their disks and clocks, and the network between them. A seed decides
//! all that is random in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use raft::simulation::{DiskStep, Endpoint};
use raft::{Handle, NodeId};
use storage::model::release::LEVEL;
use storage::{Reader, View};
use tokio::sync::oneshot;

use crate::faults::{Active, Halt};
use crate::process::{End, copy_remains};
use crate::timeline::{Timeline, WINDOW, now};
use crate::trace::Trace;

/// The name of the number of recovered clusters.
pub const RECOVERIES: &str = "recoveries";

/// Shared by all that happens in a run. It is locked for short steps only, and by one task at a time.
pub struct World {
    state: Mutex<State>,
    folder: PathBuf,
    /// What runs outside of all processes: the network, the clients, the operator, and the faults.
    pub outside: Arc<Timeline>,
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
    /// The faults that last now.
    pub active: Active,
    /// Tasks of processes that have ended, until their turn is over.
    ended: Vec<Arc<Timeline>>,
    /// What must not have happened.
    pub violations: Vec<String>,
    /// What happened, and how often.
    pub counts: BTreeMap<&'static str, u64>,
    /// The state at each index that some node reached: its hash.
    pub hashes: BTreeMap<u64, [u8; 32]>,
    /// Whether the wall clocks of a minority only were wrong so far.
    pub has_good_clocks: bool,
    /// Whether those of a minority only were wrong by hours: cluster time has not jumped.
    pub keeps_receipts: bool,
    /// The highest feature level of the cluster so far.
    pub level: u16,
    /// The node that led a term of a cluster.
    pub leaders: BTreeMap<([u8; 16], u64), NodeId>,
}

/// A node.
pub struct Node {
    /// Its data folder.
    pub data: PathBuf,
    /// Disks so far.
    pub disks: u8,
    /// Whether the present one has held a cluster.
    pub was_member: bool,
    /// Feature level of its program, and the highest one so far.
    pub level: u16,
    pub highest_level: u16,
    /// Processes so far.
    pub starts: u32,
    /// Their ends, and losses of power without one.
    pub ends: u32,
    /// Its process.
    pub process: Option<Process>,
    /// The step at which the process ends, after so many of its kind.
    pub end_at: Option<EndAt>,
    /// The sync at which power fails, as the number of those that are left, and the time until the next process
    /// starts.
    pub power_fails: Option<(u32, Duration)>,
    /// Error of its wall clock, in microseconds.
    pub wall_clock_error: i64,
    /// Time in which its machine was suspended.
    pub suspended: Duration,
    /// When its next process starts, as time of the run.
    pub starts_at: Option<Duration>,
}

/// A process that runs.
pub struct Process {
    /// Number of this process of its node.
    pub number: u32,
    /// Its tasks.
    pub timeline: Arc<Timeline>,
    /// The way into it, once raft runs.
    pub raft: Option<Running>,
    /// Whether a step of its disk has failed.
    pub has_failed_step: bool,
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

impl State {
    /// Counts what happened.
    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

impl World {
    /// A world without nodes. Their files are below `folder`.
    pub fn new(seed: u64, founders: &[NodeId], trace: Trace, folder: &Path) -> Arc<Self> {
        let state = State {
            trace,
            random: Rng::with_seed(seed),
            founders: founders.to_vec(),
            nodes: BTreeMap::new(),
            active: Active::default(),
            ended: Vec::new(),
            violations: Vec::new(),
            counts: BTreeMap::new(),
            hashes: BTreeMap::new(),
            has_good_clocks: true,
            keeps_receipts: true,
            level: 0,
            leaders: BTreeMap::new(),
        };
        let outside = Timeline::new(Duration::ZERO);
        Arc::new(Self { state: Mutex::new(state), folder: folder.into(), outside })
    }

    /// Runs a step on the state.
    pub fn with<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        step(&mut self.state.lock())
    }

    /// Runs a step on a node.
    pub fn with_node<T>(&self, node: NodeId, step: impl FnOnce(&mut Node) -> T) -> T {
        self.with(|state| step(state.nodes.get_mut(&node).expect("the node is in the world")))
    }

    /// Changes a node, if it is in the world by now.
    pub fn change_node(&self, node: NodeId, change: impl FnOnce(&mut Node)) {
        self.with(|state| state.nodes.get_mut(&node).map(change));
    }

    /// Counts what happened.
    pub fn count(&self, what: &'static str) {
        self.with(|state| state.count(what));
    }

    /// Lets a window of time pass.
    pub fn run(&self, from: Duration) {
        self.outside.run(from, from + WINDOW);
        let turns: Vec<_> = self.with(|state| {
            let nodes = state.nodes.iter_mut().filter_map(|(id, node)| {
                let timeline = Arc::clone(&node.process.as_ref()?.timeline);
                let halt = state.active.halt(*id);
                if halt == Some(Halt::Suspended) {
                    node.suspended += WINDOW;
                }
                Some((timeline, halt))
            });
            nodes.collect()
        });
        for (timeline, halt) in turns {
            match halt {
                None => timeline.run(from, from + WINDOW),
                Some(Halt::Suspended) => timeline.suspend(WINDOW),
                Some(Halt::Paused) => {}
            }
        }
        // What is dropped here may use the world.
        drop(self.with(|state| std::mem::take(&mut state.ended)));
    }

    /// Runs `work` outside of all processes. It goes on when the process that waits for it is paused, or has
    /// ended.
    pub fn run_outside<F>(&self, work: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (sender, result) = oneshot::channel();
        self.outside.spawn(async move { drop(sender.send(work.await)) });
        async { result.await.expect("what is outside does not end") }
    }

    /// Whether a process of a node has not ended.
    pub fn is_alive(&self, node: NodeId, number: u32) -> bool {
        self.with_node(node, |it| it.process.as_ref().is_some_and(|it| it.number == number))
    }

    /// Counts a sync of a file. Returns false if power fails before its end.
    pub fn sync(&self, path: &Path) -> bool {
        let due = self.with(|state| {
            let is_its = |(_, node): &(&NodeId, &mut Node)| path.starts_with(&node.data);
            let (id, node) = state.nodes.iter_mut().find(is_its)?;
            let (left, down) = node.power_fails.as_mut()?;
            *left = left.saturating_sub(1);
            (*left == 0).then_some((*id, *down))
        });
        let Some((node, down)) = due else { return true };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name: String = name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        self.trace(&format!("power fails at a sync of {name} of node {node}"));
        self.count(match name.as_str() {
            ".log" => "ends at a sync of a log",
            ".sst" => "ends at a sync of a table",
            "MANIFEST-" => "ends at a sync of a manifest",
            _ => "ends at a sync of another file",
        });
        self.end(node, End::Power, Some(down));
        false
    }

    /// Runs `work` in a process. `None` if that has ended, or ends before it responds.
    pub async fn run_in<F>(
        self: &Arc<Self>,
        node: NodeId,
        number: u32,
        work: F,
    ) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (sender, response) = oneshot::channel();
        let world = Arc::clone(self);
        let task = async move {
            let done = work.await;
            // A process goes on until the end of the turn in which it ended.
            if world.is_alive(node, number) {
                drop(sender.send(done));
            }
        };
        self.with(|state| {
            let process = state.nodes.get(&node)?.process.as_ref()?;
            (process.number == number).then(|| process.timeline.spawn(task))
        })?;
        response.await.ok()
    }

    /// Adds a line to the trace.
    pub fn trace(&self, text: &str) {
        self.with(|state| state.trace.add(text));
    }

    /// Whether all receipts of the run are kept.
    pub fn keeps_receipts(&self) -> bool {
        self.with(|state| state.keeps_receipts)
    }

    /// Whether the cluster was lost and recovered.
    pub fn is_recovered(&self) -> bool {
        self.with(|state| state.counts.contains_key(RECOVERIES))
    }

    /// Records what must not have happened, once.
    pub fn violate(&self, text: String) {
        self.with(|state| {
            state.trace.add(&format!("VIOLATION {text}"));
            if !state.violations.contains(&text) {
                state.violations.push(text);
            }
        });
    }

    /// Adds a node with an empty data folder, which does not run.
    pub fn add_node(&self, node: NodeId) {
        let added = Node {
            data: self.new_folder(&format!("node-{node}-0")),
            disks: 1,
            was_member: false,
            level: LEVEL,
            highest_level: LEVEL,
            starts: 0,
            ends: 0,
            process: None,
            end_at: None,
            power_fails: None,
            wall_clock_error: 0,
            suspended: Duration::ZERO,
            starts_at: None,
        };
        self.with(|state| drop(state.nodes.insert(node, added)));
    }

    /// A path in the folder of the run, where nothing is yet.
    pub fn new_folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Ends the process of a node, and replaces its disk by an empty one.
    pub fn lose_disk(&self, node: NodeId, down: Duration) {
        self.end(node, End::Power, Some(down));
        self.with_node(node, |it| {
            it.disks += 1;
            it.was_member = false;
            it.data = self.new_folder(&format!("node-{node}-disk-{}", it.disks));
        });
        self.trace(&format!("node {node} has lost its disk"));
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

    /// Ends the process of a node, if it runs. Its disk has what `end` leaves, also without a process. The
    /// next one starts after this time, or not by itself.
    pub fn end(&self, node: NodeId, end: End, down: Option<Duration>) {
        self.with(|state| {
            let Some(it) = state.nodes.get_mut(&node) else { return };
            match it.process.take() {
                // Its tasks may go on until the end of their turn, with a disk that is not the node's.
                Some(process) => state.ended.push(process.timeline),
                None if end == End::Kill => return,
                None => {}
            }
            state.trace.add(&format!("node {node} ends by {end:?}"));
            it.ends += 1;
            let left = self.new_folder(&format!("node-{node}-{}", it.ends));
            let before = std::mem::replace(&mut it.data, left);
            if before.exists() {
                copy_remains(&before, &it.data, end, state.random.u64(..))
                    .expect("the files of a node can be copied");
            }
            (it.end_at, it.power_fails) = (None, None);
            it.starts_at = down.map(|down| now() + down);
        });
    }
}
