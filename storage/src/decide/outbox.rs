//! The outbox and its commands: webhook deliveries are enqueued in the batch of their firing, and every
//! attempt is recorded. Sending is a background task of the leader.

use std::collections::BTreeSet;

use index::triggers::CompiledTrigger;
use model::bounded::bounded;
use model::id::{Timestamp, TriggerId};
use model::journal::{DeliveryNext, EventKind, FiringResult};
use model::memory::MemoryRecord;
use model::trigger::{
    Attempt, AttemptOutcome, DEAD_LETTERS_MAX, DELIVERED_LABEL_BYTES_MAX, DeadLetterCursor,
    Delivery, DeliveryId, DeliveryStage, Outbox, PENDING_MAX, REASON_BYTES_MAX,
};
use model::trigger::{Firings, Trigger, TriggerEvent};
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::context::{Context, DecideError, Decided, reject_if};
use crate::decide::draft::COMMAND_BYTES_MAX;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::error::Result;
use crate::reply::{Rejection, ReplayedDeliveries};
use crate::table::key::{Kind, prefix, timed_delivery_of};
use crate::table::view::View;

/// Most attempts of a command.
const ATTEMPTS_MAX: usize = 500;
/// Dead letters that one command examines.
const EXAMINED_MAX: usize = 500;

/// Enqueues the delivery of the last of these firings of a trigger, unless the trigger has too
/// many pending ones.
pub(super) fn enqueue(
    context: &mut Context<'_>,
    compiled: &CompiledTrigger,
    firings: &mut Firings,
    event: TriggerEvent,
    present: &MemoryRecord,
) -> Result<FiringResult> {
    let tenant = context.tenant;
    let mut outbox = context.draft.outbox(tenant)?;
    if !outbox.has_room(firings.pending) {
        outbox.dropped += 1;
        context.push(Change::OutboxPut(tenant, outbox));
        return Ok(FiringResult::Dropped);
    }
    (outbox.pending, firings.pending) = (outbox.pending + 1, firings.pending + 1);
    context.push(Change::OutboxPut(tenant, outbox));
    let memory = &present.memory;
    let label = &memory.label[..memory.label.floor_char_boundary(DELIVERED_LABEL_BYTES_MAX)];
    let now = context.now();
    let delivery = Delivery {
        event,
        trigger_name: compiled.trigger.name.clone(),
        fired_at: now,
        memory: present.id,
        namespace: memory.namespace.clone(),
        label: label.to_owned(),
        memory_type: memory.memory_type,
        heat: present.heat,
        attempts: 0,
        attempts_before: 0,
        reason: String::new(),
        stage: DeliveryStage::Pending(now),
    };
    let cluster = context.draft.cluster()?;
    let number = cluster.map_or(firings.total, |cluster| cluster.delivery_number(firings.total));
    let id = DeliveryId { trigger: compiled.id, number };
    context.push(Change::DeliveryPut(tenant, id, delivery, None));
    Ok(FiringResult::Enqueued(id))
}

/// Records the outcomes of delivery attempts, each once: an attempt that an earlier leader recorded is
/// skipped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordAttempts(
    #[serde(deserialize_with = "bounded::<ATTEMPTS_MAX, _, _>")] pub Vec<Attempt>,
);

impl TenantRule for RecordAttempts {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        for attempt in &self.0 {
            if let Some(delivery) = context.draft.delivery(context.tenant, attempt.id)?
                && matches!(delivery.stage, DeliveryStage::Pending(_))
                && delivery.attempts + 1 == attempt.number
            {
                record(context, attempt, delivery)?;
            }
        }
        Ok(())
    }
}

fn record(context: &mut Context<'_>, attempt: &Attempt, before: Delivery) -> Result<()> {
    let now = context.now();
    let failed = |reason: &str, next: DeliveryNext| {
        let stage = match next {
            DeliveryNext::Retry(after_micros) => {
                DeliveryStage::Pending(Timestamp(now.0.saturating_add(after_micros)))
            }
            DeliveryNext::DeadLettered | DeliveryNext::TriggerDisabled => {
                DeliveryStage::DeadLettered(now)
            }
        };
        let reason = reason[..reason.floor_char_boundary(REASON_BYTES_MAX)].to_owned();
        let (delivery, number) = (attempt.id, attempt.number);
        let after = Delivery { attempts: number, reason: reason.clone(), stage, ..before.clone() };
        (EventKind::DeliveryFailed { delivery, attempt: number, reason, next }, Some(after))
    };
    let (kind, after) = match &attempt.outcome {
        AttemptOutcome::Delivered(status) => {
            let (delivery, attempt, status) = (attempt.id, attempt.number, *status);
            (EventKind::Delivered { delivery, attempt, status }, None)
        }
        AttemptOutcome::Failed { reason, retry_in_micros: Some(micros) } => {
            failed(reason, DeliveryNext::Retry((*micros).max(0)))
        }
        AttemptOutcome::Failed { reason, retry_in_micros: None } => {
            failed(reason, DeliveryNext::DeadLettered)
        }
        AttemptOutcome::Gone(updated_at) => {
            disable(context, attempt.id.trigger, *updated_at)?;
            failed("410 Gone", DeliveryNext::TriggerDisabled)
        }
        AttemptOutcome::Disabled => failed("the trigger is disabled", DeliveryNext::DeadLettered),
    };
    let subject = Some((before.memory, before.namespace.as_str()));
    context.draft.append(context.tenant, None, subject, kind);
    put(context, attempt.id, before.stage, after)
}

/// Cancels all pending deliveries of a trigger that is deleted.
pub(super) fn cancel(context: &mut Context<'_>, trigger: TriggerId) -> Result<()> {
    let tenant = context.tenant;
    let mut outbox = context.draft.outbox(tenant)?;
    if context.draft.firings(tenant, trigger)?.pending == 0 {
        return Ok(());
    }
    // Some 70 bytes each: one command holds the removal of all that may be pending.
    const { assert!(70 * PENDING_MAX as usize <= COMMAND_BYTES_MAX / 2) };
    for (key, _) in context.draft.rows(&prefix(Kind::Due, tenant), PENDING_MAX as usize)? {
        let (at, id) = timed_delivery_of(&key)?;
        if id.trigger == trigger {
            context.push(Change::DeliveryRemoved(tenant, id, DeliveryStage::Pending(at)));
            outbox.pending -= 1;
        }
    }
    context.push(Change::OutboxPut(tenant, outbox));
    Ok(())
}

/// Disables a trigger whose receiver returned 410, unless the trigger changed since.
fn disable(context: &mut Context<'_>, id: TriggerId, updated_at: Timestamp) -> Result<()> {
    if let Some(trigger) = context.draft.trigger(context.tenant, id)?
        && trigger.enabled
        && trigger.updated_at == updated_at
    {
        let trigger = Trigger { enabled: false, updated_at: context.now(), ..trigger };
        context.push(Change::TriggerPut(context.tenant, id, trigger));
    }
    Ok(())
}

/// Moves a delivery to its next stage, or removes it, and maintains the counts. The oldest dead
/// letter is removed when there are too many.
pub(super) fn put(
    context: &mut Context<'_>,
    id: DeliveryId,
    before: DeliveryStage,
    delivery: Option<Delivery>,
) -> Result<()> {
    let tenant = context.tenant;
    let mut outbox = context.draft.outbox(tenant)?;
    let counted = outbox;
    *count_of(&mut outbox, &before) -= 1;
    if let Some(delivery) = &delivery {
        *count_of(&mut outbox, &delivery.stage) += 1;
    }
    if outbox.pending != counted.pending {
        let mut firings = context.draft.firings(tenant, id.trigger)?;
        firings.pending = firings.pending + outbox.pending - counted.pending;
        context.push(Change::FiringsPut(tenant, id.trigger, firings));
    }
    context.push(match delivery {
        Some(delivery) => Change::DeliveryPut(tenant, id, delivery, Some(before)),
        None => Change::DeliveryRemoved(tenant, id, before),
    });
    if outbox.dead_letters > DEAD_LETTERS_MAX
        && let Some((key, _)) = context.draft.rows(&prefix(Kind::DeadLetter, tenant), 1)?.first()
    {
        let (at, oldest) = timed_delivery_of(key)?;
        outbox.dead_letters -= 1;
        context.push(Change::DeliveryRemoved(tenant, oldest, DeliveryStage::DeadLettered(at)));
    }
    if outbox != counted {
        context.push(Change::OutboxPut(tenant, outbox));
    }
    Ok(())
}

fn count_of<'a>(outbox: &'a mut Outbox, stage: &DeliveryStage) -> &'a mut u64 {
    match stage {
        DeliveryStage::Pending(_) => &mut outbox.pending,
        DeliveryStage::DeadLettered(_) => &mut outbox.dead_letters,
    }
}

/// Makes a dead letter pending again. One that the key may not replay looks like none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayDelivery(pub DeliveryId);

impl TenantRule for ReplayDelivery {
    type Reply = ReplayedDeliveries;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<ReplayedDeliveries> {
        replay_one(context, self.0).map_err(|error| match error {
            DecideError::Rejected(
                Rejection::NotOwner | Rejection::NamespaceForbidden(_) | Rejection::NoSuch(_),
            ) => Rejection::no_such("dead letter").into(),
            error => error,
        })?;
        Ok(ReplayedDeliveries { count: 1, next: None, is_limited: false })
    }
}

fn replay_one(context: &mut Context<'_>, id: DeliveryId) -> Decided<()> {
    let tenant = context.tenant;
    let dead = context.draft.delivery(tenant, id)?;
    let dead = dead.filter(|it| matches!(it.stage, DeliveryStage::DeadLettered(_)));
    let dead = dead.ok_or_else(|| Rejection::no_such("dead letter"))?;
    let trigger = context.draft.trigger(tenant, id.trigger)?;
    let trigger = trigger.ok_or_else(|| Rejection::no_such("trigger"))?;
    reject_if(!context.may_change(&trigger)?, Rejection::NotOwner)?;
    context.check_access(&dead.namespace)?;
    let firings = context.draft.firings(tenant, id.trigger)?;
    let has_room = context.draft.outbox(tenant)?.has_room(firings.pending);
    reject_if(!has_room, Rejection::too_many("pending deliveries", PENDING_MAX as usize))?;
    let (attempts_before, before) = (dead.attempts, dead.stage.clone());
    let stage = DeliveryStage::Pending(context.now());
    put(context, id, before, Some(Delivery { attempts_before, stage, ..dead }))?;
    Ok(())
}

/// Makes all dead letters after this one pending again, as many as one command may examine. Dead
/// letters of deleted triggers have no receiver and are removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayDeliveries(pub Option<DeadLetterCursor>);

impl TenantRule for ReplayDeliveries {
    type Reply = ReplayedDeliveries;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<ReplayedDeliveries> {
        let after = self.0;
        let (mut count, mut is_limited, mut excluded) = (0, false, BTreeSet::new());
        let mut examined = None;
        let dead = context.draft.base.dead_letters(context.tenant, after, EXAMINED_MAX)?;
        let mut next = dead.last().filter(|_| dead.len() == EXAMINED_MAX).copied();
        let mark = context.draft.mark();
        for (at, id) in dead {
            if context.draft.is_past_soft_limit(mark) {
                next = examined;
                break;
            }
            examined = Some((at, id));
            if excluded.contains(&id.trigger) {
                continue;
            }
            match replay_one(context, id) {
                Ok(()) => count += 1,
                Err(DecideError::Rejected(Rejection::NoSuch(_))) => {
                    // An earlier command of this batch may have replayed or removed it.
                    let stage = DeliveryStage::DeadLettered(at);
                    let delivery = context.draft.delivery(context.tenant, id)?;
                    if delivery.is_some_and(|delivery| delivery.stage == stage) {
                        put(context, id, stage, None)?;
                    }
                }
                Err(DecideError::Rejected(Rejection::TooMany { .. })) => {
                    is_limited = true;
                    excluded.insert(id.trigger);
                }
                // Dead letters that the key may not access stay.
                Err(DecideError::Rejected(Rejection::NamespaceForbidden(_))) => {}
                Err(DecideError::Rejected(Rejection::NotOwner)) => {
                    excluded.insert(id.trigger);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(ReplayedDeliveries { count, next, is_limited })
    }
}
