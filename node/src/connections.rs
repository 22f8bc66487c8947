//! Bounds the connections of a listener: their number (see `places`), and their inactivity (see
//! `activity`). Unbounded idle connections could use up the file descriptors that the storage
//! needs.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::activity::{Activity, IDLE_TIMEOUT, Watched};
use crate::places::{Bounds, Places};

/// Most connections, if the limit of open files allows as many.
pub(crate) const CONNECTIONS_MAX: u64 = 4_096;
/// Open files reserved for everything but connections.
const FILES_RESERVED: u64 = 2_048;
/// Distinct reasons of failed handshakes that are logged.
const FAILURES_MAX: usize = 16;

/// Raises the process's limit of open files as far as useful. Returns the number of connections
/// that fit under it.
pub(crate) fn connections_max() -> usize {
    let wanted = CONNECTIONS_MAX + FILES_RESERVED;
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(u64::MAX);
    let soft = limit.current.unwrap_or(u64::MAX);
    if soft < wanted {
        let raised = Rlimit { current: Some(wanted.min(hard)), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let connections = files.saturating_sub(FILES_RESERVED).max(files / 4).min(CONNECTIONS_MAX);
    if connections < CONNECTIONS_MAX {
        tracing::warn!(files, connections, "the limit of open files is low: raise it");
    }
    connections as usize
}

/// Reasons of failed handshakes that were logged.
type LoggedFailures = Arc<Mutex<HashSet<String>>>;

/// An acceptor that bounds the connections of another one.
#[derive(Clone)]
pub(crate) struct Bounded<A> {
    inner: A,
    /// Places during the handshake, where strangers have others than authenticated connections.
    handshakes: Option<Arc<Places>>,
    connections: Arc<Places>,
    idle_timeout: Duration,
    /// `None` logs no failures.
    failures: Option<LoggedFailures>,
}

impl<A> Bounded<A> {
    /// Connections of clients.
    pub(crate) fn of_clients(inner: A, bounds: Bounds) -> Self {
        let connections = Places::new(bounds);
        let idle_timeout = IDLE_TIMEOUT;
        Self { inner, handshakes: None, connections, idle_timeout, failures: None }
    }

    /// Connections of other nodes, which may be idle for as long as the process lives. Strangers
    /// have the places for `handshakes` only. Each reason of failed handshakes is logged once.
    pub(crate) fn of_peers(inner: A, handshakes: Bounds, bounds: Bounds) -> Self {
        const UNLIMITED: Duration = Duration::from_secs(100 * 365 * 86_400);
        Self {
            inner,
            handshakes: Some(Places::new(handshakes)),
            connections: Places::new(bounds),
            idle_timeout: UNLIMITED,
            failures: Some(Arc::default()),
        }
    }
}

impl<S, A> Accept<TcpStream, S> for Bounded<A>
where
    A: Accept<TcpStream, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = BoundedStream<A::Stream>;
    type Service = Watched<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let address = stream.peer_addr().map(|address| address.ip().to_canonical());
        let first = self.handshakes.as_ref().unwrap_or(&self.connections);
        let Some(first) = address.ok().and_then(|address| first.take(address)) else {
            return std::future::ready(Err(no_place())).boxed();
        };
        let accepted = self.inner.accept(stream, service);
        let (handshakes, connections) = (self.handshakes.clone(), Arc::clone(&self.connections));
        let (failures, idle_timeout) = (self.failures.clone(), self.idle_timeout);
        async move {
            let (stream, service) = accepted.await.inspect_err(|error| {
                if let Some(failures) = &failures {
                    log_failure(failures, error);
                }
            })?;
            let place = match handshakes {
                Some(handshakes) => {
                    handshakes.reserve(first.address);
                    connections.take(first.address).ok_or_else(no_place)?
                }
                None => first,
            };
            let activity = Activity::new(place, idle_timeout);
            let timer = Box::pin(tokio::time::sleep_until(activity.deadline()));
            let service = Watched::new(service, activity.clone());
            Ok((BoundedStream { stream, activity, timer }, service))
        }
        .boxed()
    }
}

/// The stream is dropped and so closed at once; the client can retry elsewhere.
fn no_place() -> io::Error {
    io::Error::other("too many connections")
}

fn log_failure(failures: &LoggedFailures, error: &io::Error) {
    let mut failures = failures.lock();
    if failures.len() < FAILURES_MAX && failures.insert(error.to_string()) {
        tracing::error!(%error, "handshake with another node failed");
    }
}

/// A connection that ends when it is inactive.
pub(crate) struct BoundedStream<S> {
    stream: S,
    activity: Activity,
    /// Runs until the deadline of the activity, as it was when the timer was set.
    timer: Pin<Box<Sleep>>,
}

impl<S> BoundedStream<S> {
    /// An error once the connection must end for its inactivity.
    fn poll_inactive(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.timer.poll_unpin(context));
            let deadline = self.activity.deadline();
            if deadline <= Instant::now() {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(deadline);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_inactive(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
