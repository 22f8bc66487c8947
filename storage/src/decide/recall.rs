//! Rules of recall: what searches returned warms and strengthens, and warms what it is
//! related to. Arrives as reports, one a node and half second at most.
//!
//! Spaced repetition: the more was forgotten (`1 − r`), the more a recall strengthens.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::command::{Decision, Reply};
use crate::decide::draft::Mark;
use crate::decide::fire::{emit_times, fire};
use crate::decide::{BATCH_BYTES, Draft};
use crate::error::Result;
use crate::model::analytics::{LastReport, RecallStats, Report, TenantReport, Usage};
use crate::model::heat::{Anchor, Cooling, STABILITY_MAX};
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::memory::{MemoryRecord, Tier};
use crate::model::tenant::ApiKey;
use crate::model::thermo::Thermo;
use crate::model::trigger::TriggerEvent;
use crate::table::key::Key;
use crate::table::view::View;

/// Most neighbours of one memory that a recall warms, the strongest edges first.
const NEIGHBOURS_MAX: usize = 16;
/// Most memories that one recall warms besides its own.
const RESONANCE_MAX: usize = 64;
/// Bytes that the firings of one report decide to at most.
const FIRED_BYTES_MAX: usize = 512 << 10;
/// Less is not written.
const INCREMENT_MIN: f64 = 0.005;

/// Counts and warms what a node reports, once.
pub(super) fn observed(draft: &mut Draft<'_>, report: &Report) -> Result<Decision> {
    let last: Option<LastReport> = draft.record(&Key::LastReport(report.node))?;
    if last.is_some_and(|last| last.boot == report.boot && last.number >= report.number) {
        return Ok(Ok(Reply::Done));
    }
    let mark = draft.mark();
    for of_tenant in &report.tenants {
        // What fires for one tenant takes nothing from another, nor from what is counted.
        draft.command.fired_bytes_max =
            Some(draft.command.fired_bytes + FIRED_BYTES_MAX / report.tenants.len());
        observed_of(draft, of_tenant, mark)?;
    }
    let last = LastReport { boot: report.boot, number: report.number };
    draft.push(Change::LastReportPut(report.node, last));
    Ok(Ok(Reply::Done))
}

fn observed_of(draft: &mut Draft<'_>, report: &TenantReport, mark: Mark) -> Result<()> {
    let tenant = report.tenant;
    // One that is gone meanwhile.
    if draft.tenant(tenant)?.is_none() {
        return Ok(());
    }
    let thermo = draft.thermo(tenant)?;
    let known = draft.recall_stats(tenant)?;
    let mut stats = known.clone();
    for (id, times) in &report.recalls {
        // What one command may write is bounded: what comes after is counted only.
        let warm = draft.bytes_since(mark) - draft.command.fired_bytes < BATCH_BYTES;
        recalled(draft, tenant, &thermo, (*id, *times, warm), &mut stats)?;
        emit_times(draft, tenant, TriggerEvent::Recall, *id, *times);
        fire(draft)?;
    }
    stats.searches += report.searches;
    stats.searches_with_results += report.searches_with_results;
    if stats != known {
        draft.push(Change::RecallStatsPut(tenant, stats));
    }
    if report.usage != Usage::default() {
        let month = draft.now().month();
        let mut usage = draft.usage(tenant, month)?;
        usage.add(&report.usage);
        draft.push(Change::UsagePut(tenant, month, usage));
    }
    for (id, used_at) in &report.keys {
        if let Some(key) = draft.record::<ApiKey>(&Key::ApiKey(tenant, *id))? {
            let last_used_at = key.last_used_at.max(Some(*used_at));
            draft.push(Change::ApiKeyPut(tenant, *id, ApiKey { last_used_at, ..key }));
        }
    }
    Ok(())
}

/// A memory was returned so many times. It is warmed once in `recall_min_interval` at
/// most; further returns are counted.
fn recalled(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    thermo: &Thermo,
    (id, times, warm): (MemoryId, u32, bool),
    stats: &mut RecallStats,
) -> Result<()> {
    let Some(present) = draft.present(tenant, id)? else { return Ok(()) };
    let of_type = &mut stats.types[present.memory.memory_type as usize];
    of_type.recalls += u64::from(times);
    // The cold tier is searched, and stays cold.
    if present.memory.tier() == Tier::Cold || !warm {
        return Ok(());
    }
    let now = draft.now();
    let recall_count = present.anchor.recall_count.saturating_add(times);
    let reinforcement = &thermo.reinforcement;
    let interval = i64::from(reinforcement.recall_min_interval_seconds) * Timestamp::SECOND_MICROS;
    let soon = present.anchor.last_recall.is_some_and(|last| now.since(last) < interval);
    let profile = thermo.profile(present.memory.memory_type);
    if soon || !profile.reinforce_on_recall {
        let anchor = Anchor { recall_count, ..present.anchor };
        return draft.anchor(tenant, &present, anchor.with_heat(present.heat as f32));
    }
    let retention = retention(&present, thermo, now);
    let heat = present.heat + reinforcement.on_recall * (1.0 - present.heat);
    let stability = strengthened(present.anchor.stability, profile.stability_gain, retention);
    let anchor = Anchor { stability, recall_count, last_recall: Some(now), ..present.anchor };
    draft.anchor(tenant, &present, anchor.with_heat(heat as f32))?;
    of_type.warmings += 1;
    of_type.heat_before += present.heat;
    of_type.heat_after += heat;
    resonate(draft, tenant, thermo, id, heat - present.heat)
}

/// What is left of a memory since its last recall, else since it was stored, 0 to 1.
fn retention(present: &MemoryRecord, thermo: &Thermo, now: Timestamp) -> f64 {
    let since = present.anchor.last_recall.unwrap_or(present.memory.created_at);
    let rate = Cooling::of(&present.memory, thermo).rate / f64::from(present.anchor.stability);
    libm::exp2(-(now.since(since) as f64) * rate)
}

/// The stability that a recall leaves of which so much was retained.
pub(super) fn strengthened(stability: f32, gain: f64, retention: f64) -> f32 {
    let strengthened = f64::from(stability) * (1.0 + (gain - 1.0) * (1.0 - retention));
    (strengthened as f32).min(STABILITY_MAX)
}

/// Warms what is related to a memory that gained `gained`: a share of the gain itself, so
/// that a hot neighbourhood cannot heat itself.
fn resonate(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    thermo: &Thermo,
    id: MemoryId,
    gained: f64,
) -> Result<()> {
    let resonance = &thermo.resonance;
    let mut increment = gained * resonance.spread_factor;
    // Each memory once, by the shortest way.
    let mut met = BTreeSet::from([id]);
    let mut ring = vec![id];
    for _ in 0..resonance.depth {
        if increment < INCREMENT_MIN {
            break;
        }
        let mut next = Vec::new();
        for from in ring {
            let mut neighbours = 0;
            for edge in draft.edges(tenant, from)? {
                let other = edge.other(from);
                if met.len() > RESONANCE_MAX || neighbours == NEIGHBOURS_MAX {
                    break;
                }
                if !met.insert(other) {
                    continue;
                }
                neighbours += 1;
                if warmed(draft, tenant, other, increment, resonance.thermal_gate)? {
                    next.push(other);
                }
            }
        }
        ring = next;
        increment *= resonance.damping;
    }
    Ok(())
}

/// Warms a neighbour unless it is too cold to receive, and to pass on, anything.
fn warmed(
    draft: &mut Draft<'_>,
    tenant: TenantId,
    id: MemoryId,
    increment: f64,
    gate: f64,
) -> Result<bool> {
    let Some(present) = draft.present(tenant, id)? else { return Ok(false) };
    if present.heat < gate || present.memory.tier() == Tier::Cold {
        return Ok(false);
    }
    let heat = (present.heat + increment).min(1.0);
    if heat - present.heat < INCREMENT_MIN {
        return Ok(true);
    }
    draft.anchor(tenant, &present, present.anchor.with_heat(heat as f32))?;
    Ok(true)
}
