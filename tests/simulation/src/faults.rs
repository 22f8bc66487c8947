//! Faults of a cluster and operations on it, and what they do to the world. Those that last may overlap:
//! each ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use raft::simulation::DiskStep;
use raft::{NodeId, Operation};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::host::{address, request};
use crate::node::start;
use crate::process::End;
use crate::world::{EndAt, World};

/// Longest delay of a message without a fault.
const USUAL_DELAY: Duration = Duration::from_millis(5);
/// Longest step of a disk without a fault.
const USUAL_STEP: Duration = Duration::from_millis(4);
/// Time in which a new node starts, before it is to become a member.
pub const START_TIME: Duration = Duration::from_millis(100);
/// Time limit of an operation of an operator.
const OPERATE_TIMEOUT: Duration = Duration::from_secs(10);

/// A fault, or what an operator does.
#[derive(Debug, Clone)]
pub enum Fault {
    /// A process ends, and the next one starts after some time.
    End { node: NodeId, end: End, down: Duration },
    /// It ends before a step of the disk.
    EndAt { node: NodeId, at: EndAt },
    /// Power fails before the end of a sync of any of its files, after so many of them.
    EndAtSync { node: NodeId, count: u32, down: Duration },
    /// It ends, and the next process has this feature level.
    Upgrade { node: NodeId, level: u16, down: Duration },
    /// All processes end at once.
    EndAll { end: End, down: Duration },
    /// Messages from some nodes to others are lost.
    Cut { paths: Vec<(NodeId, NodeId)>, time: Duration },
    /// Messages take up to so long: all, or those to one node.
    SlowNetwork { to: Option<NodeId>, delay: Duration, time: Duration },
    /// Some messages are lost or arrive twice.
    Noise { lost_percent: u8, doubled_percent: u8, time: Duration },
    /// A process does nothing, or its machine is suspended.
    Pause { node: NodeId, is_suspended: bool, time: Duration },
    /// Steps of disks take up to so long: all of them, or those of one kind.
    SlowDisks { nodes: Vec<NodeId>, only: Option<DiskStep>, step: Duration, time: Duration },
    /// A disk does nothing.
    HangingDisk { node: NodeId, time: Duration },
    /// A disk has no space.
    FullDisk { node: NodeId, time: Duration },
    /// A disk has less space than its reserve.
    ShortDisk { node: NodeId, time: Duration },
    /// A process has less memory than it may take.
    ShortMemory { node: NodeId, time: Duration },
    /// A wall clock steps.
    ClockStep { node: NodeId, micros: i64 },
    /// A snapshot is so long on its way, and is opened in so long.
    SlowSnapshots { transfer: Duration, open: Duration, time: Duration },
    /// Leadership is transferred to a node.
    Transfer { node: NodeId },
    /// All states are compared.
    Verify,
    /// An empty node becomes a member.
    Add { node: NodeId },
    /// A member is removed for good.
    Remove { node: NodeId },
    /// A node starts again with an empty disk.
    LostDisk { node: NodeId, down: Duration },
    /// A new node takes the place of one.
    Replace { node: NodeId, by: NodeId },
    /// A node that has begun a cluster of its own is to become a member.
    AddBegun { node: NodeId },
    /// The process of the leader ends.
    EndLeader { end: End, down: Duration },
    /// The disk of the leader does nothing.
    HangingLeader { time: Duration },
    /// The process of the leader does nothing, or its machine is suspended.
    PausedLeader { is_suspended: bool, time: Duration },
    /// The leader is removed for good, also if it is paused.
    RemoveLeader,
    /// The process of the leader ends before a step of its disk.
    EndLeaderAt { at: EndAt },
    /// None: the cluster must have this feature level now.
    LevelIs { level: u16 },
    /// None: some node must lead now.
    LeaderIsThere,
    /// None: no node begins another term for so long.
    SameTerm { time: Duration },
}

impl Fault {
    /// How long it lasts. `None` if it happens at once.
    fn time(&self) -> Option<Duration> {
        match self {
            Self::Cut { time, .. }
            | Self::SlowNetwork { time, .. }
            | Self::Noise { time, .. }
            | Self::Pause { time, .. }
            | Self::SlowDisks { time, .. }
            | Self::HangingDisk { time, .. }
            | Self::FullDisk { time, .. }
            | Self::ShortDisk { time, .. }
            | Self::ShortMemory { time, .. }
            | Self::SlowSnapshots { time, .. } => Some(*time),
            _ => None,
        }
    }
}

/// Why a process does nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// It is paused: its clocks go on.
    Paused,
    /// Its machine is suspended, with its monotonic clock.
    Suspended,
}

/// The faults that last now, by their numbers.
#[derive(Default)]
pub struct Active {
    faults: BTreeMap<usize, Fault>,
    /// Sends at each change.
    pub changed: watch::Sender<()>,
}

impl Active {
    fn all(&self) -> impl Iterator<Item = &Fault> {
        self.faults.values()
    }

    fn has(&self, is_it: impl Fn(&Fault) -> bool) -> bool {
        self.all().any(is_it)
    }

    /// Whether messages from a node to another one are lost.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.has(|it| matches!(it, Fault::Cut { paths, .. } if paths.contains(&(from, to))))
    }

    /// Longest delay of a message to a node.
    pub fn delay_max(&self, node: NodeId) -> Duration {
        let delays = self.all().filter_map(|it| match it {
            Fault::SlowNetwork { to, delay, .. } if to.is_none_or(|to| to == node) => Some(*delay),
            _ => None,
        });
        delays.max().unwrap_or(USUAL_DELAY)
    }

    /// Messages of a hundred that are lost, and calls of Raft that arrive twice.
    pub fn noise(&self) -> (u8, u8) {
        let noises = self.all().filter_map(|it| match it {
            Fault::Noise { lost_percent, doubled_percent, .. } => {
                Some((*lost_percent, *doubled_percent))
            }
            _ => None,
        });
        noises.max().unwrap_or_default()
    }

    /// Time to send a snapshot, and time to open it.
    pub fn snapshot_times(&self) -> (Duration, Duration) {
        let times = self.all().filter_map(|it| match it {
            Fault::SlowSnapshots { transfer, open, .. } => Some((*transfer, *open)),
            _ => None,
        });
        times.max().unwrap_or_default()
    }

    /// Longest time of a step of a disk.
    pub fn step_max(&self, node: NodeId, of: DiskStep) -> Duration {
        let steps = self.all().filter_map(|it| match it {
            Fault::SlowDisks { nodes, only, step, .. } => {
                let is_slow = nodes.contains(&node) && only.is_none_or(|only| only == of);
                is_slow.then_some(*step)
            }
            _ => None,
        });
        steps.max().unwrap_or(USUAL_STEP)
    }

    /// Whether a disk does nothing.
    pub fn hangs(&self, node: NodeId) -> bool {
        self.has(|it| matches!(it, Fault::HangingDisk { node: hanging, .. } if *hanging == node))
    }

    /// Whether a disk has no space.
    pub fn is_full(&self, node: NodeId) -> bool {
        self.has(|it| matches!(it, Fault::FullDisk { node: full, .. } if *full == node))
    }

    /// Whether a node is short of disk space, and of memory.
    pub fn is_short(&self, node: NodeId) -> (bool, bool) {
        let disk =
            |it: &Fault| matches!(it, Fault::ShortDisk { node: short, .. } if *short == node);
        let memory =
            |it: &Fault| matches!(it, Fault::ShortMemory { node: short, .. } if *short == node);
        (self.has(disk), self.has(memory))
    }

    /// Whether a process does nothing, and why.
    pub fn halt(&self, node: NodeId) -> Option<Halt> {
        let halts = self.all().filter_map(|it| match it {
            Fault::Pause { node: paused, is_suspended, .. } if *paused == node => {
                Some(if *is_suspended { Halt::Suspended } else { Halt::Paused })
            }
            _ => None,
        });
        halts.last()
    }

    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<usize, Fault>)) {
        change(&mut self.faults);
        self.changed.send_replace(());
    }
}

/// Lets a fault happen.
pub async fn happen(world: Arc<World>, number: usize, fault: Fault) {
    let fault = match fault {
        Fault::HangingLeader { time } => {
            let Some(node) = leader(&world) else { return };
            Fault::HangingDisk { node, time }
        }
        Fault::PausedLeader { is_suspended, time } => {
            let Some(node) = leader(&world) else { return };
            Fault::Pause { node, is_suspended, time }
        }
        fault => fault,
    };
    let Some(time) = fault.time() else { return happen_once(world, fault).await };
    world.with(|state| state.active.change(|faults| drop(faults.insert(number, fault))));
    sleep(time).await;
    world.with(|state| state.active.change(|faults| drop(faults.remove(&number))));
}

async fn happen_once(world: Arc<World>, fault: Fault) {
    match fault {
        Fault::End { node, end, down } => world.end(node, end, Some(down)),
        Fault::EndAt { node, at } => world.change_node(node, |node| node.end_at = Some(at)),
        Fault::EndAtSync { node, count, down } => {
            world.change_node(node, |node| node.power_fails = Some((count, down)));
        }
        Fault::Upgrade { node, level, down } => {
            world.end(node, End::Kill, Some(down));
            world.change_node(node, |it| {
                (it.level, it.highest_level) = (level, it.highest_level.max(level));
            });
        }
        Fault::EndAll { end, down } => {
            let nodes: Vec<NodeId> = world.with(|state| state.nodes.keys().copied().collect());
            nodes.into_iter().for_each(|node| world.end(node, end, Some(down)));
        }
        Fault::ClockStep { node, micros } => {
            world.change_node(node, |node| node.wall_clock_error = micros);
        }
        Fault::Transfer { node } => operate(&world, Operation::Transfer(node)).await,
        Fault::Verify => operate(&world, Operation::Verify).await,
        Fault::Add { node } => add(&world, node, false).await,
        Fault::AddBegun { node } => add(&world, node, true).await,
        Fault::Remove { node } => operate(&world, Operation::Remove(node)).await,
        Fault::LostDisk { node, down } => world.lose_disk(node, down),
        Fault::Replace { node, by } => {
            add(&world, by, false).await;
            operate(&world, Operation::Remove(node)).await;
        }
        Fault::EndLeader { end, down } => {
            if let Some(node) = leader(&world) {
                world.end(node, end, Some(down));
            }
        }
        Fault::EndLeaderAt { at } => {
            if let Some(node) = leader(&world) {
                world.with_node(node, |node| node.end_at = Some(at));
            }
        }
        Fault::LevelIs { level } => {
            let found: BTreeSet<u16> =
                world.members().iter().map(|(_, it)| it.reader.feature_level()).collect();
            if found != [level].into() {
                world.violate(format!("the feature level is {found:?}, not {level}"));
            }
        }
        Fault::RemoveLeader => {
            if let Some(node) = leader(&world) {
                operate(&world, Operation::Remove(node)).await;
            }
        }
        Fault::SameTerm { time } => {
            let last = || world.with(|state| state.leaders.keys().map(|(_, term)| *term).max());
            let before = last();
            sleep(time).await;
            if last() != before {
                world.violate(format!("after term {before:?} there is {:?}", last()));
            }
        }
        Fault::LeaderIsThere => {
            if leader(&world).is_none() {
                world.violate("no node leads".into());
            }
        }
        fault => unreachable!("{fault:?} lasts"),
    }
}

fn leader(world: &World) -> Option<NodeId> {
    let members = world.members();
    members.into_iter().find(|(_, running)| running.handle.is_leader()).map(|(node, _)| node)
}

async fn operate(world: &Arc<World>, operation: Operation) {
    let Some((node, running)) = world.any_member() else { return };
    let (handle, run) = (running.handle, operation.clone());
    let operating = async move { handle.operate(run, Instant::now() + OPERATE_TIMEOUT).await };
    let result = request(world, node, operating).await;
    world.trace(&format!("{operation:?}: {result:?}"));
}

/// Starts an empty node, which becomes a member. It may have begun a cluster of its own before.
async fn add(world: &Arc<World>, node: NodeId, has_begun: bool) {
    if world.with(|state| state.nodes.contains_key(&node)) {
        return;
    }
    world.add_node(node);
    start(world, node);
    sleep(START_TIME).await;
    if has_begun {
        begin(world, node).await;
    }
    operate(world, Operation::Add { node, address: address(node) }).await;
}

/// Bootstraps a node alone, and does not complete it.
async fn begin(world: &Arc<World>, node: NodeId) {
    let running = world.all_running();
    let Some((_, running)) = running.into_iter().find(|(running, _)| *running == node) else {
        return;
    };
    let beginning = async move {
        let members = [(node, address(node))].into();
        raft::bootstrap(&running.handle, &members, Instant::now() + OPERATE_TIMEOUT).await
    };
    let begun = request(world, node, beginning).await;
    world.trace(&format!("node {node} has begun a cluster: {begun:?}"));
}

/// Ends all faults, and starts all nodes.
pub fn heal(world: &World) {
    world.with(|state| {
        state.trace.add("all faults end");
        state.active.change(BTreeMap::clear);
        for node in state.nodes.values_mut() {
            (node.end_at, node.power_fails) = (None, None);
            node.wall_clock_error = 0;
            if node.process.is_none() && node.starts_at.is_none() {
                node.starts_at = Some(crate::timeline::now());
            }
        }
    });
}
