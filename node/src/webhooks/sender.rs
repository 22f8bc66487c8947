//! The leader's duty of sending what the outbox owes. Only a node that a majority confirmed as
//! leader of late sends; what became of an attempt goes through the log. So a receiver may see
//! a delivery twice, under the same `webhook-id`, when a leader dies between the two, and never
//! misses one.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use raft::Handle;
use reqwest::StatusCode;
use reqwest::header::RETRY_AFTER;
use storage::model::delivery::{Attempt, AttemptOutcome, Delivery, DeliveryId, DeliveryStage};
use storage::model::id::{TenantId, Timestamp, TriggerId};
use storage::model::trigger::TriggerAction;
use storage::{Action, Command, Reader, View};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use uuid::Uuid;

use super::Webhooks;
use super::address::NotAllowed;
use super::message::Message;

/// How often the leader looks what is due.
const INTERVAL: Duration = Duration::from_millis(50);
/// A leader that no majority confirmed for so long sends nothing.
const CONFIRMED: Duration = Duration::from_secs(1);
/// Requests under way at once: of a node, of a tenant, to a host.
const NODE_MAX: usize = 64;
const TENANT_MAX: usize = 32;
const HOST_MAX: usize = 8;
/// Deliveries that one look goes through: more than one tenant may owe, so that a receiver
/// that hangs holds nobody else up.
const LOOK_MAX: usize = 20_000;
/// How long recording an attempt may take, and the pause after one that was not recorded.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
const RECORD_PAUSE: Duration = Duration::from_millis(500);
/// Longest that a receiver's `Retry-After` is heeded.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// What a pause is multiplied by, at random.
const JITTER: std::ops::Range<f64> = 0.8..1.2;

/// Sends; cheap to clone.
#[derive(Clone)]
pub(crate) struct Sender {
    raft: Handle,
    reader: Reader,
    webhooks: Arc<Webhooks>,
    under_way: Arc<Mutex<UnderWay>>,
    room: Arc<Semaphore>,
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

/// Requests that were begun and not recorded yet.
#[derive(Default)]
struct UnderWay {
    deliveries: HashSet<(TenantId, DeliveryId)>,
    tenants: HashMap<TenantId, usize>,
    hosts: HashMap<String, usize>,
}

impl UnderWay {
    /// Takes a place, if there is one.
    fn begin(&mut self, tenant: TenantId, id: DeliveryId, host: &str) -> bool {
        let of_tenant = self.tenants.get(&tenant).copied().unwrap_or(0);
        let of_host = self.hosts.get(host).copied().unwrap_or(0);
        if of_tenant >= TENANT_MAX || of_host >= HOST_MAX || !self.deliveries.insert((tenant, id)) {
            return false;
        }
        self.tenants.insert(tenant, of_tenant + 1);
        self.hosts.insert(host.to_owned(), of_host + 1);
        true
    }

    fn end(&mut self, tenant: TenantId, id: DeliveryId, host: &str) {
        self.deliveries.remove(&(tenant, id));
        leave(&mut self.tenants, &tenant);
        leave(&mut self.hosts, host);
    }
}

fn leave<K, Q>(counts: &mut HashMap<K, usize>, of: &Q)
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

/// What a trigger's requests need.
#[derive(Clone)]
struct Target {
    url: String,
    host: String,
    secrets: Vec<storage::model::trigger::Sealed>,
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
        Self {
            raft: raft.clone(),
            reader: reader.clone(),
            webhooks,
            under_way: Arc::default(),
            room: Arc::new(Semaphore::new(NODE_MAX)),
            counters: Arc::default(),
        }
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Sends what is due while this node leads, for as long as the node runs.
    pub(crate) async fn run(self) {
        let mut clock = Clock { seen: Timestamp::default(), at: Instant::now() };
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !self.leads() {
                continue;
            }
            let now = clock.now(self.reader.position().clock);
            let this = self.clone();
            let looked = tokio::task::spawn_blocking(move || this.look(now)).await;
            match looked {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.raft.fault().storage(&error),
                Err(panic) => tracing::error!(%panic, "looking for what is owed panicked"),
            }
        }
    }

    fn leads(&self) -> bool {
        self.raft.status().role == "leader"
            && self.raft.staleness().is_some_and(|staleness| staleness < CONFIRMED)
    }

    /// Begins what is due and has a place.
    fn look(&self, now: Timestamp) -> storage::Result<()> {
        let mut targets = HashMap::new();
        for (tenant, id) in self.reader.due(now, LOOK_MAX)? {
            if self.room.available_permits() == 0 {
                return Ok(());
            }
            let target = match targets.get(&(tenant, id.trigger)) {
                Some(known) => known,
                None => {
                    let found = self.target(tenant, id.trigger, now)?;
                    targets.entry((tenant, id.trigger)).or_insert(found)
                }
            };
            let host = target.as_ref().map_or("", |target| &target.host);
            let mut under_way = self.under_way();
            if !under_way.begin(tenant, id, host) {
                continue;
            }
            drop(under_way);
            // Read after its place was taken: what was recorded before that shows.
            let delivery = self.reader.delivery(tenant, id)?;
            let is_due = |delivery: &Delivery| matches!(delivery.stage, DeliveryStage::Owed(due_at) if due_at <= now);
            match delivery.filter(is_due) {
                Some(delivery) => self.begin(tenant, id, delivery, target.clone()),
                None => self.under_way().end(tenant, id, host),
            }
        }
        Ok(())
    }

    /// Where a trigger's requests go; nowhere, if it is gone.
    fn target(
        &self,
        tenant: TenantId,
        id: TriggerId,
        now: Timestamp,
    ) -> storage::Result<Option<Target>> {
        let action = self.reader.trigger(tenant, id)?.map(|trigger| trigger.action);
        let Some(TriggerAction::Webhook { url, secret, retiring }) = action else {
            return Ok(None);
        };
        let host = reqwest::Url::parse(&url).ok();
        let host = host
            .and_then(|url| Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?)));
        let retiring = retiring.filter(|(_, until)| *until > now).map(|(secret, _)| secret);
        let secrets = secret.into_iter().chain(retiring).collect();
        Ok(Some(Target { host: host.unwrap_or_default(), url, secrets }))
    }

    fn under_way(&self) -> std::sync::MutexGuard<'_, UnderWay> {
        self.under_way.lock().expect("no code panics while it holds what is under way")
    }

    fn begin(&self, tenant: TenantId, id: DeliveryId, delivery: Delivery, target: Option<Target>) {
        let host = target.as_ref().map_or_else(String::new, |target| target.host.clone());
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            self.under_way().end(tenant, id, &host);
            return;
        };
        let this = self.clone();
        tokio::spawn(async move {
            let outcome = this.attempt(id, &delivery, target.as_ref()).await;
            let counters = &this.counters;
            let counter = match outcome {
                AttemptOutcome::Delivered(_) => &counters.delivered,
                _ => &counters.failed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            drop(permit);
            let attempt = Attempt { id, number: delivery.attempts + 1, outcome };
            this.record(tenant, attempt).await;
            this.under_way().end(tenant, id, &host);
        });
    }

    /// Has the cluster know what became of an attempt. Where that fails another leads, or will:
    /// whoever does sends it again.
    async fn record(&self, tenant: TenantId, attempt: Attempt) {
        let action = Action::Attempted(vec![attempt]);
        let command = Command { tenant: Some(tenant), ..Command::duty(action) };
        let deadline = Instant::now() + RECORD_TIMEOUT;
        if let Err(error) = self.raft.submit_here(command, deadline).await {
            tracing::debug!(%error, "an attempt was not recorded");
            tokio::time::sleep(RECORD_PAUSE).await;
        }
    }

    async fn attempt(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        target: Option<&Target>,
    ) -> AttemptOutcome {
        let Some(target) = target else { return AttemptOutcome::Cancelled };
        let failures = delivery.attempts.saturating_sub(delivery.attempts_before) as usize;
        let pause = self.webhooks.retries.get(failures).copied();
        match self.send(id, delivery, target).await {
            Ok((status, _)) if status.is_success() => AttemptOutcome::Delivered(status.as_u16()),
            Ok((StatusCode::GONE, _)) => AttemptOutcome::Gone,
            Ok((status, retry_after)) => failed(status.to_string(), pause, retry_after),
            Err(reason) => failed(reason, pause, None),
        }
    }

    /// Sends a request, and says what was answered and for how long to wait; or why it was not.
    async fn send(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        target: &Target,
    ) -> Result<(StatusCode, Option<Duration>), String> {
        let webhooks = &self.webhooks;
        // The resolver is not asked about literal addresses.
        let url = webhooks.policy.check(&target.url)?;
        let open = |sealed| webhooks.vault.as_ref().and_then(|vault| vault.open(sealed));
        let secrets: Option<Vec<String>> = target.secrets.iter().map(open).collect();
        let secrets = secrets.ok_or("its secret was sealed with another key than webhooks.key")?;
        let message = Message::new(id, delivery, &secrets, SystemTime::now());
        let request = webhooks.client.post(url).headers(message.headers).body(message.body);
        // The answer's body is of no interest, and is not read.
        let answer = request.send().await.map_err(|error| plain(&error))?;
        let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| text.trim().parse().ok());
        Ok((answer.status(), retry_after.map(Duration::from_secs)))
    }
}

fn failed(
    reason: String,
    pause: Option<Duration>,
    retry_after: Option<Duration>,
) -> AttemptOutcome {
    let random = Uuid::new_v4().as_u64_pair().1 as u32;
    let jitter =
        JITTER.start + (JITTER.end - JITTER.start) * f64::from(random) / f64::from(u32::MAX);
    let retry_after = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    let pause = pause.map(|pause| pause.mul_f64(jitter).max(retry_after));
    let micros = |pause: Duration| i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
    AttemptOutcome::Failed { reason, retry_in_micros: pause.map(micros) }
}

/// Why a request was not answered, without the address that it was for.
fn plain(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    let mut last = None;
    while let Some(error) = cause {
        if error.is::<NotAllowed>() {
            return NotAllowed.to_string();
        }
        last = Some(error.to_string());
        cause = error.source();
    }
    match last {
        _ if error.is_timeout() => "no answer in time".into(),
        Some(cause) if error.is_connect() => format!("no connection: {cause}"),
        Some(cause) => cause,
        None => "the request failed".into(),
    }
}
