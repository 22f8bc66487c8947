//! Rules of the tick: what crossed `cold_threshold` since the last one, and what moves to
//! the cold tier. Goes in steps; the state holds how far it has come.

use crate::change::Change;
use crate::command::{Decision, Refusal, Reply};
use crate::decide::Draft;
use crate::decide::draft::BATCH_BYTES;
use crate::error::Result;
use crate::model::id::{MemoryId, TenantId};
use crate::model::journal::EventKind;
use crate::model::memory::{Memory, MemoryRecord, MemoryType};
use crate::model::tick::{Crossing, Stage, Tick};
use crate::table::view::View;

/// Most memories that one step judges or archives.
const STEP_MAX: usize = 1_000;

/// One step of a tenant's tick, if one is due or under way. Answers `Unfinished` as long
/// as it is not done.
pub(super) fn tick(draft: &mut Draft<'_>, tenant: TenantId) -> Result<Decision> {
    let (Some(row), Some(last)) = (draft.tenant(tenant)?, draft.tick(tenant)?) else {
        return Ok(Err(Refusal::WrongState("there is no such tenant".into())));
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
    tick.stage = match tick.stage {
        Stage::Judging(reached) => judge_some(draft, tenant, &tick, reached)?,
        Stage::Archiving(reached) => archive_some(draft, tenant, &tick, reached)?,
        Stage::Done => Stage::Done,
    };
    let reply = if tick.stage == Stage::Done { Reply::Done } else { Reply::Unfinished };
    draft.push(Change::TickPut(tenant, tick));
    Ok(Ok(reply))
}

fn judge_some(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    tick: &Tick,
    reached: Option<MemoryId>,
) -> Result<Stage> {
    let found = draft.base().cooled(tenant, tick, reached, STEP_MAX);
    let mark = draft.mark();
    for id in &found.crossed {
        // Earlier commands of this batch may have changed or deleted it.
        if let Some(present) = draft.present(tenant, *id)? {
            judge(draft, tenant, tick, &present);
        }
        if draft.bytes_since(mark) > BATCH_BYTES {
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

/// Appends what a tick has to say of one memory.
pub(super) fn judge(draft: &mut Draft<'_>, tenant: TenantId, tick: &Tick, present: &MemoryRecord) {
    if present.memory.archived_at.is_some() {
        return;
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
    let found = draft.base().cooled(tenant, tick, reached, STEP_MAX);
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
