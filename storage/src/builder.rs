//! The background thread that builds the HNSW graphs of all tenants, with reduced CPU priority. It
//! starts others of the same priority for the tasks that use several.
//! Tenants take turns. Meanwhile, searches scan the slots that a graph does not cover.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use index::data::TenantIndex;
use index::saved::SavedGraphs;
use model::id::TenantId;
use parking_lot::RwLock;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::registry::Registry;

/// Added to the thread's niceness: about a tenth of the CPU share of other threads. A higher
/// value could starve it while searches wait for a lock that it holds.
const NICENESS: i32 = 10;
/// Tasks of one tenant before the next tenant's turn.
const TURN_TASKS: usize = 100;

/// The current engine, while it exists.
type Current = Weak<RwLock<Arc<Engine>>>;

/// Handle of the thread. Drop it to stop the thread after its current task.
pub(crate) struct Builder {
    wake_sender: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Builder {
    /// Starts the thread. It saves graphs, and restores saved ones.
    pub(crate) fn start(current: Current, saved: SavedGraphs) -> Result<Self> {
        let (wake_sender, wake_receiver) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("graphs".into())
            .spawn(move || Worker { current, saved, wake_receiver }.run())
            .map_err(|error| Error::Misuse(format!("cannot start the graph builder: {error}")))?;
        let builder = Self { wake_sender: Some(wake_sender), thread: Some(thread) };
        builder.wake();
        Ok(builder)
    }

    /// Wakes the thread to look for tenants with a stale graph.
    pub(crate) fn wake(&self) {
        // Full: a wake-up is pending. Closed: the thread has failed and logged the reason.
        let _ = self.wake_sender.as_ref().map(|sender| sender.try_send(()));
    }
}

impl Drop for Builder {
    fn drop(&mut self) {
        drop(self.wake_sender.take());
        // After the join the thread holds no reference to the engine.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Worker {
    current: Current,
    saved: SavedGraphs,
    wake_receiver: Receiver<()>,
}

impl Worker {
    fn run(self) {
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::warn!(%error, "cannot lower the priority of the graph builder");
        }
        self.remove_files_of_others();
        let mut last = TenantId(0);
        while self.wake_receiver.recv().is_ok() {
            self.drop_removed();
            let next = |last| self.registry(|registry| registry.take_stale(last)).flatten();
            while let Some(tenant) = next(last) {
                last = tenant;
                // A tenant whose graph fails goes on with scans, and does not end those of others.
                if catch_unwind(AssertUnwindSafe(|| self.run_turn(tenant))).is_err() {
                    tracing::error!(tenant = tenant.0, "the graph of a tenant failed");
                }
                if self.wake_receiver.try_recv() == Err(TryRecvError::Disconnected) {
                    return;
                }
            }
        }
    }

    /// Drops what belonged to deleted tenants.
    fn drop_removed(&self) {
        for (tenant, index) in self.registry(Registry::take_removed).unwrap_or_default() {
            drop(index);
            self.saved.remove(tenant);
        }
    }

    /// Removes saved graphs of tenants that were deleted while this node did not run.
    fn remove_files_of_others(&self) {
        let Some(all) = self.registry(Registry::all) else { return };
        let tenants: Vec<_> = all.into_iter().map(|(tenant, _)| tenant).collect();
        self.saved.tenants().filter(|tenant| !tenants.contains(tenant)).for_each(|tenant| {
            self.saved.remove(tenant);
        });
    }

    /// Runs up to [`TURN_TASKS`] tasks of a tenant, then queues it again while its graph is stale.
    fn run_turn(&self, tenant: TenantId) {
        self.restore(tenant);
        for _ in 0..TURN_TASKS {
            let Some((index, exact_max)) = self.index(tenant) else { return };
            let Some(task) = index.next_task(exact_max) else { return };
            // A graph that was replaced is dropped here, without the lock.
            drop(index.finish_task(&task, task.run()));
            if task.ends_check() {
                self.save(tenant, &index);
            }
            if self.wake_receiver.try_recv() == Err(TryRecvError::Disconnected) {
                return;
            }
        }
        self.registry(|registry| {
            registry.tenant(tenant).map(|index| registry.mark_if_stale(tenant, &index))
        });
    }

    /// Takes the saved graph of a tenant that needs one and has none.
    fn restore(&self, tenant: TenantId) {
        let Some((index, exact_max)) = self.index(tenant) else { return };
        if !index.begin_restore(exact_max) {
            return;
        }
        let restored = self.saved.load(tenant, &index).unwrap_or_else(|error| {
            tracing::warn!(tenant = tenant.0, %error, "saved graph unusable, building it again");
            None
        });
        let is_restored = restored.is_some();
        index.restore_graph(restored);
        if is_restored {
            let counts = index.read().coverage.counts();
            tracing::info!(tenant = tenant.0, ?counts, "graph restored");
        }
    }

    /// Saves the graph of a tenant after a check. No task runs meanwhile.
    fn save(&self, tenant: TenantId, index: &TenantIndex) {
        let Some((graph, unreachable)) = index.read().coverage.checked() else { return };
        if let Err(error) = self.saved.save(tenant, index, &graph, &unreachable) {
            tracing::warn!(tenant = tenant.0, %error, "graph not saved: a start builds it again");
        }
    }

    /// Looked up for each task, since the engine may be replaced or closed.
    fn index(&self, tenant: TenantId) -> Option<(Arc<TenantIndex>, usize)> {
        self.registry(|registry| Some((registry.tenant(tenant)?, registry.exact_max))).flatten()
    }

    fn registry<T>(&self, read: impl FnOnce(&Registry) -> T) -> Option<T> {
        Some(read(&self.current.upgrade()?.read().registry))
    }
}
