//! Lists and hot context: memories in an order that needs no query.
//!
//! One scan with a top-k heap of `offset + limit` entries. Orders by heat are pruned with
//! block-max bounds: a chunk is skipped if its highest heat ranks below the heap's threshold.
//! Rows are skipped by their own heat bound.

use std::ops::Range;

use index::CHUNK_ROWS;
use index::chunk::{Chunk, ChunkMax, RowRef};
use index::data::TenantIndex;
use model::decay::{Decay, heat};
use model::id::{MemoryId, TenantId, Timestamp};
use model::memory::{MemoryRecord, MemoryType};
use model::score::rounded;

use crate::error::Result;
use crate::reader::Reader;
use crate::search::filter::{Filter, TEXT_BYTES_MAX, TextRoom};
use crate::search::scan::visit_matching_chunks;
use crate::search::top_k::{
    Rank, SmallestIds, TopK, lowest_upper_bound, ordered_heat, ordered_i64,
};
use crate::table::view::View;

/// Maximum number of scans for one page. A page is scanned again if it came out short because
/// memories were deleted between scan and read.
const SCANS_MAX: usize = 3;

/// Sort key of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Present heat.
    #[default]
    Heat,
    /// Last change by a client or trigger.
    UpdatedAt,
    /// Creation time.
    CreatedAt,
    /// Name of the type.
    MemoryType,
}

/// Direction of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Highest, newest, or last in the alphabet first.
    #[default]
    Descending,
    /// The reverse.
    Ascending,
}

/// Request for a page of a list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Which memories.
    pub filter: Filter,
    /// Sort key.
    pub sort: Sort,
    /// Direction.
    pub order: Order,
    /// Begins after the end of another page. `offset` counts from there.
    pub after: Option<ListCursor>,
    /// Memories to skip.
    pub offset: usize,
    /// Maximum number of memories to return.
    pub limit: usize,
    /// Only memories with at least this heat now.
    pub min_heat: Option<f64>,
}

/// Where a page ends. Deletions do not move it, since it is a place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListCursor {
    /// Of its list.
    pub sort: Sort,
    /// Of its list.
    pub order: Order,
    /// The sort key of its last memory, as a number in the same order.
    pub key: u64,
    /// The last memory.
    pub id: MemoryId,
    /// The time whose heats order the list.
    pub at: Timestamp,
}

/// A page of memories.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The memories of the page, in order.
    pub memories: Vec<MemoryRecord>,
    /// Number of memories that match the filter.
    pub total: usize,
    /// Its end, if there are more.
    pub next: Option<ListCursor>,
}

/// Request for the hottest memories.
#[derive(Debug, Clone, Default)]
pub struct HotRequest {
    /// Which memories.
    pub filter: Filter,
    /// Pinned memories first (hot context), or by heat only (hot nodes).
    pub pinned_first: bool,
    /// Maximum number of memories to return.
    pub limit: usize,
    /// Maximum number of characters of all labels together. The first memory is always returned.
    pub budget_chars: Option<usize>,
}

/// Which of the ranked memories a read returns: those in the range, as far as their texts fit.
struct Slice {
    range: Range<usize>,
    text_bytes_max: usize,
    min_heat: Option<f64>,
    /// Only memories that rank below.
    after: Option<(Rank, MemoryId)>,
    /// The time of the heats. `None` is now.
    at: Option<Timestamp>,
}

impl Slice {
    /// Whether a heat is high enough, as it is shown: 0.7 is stored as a little less.
    fn has(&self, heat: f64) -> bool {
        self.min_heat.is_none_or(|min| rounded(heat) >= min)
    }
}

/// Rank and id of the last memory of a page, and the time of the heats.
type PageEnd = (Rank, MemoryId, Timestamp);

/// How heat bounds prune a scan: depends on the meaning of the rank's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pruning {
    /// The rank is `[0, heat, last update or less]`.
    ByHeat,
    /// The rank is `[is pinned, heat, last update or less]`.
    PinnedThenHeat,
    /// Other ranks cannot be pruned.
    None,
}

impl Reader {
    /// A page of a tenant's memories.
    pub fn list(&self, tenant: TenantId, request: &ListRequest) -> Result<Page> {
        let key = |row: &RowRef<'_>, now| match request.sort {
            Sort::Heat => ordered_heat(row.heat(now)),
            Sort::UpdatedAt => ordered_i64(row.updated_at().0),
            Sort::CreatedAt => ordered_i64(row.created_at().0),
            Sort::MemoryType => ordered_name(row.attributes().memory_type()),
        };
        let ListRequest { sort, order, after, min_heat, .. } = *request;
        let rank = |row: &RowRef<'_>, now| list_rank(order, key(row, now), row.id());
        let pruning = match (sort, order, after) {
            (Sort::Heat, Order::Descending, None) => Pruning::ByHeat,
            _ => Pruning::None,
        };
        let slice = Slice {
            range: request.offset..request.offset.saturating_add(request.limit),
            text_bytes_max: usize::MAX,
            min_heat,
            after: after.map(|after| (list_rank(order, after.key, after.id), after.id)),
            at: after.map(|after| after.at),
        };
        let (page, end) = self.ranked(tenant, &request.filter, slice, pruning, rank)?;
        let next = end.map(|(rank, id, at)| {
            let [first, second, _] = rank;
            let key = if order == Order::Descending { second } else { !first };
            ListCursor { sort, order, key, id, at }
        });
        Ok(Page { next, ..page })
    }

    /// The hottest memories of a tenant, by heat, then by last update, as far as their texts fit.
    pub fn hottest(&self, tenant: TenantId, request: &HotRequest) -> Result<Vec<MemoryRecord>> {
        Ok(self.hottest_page(tenant, request)?.memories)
    }

    /// As [`Self::hottest`], with the number of all matching memories.
    pub(super) fn hottest_page(&self, tenant: TenantId, request: &HotRequest) -> Result<Page> {
        let rank = |row: &RowRef<'_>, now| {
            let is_pinned = request.pinned_first && row.attributes().is_pinned();
            [u64::from(is_pinned), ordered_heat(row.heat(now)), ordered_i64(row.updated_at().0)]
        };
        let pruning = if request.pinned_first { Pruning::PinnedThenHeat } else { Pruning::ByHeat };
        let (range, text_bytes_max) = (0..request.limit, TEXT_BYTES_MAX);
        let slice = Slice { range, text_bytes_max, min_heat: None, after: None, at: None };
        let (mut page, _) = self.ranked(tenant, &request.filter, slice, pruning, rank)?;
        if let Some(budget) = request.budget_chars {
            page.memories.truncate(within_budget(&page.memories, budget));
        }
        Ok(page)
    }

    /// Ids of all matching memories, in order: the order of rows in the index would tell of
    /// deletions of other memories.
    pub fn ids(&self, tenant: TenantId, filter: &Filter) -> Vec<MemoryId> {
        let mut ids = Vec::new();
        self.visit_ids(tenant, filter, |id| ids.push(id));
        ids.sort_unstable();
        ids
    }

    /// The smallest ids of matching memories after `after`, in order, at most `count`.
    pub(super) fn ids_after(
        &self,
        tenant: TenantId,
        filter: &Filter,
        after: Option<MemoryId>,
        count: usize,
    ) -> Vec<MemoryId> {
        let mut smallest = SmallestIds::new(count);
        self.visit_ids(tenant, filter, |id| {
            if Some(id) > after {
                smallest.push(id);
            }
        });
        smallest.into_sorted()
    }

    fn visit_ids(&self, tenant: TenantId, filter: &Filter, mut visit: impl FnMut(MemoryId)) {
        let Some(index) = self.index(tenant) else { return };
        visit_matching_chunks(&index, filter, |_, chunk, rows| {
            rows.iter().for_each(|row| visit(chunk.row((*row).into()).id()));
            true
        });
    }

    /// A slice of the matching memories, ordered by `rank`. With its end, if there are more.
    fn ranked(
        &self,
        tenant: TenantId,
        filter: &Filter,
        slice: Slice,
        pruning: Pruning,
        rank: impl Fn(&RowRef<'_>, Timestamp) -> Rank,
    ) -> Result<(Page, Option<PageEnd>)> {
        let page = slice.range.clone();
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else { return Ok(Default::default()) };
        let thermo = engine.thermo(tenant);
        let mut scans = 0;
        loop {
            let clock = engine.clock();
            let now = slice.at.map_or(clock, |at| at.min(clock));
            let (best, total) = ranked_ids(&index, filter, &slice, pruning, now, &rank);
            let ids: Vec<_> = best.into_sorted().skip(page.start).collect();
            let (ids, more) = ids.split_at(ids.len().min(page.len()));
            let end = ids.last().filter(|_| !more.is_empty()).map(|(id, rank)| (*rank, *id, now));
            let snapshot = engine.state.snapshot();
            let (mut memories, mut room) = (Vec::new(), TextRoom(slice.text_bytes_max));
            for (id, _) in ids.iter().copied() {
                // The memory may have been deleted or changed since the scan.
                let record = snapshot.memory_record(tenant, id, &thermo, clock)?;
                let is_wanted = |record: &MemoryRecord| {
                    let decay = Decay::of(&record.memory, &thermo);
                    filter.matches(&record.memory) && slice.has(heat(&record.anchor, decay, now))
                };
                let record = record.filter(is_wanted);
                if record.as_ref().is_some_and(|record| !room.take(&record.memory)) {
                    return Ok((Page { memories, total, next: None }, end));
                }
                memories.extend(record);
            }
            scans += 1;
            // Clients take a short page for the last one.
            if memories.len() >= ids.len() || scans == SCANS_MAX {
                return Ok((Page { memories, total, next: None }, end));
            }
        }
    }
}

/// How many of the first memories fit into a budget of characters: at least one.
fn within_budget(memories: &[MemoryRecord], budget: usize) -> usize {
    let (mut remaining, mut count) = (budget, 0);
    for record in memories {
        let chars = record.memory.label.chars().count();
        if chars > remaining && count > 0 {
            break;
        }
        (remaining, count) = (remaining.saturating_sub(chars), count + 1);
    }
    count
}

/// The rank of a memory in a list. Of equal keys, an ascending list has the oldest first.
fn list_rank(order: Order, key: u64, id: MemoryId) -> Rank {
    let id = u128::from_be_bytes(id.0);
    match order {
        Order::Descending => [0, key, 0],
        Order::Ascending => [!key, !(id >> 64) as u64, !id as u64],
    }
}

/// The best memories by `rank` up to the end of `slice` and the next one, each with its rank, and the number of
/// matching memories.
fn ranked_ids(
    index: &TenantIndex,
    filter: &Filter,
    slice: &Slice,
    pruning: Pruning,
    now: Timestamp,
    rank: impl Fn(&RowRef<'_>, Timestamp) -> Rank,
) -> (TopK<Rank>, usize) {
    // A page beyond the last memory is empty and needs only the total.
    let Range { start, end } = slice.range;
    let capacity = if start < index.read().live() { end.saturating_add(1) } else { 0 };
    let (mut best, mut total) = (TopK::new(capacity), 0_usize);
    let mut heat_upper_bounds = [0.0; CHUNK_ROWS];
    visit_matching_chunks(index, filter, |_, chunk, rows| {
        if slice.min_heat.is_some() {
            rows.retain(|row| slice.has(chunk.row(usize::from(*row)).heat(now)));
        }
        total += rows.len();
        if pruning != Pruning::None && !retain_possible_rows(&best, pruning, chunk, now, rows) {
            return true;
        }
        if pruning != Pruning::None {
            if let Some(lowest) = heat_threshold(&best) {
                chunk.heat_bounds.upper_bounds(now, &mut heat_upper_bounds);
                // Exact heats are the main cost of an order by heat.
                rows.retain(|row| {
                    let row = usize::from(*row);
                    heat_upper_bounds[row] >= lowest || chunk.row(row).attributes().is_pinned()
                });
            }
            // Later readers may then skip the chunk.
            chunk.refresh_max_heat(now);
        }
        for row in rows.iter().map(|row| chunk.row(usize::from(*row))) {
            let (rank, id) = (rank(&row, now), row.id());
            if slice.after.is_none_or(|after| (rank, id) < after) {
                best.push(rank, id, || rank);
            }
        }
        true
    });
    (best, total)
}

/// Prunes a chunk by its maximum. Returns false if no row can enter `best`. If only pinned
/// rows can, removes the others.
fn retain_possible_rows<T>(
    best: &TopK<T>,
    pruning: Pruning,
    chunk: &Chunk,
    now: Timestamp,
    rows: &mut Vec<u16>,
) -> bool {
    let Some(max) = chunk.max(now) else { return true };
    let may_be_pinned = pruning == Pruning::PinnedThenHeat && chunk.pinned_count > 0;
    if best.rejects(highest_rank(may_be_pinned, max)) {
        return false;
    }
    if best.rejects(highest_rank(false, max)) {
        rows.retain(|row| chunk.row(usize::from(*row)).attributes().is_pinned());
    }
    true
}

/// The highest possible rank of a row in a chunk with this maximum.
fn highest_rank(is_pinned: bool, max: ChunkMax) -> Rank {
    // Maximum and heats are computed differently and may differ in the last bits.
    [u64::from(is_pinned), ordered_heat(max.heat + 1e-9), ordered_i64(max.updated_at.0)]
}

/// The heat bound below which `best` rejects all rows that are not pinned.
fn heat_threshold<T>(best: &TopK<T>) -> Option<f32> {
    let [is_pinned, heat, _] = best.threshold()?;
    Some(if is_pinned == 0 { lowest_upper_bound(heat) } else { f32::INFINITY })
}

/// A number that orders types by name.
fn ordered_name(memory_type: MemoryType) -> u64 {
    MemoryType::ALL.iter().filter(|other| other.name() < memory_type.name()).count() as u64
}
