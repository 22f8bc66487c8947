//! Numbers of what a node has applied since its start, for its operator.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::change::Change;
use model::journal::EventName;

/// Ticks, and events by kind.
#[derive(Default)]
pub struct AppliedCounters {
    ticks: AtomicU64,
    events: [AtomicU64; EventName::ALL.len()],
}

impl AppliedCounters {
    pub(crate) fn count(&self, changes: &[Change]) {
        for change in changes {
            let counter = match change {
                Change::TickPut(..) => &self.ticks,
                Change::EventAppended(_, event) => &self.events[event.kind.name() as usize],
                _ => continue,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ticks of all tenants.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Events of a kind, of all tenants.
    pub fn events(&self, name: EventName) -> u64 {
        self.events[name as usize].load(Ordering::Relaxed)
    }
}
