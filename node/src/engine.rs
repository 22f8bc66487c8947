//! Opens the engine of a node: its data folder, and Raft over it.

use std::time::Duration;

use raft::{Handle, LogCompaction, PeerTls, Serve, Settings, StartError};
use storage::{Flusher, Options, Reader};

use crate::config::Config;
use crate::error::{storage_error, text};
use crate::identity::Identity;

/// The storage and Raft of a running node.
pub(crate) struct Engine {
    pub(crate) reader: Reader,
    pub(crate) flusher: Flusher,
    pub(crate) raft: Handle,
}

/// Opens the data folder and starts Raft. A node whose log lost acknowledged entries, or whose
/// state differs from the majority's, starts quarantined.
pub(crate) fn open(
    config: &Config,
    identity: &Identity,
    tls: &PeerTls,
    serve: Serve,
    boot: u64,
) -> Result<Engine, String> {
    let data = &config.node.data;
    let options = Options { exact_max: config.search.exact_max, ..Options::default() };
    let (writer, reader, log) = storage::open(data, options).map_err(storage_error(data))?;
    let flusher = writer.flusher();
    let settings = settings(config, identity, boot);
    let raft = match raft::start(&settings, tls, serve, data, writer, log) {
        Ok(raft) => raft,
        Err(reason @ (StartError::BelowHighWaterMark(_) | StartError::Quarantined(_))) => {
            tracing::error!(%reason, "quarantined");
            Handle::quarantined(config.node.id, reason.to_string())
        }
        Err(StartError::Storage(error)) => return Err(storage_error(data)(error)),
        Err(error) => return Err(text(error)),
    };
    Ok(Engine { reader, flusher, raft })
}

fn settings(config: &Config, identity: &Identity, boot: u64) -> Settings {
    let (timing, compaction) = (&config.raft, &config.log_compaction);
    Settings {
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
    }
}
