//! Opens the engine of a node: its data folder, and Raft over it. Checks that the configured
//! embedding model is the one that embedded the stored memories: vectors of different models
//! cannot be compared.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use raft::{Handle, LogCompaction, Serve, Settings, StartError};
use rustls::ClientConfig;
use storage::model::cluster::Model;
use storage::{Flusher, Options, Reader, View};
use tokio::runtime;

use crate::config::Config;
use crate::disk::Disk;
use crate::error::{cannot, storage_error, text};
use crate::identity::{self, Identity};
use crate::join::JoinClient;

/// The storage and Raft of a running node.
pub(crate) struct Engine {
    pub(crate) reader: Reader,
    pub(crate) flusher: Flusher,
    pub(crate) raft: Handle,
    pub(crate) disk: Disk,
    pub(crate) identity: Identity,
}

/// Opens the data folder and starts Raft. Adds the number of indexed memories to `indexed`. A node
/// whose log lost acknowledged entries, or whose state differs from the majority's, starts
/// quarantined. `joining` is of a node that found its id itself.
pub(crate) fn open(
    config: &Config,
    tls: &ClientConfig,
    serve: Serve,
    boot: u64,
    indexed: &Arc<AtomicU64>,
    joining: Option<&JoinClient>,
) -> Result<Engine, String> {
    let data = &config.node.data;
    let identity = identity::of_folder(data, config.node.id)?;
    let disk = Disk::new(data, config.disk.reserve_bytes);
    disk.prepare().map_err(cannot("measure the free disk space"))?;
    let indexed = Arc::clone(indexed);
    let options = Options { exact_max: config.search.exact_max, indexed, ..Options::default() };
    let (writer, reader, log) =
        storage::open(data, options, raft::purged_index).map_err(storage_error(data))?;
    if let Some(joining) = joining
        && reader.cluster().map_err(text)?.is_none()
    {
        runtime::Handle::current().block_on(joining.check_id(data, &identity))?;
    }
    let flusher = writer.flusher();
    let (timing, compaction) = (&config.raft, &config.log_compaction);
    let settings = Settings {
        node: config.node.id,
        incarnation: identity.incarnation.into_bytes(),
        boot,
        heartbeat: Duration::from_millis(timing.heartbeat_ms),
        election_min: Duration::from_millis(timing.election_min_ms),
        election_max: Duration::from_millis(timing.election_max_ms),
        compaction: LogCompaction {
            log_bytes: compaction.log_bytes,
            log_age: Duration::from_secs(compaction.interval_seconds),
            keep_entries: compaction.keep_entries,
            follower_timeout: Duration::from_secs(compaction.follower_timeout_seconds),
        },
        verify_interval: Duration::from_secs(timing.verify_seconds),
        disk_reserve: disk.reserve().map_err(cannot("measure the free disk space"))?,
    };
    let raft = match raft::start(&settings, tls, serve, data, writer, log) {
        Ok(raft) => raft,
        Err(reason @ (StartError::BelowHighWaterMark(..) | StartError::Quarantined(_))) => {
            tracing::error!(%reason, "quarantined");
            Handle::quarantined(config.node.id, reason.to_string())
        }
        Err(StartError::Storage(error)) => return Err(storage_error(data)(error)),
        Err(error) => return Err(text(error)),
    };
    Ok(Engine { reader, flusher, raft, disk, identity })
}

/// Why a node with the model `configured` cannot be part of a cluster with the model `stored`.
pub(crate) fn model_mismatch(stored: &Model, configured: &Model) -> String {
    format!(
        "the memories were embedded by {} ({}), but {} ({}) is configured: set embedder.model to the \
         folder of the former",
        stored.name,
        hex::encode(stored.id.0),
        configured.name,
        hex::encode(configured.id.0),
    )
}
