//! Recall and feedback. The first results of a search are recalls, which raise the heat and
//! stability of the memories, and the heat of their neighbours. Every node reports what its searches
//! returned, at most ten times a second.

use std::collections::BTreeMap;

use model::analytics::{LastReports, RecallStats, Report, ReturnedMemory, TenantReport, Usage};
use model::heat::Anchor;
use model::id::{MemoryId, Timestamp};
use model::journal::EventKind;
use model::memory::{Memory, Signal, Tier};
use model::score::rounded;
use model::trigger::TriggerEvent;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit;
use crate::decide::context::{Context, Decided};
use crate::decide::draft::{BATCH_BYTES, Draft, EVALUATIONS_MAX, MemoryEvent, Owners};
use crate::decide::fire::fire;
use crate::decide::reinforce::{outdated_heat, reinforce, restored, strengthened};
use crate::decide::rule::{Class, ClusterAudit, ClusterRule, TenantAudit, TenantRule};
use crate::error::Result;
use crate::etag::Etag;
use crate::parts::EqualParts;
use crate::reply::FeedbackReply;
use crate::table::key::Key;
use crate::table::view::View;

/// Most bytes that the firings of one report add to the log.
const FIRED_BYTES_MAX: usize = 128 << 10;
/// Share of the distance to heat 1 that `relevant` adds.
const RELEVANT_GAIN: f64 = 0.2;
/// Share of its heat that `irrelevant` leaves.
const IRRELEVANT_REST: f64 = 0.3;

/// Counts the recalls of a node, and raises the heat of the recalled memories. Repeats of a report
/// change nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordReport(pub Report);

impl ClusterRule for RecordReport {
    type Reply = ();
    const CLASS: Class = Class::Background;
    const AUDIT: ClusterAudit<Self> = None;

    fn decide(&self, draft: &mut Draft) -> Decided<()> {
        let report = &self.0;
        let last: Option<LastReports> = draft.record(&Key::LastReport(report.node))?;
        let mut last = last.unwrap_or_default();
        if !last.add(report.boot, report.number) {
            return Ok(());
        }
        let number =
            |has: fn(&TenantReport) -> bool| report.tenants.iter().filter(|it| has(it)).count();
        let with_firings = number(|it| !it.returned.is_empty());
        let mut recalls = EqualParts::new(BATCH_BYTES, number(|it| !it.recalls.is_empty()));
        let mut firings = FiringLimits {
            bytes: EqualParts::new(FIRED_BYTES_MAX, with_firings),
            evaluations: EqualParts::new(EVALUATIONS_MAX, with_firings),
        };
        let mut present = Vec::new();
        for of_tenant in in_turn(&report.tenants, report.number) {
            // The tenant may have been deleted meanwhile.
            if draft.tenant_row(of_tenant.tenant)?.is_some() {
                present.push(of_tenant);
            }
        }
        // Those that need least come first. Those that need the same take turns.
        present.sort_by_key(|of_tenant| of_tenant.recalls.len());
        for of_tenant in &present {
            let mut context = Context { draft, tenant: of_tenant.tenant, actor: None };
            apply_recalls(&mut context, of_tenant, &mut recalls)?;
            record_usage(&mut context, of_tenant)?;
        }
        // Last, since each firing checks the room that the command has left.
        for of_tenant in present.into_iter().filter(|of_tenant| !of_tenant.returned.is_empty()) {
            let mut context = Context { draft, tenant: of_tenant.tenant, actor: None };
            fire_returned(&mut context, &of_tenant.returned, report.number, &mut firings)?;
        }
        draft.push(Change::LastReportPut(report.node, last));
        Ok(())
    }
}

/// `all` in their order, from another one on in each report.
fn in_turn<T>(all: &[T], number: u64) -> impl Iterator<Item = &T> {
    let (last, first) = all.split_at((number % all.len().max(1) as u64) as usize);
    first.iter().chain(last)
}

/// Applies the recalls of a tenant, and counts them with its searches. Recalls beyond its part of
/// the bytes are counted only.
fn apply_recalls(
    context: &mut Context<'_>,
    report: &TenantReport,
    bytes: &mut EqualParts,
) -> Decided<()> {
    let (tenant, mark) = (context.tenant, context.draft.mark());
    let before = context.draft.recall_stats(tenant)?;
    let mut stats = before.clone();
    for (id, times) in &report.recalls {
        let has_room = context.draft.bytes_since(mark) < bytes.part();
        apply_recall(context, *id, *times, has_room, &mut stats)?;
    }
    if !report.recalls.is_empty() {
        bytes.spend(context.draft.bytes_since(mark));
    }
    stats.searches += report.searches;
    stats.searches_with_results += report.searches_with_results;
    if stats != before {
        context.push(Change::RecallStatsPut(tenant, stats));
    }
    Ok(())
}

fn record_usage(context: &mut Context<'_>, report: &TenantReport) -> Decided<()> {
    let tenant = context.tenant;
    if report.usage != Usage::default() {
        let month = context.now().month();
        let mut usage = context.draft.usage(tenant, month)?;
        usage.add(&report.usage);
        context.push(Change::UsagePut(tenant, month, usage));
    }
    for (id, used_at) in &report.keys {
        // The key may have been deleted meanwhile.
        if context.draft.bytes(&Key::ApiKey(tenant, *id))?.is_some() {
            let before: Option<Timestamp> = context.draft.record(&Key::KeyUsed(tenant, *id))?;
            if before.is_none_or(|before| before < *used_at) {
                context.push(Change::KeyUsedPut(tenant, *id, *used_at));
            }
        }
    }
    let mut uses: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (id, kind) in &report.uses {
        uses.entry(*id).or_default().push(kind);
    }
    for (id, kinds) in uses {
        audit::record_key_uses(context.draft, tenant, id, &kinds)?;
    }
    Ok(())
}

/// What the firings of a report may cost, divided among its tenants, and then among the owners of
/// the triggers.
struct FiringLimits {
    bytes: EqualParts,
    evaluations: EqualParts,
}

/// Fires the triggers that wait for results.
fn fire_returned(
    context: &mut Context<'_>,
    returned: &[ReturnedMemory],
    number: u64,
    limits: &mut FiringLimits,
) -> Decided<()> {
    let tenant = context.tenant;
    let mut owners: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for memory in returned {
        owners.entry(memory.owner).or_default().push(memory);
    }
    let draft = &mut *context.draft;
    let of_owners = |of_tenant: EqualParts| EqualParts::new(of_tenant.part(), owners.len());
    let (mut bytes, mut evaluations) = (of_owners(limits.bytes), of_owners(limits.evaluations));
    let before = (draft.fired_bytes(), draft.command.evaluations);
    let owners: Vec<_> = owners.into_iter().collect();
    for (owner, memories) in in_turn(&owners, number) {
        let (fired, evaluated) = (draft.fired_bytes(), draft.command.evaluations);
        draft.command.fired_bytes_max = Some(fired + bytes.part());
        draft.command.evaluations_max = Some(evaluated + evaluations.part());
        for ReturnedMemory { id, times, .. } in memories {
            let event = MemoryEvent::new(tenant, TriggerEvent::Recall, *id);
            draft.emit(MemoryEvent { times: *times, owners: Owners::One(*owner), ..event });
            fire(draft)?;
        }
        bytes.spend(draft.fired_bytes() - fired);
        evaluations.spend(draft.command.evaluations - evaluated);
    }
    limits.bytes.spend(draft.fired_bytes() - before.0);
    limits.evaluations.spend(draft.command.evaluations - before.1);
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GiveFeedback {
    /// The memory.
    pub id: MemoryId,
    /// What a caller reports.
    pub signal: Signal,
}

impl TenantRule for GiveFeedback {
    type Reply = FeedbackReply;
    const CLASS: Class = Class::AddsData;
    const AUDIT: TenantAudit<Self> = None;

    fn decide(&self, context: &mut Context<'_>) -> Decided<FeedbackReply> {
        let Self { id, signal } = *self;
        let mut present = context.existing(id)?;
        let (thermo, now) = (context.thermo()?, context.now());
        let (heat, stability) = (present.heat, present.anchor.stability);
        if signal == Signal::Relevant {
            present = restored(context, present)?;
        }
        let anchor = present.anchor;
        let (heat_after, anchor) = match signal {
            // What stays archived does not cool, so it must not become warmer.
            Signal::Relevant if present.memory.tier() == Tier::Cold => (heat, None),
            Signal::Relevant => {
                let heat = present.heat + RELEVANT_GAIN * (1.0 - present.heat);
                let stability = strengthened(&present, &thermo, now);
                (heat, Some(Anchor { stability, last_recall: Some(now), ..anchor }))
            }
            Signal::Irrelevant => (heat * IRRELEVANT_REST, Some(anchor)),
            Signal::Outdated => (outdated_heat(&present, &thermo), Some(anchor)),
            Signal::Wrong => (heat, None),
        };
        if let Some(anchor) = anchor {
            context.anchor(&present, Anchor { heat: heat_after as f32, ..anchor })?;
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
        context.put_memory(id, memory)?;
        count_signal(context, &present.memory, signal)?;
        let after = context.written(id)?;
        Ok(FeedbackReply {
            id,
            heat_before: heat,
            heat_after: after.heat,
            stability_before: stability,
            stability_after: after.anchor.stability,
            tier: after.memory.tier(),
        })
    }

    fn tag(&self, context: &mut Context<'_>) -> Result<Option<Etag>> {
        context.memory_tag(self.id)
    }
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
