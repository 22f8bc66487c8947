//! Sends pending deliveries while this node leads, and records their outcomes through the log.
//!
//! A node sends only if a majority has recently confirmed it as leader. Delivery is at least
//! once: if the leader crashes between a request and the record of its outcome, the receiver
//! gets the delivery again, with the same `webhook-id`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use raft::Handle;
use storage::command::RecordAttempts;
use storage::model::id::{TenantId, Timestamp};
use storage::model::trigger::{Attempt, AttemptOutcome, Delivery, DeliveryStage};
use storage::{Command, Reader, View};
use tokio::time::Instant;

use super::attempt::{WebhookReceiver, Webhooks};
use super::permits::{HostPermits, Permit};
use crate::process::finished;

const SCAN_INTERVAL: Duration = Duration::from_millis(50);
/// Shortest pause between scans, when permits are freed.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Longest pause after a slow scan.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A pause is this many times the duration of the scan before it.
const PAUSE_PER_SCAN: u32 = 4;
/// A leader without confirmation by a majority for this long sends nothing.
const CONFIRMATION_MAX: Duration = Duration::from_secs(1);
/// Deliveries per tenant and scan: the most that can be pending, so that a receiver that does
/// not respond delays no other receiver of its tenant.
const SCAN_MAX: usize = 10_000;
/// Time limit of recording an outcome, per try.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
const RECORD_PAUSE: Duration = Duration::from_millis(200);

/// Sends deliveries; cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender {
    raft: Handle,
    reader: Reader,
    webhooks: Arc<Webhooks>,
    permits: Arc<HostPermits>,
    pub(crate) counters: Arc<Counters>,
}

/// Numbers of attempts of this node since its start.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) delivered: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// The clock of the state, advanced by the time since its last change.
struct StateClock {
    last: Timestamp,
    changed_at: Instant,
}

impl StateClock {
    fn now(&mut self, current: Timestamp) -> Timestamp {
        if current != self.last {
            *self = Self { last: current, changed_at: Instant::now() };
        }
        let elapsed = i64::try_from(self.changed_at.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.last.0.saturating_add(elapsed))
    }
}

impl Sender {
    pub(crate) fn new(raft: &Handle, reader: &Reader, webhooks: Arc<Webhooks>) -> Self {
        let (raft, reader) = (raft.clone(), reader.clone());
        Self { raft, reader, webhooks, permits: Arc::default(), counters: Arc::default() }
    }

    /// Sends due deliveries while this node leads, until the process ends.
    pub(crate) async fn webhook_task(self) {
        let mut clock = StateClock { last: Timestamp::default(), changed_at: Instant::now() };
        let mut pause = PAUSE_MIN;
        for round in 0.. {
            tokio::time::sleep(pause).await;
            tokio::select! {
                () = tokio::time::sleep(SCAN_INTERVAL) => {}
                () = self.permits.freed.notified() => {}
            }
            let staleness = self.raft.leader_staleness();
            if staleness.is_none_or(|staleness| staleness >= CONFIRMATION_MAX) {
                continue;
            }
            let now = clock.now(self.reader.position().clock);
            let this = self.clone();
            let scan = tokio::task::spawn_blocking(move || {
                let started = Instant::now();
                this.scan(round, now).map(|()| started.elapsed())
            });
            match finished(scan).await {
                // Scans take a fifth of the time at most, however many deliveries wait for a host.
                Some(Ok(took)) => pause = (PAUSE_PER_SCAN * took).clamp(PAUSE_MIN, PAUSE_MAX),
                Some(Err(error)) => self.raft.fault().report_storage(&error),
                None => return,
            }
        }
    }

    /// Starts all due deliveries that get a permit. Each round begins with another tenant.
    fn scan(&self, round: usize, now: Timestamp) -> storage::Result<()> {
        if self.reader.cluster()?.is_some_and(|cluster| cluster.holds_webhooks()) {
            return Ok(());
        }
        self.permits.mark_slow();
        let mut tenants = self.reader.with_deliveries();
        let first = round % tenants.len().max(1);
        tenants.rotate_left(first);
        tenants.into_iter().try_for_each(|tenant| self.scan_tenant(tenant, now))
    }

    fn scan_tenant(&self, tenant: TenantId, now: Timestamp) -> storage::Result<()> {
        if !self.permits.has_room(tenant) {
            return Ok(());
        }
        let mut targets = HashMap::new();
        for id in self.reader.due(tenant, now, SCAN_MAX)? {
            let target = match targets.get(&id.trigger) {
                Some(known) => known,
                None => {
                    let trigger = self.reader.trigger(tenant, id.trigger)?;
                    let target = trigger.and_then(|trigger| WebhookReceiver::of(trigger, now));
                    &*targets.entry(id.trigger).or_insert(target)
                }
            };
            // The trigger and its deliveries were deleted since `due` returned.
            let Some(target) = target else { continue };
            let Some(permit) = self.permits.take((tenant, target.owner), id, &target.host) else {
                if self.permits.has_room(tenant) {
                    continue;
                }
                return Ok(());
            };
            // Read with the permit held: the outcome of an earlier attempt is visible.
            let delivery = self.reader.delivery(tenant, id)?;
            let is_due = |delivery: &Delivery| matches!(delivery.stage, DeliveryStage::Pending(at) if at <= now);
            if let Some(delivery) = delivery.filter(is_due) {
                // A rule may have changed, or the memory moved, since the trigger fired.
                let is_open = self.reader.may_deliver(tenant, target.owner, &delivery)?;
                let target = target.clone().with_access(is_open);
                tokio::spawn(self.clone().attempt(delivery, target, permit));
            }
        }
        Ok(())
    }

    async fn attempt(self, delivery: Delivery, target: WebhookReceiver, permit: Permit) {
        let Permit { tenant, id, .. } = permit;
        let (outcome, is_timeout) = self.webhooks.attempt(id, &delivery, &target).await;
        permit.record(is_timeout);
        let counter = match outcome {
            AttemptOutcome::Delivered(_) => &self.counters.delivered,
            _ => &self.counters.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.record(tenant, Attempt { id, number: delivery.attempts + 1, outcome }).await;
        drop(permit);
    }

    /// Records the outcome of an attempt, for as long as this node leads. Repeats count once. If
    /// another node takes over, it makes the attempt again.
    async fn record(&self, tenant: TenantId, attempt: Attempt) {
        let command = Command::of_tenant(tenant, RecordAttempts(vec![attempt]));
        loop {
            let deadline = Instant::now() + RECORD_TIMEOUT;
            match self.raft.submit_here(command.clone(), deadline).await {
                Ok(_) => return,
                Err(error) => tracing::debug!(%error, "attempt not recorded, retrying"),
            }
            if !self.raft.is_leader() {
                return;
            }
            tokio::time::sleep(RECORD_PAUSE).await;
        }
    }
}
