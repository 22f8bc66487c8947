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
use crate::search::scan::{Filter, Seen, scan};

/// What a scan for a tick found.
pub(crate) struct Cooled {
    /// The first memories, in order of their ids, that crossed a bound.
    pub(crate) crossed: Vec<MemoryId>,
    /// The first that are cold, and neither pinned nor procedural.
    pub(crate) cold: Vec<MemoryId>,
    /// All that are.
    pub(crate) cold_count: u64,
}

impl Reader {
    /// What `tick` has to look at, of memories after `reached` by their ids; `most` of each
    /// kind at most. `cuts` are the bounds besides `cold_threshold`, in order.
    pub(crate) fn cooled(
        &self,
        tenant: TenantId,
        tick: &Tick,
        cuts: &[f64],
        reached: Option<MemoryId>,
        most: usize,
    ) -> Cooled {
        let engine = self.engine();
        let (mut crossed, mut cold) = (Least::new(most, reached), Least::new(most, reached));
        let mut cold_count = 0;
        if let Some(index) = engine.registry.tenant(tenant) {
            // The columns hold the present configuration: bounds of another are of no use.
            let present = thermo(&engine, tenant);
            let bounded = (*tick.thermo_from == present, *tick.thermo == present);
            let mut before = [0.0; CHUNK_ROWS];
            scan(&index, &Filter::default(), None, None, tick.until, |glance| {
                glance.chunk.heat_ceilings(tick.from, &mut before);
                let sharp = |at| glance.chunk.ceilings_are_sharp(at);
                let tells = (bounded.0 && sharp(tick.from), bounded.1 && sharp(tick.until));
                for (at, seen) in glance.each() {
                    let then = tells.0.then_some(before[at]);
                    let now = tells.1.then_some(glance.heat_ceilings[at]);
                    let sides = Sides { tick, cuts, seen, then, now };
                    // Anchored since: it was judged when that was written.
                    let to_judge = seen.anchored_at() <= tick.until && crossed.takes(seen.id());
                    if to_judge && sides.crossed() {
                        crossed.offer(seen.id());
                    }
                    let row = seen.properties();
                    if !row.is_pinned()
                        && row.memory_type() != MemoryType::Procedural
                        && sides.is_cold()
                    {
                        cold_count += 1;
                        cold.offer(seen.id());
                    }
                }
            });
        }
        Cooled { crossed: crossed.into_sorted(), cold: cold.into_sorted(), cold_count }
    }
}

/// On which sides of the threshold a memory lies, by ceilings of its heats where those tell.
struct Sides<'a> {
    tick: &'a Tick,
    cuts: &'a [f64],
    seen: Seen<'a>,
    then: Option<f32>,
    now: Option<f32>,
}

impl Sides<'_> {
    #[inline]
    fn crossed(&self) -> bool {
        self.was_cold() != self.is_cold() || !self.cuts.is_empty() && self.crossed_a_cut()
    }

    fn crossed_a_cut(&self) -> bool {
        let Self { tick, cuts, seen, .. } = self;
        let before = match seen.anchored_at() > tick.from {
            true => Some(place(cuts, seen.tick_heat().into())),
            false => self.then.and_then(|then| place_below(cuts, then)),
        };
        let before =
            before.unwrap_or_else(|| place(cuts, seen.heat_under(&tick.thermo_from, tick.from)));
        let now = self.now.and_then(|now| place_below(cuts, now));
        before != now.unwrap_or_else(|| place(cuts, seen.heat_under(&tick.thermo, tick.until)))
    }

    #[inline]
    fn was_cold(&self) -> bool {
        let (thermo, from) = (&self.tick.thermo_from, self.tick.from);
        if self.seen.anchored_at() > from {
            return thermo.is_cold(self.seen.tick_heat().into());
        }
        below(self.then, thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| thermo.is_cold(self.seen.heat_under(thermo, from)))
    }

    #[inline]
    fn is_cold(&self) -> bool {
        let (thermo, until) = (&self.tick.thermo, self.tick.until);
        below(self.now, thermo.consolidation.cold_threshold)
            .unwrap_or_else(|| thermo.is_cold(self.seen.heat_under(thermo, until)))
    }
}

/// How many of `cuts` a heat is not below.
fn place(cuts: &[f64], heat: f64) -> usize {
    let heat = rounded(heat);
    cuts.partition_point(|cut| heat >= *cut)
}

/// The same of a heat with this ceiling, where that tells: see [`below`].
fn place_below(cuts: &[f64], ceiling: f32) -> Option<usize> {
    let ceiling = f64::from(ceiling);
    let most = cuts.partition_point(|cut| ceiling >= cut - 1e-6);
    let least = cuts.partition_point(|cut| ceiling * 0.989 >= *cut);
    (most == least).then_some(most)
}

/// Whether a heat with this ceiling lies below `bound`, where the ceiling tells: the heat is
/// 99 % of it at least, and the threshold is looked at in steps of 1e-6.
#[inline]
fn below(ceiling: Option<f32>, bound: f64) -> Option<bool> {
    let ceiling = f64::from(ceiling?);
    match (ceiling < bound - 1e-6, ceiling * 0.989 >= bound) {
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
