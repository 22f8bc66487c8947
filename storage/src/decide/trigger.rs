//! Commands for triggers. Firing is in `fire.rs`.

use model::audit::{AuditAction, Fields, short};
use model::id::{Timestamp, TriggerId};
use model::tenant::Limit;
use model::trigger::{
    Firings, KEY_RECALL_TRIGGERS_MAX, KEY_TRIGGERS_MAX, TRIGGERS_MAX, Trigger, TriggerAction,
    TriggerEvent, TriggerFilter,
};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, digest, texts};
use crate::decide::context::{Context, DecideError, Decided, reject_if};
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::{outbox, tick};
use crate::error::Result;
use crate::etag::Etag;
use crate::patch::TriggerPatch;
use crate::reply::{Rejection, TriggerReply};
use crate::table::key::Key;
use crate::table::view::View;

/// How long a replaced secret signs beside its successor.
const RETIRING_MICROS: i64 = Timestamp::DAY_MICROS;

/// Creates a trigger; the rule sets its number, owner and times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateTrigger {
    /// Its id.
    pub id: TriggerId,
    /// The trigger.
    pub trigger: Box<Trigger>,
}

impl TenantRule for CreateTrigger {
    type Reply = TriggerReply;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<TriggerReply> {
        let trigger = create(context, self.id, &self.trigger)?;
        Ok(reply(self.id, trigger, Firings::default()))
    }
}

impl CreateTrigger {
    fn audit(&self, context: &Context<'_>, _reply: Option<&TriggerReply>) -> Result<AuditedAct> {
        let fields = row(context, self.id)?;
        Ok(AuditedAct::new(AuditAction::TriggerCreate, target(self.id), fields))
    }
}

/// Creates a trigger of the acting key.
pub(super) fn create(context: &mut Context<'_>, id: TriggerId, new: &Trigger) -> Decided<Trigger> {
    let triggers = context.draft.triggers(context.tenant);
    let limit = context.draft.limit(context.tenant, Limit::Triggers)?.unwrap_or(u64::MAX);
    let max = usize::try_from(limit).unwrap_or(TRIGGERS_MAX).min(TRIGGERS_MAX);
    reject_if(triggers.count() >= max, Rejection::too_many("triggers", max))?;
    if let Some(key) = context.actor {
        let of_key = Rejection::too_many("triggers of one API key", KEY_TRIGGERS_MAX);
        reject_if(triggers.owned_by(key) >= KEY_TRIGGERS_MAX, of_key)?;
        let name = "on_recall triggers of one API key";
        let of_key = Rejection::too_many(name, KEY_RECALL_TRIGGERS_MAX);
        let on_recall = triggers.on(TriggerEvent::Recall).iter();
        let owned = on_recall.filter(|it| it.trigger.owner == Some(key)).count();
        reject_if(new.event == TriggerEvent::Recall && owned >= KEY_RECALL_TRIGGERS_MAX, of_key)?;
    }
    reject_if(context.draft.trigger(context.tenant, id)?.is_some(), Rejection::IdTaken)?;
    let trigger = Trigger {
        number: triggers.next_number(),
        owner: context.actor,
        created_at: context.now(),
        updated_at: context.now(),
        ..new.clone()
    };
    tick::advance_before(context, &trigger)?;
    context.push(Change::TriggerPut(context.tenant, id, trigger.clone()));
    Ok(trigger)
}

fn trigger_tag(context: &Context<'_>, id: TriggerId) -> Result<Option<Etag>> {
    Ok(context.draft.trigger(context.tenant, id)?.as_ref().map(Etag::of))
}

/// Changes a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateTrigger {
    /// The trigger.
    pub id: TriggerId,
    /// What changes.
    pub patch: Box<TriggerPatch>,
}

impl TenantRule for UpdateTrigger {
    type Reply = TriggerReply;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<TriggerReply> {
        let (id, patch) = (self.id, &self.patch);
        let tenant = context.tenant;
        let trigger = context.modifiable_trigger(id)?;
        if let Some(action) = &patch.action
            && action.kind() != trigger.action.kind()
        {
            let kind = trigger.action.kind().name();
            let reason = format!("the action of this trigger is {kind} and cannot change");
            return Err(Rejection::WrongState(reason).into());
        }
        let mut firings = context.draft.firings(tenant, id)?;
        if patch.reset_count && firings.count > 0 {
            firings.count = 0;
            context.push(Change::FiringsPut(tenant, id, firings));
        }
        let mut after = patched(&trigger, patch, context.now());
        let is_admin = context.is_admin()?;
        // A trigger without its owner's key does not fire: the key that updates it becomes its owner.
        if let Some(owner) = trigger.owner
            && context.draft.bytes(&Key::ApiKey(tenant, owner))?.is_none()
            && (is_admin || !is_signed(&trigger.action))
        {
            after.owner = context.actor;
        }
        // The owner answers for what a trigger sends, says and writes: messages and tags name the owner,
        // and a receiver trusts the secret.
        let acts_differently = after.action != trigger.action;
        let is_owner = after.owner == context.actor;
        reject_if(acts_differently && !is_owner && !is_admin, Rejection::NotOwner)?;
        if after != trigger {
            after.updated_at = context.now();
            tick::advance_before(context, &after)?;
            context.push(Change::TriggerPut(tenant, id, after.clone()));
        }
        Ok(reply(id, after, firings))
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        trigger_tag(context, self.id)
    }
}

impl UpdateTrigger {
    fn audit(&self, context: &Context<'_>, _reply: Option<&TriggerReply>) -> Result<AuditedAct> {
        let fields = row(context, self.id)?;
        Ok(AuditedAct::new(AuditAction::TriggerChange, target(self.id), fields))
    }
}

/// The reply to a repetition of what created or changed a trigger.
pub(super) fn reply_to_repetition(context: &Context<'_>, id: TriggerId) -> Decided<TriggerReply> {
    match context.modifiable_trigger(id) {
        Ok(trigger) => Ok(reply(id, trigger, context.draft.firings(context.tenant, id)?)),
        Err(DecideError::Rejected(Rejection::NoSuch(_))) => Ok(TriggerReply { id, now: None }),
        Err(other) => Err(other),
    }
}

fn reply(id: TriggerId, trigger: Trigger, firings: Firings) -> TriggerReply {
    TriggerReply { id, now: Some((Box::new(trigger), firings)) }
}

/// Deletes a trigger and its pending deliveries. Its history stays in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeleteTrigger(pub TriggerId);

impl TenantRule for DeleteTrigger {
    type Reply = ();
    const CLASS: Class = Class::OnlyRemoves;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        let trigger = context.modifiable_trigger(self.0)?;
        if matches!(trigger.action, TriggerAction::Webhook { .. }) {
            outbox::cancel(context, self.0)?;
        }
        context.push(Change::TriggerRemoved(context.tenant, self.0));
        Ok(())
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        trigger_tag(context, self.0)
    }
}

impl DeleteTrigger {
    fn audit(&self, context: &Context<'_>, _reply: Option<&()>) -> Result<AuditedAct> {
        let fields = row(context, self.0)?;
        Ok(AuditedAct::new(AuditAction::TriggerDelete, target(self.0), fields))
    }
}

fn target(id: TriggerId) -> String {
    format!("trigger {id}")
}

fn is_signed(action: &TriggerAction) -> bool {
    matches!(action, TriggerAction::Webhook { secret: Some(_), .. })
}

fn patched(trigger: &Trigger, patch: &TriggerPatch, now: Timestamp) -> Trigger {
    fn or<T: Clone>(patch: &Option<T>, before: &T) -> T {
        patch.as_ref().unwrap_or(before).clone()
    }
    let filter = &trigger.filter;
    Trigger {
        name: or(&patch.name, &trigger.name),
        description: or(&patch.description, &trigger.description),
        action: action(&trigger.action, patch, now),
        namespace: or(&patch.namespace, &trigger.namespace),
        filter: TriggerFilter {
            memory_type: or(&patch.memory_type, &filter.memory_type),
            namespace: or(&patch.filter_namespace, &filter.namespace),
            label_pattern: or(&patch.label_pattern, &filter.label_pattern),
            heat_below: or(&patch.heat_below, &filter.heat_below),
            heat_above: or(&patch.heat_above, &filter.heat_above),
        },
        max_fires: or(&patch.max_fires, &trigger.max_fires),
        cooldown_seconds: or(&patch.cooldown_seconds, &trigger.cooldown_seconds),
        enabled: or(&patch.enabled, &trigger.enabled),
        ..trigger.clone()
    }
}

/// The action after the patch. A replaced secret signs beside the new one for a while.
fn action(before: &TriggerAction, patch: &TriggerPatch, now: Timestamp) -> TriggerAction {
    let mut after = patch.action.clone().unwrap_or_else(|| before.clone());
    if let (
        TriggerAction::Webhook { url, secret, retiring },
        TriggerAction::Webhook { url: old_url, secret: old, retiring: old_retiring },
    ) = (&mut after, before)
    {
        if patch.keep_url {
            url.clone_from(old_url);
        }
        match (&secret, old) {
            _ if patch.drop_secret => (*secret, *retiring) = (None, None),
            (Some(new), Some(old)) if new != old => {
                *retiring = Some((old.clone(), Timestamp(now.0 + RETIRING_MICROS)));
            }
            (Some(new), Some(old)) if new == old => retiring.clone_from(old_retiring),
            (None, _) => (*secret, *retiring) = (old.clone(), old_retiring.clone()),
            _ => {}
        }
    }
    after
}

/// The values of a trigger that the audit log shows.
fn row(context: &Context<'_>, id: TriggerId) -> Result<Fields> {
    let Some(trigger) = context.draft.trigger(context.tenant, id)? else {
        return Ok(Fields::new());
    };
    let Trigger { name, event, action, namespace, filter, max_fires, enabled, .. } = trigger;
    let (url, secret) = match &action {
        TriggerAction::Webhook { url, secret, .. } => {
            (Some(address(url)), secret.as_ref().map(|secret| digest(&secret.0)))
        }
        _ => (None, None),
    };
    let parameter = match &action {
        TriggerAction::Boost(strength) => Some(strength.to_string()),
        TriggerAction::Tag(text) | TriggerAction::Notify(text) => {
            text.as_deref().map(|text| digest(text.as_bytes()))
        }
        _ => None,
    };
    let count = context.draft.firings(context.tenant, id)?.count;
    let description = Some(&trigger.description).filter(|text| !text.is_empty());
    let description = description.map(|text| digest(text.as_bytes()));
    let cooldown = Some(trigger.cooldown_seconds).filter(|seconds| *seconds > 0);
    let pattern = filter.label_pattern.as_ref().map(|pattern| digest(pattern.as_bytes()));
    Ok(texts([
        ("name", Some(short(&name))),
        ("owner", trigger.owner.map(|key| key.to_string())),
        ("count", Some(count).filter(|count| *count > 0).map(|count| count.to_string())),
        ("event", Some(event.name().to_owned())),
        ("action", Some(action.kind().name().to_owned())),
        ("url", url),
        ("secret", secret),
        ("action_parameter", parameter),
        ("description", description),
        ("namespace", namespace.as_deref().map(short)),
        ("filter_namespace", filter.namespace.as_deref().map(short)),
        ("filter_memory_type", filter.memory_type.map(|of| of.name().to_owned())),
        ("filter_label_pattern", pattern),
        ("filter_heat_below", filter.heat_below.map(|heat| heat.to_string())),
        ("filter_heat_above", filter.heat_above.map(|heat| heat.to_string())),
        ("cooldown_seconds", cooldown.map(|seconds| seconds.to_string())),
        ("max_fires", max_fires.map(|max| max.to_string())),
        ("enabled", Some(enabled.to_string())),
    ]))
}

/// An address without the parts that may be secret. The digest tells two of one host apart.
fn address(url: &str) -> String {
    let host = url.split("://").nth(1).unwrap_or(url).split(['/', '?', '#']).next();
    let host = host.unwrap_or_default().rsplit('@').next().unwrap_or_default();
    format!("{} ({})", short(host), digest(url.as_bytes()))
}
