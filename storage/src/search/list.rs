//! Lists and hot context: orders that ask for no meaning.

use crate::engine::{Reader, thermo};
use crate::error::Result;
use crate::index::chunk::CHUNK_ROWS;
use crate::model::id::{MemoryId, TenantId, Timestamp};
use crate::model::memory::{MemoryRecord, MemoryType};
use crate::search::scan::{ChunkCandidates, Filter, RowRef, each_chunk_passing, scan};
use crate::search::top_k::{Rank, TopK, lowest_upper_bound, of_heat, of_i64};
use crate::table::view::View;

/// How often a page is looked for that comes back short, since what was found has
/// gone in between.
const SCANS_MAX: usize = 3;

/// What a list is ordered by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Present heat.
    #[default]
    Heat,
    /// Last change by somebody.
    UpdatedAt,
    /// Creation.
    CreatedAt,
    /// Name of the type, alphabetically.
    MemoryType,
}

/// Direction of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Highest, newest or last in the alphabet first.
    #[default]
    Descending,
    /// The reverse.
    Ascending,
}

/// A page of a list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Which memories.
    pub filter: Filter,
    /// Ordered by what.
    pub sort: Sort,
    /// In which direction.
    pub order: Order,
    /// Memories to skip.
    pub offset: usize,
    /// Most memories to return.
    pub limit: usize,
}

/// A page of memories and how many there are in all.
#[derive(Debug, Clone)]
pub struct Page {
    /// The memories asked for, in order.
    pub memories: Vec<MemoryRecord>,
    /// Memories that pass the filter.
    pub total: usize,
}

/// What the numbers of a rank are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// Zero, the heat, and the last change or less.
    Heat,
    /// Whether a memory is pinned, its heat, and its last change or less.
    PinnedThenHeat,
    /// Anything.
    Other,
}

/// The hottest memories.
#[derive(Debug, Clone, Default)]
pub struct HotRequest {
    /// Which memories.
    pub filter: Filter,
    /// Pinned ones first (hot context), or by heat alone (hot nodes).
    pub pinned_first: bool,
    /// Most memories to return.
    pub limit: usize,
    /// Most characters of their labels together; the first is returned whatever it has.
    pub budget_chars: Option<usize>,
}

impl Reader {
    /// A page of the memories of a tenant.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn list(&self, tenant: TenantId, request: &ListRequest) -> Result<Page> {
        let key = |row: &RowRef<'_>, now| match request.sort {
            Sort::Heat => of_heat(row.heat(now)),
            Sort::UpdatedAt => of_i64(row.updated_at().0),
            Sort::CreatedAt => of_i64(row.created_at().0),
            Sort::MemoryType => alphabetical(row.properties().memory_type()),
        };
        let rank = |row: &RowRef<'_>, now| match request.order {
            Order::Descending => [0, key(row, now), 0],
            Order::Ascending => [0, !key(row, now), 0],
        };
        let by = match (request.sort, request.order) {
            (Sort::Heat, Order::Descending) => By::Heat,
            _ => By::Other,
        };
        self.ranked(tenant, &request.filter, request.offset, request.limit, by, rank)
    }

    /// The hottest memories of a tenant: ordered by heat, then by last change.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn hottest(&self, tenant: TenantId, request: &HotRequest) -> Result<Vec<MemoryRecord>> {
        Ok(self.hottest_of(tenant, request)?.0)
    }

    /// The same, with how many pass the filter in all.
    pub(crate) fn hottest_of(
        &self,
        tenant: TenantId,
        request: &HotRequest,
    ) -> Result<(Vec<MemoryRecord>, usize)> {
        let rank = |row: &RowRef<'_>, now| {
            let pinned = request.pinned_first && row.properties().is_pinned();
            [u64::from(pinned), of_heat(row.heat(now)), of_i64(row.updated_at().0)]
        };
        let by = if request.pinned_first { By::PinnedThenHeat } else { By::Heat };
        let mut page = self.ranked(tenant, &request.filter, 0, request.limit, by, rank)?;
        if let Some(mut left) = request.budget_chars {
            let mut kept = 0;
            for record in &page.memories {
                let chars = record.memory.label.chars().count();
                if chars > left && kept > 0 {
                    break;
                }
                (left, kept) = (left.saturating_sub(chars), kept + 1);
            }
            page.memories.truncate(kept);
        }
        Ok((page.memories, page.total))
    }

    /// Ids of all memories that pass, in no order.
    pub fn ids(&self, tenant: TenantId, filter: &Filter) -> Vec<MemoryId> {
        let mut ids = Vec::new();
        if let Some(index) = self.engine().registry.tenant(tenant) {
            scan(&index, filter, None, None, Timestamp::default(), |candidates| {
                ids.extend(candidates.each().map(|(_, row)| row.id()));
            });
        }
        ids
    }

    /// A page of what passes, by `rank`.
    fn ranked(
        &self,
        tenant: TenantId,
        filter: &Filter,
        offset: usize,
        limit: usize,
        by: By,
        rank: impl Fn(&RowRef<'_>, Timestamp) -> Rank,
    ) -> Result<Page> {
        let engine = self.engine();
        let Some(index) = engine.registry.tenant(tenant) else {
            return Ok(Page { memories: Vec::new(), total: 0 });
        };
        let thermo = thermo(&engine, tenant);
        let mut scans = 0;
        loop {
            let now = engine.position.read().clock;
            // A page beyond the last memory needs none: only their number.
            let wanted =
                if offset < index.read().live() { offset.saturating_add(limit) } else { 0 };
            let (mut best, mut total) = (TopK::new(wanted), 0_usize);
            let (overlaps, mut heat_upper_bounds) = ([0.0; CHUNK_ROWS], [0.0; CHUNK_ROWS]);
            each_chunk_passing(&index, filter, None, |_, number, chunk, rows| {
                total += rows.len();
                if let Some(limit) = chunk.limit(now).filter(|_| by != By::Other) {
                    let pinned = by == By::PinnedThenHeat && chunk.has_pinned();
                    if best.refuses(highest(pinned, limit)) {
                        return true;
                    }
                    if best.refuses(highest(false, limit)) {
                        rows.retain(|at| chunk.properties(usize::from(*at)).is_pinned());
                    }
                }
                chunk.heat_upper_bounds(now, &mut heat_upper_bounds);
                let heat_upper_bounds = &heat_upper_bounds;
                let mut candidates =
                    ChunkCandidates { chunk, number, rows, overlaps: &overlaps, heat_upper_bounds };
                if let Some(least) = least_heat(&best).filter(|_| by != By::Other) {
                    candidates.keep_hotter_or_pinned(least);
                }
                // The next reader may pass over the chunk.
                if by != By::Other {
                    chunk.find_limit(now);
                }
                for (_, row) in candidates.each() {
                    best.offer(rank(&row, now), row.id(), || ());
                }
                true
            });
            let rows = engine.state.at_once();
            let mut memories = Vec::new();
            for (id, ()) in best.into_sorted().skip(offset) {
                // One deleted or moved away since the scan is in no answer of now.
                let record = rows.memory_record(tenant, id, &thermo, now)?;
                memories.extend(record.filter(|record| filter.still_passes(&record.memory)));
            }
            scans += 1;
            // A page that is not full means the end to whoever reads page by page.
            let whole = memories.len() >= limit.min(total.saturating_sub(offset));
            if whole || scans == SCANS_MAX {
                return Ok(Page { memories, total });
            }
        }
    }
}

/// The rank that no memory of a chunk exceeds with this highest heat and last change, if
/// one is pinned where that comes first, or none is.
fn highest(pinned: bool, (heat, updated_at): (f64, Timestamp)) -> Rank {
    // A limit is computed in another way than a heat, and may differ from it in the last bits.
    [u64::from(pinned), of_heat(heat + 1e-9), of_i64(updated_at.0)]
}

/// The heat upper_bound below which no memory would be kept that is not pinned.
fn least_heat<T>(best: &TopK<T>) -> Option<f32> {
    best.worst().map(|[pinned, heat, _]| match pinned {
        0 => lowest_upper_bound(heat),
        _ => f32::INFINITY,
    })
}

fn alphabetical(memory_type: MemoryType) -> u64 {
    let name = memory_type.name().as_bytes();
    let mut first = [0; 8];
    let length = name.len().min(8);
    first[..length].copy_from_slice(&name[..length]);
    u64::from_be_bytes(first)
}
