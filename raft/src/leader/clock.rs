//! The cluster clock: stamps of one time line for all nodes. This file holds the rule, as pure
//! functions of clock readings.
//!
//! # Target
//! The target is the leader's wall clock, limited to 500 ms around the median of the voters' wall
//! clocks. A minority of bad clocks moves it by 500 ms at most.
//!
//! The samples of some voters may be missing. If a minority of all voters has bad clocks, these can
//! be most of the samples. The samples are then an interval that contains a good clock (compare
//! Marzullo's algorithm). If it is wider than a second, only the part of it counts on which all
//! such minorities agree: the cluster clock approaches the interval, and stays where it is in it.
//!
//! # Rate
//! Most clocks can be wrong at once, and a cluster of one has a single clock. The cluster clock
//! therefore approaches the target: it advances at 0.9 to 1.1 times the boot time since the last
//! stamp. Without fresh clock samples of a quorum there is no target. The rate is then 1.
//!
//! # Start
//! A process that has applied no recent stamp cannot measure a rate: the whole cluster may have
//! been down for days. Its first stamp is the target if that is ahead by 30 days at most. Otherwise
//! the clock continues from the last stamp, at the limited rate. The first stamp of a cluster that is
//! new, or restored from a backup, is the target in any case. An operator can move it to the
//! target at once ([`ClusterClock::allow_jump`]). While the samples disagree, for a minute at most,
//! it jumps to the start of their interval, and to the target when further samples decide.
//!
//! # Invariant
//! Stamps are strictly ascending, also across leaders: a new leader continues from the last
//! stamp in the replicated state.

use std::time::Duration;

use storage::model::id::Timestamp;

use crate::system_clock::{AppliedStamp, median};

/// Maximum distance of the target from the voters' median.
const MEDIAN_DISTANCE_MAX: Duration = Duration::from_millis(500);
/// Slowest and fastest rate of the cluster clock, in percent of the boot time.
const RATE_PERCENT_MIN: u32 = 90;
const RATE_PERCENT_MAX: u32 = 110;
/// Maximum jump of the first stamp of a process.
const START_JUMP_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Time for which a process that has just started waits for samples that decide.
const START_TIME_MAX: Duration = Duration::from_secs(60);
/// Samples that differ by more disagree.
const DISAGREEMENT_MIN: Duration = Duration::from_secs(1);

/// The time that the next stamp should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockTarget {
    at: Timestamp,
    /// Interval that contains a good clock, if a minority of the voters has bad ones.
    earliest: Timestamp,
    latest: Timestamp,
}

impl ClockTarget {
    /// `own` is the leader's wall clock. `samples` are those of voters in ascending order, at least
    /// one. `voters` is the number of all voters.
    pub(crate) fn new(own: Timestamp, samples: &[Timestamp], voters: usize) -> Self {
        let median = median(samples);
        let (last, bad_max) = (samples.len() - 1, voters.saturating_sub(1) / 2);
        Self {
            at: own.clamp(median.minus(MEDIAN_DISTANCE_MAX), median.plus(MEDIAN_DISTANCE_MAX)),
            earliest: samples[last.saturating_sub(bad_max)],
            latest: samples[bad_max.min(last)],
        }
    }

    fn is_certain(self) -> bool {
        self.latest <= self.earliest.plus(DISAGREEMENT_MIN)
    }

    /// The time that a clock approaches which would be at `present` without samples.
    fn near(self, present: Timestamp) -> Timestamp {
        if self.is_certain() { self.at } else { present.clamp(self.earliest, self.latest) }
    }

    /// `stamp` minus the target, in microseconds.
    pub(crate) fn error_micros(self, stamp: Timestamp) -> i64 {
        stamp.0.saturating_sub(self.at.0)
    }
}

/// Stamps the batches of one term.
pub(crate) struct ClusterClock {
    last: Timestamp,
    step: Step,
    /// Boot time at the beginning of the term.
    opened_at: Duration,
}

/// How the next stamp follows from the target.
enum Step {
    /// At the limited rate since this stamp.
    Rate(AppliedStamp),
    /// To the target at once.
    Jump,
    /// To the target at once, if it is ahead by this at most.
    Start(Duration),
}

impl ClusterClock {
    /// Continues from `last`, the last stamp in the state. `applied` is the last stamp that this
    /// process applied soon after a leader had made it. `is_first`: the cluster is new, and has
    /// made no stamp yet.
    pub(crate) fn new(
        last: Timestamp,
        applied: Option<AppliedStamp>,
        boottime: Duration,
        is_first: bool,
    ) -> Self {
        let step = match applied {
            // A jump that an operator requested of the last leader, and that this process has
            // applied only now. It is not an excess that the clock has to wait out.
            Some(applied) if applied.advanced_to(boottime, RATE_PERCENT_MAX) < last => {
                Step::Rate(AppliedStamp { stamp: last, boottime })
            }
            Some(applied) => Step::Rate(applied),
            None if is_first => Step::Start(Duration::MAX),
            None => Step::Start(START_JUMP_MAX),
        };
        Self { last, step, opened_at: boottime }
    }

    /// Lets the next stamp with a target move forward to it, however far that is.
    pub(crate) fn allow_jump(&mut self) {
        self.step = Step::Jump;
    }

    /// Whether the next stamp may jump because the process has just started.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.step, Step::Start(START_JUMP_MAX))
    }

    /// The stamp at `boottime`. `target` is `None` without fresh clock samples of a quorum.
    pub(crate) fn stamp(&mut self, boottime: Duration, target: Option<ClockTarget>) -> Timestamp {
        let next = match (&self.step, target) {
            (Step::Rate(since), Some(target)) => {
                let earliest = since.advanced_to(boottime, RATE_PERCENT_MIN);
                let target = target.near(since.advanced_to(boottime, 100));
                target.clamp(earliest, since.advanced_to(boottime, RATE_PERCENT_MAX))
            }
            (Step::Rate(since), None) => since.advanced_to(boottime, 100),
            (Step::Jump, Some(target)) => target.at,
            (Step::Start(max), Some(target)) => {
                let target = target.near(self.last);
                if target <= self.last.plus(*max) { target } else { self.last }
            }
            (_, None) => self.last,
        };
        let stamp = next.max(Timestamp(self.last.0.saturating_add(1)));
        // Without a target the first stamp may be far off, so the jump remains allowed.
        let is_decided = match (&self.step, target) {
            (Step::Rate(_), _) => true,
            (_, None) => false,
            (Step::Jump, Some(_)) => true,
            (Step::Start(_), Some(target)) => {
                target.is_certain() || boottime > self.opened_at + START_TIME_MAX
            }
        };
        if is_decided {
            self.step = Step::Rate(AppliedStamp { stamp, boottime });
        }
        self.last = stamp;
        stamp
    }
}
