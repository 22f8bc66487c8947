//! Rules of the decay tick: it finds the memories whose heat crossed a threshold since the last
//! tick, and archives cold ones. A tick takes bounded steps; the state holds how far it is.

use std::sync::Arc;

use crate::change::Change;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::BATCH_BYTES;
use crate::decide::fire::fire;
use crate::error::Result;
use crate::model::decay::{Decay, heat};
use crate::model::heat::Anchor;
use crate::model::id::MemoryId;
use crate::model::journal::EventKind;
use crate::model::memory::{Memory, MemoryRecord, MemoryType};
use crate::model::score::rounded;
use crate::model::tick::{Stage, Tick};
use crate::model::trigger::TriggerEvent;
use crate::reply::{Rejection, Reply};
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
            if !last.is_due(until, row.thermo.tick_interval_seconds) {
                return Ok(Reply::Done);
            }
            last.next(until, &row.thermo)
        }
        _ => last,
    };
    context.draft.command.tick = Some(Arc::new(tick.clone()));
    tick.stage = match tick.stage {
        Stage::Evaluating(reached) => evaluate_step(context, &tick, reached)?,
        Stage::Archiving(reached) => archive_step(context, &tick, reached)?,
        Stage::Done => Stage::Done,
    };
    let reply = if tick.stage == Stage::Done { Reply::Done } else { Reply::Partial };
    context.push(Change::TickPut(tenant, tick));
    Ok(reply)
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
            context.evaluate_crossing(tick, &present);
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
        _ => Stage::Done,
    })
}

/// The heats at which triggers may begin or cease to hold, in order.
fn thresholds(context: &Context<'_>, tick: &Tick) -> Vec<f64> {
    let triggers = context.draft.triggers(context.tenant);
    if !triggers.has_event(TriggerEvent::Decay) && !triggers.has_event(TriggerEvent::Threshold) {
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
            return Ok(Stage::Done);
        }
        if let Some(present) = context.present(*id)?
            && may_archive(tick, &present)
        {
            archive(context, &present)?;
            excess -= 1;
        }
        if context.draft.bytes_since(mark) > BATCH_BYTES {
            return Ok(Stage::Archiving(Some(*id)));
        }
    }
    Ok(match found.cold.last() {
        Some(last) if found.cold.len() == STEP_MAX => Stage::Archiving(Some(*last)),
        _ => Stage::Done,
    })
}

/// Whether a memory belongs to those that ticks archive. Decides for the rows what
/// `tick_candidates` decides for the columns.
fn may_archive(tick: &Tick, present: &MemoryRecord) -> bool {
    let MemoryRecord { memory, anchor, .. } = present;
    let used_at = anchor.at.max(memory.updated_at).max(anchor.last_recall.unwrap_or_default());
    let heat_at = |at| heat(anchor, Decay::of(memory, &tick.thermo), at);
    !memory.is_pinned
        && memory.memory_type != MemoryType::Procedural
        && memory.archived_at.is_none()
        && tick.thermo.is_long_cold(tick.until, used_at, heat_at)
}

/// Moves a memory to the cold tier, where it keeps its heat.
fn archive(context: &mut Context<'_>, present: &MemoryRecord) -> Result<()> {
    let memory = Memory { archived_at: Some(context.now()), ..present.memory.clone() };
    context.anchor(present, Anchor { heat: present.heat as f32, ..present.anchor })?;
    context.append(present.id, &memory, EventKind::Archived);
    context.push(Change::MemoryPut(context.tenant, present.id, memory));
    Ok(())
}
