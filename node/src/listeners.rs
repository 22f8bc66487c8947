//! The three listeners of a node: public (HTTPS, or HTTP for trials), peer (mutual TLS), operator (plain HTTP).
//! They bound time, size and number of connections; the routers come from `api` and `raft`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use api::REQUESTS_MAX;
use axum::Router;
use axum::middleware::from_fn;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, Server};
use futures::FutureExt;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use raft::{CALLS_MAX, Fault, Serve};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};

use crate::activity::STALL_TIMEOUT;
use crate::connections::{Bounded, Handshakes, connections_max};
use crate::places::{Bounds, Counters, IDLE_TIMEOUT, Places};
use crate::proxy_protocol::Proxies;

/// Time limit of a TLS handshake, and of a keep-alive response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent requests per HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
// A forwarded request waits for no other one.
const _: () = assert!(CALLS_MAX > REQUESTS_MAX);
/// Header bytes per request, with its target. A `search` of a list takes 12 KiB, percent-encoded.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// Bytes of a body that HTTP/2 receives ahead of its handler.
const CLIENT_WINDOW_BYTES: u32 = 128 << 10;
/// Connections of other nodes: two per node, and some short-lived ones.
const PEERS_MAX: usize = 256;
/// Connections to the peer listener that are not authenticated yet.
const HANDSHAKES_MAX: usize = 64;
/// Those of one source network.
const NETWORK_HANDSHAKES_MAX: usize = 16;
/// Time limit of a TLS handshake of another node.
const PEER_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections of operators: probes, scrapes and commands.
const OPERATOR_BOUNDS: Bounds =
    Bounds { connections: 128, network_connections: 32, network_requests: 128 };
/// Interval of keep-alive checks on a silent connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// What the listeners of clients and operators share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Stops them.
    pub(crate) handle: Handle<SocketAddr>,
    /// Closes if one of them fails.
    pub(crate) fault: Fault,
    pub(crate) connections: Arc<Counters>,
}

/// Binds an address. Its connections end after [`STALL_TIMEOUT`] without acknowledged data, so
/// that clients that stop reading occupy no memory for long.
///
/// Linux reports progress of a full receive window in steps of a sixteenth of the buffer. A
/// client slower than about 13 kB/s may count as stalled.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // Connections inherit it. The kernel counts unacknowledged bytes and closed windows.
        set_tcp_user_timeout(&listener, STALL_TIMEOUT.as_millis() as u32)?;
        // A silent connection ends once its machine does not acknowledge a probe.
        set_socket_keepalive(&listener, true)?;
        set_tcp_keepidle(&listener, KEEP_ALIVE)?;
        set_tcp_keepintvl(&listener, KEEP_ALIVE)?;
        Ok(listener)
    };
    bind().map_err(|error: io::Error| format!("cannot listen on {address}: {error}"))
}

/// Serves clients, some of them through `proxies`; without `tls` over plain HTTP.
pub(crate) fn serve_public(
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    proxies: Proxies,
    router: Router,
    shared: &Shared,
) -> io::Result<()> {
    let connections = connections_max();
    let bounds = Bounds {
        connections,
        network_connections: connections.div_ceil(4),
        network_requests: REQUESTS_MAX,
    };
    let places = Places::of_keys(bounds, &shared.connections);
    let (service, fault) = (router.into_make_service(), shared.fault.clone());
    match tls {
        Some(tls) => {
            let acceptor = acceptor(tls, CLIENT_TIMEOUT);
            let server = server(listener, acceptor, proxies, places, shared)?;
            tokio::spawn(listener_task(server.serve(service), fault));
        }
        None => {
            let server = server(listener, NoDelayAcceptor::new(), proxies, places, shared)?;
            tokio::spawn(listener_task(server.serve(service), fault));
        }
    }
    Ok(())
}

pub(crate) fn serve_operator(
    listener: TcpListener,
    router: Router,
    shared: &Shared,
) -> io::Result<()> {
    let places = Places::new(OPERATOR_BOUNDS, IDLE_TIMEOUT);
    let server = server(listener, NoDelayAcceptor::new(), Proxies::default(), places, shared)?;
    tokio::spawn(listener_task(server.serve(router.into_make_service()), shared.fault.clone()));
    Ok(())
}

fn server<A>(
    listener: TcpListener,
    acceptor: A,
    proxies: Proxies,
    places: Places,
    shared: &Shared,
) -> io::Result<Server<SocketAddr, Bounded<A>>> {
    let acceptor = Bounded::of_clients(acceptor, proxies, places, &shared.connections);
    let mut server =
        axum_server::from_tcp(listener)?.acceptor(acceptor).handle(shared.handle.clone());
    limit(server.http_builder());
    Ok(server)
}

/// Serves other nodes, with the routes that Raft provides when it starts, and `others`. `members` are
/// the configured addresses of members.
pub(crate) fn serve_peers(
    listener: TcpListener,
    tls: RustlsConfig,
    members: Vec<String>,
    others: Router,
) -> Serve {
    Box::new(move |router| {
        let router = router.merge(others);
        async move {
            let acceptor = acceptor(tls, PEER_HANDSHAKE_TIMEOUT);
            let handshakes = Handshakes::new(HANDSHAKES_MAX, NETWORK_HANDSHAKES_MAX);
            tokio::spawn(resolve_members(members, Arc::clone(&handshakes)));
            let acceptor = Bounded::of_members(acceptor, handshakes, PEERS_MAX);
            let mut server = axum_server::from_tcp(listener)?.acceptor(acceptor);
            limit(server.http_builder());
            server.serve(router.layer(from_fn(api::one_host)).into_make_service()).await
        }
        .boxed()
    })
}

/// Reserves handshakes for members before they connect for the first time.
async fn resolve_members(members: Vec<String>, handshakes: Arc<Handshakes>) {
    for member in members {
        match tokio::net::lookup_host(&member).await {
            Ok(found) => found.for_each(|at| handshakes.members.insert(api::network(at.ip()))),
            Err(error) => tracing::info!(%error, member, "cannot resolve the address of a member"),
        }
    }
}

fn acceptor(tls: RustlsConfig, timeout: Duration) -> RustlsAcceptor<NoDelayAcceptor> {
    RustlsAcceptor::new(tls).handshake_timeout(timeout).acceptor(NoDelayAcceptor::new())
}

fn limit(builder: &mut Builder<TokioExecutor>) {
    builder
        .http1()
        .timer(TokioTimer::new())
        // It runs from the end of the last request. The first request has a shorter limit.
        .header_read_timeout(IDLE_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_stream_window_size(CLIENT_WINDOW_BYTES)
        // Bodies that wait for their handlers do not block other requests of the connection.
        .initial_connection_window_size(STREAMS_MAX * CLIENT_WINDOW_BYTES)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(CLIENT_TIMEOUT);
}

/// Runs a listener. Its failure stops the node: a node without listeners is of no use.
async fn listener_task(serving: impl Future<Output = io::Result<()>>, fault: Fault) {
    if let Err(error) = serving.await {
        fault.report(&format!("a listener failed: {error}"));
    }
}
