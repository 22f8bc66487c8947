//! Rules of recall and feedback. The first results of a search are recalls, which raise the heat and
//! stability of the memories, and the heat of their neighbours. Every node reports what its searches
//! returned, at most twice a second.

use std::collections::BTreeMap;

use crate::change::Change;
use crate::decide::audit;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::{BATCH_BYTES, Draft, Mark, MemoryEvent, Owners};
use crate::decide::fire::fire;
use crate::decide::reinforce::{outdated_heat, reinforce, strengthened};
use crate::error::Result;
use crate::model::analytics::{
    LastReport, RecallStats, Report, ReturnedMemory, TenantReport, Usage,
};
use crate::model::api_key::ApiKey;
use crate::model::heat::Anchor;
use crate::model::id::MemoryId;
use crate::model::journal::EventKind;
use crate::model::memory::{Memory, Signal};
use crate::model::score::rounded;
use crate::model::trigger::TriggerEvent;
use crate::reply::{FeedbackReply, Reply};
use crate::table::key::Key;
use crate::table::view::View;

/// Most bytes that the firings of one report add to the log.
const FIRED_BYTES_MAX: usize = 128 << 10;
/// Share of the distance to heat 1 that `relevant` adds.
const RELEVANT_GAIN: f64 = 0.2;
/// Retention that `relevant` strengthens by: that after one half-life.
const RELEVANT_RETENTION: f64 = 0.5;
/// Share of its heat that `irrelevant` leaves.
const IRRELEVANT_REST: f64 = 0.3;

/// Applies a node's report once: repeats of the same number change nothing.
pub(super) fn record_report(draft: &mut Draft, report: &Report) -> Decided<Reply> {
    let last: Option<LastReport> = draft.record(&Key::LastReport(report.node))?;
    if last.is_some_and(|last| last.boot == report.boot && last.number >= report.number) {
        return Ok(Reply::Done);
    }
    let mark = draft.mark();
    // The firings of one tenant take no room from another, nor from what is counted.
    let fired_bytes_max = FIRED_BYTES_MAX / report.tenants.len().max(1);
    for of_tenant in &report.tenants {
        // The tenant may have been deleted meanwhile.
        if draft.tenant(of_tenant.tenant)?.is_none() {
            continue;
        }
        let mut context = Context { draft, tenant: of_tenant.tenant, actor: None };
        record_tenant_report(&mut context, of_tenant, mark)?;
        fire_returned(&mut context, &of_tenant.returned, fired_bytes_max)?;
    }
    let last = LastReport { boot: report.boot, number: report.number };
    draft.push(Change::LastReportPut(report.node, last));
    Ok(Reply::Done)
}

fn record_tenant_report(
    context: &mut Context<'_>,
    report: &TenantReport,
    mark: Mark,
) -> Decided<()> {
    let tenant = context.tenant;
    let before = context.draft.recall_stats(tenant)?;
    let mut stats = before.clone();
    for (id, times) in &report.recalls {
        // One command writes a bounded number of bytes: recalls beyond it are counted only.
        let written = context.draft.bytes_since(mark) - context.draft.fired_bytes();
        apply_recall(context, *id, *times, written < BATCH_BYTES, &mut stats)?;
    }
    stats.searches += report.searches;
    stats.searches_with_results += report.searches_with_results;
    if stats != before {
        context.push(Change::RecallStatsPut(tenant, stats));
    }
    if report.usage != Usage::default() {
        let month = context.now().month();
        let mut usage = context.draft.usage(tenant, month)?;
        usage.add(&report.usage);
        context.push(Change::UsagePut(tenant, month, usage));
    }
    for (id, used_at) in &report.keys {
        if let Some(key) = context.draft.record::<ApiKey>(&Key::ApiKey(tenant, *id))? {
            let last_used_at = key.last_used_at.max(Some(*used_at));
            context.push(Change::ApiKeyPut(tenant, *id, ApiKey { last_used_at, ..key }));
        }
    }
    for (id, kind) in &report.uses {
        audit::record_key_use(context.draft, tenant, (*id, kind))?;
    }
    Ok(())
}

/// Fires the triggers that wait for results. Each owner of triggers has an equal part of the bytes,
/// and of what those before it left.
fn fire_returned(
    context: &mut Context<'_>,
    returned: &[ReturnedMemory],
    bytes_max: usize,
) -> Decided<()> {
    let tenant = context.tenant;
    let mut owners: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for memory in returned {
        owners.entry(memory.owner).or_default().push(memory);
    }
    let (draft, mut left) = (&mut *context.draft, owners.len());
    let end = draft.fired_bytes() + bytes_max;
    for (owner, memories) in owners {
        let fired = draft.fired_bytes();
        draft.command.fired_bytes_max = Some(fired + end.saturating_sub(fired) / left);
        left -= 1;
        for ReturnedMemory { id, times, .. } in memories {
            let event = MemoryEvent::new(tenant, TriggerEvent::Recall, *id);
            draft.emit(MemoryEvent { times: *times, owners: Owners::One(owner), ..event });
            fire(draft)?;
        }
    }
    Ok(())
}

/// Counts the recalls of a memory in `stats`. With `writes`, also [reinforces](reinforce) it.
fn apply_recall(
    context: &mut Context<'_>,
    id: MemoryId,
    times: u32,
    writes: bool,
    stats: &mut RecallStats,
) -> Result<()> {
    let Some(mut present) = context.present(id)? else { return Ok(()) };
    let of_type = &mut stats.types[present.memory.memory_type as usize];
    of_type.recalls += u64::from(times);
    if !writes {
        return Ok(());
    }
    present.anchor.returned_at = Some(context.now());
    if let Some((before, after)) = reinforce(context, present, times)? {
        of_type.warmings += 1;
        of_type.heat_before += before;
        of_type.heat_after += after;
    }
    Ok(())
}

/// Gives feedback: a signal changes the heat, stability and review flag of a memory.
pub(super) fn give_feedback(
    context: &mut Context<'_>,
    id: MemoryId,
    signal: Signal,
) -> Decided<Reply> {
    let present = context.existing(id)?;
    let thermo = context.thermo()?;
    let gain = thermo.profile(present.memory.memory_type).stability_gain;
    let (heat, stability) = (present.heat, present.anchor.stability);
    let (heat_after, stability_after) = match signal {
        Signal::Relevant => {
            (heat + RELEVANT_GAIN * (1.0 - heat), strengthened(stability, gain, RELEVANT_RETENTION))
        }
        Signal::Irrelevant => (heat * IRRELEVANT_REST, stability),
        Signal::Outdated => (outdated_heat(&present, &thermo), stability),
        Signal::Wrong => (heat, stability),
    };
    if signal != Signal::Wrong {
        let (heat, stability) = (heat_after as f32, stability_after);
        context.anchor(&present, Anchor { heat, stability, ..present.anchor })?;
    }
    if rounded(heat_after) > rounded(heat) {
        context.emit(TriggerEvent::Boost, id);
    }
    let memory = Memory {
        is_flagged: present.memory.is_flagged || signal == Signal::Wrong,
        updated_at: context.now(),
        ..present.memory.clone()
    };
    context.append(id, &memory, EventKind::Feedback(signal));
    context.push(Change::MemoryPut(context.tenant, id, memory));
    count_signal(context, &present.memory, signal)?;
    let after = context.present(id)?;
    Ok(Reply::Feedback(FeedbackReply {
        id,
        heat_before: heat,
        heat_after: after.as_ref().map_or(heat, |after| after.heat),
        stability_before: stability,
        stability_after,
    }))
}

fn count_signal(context: &mut Context<'_>, memory: &Memory, signal: Signal) -> Decided<()> {
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
