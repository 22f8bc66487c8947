//! A chunk: up to 1,024 memories of one tenant as columns. Scans read only these columns.
//!
//! Each column is contiguous, so a scan touches only the columns that it needs. Per chunk
//! there are upper bounds for pruning: of all heats ([`Chunk::max`]), of each heat
//! ([`HeatBounds::upper_bounds`]) and of each similarity
//! ([`Chunk::similarity_upper_bounds`]). [`crate::data`] assigns rows to memories.

use std::ops::Range;

use half::f16;
use model::decay::Decay;
use model::heat::{Anchor, decayed};
use model::id::{MemoryId, Timestamp};
use model::memory::{Memory, Tier};
use model::sq8::{self, Code};
use model::thermo::Thermo;
use model::vector::HalfVector;
use parking_lot::Mutex;

use crate::CHUNK_ROWS;
use crate::attributes::{AttributeMask, Attributes};
use crate::heats::{HeatBounds, HeatCell, MaxHeat};

/// Rows for which the columns of a chunk have room from its first memory on.
const ROWS_MIN: usize = 8;

/// Upper bounds over all rows of a chunk (its block max).
#[derive(Clone, Copy)]
pub struct ChunkMax {
    pub heat: f64,
    pub updated_at: Timestamp,
}

/// The columns. A row without a memory has [`Attributes::EMPTY`].
#[derive(Default)]
pub struct Chunk {
    attributes: Vec<Attributes>,
    heats: Vec<HeatCell>,
    pub heat_bounds: HeatBounds,
    /// Computed by readers, extended by writers.
    max_heat: Mutex<Option<MaxHeat>>,
    /// Latest update of any row, replaced rows included.
    updated_max: Timestamp,
    pub pinned_count: usize,
    live_count: usize,
    ids: Vec<MemoryId>,
    created: Vec<Timestamp>,
    happened: Vec<Timestamp>,
    /// The time in which each holds.
    validities: Vec<Range<Timestamp>>,
    updated: Vec<Timestamp>,
    min_heats: Vec<f32>,
    label_bytes: Vec<u32>,
    /// Of the keyword overlaps, see [`text::form`].
    pub form_factors: Vec<f32>,
    stabilities: Vec<f32>,
    tick_heats: Vec<f32>,
    /// Unit vectors, row after row. Empty while no row has a memory, as the codes: they take most
    /// of the bytes, and a deletion gives them back.
    vectors: Vec<f16>,
    /// The factors that normalise them.
    vector_scales: Vec<f64>,
    /// The same vectors quantised to 8 bits, with scale and error per row.
    codes: Vec<i8>,
    code_scales: Vec<(f32, f32)>,
    dimension: usize,
}

impl Chunk {
    /// A chunk without rows.
    pub fn new(dimension: usize) -> Self {
        Self { dimension, ..Self::default() }
    }

    /// Number of rows that the columns have.
    pub fn rows(&self) -> usize {
        self.attributes.len()
    }

    /// Extends the columns to a row. They double: a tenant with few memories takes little memory.
    fn extend_to(&mut self, row: usize) {
        if row < self.rows() {
            return;
        }
        let rows = (row + 1).next_power_of_two().clamp(ROWS_MIN, CHUNK_ROWS);
        self.attributes.resize(rows, Attributes::EMPTY);
        self.heats.resize(rows, HeatCell::default());
        self.heat_bounds.resize(rows);
        self.ids.resize(rows, MemoryId([0; 16]));
        self.created.resize(rows, Timestamp::default());
        self.happened.resize(rows, Timestamp::default());
        self.validities.resize(rows, Range::default());
        self.updated.resize(rows, Timestamp::default());
        self.min_heats.resize(rows, 0.0);
        self.label_bytes.resize(rows, 0);
        self.form_factors.resize(rows, 0.0);
        self.stabilities.resize(rows, 0.0);
        self.tick_heats.resize(rows, 0.0);
        self.code_scales.resize(rows, (0.0, 0.0));
        self.vector_scales.resize(rows, 0.0);
        if self.live_count > 0 {
            self.resize_vectors();
        }
    }

    fn resize_vectors(&mut self) {
        let components = self.rows() * self.dimension;
        self.vectors.resize(components, f16::ZERO);
        self.codes.resize(components, 0);
    }

    /// Writes the matching rows to `rows`, highest row first.
    pub fn matching_rows(&self, mask: AttributeMask, rows: &mut Vec<u16>) {
        // Branch-free: which rows match is often unpredictable.
        rows.resize(self.rows(), 0);
        let mut found = 0;
        for row in (0..self.rows()).rev() {
            rows[found] = row as u16;
            found += usize::from(mask.matches(self.attributes[row]));
        }
        rows.truncate(found);
    }

    /// Removes the rows that do not match.
    pub fn retain_matching(&self, mask: AttributeMask, rows: &mut Vec<u16>) {
        rows.retain(|row| mask.matches(self.attributes[usize::from(*row)]));
    }

    pub fn count(&self, mask: AttributeMask) -> usize {
        self.attributes.iter().filter(|attributes| mask.matches(**attributes)).count()
    }

    pub fn row(&self, row: usize) -> RowRef<'_> {
        RowRef { chunk: self, row }
    }

    /// Upper bounds over all rows at `now`. `None` until [`Chunk::refresh_max_heat`] ran.
    pub fn max(&self, now: Timestamp) -> Option<ChunkMax> {
        let max_heat = (*self.max_heat.lock()).filter(|max| max.is_valid_at(now))?;
        Some(ChunkMax { heat: max_heat.heat(now), updated_at: self.updated_max })
    }

    /// Recomputes the upper bound of all heats from all of them, unless it is recent.
    pub fn refresh_max_heat(&self, now: Timestamp) {
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

    /// Writes an upper bound of the similarity of `query` to each of `rows` to
    /// `upper_bounds`, indexed by row. `dots` is a reusable buffer.
    pub fn similarity_upper_bounds(
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

    pub fn set_row(
        &mut self,
        row: usize,
        id: MemoryId,
        memory: &Memory,
        attributes: Attributes,
        thermo: &Thermo,
    ) {
        self.extend_to(row);
        self.pinned_count -= usize::from(self.attributes[row].is_pinned());
        self.pinned_count += usize::from(attributes.is_pinned());
        if self.live_count == 0 {
            self.resize_vectors();
        }
        self.live_count += usize::from(!self.is_live(row));
        self.updated_max = self.updated_max.max(memory.updated_at);
        (self.ids[row], self.attributes[row]) = (id, attributes);
        (self.created[row], self.updated[row]) = (memory.created_at, memory.updated_at);
        self.happened[row] = memory.happened_at();
        self.validities[row] = memory.validity();
        self.min_heats[row] = memory.min_heat;
        self.label_bytes[row] = u32::try_from(memory.label.len()).unwrap_or(u32::MAX);
        self.refresh_decay(row, thermo);
    }

    pub fn set_anchor(&mut self, row: usize, anchor: &Anchor, thermo: &Thermo) {
        (self.heats[row].heat, self.heats[row].at) = (anchor.heat, anchor.at);
        self.stabilities[row] = anchor.stability;
        self.tick_heats[row] = anchor.tick_heat;
        self.refresh_decay(row, thermo);
    }

    pub fn set_vector(&mut self, row: usize, vector: HalfVector<'_>, code: &Code) {
        let range = self.components(row);
        self.vectors[range.clone()].copy_from_slice(vector.halves);
        self.vector_scales[row] = vector.scale;
        self.codes[range].copy_from_slice(&code.values);
        self.code_scales[row] = (code.scale, code.error);
    }

    pub fn clear(&mut self, row: usize) {
        self.pinned_count -= usize::from(self.attributes[row].is_pinned());
        self.live_count -= usize::from(self.is_live(row));
        if self.live_count == 0 {
            (self.vectors, self.codes) = Default::default();
        }
        self.attributes[row] = Attributes::EMPTY;
        self.heats[row] = HeatCell::default();
        self.stabilities[row] = 0.0;
    }

    /// Recomputes the decay of a row after a change of the row or of the configuration.
    pub fn refresh_decay(&mut self, row: usize, thermo: &Thermo) {
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

    fn is_live(&self, row: usize) -> bool {
        AttributeMask::LIVE.matches(self.attributes[row])
    }

    /// Where the vector columns hold the components of a row.
    #[inline]
    fn components(&self, row: usize) -> Range<usize> {
        row * self.dimension..(row + 1) * self.dimension
    }

    fn decay(&self, row: usize, thermo: &Thermo) -> Decay {
        let attributes = self.attributes[row];
        let decays = !attributes.is_pinned() && attributes.tier() == Tier::Hot;
        let (memory_type, class) = (attributes.memory_type(), attributes.decay_class());
        Decay::with(thermo, memory_type, class, self.min_heats[row], decays)
    }
}

#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    chunk: &'a Chunk,
    row: usize,
}

impl<'a> RowRef<'a> {
    pub fn id(&self) -> MemoryId {
        self.chunk.ids[self.row]
    }

    #[inline]
    pub fn attributes(&self) -> Attributes {
        self.chunk.attributes[self.row]
    }

    pub fn created_at(&self) -> Timestamp {
        self.chunk.created[self.row]
    }

    pub fn happened_at(&self) -> Timestamp {
        self.chunk.happened[self.row]
    }

    /// Whether what the memory says holds at a time.
    pub fn holds_at(&self, at: Timestamp) -> bool {
        self.chunk.validities[self.row].contains(&at)
    }

    pub fn updated_at(&self) -> Timestamp {
        self.chunk.updated[self.row]
    }

    /// Exact heat at `now`.
    #[inline]
    pub fn heat(&self, now: Timestamp) -> f64 {
        let cell = &self.chunk.heats[self.row];
        decayed(cell.heat, cell.at, cell.rate, cell.floor, now)
    }

    /// Microseconds from `now` until the memory becomes cold, or a little less. Infinite if it never
    /// does, or is cold.
    pub fn micros_until_cold(&self, thermo: &Thermo, now: Timestamp) -> f64 {
        let (cell, heat) = (&self.chunk.heats[self.row], self.heat(now));
        if thermo.is_cold(heat) || !thermo.is_cold(cell.floor.min(cell.heat).into()) {
            return f64::INFINITY;
        }
        let half_lives = libm::log2(heat / thermo.consolidation.cold_threshold);
        (half_lives / cell.rate).max(0.0)
    }

    /// Exact heat at `now` under another configuration.
    pub fn heat_under(&self, thermo: &Thermo, now: Timestamp) -> f64 {
        let (cell, decay) = (&self.chunk.heats[self.row], self.chunk.decay(self.row, thermo));
        let rate = decay.rate / f64::from(self.chunk.stabilities[self.row]);
        decayed(cell.heat, cell.at, rate, decay.floor, now)
    }

    /// Bytes of the label and of the stored f16 vector.
    pub fn bytes(&self) -> u64 {
        const F16_BYTES: usize = 2;
        u64::from(self.chunk.label_bytes[self.row]) + (self.chunk.dimension * F16_BYTES) as u64
    }

    pub fn anchored_at(&self) -> Timestamp {
        self.chunk.heats[self.row].at
    }

    /// When the memory was last recalled, rated or changed: a time at or before this one.
    pub fn used_at(&self) -> Timestamp {
        self.anchored_at().max(self.updated_at())
    }

    pub fn tick_heat(&self) -> f32 {
        self.chunk.tick_heats[self.row]
    }

    #[inline]
    pub fn vector(&self) -> HalfVector<'a> {
        let halves = &self.chunk.vectors[self.chunk.components(self.row)];
        HalfVector { halves, scale: self.chunk.vector_scales[self.row] }
    }

    /// An upper bound of the similarity to a vector with this code.
    pub fn similarity_upper_bound(&self, code: &Code) -> f32 {
        let (scale, error) = self.chunk.code_scales[self.row];
        let own = &self.chunk.codes[self.chunk.components(self.row)];
        code.upper_bound(sq8::dot(&code.values, own), scale, error)
    }

    pub fn has_code(&self, values: &[i8], scale: f32) -> bool {
        let own = &self.chunk.codes[self.chunk.components(self.row)];
        own == values && self.chunk.code_scales[self.row].0 == scale
    }

    pub fn code(&self) -> Code {
        let (scale, error) = self.chunk.code_scales[self.row];
        Code { values: self.chunk.codes[self.chunk.components(self.row)].to_vec(), scale, error }
    }
}
