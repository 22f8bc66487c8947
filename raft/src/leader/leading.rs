//! What submitters, the executor and operators share while this node leads: the queue of commands, the
//! open term, and what was granted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use storage::Command;
use storage::command::AdvanceClock;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::time::Instant;
use tracing::Span;

use crate::grants::{Grant, GrantRequest};
use crate::leader::queue::{Queue, QueuedCommand};
use crate::leader::rates::{Limits, Rates};
use crate::types::NodeId;

#[derive(Default)]
pub(crate) struct Leading {
    queue: Mutex<Queue>,
    queued: Notify,
    /// The term that the executor has opened; 0 for none.
    open_term: AtomicU64,
    /// Whether an operator requested that the next stamp moves cluster time to its target.
    pub(crate) clock_jump: AtomicBool,
    /// What this node has granted to tenants.
    rates: Mutex<Option<Rates>>,
    /// Held by the executor in each round, and while leadership is transferred: a voter that lacks
    /// an entry cannot take it over.
    pub(crate) proposals: AsyncMutex<()>,
}

impl Leading {
    /// Queues a command. Returns false if there is no room.
    pub(crate) fn push(&self, queued: QueuedCommand) -> bool {
        let is_pushed = self.queue.lock().push(queued);
        if is_pushed {
            self.queued.notify_one();
        }
        is_pushed
    }

    /// Commands in the queue.
    pub(crate) fn queue_len(&self) -> usize {
        self.queue.lock().len()
    }

    /// Removes and claims the next command. Skips commands that their submitters cancelled.
    pub(crate) fn claim_next(
        &self,
        fits: impl Fn(&QueuedCommand) -> bool,
    ) -> Option<QueuedCommand> {
        let mut queue = self.queue.lock();
        loop {
            let queued = queue.pop(&fits)?;
            if queued.claim.take() {
                return Some(queued);
            }
        }
    }

    /// Counts the time in which a command was decided against the share of its key.
    pub(crate) fn charge(&self, queued: &QueuedCommand, time: Duration) {
        self.queue.lock().charge(queued, time);
    }

    /// Queues a command that only advances the cluster clock. Its outcome has no receiver.
    pub(crate) fn push_stamp(&self) {
        let (stamp, _) = QueuedCommand::new(Command::of_cluster(AdvanceClock), Span::none());
        // A full queue needs no stamp command: its own commands carry one.
        self.queue.lock().push(stamp);
    }

    pub(crate) async fn wait_queued(&self) {
        if self.queue.lock().len() == 0 {
            self.queued.notified().await;
        }
    }

    /// Starts to accept commands and reads in `term`. 0 stops accepting them.
    pub(crate) fn set_open_term(&self, term: u64) {
        self.open_term.store(term, Ordering::SeqCst);
    }

    /// The term in which commands and reads are accepted; 0 for none.
    pub(crate) fn open_term(&self) -> u64 {
        self.open_term.load(Ordering::SeqCst)
    }

    /// Grants requests of a limited tenant to a node.
    pub(crate) fn grant(
        &self,
        term: u64,
        to: NodeId,
        request: &GrantRequest,
        limits: &Limits<'_>,
    ) -> Grant {
        let (now, mut rates) = (Instant::now(), self.rates.lock());
        let of_term = rates.take().filter(|rates| rates.term() == term);
        let rates = rates.insert(of_term.unwrap_or_else(|| Rates::new(term, now)));
        rates.grant(to, request, limits, now)
    }
}
