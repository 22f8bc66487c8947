//! Writes: a command of the caller, with a receipt if requested; the response
//! waits until this node reflects it.

use storage::command::TenantAction;
use storage::model::receipt::ReceiptRequest;
use storage::model::trigger::Notification;
use storage::span::child;
use storage::{Accepted, Command, Reply, ReplyValue, TenantRule};
use tokio::time::Instant;
use tracing::Instrument;

use crate::error::{ApiError, ApiResult};
use crate::limits::{APPLY_WAIT, DEADLINE};
use crate::service::Session;
use crate::service::freshness::Freshness;

pub(crate) struct WriteResult<T> {
    pub(crate) freshness: Freshness,
    pub(crate) value: T,
    /// Notifications of the triggers that fired.
    pub(crate) notifications: Vec<Notification>,
}

impl<T> WriteResult<T> {
    /// The result with another value, made of the present one.
    pub(super) fn map<U>(self, make: impl FnOnce(T) -> ApiResult<U>) -> ApiResult<WriteResult<U>> {
        let Self { freshness, value, notifications } = self;
        Ok(WriteResult { freshness, value: make(value)?, notifications })
    }
}

impl Session {
    /// Submits a command of the caller and waits until this node reflects it, at most [`APPLY_WAIT`].
    /// After that the caller gets its response all the same, with the true index for its next read.
    /// With an idempotency key, a repeated request does nothing, and gets the reply of the first.
    pub(crate) async fn submit<C>(&self, command: C) -> ApiResult<WriteResult<C::Reply>>
    where
        C: TenantRule + Into<TenantAction>,
    {
        self.submit_action(command.into(), None).await?.map(value_of)
    }

    /// [`Self::submit`] of a command whose texts a guard of this version has examined.
    pub(super) async fn submit_examined<C>(
        &self,
        command: C,
        guard: Option<u64>,
    ) -> ApiResult<WriteResult<C::Reply>>
    where
        C: TenantRule + Into<TenantAction>,
    {
        self.submit_action(command.into(), guard).await?.map(value_of)
    }

    async fn submit_action(
        &self,
        action: TenantAction,
        guard: Option<u64>,
    ) -> ApiResult<WriteResult<Reply>> {
        self.service.memory.check_write(action.class())?;
        let receipt = self.request.next_receipt().map(|receipt| {
            // A plain digest in the state would allow guessing a weak secret of a trigger.
            let body_hash = self.service.hooks.blind(receipt.body_hash);
            ReceiptRequest { body_hash, ..receipt }
        });
        let command = Command {
            actor: Some(self.caller.key),
            source: self.request.address(),
            receipt,
            condition: self.request.precondition(),
            guard,
            ..Command::of_tenant(self.caller.tenant, action)
        };
        let raft = &self.service.raft;
        let deadline = Instant::now() + DEADLINE;
        let turn = self.write_turn().await?;
        self.request.set_written();
        let outcome = match turn {
            None => raft.submit(command, deadline).await?,
            // A client that leaves does not end the turn: its write is still in work.
            Some(turn) => {
                let (raft, request_id) = (raft.clone(), &self.request.id);
                let submit = async move {
                    let outcome = raft.submit(command, deadline).await;
                    drop(turn);
                    outcome
                };
                tokio::spawn(submit.in_current_span()).await.map_err(|panic| {
                    tracing::error!(request_id, %panic, "a write panicked");
                    ApiError::internal()
                })??
            }
        };
        let span = child("wait_applied");
        let applied = raft.wait_applied(outcome.index, Instant::now() + APPLY_WAIT);
        let _: Result<(), _> = applied.await;
        drop(span);
        let Accepted { reply, notifications } = outcome.accepted?;
        Ok(WriteResult {
            freshness: Freshness::of_write(outcome.index),
            value: reply,
            notifications,
        })
    }
}

/// The value of the reply to a command: the leader decides each one by the rule that has this reply.
fn value_of<T: ReplyValue>(reply: Reply) -> ApiResult<T> {
    T::from_reply(reply).ok_or_else(ApiError::internal)
}
