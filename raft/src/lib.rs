//! Replication: the log under openraft, the state machine over the storage
//! engine, the executor that decides and writes, the cluster clock. The only
//! crate that knows openraft; it does not know what a memory is, nor HTTP.
//!
//! [`start`] gives a [`Handle`], through which everybody else on the node
//! submits commands and makes sure of what they read.

mod alone;
mod clock;
mod error;
mod executor;
mod fault;
mod handle;
mod log_store;
mod log_writer;
mod queue;
mod record;
mod snapshot;
mod state_machine;
mod types;
mod upkeep;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use storage::{Log, Writer};

pub use clock::{SystemWall, Wall};
pub use error::{Outcome, ReadError, StartError, SubmitError};
pub use fault::Fault;
pub use handle::{Handle, Status, Totals};
pub use log_store::BelowNote;
pub use types::{NodeId, Peer};

use executor::Executor;
use handle::{Raft, Shared};
use log_store::{LogStore, OpenError};
use snapshot::Snapshots;
use state_machine::StateMachine;

/// Threads that raft runs on, apart from everything else of the node.
const THREADS: usize = 2;
/// Log entries that stay although the state is durable past them. A batch is a
/// few kB under load and 3 MiB at most; nobody follows a cluster of one.
const LOG_KEEP_ENTRIES: u64 = 1_000;

/// How raft runs on this node.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This node.
    pub node: NodeId,
    /// How often a leader shows that it leads.
    pub heartbeat: Duration,
    /// Shortest time without a leader after which a node stands for election.
    pub election_min: Duration,
    /// Longest such time; also the leader's lease.
    pub election_max: Duration,
}

/// Starts raft on a node. `data` is the folder that `log` lies in.
///
/// # Errors
/// See [`StartError`]; after `BelowNote` the node may stay up for its operator
/// with [`Handle::quarantined`].
pub fn start(
    settings: &Settings,
    data: &Path,
    writer: Writer,
    log: Log,
    wall: Arc<dyn Wall>,
    fault: Fault,
) -> Result<Handle, StartError> {
    let config = config(settings)?;
    let log = Arc::new(log);
    let reader = writer.reader().clone();
    let log_store = LogStore::open(Arc::clone(&log), data, fault.clone()).map_err(open_error)?;
    let snapshots = Snapshots::open(data)?;
    let state_machine =
        StateMachine::new(writer, Some(log_store.writer()), snapshots, fault.clone());
    let applied = state_machine.watch_applied();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("raft")
        .enable_all()
        .build()?;
    let raft = on(&runtime, {
        let node = settings.node;
        async move { Raft::new(node, config, alone::Alone, log_store, state_machine).await }
    })
    .map_err(|fatal| StartError::Raft(fatal.to_string()))?;
    let shared = Arc::new(Shared::new(raft, wall, fault));
    let executor = runtime.spawn(Executor { shared: Arc::clone(&shared), reader }.run());
    let watched = Arc::clone(&shared);
    runtime.spawn(async move {
        if let Err(panic) = executor.await {
            watched.fault.report(&panic);
        }
    });
    runtime.spawn(upkeep::run(shared.raft.clone(), Arc::clone(&log)));
    let watched = Arc::clone(&shared);
    runtime.spawn(async move { watched.report_stop().await });
    Ok(Handle::running(settings.node, shared, applied, log, runtime))
}

/// Makes a pristine node a cluster of one; does nothing on any other node.
///
/// # Errors
/// When raft refuses.
pub async fn bootstrap(handle: &Handle, node: NodeId) -> Result<(), StartError> {
    let Some(raft) = handle.raft() else { return Ok(()) };
    let refused = |error: String| StartError::Raft(error);
    if raft.is_initialized().await.map_err(|fatal| refused(fatal.to_string()))? {
        return Ok(());
    }
    let members = BTreeMap::from([(node, Peer::default())]);
    raft.initialize(members).await.map_err(|error| refused(error.to_string()))
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
        max_in_snapshot_log_to_keep: LOG_KEEP_ENTRIES,
        replication_lag_threshold: 10 * LOG_KEEP_ENTRIES,
        install_snapshot_timeout: 30_000,
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| StartError::Settings(error.to_string()))
}

fn open_error(error: OpenError) -> StartError {
    match error {
        OpenError::BelowNote(below) => below.into(),
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
