//! The one thread that builds graphs, below the priority of everything that somebody
//! waits for. While it lags, searches scan what it has not come to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;

use parking_lot::RwLock;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::registry::Registry;
use crate::model::id::TenantId;

/// Added to the thread's niceness: a tenth of the share of a thread that is not nice.
const NICENESS: i32 = 10;

/// The engine in use, as long as there is one.
type Current = Weak<RwLock<Arc<Engine>>>;

/// Wakes the builder. The thread ends when this is dropped.
pub(crate) struct Builder {
    wake: SyncSender<()>,
}

impl Builder {
    /// Starts the thread, for whatever engine is the current one.
    pub(crate) fn start(current: Current) -> Result<Self> {
        let (wake, woken) = sync_channel(1);
        let start = thread::Builder::new().name("graphs".into());
        start
            .spawn(move || run(&current, &woken))
            .map_err(|error| Error::Misuse(format!("no thread for graphs: {error}")))?;
        let builder = Self { wake };
        builder.wake();
        Ok(builder)
    }

    /// Has it look for tenants that are behind.
    pub(crate) fn wake(&self) {
        // Full: it will look anyway. Gone: it has said why.
        let _ = self.wake.try_send(());
    }
}

fn run(current: &Current, woken: &Receiver<()>) {
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::warn!(%error, "the thread that builds graphs is not nice");
    }
    while woken.recv().is_ok() {
        while let Some(tenant) = with_registry(current, Registry::take_behind).flatten() {
            // The graph's crate panics on what it did not expect. A tenant without a
            // graph loses nothing but time.
            if catch_unwind(AssertUnwindSafe(|| work(current, tenant))).is_err() {
                tracing::error!(tenant = tenant.0, "a graph failed: its tenant is scanned");
                let index = with_registry(current, |registry| registry.tenant(tenant));
                drop(index.flatten().map(|index| index.abandon_graph()));
            }
        }
    }
}

/// Works until the graph of a tenant is up to date.
fn work(current: &Current, tenant: TenantId) {
    // Looked up anew for each task: the engine may have been replaced, or be gone.
    let look_up = |registry: &Registry| Some((registry.tenant(tenant)?, registry.exact_max()));
    while let Some((index, exact_max)) = with_registry(current, look_up).flatten() {
        let Some(mut task) = index.next_task(exact_max) else { return };
        task.run();
        drop(index.finish_task(&task));
    }
}

fn with_registry<T>(current: &Current, look: impl FnOnce(&Registry) -> T) -> Option<T> {
    Some(look(&current.upgrade()?.read().registry))
}
