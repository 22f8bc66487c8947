//! Connections of the public listener: no more than a bounded number at once, and
//! none that says nothing. Without this, idle connections could use up the files
//! that the storage needs.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::accept::Accept;
use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Most connections, where the system allows as many files.
pub(crate) const CONNECTIONS_MAX: u64 = 4_096;
/// Files that everything but connections may need.
const FILES_RESERVED: u64 = 1_024;
/// Reasons of failed handshakes that are logged.
const FAILURES_MAX: usize = 16;
/// How long a connection may be silent after its handshake.
const FIRST_BYTE: Duration = Duration::from_secs(10);

/// Raises the process's limit of open files as far as is useful, and says how many
/// connections fit beside everything else.
pub(crate) fn connections_max() -> u64 {
    let wanted = CONNECTIONS_MAX + FILES_RESERVED;
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let now = limit.current.unwrap_or(u64::MAX);
    if now < wanted {
        let raised = Rlimit { current: Some(wanted.min(most)), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = files.saturating_sub(FILES_RESERVED).max(files / 4).min(CONNECTIONS_MAX);
    if most < CONNECTIONS_MAX {
        tracing::warn!(files, connections = most, "few open files are allowed: raise the limit");
    }
    most
}

/// An acceptor that bounds what another one accepts.
#[derive(Clone)]
pub(crate) struct Bounded<A> {
    inner: A,
    free: Arc<Semaphore>,
    /// Why handshakes failed, as far as that was logged; `None` logs nothing.
    failures: Option<Arc<Mutex<HashSet<String>>>>,
}

impl<A> Bounded<A> {
    pub(crate) fn new(inner: A, connections: u64) -> Self {
        Self { inner, free: Arc::new(Semaphore::new(connections as usize)), failures: None }
    }

    /// Logs why handshakes fail, each reason once.
    pub(crate) fn told(self) -> Self {
        Self { failures: Some(Arc::default()), ..self }
    }
}

impl<I, S, A> Accept<I, S> for Bounded<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = Held<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else {
            // Closed at once: the client sees it, and nothing is kept for it.
            let error = io::Error::other("too many connections");
            return std::future::ready(Err(error)).boxed();
        };
        let accepted = self.inner.accept(stream, service);
        let failures = self.failures.clone();
        async move {
            let (stream, service) = accepted.await.inspect_err(|error| note(failures, error))?;
            let silence = Some(Box::pin(tokio::time::sleep(FIRST_BYTE)));
            Ok((Held { stream, silence, _permit: permit }, service))
        }
        .boxed()
    }
}

fn note(failures: Option<Arc<Mutex<HashSet<String>>>>, error: &io::Error) {
    let Some(failures) = failures else { return };
    let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
    let reason = error.to_string();
    if failures.len() < FAILURES_MAX && failures.insert(reason) {
        tracing::error!(%error, "a connection of another node came to nothing");
    }
}

/// A connection with its place among the allowed ones.
pub(crate) struct Held<S> {
    stream: S,
    /// Runs until the first byte arrives.
    silence: Option<Pin<Box<Sleep>>>,
    _permit: OwnedSemaphorePermit,
}

impl<S: AsyncRead + Unpin> AsyncRead for Held<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.silence = None;
        }
        let silence = self.silence.as_mut().filter(|_| read.is_pending());
        if silence.is_some_and(|silence| silence.poll_unpin(context).is_ready()) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Held<S> {
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
