//! The heats of a chunk's rows, and what bounds them from above: row by row in a pass of
//! f32, and all at once. Which rows there are is the chunk's business.

use crate::index::chunk::CHUNK_ROWS;
use crate::model::heat::{cooled, upper_bound};
use crate::model::id::Timestamp;
use crate::simd::dispatch;

/// The four numbers that a heat is read from.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeatCell {
    pub(crate) at: Timestamp,
    pub(crate) rate: f64,
    pub(crate) heat: f32,
    pub(crate) floor: f32,
}

/// What bounds heats from above: the same numbers in f32, a column each, so that all
/// rows of a chunk are bounded at once.
pub(crate) struct HeatBounds {
    /// Times in here count from this one: near to those of the chunk's anchors, since
    /// f32 is coarse far from zero.
    base: Option<Timestamp>,
    anchored_seconds: Vec<f32>,
    half_lives_a_second: Vec<f32>,
    heats: Vec<f32>,
    floors: Vec<f32>,
    /// Most seconds between the base and an anchor, and most half-lives a second, of all
    /// rows that ever were.
    farthest: f32,
    fastest: f32,
}

/// Relative error of a time in f32, with room to spare.
const COARSE: f32 = 5e-7;
/// Half-lives that a time may be wrong by for a upper_bound to be sharp: heats are 0.1 % lower.
const SHARP: f32 = 1e-3;

impl HeatBounds {
    pub(crate) fn new() -> Self {
        let column = || vec![0.0; CHUNK_ROWS];
        let (anchored_seconds, half_lives_a_second) = (column(), column());
        Self {
            base: None,
            anchored_seconds,
            half_lives_a_second,
            heats: column(),
            floors: column(),
            farthest: 0.0,
            fastest: 0.0,
        }
    }

    pub(crate) fn set(&mut self, at: usize, cell: &HeatCell) {
        let base = *self.base.get_or_insert(cell.at);
        self.anchored_seconds[at] = seconds(cell.at, base);
        self.half_lives_a_second[at] = (cell.rate * Timestamp::SECOND_MICROS as f64) as f32;
        (self.heats[at], self.floors[at]) = (cell.heat, cell.floor);
        self.farthest = self.farthest.max(self.anchored_seconds[at].abs());
        self.fastest = self.fastest.max(self.half_lives_a_second[at]);
    }

    /// Whether every heat at `now` is 99 % of its upper_bound at least: times are coarse far from
    /// the base, which tells where heats fall fast.
    pub(crate) fn are_sharp(&self, now: Timestamp) -> bool {
        let now = self.base.map_or(0.0, |base| seconds(now, base));
        (now.abs() + self.farthest) * COARSE * self.fastest * 2.0 < SHARP
    }

    /// What each row's heat is at most at `now`, into `upper_bounds`.
    pub(crate) fn upper_bounds(&self, now: Timestamp, upper_bounds: &mut [f32; CHUNK_ROWS]) {
        let now = self.base.map_or(0.0, |base| seconds(now, base));
        let (anchored, rates) =
            (&self.anchored_seconds[..CHUNK_ROWS], &self.half_lives_a_second[..CHUNK_ROWS]);
        let (heats, floors) = (&self.heats[..CHUNK_ROWS], &self.floors[..CHUNK_ROWS]);
        dispatch(
            #[inline(always)]
            || {
                for at in 0..CHUNK_ROWS {
                    let doubt = (now.abs() + anchored[at].abs()) * COARSE;
                    let half_lives = (now - anchored[at] - doubt) * rates[at] * (1.0 - 1e-6);
                    upper_bounds[at] = upper_bound(heats[at], floors[at], half_lives);
                }
            },
        );
    }
}

fn seconds(at: Timestamp, base: Timestamp) -> f32 {
    ((at.0 - base.0) as f64 / Timestamp::SECOND_MICROS as f64) as f32
}

/// For how long a limit is good enough: it cools with the row that cools most slowly, and
/// knows nothing of a heat that was taken away.
const LIMIT_MICROS: i64 = 60 * Timestamp::SECOND_MICROS;

/// What every heat of a chunk is at most, from an instant on: heats only fall unless their
/// anchors are set, and then it takes those in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeatLimit {
    found_at: Timestamp,
    at: Timestamp,
    /// Highest heat at `at` of rows that cool.
    heat: f64,
    /// Rate of the one that cools most slowly.
    slowest: f64,
    /// Highest heat of the others, and highest floor of all.
    rest: f64,
}

impl HeatLimit {
    /// Of no row yet.
    pub(crate) fn new(now: Timestamp) -> Self {
        Self { found_at: now, at: now, heat: 0.0, slowest: f64::INFINITY, rest: 0.0 }
    }

    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        now.since(self.found_at) < LIMIT_MICROS
    }

    /// Whether it tells of `now`: of what was before its anchors it knows nothing.
    pub(crate) fn holds_at(&self, now: Timestamp) -> bool {
        self.at <= now
    }

    pub(crate) fn heat(&self, now: Timestamp) -> f64 {
        self.cooled(now).max(self.rest)
    }

    /// What is left at `now` of the rows that cool.
    fn cooled(&self, now: Timestamp) -> f64 {
        if self.heat == 0.0 {
            return 0.0;
        }
        self.heat * libm::exp2(-(now.since(self.at) as f64) * self.slowest)
    }

    /// Makes it hold for one more row.
    pub(crate) fn include(&mut self, cell: &HeatCell) {
        let at = self.at.max(cell.at);
        let heat = cooled(cell.heat, cell.at, cell.rate, cell.floor, at);
        (self.heat, self.at) = (self.cooled(at), at);
        self.rest = self.rest.max(f64::from(cell.floor.min(cell.heat)));
        if cell.rate > 0.0 {
            self.heat = self.heat.max(heat);
            self.slowest = self.slowest.min(cell.rate);
        } else {
            self.rest = self.rest.max(heat);
        }
    }
}
