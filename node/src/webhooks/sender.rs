//! The leader's duty of sending what the outbox owes. Only a node that a majority confirmed as
//! leader of late sends; what became of an attempt goes through the log. So a receiver may see
//! a delivery twice, under the same `webhook-id`, when a leader dies between the two, and never
//! misses one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use raft::Handle;
use storage::model::delivery::{Attempt, AttemptOutcome, Delivery, DeliveryId, DeliveryStage};
use storage::model::id::{TenantId, Timestamp};
use storage::{Action, Command, Reader, View};
use tokio::time::Instant;

use super::Webhooks;
use super::attempt::Target;
use super::permits::{HostPermits, Permit};

/// How often the leader looks what is due, how often at most when permits become free, and how
/// long it pauses at most after looks that took their time.
const INTERVAL: Duration = Duration::from_millis(50);
const INTERVAL_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A leader that no majority confirmed for so long sends nothing.
const CONFIRMED: Duration = Duration::from_secs(1);
/// Deliveries of a tenant that one look goes through: as many as it may owe, so that a receiver
/// that hangs keeps no other of its tenant waiting.
const LOOK_MAX: usize = 10_000;
/// How long recording an attempt may take before that is tried again, and the pause before.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
const RECORD_PAUSE: Duration = Duration::from_millis(200);

/// Sends; cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender {
    raft: Handle,
    reader: Reader,
    webhooks: Arc<Webhooks>,
    permits: Arc<HostPermits>,
    counters: Arc<Counters>,
}

/// What was sent, since start.
#[derive(Default)]
pub(crate) struct Counters {
    delivered: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    /// Requests that receivers took.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Attempts that failed.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

/// The clock of the state, moved on by the time that has passed since it moved.
struct Clock {
    seen: Timestamp,
    at: Instant,
}

impl Clock {
    fn now(&mut self, seen: Timestamp) -> Timestamp {
        if seen != self.seen {
            *self = Self { seen, at: Instant::now() };
        }
        let passed = i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.seen.0.saturating_add(passed))
    }
}

impl Sender {
    pub(crate) fn new(raft: &Handle, reader: &Reader, webhooks: Arc<Webhooks>) -> Self {
        let (raft, reader) = (raft.clone(), reader.clone());
        Self { raft, reader, webhooks, permits: Arc::default(), counters: Arc::default() }
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Sends what is due while this node leads, for as long as the node runs.
    pub(crate) async fn run(self) {
        let mut clock = Clock { seen: Timestamp::default(), at: Instant::now() };
        let mut pause = INTERVAL_MIN;
        for turn in 0.. {
            tokio::time::sleep(pause).await;
            tokio::select! {
                () = tokio::time::sleep(INTERVAL) => {}
                () = self.permits.freed() => {}
            }
            if self.raft.leader_staleness().is_none_or(|staleness| staleness >= CONFIRMED) {
                continue;
            }
            let now = clock.now(self.reader.position().clock);
            let this = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                this.look(turn, now).map(|()| began.elapsed())
            });
            match looked.await {
                // Much that waits for a crowded host is looked through: a fifth of the time.
                Ok(Ok(took)) => pause = (4 * took).clamp(INTERVAL_MIN, PAUSE_MAX),
                Ok(Err(error)) => self.raft.fault().storage(&error),
                Err(panic) => tracing::error!(%panic, "looking for what is pending panicked"),
            }
        }
    }

    /// Begins what is due and has a permit, each time with another tenant.
    fn look(&self, turn: usize, now: Timestamp) -> storage::Result<()> {
        let mut tenants = self.reader.tenants();
        let first = turn % tenants.len().max(1);
        tenants.rotate_left(first);
        tenants.into_iter().try_for_each(|tenant| self.look_at(tenant, now))
    }

    fn look_at(&self, tenant: TenantId, now: Timestamp) -> storage::Result<()> {
        if !self.permits.has_room(tenant) {
            return Ok(());
        }
        let mut targets = HashMap::new();
        for id in self.reader.due(tenant, now, LOOK_MAX)? {
            let target = match targets.get(&id.trigger) {
                Some(known) => known,
                None => {
                    let trigger = self.reader.trigger(tenant, id.trigger)?;
                    let target = trigger.and_then(|trigger| Target::of(trigger, now));
                    &*targets.entry(id.trigger).or_insert(target)
                }
            };
            // Deleted since it was found due, and its deliveries with it.
            let Some(target) = target else { continue };
            let Some(permit) = self.permits.take(tenant, id, target.host()) else {
                if self.permits.has_room(tenant) {
                    continue;
                }
                return Ok(());
            };
            // Read after its permit was taken: what was recorded before that shows.
            let delivery = self.reader.delivery(tenant, id)?;
            let is_due = |delivery: &Delivery| matches!(delivery.stage, DeliveryStage::Pending(at) if at <= now);
            if let Some(delivery) = delivery.filter(is_due) {
                self.begin(tenant, (id, delivery), target.clone(), permit);
            }
        }
        Ok(())
    }

    fn begin(
        &self,
        tenant: TenantId,
        (id, delivery): (DeliveryId, Delivery),
        target: Target,
        permit: Permit,
    ) {
        let this = self.clone();
        tokio::spawn(async move {
            let outcome = this.webhooks.attempt(id, &delivery, &target).await;
            let counter = match outcome {
                AttemptOutcome::Delivered(_) => &this.counters.delivered,
                _ => &this.counters.failed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            this.record(tenant, Attempt { id, number: delivery.attempts + 1, outcome }).await;
            drop(permit);
        });
    }

    /// Has the cluster know what became of an attempt, for as long as this node leads: it is
    /// recorded once, however often it is said. Once another leads, that one sends it again.
    async fn record(&self, tenant: TenantId, attempt: Attempt) {
        let action = Action::RecordAttempts(vec![attempt]);
        let command = Command { tenant: Some(tenant), ..Command::background(action) };
        loop {
            let deadline = Instant::now() + RECORD_TIMEOUT;
            match self.raft.submit_here(command.clone(), deadline).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "an attempt waits to be recorded"),
            }
            if self.raft.status().role != "leader" {
                return;
            }
            tokio::time::sleep(RECORD_PAUSE).await;
        }
    }
}
