//! Replication: a Raft group whose members apply one log of batches to their storage engines.
//! This is the only crate that depends on openraft. Batches are opaque bytes to Raft: only `segment` and
//! `recover` decode them, outside of the cluster.
//!
//! The path of a write:
//!
//! 1. [`Handle::submit`] passes a command to `forward`, which sends it to the leader.
//! 2. On the leader it enters the queue (`leader/queue`), fair between tenants.
//! 3. The executor (`leader/executor`) decides queued commands on the newest state, and
//!    proposes the resulting changes as one log entry.
//! 4. openraft replicates the entry over the peer protocol (`network`). Each node writes and
//!    syncs it in its log (`log`).
//! 5. Once a majority has synced it, each node applies it (`state_machine`). The leader then
//!    returns the outcome.
//!
//! Reads are local. [`Handle::read_index`] makes a local read linearizable, and
//! [`Handle::staleness`] bounds the age of an ordinary one (`contact`). Beside that, `membership`
//! changes the members, and `integrity` detects replicas that diverged.
//!
//! [`start`] is the composition root of the crate.

mod contact;
mod error;
mod fault;
mod forward;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod grants;
mod handle;
mod incoming;
mod integrity;
mod leader;
mod log;
mod machine;
mod membership;
mod network;
mod operation;
mod recover;
mod restore;
mod segment;
mod server;
mod shared;
mod shared_use;
pub mod simulation;
mod span;
mod state_machine;
mod system_clock;
mod timings;
mod types;
mod writer_thread;

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft::{Config, SnapshotPolicy};
use rustls::ClientConfig;
use storage::model::cluster::Incarnation;
use storage::{Log, Writer};

pub use error::{Outcome, ReadError, StartError, SubmitError, SubmitResult};
pub use fault::Fault;
pub use grants::{Counts, GRANT_TIME, Grant, GrantRequest, History, WINDOW_SECONDS};
pub use handle::{Handle, NodeRole, Status};
pub use log::store::purged_index;
pub use membership::bootstrap::{Founder, bootstrap, founders};
pub use membership::maintenance::LogCompaction;
pub use network::connection::CALLS_MAX;
pub use network::https::causes;
pub use operation::{
    ClockStatus, ClusterStatus, MemberRole, MemberStatus, OperateError, Operation, OperationResult,
    Verification,
};
pub use recover::{RemainingDisks, Remains, Replay, Until, apply_remains, examine_remains};
pub use restore::{RestoredNode, restore};
pub use segment::{HEAD_BYTES_MAX, LogEnd, Next, Segment, SegmentHead};
pub use shared::Totals;
pub use state_machine::SnapshotFolder;
pub use timings::Timings;
pub use types::{NodeId, is_address};

use contact::Contact;
use handle::Host;
use incoming::Incoming;
use leader::executor::Executor;
use log::store::LogStore;
use machine::{Machine, ThisMachine};
use membership::{feature_level, maintenance, unfit};
use network::Network;
use network::client::Peers;
use network::https::Https;
use network::identity::LocalNode;
use network::log_throttle::LogThrottle;
use network::message::ENTRIES_MAX;
use network::transport::Transport;
use server::{Server, router};
use shared::{Shared, Timers};
use state_machine::{Raft, Snapshots, StateMachine};
use system_clock::SystemClock;

/// Worker threads of raft's own runtime. Load on the rest of the node cannot delay heartbeats. Decisions
/// and applied entries, which may wait for the disk, have threads of their own.
const THREADS: usize = 2;

/// Heartbeats without a message from a peer after which the leader probes the peer.
const SILENT_HEARTBEATS: u32 = 2;

/// Settings of raft on this node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Id of this node.
    pub node: NodeId,
    /// Incarnation of its data folder.
    pub incarnation: Incarnation,
    /// Random id of this incarnation of the process.
    pub boot: u64,
    /// Interval of the leader's heartbeats.
    pub heartbeat: Duration,
    /// Shortest time without a leader after which a node becomes a candidate.
    pub election_min: Duration,
    /// Longest such time; also the leader's lease.
    pub election_max: Duration,
    /// When the log is compacted.
    pub compaction: LogCompaction,
    /// Interval of the comparison of all nodes' states.
    pub verify_interval: Duration,
    /// Free disk space in bytes that a received snapshot must leave.
    pub disk_reserve: u64,
}

/// Serves routes to callers with a certificate of the cluster's authority only. Runs on raft's
/// threads. The future ends with an error or never.
pub type Serve = Box<dyn FnOnce(Router) -> BoxFuture<'static, io::Result<()>> + Send>;

/// Starts raft on a node. `tls` is for connections to peers; `serve` serves the routes of the peer
/// listener. `writer` and `log` are those of the data folder `data`.
///
/// # Errors
/// See [`StartError`]. After `BelowHighWaterMark` and `Quarantined` the node may stay up for its
/// operator with [`Handle::quarantined`].
pub fn start(
    settings: &Settings,
    tls: &ClientConfig,
    serve: Serve,
    data: &Path,
    writer: Writer,
    log: Log,
) -> Result<Handle, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("raft")
        .enable_all()
        .build()?;
    let https = Arc::new(Https::new(tls).map_err(certificate_error)?);
    let parts = Parts {
        settings: settings.clone(),
        machine: ThisMachine::shared(),
        transport: Arc::clone(&https) as Arc<dyn Transport>,
        data: data.to_owned(),
        writer,
        log,
    };
    // The calling thread may belong to another runtime, where tokio's `block_on` would panic.
    let started = futures::executor::block_on(runtime.spawn(run(parts)));
    let Started { server, executor, .. } = started.expect("the start of raft does not panic")?;
    let shared = Arc::clone(&server.shared);
    runtime.spawn(shared.local.fault.guard(serve_peers(server, serve)));
    Ok(Handle::running(shared, Some(Host { runtime, executor, https })))
}

fn certificate_error(error: reqwest::Error) -> StartError {
    StartError::Settings(format!("the peer certificates: {error}"))
}

/// What a node consists of.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) transport: Arc<dyn Transport>,
    /// The data folder, with its engine and its log.
    pub(crate) data: PathBuf,
    pub(crate) writer: Writer,
    pub(crate) log: Log,
}

/// A node that runs.
pub(crate) struct Started {
    pub(crate) server: Arc<Server>,
    /// The thread of the executor, which ends with raft. `None` if it shares the caller's.
    pub(crate) executor: Option<JoinHandle<()>>,
}

/// Starts the tasks of a node on the present runtime, without its peer listener.
pub(crate) async fn run(parts: Parts) -> Result<Started, StartError> {
    let Parts { settings, machine, transport, data, writer, log } = parts;
    if let Some(reason) = integrity::quarantine_reason(&data)? {
        return Err(StartError::Quarantined(reason));
    }
    let (config, timings) = (config(&settings)?, Timings::default());
    let (log, fault, reader) = (Arc::new(log), Fault::default(), writer.reader().clone());
    let (of_store, host) = (Arc::clone(&log), Arc::clone(&machine));
    let log_store = LogStore::open(of_store, &data, fault.clone(), &timings, host)?;
    let snapshots = Snapshots::open(&data)?;
    let incoming = Incoming::new(snapshots.clone(), writer.receiver(), settings.disk_reserve);
    let of_writer = Some(log_store.writer.clone());
    let (stops, host) = (fault.clone(), Arc::clone(&machine));
    let state_machine = StateMachine::new(writer, of_writer, snapshots, stops, &timings, host)?;
    let applied = state_machine.applied.subscribe();
    let local = Arc::new(LocalNode {
        node: settings.node,
        incarnation: settings.incarnation,
        reader,
        clock: SystemClock::new(Arc::clone(&machine)),
        contact: Contact::new(settings.boot),
        fault,
        data,
    });
    let peers = Arc::new(Peers::new(Arc::clone(&local), transport, timings));
    let silence_max = settings.heartbeat * SILENT_HEARTBEATS;
    let network = Network { peers: Arc::clone(&peers), raft: Arc::default(), silence_max };
    let started_raft = Arc::clone(&network.raft);
    let raft = Raft::new(settings.node, config, network, log_store, state_machine).await;
    // The fault latch has the storage error, which openraft's own error only repeats.
    let failed = |fatal: &dyn Display| {
        StartError::Raft(local.fault.cause().unwrap_or_else(|| fatal.to_string()))
    };
    let raft = raft.map_err(|fatal| failed(&fatal))?;
    started_raft.get_or_init(|| raft.clone());
    let was_initialized = raft.is_initialized().await.map_err(|fatal| failed(&fatal))?;
    let timers = Timers { lease: settings.election_max, heartbeat: settings.heartbeat };
    let shared = Arc::new(Shared::new(raft, peers, log, applied, incoming, timers, machine));
    shared.is_initialized.store(was_initialized, Ordering::Relaxed);
    let tasks = background_tasks(&shared, &settings);
    tasks.for_each(|task| drop(tokio::spawn(local.fault.guard(task))));
    // On a thread of its own, since deciding reads the state, which may block.
    let executing = local.fault.guard(Executor { shared: Arc::clone(&shared) }.run());
    let executor = shared.machine.start_thread("executor", executing.boxed())?;
    let server = Server { shared, log_throttle: LogThrottle::default() };
    Ok(Started { server: Arc::new(server), executor })
}

fn background_tasks(
    shared: &Arc<Shared>,
    settings: &Settings,
) -> impl Iterator<Item = BoxFuture<'static, ()>> + use<> {
    let shared = || Arc::clone(shared);
    [
        maintenance::run(shared(), settings.compaction).boxed(),
        integrity::run(shared(), settings.verify_interval).boxed(),
        leader::watch::run(shared()).boxed(),
        unfit::run(shared()).boxed(),
        feature_level::run(shared()).boxed(),
        check_clock(shared()).boxed(),
        shared().report_stop().boxed(),
        shared().count_leaders().boxed(),
    ]
    .into_iter()
}

/// Serves the routes of the peer listener. Its end is a fault of the node.
async fn serve_peers(server: Arc<Server>, serve: Serve) {
    let fault = server.shared.local.fault.clone();
    if let Err(error) = serve(router(server)).await {
        fault.report(&format!("the peer listener failed: {error}"));
    }
}

async fn check_clock(shared: Arc<Shared>) {
    system_clock::check(&shared.local.clock, &shared.local.fault).await;
}

fn config(settings: &Settings) -> Result<Arc<Config>, StartError> {
    let millis = |duration: Duration| duration.as_millis() as u64;
    let config = Config {
        cluster_name: "hearth".into(),
        heartbeat_interval: millis(settings.heartbeat),
        election_timeout_min: millis(settings.election_min),
        election_timeout_max: millis(settings.election_max),
        // A restarted leader must win an election. Only the blank entry of a new term is above
        // every entry that was ever acknowledged.
        enable_leader_restore: Some(false),
        enable_pre_vote: Some(true),
        // A leader without a quorum pauses its heartbeats at times. A node that reaches both
        // sides of a partition would otherwise keep it in office (openraft#2080).
        quorum_loss_probe_interval: Some(2 * millis(settings.election_max) + 200),
        snapshot_policy: SnapshotPolicy::Never,
        // The maintenance task purges.
        max_in_snapshot_log_to_keep: u64::MAX,
        // Only a follower that needs purged entries receives a snapshot.
        replication_lag_threshold: u64::MAX,
        max_payload_entries: ENTRIES_MAX as u64,
        install_snapshot_timeout: 30_000,
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| StartError::Settings(error.to_string()))
}

#[cfg(test)]
mod conformance;
