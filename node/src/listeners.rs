//! The node's three listeners: agents (HTTPS), other nodes (mutual TLS), the
//! operator (plain HTTP). What is served there is not known here.

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

/// How long a client may take for a TLS handshake, or for its headers.
const HEADERS: Duration = Duration::from_secs(10);
/// Requests that one HTTP/2 connection has under way at once.
const STREAMS_MAX: u32 = 256;
/// Calls that one node has under way at another: one for each request of agents, and raft's.
const PEER_STREAMS_MAX: u32 = REQUESTS_MAX as u32 + 64;
/// Bytes of the headers of a request.
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// Connections of other nodes: three from each of them, and some that come and go.
const PEER_CONNECTIONS_MAX: u64 = 256;
/// How long the other end of a connection may take nothing of what is sent to it.
const STALL: Duration = Duration::from_secs(30);
/// How often a silent connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Takes an address, for one of the functions below. Its connections end if their other ends
/// take nothing: who reads no more holds nothing for long. (Linux tells of a full window's
/// reader in steps of a sixteenth of its buffer: less than some 13 kB/s may look like nothing.)
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let bind = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // Connections inherit it; the kernel counts unacknowledged bytes and closed windows.
        set_tcp_user_timeout(&listener, STALL.as_millis() as u32)?;
        Ok(listener)
    };
    bind().map_err(|error: io::Error| format!("cannot listen on {address}: {error}"))
}

/// Serves agents.
pub(crate) fn serve_https(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    handle: Handle<SocketAddr>,
    fault: Fault,
) -> io::Result<()> {
    let acceptor = Bounded::new(acceptor(tls), connections_max());
    let mut server = axum_server::from_tcp(listener)?.acceptor(acceptor).handle(handle);
    limit(server.http_builder());
    tokio::spawn(until_ended(server.serve(router.into_make_service()), fault));
    Ok(())
}

/// Serves the operator.
pub(crate) fn serve_http(
    listener: TcpListener,
    router: Router,
    handle: Handle<SocketAddr>,
    fault: Fault,
) -> io::Result<()> {
    let mut server = axum_server::from_tcp(listener)?.handle(handle);
    limit(server.http_builder());
    tokio::spawn(until_ended(server.serve(router.into_make_service()), fault));
    Ok(())
}

/// Serves other nodes, once raft says with which routes.
pub(crate) fn serve_peers(listener: TcpListener, tls: Arc<ServerConfig>) -> Serve {
    Box::new(move |router| {
        async move {
            let acceptor = Bounded::new(acceptor(tls), PEER_CONNECTIONS_MAX).told();
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
        .handshake_timeout(HEADERS)
        .acceptor(NoDelayAcceptor::new())
}

fn limit(builder: &mut Builder<TokioExecutor>) {
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(HEADERS);
}

/// A node whose listener is gone serves nobody: it must not stay up as if it did.
async fn until_ended(serving: impl Future<Output = io::Result<()>>, fault: Fault) {
    if let Err(error) = serving.await {
        fault.report(&format!("a listener ended: {error}"));
    }
}
