//! Triggers: creation, changes, lists, and the dry run. Secrets of webhooks are sealed here,
//! before a command carries them.

use std::sync::Arc;

use storage::model::caller::Caller;
use storage::model::id::{MemoryId, TriggerId};
use storage::model::receipt::ReceiptRequest;
use storage::model::trigger::{Firings, Trigger, TriggerAction, TriggerActionKind, TriggerEvent};
use storage::{
    Action, CompiledTrigger, Rejection, Reply, TriggerEvaluation, TriggerPatch, View, evaluate,
};

use crate::service::Service;
use crate::service::check_access;
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::Done;

/// Settings of an action, validated but for the rules of webhooks. No `Debug`: it has a secret.
#[derive(Default)]
pub(crate) struct ActionInput {
    pub(crate) template: Option<String>,
    pub(crate) strength: Option<f64>,
    pub(crate) tag: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) secret: Option<String>,
}

/// A trigger that was created, or deleted since an earlier request created it.
pub(crate) enum CreatedTrigger {
    Present(TriggerId, Box<Trigger>, Firings),
    Deleted(TriggerId),
}

/// A page of triggers, and the number after which the next one begins.
pub(crate) struct TriggerPage {
    pub(crate) triggers: Vec<(Arc<CompiledTrigger>, Firings)>,
    pub(crate) next: Option<u64>,
}

impl Service {
    /// The action of a trigger: checks the address of a webhook and seals its secret.
    pub(crate) fn trigger_action(
        &self,
        id: TriggerId,
        kind: TriggerActionKind,
        input: ActionInput,
    ) -> ApiResult<TriggerAction> {
        Ok(match kind {
            TriggerActionKind::Notify => TriggerAction::Notify { template: input.template },
            TriggerActionKind::Boost => {
                let strength = input.strength.unwrap_or(storage::model::trigger::STRENGTH_DEFAULT);
                TriggerAction::Boost { strength }
            }
            TriggerActionKind::Pin => TriggerAction::Pin,
            TriggerActionKind::Tag => TriggerAction::Tag { tag: input.tag },
            TriggerActionKind::Deprecate => TriggerAction::Deprecate,
            TriggerActionKind::Webhook => self.webhook(id, input)?,
        })
    }

    fn webhook(&self, id: TriggerId, input: ActionInput) -> ApiResult<TriggerAction> {
        let hooks = self.hooks();
        let url = input.url.ok_or_else(|| ApiError::invalid("url", "is required"))?;
        hooks.check(&url).map_err(|reason| ApiError::invalid("url", reason))?;
        let seal = |secret: String| {
            let invalid = |reason| ApiError::invalid("webhook_secret", reason);
            hooks.check_secret(&secret).map_err(invalid)?;
            hooks.seal(id, &secret).ok_or_else(|| {
                let message =
                    "this node has no key to seal secrets with: its operator sets webhooks.key";
                ApiError::unavailable("no_sealing_key", message)
            })
        };
        let secret = input.secret.map(seal).transpose()?;
        Ok(TriggerAction::Webhook { url, secret, retiring: None })
    }

    pub(crate) async fn create_trigger(
        &self,
        caller: &Caller,
        receipt: Option<ReceiptRequest>,
        id: TriggerId,
        trigger: Trigger,
    ) -> ApiResult<Done<CreatedTrigger>> {
        // A trigger that is bound to an inaccessible namespace could never fire.
        for namespace in [&trigger.namespace, &trigger.filter.namespace].into_iter().flatten() {
            check_access(caller, namespace)?;
        }
        let receipt = receipt.map(|receipt| {
            // A plain digest in the state would allow guessing a weak secret.
            ReceiptRequest { body_hash: self.hooks().blind(receipt.body_hash), ..receipt }
        });
        let action = Action::CreateTrigger(id, Box::new(trigger));
        self.submit(caller, receipt, action).await?.map(|reply| match reply {
            Reply::Trigger(id, trigger, firings) => {
                Some(CreatedTrigger::Present(id, trigger, firings))
            }
            Reply::ReplayedTriggerGone(id) => Some(CreatedTrigger::Deleted(id)),
            _ => None,
        })
    }

    /// A trigger that the caller may see.
    pub(crate) async fn trigger(
        &self,
        caller: &Caller,
        id: TriggerId,
    ) -> ApiResult<(Trigger, Firings)> {
        let tenant = caller.tenant;
        let read = move |reader: &storage::Reader| {
            Ok((reader.trigger(tenant, id)?, reader.firings(tenant, id)))
        };
        let (trigger, firings) = self.read(read).await?;
        let trigger = trigger.filter(|trigger| is_visible(caller, trigger));
        Ok((trigger.ok_or_else(no_trigger)?, firings))
    }

    /// A trigger that the caller may change. One that this node does not have yet is read
    /// linearizably.
    pub(crate) async fn modifiable_trigger(
        &self,
        caller: &Caller,
        id: TriggerId,
    ) -> ApiResult<Trigger> {
        let tenant = caller.tenant;
        let read = async || self.read(move |reader| reader.trigger(tenant, id)).await;
        let mut trigger = read().await?;
        if trigger.is_none() {
            self.await_linearizable().await?;
            trigger = read().await?;
        }
        let trigger = trigger.ok_or_else(no_trigger)?;
        match is_visible(caller, &trigger) {
            true => Ok(trigger),
            false => Err(Rejection::NotOwner.into()),
        }
    }

    pub(crate) async fn update_trigger(
        &self,
        caller: &Caller,
        id: TriggerId,
        patch: TriggerPatch,
    ) -> ApiResult<Done<(Trigger, Firings)>> {
        let namespaces = [&patch.namespace, &patch.filter_namespace];
        for namespace in namespaces.into_iter().flatten().flatten() {
            check_access(caller, namespace)?;
        }
        let action = Action::UpdateTrigger(id, Box::new(patch));
        self.submit(caller, None, action).await?.map(|reply| match reply {
            Reply::Trigger(_, trigger, firings) => Some((*trigger, firings)),
            _ => None,
        })
    }

    pub(crate) async fn delete_trigger(
        &self,
        caller: &Caller,
        id: TriggerId,
    ) -> ApiResult<Done<Reply>> {
        self.submit(caller, None, Action::DeleteTrigger(id)).await
    }

    /// Triggers that the caller may see, in the order of their creation, after `after`.
    pub(crate) async fn triggers(
        &self,
        caller: &Caller,
        event: Option<TriggerEvent>,
        after: u64,
        limit: usize,
    ) -> ApiResult<TriggerPage> {
        let caller = caller.clone();
        self.read(move |reader| {
            let mut all = reader.triggers(caller.tenant);
            all.retain(|(compiled, _)| {
                let trigger = &compiled.trigger;
                let is_of_event = event.is_none_or(|event| event == trigger.event);
                trigger.number > after && is_of_event && is_visible(&caller, trigger)
            });
            let has_more = all.len() > limit;
            all.truncate(limit);
            let last = all.last().map(|(compiled, _)| compiled.trigger.number);
            Ok(TriggerPage { triggers: all, next: last.filter(|_| has_more) })
        })
        .await
    }

    /// Which triggers would fire if `event` happened to a memory now. Nothing fires.
    pub(crate) async fn evaluate_triggers(
        &self,
        caller: &Caller,
        event: TriggerEvent,
        id: MemoryId,
    ) -> ApiResult<Vec<TriggerEvaluation>> {
        let tenant = caller.tenant;
        let read = move |reader: &storage::Reader| {
            Ok((reader.get(tenant, id)?, evaluate(reader, tenant, event, id)?))
        };
        let (Some(record), Some(mut evaluations)) = self.read(read).await? else {
            return Err(Rejection::NotFound.into());
        };
        check_access(caller, &record.memory.namespace)?;
        evaluations.retain(|(_, trigger, _)| is_visible(caller, trigger));
        Ok(evaluations)
    }
}

/// Keys with restricted access see their own triggers only.
fn is_visible(caller: &Caller, trigger: &Trigger) -> bool {
    caller.access.is_unrestricted() || trigger.owner == Some(caller.key)
}

fn no_trigger() -> ApiError {
    Rejection::NoSuch("trigger".into()).into()
}
