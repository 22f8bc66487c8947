//! What a tick looks for: one scan over the columns for memories that lie on another side
//! of a bound than before (`cold_threshold`, and what triggers ask about), and for cold ones.
//! Names candidates only; whoever decides judges each by its rows.

use std::collections::BinaryHeap;

use crate::engine::{Reader, thermo};
use crate::index::chunk::CHUNK_ROWS;
use crate::model::id::{MemoryId, TenantId};
use crate::model::memory::MemoryType;
use crate::model::score::rounded;
use crate::model::tick::Tick;
use crate::search::scan::{Filter, RowRef, scan};

/// What a scan for a tick found.
pub(crate) struct TickCandidates {
    /// The first memories, in order of their ids, that crossed a bound.
    pub(crate) crossed: Vec<MemoryId>,
    /// The first that are cold, and neither pinned nor procedural.
    pub(crate) cold: Vec<MemoryId>,
    /// All that are.
    pub(crate) cold_count: u64,
}

impl Reader {
    /// What `tick` has to look at, of memories after `reached` by their ids; `most` of each
    /// kind at most. `thresholds` are the bounds besides `cold_threshold`, in order.
    pub(crate) fn tick_candidates(
        &self,
        tenant: TenantId,
        tick: &Tick,
        thresholds: &[f64],
        reached: Option<MemoryId>,
        most: usize,
    ) -> TickCandidates {
        let engine = self.engine();
        let (mut crossed, mut cold) = (Least::new(most, reached), Least::new(most, reached));
        let mut cold_count = 0;
        if let Some(index) = engine.registry.tenant(tenant) {
            // The columns hold the present configuration: bounds of another are of no use.
            let present = thermo(&engine, tenant);
            let bounded = (*tick.thermo_from == present, *tick.thermo == present);
            let mut before = [0.0; CHUNK_ROWS];
            scan(&index, &Filter::default(), None, None, tick.until, |candidates| {
                candidates.chunk.heat_upper_bounds(tick.from, &mut before);
                let sharp = |at| candidates.chunk.upper_bounds_are_sharp(at);
                let tells = (bounded.0 && sharp(tick.from), bounded.1 && sharp(tick.until));
                for (at, row) in candidates.each() {
                    let then = tells.0.then_some(before[at]);
                    let now = tells.1.then_some(candidates.heat_upper_bounds[at]);
                    let sides = Sides { tick, thresholds, row, then, now };
                    // Anchored since: it was judged when that was written.
                    let to_judge = row.anchored_at() <= tick.until && crossed.takes(row.id());
                    if to_judge && sides.crossed() {
                        crossed.offer(row.id());
                    }
                    let properties = row.properties();
                    if !properties.is_pinned()
                        && properties.memory_type() != MemoryType::Procedural
                        && sides.is_cold()
                    {
                        cold_count += 1;
                        cold.offer(row.id());
                    }
                }
            });
        }
        TickCandidates { crossed: crossed.into_sorted(), cold: cold.into_sorted(), cold_count }
    }
}

/// On which sides of the threshold a memory lies, by upper_bounds of its heats where those tell.
struct Sides<'a> {
    tick: &'a Tick,
    thresholds: &'a [f64],
    row: RowRef<'a>,
    then: Option<f32>,
    now: Option<f32>,
}

impl Sides<'_> {
    #[inline]
    fn crossed(&self) -> bool {
        self.was_cold() != self.is_cold() || !self.thresholds.is_empty() && self.crossed_a_cut()
    }

    fn crossed_a_cut(&self) -> bool {
        let Self { tick, thresholds, row, .. } = self;
        let before = match row.anchored_at() > tick.from {
            true => Some(place(thresholds, row.tick_heat().into())),
            false => self.then.and_then(|then| place_below(thresholds, then)),
        };
        let before = before
            .unwrap_or_else(|| place(thresholds, row.heat_under(&tick.thermo_from, tick.from)));
        let now = self.now.and_then(|now| place_below(thresholds, now));
        before != now.unwrap_or_else(|| place(thresholds, row.heat_under(&tick.thermo, tick.until)))
    }

    #[inline]
    fn was_cold(&self) -> bool {
        let (thermo, from) = (&self.tick.thermo_from, self.tick.from);
        if self.row.anchored_at() > from {
            return thermo.is_cold(self.row.tick_heat().into());
        }
        below(self.then, thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| thermo.is_cold(self.row.heat_under(thermo, from)))
    }

    #[inline]
    fn is_cold(&self) -> bool {
        let (thermo, until) = (&self.tick.thermo, self.tick.until);
        below(self.now, thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| thermo.is_cold(self.row.heat_under(thermo, until)))
    }
}

/// How many of `thresholds` a heat is not below.
fn place(thresholds: &[f64], heat: f64) -> usize {
    let heat = rounded(heat);
    thresholds.partition_point(|cut| heat >= *cut)
}

/// The same of a heat with this upper_bound, where that tells: see [`below`].
fn place_below(thresholds: &[f64], upper_bound: f32) -> Option<usize> {
    let upper_bound = f64::from(upper_bound);
    let most = thresholds.partition_point(|cut| upper_bound >= cut - 1e-6);
    let least = thresholds.partition_point(|cut| upper_bound * 0.989 >= *cut);
    (most == least).then_some(most)
}

/// Whether a heat with this upper_bound lies below `bound`, where the upper_bound tells: the heat is
/// 99 % of it at least, and the threshold is looked at in steps of 1e-6.
#[inline]
fn below(upper_bound: Option<f32>, bound: f64) -> Option<bool> {
    let upper_bound = f64::from(upper_bound?);
    match (upper_bound < bound - 1e-6, upper_bound * 0.989 >= bound) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

/// The least of many ids above a bound.
struct Least {
    most: usize,
    above: Option<MemoryId>,
    kept: BinaryHeap<MemoryId>,
}

impl Least {
    fn new(most: usize, above: Option<MemoryId>) -> Self {
        Self { most, above, kept: BinaryHeap::new() }
    }

    /// Whether it would keep `id`.
    fn takes(&self, id: MemoryId) -> bool {
        let room = self.kept.len() < self.most;
        self.above.is_none_or(|above| id > above)
            && (room || self.kept.peek().is_some_and(|largest| id < *largest))
    }

    fn offer(&mut self, id: MemoryId) {
        if self.takes(id) {
            if self.kept.len() == self.most {
                self.kept.pop();
            }
            self.kept.push(id);
        }
    }

    fn into_sorted(self) -> Vec<MemoryId> {
        self.kept.into_sorted_vec()
    }
}
