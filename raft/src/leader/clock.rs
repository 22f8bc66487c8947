//! The cluster clock: stamps of one time line for all nodes. This file holds the rule, as pure
//! functions of clock readings.
//!
//! # Target
//! The target is the leader's wall clock, limited to 500 ms around the median of the voters' wall
//! clocks. A minority of bad clocks moves it by 500 ms at most.
//!
//! # Rate
//! Most clocks can be wrong at once, and a cluster of one has a single clock. The cluster clock
//! therefore approaches the target: it advances at 0.9 to 1.1 times the boot time since the last
//! stamp. Without fresh clock samples of a quorum there is no target. The rate is then 1.
//!
//! # Start
//! A process that has applied no recent stamp cannot measure a rate: the whole cluster may have
//! been down for days. Its first stamp is the target if that is ahead by 30 days at most. Otherwise
//! the clock continues from the last stamp, at the limited rate. An operator can move it to the
//! target at once ([`ClusterClock::allow_jump`]).
//!
//! # Invariant
//! Stamps are strictly ascending, also across leaders: a new leader continues from the last
//! stamp in the replicated state.

use std::time::Duration;

use storage::model::id::Timestamp;

/// Maximum distance of the target from the voters' median.
const MEDIAN_DISTANCE_MAX: Duration = Duration::from_millis(500);
/// Slowest and fastest rate of the cluster clock, in percent of the boot time.
const RATE_PERCENT_MIN: u32 = 90;
const RATE_PERCENT_MAX: u32 = 110;
/// Maximum jump of the first stamp of a process.
const START_JUMP_MAX: Duration = Duration::from_secs(30 * 86_400);

/// The time that the next stamp should have. `own` is the leader's wall clock, `median` that of
/// the voters.
pub(crate) fn target(own: Timestamp, median: Timestamp) -> Timestamp {
    own.clamp(median.minus(MEDIAN_DISTANCE_MAX), median.plus(MEDIAN_DISTANCE_MAX))
}

/// A stamp, and the boot time at which this process made or applied it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppliedStamp {
    pub(crate) stamp: Timestamp,
    pub(crate) boottime: Duration,
}

impl AppliedStamp {
    /// Cluster time at `boottime`, if it advances at this rate since the stamp.
    pub(crate) fn advanced_to(self, boottime: Duration, percent: u32) -> Timestamp {
        let elapsed = boottime.saturating_sub(self.boottime);
        self.stamp.plus(elapsed.saturating_mul(percent) / 100)
    }
}

/// Stamps the batches of one term.
pub(crate) struct ClusterClock {
    last: Timestamp,
    step: Step,
}

/// How the next stamp follows from the target.
enum Step {
    /// At the limited rate since this stamp.
    Rate(AppliedStamp),
    /// At once, if the target is ahead by this at most.
    Jump(Duration),
}

impl ClusterClock {
    /// Continues from `last`, the last stamp in the state. `applied` is the last stamp that this
    /// process applied soon after a leader had made it.
    pub(crate) fn new(last: Timestamp, applied: Option<AppliedStamp>, boottime: Duration) -> Self {
        let step = match applied {
            // A jump that an operator requested of the last leader, and that this process has
            // applied only now. It is not an excess that the clock has to wait out.
            Some(applied) if applied.advanced_to(boottime, RATE_PERCENT_MAX) < last => {
                Step::Rate(AppliedStamp { stamp: last, boottime })
            }
            Some(applied) => Step::Rate(applied),
            // The first stamp of the cluster.
            None if last == Timestamp::default() => Step::Jump(Duration::MAX),
            None => Step::Jump(START_JUMP_MAX),
        };
        Self { last, step }
    }

    /// Lets the next stamp with a target move forward to it, however far that is.
    pub(crate) fn allow_jump(&mut self) {
        self.step = Step::Jump(Duration::MAX);
    }

    /// Whether the next stamp may jump because the process has just started.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.step, Step::Jump(START_JUMP_MAX))
    }

    /// The stamp at `boottime`. `target` is `None` without fresh clock samples of a quorum.
    pub(crate) fn stamp(&mut self, boottime: Duration, target: Option<Timestamp>) -> Timestamp {
        let next = match (&self.step, target) {
            (Step::Rate(since), Some(target)) => {
                let earliest = since.advanced_to(boottime, RATE_PERCENT_MIN);
                target.clamp(earliest, since.advanced_to(boottime, RATE_PERCENT_MAX))
            }
            (Step::Rate(since), None) => since.advanced_to(boottime, 100),
            (Step::Jump(max), Some(target)) if target <= self.last.plus(*max) => target,
            (Step::Jump(_), _) => self.last,
        };
        let stamp = next.max(Timestamp(self.last.0.saturating_add(1)));
        // Without a target the first stamp may be far off, so the jump remains allowed.
        if target.is_some() || matches!(self.step, Step::Rate(_)) {
            self.step = Step::Rate(AppliedStamp { stamp, boottime });
        }
        self.last = stamp;
        stamp
    }
}
