//! Triggers: creation, changes, lists, and the dry run. Secrets of webhooks are sealed here,
//! before a command carries them.

use std::sync::Arc;

use storage::command::{CreateTrigger, UpdateTrigger};
use storage::model::id::{MemoryId, TriggerId};
use storage::model::trigger::{Delivery, DeliveryId};
use storage::model::trigger::{
    Firings, STRENGTH_DEFAULT, Trigger, TriggerAction, TriggerActionKind, TriggerEvent,
};
use storage::{
    CompiledTrigger, Deliveries, Rejection, TriggerEvaluation, TriggerPatch, TriggerReply, View,
    evaluate,
};
use uuid::Uuid;

use crate::error::{ApiError, ApiResult};
use crate::service::access::{check_access, may_see_trigger};
use crate::service::journal::Viewer;
use crate::service::writes::WriteResult;
use crate::service::{PageOf, Service, Session};
use crate::words::DeliveryStatus;

/// Settings of an action; each action uses its own.
#[derive(Default)]
pub(crate) struct ActionSettings {
    pub(crate) template: Option<String>,
    pub(crate) strength: Option<f64>,
    pub(crate) tag: Option<String>,
    pub(crate) url: Option<String>,
    pub(crate) secret: Option<String>,
    /// Whether a change removes the secret.
    pub(crate) drops_secret: bool,
}

impl Service {
    /// The action of a trigger: checks the address of a webhook and seals its secret.
    pub(super) fn action(
        &self,
        id: TriggerId,
        kind: TriggerActionKind,
        settings: ActionSettings,
    ) -> ApiResult<TriggerAction> {
        Ok(match kind {
            TriggerActionKind::Notify => TriggerAction::Notify(settings.template),
            TriggerActionKind::Boost => {
                TriggerAction::Boost(settings.strength.unwrap_or(STRENGTH_DEFAULT))
            }
            TriggerActionKind::Pin => TriggerAction::Pin,
            TriggerActionKind::Tag => TriggerAction::Tag(settings.tag),
            TriggerActionKind::Deprecate => TriggerAction::Deprecate,
            TriggerActionKind::Webhook => self.webhook(id, settings.url, settings.secret)?,
        })
    }

    fn webhook(
        &self,
        id: TriggerId,
        url: Option<String>,
        secret: Option<String>,
    ) -> ApiResult<TriggerAction> {
        let hooks = &self.hooks;
        let field = "action_config.url";
        let url = url.ok_or_else(|| ApiError::invalid(field, "is required"))?;
        hooks.check(&url).map_err(|reason| ApiError::invalid(field, reason))?;
        let seal = |secret: String| {
            let invalid = |reason| ApiError::invalid("action_config.webhook_secret", reason);
            hooks.check_secret(&secret).map_err(invalid)?;
            hooks.seal(id, &secret).ok_or_else(|| {
                let message =
                    "this node has no key to seal secrets with: its operator sets webhooks.key";
                ApiError::unavailable("no_sealing_key", message)
            })
        };
        let secret = secret.map(seal).transpose()?;
        Ok(TriggerAction::Webhook { url, secret, retiring: None })
    }
}

impl Session {
    /// Creates the trigger that `build` makes of its action.
    pub(crate) async fn create_trigger(
        &self,
        kind: TriggerActionKind,
        settings: ActionSettings,
        build: impl FnOnce(TriggerAction) -> Trigger,
    ) -> ApiResult<WriteResult<TriggerReply>> {
        let id = TriggerId(Uuid::now_v7().into_bytes());
        let trigger = build(self.service.action(id, kind, settings)?);
        // A trigger that is bound to an inaccessible namespace could never fire.
        for namespace in [&trigger.namespace, &trigger.filter.namespace].into_iter().flatten() {
            check_access(&self.caller.access, namespace)?;
        }
        self.submit(CreateTrigger { id, trigger: Box::new(trigger) }).await
    }

    /// A trigger that the caller may see, and change if its role permits writes.
    pub(crate) async fn trigger(&self, id: TriggerId) -> ApiResult<(Trigger, Firings)> {
        let found = self.find(move |reader, caller| {
            let trigger = reader.trigger(caller.tenant, id)?;
            let trigger =
                trigger.filter(|trigger| may_see_trigger(&caller.access, caller.key, trigger));
            Ok(trigger.map(|trigger| (trigger, reader.firings(caller.tenant, id))))
        });
        Ok(found.await?.ok_or_else(|| Rejection::NoSuch("trigger".into()))?.0)
    }

    /// Changes a trigger, which is `present` now, and the settings of its action if there are
    /// any.
    pub(crate) async fn update_trigger(
        &self,
        id: TriggerId,
        present: &Trigger,
        mut patch: TriggerPatch,
        settings: Option<ActionSettings>,
    ) -> ApiResult<WriteResult<(Trigger, Firings)>> {
        if let Some(mut settings) = settings {
            patch.keep_url = settings.url.is_none();
            patch.drop_secret = settings.drops_secret;
            // The decision keeps the present address; this one only passes the check.
            if let TriggerAction::Webhook { url, .. } = &present.action {
                settings.url.get_or_insert_with(|| url.clone());
            }
            patch.action = Some(self.service.action(id, present.action.kind(), settings)?);
        }
        let namespaces = [&patch.namespace, &patch.filter_namespace];
        for namespace in namespaces.into_iter().flatten().flatten() {
            check_access(&self.caller.access, namespace)?;
        }
        let done = self.submit(UpdateTrigger { id, patch: Box::new(patch) }).await?;
        done.map(|reply| {
            let gone = || Rejection::NoSuch("trigger".into());
            let (trigger, firings) = reply.now.ok_or_else(gone)?;
            Ok((*trigger, firings))
        })
    }

    /// Deliveries that the caller may see, after `after`; with a status, if named.
    pub(crate) async fn deliveries(
        &self,
        status: Option<DeliveryStatus>,
        after: Option<DeliveryId>,
        limit: usize,
    ) -> ApiResult<Deliveries> {
        self.read(move |reader, caller| {
            let viewer = Viewer::of(reader, caller);
            let is_wanted = |id: DeliveryId, delivery: &Delivery| {
                let has_status =
                    status.is_none_or(|status| status == DeliveryStatus::from(&delivery.stage));
                Ok(has_status
                    && caller.access.allows(&delivery.namespace)
                    && viewer.may_see_trigger(id.trigger)?)
            };
            reader.deliveries(caller.tenant, after, limit, is_wanted)
        })
        .await
    }

    /// Triggers that the caller may see, in the order of their creation, after the trigger `after`,
    /// or after its id if it was deleted meanwhile. Their numbers would tell how many others exist.
    pub(crate) async fn triggers(
        &self,
        event: Option<TriggerEvent>,
        after: Option<TriggerId>,
        limit: usize,
    ) -> ApiResult<PageOf<(Arc<CompiledTrigger>, Firings), TriggerId>> {
        self.read(move |reader, caller| {
            let mut all = reader.triggers(caller.tenant);
            let last = all.iter().position(|(compiled, _)| Some(compiled.id) == after);
            match last {
                Some(last) => drop(all.drain(..=last)),
                None => all.retain(|(compiled, _)| Some(compiled.id) > after),
            }
            all.retain(|(compiled, _)| {
                let trigger = &compiled.trigger;
                let is_of_event = event.is_none_or(|event| event == trigger.event);
                is_of_event && may_see_trigger(&caller.access, caller.key, trigger)
            });
            Ok(PageOf::first(all, limit, |(compiled, _)| compiled.id))
        })
        .await
    }

    /// Which triggers would fire if `event` happened to a memory now. Nothing fires.
    pub(crate) async fn evaluate_triggers(
        &self,
        event: TriggerEvent,
        id: MemoryId,
    ) -> ApiResult<Vec<TriggerEvaluation>> {
        let found = self
            .find_memory(id, move |reader, caller, _| evaluate(reader, caller.tenant, event, id));
        let (mut evaluations, access) = found.await?;
        evaluations.retain(|(_, trigger, _)| may_see_trigger(&access, self.caller.key, trigger));
        Ok(evaluations)
    }
}
