//! Waiting for a condition: the only place where tests poll.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Longest wait for any condition, unless a test names another limit.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two observations.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Observes a value until `holds` accepts it, and returns that value. Panics with `what` and
/// the last observed value after [`PATIENCE`].
pub async fn eventually<T: Debug>(
    what: &str,
    observe: impl AsyncFnMut() -> T,
    holds: impl FnMut(&T) -> bool,
) -> T {
    within(PATIENCE, what, observe, holds).await
}

/// [`eventually`], with another limit.
pub async fn within<T: Debug>(
    limit: Duration,
    what: &str,
    mut observe: impl AsyncFnMut() -> T,
    mut holds: impl FnMut(&T) -> bool,
) -> T {
    let started = Instant::now();
    loop {
        let observed = observe().await;
        if holds(&observed) {
            return observed;
        }
        assert!(started.elapsed() < limit, "{what}: not within {limit:?}, last: {observed:?}");
        tokio::time::sleep(POLL).await;
    }
}
