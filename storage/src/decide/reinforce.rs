//! What a recall does to a memory: it raises heat and stability, and the heat of its neighbours.
//!
//! Spaced repetition: the less of a memory is retained (`r`), the more a recall strengthens it
//! (`1 − r`). Resonance: a share of the gained heat spreads over edges, damped per hop.

use std::collections::BTreeSet;

use model::decay::Decay;
use model::heat::{Anchor, STABILITY_MAX};
use model::id::Timestamp;
use model::memory::{Memory, MemoryRecord, Tier};
use model::thermo::Thermo;

use crate::decide::context::{Context, RESTORED_HEAT};
use crate::decide::duplicate;
use crate::error::{Error, Result};

/// Most neighbours of one memory that a recall warms, those with the strongest edges first.
const NEIGHBOURS_MAX: usize = 16;
/// Most memories that one recall warms besides its own.
const RESONANCE_MAX: usize = 64;
/// Smaller increments of heat are not written.
const INCREMENT_MIN: f64 = 0.005;
/// Highest heat that `outdated` leaves.
const OUTDATED_HEAT: f64 = 0.01;

/// Recalls a memory: [restores](restored) it, and warms it, at most once per `recall_min_interval`. An echo is not warmed, nor what stays archived. Returns its heat before and after,
/// if that is more than a count.
pub(super) fn reinforce(
    context: &mut Context<'_>,
    present: MemoryRecord,
    times: u32,
) -> Result<Option<(f64, f64)>> {
    let present = restored(context, present)?;
    let present = kept(context, present)?;
    let (now, thermo) = (context.now(), context.thermo()?);
    let recall_count = present.anchor.recall_count.saturating_add(times);
    let reinforcement = &thermo.reinforcement;
    let interval = i64::from(reinforcement.recall_min_interval_seconds) * Timestamp::SECOND_MICROS;
    let is_recent = present.anchor.last_recall.is_some_and(|last| now.since(last) < interval);
    let profile = thermo.profile(present.memory.memory_type);
    let is_echo = duplicate::source(context, &present.memory)?.is_some();
    // Another one replaces it.
    let is_archived = present.memory.tier() == Tier::Cold;
    if is_recent || is_echo || is_archived || !profile.reinforce_on_recall {
        let (heat, anchor) = (present.heat as f32, present.anchor);
        context.anchor(&present, Anchor { heat, recall_count, ..anchor })?;
        return Ok(None);
    }
    let heat = present.heat + reinforcement.on_recall * (1.0 - present.heat);
    let stability = strengthened(&present, &thermo, now);
    let (anchor, last_recall) = (present.anchor, Some(now));
    let anchor = Anchor { heat: heat as f32, stability, recall_count, last_recall, ..anchor };
    context.anchor(&present, anchor)?;
    resonate(context, &thermo, &present, heat - present.heat)?;
    Ok(Some((present.heat, heat)))
}

/// A memory whose end each recall puts off. That is no update.
fn kept(context: &mut Context<'_>, present: MemoryRecord) -> Result<MemoryRecord> {
    if !present.memory.times.as_deref().is_some_and(|times| times.refresh_on_read) {
        return Ok(present);
    }
    let now = context.now();
    let times = present.memory.times_with(|times| *times = times.kept_from(now));
    let memory = Memory { times, ..present.memory };
    context.put_memory(present.id, memory.clone())?;
    Ok(MemoryRecord { memory, ..present })
}

/// A memory that is used: out of the cold tier, unless another one replaces it, or it waits in quarantine.
pub(super) fn restored(context: &mut Context<'_>, present: MemoryRecord) -> Result<MemoryRecord> {
    let Memory { superseded_by, guard, .. } = &present.memory;
    let stays = superseded_by.is_some() || guard.is_quarantined();
    if present.memory.tier() == Tier::Hot || stays {
        return Ok(present);
    }
    // A recall is no update.
    context.move_to_hot_tier(&present, present.memory.updated_at, RESTORED_HEAT)?;
    let returned_at = present.anchor.returned_at;
    let restored = context.present(present.id)?;
    let missing = || Error::missing("memory", context.tenant, present.id);
    let restored = restored.ok_or_else(missing)?;
    Ok(MemoryRecord { anchor: Anchor { returned_at, ..restored.anchor }, ..restored })
}

/// The stability after a use of a memory: the less of it is retained since the last one, the more it rises.
pub(super) fn strengthened(present: &MemoryRecord, thermo: &Thermo, now: Timestamp) -> f32 {
    let gain = thermo.profile(present.memory.memory_type).stability_gain;
    let retention = retention(present, thermo, now);
    let strengthened =
        f64::from(present.anchor.stability) * (1.0 + (gain - 1.0) * (1.0 - retention));
    (strengthened as f32).min(STABILITY_MAX)
}

/// The share of a memory that is retained since its last recall, else its creation, 0 to 1.
fn retention(present: &MemoryRecord, thermo: &Thermo, now: Timestamp) -> f64 {
    let since = present.anchor.last_recall.unwrap_or(present.memory.created_at);
    let rate = Decay::of(&present.memory, thermo).rate / f64::from(present.anchor.stability);
    libm::exp2(-(now.since(since) as f64) * rate)
}

/// Spreads a share of the gained heat over edges, breadth first. A share of the gain, not of
/// the heat: a hot neighbourhood cannot heat itself. It stays in one namespace, since a heat would
/// tell of recalls in a namespace that is closed to a key.
fn resonate(
    context: &mut Context<'_>,
    thermo: &Thermo,
    recalled: &MemoryRecord,
    gained: f64,
) -> Result<()> {
    let (id, namespace, resonance) = (recalled.id, &recalled.memory.namespace, &thermo.resonance);
    let mut increment = gained * resonance.spread_factor;
    // Each memory once, over the shortest path. The recalled memory counts in addition.
    let mut visited = BTreeSet::from([id]);
    let mut frontier = vec![id];
    for _ in 0..resonance.depth {
        if increment < INCREMENT_MIN {
            break;
        }
        let mut next = Vec::new();
        for from in frontier {
            // The strongest edges come first.
            let others = context.edges(from)?.into_iter().map(|edge| edge.other(from));
            let room = NEIGHBOURS_MAX.min(RESONANCE_MAX + 1 - visited.len());
            for other in others.filter(|other| visited.insert(*other)).take(room) {
                // Both ends of an edge exist.
                let missing = || Error::missing("end of an edge", context.tenant, other);
                let present = context.present(other)?.ok_or_else(missing)?;
                if present.memory.namespace == *namespace
                    && warm(context, &present, increment, resonance.thermal_gate)?
                {
                    next.push(other);
                }
            }
        }
        frontier = next;
        increment *= resonance.damping;
    }
    Ok(())
}

/// Warms a neighbour. Returns false if it is below the thermal gate, archived or an echo: it neither
/// receives heat nor passes it on.
fn warm(
    context: &mut Context<'_>,
    present: &MemoryRecord,
    increment: f64,
    gate: f64,
) -> Result<bool> {
    let is_echo = duplicate::source(context, &present.memory)?.is_some();
    if present.heat < gate || is_echo || present.memory.tier() == Tier::Cold {
        return Ok(false);
    }
    let heat = (present.heat + increment).min(1.0);
    if heat - present.heat < INCREMENT_MIN {
        return Ok(true);
    }
    context.anchor(present, Anchor { heat: heat as f32, ..present.anchor })?;
    Ok(true)
}

/// The heat of a memory that no longer holds: it becomes cold.
pub(super) fn outdated_heat(present: &MemoryRecord, thermo: &Thermo) -> f64 {
    let floor = f64::from(Decay::of(&present.memory, thermo).floor);
    present.heat.min(floor).min(OUTDATED_HEAT)
}
