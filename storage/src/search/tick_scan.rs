//! The scan of a decay tick: finds memories whose heat crossed a threshold since the previous
//! tick, and cold memories. The thresholds are `cold_threshold` and those of triggers.
//!
//! A heat only matters by its side of each threshold. Where the upper bound of a heat is
//! tight, it usually decides the side. The exact heat is computed only if the bound is close
//! to a threshold. The scan returns candidates; `decide` evaluates each from its rows.

use crate::index::CHUNK_ROWS;
use crate::index::chunk::RowRef;
use crate::model::id::{MemoryId, TenantId};
use crate::model::memory::MemoryType;
use crate::model::score::rounded;
use crate::model::tick::Tick;
use crate::reader::Reader;
use crate::search::filter::Filter;
use crate::search::scan::scan;
use crate::search::top_k::{Rank, TopK};

/// A tight upper bound times this is a lower bound of the heat: slightly below 99 %.
const LOWER_BOUND_SHARE: f64 = 0.989;
/// Resolution in which heats are compared with thresholds.
const RESOLUTION: f64 = 1e-6;
/// The rank of every candidate.
const RANK: Rank = [0; 3];

/// Candidates of one step of a tick, in order of their ids.
#[derive(Default)]
pub(crate) struct TickCandidates {
    /// The first memories that crossed a threshold.
    pub(crate) crossed: Vec<MemoryId>,
    /// The first cold memories that are neither pinned nor procedural.
    pub(crate) cold: Vec<MemoryId>,
    /// Number of all such cold memories.
    pub(crate) cold_count: u64,
}

impl Reader {
    /// Candidates of `tick` with ids after `reached`, at most `limit` of each kind. `thresholds`
    /// are the sorted thresholds besides `cold_threshold`.
    pub(crate) fn tick_candidates(
        &self,
        tenant: TenantId,
        tick: &Tick,
        thresholds: &[f64],
        reached: Option<MemoryId>,
        limit: usize,
    ) -> TickCandidates {
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else { return TickCandidates::default() };
        // Candidates of equal rank: the smallest ids are kept.
        let (mut crossed, mut cold) = (TopK::new(limit), TopK::new(limit));
        let is_ahead = |id| reached.is_none_or(|reached| id > reached);
        let mut cold_count = 0;
        // Bounds in the columns use the present configuration. They are valid for a heat of
        // the tick only if that heat uses the same one.
        let present = engine.thermo(tenant);
        let from_is_present = *tick.thermo_from == present;
        let until_is_present = *tick.thermo == present;
        let mut bounds_from = [0.0; CHUNK_ROWS];
        scan(&index, &Filter::default(), None, None, tick.until, |candidates| {
            let chunk = candidates.chunk;
            chunk.heat_bounds.upper_bounds(tick.from, &mut bounds_from);
            let use_from = from_is_present && chunk.heat_bounds.are_tight(tick.from);
            let use_until = until_is_present && chunk.heat_bounds.are_tight(tick.until);
            for (at, row) in candidates.iter() {
                let before = use_from.then_some(bounds_from[at]);
                let now = use_until.then_some(candidates.heat_upper_bounds[at]);
                let sides = ThresholdSides { tick, thresholds, row, before, now };
                // A later anchor means that the memory was evaluated when it was written.
                let id = row.id();
                let is_pending =
                    row.anchored_at() <= tick.until && is_ahead(id) && crossed.accepts(RANK, id);
                if is_pending && sides.have_changed() {
                    crossed.push(RANK, id, || ());
                }
                let attributes = row.attributes();
                if !attributes.is_pinned()
                    && attributes.memory_type() != MemoryType::Procedural
                    && sides.is_cold()
                {
                    cold_count += 1;
                    if is_ahead(id) {
                        cold.push(RANK, id, || ());
                    }
                }
            }
        });
        let ids = |best: TopK<()>| best.into_sorted().map(|(id, ())| id).collect();
        TickCandidates { crossed: ids(crossed), cold: ids(cold), cold_count }
    }
}

/// On which side of each threshold a memory's heat was at the previous tick, and is at this
/// one. Uses upper bounds of the two heats if given, else exact heats.
struct ThresholdSides<'a> {
    tick: &'a Tick,
    thresholds: &'a [f64],
    row: RowRef<'a>,
    before: Option<f32>,
    now: Option<f32>,
}

impl ThresholdSides<'_> {
    #[inline]
    fn have_changed(&self) -> bool {
        self.was_cold() != self.is_cold() || !self.thresholds.is_empty() && self.crossed_threshold()
    }

    fn crossed_threshold(&self) -> bool {
        let Self { tick, thresholds, row, .. } = self;
        let before = match row.anchored_at() > tick.from {
            true => Some(count_reached(thresholds, row.tick_heat().into())),
            false => self.before.and_then(|bound| count_reached_by_bound(thresholds, bound)),
        };
        let before = before.unwrap_or_else(|| {
            count_reached(thresholds, row.heat_under(&tick.thermo_from, tick.from))
        });
        let now = self.now.and_then(|bound| count_reached_by_bound(thresholds, bound));
        let now = now
            .unwrap_or_else(|| count_reached(thresholds, row.heat_under(&tick.thermo, tick.until)));
        before != now
    }

    #[inline]
    fn was_cold(&self) -> bool {
        let (thermo, from) = (&self.tick.thermo_from, self.tick.from);
        if self.row.anchored_at() > from {
            return thermo.is_cold(self.row.tick_heat().into());
        }
        is_below_by_bound(self.before, thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| thermo.is_cold(self.row.heat_under(thermo, from)))
    }

    #[inline]
    fn is_cold(&self) -> bool {
        let (thermo, until) = (&self.tick.thermo, self.tick.until);
        is_below_by_bound(self.now, thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| thermo.is_cold(self.row.heat_under(thermo, until)))
    }
}

/// Number of thresholds that a heat reaches.
fn count_reached(thresholds: &[f64], heat: f64) -> usize {
    let heat = rounded(heat);
    thresholds.partition_point(|threshold| heat >= *threshold)
}

/// The same for a heat with this tight upper bound. `None` if the bound does not decide it.
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
