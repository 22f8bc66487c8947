//! The machine below raft: its clocks, its threads, and the disk of its files. [`ThisMachine`] is the
//! real one. A simulation provides others: all its nodes share one thread and one clock, and a seed
//! decides what their disks do.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::{BoxFuture, FutureExt};
use rustix::time::{ClockId, clock_gettime};
use storage::model::id::Timestamp;
use tokio::sync::oneshot;

/// A thread may lose the processor between its readings of the clocks. They are then read
/// again.
const READING_TIME_MAX: Duration = Duration::from_millis(20);
const READINGS_MAX: usize = 5;

/// The clocks of a machine at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// What the wall clock shows.
    pub wall_clock: Timestamp,
    /// Time since the machine started. It includes the time in which the machine was suspended.
    pub boottime: Duration,
    /// The monotonic clock: it stops while the machine is suspended.
    pub monotonic: Duration,
}

/// What the disk does next for raft.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DiskStep {
    /// Writes entries or a vote to the log, not yet durable.
    LogWrite,
    /// Syncs the log.
    LogSync,
    /// Replaces the high-water mark.
    LogMark,
    /// Applies entries to the state, or replaces it.
    Apply,
    /// Makes the state durable.
    Flush,
    /// Opens and indexes a state that another node sent.
    Open,
}

/// Work that may wait for a disk.
pub type Work = Box<dyn FnOnce() + Send>;

/// A machine. Timers are those of tokio.
pub trait Machine: Send + Sync + 'static {
    /// Reads the clocks.
    fn clocks(&self) -> ClockReading;

    /// Starts a thread that runs `task` to its end. `None` if the task shares the thread of the caller.
    ///
    /// # Errors
    /// When the system refuses a thread.
    fn start_thread(
        &self,
        name: &str,
        task: BoxFuture<'static, ()>,
    ) -> io::Result<Option<JoinHandle<()>>>;

    /// Runs work beside the tasks of raft, which send heartbeats and must not wait for a disk.
    fn run_blocking(&self, work: Work) -> BoxFuture<'static, ()>;

    /// Completes before the disk takes a step. A simulation delays the step here, or lets it fail.
    fn before(&self, step: DiskStep) -> BoxFuture<'static, storage::Result<()>>;
}

/// Runs work that may wait for a disk, and returns its result. After a panic in it, there is an error with
/// the text of the panic.
pub(crate) async fn run_blocking<T: Send + 'static>(
    machine: &dyn Machine,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, result) = oneshot::channel();
    // After a panic nothing uses what the work held.
    let work = move || catch_unwind(AssertUnwindSafe(work));
    // A caller that was cancelled has dropped the receiver.
    machine.run_blocking(Box::new(move || drop(sender.send(work())))).await;
    let ended = result.await.map_err(|_| io::Error::other("the runtime of raft ends"))?;
    ended.map_err(|panic| {
        let text =
            panic.downcast_ref::<&str>().copied().or(panic.downcast_ref().map(String::as_str));
        io::Error::other(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// The machine on which this process runs.
#[derive(Debug, Default)]
pub struct ThisMachine;

impl ThisMachine {
    pub(crate) fn shared() -> Arc<dyn Machine> {
        Arc::new(Self)
    }
}

impl Machine for ThisMachine {
    fn clocks(&self) -> ClockReading {
        let mut before = time_of(ClockId::Boottime);
        for attempt in 1.. {
            let (wall_clock, monotonic) = (wall_clock(), time_of(ClockId::Monotonic));
            let after = time_of(ClockId::Boottime);
            if after.saturating_sub(before) <= READING_TIME_MAX || attempt == READINGS_MAX {
                return ClockReading { wall_clock, boottime: after, monotonic };
            }
            before = after;
        }
        unreachable!("the last attempt returns")
    }

    fn start_thread(
        &self,
        name: &str,
        task: BoxFuture<'static, ()>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || runtime.block_on(task)).map(Some)
    }

    fn run_blocking(&self, work: Work) -> BoxFuture<'static, ()> {
        tokio::task::spawn_blocking(work).map(drop).boxed()
    }

    fn before(&self, _step: DiskStep) -> BoxFuture<'static, storage::Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}

fn time_of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
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
