//! Freshness of reads: a local read is within the staleness bound, a linearizable one reflects
//! everything acknowledged before it. Every response reports which it is.

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::DEADLINE;
use crate::service::Service;
use crate::service::error::{ApiError, ApiResult};
use crate::words::Consistency;

/// How fresh a read must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    pub(crate) consistency: Consistency,
    /// Log index that the read reflects at least.
    pub(crate) min_index: u64,
    /// Bound of the staleness of a local read.
    pub(crate) max_staleness: Duration,
}

/// How fresh a response is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freshness {
    /// Log index that the response reflects at least.
    pub(crate) index: u64,
    pub(crate) consistency: Consistency,
    pub(crate) staleness: Duration,
}

impl Freshness {
    /// The response to a write: it reflects the write's own effect.
    pub(crate) fn of_write(index: u64) -> Self {
        let consistency = Consistency::Linearizable;
        Self { index, consistency, staleness: Duration::ZERO }
    }
}

impl Service {
    /// Waits until this node can serve a read as fresh as `options` require, at most
    /// [`DEADLINE`].
    pub(crate) async fn await_freshness(&self, options: &ReadOptions) -> ApiResult<Freshness> {
        let deadline = Instant::now() + DEADLINE;
        let raft = self.raft();
        let is_linearizable = options.consistency == Consistency::Linearizable;
        if is_linearizable {
            raft.read_index(deadline).await?;
        }
        if options.min_index > 0 {
            raft.wait_applied(options.min_index, deadline).await?;
        }
        let staleness = match raft.staleness() {
            _ if is_linearizable => Duration::ZERO,
            Some(staleness) if staleness <= options.max_staleness => staleness,
            _ => {
                return Err(ApiError::unavailable(
                    "stale",
                    "this node cannot serve a read as fresh as requested: it is catching up, or has \
                     no contact with a leader",
                ));
            }
        };
        let index = self.reader().position().index;
        Ok(Freshness { index, consistency: options.consistency, staleness })
    }

    /// Makes sure that the next read reflects everything acknowledged so far.
    pub(crate) async fn await_linearizable(&self) -> ApiResult<()> {
        Ok(self.raft().read_index(Instant::now() + DEADLINE).await?)
    }
}
