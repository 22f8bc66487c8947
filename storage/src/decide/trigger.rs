//! Rules for making, changing and taking away triggers. When they fire is not decided here.

use crate::change::Change;
use crate::command::{Decision, Rejection, Reply, TriggerPatch};
use crate::decide::tenant::access_of;
use crate::decide::{Draft, outbox};
use crate::error::Result;
use crate::model::id::{TenantId, Timestamp, TriggerId};
use crate::model::tenant::KeyId;
use crate::model::trigger::{Firings, TRIGGERS_MAX, Trigger, TriggerAction, TriggerFilter};
use crate::table::key::Key;
use crate::table::view::View;

/// For how long a secret signs beside the one that took its place.
const RETIRING_MICROS: i64 = Timestamp::DAY_MICROS;

pub(super) fn create(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: TriggerId,
    new: &Trigger,
) -> Result<Decision> {
    let triggers = draft.triggers(tenant);
    if triggers.len() >= TRIGGERS_MAX {
        return Ok(Err(Rejection::TooMany { what: "triggers".into(), max: TRIGGERS_MAX }));
    }
    if draft.trigger(tenant, id)?.is_some() {
        return Ok(Err(Rejection::IdTaken));
    }
    let trigger = Trigger {
        number: triggers.next_number(),
        owner: actor,
        created_at: draft.now(),
        updated_at: draft.now(),
        ..new.clone()
    };
    draft.push(Change::TriggerPut(tenant, id, trigger.clone()));
    Ok(Ok(Reply::Trigger(id, Box::new(trigger), Firings::default())))
}

pub(super) fn update(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: TriggerId,
    patch: &TriggerPatch,
) -> Result<Decision> {
    let trigger = match mine(draft, tenant, actor, id)? {
        Ok(trigger) => trigger,
        Err(rejection) => return Ok(Err(rejection)),
    };
    if let Some(action) = &patch.action
        && action.name() != trigger.action.name()
    {
        let rejection = format!("the trigger is one to {}, and stays so", trigger.action.name());
        return Ok(Err(Rejection::WrongState(rejection)));
    }
    let mut firings = draft.firings(tenant, id)?;
    if patch.reset_count && firings.count > 0 {
        firings.count = 0;
        draft.push(Change::FiringsPut(tenant, id, firings));
    }
    let mut changed = patched(&trigger, patch, draft.now());
    // A trigger without an owner rests: whoever may change it takes it over.
    if let Some(owner) = trigger.owner
        && draft.bytes(&Key::ApiKey(tenant, owner))?.is_none()
    {
        changed.owner = actor;
    }
    if changed != trigger {
        let trigger = Trigger { updated_at: draft.now(), ..changed };
        draft.push(Change::TriggerPut(tenant, id, trigger.clone()));
        return Ok(Ok(Reply::Trigger(id, Box::new(trigger), firings)));
    }
    Ok(Ok(Reply::Trigger(id, Box::new(trigger), firings)))
}

/// A trigger as it is now, if there is one.
pub(super) fn shown(
    draft: &Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: TriggerId,
) -> Result<Option<Decision>> {
    Ok(match mine(draft, tenant, actor, id)? {
        Ok(trigger) => {
            let firings = draft.firings(tenant, id)?;
            Some(Ok(Reply::Trigger(id, Box::new(trigger), firings)))
        }
        Err(Rejection::NoSuch(_)) => None,
        Err(rejection) => Some(Err(rejection)),
    })
}

/// What it did stays in the journal; what it owes is cancelled.
pub(super) fn delete(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: TriggerId,
) -> Result<Decision> {
    let trigger = match mine(draft, tenant, actor, id)? {
        Ok(trigger) => trigger,
        Err(rejection) => return Ok(Err(rejection)),
    };
    if matches!(trigger.action, TriggerAction::Webhook { .. }) {
        outbox::cancel(draft, tenant, id)?;
    }
    draft.push(Change::TriggerRemoved(tenant, id));
    Ok(Ok(Reply::Done))
}

/// A trigger that `actor` may change: its own, or any for whom no namespace is closed.
/// Otherwise it could have what it may not know sent to itself.
fn mine(
    draft: &Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: TriggerId,
) -> Result<std::result::Result<Trigger, Rejection>> {
    let Some(trigger) = draft.trigger(tenant, id)? else {
        return Ok(Err(Rejection::NoSuch("trigger".into())));
    };
    if let Some(key) = actor
        && trigger.owner != actor
        && !access_of(draft, tenant, key)?.is_whole()
    {
        return Ok(Err(Rejection::NotOwner));
    }
    Ok(Ok(trigger))
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

/// A new secret takes the old one's place, which signs beside it for a while.
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
