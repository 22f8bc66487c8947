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
mod membership;
mod network;
mod operation;
mod recover;
mod restore;
mod segment;
mod server;
mod shared;
mod shared_use;
mod span;
mod state_machine;
mod system_clock;
mod timings;
mod types;
mod writer_thread;

use std::io;
use std::path::Path;
use std::sync::Arc;
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
pub use network::client::causes;
pub use network::connection::CALLS_MAX;
pub use operation::{
    ClockStatus, ClusterStatus, MemberRole, MemberStatus, OperateError, Operation, OperationResult,
    Verification,
};
pub use recover::{Remains, Replay, Until, apply_remains, examine_remains, is_majority};
pub use restore::{RestoredNode, restore};
pub use segment::{HEAD_BYTES_MAX, LogEnd, Next, Segment, SegmentHead};
pub use shared::Totals;
pub use state_machine::SnapshotFolder;
pub use timings::Timings;
pub use types::{NodeId, is_address};

use contact::Contact;
use handle::Threads;
use incoming::Incoming;
use leader::executor::Executor;
use log::store::LogStore;
use membership::{feature_level, maintenance, unfit};
use network::Network;
use network::client::Peers;
use network::identity::LocalNode;
use network::log_throttle::LogThrottle;
use network::message::ENTRIES_MAX;
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
    if let Some(reason) = integrity::quarantine_reason(data)? {
        return Err(StartError::Quarantined(reason));
    }
    let (config, timings) = (config(settings)?, Timings::default());
    let (log, fault, reader) = (Arc::new(log), Fault::default(), writer.reader().clone());
    let log_store = LogStore::open(Arc::clone(&log), data, fault.clone(), &timings)?;
    let snapshots = Snapshots::open(data)?;
    let incoming = Incoming::new(snapshots.clone(), writer.receiver(), settings.disk_reserve);
    let state_machine = StateMachine::new(
        writer,
        Some(log_store.writer.clone()),
        snapshots,
        fault.clone(),
        &timings,
    )?;
    let applied = state_machine.applied.subscribe();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("raft")
        .enable_all()
        .build()?;
    let local = Arc::new(LocalNode {
        node: settings.node,
        incarnation: settings.incarnation,
        reader,
        clock: SystemClock::default(),
        contact: Contact::new(settings.boot),
        fault,
        data: data.to_owned(),
    });
    let peers = Peers::new(Arc::clone(&local), tls, timings).map_err(certificate_error)?;
    let (peers, silence_max) = (Arc::new(peers), settings.heartbeat * SILENT_HEARTBEATS);
    let network = Network { peers: Arc::clone(&peers), raft: Arc::default(), silence_max };
    let (node, started_raft) = (settings.node, Arc::clone(&network.raft));
    // The calling thread may belong to another runtime, where tokio's `block_on` would panic.
    let raft =
        futures::executor::block_on(runtime.spawn(async move {
            Raft::new(node, config, network, log_store, state_machine).await
        }));
    // The fault latch has the storage error, which openraft's own error only repeats.
    let raft = raft.expect("the start of raft does not panic").map_err(|fatal| {
        StartError::Raft(local.fault.cause().unwrap_or_else(|| fatal.to_string()))
    })?;
    started_raft.get_or_init(|| raft.clone());
    let timers = Timers { lease: settings.election_max, heartbeat: settings.heartbeat };
    let shared = Arc::new(Shared::new(raft, peers, log, applied, incoming, timers));
    for task in [
        maintenance::run(Arc::clone(&shared), settings.compaction).boxed(),
        integrity::run(Arc::clone(&shared), settings.verify_interval).boxed(),
        leader::watch::run(Arc::clone(&shared)).boxed(),
        unfit::run(Arc::clone(&shared)).boxed(),
        feature_level::run(Arc::clone(&shared)).boxed(),
        check_clock(Arc::clone(&shared)).boxed(),
        Arc::clone(&shared).report_stop().boxed(),
        Arc::clone(&shared).count_leaders().boxed(),
        serve_peers(Arc::clone(&shared), serve).boxed(),
    ] {
        runtime.spawn(local.fault.guard(task));
    }
    let executor = start_executor(Arc::clone(&shared))?;
    Ok(Handle::running(shared, Threads { runtime, executor }))
}

fn certificate_error(error: reqwest::Error) -> StartError {
    StartError::Settings(format!("the peer certificates: {error}"))
}

/// Starts the executor on a thread of its own, since deciding reads the state, which may block. The
/// thread ends with raft. A panic in it is a fault of the node.
fn start_executor(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let run = move || {
        let fault = shared.local.fault.clone();
        runtime.block_on(fault.guard(Executor { shared }.run()));
    };
    std::thread::Builder::new().name("executor".into()).spawn(run)
}

/// Serves the routes of the peer listener. Its end is a fault of the node.
async fn serve_peers(shared: Arc<Shared>, serve: Serve) {
    let fault = shared.local.fault.clone();
    let was_initialized = match shared.raft.is_initialized().await {
        Ok(was_initialized) => was_initialized,
        Err(error) => return fault.report(&error),
    };
    let log_throttle = LogThrottle::default();
    let routes = router(Server { shared, was_initialized, log_throttle });
    if let Err(error) = serve(routes).await {
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
