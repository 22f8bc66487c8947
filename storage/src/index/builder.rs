//! The one thread that builds graphs, below the priority of everything that somebody
//! waits for. While it lags, searches scan what it has not come to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::RwLock;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::graph::Graph;
use crate::index::registry::Registry;
use crate::model::id::TenantId;

/// Added to the thread's niceness: a third of the share of a thread that is not nice. No
/// less, since searches may wait for a lock that it holds.
const NICENESS: i32 = 5;
/// Tasks of one tenant before it is another's turn.
const TURN_TASKS: usize = 100;
/// How often to look whether the last search has let go of a graph.
const RETIRE_INTERVAL: Duration = Duration::from_millis(10);

/// The engine in use, as long as there is one.
type Current = Weak<RwLock<Arc<Engine>>>;

/// Wakes the builder; dropping it ends the thread, at the end of a task.
pub(crate) struct Builder {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Builder {
    /// Starts the thread, for whatever engine is the current one.
    pub(crate) fn start(current: Current) -> Result<Self> {
        let (wake, woken) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("graphs".into())
            .spawn(move || Work { current, woken }.run())
            .map_err(|error| Error::Misuse(format!("no thread for graphs: {error}")))?;
        let builder = Self { wake: Some(wake), thread: Some(thread) };
        builder.wake();
        Ok(builder)
    }

    /// Has it look for tenants that are behind.
    pub(crate) fn wake(&self) {
        // Full: it will look anyway. Gone: it has said why.
        let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        drop(self.wake.take());
        // It holds nothing of the engine when this returns. It logged its own panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Work {
    current: Current,
    woken: Receiver<()>,
}

impl Work {
    fn run(self) {
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::warn!(%error, "the thread that builds graphs is not nice");
        }
        let mut last = TenantId(0);
        while self.woken.recv().is_ok() {
            let next = |last| self.registry(|registry| registry.take_behind(last)).flatten();
            while let Some(tenant) = next(last) {
                last = tenant;
                // The graph's crate panics on what it did not expect. A tenant without a
                // graph loses nothing but time.
                if catch_unwind(AssertUnwindSafe(|| self.turn(tenant))).is_err() {
                    tracing::error!(tenant = tenant.0, "a graph failed: its tenant is scanned");
                    let index = self.registry(|registry| registry.tenant(tenant)).flatten();
                    drop(index.map(|index| index.abandon_graph()));
                }
                if self.woken.try_recv() == Err(TryRecvError::Disconnected) {
                    return;
                }
            }
        }
    }

    /// Works on the graph of a tenant for a while, and has it wait for its next turn if
    /// that did not bring it up to date.
    fn turn(&self, tenant: TenantId) {
        // Looked up anew for each task: the engine may have been replaced, or be gone.
        let look_up = |registry: &Registry| Some((registry.tenant(tenant)?, registry.exact_max()));
        for _ in 0..TURN_TASKS {
            let Some((index, exact_max)) = self.registry(look_up).flatten() else { return };
            let Some(mut task) = index.next_task(exact_max) else { return };
            task.run();
            let retired = index.finish_task(&task);
            task.into_retired().into_iter().chain(retired).for_each(retire);
            if self.woken.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
        }
        self.registry(|registry| {
            registry.tenant(tenant).map(|index| registry.note_if_behind(tenant, &index))
        });
    }

    fn registry<T>(&self, look: impl FnOnce(&Registry) -> T) -> Option<T> {
        Some(look(&self.current.upgrade()?.read().registry))
    }
}

/// Drops a graph that nothing names any more, once the searches under way are through:
/// that takes time, which is this thread's to spend.
fn retire(graph: Arc<Graph>) {
    while Arc::strong_count(&graph) > 1 {
        thread::sleep(RETIRE_INTERVAL);
    }
    // The crate measures how long it takes, by a clock that may go back, and would panic.
    drop(catch_unwind(AssertUnwindSafe(|| drop(graph))));
}
