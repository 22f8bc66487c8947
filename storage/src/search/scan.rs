//! The scan: visits all memories of a tenant that match a filter, chunk by chunk.
//!
//! For each chunk with matches it computes an upper bound of every heat and the keyword
//! overlap of every row, each in one pass over a column or over postings. The visitor excludes
//! rows by these numbers before it computes anything exact. Chunks are visited newest first: new
//! memories rank high under most orders, so the top-k threshold rises early.

use roaring::RoaringBitmap;

use crate::index::chunk::{Chunk, RowRef};
use crate::index::data::IndexData;
use crate::index::tenant::TenantIndex;
use crate::index::words::QueryTerms;
use crate::index::{CHUNK_ROWS, slot_at};
use crate::model::id::Timestamp;
use crate::search::filter::{CompiledFilter, Filter};

/// Up to this many rows of a chunk are computed one by one, more together with all others.
pub(crate) const FEW_ROWS: usize = 32;
/// Exceeds the relative error of rounding to f32.
const ROUNDED_UP: f32 = 1.0 + 2.0 * f32::EPSILON;

/// The matching rows of one chunk. Arrays are indexed by row.
pub(crate) struct ChunkCandidates<'a> {
    pub(crate) chunk: &'a Chunk,
    /// Number of the chunk.
    pub(crate) number: usize,
    /// Matching rows, newest first. The visitor may remove rows.
    pub(crate) rows: &'a mut Vec<u16>,
    /// Keyword overlap with the query, 0 without a query.
    pub(crate) overlaps: &'a [f64; CHUNK_ROWS],
    /// Upper bound of the heat.
    pub(crate) heat_upper_bounds: &'a [f32; CHUNK_ROWS],
}

impl<'a> ChunkCandidates<'a> {
    /// The matching rows with their row numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, RowRef<'a>)> {
        let chunk = self.chunk;
        self.rows.iter().map(|row| usize::from(*row)).map(move |row| (row, chunk.row(row)))
    }
}

/// Calls `visit` for each chunk with matching rows, newest first. `slots` restricts the scan.
/// `terms` are the query terms for keyword overlaps.
pub(crate) fn scan(
    index: &TenantIndex,
    filter: &Filter,
    slots: Option<&RoaringBitmap>,
    terms: Option<&QueryTerms>,
    now: Timestamp,
    mut visit: impl FnMut(ChunkCandidates<'_>),
) {
    let (mut overlaps, mut heat_upper_bounds) = ([0.0; CHUNK_ROWS], [0.0; CHUNK_ROWS]);
    visit_matching_chunks(index, filter, slots, |data, number, chunk, rows| {
        if rows.len() > FEW_ROWS {
            chunk.heat_bounds.upper_bounds(now, &mut heat_upper_bounds);
        } else {
            for row in rows.iter().map(|row| usize::from(*row)) {
                heat_upper_bounds[row] = chunk.row(row).heat(now) as f32 * ROUNDED_UP;
            }
        }
        if let Some(terms) = terms {
            data.words.keyword_overlaps(terms, number, &mut overlaps);
        }
        let (overlaps, heat_upper_bounds) = (&overlaps, &heat_upper_bounds);
        visit(ChunkCandidates { chunk, number, rows, overlaps, heat_upper_bounds });
        true
    });
}

/// Whether more than `count` memories match.
pub(crate) fn matches_exceed(index: &TenantIndex, filter: &Filter, count: usize) -> bool {
    let mut matches = 0;
    let compiled = filter.compile(&index.read(), None);
    match compiled {
        // Counting is faster than listing rows.
        Some(CompiledFilter { mask, slots: None, denied_namespaces, created: None })
            if denied_namespaces.is_empty() =>
        {
            index.visit_chunks(|_, _, chunk| {
                matches += chunk.count(mask);
                matches <= count
            });
        }
        _ => visit_matching_chunks(index, filter, None, |_, _, _, rows| {
            matches += rows.len();
            matches <= count
        }),
    }
    matches > count
}

/// An upper bound of all heats of a tenant.
pub(crate) fn max_heat(index: &TenantIndex, now: Timestamp) -> f64 {
    let mut highest = 0.0_f64;
    index.visit_chunks(|_, _, chunk| {
        chunk.refresh_max_heat(now);
        highest = highest.max(chunk.max(now).map_or(1.0, |max| max.heat));
        highest < 1.0
    });
    highest
}

/// Calls `visit` for each chunk with matching rows, newest first, until it returns false.
pub(crate) fn visit_matching_chunks(
    index: &TenantIndex,
    filter: &Filter,
    slots: Option<&RoaringBitmap>,
    mut visit: impl FnMut(&IndexData, usize, &Chunk, &mut Vec<u16>) -> bool,
) {
    // A statement of its own releases the lock before `visit_chunks` takes it.
    let compiled = filter.compile(&index.read(), slots);
    let Some(CompiledFilter { mask, slots, denied_namespaces, created }) = compiled else { return };
    let mut rows = Vec::new();
    // A memory never changes its slot, so no id is visited twice.
    index.visit_chunks(|data, number, chunk| {
        let first = slot_at(number, 0);
        let candidates = slots.as_ref().map(|slots| {
            let slots = slots.range(first..=slot_at(number, CHUNK_ROWS - 1)).rev();
            slots.map(move |slot| (slot - first) as usize)
        });
        chunk.matching_rows(mask, candidates, &mut rows);
        if !denied_namespaces.is_empty() {
            let namespace = |row: u16| chunk.row(row.into()).attributes().namespace();
            rows.retain(|row| denied_namespaces.binary_search(&namespace(*row)).is_err());
        }
        if let Some(created) = &created {
            rows.retain(|row| created.contains(&chunk.row((*row).into()).created_at()));
        }
        rows.is_empty() || visit(data, number, chunk, &mut rows)
    });
}
