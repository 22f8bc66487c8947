//! Bounds the connections of a listener: their number, and the silence after a handshake.
//! Unbounded idle connections could use up the file descriptors that the storage needs.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Most connections, if the limit of open files allows as many.
pub(crate) const CONNECTIONS_MAX: u64 = 4_096;
/// Open files reserved for everything but connections.
const FILES_RESERVED: u64 = 1_024;
/// Distinct reasons of failed handshakes that are logged.
const FAILURES_MAX: usize = 16;
/// Time limit of the first byte after a handshake.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(10);

/// Raises the process's limit of open files as far as useful. Returns the number of connections
/// that fit under it.
pub(crate) fn connections_max() -> u64 {
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
    connections
}

/// Reasons of failed handshakes that were logged.
type LoggedFailures = Arc<Mutex<HashSet<String>>>;

/// An acceptor that bounds the connections of another one.
#[derive(Clone)]
pub(crate) struct Bounded<A> {
    inner: A,
    free: Arc<Semaphore>,
    /// `None` logs no failures.
    failures: Option<LoggedFailures>,
}

impl<A> Bounded<A> {
    /// `logs_failures` logs each reason of failed handshakes once.
    pub(crate) fn new(inner: A, connections: u64, logs_failures: bool) -> Self {
        let failures = logs_failures.then(Arc::default);
        Self { inner, free: Arc::new(Semaphore::new(connections as usize)), failures }
    }
}

impl<I, S, A> Accept<I, S> for Bounded<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = BoundedStream<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            // The stream is dropped and so closed at once; the client can retry elsewhere.
            let error = io::Error::other("too many connections");
            return std::future::ready(Err(error)).boxed();
        };
        let accepted = self.inner.accept(stream, service);
        let failures = self.failures.clone();
        async move {
            let (stream, service) = accepted.await.inspect_err(|error| {
                if let Some(failures) = &failures {
                    log_failure(failures, error);
                }
            })?;
            let silence = Some(Box::pin(tokio::time::sleep(FIRST_BYTE_TIMEOUT)));
            Ok((BoundedStream { stream, silence, _permit: permit }, service))
        }
        .boxed()
    }
}

fn log_failure(failures: &LoggedFailures, error: &io::Error) {
    let mut failures = failures.lock();
    if failures.len() < FAILURES_MAX && failures.insert(error.to_string()) {
        tracing::error!(%error, "handshake with another node failed");
    }
}

/// A connection with its permit.
pub(crate) struct BoundedStream<S> {
    stream: S,
    /// Runs until the first byte arrives.
    silence: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > filled {
            self.silence = None;
        }
        let silence = self.silence.as_mut().filter(|_| read.is_pending());
        if silence.is_some_and(|silence| silence.poll_unpin(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
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
