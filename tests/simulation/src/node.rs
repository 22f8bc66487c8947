//! A process of a node: its start, background tasks like those of `node`, and its end by a fault.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use raft::{LogCompaction, NodeId, NodeRole, Settings};
use storage::command::{AdvanceTick, Expire};
use storage::model::cluster::Position;
use storage::model::id::{TenantId, Timestamp};
use storage::model::release::{LEVEL, Release};
use storage::{Command, Environment, Log, Options, Reader, TickSteps, View};
use tokio::time::{Instant, sleep};

use crate::commands;
use crate::host::{EPOCH_MICROS, Host, address};
use crate::process::End;
use crate::timeline::{Timeline, now};
use crate::world::{Node, Process, Running, World};

/// The settings of a node, with their defaults.
const SETTINGS: &str = include_str!("../../../deploy/hearth.toml");
/// Shorter than in production, so that each run compacts its logs. By age alone: the size of a log depends on
/// the heights of a skip list, which RocksDB draws from the address of a thread.
const COMPACTION: LogCompaction = LogCompaction {
    log_bytes: u64::MAX,
    log_age: Duration::from_secs(4),
    keep_entries: 20,
    follower_timeout: Duration::from_secs(10),
};
/// Time in which a cluster is created.
const BOOTSTRAP_TIMEOUT: Duration = Duration::from_secs(30);
const VERIFY_INTERVAL: Duration = Duration::from_secs(15);
const TICK_INTERVAL: Duration = Duration::from_millis(500);
const EXPIRE_INTERVAL: Duration = Duration::from_secs(20);
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest error of a good wall clock.
const CLOCK_ERROR_MAX: u64 = 255_000;
/// Cluster time may be ahead of the median of the wall clocks by 500 ms.
const CLOCK_AHEAD_MAX: i64 = CLOCK_ERROR_MAX as i64 + 510_000;
/// An error of wall clocks after which receipts may expire, which are kept for a day.
const CLOCK_JUMP: u64 = 6 * 3_600_000_000;
/// Interval at which a node is observed.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(25);
/// One state in so many is compared with others. A hash of all rows is a fifth of the time of a run with 8.
const COMPARED_ONE_OF: u64 = 16;
/// Observations without a change, after which a state is compared with others.
const IDLE_OBSERVATIONS: u32 = 20;
/// So often at most is a node observed after a step of its disk has failed: it stops.
const FAILED_OBSERVATIONS_MAX: u32 = 40;
/// Interval at which nodes without a process are looked for.
const SUPERVISE_INTERVAL: Duration = Duration::from_millis(100);
/// Time after which a process that ended by itself is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

/// Starts a process of a node that does not run.
pub fn start(world: &Arc<World>, node: NodeId) {
    let timeline = Timeline::new(now());
    let number = world.with_node(node, |it| {
        it.starts += 1;
        let (number, timeline) = (it.starts, Arc::clone(&timeline));
        it.process = Some(Process { number, timeline, raft: None, has_failed_step: false });
        number
    });
    world.trace(&format!("node {node} starts ({number})"));
    timeline.spawn(run(Host { world: Arc::clone(world), node, number }));
}

/// The incarnation of the data folder on a node's disk.
pub fn incarnation(node: NodeId, disk: u8) -> [u8; 16] {
    let mut incarnation = [node as u8; 16];
    incarnation[0] = disk;
    incarnation
}

async fn run(host: Host) {
    let (world, node) = (Arc::clone(&host.world), host.node);
    let started = start_raft(&host).await;
    host.go_on().await;
    match started {
        Ok(running) => {
            world.with_node(node, |it| {
                if let Some(process) = &mut it.process {
                    process.raft = Some(running.clone());
                }
            });
            world.trace(&format!("node {node} runs"));
            let tasks = async {
                tokio::join!(
                    bootstrap(&world, node, &running),
                    advance_ticks(&running),
                    expire(&running),
                    observe(&world, node, &running),
                )
            };
            tokio::select! {
                _ = tasks => {}
                cause = running.handle.fault().closed() => {
                    host.go_on().await;
                    // The error of a full disk, which the simulation returned; and the node whose disk
                    // was lost, which ends for good.
                    let has_lost = world.with_node(node, |it| it.disks > 1);
                    if has_lost && cause.contains("is not the one that its cluster has recorded") {
                        world.trace(&format!("node {node} has no place in its cluster"));
                        return world.end(node, End::Kill, None);
                    }
                    if !has_failed_step(&world, node) && !is_too_old(&world, node, &cause) {
                        world.violate(format!("node {node} stops: {cause}"));
                    }
                    world.trace(&format!("node {node} stops: {cause}"));
                }
            }
        }
        Err(error) if has_failed_step(&world, node) => {
            world.trace(&format!("node {node} does not start: {error}"));
        }
        Err(error) if is_too_old(&world, node, &error) => {}
        Err(error) => world.violate(format!("node {node} does not start: {error}")),
    }
    // Its supervisor starts it again. The task of this function ends with the process.
    world.end(node, End::Kill, Some(RESTART_PAUSE));
}

/// Starts nodes again after their ends.
pub async fn supervise(world: Arc<World>) {
    loop {
        sleep(SUPERVISE_INTERVAL).await;
        let due = world.with(|state| {
            let is_due = |at: &Option<Duration>| at.is_some_and(|at| at <= now());
            let nodes = state.nodes.iter();
            let due = nodes.filter(|(_, node)| node.process.is_none() && is_due(&node.starts_at));
            due.map(|(id, _)| *id).collect::<Vec<_>>()
        });
        due.into_iter().for_each(|node| start(&world, node));
    }
}

fn has_failed_step(world: &World, node: NodeId) -> bool {
    world.with_node(node, |it| it.process.as_ref().is_some_and(|it| it.has_failed_step))
}

/// The release with a feature level.
fn release(level: u16) -> Release {
    let (major, minor, patch) = Release::own().version;
    Release { level, version: (major, minor + level - LEVEL, patch) }
}

/// Whether a node does not start, or stops, since its release is too old. Its operator then gives it the next one.
fn is_too_old(world: &World, node: NodeId, cause: &str) -> bool {
    let running = world.all_running();
    let is_it = world.with(|state| {
        let risen = running.iter().map(|(_, it)| it.reader.feature_level()).max().unwrap_or(0);
        let needed = state.level.max(risen);
        let it = state.nodes.get_mut(&node).expect("the node is in the world");
        let is_it = cause.contains("needs version") && it.level < needed;
        if is_it {
            it.level = needed;
            state.count("refused releases");
        }
        is_it
    });
    if is_it {
        world.trace(&format!("node {node} is too old: {cause}"));
    }
    is_it
}

/// A timer of the section `raft`.
fn timer(name: &str) -> Duration {
    let settings: toml::Table = SETTINGS.parse().expect("the file has settings");
    let millis = settings["raft"][name].as_integer().and_then(|it| u64::try_from(it).ok());
    Duration::from_millis(millis.expect("a timer has a number"))
}

async fn start_raft(host: &Host) -> Result<Running, String> {
    let (world, node) = (&host.world, host.node);
    let (data, boot) = world.with(|state| (state.nodes[&node].data.clone(), state.random.u64(..)));
    let release = release(world.with_node(node, |it| it.level));
    let environment = Environment::Simulation;
    let options = Options { environment, release, ..Options::default() };
    let opened = storage::open(&data, options, raft::purged_index);
    let (writer, reader, log) = opened.map_err(|error| error.to_string())?;
    check_order(&data, &reader, &log)?;
    let settings = Settings {
        node,
        incarnation: world.with_node(node, |it| incarnation(node, it.disks)),
        boot,
        heartbeat: timer("heartbeat_ms"),
        election_min: timer("election_min_ms"),
        election_max: timer("election_max_ms"),
        compaction: COMPACTION,
        verify_interval: VERIFY_INTERVAL,
        disk_reserve: 0,
    };
    let machine = Arc::new(host.clone());
    let transport = Arc::new(host.clone());
    let started = raft::simulation::start(&settings, machine, transport, &data, writer, log).await;
    let (handle, endpoint) = started.map_err(|error| error.to_string())?;
    Ok(Running { handle, endpoint, reader })
}

/// Checks that the durable state is not ahead of the durable log. One that another node sent may be.
fn check_order(data: &Path, reader: &Reader, log: &Log) -> Result<(), String> {
    let current = std::fs::read_to_string(data.join("state/CURRENT"));
    let is_first = current.is_ok_and(|name| name.trim() == "000001");
    let purged = raft::purged_index(log).map_err(|error| error.to_string())?;
    let last = log.last().map_err(|error| error.to_string())?.map_or(0, |(index, _)| index);
    let applied = reader.position().index;
    match is_first && applied > last.max(purged) {
        true => Err(format!("the state has entry {applied}, and the log ends at {last}")),
        false => Ok(()),
    }
}

/// Creates the cluster of the first members, unless there is one: the one with the lowest id does.
async fn bootstrap(world: &Arc<World>, node: NodeId, running: &Running) {
    let members = world.with(|state| state.founders.clone());
    if members.first() != Some(&node) {
        return;
    }
    let addresses: BTreeMap<NodeId, String> =
        members.iter().map(|node| (*node, address(*node))).collect();
    let deadline = || Instant::now() + BOOTSTRAP_TIMEOUT;
    let handle = &running.handle;
    // An error is that of a member that does not respond: the next process tries it again.
    if let Err(error) = raft::bootstrap(handle, &addresses, deadline()).await {
        world.trace(&format!("not bootstrapped: {error}"));
        return world.end(node, End::Kill, Some(RESTART_PAUSE));
    }
    loop {
        sleep(TICK_INTERVAL).await;
        if handle.read_index(deadline()).await.is_err() {
            continue;
        }
        if running.reader.cluster().is_ok_and(|cluster| cluster.is_some()) {
            return;
        }
        let Ok(founders) = raft::founders(handle, &addresses, deadline()).await else { continue };
        let command = commands::bootstrap(founders.into_iter().map(|it| it.member).collect());
        // It is tried again until the cluster is there.
        drop(handle.submit(command, deadline()).await);
    }
}

/// Advances the ticks of all tenants while the node leads.
async fn advance_ticks(running: &Running) {
    loop {
        sleep(TICK_INTERVAL).await;
        let due = match running.handle.is_leader() {
            true => running.reader.tick_due(),
            false => Vec::new(),
        };
        for tenant in due {
            let mut steps = TickSteps::default();
            let step = match running.reader.next_tick_step(tenant, &mut steps) {
                Ok(Some(step)) => Some(Box::new(step)),
                Ok(None) => continue,
                Err(error) => return running.handle.fault().report_storage(&error),
            };
            let command = Command::of_tenant(tenant, AdvanceTick(step));
            // After an error another node leads.
            drop(running.handle.submit_here(command, Instant::now() + SUBMIT_TIMEOUT).await);
        }
    }
}

async fn expire(running: &Running) {
    loop {
        sleep(EXPIRE_INTERVAL).await;
        let command = Command::of_cluster(Expire(TenantId(0)));
        drop(running.handle.submit_here(command, Instant::now() + SUBMIT_TIMEOUT).await);
    }
}

/// Checks what must hold at any time.
async fn observe(world: &Arc<World>, node: NodeId, running: &Running) {
    let (mut last, mut idle, mut compared, mut since_failure) = (Position::default(), 0, 0, 0);
    loop {
        since_failure += u32::from(has_failed_step(world, node));
        if since_failure == FAILED_OBSERVATIONS_MAX {
            world.violate(format!("node {node} goes on after a failed step of its disk"));
        }
        let (short_disk, short_memory) = world.with(|state| state.active.is_short(node));
        running.handle.set_disk_full(short_disk);
        running.handle.set_memory(u64::from(short_memory), 0);
        let (position, status) = (running.reader.position(), running.handle.status());
        if position.clock < last.clock || position.index < last.index {
            world.violate(format!(
                "node {node} goes back from {} to {}",
                last.index, position.index
            ));
        }
        if position.batch != last.batch && position.clock <= last.clock {
            world.violate(format!("{:?} has the time of {:?}", position.batch, last.batch));
        }
        if position.batch < last.batch {
            world.violate(format!("{:?} follows {:?}", position.batch, last.batch));
        }
        // A node that has begun a cluster of its own leads it, and belongs to none yet.
        let cluster = running.reader.cluster().ok().flatten().map(|cluster| cluster.id);
        if cluster.is_some() {
            world.with_node(node, |it| it.was_member = true);
            check_level(world, node, running.reader.feature_level());
            check_clock(world, node, running.handle.voters(), position.clock);
        }
        if let Some(cluster) = cluster.filter(|_| status.role == NodeRole::Leader) {
            let led = (cluster, status.term);
            let leader = world.with(|state| match state.leaders.get(&led) {
                Some(leader) => *leader,
                None => {
                    state.leaders.insert(led, node);
                    state.count("elections");
                    node
                }
            });
            if leader != node {
                let term = status.term;
                world.violate(format!("nodes {leader} and {node} lead term {term}"));
            }
        }
        // A hash of all rows takes long: it is computed where others compute theirs, too.
        idle = if position.index == last.index { idle + 1 } else { 0 };
        let is_due = idle == IDLE_OBSERVATIONS || position.index.is_multiple_of(COMPARED_ONE_OF);
        if cluster.is_some() && position.index != compared && is_due {
            compared = position.index;
            compare(world, node, running);
        }
        last = position;
        sleep(OBSERVE_INTERVAL).await;
    }
}

/// Checks that the feature level rises once each node has had it, and that a node does not go on without it.
fn check_level(world: &World, node: NodeId, level: u16) {
    if world.with_node(node, |it| it.level < level) {
        world.violate(format!("node {node} goes on without the feature level {level}"));
    }
    let lacks = world.with(|state| {
        let has_risen = level > state.level;
        state.level = state.level.max(level);
        let lacks = state.nodes.iter().find(|(_, it)| has_risen && it.highest_level < level);
        lacks.map(|(node, _)| *node)
    });
    if let Some(node) = lacks {
        world.violate(format!("the feature level is {level}, which node {node} has not had"));
    }
}

/// Checks that cluster time is not ahead of real time, while most wall clocks of members are good.
fn check_clock(world: &World, node: NodeId, voters: usize, clock: Timestamp) {
    let real = EPOCH_MICROS + now().as_micros() as i64;
    let has_good_clocks = world.with(|state| {
        let are_most_good = |most: u64| {
            let is_wrong = |(id, it): &(&NodeId, &Node)| {
                (it.was_member || state.founders.contains(id))
                    && it.wall_clock_error.unsigned_abs() > most
            };
            2 * state.nodes.iter().filter(is_wrong).count() < voters
        };
        let (good, fair) = (are_most_good(CLOCK_ERROR_MAX), are_most_good(CLOCK_JUMP));
        state.has_good_clocks &= good;
        state.keeps_receipts &= fair;
        state.has_good_clocks
    });
    let ahead = clock.0 - real;
    if has_good_clocks && ahead > CLOCK_AHEAD_MAX {
        world.violate(format!("cluster time of node {node} is ahead by {ahead} µs"));
    }
}

/// Compares the state of a node with those of others at the same index.
pub fn compare(world: &World, node: NodeId, running: &Running) {
    let index = running.reader.position().index;
    let hash = match running.reader.hash() {
        Ok(hash) => hash,
        Err(error) => return world.violate(format!("node {node} has no hash: {error}")),
    };
    let first = world.with(|state| {
        state.trace.add(&format!("node {node} at {index}: {}", hex::encode(&hash[..4])));
        state.hashes.insert(index, hash)
    });
    match first {
        None => {}
        Some(first) if first == hash => world.count("equal states"),
        Some(_) => world.violate(format!("node {node} has another state at {index}")),
    }
}
