//! Columns of 1,024 memories: what a scan reads, side by side in memory. Which
//! memory sits in which row is the tenant index's business.

use crate::model::heat::{Anchor, Cooling, cooled};
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::{DecayClass, Memory, MemoryType, Tier};
use crate::model::thermo::Thermo;

/// Rows of a chunk, and the longest that a reader holds the lock of a tenant.
pub(crate) const CHUNK_ROWS: usize = 1_024;

/// Number of a memory within its tenant's index: chunk and row in one.
pub(crate) type Slot = u32;

/// One memory as far as filters and orders look at it.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) id: MemoryId,
    pub(crate) memory_type: MemoryType,
    pub(crate) decay_class: DecayClass,
    pub(crate) namespace: u32,
    pub(crate) is_pinned: bool,
    pub(crate) is_flagged: bool,
    pub(crate) archived_at: Option<Timestamp>,
    pub(crate) min_heat: f32,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl Row {
    pub(crate) fn of(id: MemoryId, memory: &Memory, namespace: u32) -> Self {
        Self {
            id,
            memory_type: memory.memory_type,
            decay_class: memory.decay_class,
            namespace,
            is_pinned: memory.is_pinned,
            is_flagged: memory.is_flagged,
            archived_at: memory.archived_at,
            min_heat: memory.min_heat,
            created_at: memory.created_at,
            updated_at: memory.updated_at,
        }
    }

    pub(crate) fn tier(&self) -> Tier {
        if self.archived_at.is_some() { Tier::Cold } else { Tier::Hot }
    }

    fn cooling(&self, thermo: &Thermo) -> Cooling {
        let cools = !self.is_pinned && self.archived_at.is_none();
        Cooling::with(thermo, self.memory_type, self.decay_class, self.min_heat, cools)
    }
}

/// The four numbers that a heat is read from.
#[derive(Debug, Clone, Copy, Default)]
struct HeatCell {
    at: Timestamp,
    rate: f64,
    heat: f32,
    floor: f32,
    stability: f32,
}

/// 1,024 rows; a row without a memory is `None` in `rows`.
pub(crate) struct Chunk {
    rows: Vec<Option<Row>>,
    heats: Vec<HeatCell>,
    vectors: Vec<f32>,
    dimension: usize,
}

impl Chunk {
    pub(crate) fn new(dimension: usize) -> Self {
        Self {
            rows: vec![None; CHUNK_ROWS],
            heats: vec![HeatCell::default(); CHUNK_ROWS],
            vectors: vec![0.0; CHUNK_ROWS * dimension],
            dimension,
        }
    }

    /// The memories here with their row numbers.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter_map(|(at, row)| row.as_ref().map(|row| (at, row)))
    }

    /// Heat of the memory in row `at`.
    #[inline]
    pub(crate) fn heat(&self, at: usize, now: Timestamp) -> f64 {
        let cell = &self.heats[at];
        cooled(cell.heat, cell.at, cell.rate, cell.floor, now)
    }

    /// Unit vector of the memory in row `at`.
    #[inline]
    pub(crate) fn vector(&self, at: usize) -> &[f32] {
        &self.vectors[at * self.dimension..(at + 1) * self.dimension]
    }

    pub(crate) fn set_row(&mut self, at: usize, row: Row, thermo: &Thermo) {
        self.rows[at] = Some(row);
        self.recool(at, thermo);
    }

    pub(crate) fn set_anchor(&mut self, at: usize, anchor: &Anchor, thermo: &Thermo) {
        let cell = &mut self.heats[at];
        (cell.heat, cell.at, cell.stability) = (anchor.heat, anchor.at, anchor.stability);
        self.recool(at, thermo);
    }

    pub(crate) fn set_vector(&mut self, at: usize, components: &[f32]) {
        self.vectors[at * self.dimension..(at + 1) * self.dimension].copy_from_slice(components);
    }

    pub(crate) fn clear(&mut self, at: usize) {
        self.rows[at] = None;
        self.heats[at] = HeatCell::default();
    }

    /// Reads the row's cooling anew: its properties or the configuration changed.
    pub(crate) fn recool(&mut self, at: usize, thermo: &Thermo) {
        let Some(row) = &self.rows[at] else { return };
        let cooling = row.cooling(thermo);
        let cell = &mut self.heats[at];
        cell.floor = cooling.floor;
        // Before its anchor arrives a row's stability is 0; its heat is 0 as well.
        cell.rate =
            if cell.stability > 0.0 { cooling.rate / f64::from(cell.stability) } else { 0.0 };
    }
}
