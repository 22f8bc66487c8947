//! Columns of 1,024 memories: what a scan reads, side by side in memory. Which
//! memory sits in which row is the tenant index's business.

use parking_lot::Mutex;

use crate::index::heats::{HeatBounds, HeatCell, HeatLimit};
use crate::model::heat::{Anchor, Cooling, cooled};
use crate::model::id::{MemoryId, Timestamp};
use crate::model::memory::{DecayClass, Memory, MemoryType, Tier};
use crate::model::sq8::{self, Code};
use crate::model::thermo::Thermo;

/// Rows of a chunk, and the longest that a reader holds the lock of a tenant.
pub(crate) const CHUNK_ROWS: usize = 1_024;

/// Number of a memory within its tenant's index: chunk and row in one.
pub(crate) type Slot = u32;

/// One memory as far as filters and orders look at it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) id: MemoryId,
    pub(crate) properties: Properties,
    pub(crate) min_heat: f32,
    pub(crate) label_bytes: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// What filters look at, in 8 bytes, so that a scan over a million rows reads 8 MB:
/// namespace in the upper half, then type, class and flags, a byte each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Properties(u64);

const LIVE: u64 = 1;
const PINNED: u64 = 2;
const FLAGGED: u64 = 4;
const ARCHIVED: u64 = 8;
const CLASS_SHIFT: u32 = 8;
const TYPE_SHIFT: u32 = 16;
const NAMESPACE_SHIFT: u32 = 32;

impl Properties {
    const NOBODY: Self = Self(0);

    pub(crate) fn is_pinned(self) -> bool {
        self.0 & PINNED != 0
    }

    pub(crate) fn is_flagged(self) -> bool {
        self.0 & FLAGGED != 0
    }

    pub(crate) fn tier(self) -> Tier {
        if self.0 & ARCHIVED != 0 { Tier::Cold } else { Tier::Hot }
    }

    pub(crate) fn namespace(self) -> u32 {
        (self.0 >> NAMESPACE_SHIFT) as u32
    }

    pub(crate) fn memory_type(self) -> MemoryType {
        MemoryType::ALL[(self.0 >> TYPE_SHIFT) as u8 as usize]
    }

    fn decay_class(self) -> DecayClass {
        DecayClass::ALL[(self.0 >> CLASS_SHIFT) as u8 as usize]
    }
}

/// Properties that a row must have: one comparison a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    mask: u64,
    value: u64,
}

impl Pattern {
    /// Rows that hold a memory.
    pub(crate) const LIVE: Self = Self { mask: LIVE, value: LIVE };

    pub(crate) fn of_type(self, memory_type: MemoryType) -> Self {
        self.and(0xff << TYPE_SHIFT, (memory_type as u64) << TYPE_SHIFT)
    }

    pub(crate) fn in_namespace(self, number: u32) -> Self {
        self.and(0xffff_ffff << NAMESPACE_SHIFT, u64::from(number) << NAMESPACE_SHIFT)
    }

    pub(crate) fn pinned(self, wanted: bool) -> Self {
        self.and(PINNED, flag(wanted, PINNED))
    }

    pub(crate) fn flagged(self, wanted: bool) -> Self {
        self.and(FLAGGED, flag(wanted, FLAGGED))
    }

    pub(crate) fn in_tier(self, tier: Tier) -> Self {
        self.and(ARCHIVED, flag(tier == Tier::Cold, ARCHIVED))
    }

    fn and(self, mask: u64, value: u64) -> Self {
        Self { mask: self.mask | mask, value: self.value | value }
    }

    #[inline]
    fn matches(self, row: Properties) -> bool {
        row.0 & self.mask == self.value
    }
}

fn flag(set: bool, flag: u64) -> u64 {
    if set { flag } else { 0 }
}

impl Row {
    pub(crate) fn of(id: MemoryId, memory: &Memory, namespace: u32) -> Self {
        let properties = Properties(
            u64::from(namespace) << NAMESPACE_SHIFT
                | (memory.memory_type as u64) << TYPE_SHIFT
                | (memory.decay_class as u64) << CLASS_SHIFT
                | LIVE
                | flag(memory.is_pinned, PINNED)
                | flag(memory.is_flagged, FLAGGED)
                | flag(memory.archived_at.is_some(), ARCHIVED),
        );
        let (created_at, updated_at) = (memory.created_at, memory.updated_at);
        let label_bytes = u32::try_from(memory.label.len()).unwrap_or(u32::MAX);
        Self { id, properties, min_heat: memory.min_heat, label_bytes, created_at, updated_at }
    }
}

/// 1,024 rows, a column a field; a row without a memory has no `LIVE` flag.
pub(crate) struct Chunk {
    properties: Vec<Properties>,
    heats: Vec<HeatCell>,
    heat_bounds: HeatBounds,
    /// Computed by readers, raised by writers.
    heat_limit: Mutex<Option<HeatLimit>>,
    updated_last: Timestamp,
    pinned: usize,
    ids: Vec<MemoryId>,
    created: Vec<Timestamp>,
    updated: Vec<Timestamp>,
    min_heats: Vec<f32>,
    label_bytes: Vec<u32>,
    stabilities: Vec<f32>,
    tick_heats: Vec<f32>,
    vectors: Vec<f32>,
    /// The same vectors in 8 bits, with scale and error of each.
    codes: Vec<i8>,
    code_scales: Vec<(f32, f32)>,
    dimension: usize,
}

impl Chunk {
    pub(crate) fn new(dimension: usize) -> Self {
        Self {
            properties: vec![Properties::NOBODY; CHUNK_ROWS],
            heats: vec![HeatCell::default(); CHUNK_ROWS],
            heat_bounds: HeatBounds::new(),
            heat_limit: Mutex::new(None),
            updated_last: Timestamp::default(),
            pinned: 0,
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

    /// Numbers of the rows here that match, into `rows`, the newest first as far as
    /// rows were filled in order; of those in `within` only, if it is given.
    pub(crate) fn rows(
        &self,
        pattern: Pattern,
        within: Option<impl Iterator<Item = usize>>,
        rows: &mut Vec<u16>,
    ) {
        rows.clear();
        match within {
            Some(within) => rows.extend(
                within.filter(|at| pattern.matches(self.properties[*at])).map(|at| at as u16),
            ),
            None => {
                // Without a branch a row: which rows pass is often no pattern at all.
                rows.resize(CHUNK_ROWS, 0);
                let mut found = 0;
                for at in (0..CHUNK_ROWS).rev() {
                    rows[found] = at as u16;
                    found += usize::from(pattern.matches(self.properties[at]));
                }
                rows.truncate(found);
            }
        }
    }

    /// How many rows here match.
    pub(crate) fn count(&self, pattern: Pattern) -> usize {
        self.properties.iter().filter(|row| pattern.matches(**row)).count()
    }

    pub(crate) fn properties(&self, at: usize) -> Properties {
        self.properties[at]
    }

    pub(crate) fn namespace(&self, at: usize) -> u32 {
        self.properties[at].namespace()
    }

    pub(crate) fn id(&self, at: usize) -> MemoryId {
        self.ids[at]
    }

    pub(crate) fn created_at(&self, at: usize) -> Timestamp {
        self.created[at]
    }

    pub(crate) fn updated_at(&self, at: usize) -> Timestamp {
        self.updated[at]
    }

    /// Heat of the memory in row `at`.
    #[inline]
    pub(crate) fn heat(&self, at: usize, now: Timestamp) -> f64 {
        let cell = &self.heats[at];
        cooled(cell.heat, cell.at, cell.rate, cell.floor, now)
    }

    /// Bytes of the label in row `at`, and of its vector as it is stored.
    pub(crate) fn bytes(&self, at: usize) -> u64 {
        const HALF_BYTES: usize = 2;
        u64::from(self.label_bytes[at]) + (self.dimension * HALF_BYTES) as u64
    }

    /// When the memory in row `at` was anchored.
    pub(crate) fn anchored_at(&self, at: usize) -> Timestamp {
        self.heats[at].at
    }

    /// Heat that its anchor carries of the tick before.
    pub(crate) fn tick_heat(&self, at: usize) -> f32 {
        self.tick_heats[at]
    }

    /// Its heat if `thermo` were the configuration.
    pub(crate) fn heat_under(&self, at: usize, thermo: &Thermo, now: Timestamp) -> f64 {
        let (cell, cooling) = (&self.heats[at], self.cooling(at, thermo));
        let rate = cooling.rate / f64::from(self.stabilities[at]);
        cooled(cell.heat, cell.at, rate, cooling.floor, now)
    }

    /// Whether each heat is 99 % of its upper_bound at least.
    pub(crate) fn upper_bounds_are_sharp(&self, now: Timestamp) -> bool {
        self.heat_bounds.are_sharp(now)
    }

    /// What the heat of each row is at most, at a fraction of the cost.
    pub(crate) fn heat_upper_bounds(&self, now: Timestamp, upper_bounds: &mut [f32; CHUNK_ROWS]) {
        self.heat_bounds.upper_bounds(now, upper_bounds);
    }

    /// What the heat of each memory here is at most at `now`, and the last change of any, if
    /// that is known.
    pub(crate) fn limit(&self, now: Timestamp) -> Option<(f64, Timestamp)> {
        let limit = (*self.heat_limit.lock()).filter(|limit| limit.holds_at(now))?;
        Some((limit.heat(now), self.updated_last))
    }

    /// Whether a pinned memory is here.
    pub(crate) fn has_pinned(&self) -> bool {
        self.pinned > 0
    }

    /// Finds out what the heat of each memory here is at most from `now` on, unless that was
    /// done lately: as costly as computing all of them.
    pub(crate) fn find_limit(&self, now: Timestamp) {
        let mut limit = self.heat_limit.lock();
        if limit.is_some_and(|limit| limit.is_fresh(now)) {
            return;
        }
        let mut found = HeatLimit::new(now);
        let live = self.properties.iter().zip(&self.heats);
        let live = live.filter(|(row, _)| Pattern::LIVE.matches(**row));
        live.for_each(|(_, cell)| found.include(cell));
        *limit = Some(found);
    }

    /// Unit vector of the memory in row `at`.
    #[inline]
    pub(crate) fn vector(&self, at: usize) -> &[f32] {
        &self.vectors[at * self.dimension..(at + 1) * self.dimension]
    }

    pub(crate) fn set_row(&mut self, at: usize, row: Row, thermo: &Thermo) {
        self.pinned -= usize::from(self.properties[at].is_pinned());
        self.pinned += usize::from(row.properties.is_pinned());
        self.updated_last = self.updated_last.max(row.updated_at);
        self.properties[at] = row.properties;
        self.ids[at] = row.id;
        (self.created[at], self.updated[at]) = (row.created_at, row.updated_at);
        (self.min_heats[at], self.label_bytes[at]) = (row.min_heat, row.label_bytes);
        self.recool(at, thermo);
    }

    pub(crate) fn set_anchor(&mut self, at: usize, anchor: &Anchor, thermo: &Thermo) {
        (self.heats[at].heat, self.heats[at].at) = (anchor.heat, anchor.at);
        self.stabilities[at] = anchor.stability;
        self.tick_heats[at] = anchor.tick_heat;
        self.recool(at, thermo);
    }

    /// What the similarity of `query` to each of `rows` is at most, into `upper_bounds` by
    /// row. `dots` is room to work in.
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

    pub(crate) fn set_vector(&mut self, at: usize, components: &[f32], code: &Code) {
        let place = at * self.dimension..(at + 1) * self.dimension;
        self.vectors[place.clone()].copy_from_slice(components);
        self.codes[place].copy_from_slice(&code.values);
        self.code_scales[at] = (code.scale, code.error);
    }

    /// The code of the vector in row `at`.
    pub(crate) fn code(&self, at: usize) -> Code {
        let values = self.codes[at * self.dimension..(at + 1) * self.dimension].to_vec();
        let (scale, error) = self.code_scales[at];
        Code { values, scale, error }
    }

    pub(crate) fn clear(&mut self, at: usize) {
        self.pinned -= usize::from(self.properties[at].is_pinned());
        self.properties[at] = Properties::NOBODY;
        self.heats[at] = HeatCell::default();
        self.stabilities[at] = 0.0;
    }

    fn cooling(&self, at: usize, thermo: &Thermo) -> Cooling {
        let row = self.properties[at];
        let cools = !row.is_pinned() && row.tier() == Tier::Hot;
        let (memory_type, class) = (row.memory_type(), row.decay_class());
        Cooling::with(thermo, memory_type, class, self.min_heats[at], cools)
    }

    /// Reads the row's cooling anew: its properties or the configuration changed.
    pub(crate) fn recool(&mut self, at: usize, thermo: &Thermo) {
        let cooling = self.cooling(at, thermo);
        let (cell, stability) = (&mut self.heats[at], self.stabilities[at]);
        cell.floor = cooling.floor;
        // Before its anchor arrives a row's stability is 0; its heat is 0 as well.
        if stability > 0.0 {
            cell.rate = cooling.rate / f64::from(stability);
            self.heat_bounds.set(at, cell);
            if let Some(limit) = self.heat_limit.get_mut() {
                limit.include(cell);
            }
        }
    }
}
