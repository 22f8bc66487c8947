//! The clocks of this machine: the wall clock and the boot time. NTP clients and operators may
//! step the wall clock. No step moves the boot time (`CLOCK_BOOTTIME`), and it includes suspends.
//! A step of the wall clock is therefore a change of the difference between them. It is logged
//! and counted. Also what all that read clocks share: the median of samples, and a stamp with the boot
//! time at which it was applied.

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use storage::model::id::Timestamp;

use crate::fault::Fault;

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
/// A thread may lose the processor between its readings of the two clocks. They are then read
/// again.
const READING_TIME_MAX: Duration = Duration::from_millis(20);
const READINGS_MAX: usize = 5;

/// Both clocks at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) wall_clock: Timestamp,
    /// Time since the machine started.
    pub(crate) boottime: Duration,
}

/// Reads the clocks, and detects steps of the wall clock.
#[derive(Default)]
pub(crate) struct SystemClock(Mutex<StepDetector>);

impl SystemClock {
    pub(crate) fn read(&self) -> ClockReading {
        // Locked during the reading, so that the detector gets readings in order.
        let mut detector = self.0.lock();
        let reading = read_clocks();
        if let Some(step) = detector.record(reading, Instant::now()) {
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
        self.read();
        self.0.lock().suspension.map_or(elapsed, |last| last.added_to(elapsed, Instant::now()))
    }

    /// Steps since the start of the process.
    pub(crate) fn steps(&self) -> u64 {
        self.0.lock().total
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
    /// The monotonic clock at the last reading.
    read_at: Option<Instant>,
    suspension: Option<Suspension>,
}

/// A suspension of the machine. It was over when it was noticed.
#[derive(Debug, Clone, Copy)]
struct Suspension {
    time: Duration,
    noticed_at: Instant,
}

impl Suspension {
    fn added_to(self, elapsed: Duration, now: Instant) -> Duration {
        let is_older = elapsed >= now.saturating_duration_since(self.noticed_at);
        elapsed + if is_older { self.time } else { Duration::ZERO }
    }
}

impl StepDetector {
    /// Records a reading and the monotonic clock. Returns the step of the wall clock since the last
    /// one, in microseconds; `None` without a step.
    fn record(&mut self, reading: ClockReading, now: Instant) -> Option<i64> {
        let (last, read_at) = (self.last.replace(reading)?, self.read_at.replace(now));
        let awake = read_at.map_or(Duration::ZERO, |read_at| now - read_at);
        let time = reading.boottime.saturating_sub(last.boottime).saturating_sub(awake);
        if read_at.is_some() && time > SUSPENSION_MIN {
            self.suspension = Some(Suspension { time, noticed_at: now });
        }
        let expected = last.wall_clock.plus(reading.boottime.saturating_sub(last.boottime));
        let step = reading.wall_clock.0.saturating_sub(expected.0);
        let is_step = u128::from(step.unsigned_abs()) > STEP_MIN.as_micros();
        self.total += u64::from(is_step);
        is_step.then_some(step)
    }
}

fn read_clocks() -> ClockReading {
    let mut before = boottime();
    for attempt in 1.. {
        let (wall_clock, after) = (wall_clock(), boottime());
        if after.saturating_sub(before) <= READING_TIME_MAX || attempt == READINGS_MAX {
            return ClockReading { wall_clock, boottime: after };
        }
        before = after;
    }
    unreachable!("the last attempt returns")
}

fn boottime() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

fn wall_clock() -> Timestamp {
    let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    };
    Timestamp(micros.saturating_add(injected_step_micros()))
}

/// The step of the wall clock that a test injects. The failpoint names a file with seconds.
/// Always 0 without failpoints.
fn injected_step_micros() -> i64 {
    fail::fail_point!("wall-clock", |file| {
        let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        text.trim().parse::<i64>().unwrap_or(0).saturating_mul(Timestamp::SECOND_MICROS)
    });
    0
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

    const SECOND: i64 = Timestamp::SECOND_MICROS;

    #[test]
    fn each_step_is_detected_once() {
        let mut detector = StepDetector::default();
        let started = Instant::now();
        let mut record = |wall_clock, boottime| {
            let boottime = Duration::from_secs(boottime);
            let reading = ClockReading { wall_clock: Timestamp(wall_clock), boottime };
            detector.record(reading, started + boottime)
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
        let (mut detector, started) = (StepDetector::default(), Instant::now());
        let seconds = Duration::from_secs;
        for (boottime, awake) in [(10, 0), (11, 1), (3_612, 2)] {
            let boottime = seconds(boottime);
            let wall_clock = Timestamp(boottime.as_micros() as i64);
            detector.record(ClockReading { wall_clock, boottime }, started + seconds(awake));
        }
        let suspension = detector.suspension.unwrap();
        let now = started + seconds(5);
        assert_eq!(suspension.added_to(seconds(2), now), seconds(2), "it began after it");
        assert_eq!(suspension.added_to(seconds(4), now), seconds(3_604));
    }

    #[test]
    fn clocks_of_this_machine_advance() {
        let clock = SystemClock::default();
        let (first, second) = (clock.read(), clock.read());
        assert!(first.boottime > Duration::ZERO && first.wall_clock > Timestamp(0));
        assert!(second.boottime >= first.boottime);
        assert_eq!(clock.steps(), 0);
    }
}
