//! The fault latch: keeps the first fatal fault of this node and stops the node. A fault is
//! an error of this machine, such as a failed sync, or the end of a part that must not end.

use std::sync::Arc;
use std::{fmt, io};

use tokio::sync::watch;

/// The latch; cheap to clone. A closed latch never reopens: the node stops, and its
/// supervisor decides whether to restart it.
#[derive(Clone, Default)]
pub struct Fault(Arc<watch::Sender<Option<String>>>);

impl Fault {
    /// Closes the latch. The first cause is kept and logged; later ones are dropped.
    pub fn report(&self, cause: &dyn fmt::Display) {
        self.0.send_if_modified(|first| {
            if first.is_some() {
                return false;
            }
            tracing::error!(%cause, "node stops on a fault");
            *first = Some(cause.to_string());
            true
        });
    }

    /// Closes the latch for a storage error, with advice for the operator.
    pub fn report_storage(&self, error: &storage::Error) {
        self.report(&format_args!("storage failed: {error}. {}", error.advice()));
    }

    /// For `map_err`: reports a storage error, and returns it for openraft.
    pub(crate) fn fail(&self) -> impl Fn(storage::Error) -> io::Error {
        |error| {
            self.report_storage(&error);
            io::Error::other(error.to_string())
        }
    }

    /// The cause; `None` while the latch is open.
    pub fn cause(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the latch closes, and returns the cause.
    pub async fn closed(&self) -> String {
        let mut watch = self.0.subscribe();
        // `self` holds the sender, so this cannot fail.
        let closed = watch.wait_for(Option::is_some).await;
        closed.map_or(None, |cause| cause.clone()).unwrap_or_default()
    }
}
