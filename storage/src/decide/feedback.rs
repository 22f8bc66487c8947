//! Rules for feedback: how a signal changes the heat, stability and review flag of a memory.

use crate::change::Change;
use crate::decide::context::Context;
use crate::decide::error::Decided;
use crate::decide::recall::strengthened;
use crate::model::decay::Decay;
use crate::model::feedback::Signal;
use crate::model::heat::Anchor;
use crate::model::id::MemoryId;
use crate::model::journal::EventKind;
use crate::model::memory::Memory;
use crate::model::score::rounded;
use crate::model::trigger::TriggerEvent;
use crate::reply::{FeedbackReply, Reply};
use crate::table::view::View;

/// Share of the distance to heat 1 that `relevant` adds.
const RELEVANT_GAIN: f64 = 0.2;
/// Retention that `relevant` strengthens by: that after one half-life.
const RELEVANT_RETENTION: f64 = 0.5;
/// Share of its heat that `irrelevant` leaves.
const IRRELEVANT_REST: f64 = 0.3;
/// Highest heat that `outdated` leaves.
const OUTDATED_HEAT: f64 = 0.01;

pub(super) fn give(context: &mut Context<'_, '_>, id: MemoryId, signal: Signal) -> Decided<Reply> {
    let present = context.existing(id)?;
    context.check_access(&present.memory.namespace)?;
    let thermo = context.thermo()?;
    let gain = thermo.profile(present.memory.memory_type).stability_gain;
    let (heat, stability) = (present.heat, present.anchor.stability);
    let (heat_after, stability_after) = match signal {
        Signal::Relevant => {
            (heat + RELEVANT_GAIN * (1.0 - heat), strengthened(stability, gain, RELEVANT_RETENTION))
        }
        Signal::Irrelevant => (heat * IRRELEVANT_REST, stability),
        Signal::Outdated => {
            let floor = f64::from(Decay::of(&present.memory, &thermo).floor);
            (heat.min(floor).min(OUTDATED_HEAT), stability)
        }
        Signal::Wrong => (heat, stability),
    };
    if signal != Signal::Wrong {
        let anchor = Anchor { stability: stability_after, ..present.anchor };
        context.anchor(&present, anchor.with_heat(heat_after as f32))?;
    }
    if rounded(heat_after) > rounded(heat) {
        context.emit(TriggerEvent::Boost, id);
    }
    let memory = Memory {
        is_flagged: present.memory.is_flagged || signal == Signal::Wrong,
        updated_at: context.now(),
        ..present.memory.clone()
    };
    context.append(id, &memory, EventKind::Feedback { signal });
    context.push(Change::MemoryPut(context.tenant, id, memory));
    count(context, &present.memory, signal)?;
    let after = context.present(id)?;
    Ok(Reply::Feedback(FeedbackReply {
        id,
        heat_before: heat,
        heat_after: after.as_ref().map_or(heat, |after| after.heat),
        stability_before: stability,
        stability_after,
    }))
}

fn count(context: &mut Context<'_, '_>, memory: &Memory, signal: Signal) -> Decided<()> {
    let mut stats = context.draft.recall_stats(context.tenant)?;
    let of_type = &mut stats.types[memory.memory_type as usize];
    *match signal {
        Signal::Relevant => &mut of_type.relevant,
        Signal::Irrelevant => &mut of_type.irrelevant,
        Signal::Outdated => &mut of_type.outdated,
        Signal::Wrong => &mut of_type.wrong,
    } += 1;
    context.push(Change::RecallStatsPut(context.tenant, stats));
    Ok(())
}
