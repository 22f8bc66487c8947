//! What a tick looks for: one scan over the columns for memories that lie on another side
//! of `cold_threshold` than before, and for cold ones. Names candidates only; whoever
//! decides judges each by its rows.

use std::collections::BinaryHeap;

use crate::engine::{Reader, thermo};
use crate::index::chunk::CHUNK_ROWS;
use crate::model::id::{MemoryId, TenantId};
use crate::model::memory::MemoryType;
use crate::model::tick::Tick;
use crate::search::scan::{Filter, Seen, scan};

/// What a scan for a tick found.
pub(crate) struct Cooled {
    /// The first memories, in order of their ids, that crossed the threshold.
    pub(crate) crossed: Vec<MemoryId>,
    /// The first that are cold, and neither pinned nor procedural.
    pub(crate) cold: Vec<MemoryId>,
    /// All that are.
    pub(crate) cold_count: u64,
}

impl Reader {
    /// What `tick` has to look at, of memories after `reached` by their ids; `most` of each
    /// kind at most.
    pub(crate) fn cooled(
        &self,
        tenant: TenantId,
        tick: &Tick,
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
                for (at, seen) in glance.each() {
                    let then = bounded.0.then_some(before[at]);
                    let now = bounded.1.then_some(glance.heat_ceilings[at]);
                    let sides = Sides { tick, seen, then, now };
                    // Anchored since: it was judged when that was written.
                    if seen.anchored_at() <= tick.until && sides.was_cold() != sides.is_cold() {
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
    seen: Seen<'a>,
    then: Option<f32>,
    now: Option<f32>,
}

impl Sides<'_> {
    #[inline]
    fn was_cold(&self) -> bool {
        let (tick, bound) = (self.tick, self.tick.thermo_from.consolidation.cold_threshold);
        if self.seen.anchored_at() > tick.from {
            return f64::from(self.seen.tick_heat()) < bound;
        }
        below(self.then, bound)
            .unwrap_or_else(|| self.seen.heat_under(&tick.thermo_from, tick.from) < bound)
    }

    #[inline]
    fn is_cold(&self) -> bool {
        let (tick, bound) = (self.tick, self.tick.thermo.consolidation.cold_threshold);
        below(self.now, bound)
            .unwrap_or_else(|| self.seen.heat_under(&tick.thermo, tick.until) < bound)
    }
}

/// Whether a heat with this ceiling lies below `bound`, where the ceiling tells: the heat is
/// 99 % of it at least.
#[inline]
fn below(ceiling: Option<f32>, bound: f64) -> Option<bool> {
    let ceiling = f64::from(ceiling?);
    match (ceiling < bound, ceiling * 0.99 >= bound) {
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

    fn offer(&mut self, id: MemoryId) {
        if self.above.is_some_and(|above| id <= above) {
            return;
        }
        if self.kept.len() == self.most {
            match self.kept.peek() {
                Some(largest) if id < *largest => self.kept.pop(),
                _ => return,
            };
        }
        self.kept.push(id);
    }

    fn into_sorted(self) -> Vec<MemoryId> {
        self.kept.into_sorted_vec()
    }
}
