//! The composition root: opens what a node is made of, hands each part only what
//! it needs, and ends when it is told to or when its storage fails.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::{App, Identity, Metrics};
use axum::Router;
use axum_server::Handle as ServerHandle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use hyper_util::rt::TokioTimer;
use raft::{Fault, Handle, Outcome, Settings, StartError, SystemWall};
use storage::{Action, Command, Flusher, Reader, Reply, View};
use tokio::time::Instant;

use crate::config::Config;
use crate::connections::{Bounded, connections_max};
use crate::embed::{self, Pool};
use crate::{form, gauges, identity, telemetry, tls};

/// How long requests may take to end once the node is told to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// How long a client may take for a TLS handshake, or for its headers.
const HEADERS: Duration = Duration::from_secs(10);
/// Requests that one HTTP/2 connection has under way at once.
const STREAMS_MAX: u32 = 256;
/// Bytes of the headers of a request.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// How often the leader forgets what is past its time.
const HOUSEKEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Why a node ends otherwise than when told to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It could not start.
    #[error("{0}")]
    Start(String),
    /// Its storage failed while it ran.
    #[error("storage failed: {0}")]
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
    tls::install_provider();
    // Ports first: a second node on the same ones must not touch the data.
    let public = listen(config.public.listen)?;
    let operator = listen(config.operator.listen)?;
    let server_tls =
        tls::server(&config.public.certificate, &config.public.key).map_err(start_error)?;
    let identity =
        identity::of_folder(&config.node.data, config.node.id).map_err(ServeError::Start)?;
    let embedder = embed::start(&config.embedder).map_err(start_error)?;
    let (reader, flusher, raft) = open(&config)?;
    check_model(&reader, &embedder)?;

    let counters = embedder.counters();
    let app = App::new(
        reader.clone(),
        raft.clone(),
        Arc::clone(&embedder) as Arc<dyn api::Embedder>,
        Identity { node: config.node.id, version: env!("CARGO_PKG_VERSION") },
        Metrics::default(),
    );
    let gauges = {
        let (raft, reader) = (raft.clone(), reader.clone());
        move || gauges::read(&raft, &reader, &counters)
    };
    let servers = ServerHandle::new();
    let fault = raft.fault().clone();
    serve_https(public, server_tls, api::public(&app), servers.clone(), fault.clone())?;
    serve_http(operator, api::operator(&app, gauges), servers.clone(), fault)?;
    tracing::info!(public = %config.public.listen, operator = %config.operator.listen, "listening");

    if bootstrap && raft.status().quarantine.is_none() {
        raft::bootstrap(&raft, config.node.id).await.map_err(start_error)?;
        let (data, tenant) = (&config.node.data, &config.node.tenant);
        let model = api::Embedder::model(&*embedder);
        form::form(&raft, &reader, data, &identity, tenant, model)
            .await
            .map_err(ServeError::Start)?;
        // Once more: a state that had to be replayed says only now what it holds.
        check_model(&reader, &embedder)?;
    }
    tokio::spawn(housekeep(raft.clone()));

    let ended = tokio::select! {
        cause = raft.fault().closed() => Err(ServeError::Fault(cause)),
        () = told_to_stop(while_stdin_open) => Ok(()),
    };
    app.drain();
    servers.graceful_shutdown(Some(if ended.is_ok() { DRAIN } else { Duration::ZERO }));
    while servers.connection_count() > 0 && ended.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    raft.shutdown().await;
    if ended.is_ok() {
        // Not needed for safety: the next start has less of the log to replay.
        flusher.flush().map_err(|error| ServeError::Fault(error.to_string()))?;
    }
    flusher.close();
    tracing::info!("stopped");
    ended
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(|error: io::Error| start_error(format!("cannot listen on {address}: {error}")))
}

/// Opens data and raft. A log that lost its tail leaves the node up, without a
/// part in the cluster.
fn open(config: &Config) -> Result<(Reader, Flusher, Handle), ServeError> {
    let data = &config.node.data;
    let (writer, reader, log) = storage::open(data, None).map_err(|error| damaged(data, &error))?;
    let flusher = writer.flusher();
    let fault = Fault::default();
    let settings = Settings {
        node: config.node.id,
        heartbeat: Duration::from_millis(config.raft.heartbeat_ms),
        election_min: Duration::from_millis(config.raft.election_min_ms),
        election_max: Duration::from_millis(config.raft.election_max_ms),
    };
    match raft::start(&settings, data, writer, log, Arc::new(SystemWall), fault.clone()) {
        Ok(raft) => Ok((reader, flusher, raft)),
        Err(StartError::BelowNote(below)) => {
            tracing::error!(reason = %below, "quarantined");
            let raft = Handle::quarantined(config.node.id, below.to_string(), fault);
            Ok((reader, flusher, raft))
        }
        Err(StartError::Storage(error)) => Err(damaged(data, &error)),
        Err(error) => Err(start_error(error)),
    }
}

fn damaged(data: &Path, error: &storage::Error) -> ServeError {
    let advice = if error.is_corruption() {
        "The data is damaged and nothing was changed. Keep a copy of the folder, then restore it \
         from a backup, or remove this node from the cluster and add it again, empty, with a new id"
    } else {
        "Nothing was changed. Check the disk, the permissions, and that no other node uses the folder"
    };
    start_error(format!("cannot open {}: {error}. {advice}", data.display()))
}

/// Vectors of different models cannot be compared: refuse to mix them.
fn check_model(reader: &Reader, embedder: &Pool) -> Result<(), ServeError> {
    let Some(cluster) = reader.cluster().map_err(start_error)? else { return Ok(()) };
    let (stored, present) = (&cluster.model, api::Embedder::model(embedder));
    if stored.id == present.id {
        return Ok(());
    }
    Err(start_error(format!(
        "the memories were embedded by {} ({:02x?}), but {} ({:02x?}) is configured: set embedder.model back",
        stored.name, stored.id.0, present.name, present.id.0,
    )))
}

fn serve_https(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    router: Router,
    handle: ServerHandle<SocketAddr>,
    fault: Fault,
) -> Result<(), ServeError> {
    let tls = RustlsAcceptor::new(RustlsConfig::from_config(tls))
        .handshake_timeout(HEADERS)
        .acceptor(NoDelayAcceptor::new());
    let acceptor = Bounded::new(tls, connections_max());
    let mut server =
        axum_server::from_tcp(listener).map_err(start_error)?.acceptor(acceptor).handle(handle);
    limit(server.http_builder());
    tokio::spawn(until_ended(server.serve(router.into_make_service()), fault));
    Ok(())
}

/// A node whose listener is gone serves nobody: it must not stay up as if it did.
async fn until_ended(serving: impl Future<Output = io::Result<()>>, fault: Fault) {
    if let Err(error) = serving.await {
        fault.report(&format!("a listener ended: {error}"));
    }
}

fn serve_http(
    listener: TcpListener,
    router: Router,
    handle: ServerHandle<SocketAddr>,
    fault: Fault,
) -> Result<(), ServeError> {
    let mut server = axum_server::from_tcp(listener).map_err(start_error)?.handle(handle);
    limit(server.http_builder());
    tokio::spawn(until_ended(server.serve(router.into_make_service()), fault));
    Ok(())
}

fn limit(builder: &mut hyper_util::server::conn::auto::Builder<hyper_util::rt::TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(HEADERS);
}

/// Has the leader forget what is past its time. On other nodes, and while there
/// is no leader, the command is turned away, and the next round comes.
async fn housekeep(raft: Handle) {
    let mut pause = HOUSEKEEP_INTERVAL;
    loop {
        tokio::time::sleep(std::mem::replace(&mut pause, HOUSEKEEP_INTERVAL)).await;
        let deadline = Instant::now() + HOUSEKEEP_INTERVAL;
        match raft.submit(Command::duty(Action::Housekeep), deadline).await {
            Ok(Outcome { decision: Ok(Reply::Unfinished), .. }) => pause = Duration::ZERO,
            Ok(outcome) => tracing::debug!(index = outcome.index, "housekeeping done"),
            Err(error) => tracing::debug!(%error, "housekeeping not done here"),
        }
    }
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
