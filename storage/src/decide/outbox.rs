//! Rules of the outbox: what a firing owes, what becomes of attempts to deliver it. That an
//! attempt is made at all is the leader's duty, and no rule.

use crate::change::Change;
use crate::command::{Decision, Rejection, Reply};
use crate::decide::Draft;
use crate::decide::tenant::check_access;
use crate::error::Result;
use crate::model::delivery::{
    Attempt, AttemptOutcome, DEAD_LETTERS_MAX, DELIVERED_LABEL_BYTES_MAX, Delivery, DeliveryId,
    DeliveryStage, PENDING_MAX, REASON_BYTES_MAX,
};
use crate::model::id::{TenantId, Timestamp, TriggerId};
use crate::model::journal::{Event, EventKind};
use crate::model::memory::MemoryRecord;
use crate::model::tenant::KeyId;
use crate::model::trigger::{Trigger, TriggerEvent};
use crate::table::key::{Kind, delivery_of, due_of, prefix};
use crate::table::view::View;

/// Dead letters that one command looks at.
const REPLAYED_MAX: usize = 500;

/// Owes what a firing has to deliver, and says its id; or that too much is pending already.
pub(super) fn enqueue(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    (id, trigger): (TriggerId, &Trigger),
    number: u64,
    event: TriggerEvent,
    present: &MemoryRecord,
) -> Result<String> {
    let mut outbox = draft.outbox(tenant)?;
    if outbox.pending >= PENDING_MAX {
        outbox.dropped += 1;
        draft.push(Change::OutboxPut(tenant, outbox));
        return Ok("dropped".into());
    }
    outbox.pending += 1;
    draft.push(Change::OutboxPut(tenant, outbox));
    let memory = &present.memory;
    let label = &memory.label[..memory.label.floor_char_boundary(DELIVERED_LABEL_BYTES_MAX)];
    let delivery = Delivery {
        event,
        trigger_name: trigger.name.clone(),
        fired_at: draft.now(),
        memory: present.id,
        namespace: memory.namespace.clone(),
        label: label.to_owned(),
        memory_type: memory.memory_type,
        heat: present.heat,
        attempts: 0,
        attempts_before: 0,
        reason: String::new(),
        stage: DeliveryStage::Pending(draft.now()),
    };
    let id = DeliveryId { trigger: id, number };
    draft.push(Change::DeliveryPut(tenant, id, delivery, None));
    Ok(id.to_string())
}

/// Records attempts, each once: what another leader recorded already is passed over.
pub(super) fn attempted(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    attempts: &[Attempt],
) -> Result<Decision> {
    for attempt in attempts {
        if let Some(delivery) = draft.delivery(tenant, attempt.id)?
            && matches!(delivery.stage, DeliveryStage::Pending(_))
            && delivery.attempts + 1 == attempt.number
        {
            record(draft, tenant, attempt, delivery)?;
        }
    }
    Ok(Ok(Reply::Done))
}

fn record(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    attempt: &Attempt,
    before: Delivery,
) -> Result<()> {
    let now = draft.now();
    let after = |stage, reason: &str| {
        let (attempts, reason) = (attempt.number, cut(reason));
        Some(Delivery { attempts, reason, stage, ..before.clone() })
    };
    let (kind, said, next, delivery) = match &attempt.outcome {
        AttemptOutcome::Delivered(status) => {
            (EventKind::Delivered, status.to_string(), "delivered".to_owned(), None)
        }
        AttemptOutcome::Failed { reason, retry_in_micros: Some(micros) } => {
            let due = Timestamp(now.0.saturating_add(*micros.max(&0)));
            let next = format!("retried in {} s", micros / Timestamp::SECOND_MICROS);
            let pending = after(DeliveryStage::Pending(due), reason);
            (EventKind::DeliveryFailed, cut(reason), next, pending)
        }
        AttemptOutcome::Failed { reason, retry_in_micros: None } => {
            let dead = after(DeliveryStage::DeadLettered(now), reason);
            (EventKind::DeliveryFailed, cut(reason), "dead-lettered".to_owned(), dead)
        }
        AttemptOutcome::Gone(changed_at) => {
            disable(draft, tenant, attempt.id.trigger, *changed_at)?;
            let (why, next) = ("410 Gone", "dead-lettered, the trigger is disabled");
            let dead = after(DeliveryStage::DeadLettered(now), why);
            (EventKind::DeliveryFailed, why.to_owned(), next.to_owned(), dead)
        }
        AttemptOutcome::Disabled => {
            let why = "the trigger is disabled";
            let dead = after(DeliveryStage::DeadLettered(now), why);
            (EventKind::DeliveryFailed, why.to_owned(), "dead-lettered".to_owned(), dead)
        }
    };
    let attempts = attempt.number.to_string();
    let details =
        vec![attempt.id.trigger.to_string(), attempt.id.to_string(), attempts, said, next];
    let (subject, namespace) = (Some(before.memory), before.namespace.clone());
    let event = Event { at: now, kind, actor: None, subject, namespace, details };
    draft.push(Change::EventAppended(tenant, event));
    put(draft, tenant, attempt.id, before.stage, delivery)
}

/// Cancels all that a trigger owes.
pub(super) fn cancel(draft: &mut Draft<'_>, tenant: TenantId, trigger: TriggerId) -> Result<()> {
    let mut outbox = draft.outbox(tenant)?;
    if outbox.pending == 0 || draft.firings(tenant, trigger)?.total == 0 {
        return Ok(());
    }
    // 64 bytes each: one command holds the removal of as many as may be pending.
    const { assert!(64 * PENDING_MAX as usize <= crate::COMMAND_BYTES_MAX / 2) };
    for (key, _) in draft.rows(&prefix(Kind::Due, tenant), PENDING_MAX as usize)? {
        let (at, id) = due_of(&key)?;
        if id.trigger == trigger {
            draft.push(Change::DeliveryRemoved(tenant, id, DeliveryStage::Pending(at)));
            outbox.pending -= 1;
        }
    }
    draft.push(Change::OutboxPut(tenant, outbox));
    Ok(())
}

fn cut(reason: &str) -> String {
    reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned()
}

/// The receiver wants no more. A trigger that was changed since may have another one.
fn disable(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    id: TriggerId,
    changed_at: Timestamp,
) -> Result<()> {
    if let Some(trigger) = draft.trigger(tenant, id)?
        && trigger.enabled
        && trigger.updated_at == changed_at
    {
        let trigger = Trigger { enabled: false, updated_at: draft.now(), ..trigger };
        draft.push(Change::TriggerPut(tenant, id, trigger));
    }
    Ok(())
}

/// Moves a delivery to where it stands now, or out, and keeps count.
fn put(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    id: DeliveryId,
    before: DeliveryStage,
    delivery: Option<Delivery>,
) -> Result<()> {
    let mut outbox = draft.outbox(tenant)?;
    let counted = outbox;
    *count(&mut outbox, &before) -= 1;
    if let Some(delivery) = &delivery {
        *count(&mut outbox, &delivery.stage) += 1;
    }
    draft.push(match delivery {
        Some(delivery) => Change::DeliveryPut(tenant, id, delivery, Some(before)),
        None => Change::DeliveryRemoved(tenant, id, before),
    });
    if outbox.dead_letters > DEAD_LETTERS_MAX
        && let Some((oldest, stage)) = oldest_dead(draft, tenant)?
    {
        outbox.dead_letters -= 1;
        draft.push(Change::DeliveryRemoved(tenant, oldest, stage));
    }
    if outbox != counted {
        draft.push(Change::OutboxPut(tenant, outbox));
    }
    Ok(())
}

fn count<'a>(outbox: &'a mut crate::model::delivery::Outbox, stage: &DeliveryStage) -> &'a mut u64 {
    match stage {
        DeliveryStage::Pending(_) => &mut outbox.pending,
        DeliveryStage::DeadLettered(_) => &mut outbox.dead_letters,
    }
}

fn oldest_dead(draft: &Draft<'_>, tenant: TenantId) -> Result<Option<(DeliveryId, DeliveryStage)>> {
    let rows = draft.rows(&prefix(Kind::Dead, tenant), 1)?;
    let Some((key, _)) = rows.first() else { return Ok(None) };
    let id = delivery_of(key)?;
    Ok(draft.delivery(tenant, id)?.map(|delivery| (id, delivery.stage)))
}

/// Owes anew what was dead-lettered: one delivery, or as many of all as one command may. What
/// a trigger left that is gone has nowhere to go: it is dropped.
pub(super) fn replay(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: Option<DeliveryId>,
) -> Result<Decision> {
    if let Some(id) = id {
        return match replay_one(draft, tenant, actor, id)? {
            Ok(_) => Ok(Ok(Reply::ReplayedDeliveries { count: 1, has_more: false })),
            Err(rejection) => Ok(Err(rejection)),
        };
    }
    let rows = draft.rows(&prefix(Kind::Dead, tenant), REPLAYED_MAX + 1)?;
    let (mut count, mut has_more) = (0, rows.len() > REPLAYED_MAX);
    for (key, _) in rows.iter().take(REPLAYED_MAX) {
        let id = delivery_of(key)?;
        match replay_one(draft, tenant, actor, id)? {
            Ok(()) => count += 1,
            Err(Rejection::NoSuch(_)) => drop_dead(draft, tenant, id)?,
            Err(rejection @ Rejection::TooMany { .. }) if count == 0 => return Ok(Err(rejection)),
            Err(Rejection::TooMany { .. }) => {
                has_more = true;
                break;
            }
            // What is closed to who asks stays.
            Err(_) => {}
        }
    }
    Ok(Ok(Reply::ReplayedDeliveries { count, has_more }))
}

fn replay_one(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: DeliveryId,
) -> Result<std::result::Result<(), Rejection>> {
    let dead = draft.delivery(tenant, id)?;
    let Some(dead) = dead.filter(|it| matches!(it.stage, DeliveryStage::DeadLettered(_))) else {
        return Ok(Err(Rejection::NoSuch("dead letter".into())));
    };
    if let Err(rejection) = check_access(draft, tenant, actor, &dead.namespace)? {
        return Ok(Err(rejection));
    }
    if draft.trigger(tenant, id.trigger)?.is_none() {
        return Ok(Err(Rejection::NoSuch("trigger".into())));
    }
    if draft.outbox(tenant)?.pending >= PENDING_MAX {
        let (what, max) = ("pending deliveries".into(), PENDING_MAX as usize);
        return Ok(Err(Rejection::TooMany { what, max }));
    }
    let (attempts_before, before) = (dead.attempts, dead.stage.clone());
    let stage = DeliveryStage::Pending(draft.now());
    put(draft, tenant, id, before, Some(Delivery { attempts_before, stage, ..dead }))?;
    Ok(Ok(()))
}

fn drop_dead(draft: &mut Draft<'_>, tenant: TenantId, id: DeliveryId) -> Result<()> {
    match draft.delivery(tenant, id)? {
        Some(dead) => put(draft, tenant, id, dead.stage, None),
        None => Ok(()),
    }
}
