//! The three listeners of a node: public (HTTPS), peer (mutual TLS), operator (plain HTTP).
//! They bound time, size and number of connections; the routers come from `api` and `raft`.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use api::REQUESTS_MAX;
use axum::Router;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use futures::FutureExt;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use raft::{Fault, Serve, WINDOW_BYTES};
use rustix::net::sockopt::set_tcp_user_timeout;
use rustls::ServerConfig;

use crate::connections::{Bounded, connections_max};

/// Time limit of a TLS handshake, of a request's headers, and of a keep-alive response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent requests per HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Concurrent calls per node: one per client request, and those of Raft.
const PEER_STREAMS_MAX: u32 = REQUESTS_MAX as u32 + 64;
/// Header bytes per request.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// Connections from other nodes: three per node, and some short-lived ones.
const PEER_CONNECTIONS_MAX: u64 = 256;
/// Time after which a connection ends whose other end accepts no data.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of keep-alive checks on a silent connection.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

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
        Ok(listener)
    };
    bind().map_err(|error: io::Error| format!("cannot listen on {address}: {error}"))
}

pub(crate) fn serve_https(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    handle: Handle<SocketAddr>,
    fault: Fault,
) -> io::Result<()> {
    let acceptor = Bounded::new(acceptor(tls), connections_max(), false);
    let mut server = axum_server::from_tcp(listener)?.acceptor(acceptor).handle(handle);
    limit(server.http_builder());
    tokio::spawn(listener_task(server.serve(router.into_make_service()), fault));
    Ok(())
}

pub(crate) fn serve_http(
    listener: TcpListener,
    router: Router,
    handle: Handle<SocketAddr>,
    fault: Fault,
) -> io::Result<()> {
    let mut server = axum_server::from_tcp(listener)?.handle(handle);
    limit(server.http_builder());
    tokio::spawn(listener_task(server.serve(router.into_make_service()), fault));
    Ok(())
}

/// Serves other nodes, with the routes that Raft provides when it starts.
pub(crate) fn serve_peers(listener: TcpListener, tls: Arc<ServerConfig>) -> Serve {
    Box::new(move |router| {
        async move {
            let acceptor = Bounded::new(acceptor(tls), PEER_CONNECTIONS_MAX, true);
            let mut server = axum_server::from_tcp(listener)?.acceptor(acceptor);
            limit(server.http_builder());
            server
                .http_builder()
                .http2()
                .max_concurrent_streams(PEER_STREAMS_MAX)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES);
            server.serve(router.into_make_service()).await
        }
        .boxed()
    })
}

fn acceptor(tls: Arc<ServerConfig>) -> RustlsAcceptor<NoDelayAcceptor> {
    RustlsAcceptor::new(RustlsConfig::from_config(tls))
        .handshake_timeout(CLIENT_TIMEOUT)
        .acceptor(NoDelayAcceptor::new())
}

fn limit(builder: &mut Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(CLIENT_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(CLIENT_TIMEOUT);
}

/// Runs a listener. Its failure stops the node: a node without listeners is of no use.
async fn listener_task(serving: impl Future<Output = io::Result<()>>, fault: Fault) {
    if let Err(error) = serving.await {
        fault.report(&format!("a listener failed: {error}"));
    }
}
