//! Replication: the log under openraft, the state machine over the storage
//! engine, the executor that decides and writes, the cluster clock, the way between
//! nodes. The only crate that knows openraft; it does not know what a memory is,
//! nor the public interface.
//!
//! [`start`] gives a [`Handle`], through which everybody else on the node
//! submits commands and makes sure of what they read.

mod contact;
mod error;
mod fault;
mod forward;
mod handle;
mod integrity;
mod leader;
mod log;
mod membership;
mod network;
mod operation;
mod shared;
mod state_machine;
mod types;

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use futures::future::BoxFuture;
use openraft::{Config, SnapshotPolicy};
use storage::model::cluster::Incarnation;
use storage::{Log, Writer};

pub use error::{Outcome, ReadError, StartError, SubmitError};
pub use fault::Fault;
pub use handle::{Handle, Status, Totals};
pub use leader::clock::{SystemClock, WallClock};
pub use log::store::BelowHighWaterMark;
pub use membership::bootstrap::{bootstrap, founders};
pub use membership::maintenance::LogCompaction;
pub use network::client::PeerTls;
pub use network::message::WINDOW_BYTES;
pub use operation::{
    ClusterStatus, MemberStatus, OperateError, Operation, OperationResult, Verification,
};
pub use types::{NodeId, Peer};

use contact::Contact;
use forward::Forward;
use integrity::quarantine::{self, Quarantine};
use integrity::verify;
use leader::executor::Executor;
use log::store::{LogStore, OpenError};
use membership::maintenance;
use network::Network;
use network::client::Peers;
use network::identity::LocalNode;
use network::server::{Server, router};
use shared::Shared;
use state_machine::snapshot::Snapshots;
use state_machine::{Raft, StateMachine};

/// Threads that raft runs on, apart from everything else of the node.
const THREADS: usize = 2;

/// How raft runs on this node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node.
    pub node: NodeId,
    /// This incarnation of its data folder.
    pub incarnation: Incarnation,
    /// A random name of this incarnation of the process.
    pub boot: u64,
    /// How often a leader shows that it leads.
    pub heartbeat: Duration,
    /// Shortest time without a leader after which a node stands for election.
    pub election_min: Duration,
    /// Longest such time; also the leader's lease.
    pub election_max: Duration,
    /// When the log is cut.
    pub compaction: LogCompaction,
    /// How often the states of all nodes are compared.
    pub verify_interval: Duration,
}

/// How a node meets its peers.
pub struct Transport {
    /// What it shows them, and whom it believes.
    pub tls: PeerTls,
    /// Serves these routes on the peer listener, to callers with a certificate of
    /// the authority only; runs on raft's own threads, and ends with an error or never.
    pub serve: Serve,
}

/// See [`Transport`].
pub type Serve = Box<dyn FnOnce(Router) -> BoxFuture<'static, io::Result<()>> + Send>;

/// Starts raft on a node. `data` is the folder that `log` lies in.
///
/// # Errors
/// See [`StartError`]; after `BelowHighWaterMark` and `Quarantined` the node may stay up for its
/// operator with [`Handle::quarantined`].
pub fn start(
    settings: &Settings,
    transport: Transport,
    data: &Path,
    writer: Writer,
    log: Log,
    wall_clock: Arc<dyn WallClock>,
    fault: Fault,
) -> Result<Handle, StartError> {
    if let Some(reason) = quarantine::reason(data)? {
        return Err(StartError::Quarantined(reason));
    }
    let config = config(settings)?;
    let log = Arc::new(log);
    let reader = writer.reader().clone();
    let log_store = LogStore::open(Arc::clone(&log), data, fault.clone()).map_err(open_error)?;
    let snapshots = Snapshots::open(data)?;
    let state_machine =
        StateMachine::new(writer, Some(log_store.writer()), snapshots.clone(), fault.clone());
    let applied = state_machine.watch_applied();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("raft")
        .enable_all()
        .build()?;
    let (node, incarnation) = (settings.node, settings.incarnation);
    let contact = Contact::new(settings.boot);
    let quarantine = Quarantine::of(data);
    let local = LocalNode {
        node,
        incarnation,
        reader: reader.clone(),
        wall_clock,
        contact,
        fault,
        quarantine,
    };
    let local = Arc::new(local);
    let peers = Peers::new(Arc::clone(&local), &transport.tls)
        .map_err(|error| StartError::Settings(format!("the peer certificates: {error}")))?;
    let peers = Arc::new(peers);
    let network = Network { peers: Arc::clone(&peers), raft: Arc::new(OnceLock::new()) };
    let running = Arc::clone(&network.raft);
    let raft =
        on(
            &runtime,
            async move { Raft::new(node, config, network, log_store, state_machine).await },
        )
        .map_err(|fatal| {
            StartError::Raft(local.fault.cause().unwrap_or_else(|| fatal.to_string()))
        })?;
    running.get_or_init(|| raft.clone());
    let shared = Arc::new(Shared::new(raft, Arc::clone(&local), settings.election_max));
    supervise(&runtime, &local.fault, Executor { shared: Arc::clone(&shared), reader }.run());
    let routes = router(Server {
        local: Arc::clone(&local),
        shared: Arc::clone(&shared),
        peers: Arc::clone(&peers),
        snapshots,
        log_throttle: network::log_throttle::LogThrottle::default(),
    });
    let (serve, fault) = (transport.serve, local.fault.clone());
    supervise(&runtime, &local.fault, async move {
        if let Err(error) = serve(routes).await {
            fault.report(&format!("the peer listener ended: {error}"));
        }
    });
    supervise(
        &runtime,
        &local.fault,
        maintenance::run(Arc::clone(&shared), Arc::clone(&log), settings.compaction),
    );
    let watched = Arc::clone(&shared);
    supervise(&runtime, &local.fault, async move { watched.report_stop().await });
    let compare = verify::run(Arc::clone(&shared), Arc::clone(&peers), settings.verify_interval);
    supervise(&runtime, &local.fault, compare);
    let forward = Forward { shared: Arc::clone(&shared), peers };
    Ok(Handle::running(shared, forward, applied, log, runtime))
}

/// Runs a task that must not panic: a node without it would only seem to run.
fn supervise(
    runtime: &tokio::runtime::Runtime,
    fault: &Fault,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let task = runtime.spawn(task);
    let fault = fault.clone();
    runtime.spawn(async move {
        match task.await {
            Err(error) if error.is_panic() => fault.report(&error),
            Ok(()) | Err(_) => {}
        }
    });
}

fn config(settings: &Settings) -> Result<Arc<Config>, StartError> {
    let millis = |duration: Duration| duration.as_millis() as u64;
    let config = Config {
        cluster_name: "hearth".into(),
        heartbeat_interval: millis(settings.heartbeat),
        election_timeout_min: millis(settings.election_min),
        election_timeout_max: millis(settings.election_max),
        // A restarted node must win an election: only the blank entry of a new term
        // lies above everything that was ever acknowledged.
        enable_leader_restore: Some(false),
        enable_pre_vote: Some(true),
        // A leader that lost its quorum falls silent at times, so that a bridge node
        // does not keep it alive for ever (openraft#2080).
        quorum_loss_probe_interval: Some(2 * millis(settings.election_max) + 200),
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: settings.compaction.keep_entries,
        // Only a follower that needs what was cut gets a snapshot.
        replication_lag_threshold: u64::MAX,
        install_snapshot_timeout: 30_000,
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| StartError::Settings(error.to_string()))
}

fn open_error(error: OpenError) -> StartError {
    match error {
        OpenError::BelowHighWaterMark(below) => below.into(),
        OpenError::Storage(error) => error.into(),
    }
}

/// Runs `task` on `runtime` from a thread that may belong to another one.
fn on<T: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    task: impl Future<Output = T> + Send + 'static,
) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let _: Result<(), _> = sender.send(task.await);
    });
    receiver.recv().expect("the task sends before it ends, and does not panic")
}

#[cfg(test)]
mod conformance;
