//! The composition root: opens the parts of a node, connects them, and stops them in order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::{App, Metrics, random_bytes};
use axum_server::Handle as ServerHandle;
use prometheus::Registry;
use raft::{Handle, Transport};
use tokio::time::Instant;

use crate::background::BackgroundTasks;
use crate::bootstrap::bootstrap_cluster;
use crate::config::Config;
use crate::embed::{self, Pool};
use crate::engine::{self, Engine};
use crate::error::{start_error, storage_error};
use crate::identity;
use crate::listeners::{Listeners, serve_http, serve_https, serve_peers};
use crate::metrics::NodeMetrics;
use crate::model_check::{check_model, model_check_task};
use crate::stop_signal::stop_requested;
use crate::telemetry;
use crate::tls::Tls;
use crate::webhooks::{Sender, Webhooks};

pub use crate::error::ServeError;

/// Time limit of open requests once the node stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the end of open requests is checked.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);
/// Time limit of the leadership transfer of a leader that stops.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a node until it is requested to stop. `bootstrap` creates the cluster if there is none.
/// With `while_stdin_open` the node also stops when its parent process ends.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve(
    config: Config,
    bootstrap: bool,
    while_stdin_open: bool,
) -> Result<(), ServeError> {
    telemetry::start(&config.log).map_err(ServeError::Start)?;
    // The first step, so that a second process with the same ports does not touch the data.
    let Listeners { public, operator, peer } =
        Listeners::bind(&config).map_err(ServeError::Start)?;
    let tls = Tls::load(&config).map_err(start_error)?;
    let identity =
        identity::of_folder(&config.node.data, config.node.id).map_err(ServeError::Start)?;
    let embedder = embed::start(&config.embedder).map_err(start_error)?;
    let boot = u64::from_be_bytes(random_bytes());
    let transport = Transport { tls: tls.peer_client, serve: serve_peers(peer, tls.peer_server) };
    let engine = engine::open(&config, &identity, transport, boot)?;
    check_model(&engine.reader, &embedder).map_err(ServeError::Start)?;

    let webhooks = Arc::new(Webhooks::new(&config.webhooks).map_err(ServeError::Start)?);
    let sender = Sender::new(&engine.raft, &engine.reader, Arc::clone(&webhooks));
    let registry = Registry::new();
    let app = app(&config, &engine, &embedder, webhooks, Metrics::new(&registry));
    register_metrics(&registry, &app, &engine, &embedder, &sender)?;
    let servers = ServerHandle::new();
    let fault = engine.raft.fault().clone();
    serve_https(public, tls.public_server, api::public(&app), servers.clone(), fault.clone())
        .map_err(start_error)?;
    serve_http(operator, api::operator(&app, registry), servers.clone(), fault)
        .map_err(start_error)?;
    log_addresses(&config);

    if bootstrap && engine.raft.status().quarantine.is_none() {
        let Engine { raft, reader, .. } = &engine;
        bootstrap_cluster(&config, raft, reader, &embedder).await.map_err(ServeError::Start)?;
        // Once more: a replayed state names its model only after the replay.
        check_model(reader, &embedder).map_err(ServeError::Start)?;
    }
    tokio::spawn(model_check_task(engine.raft.clone(), engine.reader.clone(), embedder));
    tokio::spawn(sender.webhook_task());
    let tasks = BackgroundTasks::start(&app, &engine.raft, &engine.reader, config.node.id, boot);

    let ended = tokio::select! {
        cause = engine.raft.fault().closed() => Err(ServeError::Fault(cause)),
        () = stop_requested(while_stdin_open) => Ok(()),
    };
    stop(&config, engine, &app, tasks, servers, ended).await
}

fn app(
    config: &Config,
    engine: &Engine,
    embedder: &Arc<Pool>,
    webhooks: Arc<Webhooks>,
    metrics: Metrics,
) -> App {
    App::new(
        engine.reader.clone(),
        engine.raft.clone(),
        Arc::clone(embedder) as Arc<dyn api::Embedder>,
        webhooks,
        api::Identity { node: config.node.id, version: env!("CARGO_PKG_VERSION") },
        metrics,
    )
}

fn register_metrics(
    registry: &Registry,
    app: &App,
    engine: &Engine,
    embedder: &Pool,
    sender: &Sender,
) -> Result<(), ServeError> {
    let (embedder, webhooks) = (embedder.counters(), sender.counters());
    let metrics = NodeMetrics::new(app, &engine.raft, &engine.reader, embedder, webhooks);
    registry.register(Box::new(metrics)).map_err(start_error)
}

fn log_addresses(config: &Config) {
    let (public, operator, peer) =
        (config.public.listen, config.operator.listen, config.peer.listen);
    tracing::info!(%public, %operator, %peer, "listening");
}

/// Stops the parts of a node. After a fault, it waits for none of them.
async fn stop(
    config: &Config,
    engine: Engine,
    app: &App,
    tasks: BackgroundTasks,
    servers: ServerHandle<SocketAddr>,
    ended: Result<(), ServeError>,
) -> Result<(), ServeError> {
    let Engine { flusher, raft, reader: _reader } = engine;
    app.drain();
    if ended.is_ok() {
        hand_over(&raft, tasks).await;
    }
    servers.graceful_shutdown(Some(if ended.is_ok() { DRAIN_TIMEOUT } else { Duration::ZERO }));
    while servers.connection_count() > 0 && ended.is_ok() {
        tokio::time::sleep(DRAIN_INTERVAL).await;
    }
    raft.shutdown().await;
    if ended.is_ok() {
        // Optional: the next start has less of the log to replay.
        flusher.flush().map_err(|error| storage_error(&config.node.data, &error))?;
    }
    flusher.close();
    tracing::info!("stopped");
    ended
}

/// Reports the last recalls, then transfers leadership if this node leads.
async fn hand_over(raft: &Handle, tasks: BackgroundTasks) {
    tasks.stop_reporting().await;
    raft.transfer_leadership(Instant::now() + TRANSFER_TIMEOUT).await;
}
