//! Bounds the connections of a listener: their number in all and of each source network, their
//! inactivity (see `activity`) and their frames (see `frames`). Unbounded idle connections could
//! use up the file descriptors that the storage needs.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use api::{Budget, network};
use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::activity::{Activity, IDLE_TIMEOUT, Watched};
use crate::frames::{FrameCounter, Frames};
use crate::networks::{MEMBERS_MAX, MemberNetworks};

/// Most connections, if the limit of open files allows as many.
pub(crate) const CONNECTIONS_MAX: u64 = 4_096;
/// Open files reserved for everything but connections.
const FILES_RESERVED: u64 = 2_048;
/// Frames after which a connection lets others take their turn: HTTP/2 handles all that have
/// arrived, however many.
const FRAMES_PER_TURN: u32 = 64;
/// Bytes after which it does so: headers take far more time per byte than bodies.
const BYTES_PER_TURN: usize = 32 << 10;
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
type LoggedFailures = Mutex<HashSet<String>>;

/// The bounds of a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Most connections.
    pub(crate) connections: usize,
    /// Most of them from one source network.
    pub(crate) network_connections: usize,
    /// Most open requests from one source network, over all of its connections.
    pub(crate) network_requests: usize,
}

/// An acceptor that bounds the connections of another one.
#[derive(Clone)]
pub(crate) struct Bounded<A> {
    inner: A,
    /// Bounds of handshakes, for a listener of members.
    handshakes: Option<Arc<Handshakes>>,
    connections: Arc<Budget<IpAddr>>,
    requests: Arc<Budget<IpAddr>>,
    idle_timeout: Duration,
    counters: Arc<Counters>,
}

/// Handshakes of the listener of members. Connections without a certificate do not take the
/// permits of members.
pub(crate) struct Handshakes {
    pub(crate) members: MemberNetworks,
    /// From the networks of members.
    of_members: Arc<Budget<IpAddr>>,
    /// From all other networks.
    of_others: Arc<Budget<IpAddr>>,
    failures: LoggedFailures,
}

impl Handshakes {
    /// At most `max` from networks without members, and `network_max` from any network.
    pub(crate) fn new(max: usize, network_max: usize) -> Arc<Self> {
        Arc::new(Self {
            members: MemberNetworks::default(),
            of_members: Budget::new(MEMBERS_MAX * network_max, network_max),
            of_others: Budget::new(max, network_max),
            failures: LoggedFailures::default(),
        })
    }

    fn budget(&self, network: IpAddr) -> &Arc<Budget<IpAddr>> {
        if self.members.contains(network) { &self.of_members } else { &self.of_others }
    }
}

/// Counts of all listeners.
#[derive(Default)]
pub(crate) struct Counters {
    /// Connections that ended for too many frames without a request.
    pub(crate) ended: AtomicU64,
}

impl<A> Bounded<A> {
    /// Connections of clients.
    pub(crate) fn of_clients(inner: A, bounds: Bounds, counters: &Arc<Counters>) -> Self {
        Self {
            inner,
            handshakes: None,
            connections: Budget::new(bounds.connections, bounds.network_connections),
            requests: Budget::new(usize::MAX, bounds.network_requests),
            idle_timeout: IDLE_TIMEOUT,
            counters: Arc::clone(counters),
        }
    }

    /// Connections of other nodes, which may be idle for as long as the process lives. Each
    /// reason of failed handshakes is logged once.
    pub(crate) fn of_members(inner: A, handshakes: Arc<Handshakes>, max: usize) -> Self {
        const UNLIMITED: Duration = Duration::from_secs(100 * 365 * 86_400);
        Self {
            inner,
            handshakes: Some(handshakes),
            connections: Budget::new(max, max),
            requests: Budget::new(usize::MAX, usize::MAX),
            idle_timeout: UNLIMITED,
            counters: Arc::default(),
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
        let network = stream.peer_addr().map(|address| network(address.ip()));
        let handshakes = self.handshakes.clone();
        let first = network.ok().and_then(|network| {
            let handshakes = handshakes.as_ref().map(|handshakes| handshakes.budget(network));
            handshakes.unwrap_or(&self.connections).take(network, 1).ok()
        });
        // The stream is dropped and so closed at once; the client can retry elsewhere.
        let full = || io::Error::other("too many connections");
        let Some(first) = first else { return std::future::ready(Err(full())).boxed() };
        let accepted = self.inner.accept(stream, service);
        let (connections, requests) = (Arc::clone(&self.connections), Arc::clone(&self.requests));
        let idle_timeout = self.idle_timeout;
        // Members are trusted.
        let frames = handshakes.is_none().then(|| (FrameCounter::new(), self.counters.clone()));
        async move {
            let (stream, service) = accepted.await.inspect_err(|error| {
                if let Some(handshakes) = &handshakes {
                    log_failure(&handshakes.failures, error);
                }
            })?;
            let permit = match handshakes {
                Some(handshakes) => {
                    handshakes.members.insert(first.holder());
                    connections.take(first.holder(), 1).map_err(|_| full())?
                }
                None => first,
            };
            let activity = Activity::new(permit, requests, idle_timeout);
            let timer = Box::pin(tokio::time::sleep_until(activity.deadline()));
            let service = Watched::new(service, activity.clone());
            let stream = BoundedStream { stream, activity, timer, frames, turn: (0, 0) };
            Ok((stream, service))
        }
        .boxed()
    }
}

fn log_failure(failures: &LoggedFailures, error: &io::Error) {
    let mut failures = failures.lock();
    if failures.len() >= FAILURES_MAX || !failures.insert(error.to_string()) {
        return;
    }
    match error.kind() {
        // The other side closed: a node that stops, a probe of a port.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            tracing::info!(%error, "a connection to the peer listener ended in its handshake");
        }
        _ => tracing::error!(%error, "handshake with another node failed"),
    }
}

/// A connection that ends when it is inactive.
pub(crate) struct BoundedStream<S> {
    stream: S,
    activity: Activity,
    /// Runs until the deadline of the activity, as it was when the timer was set.
    timer: Pin<Box<Sleep>>,
    /// Counts the frames of a client.
    frames: Option<(FrameCounter, Arc<Counters>)>,
    /// Frames and bytes of this turn.
    turn: (u32, usize),
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
        if self.turn.0 > FRAMES_PER_TURN || self.turn.1 > BYTES_PER_TURN {
            self.turn = (0, 0);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let start = buffer.filled().len();
        let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.turn = (0, 0);
            return Poll::Pending;
        };
        read?;
        let Self { frames, activity, turn, .. } = &mut *self;
        if let Some((counter, counters)) = frames {
            let bytes = &buffer.filled()[start..];
            let Frames { all, without_request } = counter.count(bytes);
            *turn = (turn.0 + all, turn.1 + bytes.len());
            if without_request > 0 && !activity.receive_frames(without_request) {
                counters.ended.fetch_add(1, Ordering::Relaxed);
                return Poll::Ready(Err(io::Error::other("too many frames without a request")));
            }
        }
        Poll::Ready(Ok(()))
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
