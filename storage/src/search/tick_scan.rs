//! The scan of a decay tick: finds memories whose heat crossed a threshold since the previous
//! tick, and cold memories. The thresholds are `cold_threshold` and those of triggers.
//!
//! A heat only matters by its side of each threshold. Where the upper bound of a heat is
//! tight, it usually decides the side. The exact heat is computed only if the bound is close
//! to a threshold. The scan returns candidates; `decide` evaluates each from its rows.

use index::CHUNK_ROWS;
use index::chunk::RowRef;
use index::data::TenantIndex;
use index::triggers::Triggers;
use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::MemoryType;
use model::retention::RetentionRule;
use model::score::rounded;
use model::tenant::Tenant;
use model::thermo::Thermo;
use model::tick::{Stage, Tick, TickStep};

use crate::error::Result;
use crate::reader::Reader;
use crate::search::filter::Filter;
use crate::search::retention::DueRequest;
use crate::search::scan::scan;
use crate::search::top_k::SmallestIds;
use crate::table::view::View;

/// A tight upper bound times this is a lower bound of the heat: slightly below 99 %.
const LOWER_BOUND_SHARE: f64 = 0.989;
/// Resolution in which heats are compared with thresholds.
const RESOLUTION: f64 = 1e-6;

/// Most candidates of a step.
const STEP_MAX: usize = 1_000;
/// Most candidates that one scan finds. Further steps take them without a scan.
const SCAN_MAX: usize = 50_000;

/// Candidates of a tick, in order of their ids.
#[derive(Default)]
struct TickCandidates {
    /// The first memories that crossed a threshold.
    crossed: Vec<MemoryId>,
    /// The first memories that are long cold, and neither pinned nor procedural.
    cold: Vec<MemoryId>,
    /// How many of them the tick archives: the hot tier has as many above its maximum.
    archivable: u64,
}

/// The steps of a tenant's tick, with the candidates that the last scan found.
#[derive(Default)]
pub struct TickSteps(Option<TickStep>);

/// What a tick would find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickFinds {
    /// Perhaps something.
    Something,
    /// Nothing, and no tick before `until` will, as long as the tenant's index has this version.
    NothingUntil {
        /// When a memory becomes cold; the largest time if none does.
        until: Timestamp,
        /// The version that was read.
        version: u64,
    },
}

impl Reader {
    /// Whether the next tick of a tenant may find something at the cluster clock. If it finds
    /// nothing it may be left out: the one after it compares with the same heats.
    pub fn tick_finds(&self, tenant: TenantId) -> Result<TickFinds> {
        let engine = self.engine();
        let (Some(index), Some(row), Some(last)) =
            (self.index(tenant), engine.state.tenant(tenant)?, engine.state.tick(tenant)?)
        else {
            return Ok(TickFinds::Something);
        };
        // Before anything is read, so that later changes are noticed.
        let version = index.read().version();
        // Triggers compare exact heats with those of the tick before, and rules have times.
        let has_triggers = engine.registry.triggers(tenant).has_tick_event();
        if has_triggers || !row.retention.is_empty() || last.stage != Stage::Done {
            return Ok(TickFinds::Something);
        }
        let expiry = index.read().next_expiry().unwrap_or(Timestamp(i64::MAX));
        if expiry <= engine.clock() {
            return Ok(TickFinds::Something);
        }
        let next = last.next(engine.clock(), &row.thermo);
        let found = self.tick_candidates(tenant, &next, &[], None, 1);
        if !found.crossed.is_empty() || found.archivable > 0 {
            return Ok(TickFinds::Something);
        }
        // Above the maximum, a memory that has been cold for long may be archived at any time.
        let may_archive =
            index.read().live() as u64 > row.thermo.consolidation.active_index_max.into();
        let until = match may_archive {
            true => next.until,
            false => next_cold(&index, &row.thermo, next.until),
        };
        Ok(TickFinds::NothingUntil { until: until.min(expiry), version })
    }

    /// The next step of a tenant's tick; `None` if none is due. It reads all memories of the tenant,
    /// unless an earlier call with these `steps` has found more candidates than one step takes.
    pub fn next_tick_step(
        &self,
        tenant: TenantId,
        steps: &mut TickSteps,
    ) -> Result<Option<TickStep>> {
        let engine = self.engine();
        let (Some(row), Some(last)) = (engine.state.tenant(tenant)?, engine.state.tick(tenant)?)
        else {
            return Ok(None);
        };
        let Some(tick) = next_tick(&last, &row, engine.clock()) else { return Ok(None) };
        let thresholds = thresholds(&engine.registry.triggers(tenant), &tick);
        let found = match steps.0.take().and_then(|found| found.after(&tick, &thresholds)) {
            Some(found) => found,
            None => self.tick_step(tenant, &tick, thresholds, &row.retention, SCAN_MAX),
        };
        let step = found.first(STEP_MAX);
        // Only this stage needs no count of what was done meanwhile.
        let is_kept = step.has_more && matches!(tick.stage, Stage::Evaluating(_));
        steps.0 = is_kept.then_some(found);
        Ok(Some(step))
    }

    /// The step of `tick` at its stage, with `limit` candidates at most.
    pub(crate) fn tick_step(
        &self,
        tenant: TenantId,
        tick: &Tick,
        thresholds: Vec<f64>,
        rules: &[RetentionRule],
        limit: usize,
    ) -> TickStep {
        let (candidates, archivable) = match tick.stage {
            Stage::Evaluating(reached) => {
                let found = self.tick_candidates(tenant, tick, &thresholds, reached, limit);
                (found.crossed, found.archivable)
            }
            Stage::Archiving(reached) => {
                let found = self.tick_candidates(tenant, tick, &[], reached, limit);
                (found.cold, found.archivable)
            }
            Stage::Retaining(reached) => {
                let (thermo, now) = (&tick.thermo, tick.until);
                let request = DueRequest { rules, thermo, now, reached, limit };
                let (due, _) = self.retention_due(tenant, &request);
                (self.with_expired(tenant, due, &request), 0)
            }
            Stage::Done => (Vec::new(), 0),
        };
        let has_more = candidates.len() == limit;
        let (tick, rules) = (tick.clone(), rules.to_vec());
        TickStep { tick, thresholds, rules, candidates, has_more, archivable }
    }

    /// Candidates of `tick` with ids after `reached`, at most `limit` of each kind. `thresholds`
    /// are the sorted thresholds besides `cold_threshold`.
    fn tick_candidates(
        &self,
        tenant: TenantId,
        tick: &Tick,
        thresholds: &[f64],
        reached: Option<MemoryId>,
        limit: usize,
    ) -> TickCandidates {
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else { return TickCandidates::default() };
        let (mut crossed, mut cold) = (SmallestIds::new(limit), SmallestIds::new(limit));
        let is_ahead = |id| reached.is_none_or(|reached| id > reached);
        let (mut hot_count, mut cold_count) = (0, 0);
        let hot_max = u64::from(tick.thermo.consolidation.active_index_max);
        let may_archive = index.read().live() as u64 > hot_max;
        // Bounds in the columns use the present configuration. They are valid for a heat of
        // the tick only if that heat uses the same one.
        let present = engine.thermo(tenant);
        let from_is_present = *tick.thermo_from == present;
        let until_is_present = *tick.thermo == present;
        let mut bounds_from = [0.0; CHUNK_ROWS];
        scan(&index, &Filter::default(), tick.until, |candidates| {
            let chunk = candidates.chunk;
            chunk.heat_bounds.upper_bounds(tick.from, &mut bounds_from);
            let use_from = from_is_present && chunk.heat_bounds.are_tight(tick.from);
            let use_until = until_is_present && chunk.heat_bounds.are_tight(tick.until);
            hot_count += candidates.rows.len() as u64;
            for (at, row) in candidates.iter() {
                let upper_bound = use_until.then_some(candidates.heat_upper_bounds[at]);
                let (thermo, until) = (&*tick.thermo, tick.until);
                let now = TickHeat { row, thermo, at: until, stored: None, upper_bound };
                let has_crossed = || {
                    let stored = (row.anchored_at() > tick.from).then(|| row.tick_heat());
                    let upper_bound = (use_from && stored.is_none()).then_some(bounds_from[at]);
                    let (thermo, from) = (&*tick.thermo_from, tick.from);
                    let before = TickHeat { row, thermo, at: from, stored, upper_bound };
                    before.is_cold() != now.is_cold()
                        || !thresholds.is_empty()
                            && before.count_reached(thresholds) != now.count_reached(thresholds)
                };
                // A later anchor means that the memory was evaluated when it was written.
                let id = row.id();
                let is_pending =
                    row.anchored_at() <= tick.until && is_ahead(id) && crossed.accepts(id);
                if is_pending && has_crossed() {
                    crossed.push(id);
                }
                // A cheap bound of the heat excludes most memories.
                if may_archive && now.is_cold() && is_archivable(row, thermo, until) {
                    cold_count += 1;
                    if is_ahead(id) {
                        cold.push(id);
                    }
                }
            }
        });
        let archivable = tick.thermo.consolidation.archived(hot_count, cold_count);
        TickCandidates { crossed: crossed.into_sorted(), cold: cold.into_sorted(), archivable }
    }
}

/// The tick whose step is next: `last`, or the one after it, as of `until`. `None` if it is not due.
pub(crate) fn next_tick(last: &Tick, row: &Tenant, until: Timestamp) -> Option<Tick> {
    match last.stage {
        Stage::Done if last.due_at(row.thermo.tick_interval_seconds) > until => None,
        Stage::Done => Some(last.clone().next(until, &row.thermo)),
        _ => Some(last.clone()),
    }
}

/// The heats at which triggers may begin or cease to hold, in order.
pub(crate) fn thresholds(triggers: &Triggers, tick: &Tick) -> Vec<f64> {
    if !triggers.has_tick_event() {
        return Vec::new();
    }
    let mut thresholds = triggers.thresholds().to_vec();
    // The bound of triggers that name none.
    thresholds.push(rounded(tick.thermo.consolidation.cold_threshold));
    thresholds.sort_by(f64::total_cmp);
    thresholds
}

/// When the first memory becomes cold, `now` at the earliest; the largest time if none does.
fn next_cold(index: &TenantIndex, thermo: &Thermo, now: Timestamp) -> Timestamp {
    let mut next = f64::INFINITY;
    scan(index, &Filter::default(), now, |candidates| {
        let until_cold = candidates.iter().map(|(_, row)| row.micros_until_cold(thermo, now));
        next = until_cold.fold(next, f64::min);
    });
    // Saturates.
    Timestamp(now.0.saturating_add(next as i64))
}

/// Whether a tick at `now` may archive a memory of the hot tier.
pub(crate) fn is_archivable(row: RowRef<'_>, thermo: &Thermo, now: Timestamp) -> bool {
    let attributes = row.attributes();
    !attributes.is_pinned()
        && attributes.memory_type() != MemoryType::Procedural
        && thermo.is_long_cold(now, row.used_at(), |at| row.heat_under(thermo, at))
}

/// The heat of a memory at the previous tick or at this one. Exact heats are costly, so a tight
/// upper bound usually decides on which side of a threshold the heat lies.
struct TickHeat<'a> {
    row: RowRef<'a>,
    thermo: &'a Thermo,
    at: Timestamp,
    /// The heat, if the anchor is younger than the tick and stores it.
    stored: Option<f32>,
    upper_bound: Option<f32>,
}

impl TickHeat<'_> {
    #[inline]
    fn exact(&self) -> f64 {
        self.stored.map_or_else(|| self.row.heat_under(self.thermo, self.at), f64::from)
    }

    #[inline]
    fn is_cold(&self) -> bool {
        is_below_by_bound(self.upper_bound, self.thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| self.thermo.is_cold(self.exact()))
    }

    /// Number of thresholds that the heat reaches.
    fn count_reached(&self, thresholds: &[f64]) -> usize {
        let by_bound = self.upper_bound.and_then(|bound| count_reached_by_bound(thresholds, bound));
        by_bound.unwrap_or_else(|| {
            let heat = rounded(self.exact());
            thresholds.partition_point(|threshold| heat >= *threshold)
        })
    }
}

/// Number of thresholds that a heat with this tight upper bound reaches. `None` if the bound does
/// not decide it.
fn count_reached_by_bound(thresholds: &[f64], upper_bound: f32) -> Option<usize> {
    let upper_bound = f64::from(upper_bound);
    let max = thresholds.partition_point(|threshold| upper_bound >= threshold - RESOLUTION);
    let min = thresholds.partition_point(|threshold| upper_bound * LOWER_BOUND_SHARE >= *threshold);
    (max == min).then_some(max)
}

/// Whether a heat with this tight upper bound is below `threshold`. `None` if there is no
/// bound or it does not decide it.
#[inline]
fn is_below_by_bound(upper_bound: Option<f32>, threshold: f64) -> Option<bool> {
    let upper_bound = f64::from(upper_bound?);
    let is_below = upper_bound < threshold - RESOLUTION;
    let is_above = upper_bound * LOWER_BOUND_SHARE >= threshold;
    (is_below || is_above).then_some(is_below)
}
