//! Rules of the decay tick: it finds the memories whose heat crossed a threshold since the last
//! tick, and archives cold ones. A tick takes bounded steps; the state holds how far it is.

use std::sync::Arc;

use crate::change::Change;
use crate::command::BulkFilter;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::BATCH_BYTES;
use crate::decide::fire::fire;
use crate::decide::memory;
use crate::model::decay::{Decay, heat};
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::{MemoryRecord, MemoryType};
use crate::model::retention::{RetentionAction, RetentionRule, RetentionSubject, deciding};
use crate::model::score::rounded;
use crate::model::tick::{Stage, Tick};
use crate::model::trigger::Trigger;
use crate::reply::{Rejection, Reply};
use crate::search::DueRequest;
use crate::table::view::View;

/// Most memories that one step evaluates or archives.
const STEP_MAX: usize = 1_000;

/// Takes one step of the tenant's tick, if one is due. Replies `Partial` until it is done.
pub(super) fn advance(context: &mut Context<'_>) -> Decided<Reply> {
    let tenant = context.tenant;
    let (Some(row), Some(last)) = (context.draft.tenant(tenant)?, context.draft.tick(tenant)?)
    else {
        return Err(Rejection::WrongState("there is no such tenant".into()).into());
    };
    let mut tick = match last.stage {
        Stage::Done => {
            // As of the state that is read: what this batch anchors is younger.
            let until = context.draft.position.clock;
            if last.due_at(row.thermo.tick_interval_seconds) > until {
                return Ok(Reply::Done);
            }
            last.next(until, &row.thermo)
        }
        _ => last,
    };
    context.draft.command.tick = Some(Arc::new(tick.clone()));
    let rules = &row.retention;
    tick.stage = match tick.stage {
        Stage::Evaluating(reached) => evaluate_step(context, &tick, reached)?,
        Stage::Archiving(reached) => archive_step(context, &tick, reached)?,
        Stage::Retaining(reached) => retain_step(context, &tick, rules, reached)?,
        Stage::Done => Stage::Done,
    };
    if tick.stage == Stage::Retaining(None) && rules.is_empty() {
        tick.stage = Stage::Done;
    }
    let reply = if tick.stage == Stage::Done { Reply::Done } else { Reply::Partial };
    context.push(Change::TickPut(tenant, tick));
    Ok(reply)
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
        advance(&mut Context { draft: &mut *context.draft, tenant, actor: None })?;
    }
    Ok(())
}

fn evaluate_step(
    context: &mut Context<'_>,
    tick: &Tick,
    reached: Option<MemoryId>,
) -> Decided<Stage> {
    let thresholds = thresholds(context, tick);
    let reader = &context.draft.base;
    let found = reader.tick_candidates(context.tenant, tick, &thresholds, reached, STEP_MAX);
    let mark = context.draft.mark();
    for id in &found.crossed {
        // Earlier commands of this batch may have changed or deleted it.
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
    Ok(match found.crossed.last() {
        Some(last) if found.crossed.len() == STEP_MAX => Stage::Evaluating(Some(*last)),
        _ if found.archivable > 0 => Stage::Archiving(None),
        _ => Stage::Retaining(None),
    })
}

/// The heats at which triggers may begin or cease to hold, in order.
fn thresholds(context: &Context<'_>, tick: &Tick) -> Vec<f64> {
    let triggers = context.draft.triggers(context.tenant);
    if !triggers.has_tick_event() {
        return Vec::new();
    }
    let mut thresholds = triggers.thresholds().to_vec();
    // The bound of triggers that name none.
    thresholds.push(rounded(tick.thermo.consolidation.cold_threshold));
    thresholds.sort_by(f64::total_cmp);
    thresholds
}

fn archive_step(
    context: &mut Context<'_>,
    tick: &Tick,
    reached: Option<MemoryId>,
) -> Decided<Stage> {
    let reader = &context.draft.base;
    let found = reader.tick_candidates(context.tenant, tick, &[], reached, STEP_MAX);
    let mark = context.draft.mark();
    let mut excess = found.archivable;
    for id in &found.cold {
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
    Ok(match found.cold.last() {
        Some(last) if found.cold.len() == STEP_MAX => Stage::Archiving(Some(*last)),
        _ => Stage::Retaining(None),
    })
}

/// Archives or deletes the memories on which a rule of retention is due.
fn retain_step(
    context: &mut Context<'_>,
    tick: &Tick,
    rules: &[RetentionRule],
    reached: Option<MemoryId>,
) -> Decided<Stage> {
    let (reader, tenant) = (&context.draft.base, context.tenant);
    let (thermo, now) = (&tick.thermo, tick.until);
    let request = DueRequest { rules, thermo, now, reached, limit: STEP_MAX };
    let (due, _) = reader.retention_due(tenant, &request);
    let mark = context.draft.mark();
    for id in &due {
        let Some(present) = context.present(*id)? else { continue };
        match due_action(tick, rules, &present) {
            Some(RetentionAction::Archive) => context.move_to_cold_tier(&present)?,
            Some(RetentionAction::Delete) if !present.memory.is_locked => {
                memory::delete(context, *id, &BulkFilter::default())?;
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
    Ok(match due.last() {
        Some(last) if due.len() == STEP_MAX => Stage::Retaining(Some(*last)),
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
