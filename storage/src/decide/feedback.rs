//! Rules for what somebody says of a memory: it was relevant, is outdated, is wrong.

use crate::change::Change;
use crate::command::{Decision, FeedbackReply, Rejection, Reply, Signal};
use crate::decide::Draft;
use crate::decide::fire::emit;
use crate::decide::recall::strengthened;
use crate::decide::tenant::check_access;
use crate::error::Result;
use crate::model::heat::{Anchor, Cooling};
use crate::model::id::{MemoryId, TenantId};
use crate::model::journal::EventKind;
use crate::model::memory::Memory;
use crate::model::score::rounded;
use crate::model::tenant::KeyId;
use crate::model::trigger::TriggerEvent;
use crate::table::view::View;

/// Share of what is missing to heat 1 that `relevant` gives.
const RELEVANT_GAIN: f64 = 0.2;
/// What is remembered when `relevant` strengthens: as much as after one half-life.
const RELEVANT_RETENTION: f64 = 0.5;
/// Share of its heat that `irrelevant` leaves.
const IRRELEVANT_REST: f64 = 0.3;
/// Heat that `outdated` leaves at most.
const OUTDATED_HEAT: f64 = 0.01;

pub(super) fn feedback(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    actor: Option<KeyId>,
    id: MemoryId,
    signal: Signal,
) -> Result<Decision> {
    let Some(present) = draft.present(tenant, id)? else { return Ok(Err(Rejection::NotFound)) };
    if let Err(rejection) = check_access(draft, tenant, actor, &present.memory.namespace)? {
        return Ok(Err(rejection));
    }
    let thermo = draft.thermo(tenant)?;
    let gain = thermo.profile(present.memory.memory_type).stability_gain;
    let (heat, stability) = (present.heat, present.anchor.stability);
    let (heat_after, stability_after) = match signal {
        Signal::Relevant => {
            (heat + RELEVANT_GAIN * (1.0 - heat), strengthened(stability, gain, RELEVANT_RETENTION))
        }
        Signal::Irrelevant => (heat * IRRELEVANT_REST, stability),
        Signal::Outdated => {
            let floor = f64::from(Cooling::of(&present.memory, &thermo).floor);
            (heat.min(floor).min(OUTDATED_HEAT), stability)
        }
        Signal::Wrong => (heat, stability),
    };
    if signal != Signal::Wrong {
        let anchor = Anchor { stability: stability_after, ..present.anchor };
        draft.anchor(tenant, &present, anchor.with_heat(heat_after as f32))?;
    }
    if rounded(heat_after) > rounded(heat) {
        emit(draft, tenant, TriggerEvent::Boost, id);
    }
    let memory = Memory {
        is_flagged: present.memory.is_flagged || signal == Signal::Wrong,
        updated_at: draft.now(),
        ..present.memory.clone()
    };
    let said = vec![signal.name().to_owned()];
    draft.append(tenant, actor, EventKind::Feedback, (id, &memory), said);
    draft.push(Change::MemoryPut(tenant, id, memory));
    let mut stats = draft.recall_stats(tenant)?;
    let of_type = &mut stats.types[present.memory.memory_type as usize];
    *match signal {
        Signal::Relevant => &mut of_type.relevant,
        Signal::Irrelevant => &mut of_type.irrelevant,
        Signal::Outdated => &mut of_type.outdated,
        Signal::Wrong => &mut of_type.wrong,
    } += 1;
    draft.push(Change::RecallStatsPut(tenant, stats));
    let after = draft.present(tenant, id)?;
    Ok(Ok(Reply::Feedback(FeedbackReply {
        id,
        heat_before: heat,
        heat_after: after.as_ref().map_or(heat, |after| after.heat),
        stability_before: stability,
        stability_after,
    })))
}
