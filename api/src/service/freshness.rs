//! Freshness of reads: a local read is within the staleness bound, a linearizable one reflects
//! everything acknowledged before it. Every response reports which it is.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{ApiError, ApiResult};
use crate::limits::DEADLINE;
use crate::service::Service;
use crate::words::Consistency;

/// How fresh a response is.
#[derive(Debug, Clone, Copy, Default)]
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
    /// Waits at most [`DEADLINE`], until this node can serve a read that reflects the log up to
    /// `min_index` at least. `max_staleness` bounds local reads.
    pub(crate) async fn await_freshness(
        &self,
        consistency: Consistency,
        min_index: u64,
        max_staleness: Duration,
    ) -> ApiResult<Freshness> {
        let deadline = Instant::now() + DEADLINE;
        let is_linearizable = consistency == Consistency::Linearizable;
        if is_linearizable {
            self.raft.read_index(deadline).await?;
        }
        if min_index > 0 {
            self.raft.wait_applied(min_index, deadline).await?;
        }
        let staleness = match self.raft.staleness() {
            _ if is_linearizable => Duration::ZERO,
            Some(staleness) if staleness <= max_staleness => staleness,
            _ => {
                return Err(ApiError::unavailable(
                    "stale",
                    "this node cannot serve a read as fresh as requested: it is catching up, or has \
                     no contact with a leader",
                ));
            }
        };
        let index = self.reader.position().index;
        Ok(Freshness { index, consistency, staleness })
    }

    /// How fresh the state of this node is now.
    pub(crate) fn present(&self) -> Freshness {
        let staleness = self.raft.staleness().unwrap_or_default();
        let index = self.reader.position().index;
        Freshness { index, consistency: Consistency::Local, staleness }
    }

    /// Makes sure that the next read reflects everything acknowledged so far.
    pub(crate) async fn await_linearizable(&self) -> ApiResult<()> {
        Ok(self.raft.read_index(Instant::now() + DEADLINE).await?)
    }
}
