//! The scan: visits all memories of a tenant that match a filter, chunk by chunk.
//!
//! For each matching row of a chunk it computes an upper bound of the heat: of many rows in one pass
//! over columns, of few rows one by one. The visitor excludes rows by it before it computes anything
//! exact. Chunks are visited newest
//! first: new memories rank high under most orders, so the top-k threshold rises early.

use index::chunk::{Chunk, RowRef};
use index::data::IndexData;
use index::data::TenantIndex;
use index::{CHUNK_ROWS, row_of, slot_at};
use model::id::Timestamp;

use crate::search::filter::{CompiledFilter, Filter};

/// Up to this many rows of a chunk are computed one by one, more together with all others.
pub(crate) const FEW_ROWS: usize = 32;
/// Exceeds the relative error of rounding to f32.
const ROUNDED_UP: f32 = 1.0 + 2.0 * f32::EPSILON;

/// The matching rows of one chunk. Arrays are indexed by row.
pub(crate) struct ChunkCandidates<'a> {
    pub(crate) chunk: &'a Chunk,
    /// Matching rows, newest first. The visitor may remove rows.
    pub(crate) rows: &'a mut Vec<u16>,
    /// Upper bound of the heat of the matching rows.
    pub(crate) heat_upper_bounds: &'a [f32; CHUNK_ROWS],
}

impl<'a> ChunkCandidates<'a> {
    /// The matching rows with their row numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, RowRef<'a>)> {
        let chunk = self.chunk;
        self.rows.iter().map(|row| usize::from(*row)).map(move |row| (row, chunk.row(row)))
    }
}

/// An upper bound of the heat of a row.
pub(crate) fn heat_upper_bound(row: RowRef<'_>, now: Timestamp) -> f32 {
    row.heat(now) as f32 * ROUNDED_UP
}

/// Calls `visit` for each chunk with matching rows, newest first.
pub(crate) fn scan(
    index: &TenantIndex,
    filter: &Filter,
    now: Timestamp,
    mut visit: impl FnMut(ChunkCandidates<'_>),
) {
    let mut heat_upper_bounds = [0.0; CHUNK_ROWS];
    visit_matching_chunks(index, filter, |_, chunk, rows| {
        if rows.len() > FEW_ROWS {
            chunk.heat_bounds.upper_bounds(now, &mut heat_upper_bounds);
        } else {
            for row in rows.iter().map(|row| usize::from(*row)) {
                heat_upper_bounds[row] = heat_upper_bound(chunk.row(row), now);
            }
        }
        visit(ChunkCandidates { chunk, rows, heat_upper_bounds: &heat_upper_bounds });
        true
    });
}

/// Whether more than `count` memories match.
pub(crate) fn matches_exceed(index: &TenantIndex, filter: &Filter, count: usize) -> bool {
    let mut matches = 0;
    // A statement of its own releases the lock before `visit_chunks` takes it.
    let compiled = filter.compile(&index.read());
    match compiled {
        // Counting is faster than listing rows.
        Some(CompiledFilter {
            mask,
            slots: None,
            denied_namespaces,
            happened: None,
            valid_at: None,
            condition: None,
        }) if denied_namespaces.is_empty() => {
            index.visit_chunks(|_, _, chunk| {
                matches += chunk.count(mask);
                matches <= count
            });
        }
        _ => visit_matching_chunks(index, filter, |_, _, rows| {
            matches += rows.len();
            matches <= count
        }),
    }
    matches > count
}

/// Calls `visit` for each chunk with matching rows, newest first, until it returns false.
pub(crate) fn visit_matching_chunks(
    index: &TenantIndex,
    filter: &Filter,
    mut visit: impl FnMut(&IndexData, &Chunk, &mut Vec<u16>) -> bool,
) {
    let compiled = filter.compile(&index.read());
    let Some(filter) = compiled else { return };
    let mut rows = Vec::new();
    // A memory never changes its slot, so no id is visited twice.
    index.visit_chunks(|data, number, chunk| {
        filter.matching_rows(number, chunk, &mut rows);
        rows.is_empty() || visit(data, chunk, &mut rows)
    });
}

impl CompiledFilter {
    /// Writes the matching rows of a chunk to `rows`, highest row first: roughly the newest first.
    fn matching_rows(&self, number: usize, chunk: &Chunk, rows: &mut Vec<u16>) {
        let Some(slots) = &self.slots else {
            chunk.matching_rows(self.mask, rows);
            return self.retain_allowed(number, chunk, rows);
        };
        let slots = slots.range(slot_at(number, 0)..=slot_at(number, CHUNK_ROWS - 1)).rev();
        rows.clear();
        rows.extend(slots.map(|slot| row_of(slot) as u16));
        self.retain(number, chunk, rows);
    }

    /// Removes the rows that do not match.
    pub(super) fn retain(&self, number: usize, chunk: &Chunk, rows: &mut Vec<u16>) {
        chunk.retain_matching(self.mask, rows);
        if let Some(slots) = &self.slots {
            rows.retain(|row| slots.contains(slot_at(number, usize::from(*row))));
        }
        self.retain_allowed(number, chunk, rows);
    }

    /// Removes the rows that are closed to the caller, or are of another time.
    fn retain_allowed(&self, number: usize, chunk: &Chunk, rows: &mut Vec<u16>) {
        if !self.denied_namespaces.is_empty() {
            let namespace = |row: u16| chunk.row(row.into()).attributes().namespace();
            rows.retain(|row| self.denied_namespaces.binary_search(&namespace(*row)).is_err());
        }
        if let Some(happened) = &self.happened {
            rows.retain(|row| happened.contains(&chunk.row((*row).into()).happened_at()));
        }
        if let Some(at) = self.valid_at {
            rows.retain(|row| chunk.row((*row).into()).holds_at(at));
        }
        if let Some(condition) = &self.condition {
            rows.retain(|row| {
                let row = usize::from(*row);
                condition.holds(slot_at(number, row), chunk.row(row))
            });
        }
    }
}
