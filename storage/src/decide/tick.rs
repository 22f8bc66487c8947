//! The decay tick: it evaluates the memories whose heat crossed a threshold since the last
//! tick, and archives cold ones. A tick takes bounded steps; the state holds how far it is.

use std::sync::Arc;

use model::audit::{AuditAction, Fields};
use model::decay::{Decay, heat};
use model::id::Timestamp;
use model::journal::EventKind;
use model::memory::{MemoryRecord, MemoryType};
use model::retention::{RetentionAction, RetentionRule, RetentionSubject, deciding};
use model::tick::{Stage, Tick, TickStep};
use model::trigger::Trigger;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, numbers};
use crate::decide::bulk::BulkFilter;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::BATCH_BYTES;
use crate::decide::fire::fire;
use crate::decide::memory;
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::error::Result;
use crate::reply::{Progress, Rejection};
use crate::search::{next_tick, thresholds};
use crate::table::view::View;

/// Most memories that one step evaluates or archives, if it finds them itself.
const STEP_MAX: usize = 1_000;

/// Takes the next step of the tenant's tick, if one is due. Without what it works on, it is found
/// meanwhile. If the state has changed so that it does not fit, nothing happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdvanceTick(pub Option<Box<TickStep>>);

impl TenantRule for AdvanceTick {
    type Reply = Progress;
    const CLASS: Class = Class::Background;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Progress> {
        advance(context, self.0.as_deref())
    }
}

impl AdvanceTick {
    /// The number of memories that it deleted.
    fn audit(&self, context: &Context<'_>, _reply: Option<&Progress>) -> Result<AuditedAct> {
        let is_deletion = |change: &&Change| matches!(change, Change::EventAppended(_, event) if matches!(event.kind, EventKind::Deleted(_)));
        let deleted = context.draft.changes_of_command().iter().filter(is_deletion).count();
        let fields = if deleted > 0 { numbers(&[("deleted", deleted)]) } else { Fields::new() };
        Ok(AuditedAct::new(AuditAction::RetentionDelete, "memories", fields))
    }
}

/// Takes one step of the tenant's tick, if one is due: `given`, if it fits the state.
fn advance(context: &mut Context<'_>, given: Option<&TickStep>) -> Decided<Progress> {
    let tenant = context.tenant;
    let (Some(row), Some(last)) = (context.draft.tenant(tenant)?, context.draft.tick(tenant)?)
    else {
        return Err(Rejection::WrongState("there is no such tenant".into()).into());
    };
    // As of the state that is read: what this batch anchors is younger.
    let clock = context.draft.position.clock;
    let until = given.map_or(clock, |given| given.tick.until.min(clock));
    let Some(mut tick) = next_tick(&last, &row, until) else { return Ok(Progress::Done) };
    let (rules, thresholds) = (&row.retention, thresholds(&context.draft.triggers(tenant), &tick));
    let step = match given {
        None => context.draft.base.tick_step(tenant, &tick, thresholds, rules, STEP_MAX),
        Some(given)
            if given.tick == tick && given.thresholds == thresholds && given.rules == *rules =>
        {
            given.clone()
        }
        Some(_) => return Ok(Progress::Partial),
    };
    context.draft.command.tick = Some(Arc::new(tick.clone()));
    tick.stage = match tick.stage {
        Stage::Evaluating(_) => evaluate_step(context, &step)?,
        Stage::Archiving(_) => archive_step(context, &step)?,
        Stage::Retaining(_) => retain_step(context, &step, rules)?,
        Stage::Done => Stage::Done,
    };
    let index = context.draft.base.index(tenant);
    let next_expiry = index.and_then(|index| index.read().next_expiry());
    let expires_none = next_expiry.is_none_or(|at| at > tick.until);
    if tick.stage == Stage::Retaining(None) && rules.is_empty() && expires_none {
        tick.stage = Stage::Done;
    }
    let progress = match tick.stage {
        Stage::Done => Progress::Done,
        _ => Progress::Partial,
    };
    context.push(Change::TickPut(tenant, tick));
    Ok(progress)
}

/// Takes a step that is due before the first trigger on ticks is enabled. Ticks that find nothing
/// are left out, so the last one may be long ago. What happened since then fires no new trigger.
pub(super) fn advance_before(context: &mut Context<'_>, trigger: &Trigger) -> Decided<()> {
    let tenant = context.tenant;
    let waits_for_ticks = trigger.enabled && trigger.event.is_of_ticks();
    let is_first = waits_for_ticks && !context.draft.triggers(tenant).has_tick_event();
    let is_done = |tick: &Tick| tick.stage == Stage::Done;
    if is_first && context.draft.tick(tenant)?.as_ref().is_some_and(is_done) {
        // Not in the name of the key that creates the trigger.
        advance(&mut Context { draft: &mut *context.draft, tenant, actor: None }, None)?;
    }
    Ok(())
}

fn evaluate_step(context: &mut Context<'_>, step: &TickStep) -> Decided<Stage> {
    let (tick, mark) = (&step.tick, context.draft.mark());
    for id in &step.candidates {
        // Earlier commands may have changed or deleted it.
        if let Some(present) = context.present(*id)? {
            context.evaluate_crossing(tick, &present)?;
            let reached = Stage::Evaluating(Some(*id));
            context.draft.command.tick = Some(Arc::new(Tick { stage: reached, ..tick.clone() }));
            fire(context.draft)?;
        }
        if context.draft.is_past_soft_limit(mark) {
            return Ok(Stage::Evaluating(Some(*id)));
        }
    }
    Ok(match step.candidates.last() {
        Some(last) if step.has_more => Stage::Evaluating(Some(*last)),
        _ if step.archivable > 0 => Stage::Archiving(None),
        _ => Stage::Retaining(None),
    })
}

fn archive_step(context: &mut Context<'_>, step: &TickStep) -> Decided<Stage> {
    let (tick, mark, mut excess) = (&step.tick, context.draft.mark(), step.archivable);
    for id in &step.candidates {
        if excess == 0 {
            return Ok(Stage::Retaining(None));
        }
        if let Some(present) = context.present(*id)?
            && may_archive(tick, &present)
        {
            context.move_to_cold_tier(&present)?;
            excess -= 1;
        }
        if context.draft.bytes_since(mark) > BATCH_BYTES {
            return Ok(Stage::Archiving(Some(*id)));
        }
    }
    Ok(match step.candidates.last() {
        Some(last) if step.has_more => Stage::Archiving(Some(*last)),
        _ => Stage::Retaining(None),
    })
}

/// Archives or deletes the memories on which a rule of retention is due, and deletes those that expired. A locked
/// one is archived in place of its deletion.
fn retain_step(
    context: &mut Context<'_>,
    step: &TickStep,
    rules: &[RetentionRule],
) -> Decided<Stage> {
    let (tick, mark) = (&step.tick, context.draft.mark());
    for id in &step.candidates {
        // Earlier commands may have deleted it.
        let Some(present) = context.present(*id)? else { continue };
        let has_expired = present.memory.expires_at().is_some_and(|at| at <= tick.until);
        let action = match has_expired {
            true => Some(RetentionAction::Delete),
            false => due_action(tick, rules, &present),
        };
        match action {
            Some(RetentionAction::Archive) => context.move_to_cold_tier(&present)?,
            Some(RetentionAction::Delete) if !present.memory.is_locked => {
                memory::delete(context, *id, &BulkFilter::default(), None)?;
            }
            Some(RetentionAction::Delete) if present.memory.archived_at.is_none() => {
                context.move_to_cold_tier(&present)?;
            }
            _ => {}
        }
        if context.draft.bytes_since(mark) > BATCH_BYTES {
            return Ok(Stage::Retaining(Some(*id)));
        }
    }
    Ok(match step.candidates.last() {
        Some(last) if step.has_more => Stage::Retaining(Some(*last)),
        _ => Stage::Done,
    })
}

/// What a rule of retention does to a memory now. Decides for the rows what `retention_due` decides
/// for the columns.
fn due_action(
    tick: &Tick,
    rules: &[RetentionRule],
    present: &MemoryRecord,
) -> Option<RetentionAction> {
    let MemoryRecord { memory, anchor, .. } = present;
    let subject = RetentionSubject {
        is_pinned: memory.is_pinned,
        is_archived: memory.archived_at.is_some(),
        used_at: used_at(present),
        heat_at: |at| heat(anchor, Decay::of(memory, &tick.thermo), at),
    };
    let deciding = deciding(rules, &memory.namespace, memory.memory_type);
    let at = subject.due(rules, deciding, &tick.thermo, tick.until)?;
    rules.get(at).map(|rule| rule.action)
}

/// The last time that a memory was recalled, changed, rated or archived.
fn used_at(present: &MemoryRecord) -> Timestamp {
    let MemoryRecord { memory, anchor, .. } = present;
    anchor.at.max(memory.updated_at).max(anchor.last_recall.unwrap_or_default())
}

/// Whether a memory belongs to those that ticks archive. Decides for the rows what
/// `tick_candidates` decides for the columns.
fn may_archive(tick: &Tick, present: &MemoryRecord) -> bool {
    let MemoryRecord { memory, anchor, .. } = present;
    let heat_at = |at| heat(anchor, Decay::of(memory, &tick.thermo), at);
    !memory.is_pinned
        && memory.memory_type != MemoryType::Procedural
        && memory.archived_at.is_none()
        && tick.thermo.is_long_cold(tick.until, used_at(present), heat_at)
}
