//! The cluster clock: stamps of one time line for all nodes. A single bad wall clock cannot
//! move it. This file holds the rule, as a pure function.
//!
//! `stamp = max(last + 1 µs, min(own wall clock, median of the voters' wall clocks + 500 ms))`
//!
//! Stamps are strictly ascending, also across leaders: a new leader continues from the last
//! stamp in the replicated state. Without fresh samples of a quorum, the clock advances by the
//! elapsed monotonic time only.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storage::model::id::Timestamp;

/// Maximum lead of the leader's wall clock over the voters' median.
pub const LEAD_MAX: Duration = Duration::from_millis(500);

/// The wall-clock time of this machine.
pub(crate) fn wall_clock() -> Timestamp {
    Timestamp(match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    })
}

/// Stamps the batches of one term.
pub(crate) struct ClusterClock {
    last: Timestamp,
    last_at: Instant,
}

impl ClusterClock {
    /// Continues from `last`, the last stamp in the state.
    pub(crate) fn new(last: Timestamp) -> Self {
        Self { last, last_at: Instant::now() }
    }

    /// The next stamp. `own` is this node's wall clock. `median` is the median of the voters'
    /// wall clocks; `None` without fresh samples of a quorum.
    pub(crate) fn stamp(&mut self, own: Timestamp, median: Option<Timestamp>) -> Timestamp {
        let stamp = next(self.last, self.last_at.elapsed(), own, median);
        (self.last, self.last_at) = (stamp, Instant::now());
        stamp
    }
}

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
    fn stamps_stay_within_lead_of_median() {
        let stamp = |own, median| {
            next(Timestamp(0), Duration::ZERO, Timestamp(own), Some(Timestamp(median)))
        };
        assert_eq!(stamp(10 * SECOND, 10 * SECOND), Timestamp(10 * SECOND));
        assert_eq!(stamp(90 * SECOND, 10 * SECOND), Timestamp(10 * SECOND + SECOND / 2));
        assert_eq!(stamp(9 * SECOND, 10 * SECOND), Timestamp(9 * SECOND));
    }

    #[test]
    fn stamps_are_strictly_ascending() {
        let behind = Some(Timestamp(5));
        assert_eq!(next(Timestamp(100), Duration::ZERO, Timestamp(5), behind), Timestamp(101));
    }

    #[test]
    fn clock_without_quorum_follows_elapsed_time() {
        let elapsed = Duration::from_secs(2);
        let stamp = next(Timestamp(SECOND), elapsed, Timestamp(99 * SECOND), None);
        assert_eq!(stamp, Timestamp(3 * SECOND));
    }
}
