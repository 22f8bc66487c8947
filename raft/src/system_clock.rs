//! The clocks of this machine: the wall clock and the boot time. NTP clients and operators may
//! step the wall clock. No step moves the boot time (`CLOCK_BOOTTIME`), and it includes suspends.
//! A step of the wall clock is therefore a change of the difference between them. It is logged
//! and counted. Also what all that read clocks share: the median of samples, and a stamp with the boot
//! time at which it was applied.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage::model::id::Timestamp;

use crate::fault::Fault;
use crate::machine::{ClockReading, Machine};

/// Times that a wall clock may show, in seconds since 1970: from 2000 to 9998. Others are wrong,
/// and neither certificates nor HTTP work with them.
const POSSIBLE: Range<i64> = 946_684_800..253_370_764_800;
/// Interval at which the clock is compared with them.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Change of the difference that counts as a step. An NTP client that adjusts the rate of the
/// clock changes it by 500 µs per second at most.
const STEP_MIN: Duration = Duration::from_millis(500);
/// Difference of the boot time and the monotonic clock that counts as a suspension.
const SUSPENSION_MIN: Duration = Duration::from_millis(100);

/// Reads the clocks of a machine, and detects steps of the wall clock.
pub(crate) struct SystemClock {
    machine: Arc<dyn Machine>,
    detector: Mutex<StepDetector>,
}

impl SystemClock {
    pub(crate) fn new(machine: Arc<dyn Machine>) -> Self {
        Self { machine, detector: Mutex::default() }
    }

    pub(crate) fn read(&self) -> ClockReading {
        // Locked during the reading, so that the detector gets readings in order.
        let mut detector = self.detector.lock();
        let reading = self.machine.clocks();
        if let Some(step) = detector.record(reading) {
            tracing::warn!(
                seconds = step as f64 / 1e6,
                now = %reading.wall_clock,
                "the wall clock of this machine stepped"
            );
        }
        reading
    }

    /// An age, measured by a clock that stops while the machine is suspended, with the time of the last
    /// suspension if that may have been meanwhile.
    pub(crate) fn age(&self, elapsed: Duration) -> Duration {
        let now = self.read().monotonic;
        self.detector.lock().suspension.map_or(elapsed, |last| last.added_to(elapsed, now))
    }

    /// Steps since the start of the process.
    pub(crate) fn steps(&self) -> u64 {
        self.detector.lock().total
    }
}

/// Stops the node when its wall clock shows an impossible time: others can then take over.
pub(crate) async fn check(clock: &SystemClock, fault: &Fault) {
    loop {
        let now = clock.read().wall_clock;
        if !POSSIBLE.contains(&(now.0 / Timestamp::SECOND_MICROS)) {
            fault.report(&format_args!(
                "the wall clock of this machine cannot be right: it is {} s after 1970. Correct \
                 it, then start the node again",
                now.0 / Timestamp::SECOND_MICROS
            ));
            return;
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

#[derive(Default)]
struct StepDetector {
    last: Option<ClockReading>,
    total: u64,
    suspension: Option<Suspension>,
}

/// A suspension of the machine. It was over when it was noticed.
#[derive(Debug, Clone, Copy)]
struct Suspension {
    time: Duration,
    /// By the monotonic clock.
    noticed_at: Duration,
}

impl Suspension {
    fn added_to(self, elapsed: Duration, now: Duration) -> Duration {
        let is_older = elapsed >= now.saturating_sub(self.noticed_at);
        elapsed + if is_older { self.time } else { Duration::ZERO }
    }
}

impl StepDetector {
    /// Records a reading. Returns the step of the wall clock since the last one, in microseconds;
    /// `None` without a step.
    fn record(&mut self, reading: ClockReading) -> Option<i64> {
        let last = self.last.replace(reading)?;
        let elapsed = reading.boottime.saturating_sub(last.boottime);
        let awake = reading.monotonic.saturating_sub(last.monotonic);
        let time = elapsed.saturating_sub(awake);
        if time > SUSPENSION_MIN {
            self.suspension = Some(Suspension { time, noticed_at: reading.monotonic });
        }
        let expected = last.wall_clock.plus(elapsed);
        let step = reading.wall_clock.0.saturating_sub(expected.0);
        let is_step = u128::from(step.unsigned_abs()) > STEP_MIN.as_micros();
        self.total += u64::from(is_step);
        is_step.then_some(step)
    }
}

/// Median of samples in ascending order, at least one. With an even number, the lower median.
pub(crate) fn median(samples: &[Timestamp]) -> Timestamp {
    samples[(samples.len() - 1) / 2]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::ThisMachine;

    const SECOND: i64 = Timestamp::SECOND_MICROS;

    #[test]
    fn each_step_is_detected_once() {
        let mut detector = StepDetector::default();
        let mut record = |wall_clock, boottime| {
            let boottime = Duration::from_secs(boottime);
            let wall_clock = Timestamp(wall_clock);
            detector.record(ClockReading { wall_clock, boottime, monotonic: boottime })
        };
        assert_eq!(record(100 * SECOND, 10), None, "the first reading");
        assert_eq!(record(105 * SECOND + 400_000, 15), None, "adjusted, not stepped");
        assert_eq!(record(86_506 * SECOND + 400_000, 16), Some(86_400 * SECOND));
        assert_eq!(record(90_106 * SECOND + 400_000, 3_616), None, "a suspended machine");
        assert_eq!(record(3_706 * SECOND + 400_000, 3_616), Some(-86_400 * SECOND));
        assert_eq!(detector.total, 2);
    }

    #[test]
    fn ages_count_the_time_of_a_suspension() {
        let (mut detector, seconds) = (StepDetector::default(), Duration::from_secs);
        for (boottime, monotonic) in [(10, 0), (11, 1), (3_612, 2)] {
            let (boottime, monotonic) = (seconds(boottime), seconds(monotonic));
            let wall_clock = Timestamp(boottime.as_micros() as i64);
            detector.record(ClockReading { wall_clock, boottime, monotonic });
        }
        let suspension = detector.suspension.unwrap();
        let now = seconds(5);
        assert_eq!(suspension.added_to(seconds(2), now), seconds(2), "it began after it");
        assert_eq!(suspension.added_to(seconds(4), now), seconds(3_604));
    }

    #[test]
    fn clocks_of_this_machine_advance() {
        let clock = SystemClock::new(ThisMachine::shared());
        let (first, second) = (clock.read(), clock.read());
        assert!(first.boottime > Duration::ZERO && first.wall_clock > Timestamp(0));
        assert!(second.boottime >= first.boottime);
        assert_eq!(clock.steps(), 0);
    }
}
