//! The composition root: opens what a node is made of, hands each part only what
//! it needs, and ends when it is told to or when its storage fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::{App, Metrics};
use axum_server::Handle as ServerHandle;
use raft::{
    Fault, Handle, LogCompaction, NodeId, Peer, Settings, StartError, SystemClock, Transport,
};
use storage::{Flusher, Options, Reader, View};
use tokio::time::Instant;
use uuid::Uuid;

use crate::background::BackgroundTasks;
use crate::config::Config;
use crate::embed::{self, Pool};
use crate::identity::Identity;
use crate::listeners::{listen, serve_http, serve_https, serve_peers};
use crate::webhooks::{Sender, Webhooks};
use crate::{bootstrap, gauges, identity, telemetry, tls};

/// How long requests may take to end once the node is told to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// How long founding a cluster may take: its other members must be up.
const FOUND_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a node that belongs to no cluster yet looks whether it does.
const FORMED_INTERVAL: Duration = Duration::from_millis(200);
/// How long handing over leadership may take.
const HAND_OVER: Duration = Duration::from_secs(2);

/// Why a node ends otherwise than when told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It could not start.
    #[error("{0}")]
    Start(String),
    /// Something that it cannot do without failed while it ran.
    #[error("{0}")]
    Fault(String),
}

fn start_error(error: impl std::fmt::Display) -> ServeError {
    ServeError::Start(error.to_string())
}

/// Runs a node until it is told to stop. `bootstrap` makes a pristine node a
/// cluster; with `while_stdin_open` the node also stops when its parent goes.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve(
    config: Config,
    bootstrap: bool,
    while_stdin_open: bool,
) -> Result<(), ServeError> {
    telemetry::start(&config.log).map_err(ServeError::Start)?;
    // Ports first: a second node on the same ones must not touch the data.
    let public = listen(config.public.listen).map_err(ServeError::Start)?;
    let operator = listen(config.operator.listen).map_err(ServeError::Start)?;
    let peer = listen(config.peer.listen).map_err(ServeError::Start)?;
    let public_tls = tls::server(&config.public).map_err(start_error)?;
    let peer_tls = tls::peer_server(&config.peer).map_err(start_error)?;
    let transport = Transport {
        tls: tls::peer_client(&config.peer).map_err(start_error)?,
        serve: serve_peers(peer, peer_tls),
    };
    let identity =
        identity::of_folder(&config.node.data, config.node.id).map_err(ServeError::Start)?;
    let embedder = embed::start(&config.embedder).map_err(start_error)?;
    let boot = Uuid::new_v4().as_u64_pair().0;
    let (reader, flusher, raft) = open(&config, &identity, transport, boot)?;
    check_model(&reader, &embedder)?;

    let webhooks = Arc::new(Webhooks::new(&config.webhooks).map_err(ServeError::Start)?);
    let sender = Sender::new(&raft, &reader, Arc::clone(&webhooks));
    let (counters, sent) = (embedder.counters(), sender.counters());
    let app = App::new(
        reader.clone(),
        raft.clone(),
        Arc::clone(&embedder) as Arc<dyn api::Embedder>,
        webhooks,
        api::Identity { node: config.node.id, version: env!("CARGO_PKG_VERSION") },
        Metrics::default(),
    );
    let gauges = {
        let (app, raft, reader) = (app.clone(), raft.clone(), reader.clone());
        move || gauges::read(&app, &raft, &reader, &counters, &sent)
    };
    let servers = ServerHandle::new();
    let fault = raft.fault().clone();
    serve_https(public, public_tls, api::public(&app), servers.clone(), fault.clone())
        .map_err(start_error)?;
    serve_http(operator, api::operator(&app, gauges), servers.clone(), fault)
        .map_err(start_error)?;
    let (public, operator, peer) =
        (config.public.listen, config.operator.listen, config.peer.listen);
    tracing::info!(%public, %operator, %peer, "listening");

    if bootstrap && raft.status().quarantine.is_none() {
        found(&config, &raft, &reader, &embedder).await?;
    }
    tokio::spawn(keep_checking_model(raft.clone(), reader.clone(), Arc::clone(&embedder)));
    tokio::spawn(sender.run());
    let duties = BackgroundTasks::start(&app, &raft, &reader, config.node.id, boot);

    let ended = tokio::select! {
        cause = raft.fault().closed() => Err(ServeError::Fault(cause)),
        () = told_to_stop(while_stdin_open) => Ok(()),
    };
    app.drain();
    if ended.is_ok() {
        duties.report_the_rest().await;
        raft.transfer_leadership(Instant::now() + HAND_OVER).await;
    }
    servers.graceful_shutdown(Some(if ended.is_ok() { DRAIN } else { Duration::ZERO }));
    while servers.connection_count() > 0 && ended.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    raft.shutdown().await;
    if ended.is_ok() {
        // Not needed for safety: the next start has less of the log to replay.
        flusher.flush().map_err(|error| damaged(&config.node.data, &error))?;
    }
    flusher.close();
    tracing::info!("stopped");
    ended
}

/// Makes the founding members a cluster, unless they are one.
async fn found(
    config: &Config,
    raft: &Handle,
    reader: &Reader,
    embedder: &Pool,
) -> Result<(), ServeError> {
    let deadline = Instant::now() + FOUND_TIMEOUT;
    let mut members: BTreeMap<NodeId, Peer> = config
        .cluster
        .members
        .iter()
        .map(|(node, address)| (*node, Peer { address: address.clone() }))
        .collect();
    if members.is_empty() {
        members.insert(config.node.id, Peer { address: config.peer.reached_at() });
    }
    raft::bootstrap(raft, &members, deadline).await.map_err(start_error)?;
    let (data, tenant) = (&config.node.data, &config.node.tenant);
    let model = api::Embedder::model(embedder);
    bootstrap::bootstrap(raft, reader, data, &members, tenant, model, deadline)
        .await
        .map_err(ServeError::Start)?;
    // Once more: a state that had to be replayed says only now what it holds.
    check_model(reader, embedder)
}

/// A node that joins learns from the state which model its cluster uses.
async fn keep_checking_model(raft: Handle, reader: Reader, embedder: Arc<Pool>) {
    while matches!(reader.cluster(), Ok(None)) {
        tokio::time::sleep(FORMED_INTERVAL).await;
    }
    if let Err(error) = check_model(&reader, &embedder) {
        raft.fault().report(&error);
    }
}

/// Opens data and raft. A log that lost its tail leaves the node up, without a
/// part in the cluster.
fn open(
    config: &Config,
    identity: &Identity,
    transport: Transport,
    boot: u64,
) -> Result<(Reader, Flusher, Handle), ServeError> {
    let data = &config.node.data;
    let options = Options { exact_max: config.search.exact_max, ..Options::default() };
    let (writer, reader, log) =
        storage::open(data, options).map_err(|error| damaged(data, &error))?;
    let flusher = writer.flusher();
    let fault = Fault::default();
    let settings = Settings {
        node: config.node.id,
        incarnation: identity.incarnation.into_bytes(),
        boot,
        heartbeat: Duration::from_millis(config.raft.heartbeat_ms),
        election_min: Duration::from_millis(config.raft.election_min_ms),
        election_max: Duration::from_millis(config.raft.election_max_ms),
        compaction: LogCompaction {
            log_bytes: config.raft.cut_bytes,
            log_age: Duration::from_secs(config.raft.cut_seconds),
            keep_entries: config.raft.cut_keep_entries,
            hold: Duration::from_secs(config.raft.cut_hold_seconds),
        },
        verify_interval: Duration::from_secs(config.raft.verify_seconds),
    };
    match raft::start(&settings, transport, data, writer, log, Arc::new(SystemClock), fault.clone())
    {
        Ok(raft) => Ok((reader, flusher, raft)),
        Err(reason @ (StartError::BelowHighWaterMark(_) | StartError::Quarantined(_))) => {
            tracing::error!(%reason, "quarantined");
            let raft = Handle::quarantined(config.node.id, reason.to_string(), fault);
            Ok((reader, flusher, raft))
        }
        Err(StartError::Storage(error)) => Err(damaged(data, &error)),
        Err(error) => Err(start_error(error)),
    }
}

fn explained(error: &storage::Error) -> String {
    format!("{error}. {}", error.advice())
}

fn damaged(data: &Path, error: &storage::Error) -> ServeError {
    start_error(format!("cannot open {}: {error}. {}", data.display(), error.advice()))
}

/// Vectors of different models cannot be compared: refuse to mix them.
fn check_model(reader: &Reader, embedder: &Pool) -> Result<(), ServeError> {
    let cluster = reader.cluster().map_err(|error| start_error(explained(&error)))?;
    let Some(cluster) = cluster else { return Ok(()) };
    let (stored, present) = (&cluster.model, api::Embedder::model(embedder));
    if stored.id == present.id {
        return Ok(());
    }
    Err(start_error(format!(
        "the memories were embedded by {} ({:02x?}), but {} ({:02x?}) is configured: set embedder.model back",
        stored.name, stored.id.0, present.name, present.id.0,
    )))
}

async fn told_to_stop(while_stdin_open: bool) {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else {
        tracing::error!("signals cannot be received: stopping at once");
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = parent_gone(), if while_stdin_open => {}
    }
}

/// Waits until standard input ends: the other end of the pipe is the parent.
async fn parent_gone() {
    let mut stdin = tokio::io::stdin();
    let mut nothing = tokio::io::sink();
    drop(tokio::io::copy(&mut stdin, &mut nothing).await);
}
