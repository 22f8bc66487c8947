//! The event stream: new events of the journal as server-sent events. Every node serves it. An id identifies
//! the same event on all nodes, so a client can resume on another node without gap or repetition.
//!
//! A task behind each stream reads the journal and hands frames over one by one. A client that does not read
//! stops the task from reading, so no queue grows.

use std::convert::Infallible;

use axum::http::header;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use storage::model::access::Caller;
use storage::model::id::{KeyId, TenantId};
use storage::model::journal::{Cursor, Event, EventName};
use storage::model::tenant::Limit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{
    REPLAY_PAUSE, STREAM_CHECKPOINT_INTERVAL, STREAM_READ_PAUSE, STREAM_SLOW_MAX, STREAM_WAIT,
};
use crate::prelude::*;
use crate::requests::headers::ResumeHeader;
use crate::requests::values::EventId;
use crate::responses::freshness_headers;
use crate::routes::activity::{StreamItem, StreamQuery, stream_kinds};
use crate::service::journal::EventView;

/// Follow new events, as server-sent events. `Last-Event-ID` resumes after an event, on any
/// node. 409 if the id belongs to another cluster, 410 if the events after it were trimmed.
#[utoipa::path(get, path = "/api/v1/events", tag = "activity",
    params(StreamQuery, ResumeHeader, ReadHeaders),
    responses((status = OK, body = StreamItem, content_type = "text/event-stream"),
        (status = CONFLICT, body = crate::responses::Error),
        (status = GONE, body = crate::responses::Error), ReadErrors))]
pub(crate) async fn stream_events(
    State(app): State<App>,
    ReaderRead(session, freshness): ReaderRead,
    resume: ResumeHeader,
    ValidQuery(query): ValidQuery<StreamQuery>,
) -> ApiResult<Response> {
    let kinds = parse_kinds(query.kind.as_ref().map(|kind| kind.0.as_str()))?;
    let namespace = session.read_namespace(named_namespace(query.namespace)?, None)?;
    let cluster = hex::encode(session.cluster_id().await?);
    let after = match resume.last.or(query.last_event_id).map(|id| id.0) {
        Some(last) if last.cluster != cluster => {
            let message = "this id belongs to another cluster: resume without an id";
            return Err(ApiError::new(ErrorKind::Conflict, "other_cluster", message));
        }
        Some(last) => last.cursor,
        None => Cursor::after(freshness.index),
    };
    if let Some(first) = session.first_after_gap(after).await? {
        let oldest = EventId { cluster, cursor: first.previous() };
        return Err(ApiError::gone(oldest.to_string()));
    }
    let limit = session.limit(Limit::Streams).map_or(usize::MAX, |limit| limit as usize);
    let share = app.budgets.streams.take_below(Some(session.key_of_tenant()), 1, limit);
    let share = share.map_err(|full| full.error("too_many_streams", "open event streams"))?;
    let (sender, receiver) = channel(1);
    let Caller { tenant, key, key_hash, .. } = session.caller;
    let options = FollowerOptions { tenant, key, key_hash, kinds, namespace, cluster };
    let follower = Follower::new(app, options, after, sender);
    tokio::spawn(async move {
        let _share = share;
        follower.run().await;
    });
    let frames = Sse::new(stream::unfold(receiver, next)).keep_alive(KeepAlive::default());
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok((freshness_headers(&freshness), headers, frames).into_response())
}

async fn next(
    mut receiver: Receiver<Frame>,
) -> Option<(Result<Frame, Infallible>, Receiver<Frame>)> {
    receiver.recv().await.map(|frame| (Ok(frame), receiver))
}

/// What a stream follows.
#[derive(Debug, Clone)]
pub(crate) struct FollowerOptions {
    pub(crate) tenant: TenantId,
    pub(crate) key: KeyId,
    /// SHA-256 of the text of the key.
    pub(crate) key_hash: [u8; 32],
    pub(crate) kinds: Vec<EventName>,
    pub(crate) namespace: Option<String>,
    /// Id of the cluster, in hexadecimal.
    pub(crate) cluster: String,
}

/// The task's state.
pub(crate) struct Follower {
    app: App,
    options: FollowerOptions,
    /// The last event that was read.
    after: Cursor,
    /// The last cursor that was sent, and when.
    sent: Cursor,
    sent_at: Instant,
    /// Whether the last read left events, so that the next one is of the past.
    is_behind: bool,
    sender: Sender<Frame>,
}

/// When the task reads again.
#[derive(PartialEq, Eq)]
enum Next {
    Immediately,
    AfterPause,
    AfterNewEntry,
}

/// Why the task ends.
struct Ended;

impl Follower {
    pub(crate) fn new(
        app: App,
        options: FollowerOptions,
        after: Cursor,
        sender: Sender<Frame>,
    ) -> Self {
        let (sent, sent_at) = (after, Instant::now());
        Self { app, options, after, sent, sent_at, is_behind: false, sender }
    }

    /// Runs until the client is gone, its key is deleted, the events after `after` are trimmed,
    /// or this node shuts down or loses contact: the client then resumes elsewhere.
    pub(crate) async fn run(mut self) {
        if self.send(self.marker("ready")).await.is_err() {
            return;
        }
        while let Ok(next) = self.step().await {
            if next == Next::AfterNewEntry {
                // Without a new entry in time, the next step checks whether to end.
                self.app.service.await_entry(STREAM_WAIT).await;
            }
            if next != Next::Immediately {
                tokio::time::sleep(STREAM_READ_PAUSE).await;
            }
        }
    }

    /// Sends the events of one read.
    async fn step(&mut self) -> Result<Next, Ended> {
        let service = &self.app.service;
        let is_over = !service.is_in_contact() || self.app.is_draining() || self.sender.is_closed();
        if is_over || !service.is_usable(self.options.key, &self.options.key_hash) {
            return Err(Ended);
        }
        // A client that waits for rare events resumes from here after an interruption.
        if self.sent != self.after && self.sent_at.elapsed() > STREAM_CHECKPOINT_INTERVAL {
            self.send(self.marker("checkpoint")).await?;
            (self.sent, self.sent_at) = (self.after, Instant::now());
        }
        if !service.may_have_events_after(self.options.tenant, self.after) {
            return Ok(Next::AfterNewEntry);
        }
        let (frames, has_more) = if self.is_behind {
            let Some(turn) = service.replays.acquire((self.options.tenant, self.options.key)).await
            else {
                return Ok(Next::AfterPause);
            };
            let read = self.read().await?;
            tokio::time::sleep(REPLAY_PAUSE).await;
            drop(turn);
            read
        } else {
            self.read().await?
        };
        self.is_behind = has_more;
        let is_empty = frames.is_empty();
        for frame in frames {
            self.send(frame).await?;
            (self.sent, self.sent_at) = (self.after, Instant::now());
        }
        Ok(match (has_more, is_empty) {
            (false, _) => Next::AfterNewEntry,
            // A stream that skips many events leaves time to others in between.
            (true, true) => Next::AfterPause,
            (true, false) => Next::Immediately,
        })
    }

    /// A frame that carries only a cursor.
    fn marker(&self, event: &str) -> Frame {
        let id = EventId { cluster: self.options.cluster.clone(), cursor: self.after };
        Frame::default().event(event).id(id.to_string()).data("{}")
    }

    /// Reads the next events, and whether there are more.
    async fn read(&mut self) -> Result<(Vec<Frame>, bool), Ended> {
        let (options, after) = (self.options.clone(), self.after);
        let service = &self.app.service;
        let cluster = options.cluster.clone();
        let is_wanted = move |event: &Event| {
            let is_here = options.namespace.as_ref().is_none_or(|name| *name == event.namespace);
            is_here && options.kinds.contains(&event.kind.name())
        };
        let (tenant, key) = (self.options.tenant, self.options.key);
        let found = service.follow(tenant, key, after, is_wanted).await;
        let found = found.ok().flatten().ok_or(Ended)?;
        self.after = found.reached;
        Ok((found.events.iter().map(|view| frame(&cluster, view)).collect(), found.has_more))
    }

    /// Hands a frame over, unless the client does not read it in time.
    async fn send(&self, frame: Frame) -> Result<(), Ended> {
        self.sender.send_timeout(frame, STREAM_SLOW_MAX).await.map_err(|_| Ended)
    }
}

fn frame(cluster: &str, view: &EventView) -> Frame {
    let id = EventId { cluster: cluster.to_owned(), cursor: view.cursor }.to_string();
    let item = StreamItem::new(id.clone(), view);
    let data = serde_json::to_string(&item).unwrap_or_default();
    Frame::default().id(id).event(view.event.kind.name().name()).data(data)
}

/// The kinds of a comma-separated list; absent is all.
pub(crate) fn parse_kinds(text: Option<&str>) -> ApiResult<Vec<EventName>> {
    let Some(text) = text else { return Ok(stream_kinds().collect()) };
    let known = |name: &str| stream_kinds().find(|kind| kind.name() == name.trim());
    let kinds: Option<Vec<_>> = text.split(',').map(known).collect();
    kinds.ok_or_else(|| {
        let names: Vec<_> = stream_kinds().map(EventName::name).collect();
        let message = format!("must be some of {}, comma-separated", names.join(", "));
        ApiError::invalid("kind", message)
    })
}
