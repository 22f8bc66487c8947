//! The clients, address rules and keys of webhooks, and one delivery attempt: its target, its
//! request, and its outcome. `sender` schedules attempts and records their outcomes.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, SystemTime};

use api::{Hooks, random_bytes};
use jiff::fmt::rfc2822;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy as Redirects;
use reqwest::{Certificate, Client, StatusCode};
use storage::model::id::{KeyId, Timestamp, TriggerId};
use storage::model::trigger::{AttemptOutcome, Delivery, DeliveryId};
use storage::model::trigger::{SealedSecret, Trigger, TriggerAction};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::address::{NotAllowed, Policy, Resolver};
use super::message::{self, Message};
use super::sealing::SecretSealer;
use crate::config;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which an idle connection is kept for the next request to the same receiver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
/// Unused connections per receiver. Each occupies a file descriptor.
const IDLE_PER_HOST_MAX: usize = 8;
/// Longest `Retry-After` of a receiver that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// Reason of a dead letter whose memory is closed to the owner of the trigger.
const CLOSED: &str = "the key of the trigger is deleted, or may not access the memory";
/// Range of the random factor of each pause. It spreads retries of many deliveries.
const JITTER: std::ops::Range<f64> = 0.8..1.2;

/// What this node needs to check and send webhooks.
pub(crate) struct Webhooks {
    policy: Policy,
    /// `None` if no cluster key is configured.
    sealer: Option<SecretSealer>,
    /// Reaches public and allowed addresses.
    client: Client,
    /// For plain HTTP: reaches only the networks that the operator allows.
    plain_client: Client,
    /// Pause after each failed attempt.
    retries: Vec<Duration>,
    /// Runs all requests on one thread. A receiver may keep its connection busy without end, for
    /// instance by 1xx responses, which takes processor time from that thread only.
    requests: Handle,
}

impl Webhooks {
    /// Fingerprint of the cluster key; `None` without one.
    pub(crate) fn key_fingerprint(&self) -> Option<String> {
        self.sealer.as_ref().map(SecretSealer::fingerprint)
    }

    pub(crate) fn new(config: &config::Webhooks) -> Result<Self, String> {
        let policy = Policy { allowed: config.allow.clone() };
        let sealer = config.key.as_deref().map(SecretSealer::read).transpose()?;
        let client = |only_allowed| -> Result<Client, String> {
            let mut client = Client::builder()
                // Neither a receiver nor a proxy variable may change where a request goes.
                .redirect(Redirects::none())
                .no_proxy()
                .dns_resolver(Resolver { policy: policy.clone(), only_allowed })
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(Duration::from_millis(config.timeout_ms))
                .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
                .pool_idle_timeout(IDLE_TIMEOUT)
                .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")));
            if let Some(path) = &config.authority {
                client = client.tls_certs_merge(authority(path)?);
            }
            client.build().map_err(|error| format!("webhooks: {error}"))
        };
        let (client, plain_client) = (client(false)?, client(true)?);
        let retries = config.retry_seconds.clone();
        let requests = own_thread().map_err(|error| format!("webhooks: {error}"))?;
        Ok(Self { policy, sealer, client, plain_client, retries, requests })
    }

    /// Makes an attempt. Returns its outcome, and whether the receiver did not respond in time.
    pub(super) async fn attempt(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        target: &WebhookReceiver,
    ) -> (AttemptOutcome, bool) {
        if !target.is_enabled {
            return (AttemptOutcome::Disabled, false);
        }
        if !target.is_open {
            return (failed(CLOSED.into(), None, None), false);
        }
        let failures = delivery.attempts.saturating_sub(delivery.attempts_before) as usize;
        let pause = self.retries.get(failures).copied();
        let sent = self.send(id, delivery, target).await;
        let is_timeout = matches!(sent, Err(Failure { is_timeout: true, .. }));
        let outcome = match sent {
            Ok((status, _)) if status.is_success() => AttemptOutcome::Delivered(status.as_u16()),
            Ok((StatusCode::GONE, _)) => AttemptOutcome::Gone(target.changed_at),
            Ok((status, retry_after)) => failed(status.to_string(), pause, retry_after),
            Err(failure) => failed(failure.reason, pause, None),
        };
        (outcome, is_timeout)
    }

    /// Sends a request. Returns the status and the `Retry-After` of the response.
    async fn send(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        target: &WebhookReceiver,
    ) -> Result<(StatusCode, Option<Duration>), Failure> {
        // Also here: the resolver is not called for IP addresses in URLs.
        let url = self.policy.check(&target.url)?;
        let open = |sealed| self.sealer.as_ref().and_then(|sealer| sealer.open(sealed));
        let secrets: Option<Vec<String>> = target.secrets.iter().map(open).collect();
        let secrets = secrets.ok_or_else(|| {
            Failure::from("the secret was sealed with another key than webhooks.key".to_owned())
        })?;
        let now = SystemTime::now();
        let message = Message::new(id, delivery, &secrets, now);
        let client = if url.scheme() == "https" { &self.client } else { &self.plain_client };
        let request = client.post(url).headers(message.headers).body(message.body);
        // The body of the response is not needed, and not read.
        let send = async move {
            let response = request.send().await.map_err(|error| Failure::from(&error))?;
            Ok((response.status(), retry_after(response.headers(), now)))
        };
        // Ends the request if this future is dropped.
        let mut sending = JoinSet::new();
        sending.spawn_on(send, &self.requests);
        let sent = sending.join_next().await.and_then(Result::ok);
        sent.unwrap_or_else(|| Err(Failure::from("the request failed".to_owned())))
    }
}

/// A request without a response.
struct Failure {
    /// For users, without the URL.
    reason: String,
    is_timeout: bool,
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self { reason, is_timeout: false }
    }
}

impl From<&reqwest::Error> for Failure {
    fn from(error: &reqwest::Error) -> Self {
        Self { reason: reason(error), is_timeout: error.is_timeout() }
    }
}

/// A runtime with a thread of its own, as long as the process runs.
fn own_thread() -> std::io::Result<Handle> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("webhooks".into()).spawn(run)?;
    Ok(handle)
}

fn authority(path: &Path) -> Result<Vec<Certificate>, String> {
    let error =
        |error: &dyn std::fmt::Display| format!("webhooks.authority {}: {error}", path.display());
    let pem = std::fs::read(path).map_err(|cause| error(&cause))?;
    Certificate::from_pem_bundle(&pem).map_err(|cause| error(&cause))
}

impl Hooks for Webhooks {
    fn check(&self, url: &str) -> Result<(), String> {
        self.policy.check(url).map(drop)
    }

    fn check_secret(&self, secret: &str) -> Result<(), String> {
        message::check_secret(secret)
    }

    fn seal(&self, of: TriggerId, secret: &str) -> Option<SealedSecret> {
        self.sealer.as_ref().map(|sealer| sealer.seal(of, secret))
    }

    fn blind(&self, digest: [u8; 32]) -> [u8; 32] {
        self.sealer.as_ref().map_or(digest, |sealer| sealer.blind(digest))
    }
}

/// The receiver of a trigger's requests.
#[derive(Clone)]
pub(super) struct WebhookReceiver {
    is_enabled: bool,
    /// Whether the owner of the trigger may know the memory of the delivery.
    is_open: bool,
    url: String,
    /// For the limit of requests per host; empty if the trigger is disabled.
    pub(super) host: String,
    /// The API key that owns the trigger.
    pub(super) owner: Option<KeyId>,
    /// The newest first.
    secrets: Vec<SealedSecret>,
    /// When the trigger was last changed.
    changed_at: Timestamp,
}

impl WebhookReceiver {
    /// The target of a delivery whose memory the owner of the trigger may know, or not.
    pub(super) fn with_access(self, is_open: bool) -> Self {
        Self { is_open, ..self }
    }

    /// The target of `trigger` at `now`. `None` if it sends no webhooks.
    pub(super) fn of(trigger: Trigger, now: Timestamp) -> Option<Self> {
        let Trigger { action, enabled: is_enabled, updated_at: changed_at, owner, .. } = trigger;
        let TriggerAction::Webhook { url, secret, retiring } = action else { return None };
        let parsed = reqwest::Url::parse(&url).ok().filter(|_| is_enabled);
        let host = parsed.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let retiring = retiring.filter(|(_, until)| *until > now).map(|(secret, _)| secret);
        let secrets = secret.into_iter().chain(retiring).collect();
        Some(Self { is_enabled, is_open: true, url, host, owner, secrets, changed_at })
    }
}

/// The pause that a receiver requests, in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = SystemTime::from(rfc2822::parse(text).ok()?.timestamp());
    at.duration_since(now).ok()
}

fn failed(
    reason: String,
    pause: Option<Duration>,
    retry_after: Option<Duration>,
) -> AttemptOutcome {
    let random = f64::from(u32::from_be_bytes(random_bytes())) / f64::from(u32::MAX);
    let jitter = JITTER.start + (JITTER.end - JITTER.start) * random;
    let retry_after = retry_after.unwrap_or_default().min(RETRY_AFTER_MAX);
    let pause = pause.map(|pause| pause.mul_f64(jitter).max(retry_after));
    let micros = |pause: Duration| i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
    AttemptOutcome::Failed { reason, retry_in_micros: pause.map(micros) }
}

/// The reason of a failed request, without its URL.
fn reason(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(error.source(), |&error| error.source());
    let causes: Vec<&(dyn Error + 'static)> = causes.collect();
    if causes.iter().any(|cause| cause.is::<NotAllowed>()) {
        return NotAllowed.to_string();
    }
    match causes.last() {
        _ if error.is_timeout() => "no response in time".into(),
        Some(cause) if error.is_connect() => format!("no connection: {cause}"),
        Some(cause) => cause.to_string(),
        None => "the request failed".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let parsed = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
            retry_after(&headers, now)
        };
        assert_eq!(parsed("120"), Some(Duration::from_secs(120)));
        assert_eq!(parsed("Sun, 06 Nov 1994 08:51:37 GMT"), Some(Duration::from_secs(120)));
        assert_eq!(parsed("Sun, 06 Nov 1994 08:00:00 GMT"), None);
        assert_eq!(parsed("soon"), None);
    }

    #[test]
    fn pauses_have_jitter_and_honour_retry_after() {
        let pause = |after| match failed(String::new(), Some(Duration::from_secs(100)), after) {
            AttemptOutcome::Failed { retry_in_micros: Some(micros), .. } => micros / 1_000_000,
            other => panic!("{other:?}"),
        };
        assert!((80..=120).contains(&pause(None)));
        assert_eq!(pause(Some(Duration::from_secs(7_200))), 7_200);
        assert_eq!(pause(Some(Duration::MAX)), 86_400);
        let last = failed(String::new(), None, Some(Duration::from_secs(5)));
        assert!(matches!(last, AttemptOutcome::Failed { retry_in_micros: None, .. }));
    }
}
