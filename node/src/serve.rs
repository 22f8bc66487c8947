//! The composition root: opens the parts of a node, connects them, and stops them in order.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use api::{App, Metrics, PublicOptions, RequestOptions, SAMPLE_INTERVAL, random_bytes};
use axum_server::Handle as ServerHandle;
use axum_server::tls_rustls::RustlsConfig;
use futures::FutureExt;
use jiff::Timestamp;
use prometheus::Registry;
use prometheus::core::Collector;
use raft::Timings;
use rustls::ClientConfig;
use storage::View;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::background::BackgroundTasks;
use crate::backup::{BackupMetrics, Backups, LogShipping, Schedule};
use crate::bootstrap::bootstrap_cluster;
use crate::check::check_peer_settings;
use crate::collector::{SpanCollector, SpanCounters};
use crate::config::{AUTO, Config};
use crate::credentials::{Credentials, Reloader, expiry_metric};
use crate::disk::disk_task;
use crate::embed::{Embedders, HttpReranker};
use crate::engine::{self, Engine};
use crate::error::{storage_error, text};
use crate::extractor::HttpExtractor;
use crate::identity;
use crate::join::{JoinClient, JoinServer};
use crate::labelled_metrics::LabelledMetrics;
use crate::listeners::{Shared, listen, serve_operator, serve_peers, serve_public};
use crate::logging::{name_cluster, name_node, start_logging};
use crate::memory::{self, memory_task};
use crate::metrics::{NodeMetrics, process_metrics};
use crate::model_change::ModelChanges;
use crate::process::{finished, hangups, stop_request};
use crate::program::{COMMIT, VERSION};
use crate::proxy_protocol::Proxies;
use crate::service_manager::{self, ProcessState};
use crate::starting::Starting;
use crate::tenant_metrics::TenantMetrics;
use crate::webhooks::{Sender, Webhooks};

/// Time limit of open requests once the node stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the end of open requests is checked.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);
/// Time limit of the leadership transfer of a leader that stops.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a node until it is requested to stop, or a part that it depends on fails. `bootstrap`
/// creates the cluster if there is none. With `while_stdin_open` the node also stops when its
/// parent process ends.
pub(crate) async fn serve(
    config: Config,
    bootstrap: bool,
    while_stdin_open: bool,
) -> Result<(), String> {
    let collector = SpanCollector::of(&config)?;
    start_logging(&config.log, collector.as_ref())?;
    let spans = collector.as_ref().map(|it| Arc::clone(&it.counters)).unwrap_or_default();
    let ended = run(config, bootstrap, while_stdin_open, spans).await;
    collector.inspect(SpanCollector::stop);
    ended
}

async fn run(
    mut config: Config,
    bootstrap: bool,
    while_stdin_open: bool,
    spans: Arc<SpanCounters>,
) -> Result<(), String> {
    check_peer_settings(&config)?;
    let (hangups, requested) = (hangups()?, stop_request(while_stdin_open)?.shared());
    let opening = end_before_serving(requested.clone());
    // The first step, so that a second process with the same ports does not touch the data.
    let addresses = [config.public.listen, config.operator.listen, config.peer.listen];
    let [public, operator, peer] = addresses.map(listen);
    let (public_listener, operator_listener, peer_listener) = (public?, operator?, peer?);
    let health_listener = config.operator.health_listen.map(listen).transpose()?;
    let credentials = Credentials::load(&config)?;
    let public_tls = RustlsConfig::from_config(credentials.public);
    let peer_tls = RustlsConfig::from_config(credentials.peer_server);
    let (members, join_server) = (config.cluster.members.values().cloned(), JoinServer::default());
    let serve_peers =
        serve_peers(peer_listener, peer_tls.clone(), members.collect(), join_server.routes());
    let (shared, starting) = (Shared::default(), Starting::default());
    serve_operators([Some(operator_listener), health_listener], &starting, &shared)?;
    service_manager::report(ProcessState::Opens);
    let joining = match config.node.id {
        AUTO => Some(find_id(&mut config, &credentials.peer_client).await?),
        _ => None,
    };
    let embedder = Arc::new(Embedders::start(&config.embedder)?);
    show_start(&config, &embedder);
    let boot = u64::from_be_bytes(random_bytes());
    // Reads all memories. The operator's listener responds meanwhile.
    let engine = tokio::task::block_in_place(|| {
        let (tls, indexed) = (&credentials.peer_client, &starting.indexed);
        engine::open(&config, tls, serve_peers, boot, indexed, joining.as_ref())
    })?;
    let Engine { raft, reader, .. } = &engine;
    embedder.follow(reader.clone());
    tokio::spawn(name_cluster(reader.clone()));

    let webhooks = Arc::new(Webhooks::new(&config.webhooks)?);
    let sender = Sender::new(raft, reader, Arc::clone(&webhooks));
    let registry = Registry::new();
    let app = new_app(&config, &engine, &embedder, Arc::clone(&webhooks), &registry);
    let reranker = HttpReranker::of(&config.reranker, &embedder.counters)?;
    let extractor = HttpExtractor::of(&config.extractor, &embedder.counters)?;
    app.set_helpers(reranker.map(|it| Arc::new(it) as _), extractor.map(|it| Arc::new(it) as _));
    start_tasks(&config, &engine, &webhooks, &app, &registry)?;
    app.set_operator_key(credentials.operator_key);
    join_server.open(&app, raft, reader);
    let metrics = NodeMetrics::new(&app, &engine, &embedder, &sender, &shared, spans);
    let expiries = expiry_metric(credentials.expiries);
    register(&registry, &engine, &app, [Box::new(metrics), Box::new(expiries.clone())])?;
    let fault = raft.fault();
    tokio::spawn(fault.guard(sample_task(app.clone(), registry.clone())));
    let operator_routes = api::operator(&app, registry, config.known_hosts());
    let client_tls = (!config.public.plain_http).then(|| public_tls.clone());
    let proxies = Proxies(config.public.proxies.clone().into());
    let public_routes = api::public(&app, public_options(&config))?;
    serve_public(public_listener, client_tls, proxies, public_routes, &shared).map_err(text)?;
    starting.open(operator_routes);
    opening.abort();
    let [public, operator, peer] = addresses;
    tracing::info!(%public, %operator, %peer, "listening");
    tokio::spawn(fault.guard(service_manager::watchdog_task()));
    let reloader = Reloader {
        config: config.clone(),
        public: public_tls,
        peers: peer_tls,
        raft: raft.clone(),
        app: app.clone(),
        expiries,
        files: credentials.files,
    };
    tokio::spawn(fault.guard(reloader.reload_task(hangups)));

    tokio::select! {
        joined = become_member(&config, bootstrap, joining, &engine, &embedder) => joined?,
        cause = fault.closed() => return Err(cause),
        () = requested.clone() => {
            raft.shutdown().await;
            engine.flusher.close();
            tracing::info!("stopped before it was a member");
            return Ok(());
        }
    }
    tokio::spawn(fault.guard(ModelChanges::new(&engine, embedder, &config).run()));
    tokio::spawn(fault.guard(sender.webhook_task()));
    let tasks = BackgroundTasks::start(&app, raft, reader, config.node.id, boot);

    let ended = tokio::select! {
        cause = raft.fault().closed() => Err(cause),
        cause = shared.fault.closed() => Err(cause),
        () = requested => Ok(()),
    };
    stop(&config, engine, &app, tasks, shared.handle, ended).await
}

/// Creates the cluster, or joins it, unless the node belongs to one. Reports that it serves.
async fn become_member(
    config: &Config,
    mut bootstrap: bool,
    joining: Option<JoinClient>,
    engine: &Engine,
    embedder: &Embedders,
) -> Result<(), String> {
    let Engine { raft, reader, .. } = engine;
    // Others may start once this node is up. Alone, it is up when its admin key is there.
    let waits_for_others = config.cluster.members.len() > 1;
    if waits_for_others {
        service_manager::report(ProcessState::Serves);
    }
    if let Some(joining) = joining {
        if bootstrap && reader.cluster().map_err(text)?.is_none() {
            bootstrap = !joining.finds_cluster(&engine.identity).await;
        }
        tokio::spawn(joining.join_task(
            config.clone(),
            engine.identity.clone(),
            reader.clone(),
            raft.fault().clone(),
        ));
    }
    if bootstrap && raft.status().quarantine.is_none() {
        bootstrap_cluster(config, raft, reader, embedder).await?;
    }
    if !waits_for_others {
        service_manager::report(ProcessState::Serves);
    }
    Ok(())
}

/// Serves operators, and what checks health, from here on.
fn serve_operators(
    [operator, health]: [Option<TcpListener>; 2],
    starting: &Starting,
    shared: &Shared,
) -> Result<(), String> {
    for (listener, routes) in [(operator, starting.routes()), (health, starting.health_routes())] {
        listener.map_or(Ok(()), |it| serve_operator(it, routes, shared)).map_err(text)?;
    }
    Ok(())
}

/// Ends the process by request as long as there is nothing to end in order. As the first process of a
/// container, it would ignore a signal without a handler.
fn end_before_serving(requested: impl Future + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move {
        requested.await;
        tracing::info!("stopped before it served");
        std::process::exit(0)
    })
}

/// Sets the id of a node that finds it itself: that of its data folder, or what other nodes say.
async fn find_id(config: &mut Config, tls: &ClientConfig) -> Result<JoinClient, String> {
    let mut joining = JoinClient::new(config, tls)?;
    config.node.id = match identity::owner(&config.node.data)? {
        Some(id) => id,
        None => joining.choose_id().await,
    };
    Ok(joining)
}

/// What a report of a fault needs first.
fn show_start(config: &Config, embedder: &Embedders) {
    name_node(config.node.id);
    let (node, memory_limit) = (config.node.id, memory::limit(config.memory.max_bytes));
    let model = embedder.model().name;
    tracing::info!(node, version = VERSION, commit = COMMIT, memory_limit, model, "starts");
}

/// What the public listener offers.
fn public_options(config: &Config) -> PublicOptions {
    if config.public.plain_http {
        tracing::warn!("clients use plain HTTP: their keys and memories are not encrypted");
    }
    PublicOptions {
        origins: config.public.origins.clone(),
        has_local_pages: config.public.plain_http,
        profile: config.mcp.profile,
        tools: config.mcp.tools.clone(),
    }
}

/// Registers these metrics, and those that need nothing else.
fn register(
    registry: &Registry,
    Engine { raft, reader, .. }: &Engine,
    app: &App,
    metrics: [Box<dyn Collector>; 2],
) -> Result<(), String> {
    let labelled: [Box<dyn Collector>; 2] =
        [Box::new(LabelledMetrics::new(raft, reader)), Box::new(TenantMetrics::new(app, reader))];
    let timings = raft.timings().map(Timings::collectors).into_iter().flatten();
    let mut all = metrics.into_iter().chain(labelled).chain([process_metrics()]).chain(timings);
    all.try_for_each(|collector| registry.register(collector)).map_err(text)
}

fn new_app(
    config: &Config,
    engine: &Engine,
    embedder: &Arc<Embedders>,
    webhooks: Arc<Webhooks>,
    registry: &Registry,
) -> App {
    let (reader, raft) = (engine.reader.clone(), engine.raft.clone());
    let embedder = Arc::clone(embedder) as Arc<dyn api::Embedder>;
    let slow = Duration::from_millis(config.log.slow_ms);
    let traced_one_of = (!config.tracing.url.is_empty()).then_some(config.tracing.one_of);
    let requests = RequestOptions { slow, one_of: config.log.one_of, traced_one_of };
    App::new(reader, raft, embedder, webhooks, config.node.id, Metrics::new(registry), requests)
}

/// Keeps the metrics of the last hour.
async fn sample_task(app: App, registry: Registry) {
    // Some metrics have no value yet.
    let mut interval = tokio::time::interval_at(Instant::now() + SAMPLE_INTERVAL, SAMPLE_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let (app, registry) = (app.clone(), registry.clone());
        let at = Timestamp::now().as_second();
        let sampled = tokio::task::spawn_blocking(move || app.record_metrics(&registry, at));
        if finished(sampled).await.is_none() {
            return;
        }
    }
}

/// Starts the tasks that watch memory and disk, and those of backups.
fn start_tasks(
    config: &Config,
    engine: &Engine,
    webhooks: &Webhooks,
    app: &App,
    registry: &Registry,
) -> Result<(), String> {
    let (raft, flusher) = (engine.raft.clone(), engine.flusher.clone());
    let fault = raft.fault().clone();
    tokio::spawn(fault.guard(memory_task(app.clone(), config.memory.max_bytes)));
    tokio::spawn(fault.guard(disk_task(engine.disk.clone(), raft.clone())));
    let cluster_key = webhooks.key_fingerprint();
    let backups = Backups::new(raft.clone(), flusher, config.node.id, cluster_key);
    app.set_backups(Arc::new(backups.clone()));
    let (node, config) = (config.node.id, config.backup.clone());
    let Some(url) = config.url.clone().filter(|url| !url.is_empty()) else { return Ok(()) };
    let metrics = BackupMetrics::default();
    let mut collectors = metrics.collectors(config.interval_hours).into_iter();
    collectors.try_for_each(|collector| registry.register(collector)).map_err(text)?;
    let reader = engine.reader.clone();
    if config.log_seconds > 0 {
        // If the node that ships dies, another one does after two steps. They are shorter than the
        // interval, so that with their writes two of them take two intervals at most.
        let interval = Duration::from_secs(config.log_seconds.into()) * 4 / 5;
        let (url, backups, metrics) = (url.clone(), backups.clone(), metrics.clone());
        let (raft, reader) = (raft.clone(), reader.clone());
        let shipping = LogShipping { url, interval, backups, metrics, raft, reader, node };
        tokio::spawn(fault.guard(shipping.run()));
    }
    let schedule = Schedule { url, config, backups, metrics, raft, reader, node };
    tokio::spawn(fault.guard(schedule.run()));
    Ok(())
}

/// Stops the parts of a node. After a fault, it waits for none of them.
async fn stop(
    config: &Config,
    engine: Engine,
    app: &App,
    tasks: BackgroundTasks,
    servers: ServerHandle<SocketAddr>,
    ended: Result<(), String>,
) -> Result<(), String> {
    let Engine { flusher, raft, reader: _reader, .. } = engine;
    service_manager::report(ProcessState::Stops);
    app.drain();
    if ended.is_ok() {
        tokio::time::sleep(Duration::from_secs(config.public.drain_seconds)).await;
        // First: the last report needs a leader, which this node may fail to be.
        raft.transfer_leadership(Instant::now() + TRANSFER_TIMEOUT).await;
        tasks.stop_reporting().await;
    }
    servers.graceful_shutdown(Some(if ended.is_ok() { DRAIN_TIMEOUT } else { Duration::ZERO }));
    while servers.connection_count() > 0 && ended.is_ok() {
        tokio::time::sleep(DRAIN_INTERVAL).await;
    }
    raft.shutdown().await;
    if ended.is_ok() {
        // Optional: the next start has less of the log to replay.
        flusher.flush().map_err(storage_error(&config.node.data))?;
    }
    flusher.close();
    tracing::info!("stopped");
    ended
}
