//! What a connection is doing, and when it ends for doing nothing: no complete request in time, a
//! response that the client does not read, or no request for a while. Pings of HTTP/2 are no
//! activity. It also ends for too many frames without a request.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use api::{NetworkShare, too_many_headers};
use axum::Error;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tower_service::Service;

use crate::places::Place;

/// Time limit from the handshake to the first complete request head.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a connection ends if its client reads nothing of one of its responses, or
/// acknowledges no data.
pub(crate) const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Most headers of a request.
const HEADERS_MAX: usize = 100;
/// Bytes of a response that are handed to HTTP at once.
const FRAME_BYTES: usize = 16 << 10;

/// Frames without a request that a connection may send at once (see `frames`).
const FRAMES_MAX: u32 = 1_000;
/// Time after which a connection may send one more.
const FRAME_INTERVAL: Duration = Duration::from_millis(50);
/// Frames that a request may cause: settings, priorities, a reset.
const FRAMES_PER_REQUEST: u32 = 16;
/// Frames that a frame of a response may cause: updates of windows, pings that measure the rate.
const FRAMES_PER_CHUNK: u32 = 8;
/// How long a connection that ends for its frames counts for its address.
const PENALTY: Duration = Duration::from_secs(10);

/// The activity of one connection; cheap to clone.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Connection>);

struct Connection {
    place: Arc<Place>,
    state: Mutex<ActivityState>,
}

struct ActivityState {
    /// When the connection ends without a first request, or without a next one.
    silent_until: Instant,
    /// Requests without a response.
    handling: usize,
    /// When HTTP last took bytes of each response that is being sent, by its number. `None` while
    /// the response has no bytes to take.
    sending: Vec<(u64, Option<Instant>)>,
    next: u64,
    /// When no frame without a request counts, if none follows: generic cell rate algorithm.
    frames_until: Instant,
}

impl Activity {
    pub(crate) fn new(place: Arc<Place>) -> Self {
        let now = Instant::now();
        let silent_until = now + FIRST_REQUEST_TIMEOUT;
        let sending = Vec::new();
        let state =
            ActivityState { silent_until, handling: 0, sending, next: 0, frames_until: now };
        Self(Arc::new(Connection { place, state: Mutex::new(state) }))
    }

    /// When the connection ends if nothing happens until then.
    pub(crate) fn deadline(&self) -> Instant {
        let state = self.0.state.lock();
        let stalled = state.sending.iter().filter_map(|(_, at)| Some((*at)? + STALL_TIMEOUT));
        match stalled.min() {
            Some(stalled) => stalled,
            // The response to a request takes as long as it takes.
            None if state.handling + state.sending.len() > 0 => Instant::now() + STALL_TIMEOUT,
            None => state.silent_until,
        }
    }

    /// Whether no request is handled, and no response is being sent.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.0.state.lock();
        state.handling + state.sending.len() == 0
    }

    /// Frames without a request arrive. Returns whether the connection may go on. If not, it keeps
    /// its place for a while, so that another one in its stead is no way around the limit.
    pub(crate) fn receive_frames(&self, count: u32) -> bool {
        let mut state = self.0.state.lock();
        let now = Instant::now();
        state.frames_until = state.frames_until.max(now) + FRAME_INTERVAL * count;
        if state.frames_until <= now + FRAME_INTERVAL * FRAMES_MAX {
            return true;
        }
        let activity = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(PENALTY).await;
            drop(activity);
        });
        false
    }

    /// A request arrives. `None` if its source network has too many.
    fn start(&self) -> Option<Handling> {
        let open = self.0.place.take_request()?;
        let mut state = self.0.state.lock();
        state.handling += 1;
        state.expect_frames(FRAMES_PER_REQUEST);
        drop(state);
        Some(Handling { activity: self.clone(), open: Some(open) })
    }

    fn silent_from_now(&self, state: &mut ActivityState) {
        state.silent_until = self.0.place.idle_until();
    }
}

impl ActivityState {
    /// The client may send these frames beside those of its own accord.
    fn expect_frames(&mut self, count: u32) {
        let earlier = self.frames_until.checked_sub(FRAME_INTERVAL * count);
        self.frames_until = earlier.unwrap_or(self.frames_until);
    }
}

/// A request without a response.
struct Handling {
    activity: Activity,
    open: Option<NetworkShare>,
}

impl Handling {
    fn respond(mut self, body: Body) -> Sending {
        let (activity, open) = (self.activity.clone(), self.open.take());
        let mut state = activity.0.state.lock();
        let number = state.next;
        state.next += 1;
        state.sending.push((number, Some(Instant::now())));
        drop(state);
        let outgoing = Arc::new(Outgoing { number, activity, _open: open });
        Sending { body, rest: Bytes::new(), outgoing }
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        let mut state = self.activity.0.state.lock();
        state.handling -= 1;
        self.activity.silent_from_now(&mut state);
    }
}

/// A response until HTTP has sent all of it.
struct Outgoing {
    number: u64,
    activity: Activity,
    _open: Option<NetworkShare>,
}

/// The body of a response while it is sent.
struct Sending {
    body: Body,
    /// The rest of the last frame.
    rest: Bytes,
    outgoing: Arc<Outgoing>,
}

/// Bytes that are handed to HTTP. They keep the response open: HTTP may hold them for as long as
/// the client does not read.
struct Chunk {
    bytes: Bytes,
    _outgoing: Arc<Outgoing>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Outgoing {
    fn record(&self, taken_at: Option<Instant>) {
        let mut state = self.activity.0.state.lock();
        if taken_at.is_some() {
            state.expect_frames(FRAMES_PER_CHUNK);
        }
        let mut sending = state.sending.iter_mut();
        if let Some((_, at)) = sending.find(|(number, _)| *number == self.number) {
            *at = taken_at;
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let mut state = self.activity.0.state.lock();
        state.sending.retain(|(number, _)| *number != self.number);
        self.activity.silent_from_now(&mut state);
    }
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.rest.is_empty() {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                self.outgoing.record(None);
                return Poll::Pending;
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                end => return Poll::Ready(end),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        self.outgoing.record(Some(Instant::now()));
        let length = self.rest.len().min(FRAME_BYTES);
        let bytes = self.rest.split_to(length);
        let chunk = Chunk { bytes, _outgoing: Arc::clone(&self.outgoing) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + rest);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// A service whose requests and responses are activity of a connection.
#[derive(Clone)]
pub(crate) struct Watched<S> {
    inner: S,
    activity: Activity,
}

impl<S> Watched<S> {
    pub(crate) fn new(inner: S, activity: Activity) -> Self {
        Self { inner, activity }
    }
}

impl<B, S> Service<Request<B>> for Watched<S>
where
    S: Service<Request<B>, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_ready(context).map_err(|never| match never {})
    }

    /// An error resets the stream of HTTP/2, and ends the connection of HTTP/1.
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // HTTP/1 has this limit by itself.
        if request.headers().len() > HEADERS_MAX {
            return std::future::ready(Ok(too_many_headers())).boxed();
        }
        let Some(handling) = self.activity.start() else {
            let error = io::Error::other("too many open requests from one network");
            return std::future::ready(Err(error)).boxed();
        };
        let place = Arc::clone(&self.activity.0.place);
        // Failed authentications are limited per source network, and administrative acts name it.
        request.extensions_mut().insert(ConnectInfo(place.source));
        request.extensions_mut().insert(place as Arc<dyn api::Connection>);
        let response = self.inner.call(request);
        async move {
            let Ok(response) = response.await;
            Ok(response.map(|body| Body::new(handling.respond(body))))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{Bounds, IDLE_TIMEOUT, Places};

    fn activity() -> Activity {
        let bounds = Bounds { connections: 10, network_connections: 10, network_requests: 10 };
        let places = Arc::new(Places::new(bounds, IDLE_TIMEOUT));
        Activity::new(places.take(([127, 0, 0, 1], 1).into()).unwrap())
    }

    #[tokio::test]
    async fn frames_beyond_those_of_requests_are_bounded() {
        let busy = activity();
        for _ in 0..FRAMES_MAX {
            let handling = busy.start().unwrap();
            assert!(busy.receive_frames(FRAMES_PER_REQUEST));
            drop(handling);
        }
        let silent = activity();
        assert!(silent.receive_frames(FRAMES_MAX));
        assert!(!silent.receive_frames(FRAMES_MAX / 2));
        assert_eq!(Arc::strong_count(&silent.0), 2, "it keeps its place");
    }
}
