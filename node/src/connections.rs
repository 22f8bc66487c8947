//! Bounds the connections of a listener: their places (see `places`), their inactivity (see
//! `activity`) and their frames (see `frames`). Unbounded idle connections could use up the file
//! descriptors that the storage needs.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use api::{NetworkBudget, NetworkShare, network};
use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::activity::{Activity, Watched};
use crate::frames::{FrameCounter, Frames};
use crate::networks::Networks;
use crate::places::{Bounds, Counters, Places};
use crate::proxy_protocol::Proxies;
use crate::unreadable::Unreadable;

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
/// Most networks of members that a node remembers.
const MEMBERS_MAX: usize = 64;

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

/// An acceptor that bounds the connections of another one.
#[derive(Clone)]
pub(crate) struct Bounded<A> {
    inner: A,
    /// Bounds of handshakes, for a listener of members.
    handshakes: Option<Arc<Handshakes>>,
    proxies: Proxies,
    places: Arc<Places>,
    counters: Arc<Counters>,
}

/// Handshakes of the listener of members. Connections without a certificate do not take the
/// permits of members.
pub(crate) struct Handshakes {
    pub(crate) members: Networks,
    /// From the networks of members.
    of_members: NetworkBudget,
    /// From all other networks.
    of_others: NetworkBudget,
    failures: LoggedFailures,
}

impl Handshakes {
    /// At most `max` from networks without members, and `network_max` from any network.
    pub(crate) fn new(max: usize, network_max: usize) -> Arc<Self> {
        Arc::new(Self {
            members: Networks::new(MEMBERS_MAX),
            of_members: NetworkBudget::new(MEMBERS_MAX * network_max, network_max),
            of_others: NetworkBudget::new(max, network_max),
            failures: LoggedFailures::default(),
        })
    }

    /// A permit of a handshake; `None` if there are too many.
    fn take(&self, address: IpAddr) -> Option<NetworkShare> {
        let is_member = self.members.contains(network(address));
        let budget = if is_member { &self.of_members } else { &self.of_others };
        budget.take(address).ok()
    }
}

impl<A> Bounded<A> {
    /// Connections of clients, some of them through balancers.
    pub(crate) fn of_clients(
        inner: A,
        proxies: Proxies,
        places: Places,
        counters: &Arc<Counters>,
    ) -> Self {
        let (places, counters) = (Arc::new(places), Arc::clone(counters));
        Self { inner, handshakes: None, proxies, places, counters }
    }

    /// Connections of other nodes, which may be idle for as long as the process lives. Each
    /// reason of failed handshakes is logged once.
    pub(crate) fn of_members(inner: A, handshakes: Arc<Handshakes>, max: usize) -> Self {
        const UNLIMITED: Duration = Duration::from_secs(100 * 365 * 86_400);
        let bounds =
            Bounds { connections: max, network_connections: max, network_requests: usize::MAX };
        let places = Arc::new(Places::new(bounds, UNLIMITED));
        let (handshakes, proxies) = (Some(handshakes), Proxies::default());
        Self { inner, handshakes, proxies, places, counters: Arc::default() }
    }
}

impl<S, A> Accept<TcpStream, S> for Bounded<A>
where
    S: Send + 'static,
    A: Accept<TcpStream, S> + Clone + Send + Sync + 'static,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = BoundedStream<A::Stream>;
    type Service = Watched<A::Service>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, mut stream: TcpStream, service: S) -> Self::Future {
        let Self { inner, handshakes, proxies, places, counters } = self.clone();
        async move {
            // The stream is dropped and so closed at once; the client can retry elsewhere.
            let full = || io::Error::other("too many connections");
            let source = proxies.source(stream.peer_addr()?, &mut stream).await?;
            let (stream, service, place) = match &handshakes {
                // Members take a place after the handshake, which shows who they are.
                Some(handshakes) => {
                    let _permit = handshakes.take(source.ip()).ok_or_else(full)?;
                    let accepted = inner.accept(stream, service).await;
                    let (stream, service) =
                        accepted.inspect_err(|error| log_failure(&handshakes.failures, error))?;
                    handshakes.members.insert(network(source.ip()));
                    (stream, service, places.take(source).ok_or_else(full)?)
                }
                None => {
                    let place = places.take(source).ok_or_else(full)?;
                    let (stream, service) = tokio::select! {
                        accepted = inner.accept(stream, service) => accepted?,
                        () = place.evicted().cancelled() => return Err(full()),
                    };
                    (stream, service, place)
                }
            };
            let evicted = Box::pin(place.evicted().clone().cancelled_owned());
            let activity = Activity::new(place);
            let timer = Box::pin(tokio::time::sleep_until(activity.deadline()));
            let service = Watched::new(service, activity.clone());
            // Members are trusted.
            let frames = handshakes.is_none().then(|| (FrameCounter::new(), counters));
            let unreadable = Unreadable::default();
            let stream = BoundedStream {
                stream,
                activity,
                timer,
                evicted,
                frames,
                turn: (0, 0),
                unreadable,
            };
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
    /// Completes when the connection has to make room.
    evicted: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Counts the frames of a client.
    frames: Option<(FrameCounter, Arc<Counters>)>,
    /// Frames and bytes of this turn.
    turn: (u32, usize),
    unreadable: Unreadable,
}

impl<S> BoundedStream<S> {
    /// An error once the connection must end for its inactivity, or to make room.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if self.evicted.poll_unpin(context).is_ready() {
            return Poll::Ready(io::Error::other("a connection without a key made room"));
        }
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
        if let Poll::Ready(error) = self.poll_end(context) {
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
        let Self { stream, activity, unreadable, evicted, .. } = &mut *self;
        let write = |bytes: &[u8]| Pin::new(&mut *stream).poll_write(context, bytes);
        let written = unreadable.poll_write(|| activity.is_idle(), bytes, write);
        match (written, evicted.poll_unpin(context)) {
            (Poll::Pending, Poll::Ready(())) => {
                Poll::Ready(Err(ErrorKind::ConnectionAborted.into()))
            }
            (written, _) => written,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
