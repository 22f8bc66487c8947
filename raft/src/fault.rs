//! The latch that a fault of this machine closes, or a part that ended. It is never
//! opened again: the node stops, and whoever supervises it decides what next.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// Shared by everything that can meet such a fault; cheap to clone.
#[derive(Clone)]
pub struct Fault(Arc<watch::Sender<Option<String>>>);

impl Default for Fault {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Fault {
    /// Closes the latch. The first report counts; it alone is logged.
    pub fn report(&self, cause: &dyn fmt::Display) {
        self.0.send_if_modified(|reported| {
            if reported.is_some() {
                return false;
            }
            tracing::error!(%cause, "this node stops");
            *reported = Some(cause.to_string());
            true
        });
    }

    /// Closes the latch for a fault of the storage, and says what can be done about it.
    pub fn storage(&self, error: &storage::Error) {
        self.report(&format_args!("storage failed: {error}. {}", error.advice()));
    }

    /// The cause, once the latch is closed.
    pub fn cause(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the latch closes.
    pub async fn closed(&self) -> String {
        let mut watch = self.0.subscribe();
        loop {
            if let Some(cause) = watch.borrow_and_update().clone() {
                return cause;
            }
            // The sender check_incarnation in `self`: this cannot fail while we are here.
            let _: Result<(), _> = watch.changed().await;
        }
    }
}
