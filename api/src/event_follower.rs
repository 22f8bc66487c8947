//! The task behind one event stream: it reads the journal and hands frames over one by one. A
//! client that does not read stops the task from reading, so no queue grows.

use axum::response::sse::Event as Frame;
use storage::model::id::{KeyId, TenantId};
use storage::model::journal::{Cursor, Event, EventName};
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::app::App;
use crate::cursors::EventId;
use crate::error::{ApiError, ApiResult};
use crate::limits::{
    REPLAY_PAUSE, STREAM_CHECKPOINT_INTERVAL, STREAM_READ_PAUSE, STREAM_SLOW_MAX, STREAM_WAIT,
};
use crate::responses::event::{StreamItem, stream_kinds};
use crate::service::journal::EventView;

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
