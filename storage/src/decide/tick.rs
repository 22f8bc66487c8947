//! Rules of the tick: what crossed `cold_threshold` since the last one, and what moves to
//! the cold tier. Goes in steps; the state holds how far it has come.

use std::sync::Arc;

use crate::change::Change;
use crate::command::{Decision, Rejection, Reply};
use crate::decide::Draft;
use crate::decide::draft::BATCH_BYTES;
use crate::decide::fire::{emit_transition, fire};
use crate::error::Result;
use crate::model::id::{MemoryId, TenantId};
use crate::model::journal::EventKind;
use crate::model::memory::{Memory, MemoryRecord, MemoryType};
use crate::model::score::rounded;
use crate::model::tick::{Crossing, Stage, Tick};
use crate::model::trigger::TriggerEvent;
use crate::table::view::View;

/// Most memories that one step judges or archives.
const STEP_MAX: usize = 1_000;

/// One step of a tenant's tick, if one is due or under way. Answers `Unfinished` as long
/// as it is not done.
pub(super) fn tick(draft: &mut Draft<'_>, tenant: TenantId) -> Result<Decision> {
    let (Some(row), Some(last)) = (draft.tenant(tenant)?, draft.tick(tenant)?) else {
        return Ok(Err(Rejection::WrongState("there is no such tenant".into())));
    };
    let mut tick = match last.stage {
        Stage::Done => {
            // As of the state that is looked at: what this batch anchors is younger.
            let until = draft.clock();
            if !last.is_due(until, row.thermo.tick_interval_seconds) {
                return Ok(Ok(Reply::Done));
            }
            last.next(until, &row.thermo)
        }
        _ => last,
    };
    draft.command.tick = Some(Arc::new(tick.clone()));
    tick.stage = match tick.stage {
        Stage::Judging(reached) => judge_some(draft, tenant, &tick, reached)?,
        Stage::Archiving(reached) => archive_some(draft, tenant, &tick, reached)?,
        Stage::Done => Stage::Done,
    };
    let reply = if tick.stage == Stage::Done { Reply::Done } else { Reply::Partial };
    draft.push(Change::TickPut(tenant, tick));
    Ok(Ok(reply))
}

fn judge_some(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    tick: &Tick,
    reached: Option<MemoryId>,
) -> Result<Stage> {
    let found = draft.base().tick_candidates(
        tenant,
        tick,
        &thresholds(draft, tenant, tick),
        reached,
        STEP_MAX,
    );
    let mark = draft.mark();
    for id in &found.crossed {
        // Earlier commands of this batch may have changed or deleted it.
        if let Some(present) = draft.present(tenant, *id)? {
            judge(draft, tenant, tick, &present);
            let reached = Stage::Judging(Some(*id));
            draft.command.tick = Some(Arc::new(Tick { stage: reached, ..tick.clone() }));
            fire(draft)?;
        }
        if draft.is_past_soft_limit(mark) {
            return Ok(Stage::Judging(Some(*id)));
        }
    }
    Ok(match found.crossed.last() {
        Some(last) if found.crossed.len() == STEP_MAX => Stage::Judging(Some(*last)),
        _ if found.cold_count >= u64::from(tick.thermo.consolidation.cold_count_trigger) => {
            Stage::Archiving(None)
        }
        _ => Stage::Done,
    })
}

/// Heats that triggers ask a tick about, in order.
fn thresholds(draft: &Draft<'_>, tenant: TenantId, tick: &Tick) -> Vec<f64> {
    let triggers = draft.triggers(tenant);
    let waits = |event: &TriggerEvent| triggers.has_event(*event);
    if ![TriggerEvent::Decay, TriggerEvent::Threshold].iter().any(waits) {
        return Vec::new();
    }
    let mut thresholds = triggers.thresholds().to_vec();
    // The bound of those that name none.
    thresholds.push(rounded(tick.thermo.consolidation.cold_threshold));
    thresholds.sort_by(f64::total_cmp);
    thresholds
}

/// Appends what a tick has to say of one memory, and has triggers asked.
pub(super) fn judge(draft: &mut Draft<'_>, tenant: TenantId, tick: &Tick, present: &MemoryRecord) {
    if present.memory.archived_at.is_some() {
        return;
    }
    let Some(transition) = tick.transition(&present.memory, &present.anchor) else { return };
    for event in [TriggerEvent::Decay, TriggerEvent::Threshold] {
        emit_transition(draft, tenant, event, present.id, transition);
    }
    let kind = match tick.crossing(&present.memory, &present.anchor) {
        Some(Crossing::Cooled) => EventKind::Cooled,
        Some(Crossing::Warmed) => EventKind::Warmed,
        None => return,
    };
    draft.append(tenant, None, kind, (present.id, &present.memory), Vec::new());
}

fn archive_some(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    tick: &Tick,
    reached: Option<MemoryId>,
) -> Result<Stage> {
    let found = draft.base().tick_candidates(tenant, tick, &[], reached, STEP_MAX);
    let mark = draft.mark();
    for id in &found.cold {
        if let Some(present) = draft.present(tenant, *id)?
            && may_be_archived(&present.memory)
            && tick.thermo.is_cold(present.heat)
        {
            archive(draft, tenant, &present)?;
        }
        if draft.bytes_since(mark) > BATCH_BYTES {
            return Ok(Stage::Archiving(Some(*id)));
        }
    }
    Ok(match found.cold.last() {
        Some(last) if found.cold.len() == STEP_MAX => Stage::Archiving(Some(*last)),
        _ => Stage::Done,
    })
}

/// Decay takes neither what is pinned nor how something is done.
fn may_be_archived(memory: &Memory) -> bool {
    !memory.is_pinned
        && memory.memory_type != MemoryType::Procedural
        && memory.archived_at.is_none()
}

/// Moves a memory to the cold tier, where it keeps the heat that it has.
fn archive(draft: &mut Draft<'_>, tenant: TenantId, present: &MemoryRecord) -> Result<()> {
    let memory = Memory { archived_at: Some(draft.now()), ..present.memory.clone() };
    draft.anchor(tenant, present, present.anchor.with_heat(present.heat as f32))?;
    draft.append(tenant, None, EventKind::Archived, (present.id, &memory), Vec::new());
    draft.push(Change::MemoryPut(tenant, present.id, memory));
    Ok(())
}
