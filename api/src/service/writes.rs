//! Writes: an action becomes a command of the caller, with a receipt if requested; the response
//! waits until this node reflects it.

use storage::model::access::{Policy, Rule};
use storage::model::api_key::ApiKey;
use storage::model::delivery::DeadLetterCursor;
use storage::model::edge::Edge;
use storage::model::id::{KeyId, MemoryId, Timestamp, TriggerId};
use storage::model::journal::AgentActivity;
use storage::model::memory::{MemoryRecord, Signal};
use storage::model::receipt::ReceiptRequest;
use storage::model::retention::RetentionRule;
use storage::model::thermo::{SettingValue, Thermo};
use storage::model::trigger::{Firings, Notification, Trigger};
use storage::{Action, Command, EdgeRef, FeedbackReply, Rejection, Reply, Touched, codec};
use tokio::time::Instant;

use crate::current::{self, set_written};
use crate::limits::{APPLY_WAIT, DEADLINE};
use crate::service::Session;
use crate::service::error::{ApiError, ApiResult};
use crate::service::freshness::Freshness;

pub(crate) struct WriteResult<T> {
    pub(crate) freshness: Freshness,
    pub(crate) value: T,
    /// Notifications of the triggers that fired.
    pub(crate) notifications: Vec<Notification>,
}

/// The value of a reply to one kind of action.
pub(crate) trait FromReply: Sized {
    /// `None` if the reply is to another kind of action.
    fn from_reply(reply: Reply) -> Option<Self>;
}

/// Memories that a write touched. A repeated request finds some of them deleted.
pub(crate) struct TouchedMemories {
    /// When the request was decided, if this is a repetition: nothing changed.
    pub(crate) replay_of: Option<Timestamp>,
    pub(crate) memories: Vec<(MemoryId, Touched)>,
}

/// A memory that a request was to create.
pub(crate) struct CreatedMemory {
    pub(crate) id: MemoryId,
    pub(crate) touched: Touched,
    /// Whether this request created it.
    pub(crate) is_new: bool,
    /// Whether it was there before with the same words.
    pub(crate) is_duplicate: bool,
}

/// A trigger that was created; `None` if it was deleted since an earlier request created it.
pub(crate) type CreatedTrigger = (TriggerId, Option<(Trigger, Firings)>);

/// Implements [`FromReply`]: the replies that carry a value of a type.
macro_rules! values {
    ($($type:ty: $($reply:pat => $value:expr),+;)+) => {
        $(impl FromReply for $type {
            fn from_reply(reply: Reply) -> Option<Self> {
                match reply {
                    $($reply => Some($value),)+
                    _ => None,
                }
            }
        })+
    };
}

values! {
    (): Reply::Done => ();
    TouchedMemories:
        Reply::Memories(records) => Self {
            replay_of: None,
            memories: records.into_iter().map(existing).collect(),
        },
        Reply::Deleted(id) => Self { replay_of: None, memories: vec![(id, Touched::Deleted)] },
        Reply::Replayed { at, memories } => Self { replay_of: Some(at), memories };
    (KeyId, ApiKey): Reply::ApiKey(id, key) => (id, key);
    Rule: Reply::Rule(rule) => rule;
    (Edge, bool): Reply::Edge { edge, is_new } => (edge, is_new);
    Thermo: Reply::Settings(thermo) => *thermo;
    FeedbackReply: Reply::Feedback(effect) => effect;
    Vec<Result<(), Rejection>>: Reply::Bulk(outcomes) => outcomes;
    ReplayedDeliveries: Reply::ReplayedDeliveries { count, next, is_limited } =>
        Self { count, next, is_limited };
    (Trigger, Firings): Reply::Trigger(_, trigger, firings) => (*trigger, firings);
    CreatedTrigger:
        Reply::Trigger(id, trigger, firings) => (id, Some((*trigger, firings))),
        Reply::ReplayedTriggerGone(id) => (id, None);
}

fn existing(record: MemoryRecord) -> (MemoryId, Touched) {
    (record.id, Touched::Memory(Box::new(record)))
}

/// Dead letters that are pending again.
pub(super) struct ReplayedDeliveries {
    pub(super) count: usize,
    /// The last examined dead letter, if there are more.
    pub(super) next: Option<DeadLetterCursor>,
    /// Whether examined ones remain because too many deliveries are pending.
    pub(super) is_limited: bool,
}

/// Defines writes that are one action each, as methods of [`Session`].
macro_rules! writes {
    ($($(#[$doc:meta])* $name:ident($($part:ident: $type:ty),+) -> $value:ty: $action:expr;)+) => {
        impl Session {
            $($(#[$doc])*
            pub(crate) async fn $name(&self, $($part: $type),+) -> ApiResult<WriteResult<$value>> {
                self.submit($action).await
            })+
        }
    };
}

writes! {
    give_feedback(id: MemoryId, signal: Signal) -> FeedbackReply: Action::GiveFeedback(id, signal);
    /// Creates an edge. The result says whether it is new.
    create_edge(edge: EdgeRef) -> (Edge, bool): Action::CreateEdge(edge);
    /// Replaces a memory by another one. Returns the replaced one.
    supersede(old: MemoryId, by: MemoryId) -> TouchedMemories: Action::Supersede { old, by };
    /// Deletes a memory, and restores those that it was folded from. Returns those.
    unfold(id: MemoryId) -> TouchedMemories: Action::Unfold(id);
    delete_edge(edge: EdgeRef) -> (Edge, bool): Action::DeleteEdge(edge);
    record_activity(activity: AgentActivity) -> (): Action::RecordActivity(activity);
    delete_trigger(id: TriggerId) -> (): Action::DeleteTrigger(id);
    delete_key(id: KeyId) -> (KeyId, ApiKey): Action::DeleteKey(id);
    /// Creates or replaces the rule for an agent and a namespace. No policy deletes it.
    put_rule(agent: String, namespace: String, policy: Option<Policy>) -> Rule:
        Action::PutRule { agent, namespace, policy };
    delete_rule(number: u64) -> Rule: Action::DeleteRule(number);
    /// Replaces the rules of retention.
    update_retention(rules: Vec<RetentionRule>) -> (): Action::UpdateRetention(rules);
    update_settings(changes: Vec<(String, SettingValue)>) -> Thermo:
        Action::UpdateSettings(changes);
}

impl Session {
    /// Submits `action` and waits until this node reflects it, at most [`APPLY_WAIT`]. After
    /// that the caller gets its response all the same, with the true index for its next read.
    /// With an idempotency key, a repeated request does nothing, and gets the reply of the first.
    pub(super) async fn submit<T: FromReply>(&self, action: Action) -> ApiResult<WriteResult<T>> {
        self.submit_once(current::receipt(None), action).await
    }

    /// [`Self::submit`] for a part of what a request does, in several commands.
    pub(super) async fn submit_part<T: FromReply>(
        &self,
        action: Action,
    ) -> ApiResult<WriteResult<T>> {
        if !current::is_once() {
            return self.submit_once(None, action).await;
        }
        let (tenant, actor) = (Some(self.caller.tenant), Some(self.caller.key));
        let command = Command { tenant, actor, source: None, receipt: None, action };
        let receipt = current::receipt(Some(&codec::encode(&command)));
        self.submit_once(receipt, command.action).await
    }

    async fn submit_once<T: FromReply>(
        &self,
        receipt: Option<ReceiptRequest>,
        action: Action,
    ) -> ApiResult<WriteResult<T>> {
        self.service.memory.check_write(&action)?;
        let (tenant, actor) = (Some(self.caller.tenant), Some(self.caller.key));
        let source = current::source();
        let receipt = receipt.map(|receipt| {
            // A plain digest in the state would allow guessing a weak secret of a trigger.
            let body_hash = self.service.hooks.blind(receipt.body_hash);
            ReceiptRequest { body_hash, ..receipt }
        });
        let command = Command { tenant, actor, source, receipt, action };
        let raft = &self.service.raft;
        let deadline = Instant::now() + DEADLINE;
        let turn = self.write_turn().await?;
        set_written();
        let outcome = match turn {
            None => raft.submit(command, deadline).await?,
            // A client that leaves does not end the turn: its write is still in work.
            Some(turn) => {
                let raft = raft.clone();
                let submit = async move {
                    let outcome = raft.submit(command, deadline).await;
                    drop(turn);
                    outcome
                };
                tokio::spawn(submit).await.map_err(|panic| {
                    tracing::error!(%panic, "a write panicked");
                    ApiError::internal()
                })??
            }
        };
        let applied = raft.wait_applied(outcome.index, Instant::now() + APPLY_WAIT);
        let _: Result<(), _> = applied.await;
        let (reply, notifications) = match outcome.reply? {
            Reply::WithNotifications(reply, notifications) => (*reply, notifications),
            reply => (reply, Vec::new()),
        };
        let is_gone = matches!(reply, Reply::ReplayedTriggerGone(_));
        let value = T::from_reply(reply).ok_or_else(|| match is_gone {
            true => Rejection::NoSuch("trigger".into()).into(),
            false => ApiError::internal(),
        })?;
        Ok(WriteResult { freshness: Freshness::of_write(outcome.index), value, notifications })
    }
}
