//! The cluster clock: one time for all nodes, that no single bad clock can move.
//! A pure rule, and the wall_clock clocks that are handed to it.
//!
//! `stamp = max(last + 1 µs, min(own wall_clock clock, median of the voters' + 500 ms))`

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storage::model::id::Timestamp;

/// How far above the voters' median a leader's own clock may lead.
pub const LEAD_MAX: Duration = Duration::from_millis(500);

/// A source of wall_clock-clock time; injected, so that tests own it.
pub trait WallClock: Send + Sync {
    /// Present wall_clock-clock time.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
pub struct SystemClock;

impl WallClock for SystemClock {
    fn now(&self) -> Timestamp {
        let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        };
        Timestamp(micros)
    }
}

/// Stamps batches of one term.
pub(crate) struct ClusterClock {
    last: Timestamp,
    last_at: Instant,
}

impl ClusterClock {
    /// Goes on from the last stamp in the state.
    pub(crate) fn new(last: Timestamp) -> Self {
        Self { last, last_at: Instant::now() }
    }

    /// The next stamp. `median` is that of the voters' wall_clock clocks, own one
    /// included; without fresh samples of a quorum only elapsed time is trusted.
    pub(crate) fn stamp(&mut self, own: Timestamp, median: Option<Timestamp>) -> Timestamp {
        let stamp = next(self.last, self.last_at.elapsed(), own, median);
        (self.last, self.last_at) = (stamp, Instant::now());
        stamp
    }
}

/// The rule itself.
fn next(
    last: Timestamp,
    elapsed: Duration,
    own: Timestamp,
    median: Option<Timestamp>,
) -> Timestamp {
    let wanted = match median {
        Some(median) => own.0.min(median.0 + LEAD_MAX.as_micros() as i64),
        None => last.0 + elapsed.as_micros() as i64,
    };
    Timestamp(wanted.max(last.0 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = Timestamp::SECOND_MICROS;

    #[test]
    fn stamps_follow_the_own_clock_within_half_a_second_of_the_median() {
        let stamp = |own, median| {
            next(Timestamp(0), Duration::ZERO, Timestamp(own), Some(Timestamp(median)))
        };
        assert_eq!(stamp(10 * SECOND, 10 * SECOND), Timestamp(10 * SECOND));
        assert_eq!(stamp(90 * SECOND, 10 * SECOND), Timestamp(10 * SECOND + SECOND / 2));
        assert_eq!(stamp(9 * SECOND, 10 * SECOND), Timestamp(9 * SECOND));
    }

    #[test]
    fn stamps_never_stand_or_go_back() {
        let behind = Some(Timestamp(5));
        assert_eq!(next(Timestamp(100), Duration::ZERO, Timestamp(5), behind), Timestamp(101));
    }

    #[test]
    fn without_a_quorum_of_clocks_only_elapsed_time_counts() {
        let elapsed = Duration::from_secs(2);
        let stamp = next(Timestamp(SECOND), elapsed, Timestamp(99 * SECOND), None);
        assert_eq!(stamp, Timestamp(3 * SECOND));
    }
}
