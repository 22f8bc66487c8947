//! A follower reads new events of the journal for one client, and hands them over one by one. A client that
//! does not read stops it from reading, so no queue grows.

use storage::model::access::Caller;
use storage::model::id::{KeyId, TenantId};
use storage::model::journal::{Cursor, Event, EventName};
use storage::model::tenant::Limit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;

use crate::app::App;
use crate::error::ApiResult;
use crate::limits::{
    REPLAY_PAUSE, STREAM_CHECKPOINT_INTERVAL, STREAM_READ_PAUSE, STREAM_SLOW_MAX, STREAM_WAIT,
};
use crate::service::Session;
use crate::service::journal::EventView;

/// Follows the events after `after` that the caller may see. The follower ends with its receiver.
pub(crate) fn follow(
    app: &App,
    session: &Session,
    kinds: Vec<EventName>,
    namespace: Option<String>,
    after: Cursor,
) -> ApiResult<Receiver<Followed>> {
    let limit = session.limit(Limit::Streams).map_or(usize::MAX, |limit| limit as usize);
    let share = app.budgets.streams.take_below(Some(session.key_of_tenant()), 1, limit);
    let share = share.map_err(|full| full.error("too_many_streams", "open event streams"))?;
    let (sender, receiver) = channel(1);
    let Caller { tenant, key, key_hash, .. } = session.caller;
    let options = FollowerOptions { tenant, key, key_hash, kinds, namespace };
    let follower = Follower::new(app.clone(), options, after, sender);
    tokio::spawn(async move {
        let _share = share;
        follower.run().await;
    });
    Ok(receiver)
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
}

/// What a follower hands over.
pub(crate) enum Followed {
    /// A name, and the last event that was read: where a client that is interrupted resumes.
    Marker(&'static str, Cursor),
    Event(Box<EventView>),
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
    sender: Sender<Followed>,
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
        sender: Sender<Followed>,
    ) -> Self {
        let (sent, sent_at) = (after, Instant::now());
        Self { app, options, after, sent, sent_at, is_behind: false, sender }
    }

    /// Runs until the client is gone, its key is deleted, the events after `after` are trimmed,
    /// or this node shuts down or loses contact: the client then resumes elsewhere.
    pub(crate) async fn run(mut self) {
        if self.send(Followed::Marker("ready", self.after)).await.is_err() {
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
            self.send(Followed::Marker("checkpoint", self.after)).await?;
            (self.sent, self.sent_at) = (self.after, Instant::now());
        }
        if !service.may_have_events_after(self.options.tenant, self.after) {
            return Ok(Next::AfterNewEntry);
        }
        let (events, has_more) = if self.is_behind {
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
        let is_empty = events.is_empty();
        for event in events {
            self.send(Followed::Event(Box::new(event))).await?;
            (self.sent, self.sent_at) = (self.after, Instant::now());
        }
        Ok(match (has_more, is_empty) {
            (false, _) => Next::AfterNewEntry,
            // A stream that skips many events leaves time to others in between.
            (true, true) => Next::AfterPause,
            (true, false) => Next::Immediately,
        })
    }

    /// Reads the next events, and whether there are more.
    async fn read(&mut self) -> Result<(Vec<EventView>, bool), Ended> {
        let (options, after) = (self.options.clone(), self.after);
        let service = &self.app.service;
        let is_wanted = move |event: &Event| {
            let is_here = options.namespace.as_ref().is_none_or(|name| *name == event.namespace);
            is_here && options.kinds.contains(&event.kind.name())
        };
        let (tenant, key) = (self.options.tenant, self.options.key);
        let found = service.follow(tenant, key, after, is_wanted).await;
        let found = found.ok().flatten().ok_or(Ended)?;
        self.after = found.reached;
        Ok((found.events, found.has_more))
    }

    /// Hands something over, unless the client does not read it in time.
    async fn send(&self, followed: Followed) -> Result<(), Ended> {
        self.sender.send_timeout(followed, STREAM_SLOW_MAX).await.map_err(|_| Ended)
    }
}
