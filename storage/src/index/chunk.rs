//! A chunk: 1,024 memories of one tenant as columns. Scans read these columns, never rows of
//! the state.
//!
//! Each column is contiguous, so a scan touches only the columns that it needs. Per chunk
//! there are upper bounds for pruning: of all heats ([`Chunk::max`]), of each heat
//! ([`Chunk::heat_upper_bounds`]) and of each similarity
//! ([`Chunk::similarity_upper_bounds`]). [`crate::index::data`] assigns rows to memories.

use parking_lot::Mutex;

use crate::index::attributes::{AttributeMask, Attributes};
use crate::index::heats::{HeatBounds, HeatCell, MaxHeat};
use crate::index::slot::CHUNK_ROWS;
use crate::model::decay::Decay;
use crate::model::heat::{Anchor, decayed};
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::{Memory, Tier};
use crate::model::sq8::{self, Code};
use crate::model::thermo::Thermo;

/// The fields of a memory's text row that the index stores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowFields {
    pub(crate) id: MemoryId,
    pub(crate) attributes: Attributes,
    pub(crate) min_heat: f32,
    pub(crate) label_bytes: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

impl RowFields {
    pub(crate) fn of(id: MemoryId, memory: &Memory, namespace: u32) -> Self {
        Self {
            id,
            attributes: Attributes::of(memory, namespace),
            min_heat: memory.min_heat,
            label_bytes: u32::try_from(memory.label.len()).unwrap_or(u32::MAX),
            created_at: memory.created_at,
            updated_at: memory.updated_at,
        }
    }
}

/// Upper bounds over all rows of a chunk (its block max).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkMax {
    pub(crate) heat: f64,
    pub(crate) updated_at: Timestamp,
}

/// The columns. A row without a memory has [`Attributes::EMPTY`].
pub(crate) struct Chunk {
    attributes: Vec<Attributes>,
    heats: Vec<HeatCell>,
    heat_bounds: HeatBounds,
    /// Computed by readers, extended by writers.
    max_heat: Mutex<Option<MaxHeat>>,
    /// Latest update of any row, replaced rows included.
    updated_max: Timestamp,
    pinned_count: usize,
    ids: Vec<MemoryId>,
    created: Vec<Timestamp>,
    updated: Vec<Timestamp>,
    min_heats: Vec<f32>,
    label_bytes: Vec<u32>,
    stabilities: Vec<f32>,
    tick_heats: Vec<f32>,
    /// Unit vectors, row after row.
    vectors: Vec<f32>,
    /// The same vectors quantised to 8 bits, with scale and error per row.
    codes: Vec<i8>,
    code_scales: Vec<(f32, f32)>,
    dimension: usize,
}

impl Chunk {
    pub(crate) fn new(dimension: usize) -> Self {
        Self {
            attributes: vec![Attributes::EMPTY; CHUNK_ROWS],
            heats: vec![HeatCell::default(); CHUNK_ROWS],
            heat_bounds: HeatBounds::new(),
            max_heat: Mutex::new(None),
            updated_max: Timestamp::default(),
            pinned_count: 0,
            ids: vec![MemoryId([0; 16]); CHUNK_ROWS],
            created: vec![Timestamp::default(); CHUNK_ROWS],
            updated: vec![Timestamp::default(); CHUNK_ROWS],
            min_heats: vec![0.0; CHUNK_ROWS],
            label_bytes: vec![0; CHUNK_ROWS],
            stabilities: vec![0.0; CHUNK_ROWS],
            tick_heats: vec![0.0; CHUNK_ROWS],
            vectors: vec![0.0; CHUNK_ROWS * dimension],
            codes: vec![0; CHUNK_ROWS * dimension],
            code_scales: vec![(0.0, 0.0); CHUNK_ROWS],
            dimension,
        }
    }

    /// Writes the matching rows to `rows`, highest row first: roughly the newest first. With
    /// `candidates`, only those rows are tested, in their order.
    pub(crate) fn matching_rows(
        &self,
        mask: AttributeMask,
        candidates: Option<impl Iterator<Item = usize>>,
        rows: &mut Vec<u16>,
    ) {
        rows.clear();
        match candidates {
            Some(candidates) => rows.extend(
                candidates.filter(|row| mask.matches(self.attributes[*row])).map(|row| row as u16),
            ),
            None => {
                // Branch-free: which rows match is often unpredictable.
                rows.resize(CHUNK_ROWS, 0);
                let mut found = 0;
                for row in (0..CHUNK_ROWS).rev() {
                    rows[found] = row as u16;
                    found += usize::from(mask.matches(self.attributes[row]));
                }
                rows.truncate(found);
            }
        }
    }

    /// Number of matching rows.
    pub(crate) fn count(&self, mask: AttributeMask) -> usize {
        self.attributes.iter().filter(|attributes| mask.matches(**attributes)).count()
    }

    pub(crate) fn attributes(&self, row: usize) -> Attributes {
        self.attributes[row]
    }

    pub(crate) fn namespace(&self, row: usize) -> u32 {
        self.attributes[row].namespace()
    }

    pub(crate) fn id(&self, row: usize) -> MemoryId {
        self.ids[row]
    }

    pub(crate) fn created_at(&self, row: usize) -> Timestamp {
        self.created[row]
    }

    pub(crate) fn updated_at(&self, row: usize) -> Timestamp {
        self.updated[row]
    }

    /// Exact heat at `now`.
    #[inline]
    pub(crate) fn heat(&self, row: usize, now: Timestamp) -> f64 {
        let cell = &self.heats[row];
        decayed(cell.heat, cell.at, cell.rate, cell.floor, now)
    }

    /// Exact heat at `now` under another configuration.
    pub(crate) fn heat_under(&self, row: usize, thermo: &Thermo, now: Timestamp) -> f64 {
        let (cell, decay) = (&self.heats[row], self.decay(row, thermo));
        let rate = decay.rate / f64::from(self.stabilities[row]);
        decayed(cell.heat, cell.at, rate, decay.floor, now)
    }

    /// Bytes of the label and of the stored f16 vector.
    pub(crate) fn bytes(&self, row: usize) -> u64 {
        const F16_BYTES: usize = 2;
        u64::from(self.label_bytes[row]) + (self.dimension * F16_BYTES) as u64
    }

    /// Time of the anchor.
    pub(crate) fn anchored_at(&self, row: usize) -> Timestamp {
        self.heats[row].at
    }

    /// See [`Anchor::tick_heat`].
    pub(crate) fn tick_heat(&self, row: usize) -> f32 {
        self.tick_heats[row]
    }

    /// Whether every heat at `now` is at least 99 % of its upper bound.
    pub(crate) fn heat_upper_bounds_are_tight(&self, now: Timestamp) -> bool {
        self.heat_bounds.are_tight(now)
    }

    /// Writes an upper bound of each heat at `now`, at a fraction of the cost of exact heats.
    pub(crate) fn heat_upper_bounds(&self, now: Timestamp, upper_bounds: &mut [f32; CHUNK_ROWS]) {
        self.heat_bounds.upper_bounds(now, upper_bounds);
    }

    /// Upper bounds over all rows at `now`. `None` until [`Chunk::refresh_max_heat`] ran.
    pub(crate) fn max(&self, now: Timestamp) -> Option<ChunkMax> {
        let max_heat = (*self.max_heat.lock()).filter(|max| max.is_valid_at(now))?;
        Some(ChunkMax { heat: max_heat.heat(now), updated_at: self.updated_max })
    }

    /// Recomputes the upper bound of all heats, unless it is recent. Costs as much as
    /// computing all heats.
    pub(crate) fn refresh_max_heat(&self, now: Timestamp) {
        let mut max_heat = self.max_heat.lock();
        if max_heat.is_some_and(|max| max.is_fresh(now)) {
            return;
        }
        let mut fresh = MaxHeat::new(now);
        let live = self.attributes.iter().zip(&self.heats);
        let live = live.filter(|(attributes, _)| AttributeMask::LIVE.matches(**attributes));
        live.for_each(|(_, cell)| fresh.include(cell));
        *max_heat = Some(fresh);
    }

    pub(crate) fn has_pinned(&self) -> bool {
        self.pinned_count > 0
    }

    /// Unit vector of a row.
    #[inline]
    pub(crate) fn vector(&self, row: usize) -> &[f32] {
        &self.vectors[row * self.dimension..(row + 1) * self.dimension]
    }

    /// Quantised vector of a row.
    pub(crate) fn code(&self, row: usize) -> Code {
        let values = self.codes[row * self.dimension..(row + 1) * self.dimension].to_vec();
        let (scale, error) = self.code_scales[row];
        Code { values, scale, error }
    }

    /// Writes an upper bound of the similarity of `query` to each of `rows` to
    /// `upper_bounds`, indexed by row. `dots` is a reusable buffer.
    pub(crate) fn similarity_upper_bounds(
        &self,
        query: &Code,
        rows: &[u16],
        dots: &mut Vec<i32>,
        upper_bounds: &mut [f32; CHUNK_ROWS],
    ) {
        sq8::dots(&query.values, &self.codes, rows, dots);
        for (row, dot) in rows.iter().map(|row| usize::from(*row)).zip(dots) {
            let (scale, error) = self.code_scales[row];
            upper_bounds[row] = query.upper_bound(*dot, scale, error);
        }
    }

    pub(crate) fn set_row(&mut self, at: usize, row: RowFields, thermo: &Thermo) {
        self.pinned_count -= usize::from(self.attributes[at].is_pinned());
        self.pinned_count += usize::from(row.attributes.is_pinned());
        self.updated_max = self.updated_max.max(row.updated_at);
        self.attributes[at] = row.attributes;
        self.ids[at] = row.id;
        (self.created[at], self.updated[at]) = (row.created_at, row.updated_at);
        (self.min_heats[at], self.label_bytes[at]) = (row.min_heat, row.label_bytes);
        self.refresh_decay(at, thermo);
    }

    pub(crate) fn set_anchor(&mut self, row: usize, anchor: &Anchor, thermo: &Thermo) {
        (self.heats[row].heat, self.heats[row].at) = (anchor.heat, anchor.at);
        self.stabilities[row] = anchor.stability;
        self.tick_heats[row] = anchor.tick_heat;
        self.refresh_decay(row, thermo);
    }

    pub(crate) fn set_vector(&mut self, row: usize, components: &[f32], code: &Code) {
        let range = row * self.dimension..(row + 1) * self.dimension;
        self.vectors[range.clone()].copy_from_slice(components);
        self.codes[range].copy_from_slice(&code.values);
        self.code_scales[row] = (code.scale, code.error);
    }

    pub(crate) fn clear(&mut self, row: usize) {
        self.pinned_count -= usize::from(self.attributes[row].is_pinned());
        self.attributes[row] = Attributes::EMPTY;
        self.heats[row] = HeatCell::default();
        self.stabilities[row] = 0.0;
    }

    /// Recomputes the decay of a row after a change of its attributes, its anchor, or the
    /// configuration.
    pub(crate) fn refresh_decay(&mut self, row: usize, thermo: &Thermo) {
        let decay = self.decay(row, thermo);
        let (cell, stability) = (&mut self.heats[row], self.stabilities[row]);
        cell.floor = decay.floor;
        // A row without an anchor has stability 0 and heat 0.
        if stability > 0.0 {
            cell.rate = decay.rate / f64::from(stability);
            self.heat_bounds.set(row, cell);
            if let Some(max) = self.max_heat.get_mut() {
                max.include(cell);
            }
        }
    }

    fn decay(&self, row: usize, thermo: &Thermo) -> Decay {
        let attributes = self.attributes[row];
        let decays = !attributes.is_pinned() && attributes.tier() == Tier::Hot;
        let (memory_type, class) = (attributes.memory_type(), attributes.decay_class());
        Decay::with(thermo, memory_type, class, self.min_heats[row], decays)
    }
}
