//! The fault latch: keeps the first fatal fault of this node and stops the node. A fault is
//! an error of this machine, such as a failed sync, or the end of a part that must not end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::{fmt, io};

use futures::FutureExt;
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

    /// Runs a task that the node depends on. A panic in it closes the latch: without the task, the node
    /// would seem to work.
    pub fn guard<F: Future<Output: Default> + Send>(
        &self,
        task: F,
    ) -> impl Future<Output = F::Output> + Send + use<F> {
        let fault = self.clone();
        // After a panic nothing uses what the task held.
        AssertUnwindSafe(task).catch_unwind().map(move |ended| {
            ended.unwrap_or_else(|_| {
                // Its message is in the log, by the hook of panics.
                fault.report(&"a task of the node has panicked");
                F::Output::default()
            })
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_in_a_task_closes_the_latch() {
        let fault = Fault::default();
        assert_eq!(fault.guard(async { 7 }).await, 7);
        assert_eq!(fault.cause(), None);
        fault.guard(async { assert_eq!(1, 2, "the task panics") }).await;
        assert_eq!(fault.closed().await, "a task of the node has panicked");
    }
}
