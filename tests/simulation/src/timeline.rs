//! The time of a run. Each process has a runtime of tokio with a clock of its own that stands still while a
//! task runs, and so have the clients and the operator. They take turns of a *window* of time each, on one
//! thread: first what is outside of all processes. All that processes send to each other passes through that, so
//! nothing arrives at a time that its receiver has left behind.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, advance};

/// The time of one turn.
pub const WINDOW: Duration = Duration::from_millis(2);

/// When the last turn began, in nanoseconds.
static TURN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: RefCell<Option<Arc<Timeline>>> = const { RefCell::new(None) };
}

/// The tasks of a process, with their clock. It must be dropped outside of all timelines.
pub struct Timeline {
    runtime: Runtime,
    started: Instant,
    /// Time of the run at `started`, plus all time in which the machine was suspended.
    offset: Mutex<Duration>,
}

impl Timeline {
    /// One that begins at this time of the run.
    pub fn new(at: Duration) -> Arc<Self> {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime of one thread");
        let started = {
            let _inside = runtime.enter();
            Instant::now()
        };
        Arc::new(Self { runtime, started, offset: Mutex::new(at) })
    }

    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(task));
    }

    /// Runs its tasks from `from` to `until`. A clock that stood still before, as that of a paused process,
    /// moves on to `from` first.
    pub fn run(self: &Arc<Self>, from: Duration, until: Duration) {
        TURN.store(from.as_nanos() as u64, Ordering::Relaxed);
        CURRENT.with(|current| current.replace(Some(Arc::clone(self))));
        self.runtime.block_on(async {
            let behind = from.saturating_sub(self.now());
            if !behind.is_zero() {
                advance(behind).await;
            }
            sleep_until(until).await;
        });
        CURRENT.with(|current| current.replace(None));
    }

    /// Lets its clock stand still for this time, also in the eyes of its tasks.
    pub fn suspend(&self, time: Duration) {
        *self.offset.lock() += time;
    }

    fn now(&self) -> Duration {
        *self.offset.lock() + self.started.elapsed()
    }
}

fn current<T>(read: impl FnOnce(&Timeline) -> T) -> T {
    CURRENT.with(|current| read(current.borrow().as_ref().expect("a task of a timeline")))
}

/// Time since the start of the run. A thread of RocksDB has that of the last turn.
pub fn now() -> Duration {
    let own = CURRENT.with(|current| current.borrow().as_ref().map(|timeline| timeline.now()));
    own.unwrap_or_else(|| Duration::from_nanos(TURN.load(Ordering::Relaxed)))
}

/// Waits until this time of the run.
pub async fn sleep_until(time: Duration) {
    let at = current(|timeline| timeline.started + time.saturating_sub(*timeline.offset.lock()));
    tokio::time::sleep_until(at).await;
}
