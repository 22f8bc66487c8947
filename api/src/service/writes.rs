//! Writes: an action becomes a command of the caller, with a receipt if requested; the response
//! waits until this node reflects it.

use storage::model::caller::Caller;
use storage::model::id::MemoryId;
use storage::model::memory::MemoryRecord;
use storage::model::receipt::ReceiptRequest;
use storage::model::trigger::Notification;
use storage::{Action, Command, Reply};
use tokio::time::Instant;

use crate::limits::{APPLY_WAIT, DEADLINE};
use crate::service::Service;
use crate::service::error::{ApiError, ApiResult};
use crate::service::freshness::Freshness;

/// The result of a write.
pub(crate) struct Done<T> {
    pub(crate) freshness: Freshness,
    pub(crate) value: T,
    /// Notifications of the triggers that fired.
    pub(crate) notifications: Vec<Notification>,
}

impl<T> Done<T> {
    /// The same write with another value, if `convert` accepts its reply.
    pub(crate) fn map<U>(self, convert: impl FnOnce(T) -> Option<U>) -> ApiResult<Done<U>> {
        let Self { freshness, value, notifications } = self;
        let value = convert(value).ok_or_else(ApiError::internal)?;
        Ok(Done { freshness, value, notifications })
    }
}

/// Memories that a write touched. A repeated request finds some of them deleted.
pub(crate) struct TouchedMemories {
    /// Whether the request is a repetition: nothing changed.
    pub(crate) is_replay: bool,
    pub(crate) memories: Vec<Touched>,
}

/// A memory that a write touched.
pub(crate) enum Touched {
    Present(Box<MemoryRecord>),
    Deleted(MemoryId),
}

impl Service {
    /// Submits `action` and waits until this node reflects it, at most [`APPLY_WAIT`]. After
    /// that the caller gets its response all the same, with the true index for its next read.
    pub(crate) async fn submit(
        &self,
        caller: &Caller,
        receipt: Option<ReceiptRequest>,
        action: Action,
    ) -> ApiResult<Done<Reply>> {
        let (tenant, actor) = (Some(caller.tenant), Some(caller.key));
        let command = Command { tenant, actor, receipt, action };
        let outcome = self.raft().submit(command, Instant::now() + DEADLINE).await?;
        let _: Result<(), _> =
            self.raft().wait_applied(outcome.index, Instant::now() + APPLY_WAIT).await;
        let freshness = Freshness::of_write(outcome.index);
        Ok(match outcome.reply? {
            Reply::WithNotifications(reply, notifications) => {
                Done { freshness, value: *reply, notifications }
            }
            reply => Done { freshness, value: reply, notifications: Vec::new() },
        })
    }

    /// Submits an action on memories.
    pub(crate) async fn submit_memories(
        &self,
        caller: &Caller,
        receipt: Option<ReceiptRequest>,
        action: Action,
    ) -> ApiResult<Done<TouchedMemories>> {
        let present = |record| Touched::Present(Box::new(record));
        self.submit(caller, receipt, action).await?.map(|reply| {
            let (is_replay, memories) = match reply {
                Reply::Memories(records) => (false, records.into_iter().map(present).collect()),
                Reply::Deleted(id) => (false, vec![Touched::Deleted(id)]),
                Reply::Replayed(memories) => {
                    let touched = |(id, record): (MemoryId, Option<MemoryRecord>)| {
                        record.map_or(Touched::Deleted(id), present)
                    };
                    (true, memories.into_iter().map(touched).collect())
                }
                _ => return None,
            };
            Some(TouchedMemories { is_replay, memories })
        })
    }
}
