//! Heats of one chunk in columns, with two kinds of upper bounds for pruning.
//!
//! - [`HeatBounds`]: an upper bound per row, computed for all rows of a chunk in one
//!   vectorised pass of f32.
//! - [`MaxHeat`]: one upper bound for the whole chunk, the heat part of a block-max index
//!   (Ding and Suel, "Faster Top-k Document Retrieval Using Block-Max Indexes", 2011). Heats
//!   decay continuously, so the bound is a function of time instead of a number.

use model::heat::{decayed, upper_bound};
use model::id::Timestamp;
use model::simd::dispatch;

use crate::CHUNK_ROWS;

/// The numbers from which the heat of a row is computed, see [`decayed`].
#[derive(Debug, Clone, Copy, Default)]
pub struct HeatCell {
    pub at: Timestamp,
    pub rate: f64,
    pub heat: f32,
    pub floor: f32,
}

/// The same numbers as f32 columns, rounded so that computed heats are upper bounds.
#[derive(Default)]
pub struct HeatBounds {
    /// Origin of `anchored_seconds`, close to the anchors: f32 is coarse for large numbers.
    base: Option<Timestamp>,
    anchored_seconds: Vec<f32>,
    half_lives_per_second: Vec<f32>,
    heats: Vec<f32>,
    floors: Vec<f32>,
    /// Largest distance in seconds of an anchor from the base. Covers replaced anchors too.
    distance_max: f32,
    /// Largest rate. Covers replaced rows too.
    rate_max: f32,
}

/// Upper bound of the relative error of a time in f32.
const TIME_ERROR: f32 = 5e-7;
/// Largest time error of tight bounds, in half-lives. It changes a heat by 0.1 %.
const TIGHT_HALF_LIVES: f32 = 1e-3;

impl HeatBounds {
    /// Extends the columns.
    pub fn resize(&mut self, rows: usize) {
        let Self { anchored_seconds, half_lives_per_second, heats, floors, .. } = self;
        for column in [anchored_seconds, half_lives_per_second, heats, floors] {
            column.resize(rows, 0.0);
        }
    }

    pub fn set(&mut self, row: usize, cell: &HeatCell) {
        let base = *self.base.get_or_insert(cell.at);
        self.anchored_seconds[row] = seconds(cell.at, base);
        self.half_lives_per_second[row] = (cell.rate * Timestamp::SECOND_MICROS as f64) as f32;
        (self.heats[row], self.floors[row]) = (cell.heat, cell.floor);
        self.distance_max = self.distance_max.max(self.anchored_seconds[row].abs());
        self.rate_max = self.rate_max.max(self.half_lives_per_second[row]);
    }

    /// Whether every heat at `now` is at least 99 % of its upper bound. False where the time
    /// error of f32 is large compared with the half-lives.
    pub fn are_tight(&self, now: Timestamp) -> bool {
        let now = self.base.map_or(0.0, |base| seconds(now, base));
        (now.abs() + self.distance_max) * TIME_ERROR * self.rate_max * 2.0 < TIGHT_HALF_LIVES
    }

    /// Writes the upper bound of each row's heat at `now` to `upper_bounds`.
    pub fn upper_bounds(&self, now: Timestamp, upper_bounds: &mut [f32; CHUNK_ROWS]) {
        let now = self.base.map_or(0.0, |base| seconds(now, base));
        // Slices of one length, so that the loop has no bounds checks.
        let rows = self.heats.len();
        let (anchored, rates) =
            (&self.anchored_seconds[..rows], &self.half_lives_per_second[..rows]);
        let (heats, floors) = (&self.heats[..rows], &self.floors[..rows]);
        let upper_bounds = &mut upper_bounds[..rows];
        dispatch(
            #[inline(always)]
            || {
                for row in 0..rows {
                    let error = (now.abs() + anchored[row].abs()) * TIME_ERROR;
                    let half_lives = (now - anchored[row] - error) * rates[row] * (1.0 - 1e-6);
                    upper_bounds[row] = upper_bound(heats[row], floors[row], half_lives);
                }
            },
        );
    }
}

fn seconds(at: Timestamp, base: Timestamp) -> f32 {
    ((at.0 - base.0) as f64 / Timestamp::SECOND_MICROS as f64) as f32
}

/// Age after which a [`MaxHeat`] is recomputed. It loosens with time: it decays with the
/// slowest row, and does not follow heats that were lowered or removed.
const MAX_HEAT_AGE_MICROS: i64 = 60 * Timestamp::SECOND_MICROS;

/// An upper bound of all heats of a chunk, as a function of time. Heats only fall between
/// anchors, so the bound stays valid as long as every new anchor is included.
#[derive(Debug, Clone, Copy)]
pub struct MaxHeat {
    computed_at: Timestamp,
    at: Timestamp,
    /// Highest heat at `at` of the rows that decay.
    decaying: f64,
    /// Rate of the row that decays most slowly.
    slowest_rate: f64,
    /// Highest heat of the rows that do not decay, and highest floor of all rows.
    constant: f64,
}

impl MaxHeat {
    /// The bound of a chunk without rows.
    pub fn new(now: Timestamp) -> Self {
        Self {
            computed_at: now,
            at: now,
            decaying: 0.0,
            slowest_rate: f64::INFINITY,
            constant: 0.0,
        }
    }

    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.since(self.computed_at) < MAX_HEAT_AGE_MICROS
    }

    /// Whether the bound is valid at `now`. It is not valid before its latest anchor.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.at <= now
    }

    /// The bound at `now`.
    pub fn heat(&self, now: Timestamp) -> f64 {
        self.decayed(now).max(self.constant)
    }

    /// The bound of the decaying rows at `now`.
    fn decayed(&self, now: Timestamp) -> f64 {
        if self.decaying == 0.0 {
            return 0.0;
        }
        self.decaying * libm::exp2(-(now.since(self.at) as f64) * self.slowest_rate)
    }

    /// Extends the bound to one more row.
    pub fn include(&mut self, cell: &HeatCell) {
        let at = self.at.max(cell.at);
        let heat = decayed(cell.heat, cell.at, cell.rate, cell.floor, at);
        (self.decaying, self.at) = (self.decayed(at), at);
        self.constant = self.constant.max(f64::from(cell.floor.min(cell.heat)));
        if cell.rate > 0.0 {
            self.decaying = self.decaying.max(heat);
            self.slowest_rate = self.slowest_rate.min(cell.rate);
        } else {
            self.constant = self.constant.max(heat);
        }
    }
}
