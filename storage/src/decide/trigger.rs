//! Rules for creating, updating and deleting triggers. Firing is in `fire.rs`.

use crate::change::Change;
use crate::decide::context::{Context, Decided, reject_if};
use crate::decide::{outbox, tick};
use crate::model::id::{Timestamp, TriggerId};
use crate::model::limits::Limit;
use crate::model::trigger::{
    Firings, KEY_RECALL_TRIGGERS_MAX, KEY_TRIGGERS_MAX, TRIGGERS_MAX, Trigger, TriggerAction,
    TriggerEvent, TriggerFilter,
};
use crate::patch::TriggerPatch;
use crate::reply::{Rejection, Reply};
use crate::table::key::Key;
use crate::table::view::View;

/// How long a replaced secret signs beside its successor.
const RETIRING_MICROS: i64 = Timestamp::DAY_MICROS;

pub(super) fn create(context: &mut Context<'_>, id: TriggerId, new: &Trigger) -> Decided<Reply> {
    let triggers = context.draft.triggers(context.tenant);
    let limit = context.draft.limit(context.tenant, Limit::Triggers)?.unwrap_or(u64::MAX);
    let max = usize::try_from(limit).unwrap_or(TRIGGERS_MAX).min(TRIGGERS_MAX);
    reject_if(triggers.len() >= max, Rejection::too_many("triggers", max))?;
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
    Ok(Reply::Trigger(id, Box::new(trigger), Firings::default()))
}

pub(super) fn update(
    context: &mut Context<'_>,
    id: TriggerId,
    patch: &TriggerPatch,
) -> Decided<Reply> {
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
    // A receiver trusts the secret: another key must not direct it to another receiver.
    let changes_webhook =
        matches!(after.action, TriggerAction::Webhook { .. }) && after.action != trigger.action;
    let is_owner = after.owner == context.actor;
    reject_if(changes_webhook && !is_owner && !is_admin, Rejection::NotOwner)?;
    if after != trigger {
        after.updated_at = context.now();
        tick::advance_before(context, &after)?;
        context.push(Change::TriggerPut(tenant, id, after.clone()));
    }
    Ok(Reply::Trigger(id, Box::new(after), firings))
}

/// A trigger as it is now.
pub(super) fn reply(context: &Context<'_>, id: TriggerId) -> Decided<Reply> {
    let trigger = context.modifiable_trigger(id)?;
    let firings = context.draft.firings(context.tenant, id)?;
    Ok(Reply::Trigger(id, Box::new(trigger), firings))
}

/// Deletes a trigger and its pending deliveries. Its history stays in the journal.
pub(super) fn delete(context: &mut Context<'_>, id: TriggerId) -> Decided<Reply> {
    let trigger = context.modifiable_trigger(id)?;
    if matches!(trigger.action, TriggerAction::Webhook { .. }) {
        outbox::cancel(context, id)?;
    }
    context.push(Change::TriggerRemoved(context.tenant, id));
    Ok(Reply::Done)
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
