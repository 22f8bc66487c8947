//! The event stream: the journal as it grows, as server-sent events. Any node sends it; an id
//! names the same place on all of them, so that a reader goes on elsewhere without gap or
//! repeat.

use std::collections::BTreeSet;
use std::convert::Infallible;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde::Serialize;
use serde_json::Value;
use storage::model::access::Access;
use storage::model::id::TenantId;
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::tenant::KeyId;
use storage::{EventsAfter, Reader, View};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::SendTimeoutError};
use tokio::time::Instant;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{ReaderCaller, may_read};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::Query;
use crate::limits::{
    STALENESS_MAX, STREAM_CHECKPOINT_INTERVAL, STREAM_EVENTS, STREAM_LOOK_PAUSE, STREAM_SLOW_MAX,
    STREAM_WAIT,
};
use crate::openapi::Reading;
use crate::routes::activity::{may_know, shown};
use crate::wire::requests::Fresh;
use crate::wire::trigger_requests::{self as requests, Resume};

/// The data of an event.
#[derive(Serialize, ToSchema)]
struct Streamed {
    /// What `Last-Event-ID` takes: cluster, entry and place within it.
    id: String,
    kind: &'static str,
    #[schema(required)]
    node_id: Option<String>,
    #[schema(required)]
    label: Option<String>,
    namespace: String,
    /// Name of a key, or `system`.
    actor: String,
    /// What else is known, as in activity.
    metadata: Value,
    #[schema(format = DateTime)]
    created_at: String,
}

/// Follow what happens, as server-sent events. `Last-Event-ID` goes on after an event, on
/// whichever node; 409 if it is another cluster's, 410 if what follows it is gone.
#[utoipa::path(get, path = "/api/v1/events", tag = "activity",
    params(requests::StreamQuery, Resume, Fresh),
    responses((status = OK, body = Streamed, content_type = "text/event-stream"),
        (status = CONFLICT, body = crate::openapi::Error),
        (status = GONE, body = crate::openapi::Error), Reading))]
pub(crate) async fn event_stream(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    let kinds = kinds(query.text("kind", 256)?)?;
    let namespace = query.namespace()?.filter(|namespace| namespace != "*");
    if let Some(namespace) = &namespace {
        may_read(&caller, namespace)?;
    }
    let cluster = app.read(|reader| reader.cluster()).await?.ok_or_else(ApiError::internal)?;
    let cluster: String = cluster.id.iter().map(|byte| format!("{byte:02x}")).collect();
    let after = match last_event(&headers, &query)? {
        Some((of, _)) if of != cluster => {
            let message = "this id is another cluster's: begin without one";
            return Err(ApiError::new(StatusCode::CONFLICT, "other_cluster", message));
        }
        Some((_, after)) => after,
        None => Cursor::after(freshness.index),
    };
    let tenant = caller.tenant;
    let look = app.read(move |reader| reader.journal_after(tenant, after, 0, |_| Ok(true))).await?;
    if let Some(first) = look.gap {
        return Err(ApiError::gone(id(&cluster, first.previous())));
    }
    let permit = app.streams().try_acquire_owned().map_err(|_| {
        ApiError::unavailable("too_many_streams", "this node sends as many streams as it may")
    })?;
    let (sender, receiver) = channel(1);
    let (key, sent_at, sent) = (caller.key, Instant::now(), after);
    let follower =
        Follower { app, tenant, key, kinds, namespace, cluster, after, sent_at, sent, sender };
    tokio::spawn(async move {
        let _permit = permit;
        follower.run().await;
    });
    let frames = Sse::new(stream::unfold(receiver, next)).keep_alive(KeepAlive::default());
    Ok((freshness, [(header::CACHE_CONTROL, "no-store")], frames).into_response())
}

async fn next(
    mut receiver: Receiver<Frame>,
) -> Option<(Result<Frame, Infallible>, Receiver<Frame>)> {
    receiver.recv().await.map(|frame| (Ok(frame), receiver))
}

/// When a stream looks again.
#[derive(PartialEq, Eq)]
enum Next {
    AtOnce,
    Paused,
    Woken,
}

/// Follows a journal for one reader. What that does not take it does not read either: no queue
/// grows.
struct Follower {
    app: App,
    tenant: TenantId,
    key: KeyId,
    kinds: BTreeSet<&'static str>,
    namespace: Option<String>,
    cluster: String,
    after: Cursor,
    /// When something was last sent, and up to where.
    sent_at: Instant,
    sent: Cursor,
    sender: Sender<Frame>,
}

impl Follower {
    async fn run(mut self) {
        if self.send(self.marker("ready")).await.is_err() {
            return;
        }
        while let Some(next) = self.step().await {
            if next == Next::Woken {
                let index = self.app.reader().position().index;
                let woken = self.app.raft().wait_applied(index + 1, Instant::now() + STREAM_WAIT);
                // Not woken in time: it looks after the rest.
                let _: Result<(), _> = woken.await;
            }
            if next != Next::AtOnce {
                tokio::time::sleep(STREAM_LOOK_PAUSE).await;
            }
        }
    }

    /// Sends what follows, as far as one look goes, and says when to look again. `None` ends
    /// the stream: nobody reads it, its key is gone, or what it should read next, or this node
    /// is about to stop or knows nothing new, and another one may.
    async fn step(&mut self) -> Option<Next> {
        let staleness = self.app.raft().staleness()?;
        let ends = staleness > STALENESS_MAX || self.app.is_draining() || self.sender.is_closed();
        if ends || !self.app.reader().has_key(self.key) {
            return None;
        }
        // Who waits for what is rare goes on from here after a break, not from long ago.
        if self.sent != self.after && self.sent_at.elapsed() > STREAM_CHECKPOINT_INTERVAL {
            self.send(self.marker("checkpoint")).await.ok()?;
            (self.sent, self.sent_at) = (self.after, Instant::now());
        }
        if Cursor::after(self.app.reader().last_event(self.tenant)) <= self.after {
            return Some(Next::Woken);
        }
        let (frames, more) = self.look().await?;
        let is_silent = frames.is_empty();
        for frame in frames {
            self.send(frame).await.ok()?;
            (self.sent, self.sent_at) = (self.after, Instant::now());
        }
        Some(match (more, is_silent) {
            (false, _) => Next::Woken,
            // Who passes over much that it does not want leaves others time in between.
            (true, true) => Next::Paused,
            (true, false) => Next::AtOnce,
        })
    }

    /// A frame that says nothing but how far the stream has come.
    fn marker(&self, event: &str) -> Frame {
        Frame::default().event(event).id(id(&self.cluster, self.after)).data("{}")
    }

    /// What there is to send; `None` ends the stream.
    async fn look(&mut self) -> Option<(Vec<Frame>, bool)> {
        let (tenant, key, after) = (self.tenant, self.key, self.after);
        let (kinds, namespace) = (self.kinds.clone(), self.namespace.clone());
        let cluster = self.cluster.clone();
        let looked = self.app.read_for_stream(move |reader| {
            // Asked anew each time: a stream outlives rules and keys.
            let Some(access) = reader.access(tenant, key)? else { return Ok(None) };
            let wanted = |event: &Event| {
                let of_kind = kind(event.kind).is_some_and(|kind| kinds.contains(kind));
                let here = namespace.as_ref().is_none_or(|name| *name == event.namespace);
                Ok(of_kind && here && may_know(reader, tenant, &access, event)?)
            };
            let found = reader.journal_after(tenant, after, STREAM_EVENTS, wanted)?;
            let frames = frames(reader, tenant, &access, &cluster, &found)?;
            Ok(Some((found, frames)))
        });
        let (found, frames) = looked.await.ok()??;
        if found.gap.is_some() {
            return None;
        }
        self.after = found.reached;
        Some((frames, found.more))
    }

    /// Hands a frame over, unless nobody takes it for too long.
    async fn send(&self, frame: Frame) -> Result<(), ()> {
        match self.sender.send_timeout(frame, STREAM_SLOW_MAX).await {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(_) | SendTimeoutError::Closed(_)) => Err(()),
        }
    }
}

/// The events as frames, each with the memory that it is about as it is now.
fn frames(
    reader: &Reader,
    tenant: TenantId,
    access: &Access,
    cluster: &str,
    found: &EventsAfter,
) -> storage::Result<Vec<Frame>> {
    if found.events.is_empty() {
        return Ok(Vec::new());
    }
    let keys = reader.api_keys(tenant)?;
    let frame = |(cursor, event): &(Cursor, Event)| {
        let present = event.subject.map(|id| reader.get(tenant, id)).transpose()?.flatten();
        let present = present.map(|found| found.memory);
        let present = present.filter(|memory| access.allows(&memory.namespace));
        let shown = shown(&(*cursor, event.clone()), &keys, present.as_ref());
        let (id, kind) = (id(cluster, *cursor), kind(event.kind).unwrap_or_default());
        let data = Streamed {
            id: id.clone(),
            kind,
            node_id: shown.target_id,
            label: shown.target_label,
            namespace: event.namespace.clone(),
            actor: shown.actor,
            metadata: shown.metadata,
            created_at: shown.created_at,
        };
        let data = serde_json::to_string(&data).unwrap_or_default();
        Ok(Frame::default().id(id).event(kind).data(data))
    };
    found.events.iter().map(frame).collect()
}

fn id(cluster: &str, cursor: Cursor) -> String {
    format!("{cluster}.{}.{}", cursor.index, cursor.ordinal)
}

/// Cluster and place that a reader names.
fn last_event(
    headers: &HeaderMap,
    query: &crate::extract::Fields,
) -> ApiResult<Option<(String, Cursor)>> {
    let header = headers.get("last-event-id").map(|value| value.to_str().unwrap_or("?").to_owned());
    // Before its first event a reader's id is the empty one.
    let header = header.filter(|id| !id.is_empty());
    let (text, field) = match header {
        Some(text) => (text, "Last-Event-ID"),
        None => match query.text("last_event_id", 128)? {
            Some(text) => (text, "last_event_id"),
            None => return Ok(None),
        },
    };
    let mut parts = text.trim().split('.');
    let read = (|| {
        let cluster = parts.next().filter(|cluster| cluster.len() == 32)?;
        let (index, ordinal) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let last = parts.next().is_none();
        last.then(|| (cluster.to_owned(), Cursor { index, ordinal }))
    })();
    let wrong = || ApiError::invalid(field, "must be the id of an event of this stream");
    read.map(Some).ok_or_else(wrong)
}

/// All kinds of events, in the order of the docs.
const KINDS: [&str; 14] = [
    "created",
    "updated",
    "feedback",
    "warmed",
    "cooled",
    "archived",
    "restored",
    "related",
    "unrelated",
    "deleted",
    "fired",
    "delivered",
    "delivery_failed",
    "firings_skipped",
];

fn kinds(text: Option<String>) -> ApiResult<BTreeSet<&'static str>> {
    let Some(text) = text else { return Ok(KINDS.into()) };
    let known = |name: &str| KINDS.into_iter().find(|kind| *kind == name.trim());
    let kinds: Option<BTreeSet<_>> = text.split(',').map(known).collect();
    kinds.ok_or_else(|| {
        ApiError::invalid("kind", format!("must be some of {}, with commas", KINDS.join(", ")))
    })
}

/// What the stream calls an event; `None` for what it does not send.
fn kind(kind: EventKind) -> Option<&'static str> {
    Some(match kind {
        EventKind::Created => "created",
        EventKind::Updated => "updated",
        EventKind::Feedback => "feedback",
        EventKind::Warmed => "warmed",
        EventKind::Cooled => "cooled",
        EventKind::Archived => "archived",
        EventKind::Restored => "restored",
        EventKind::Related => "related",
        EventKind::Unrelated => "unrelated",
        EventKind::Deleted => "deleted",
        EventKind::Fired => "fired",
        EventKind::Delivered => "delivered",
        EventKind::DeliveryFailed => "delivery_failed",
        EventKind::FiringsSkipped => "firings_skipped",
        EventKind::Noted => return None,
    })
}
