//! One delivery attempt: its target, its request, and its outcome. `sender` schedules attempts
//! and records their outcomes.

use std::error::Error;
use std::time::{Duration, SystemTime};

use api::random_bytes;
use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use storage::model::delivery::{AttemptOutcome, Delivery, DeliveryId};
use storage::model::id::Timestamp;
use storage::model::trigger::{SealedSecret, Trigger, TriggerAction};

use super::address::NotAllowed;
use super::clients::Webhooks;
use super::message::Message;

/// Longest `Retry-After` of a receiver that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// Range of the random factor of each pause. It spreads retries of many deliveries.
const JITTER: std::ops::Range<f64> = 0.8..1.2;

/// The receiver of a trigger's requests.
#[derive(Clone)]
pub(super) enum Target {
    /// None: the trigger is disabled.
    Disabled,
    /// A URL.
    Url {
        url: String,
        /// For the limit of requests per host.
        host: String,
        /// The newest first.
        secrets: Vec<SealedSecret>,
        /// When the trigger was last changed.
        changed_at: Timestamp,
    },
}

impl Target {
    /// The target of `trigger` at `now`. `None` if it sends no webhooks.
    pub(super) fn of(trigger: Trigger, now: Timestamp) -> Option<Self> {
        let Trigger { action, enabled, updated_at, .. } = trigger;
        let TriggerAction::Webhook { url, secret, retiring } = action else { return None };
        if !enabled {
            return Some(Self::Disabled);
        }
        let host = reqwest::Url::parse(&url).ok();
        let host = host.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
        let retiring = retiring.filter(|(_, until)| *until > now).map(|(secret, _)| secret);
        let secrets = secret.into_iter().chain(retiring).collect();
        Some(Self::Url { url, host, secrets, changed_at: updated_at })
    }

    /// The host of the URL; empty if the trigger is disabled.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Url { host, .. } => host,
            Self::Disabled => "",
        }
    }
}

impl Webhooks {
    /// Makes an attempt and returns its outcome.
    pub(super) async fn attempt(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        target: &Target,
    ) -> AttemptOutcome {
        let Target::Url { url, secrets, changed_at, .. } = target else {
            return AttemptOutcome::Disabled;
        };
        let failures = delivery.attempts.saturating_sub(delivery.attempts_before) as usize;
        let pause = self.retries.get(failures).copied();
        match self.send(id, delivery, url, secrets).await {
            Ok((status, _)) if status.is_success() => AttemptOutcome::Delivered(status.as_u16()),
            Ok((StatusCode::GONE, _)) => AttemptOutcome::Gone(*changed_at),
            Ok((status, retry_after)) => failed(status.to_string(), pause, retry_after),
            Err(reason) => failed(reason, pause, None),
        }
    }

    /// Sends a request. Returns the status and the `Retry-After` of the response, or the reason
    /// of the failure.
    async fn send(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        url: &str,
        secrets: &[SealedSecret],
    ) -> Result<(StatusCode, Option<Duration>), String> {
        // Also here: the resolver is not called for IP addresses in URLs.
        let url = self.policy.check(url)?;
        let open = |sealed| self.sealer.as_ref().and_then(|sealer| sealer.open(sealed));
        let secrets: Option<Vec<String>> = secrets.iter().map(open).collect();
        let secrets = secrets.ok_or("the secret was sealed with another key than webhooks.key")?;
        let now = SystemTime::now();
        let message = Message::new(id, delivery, &secrets, now);
        let client = if url.scheme() == "https" { &self.client } else { &self.plain_client };
        let request = client.post(url).headers(message.headers).body(message.body);
        // The body of the response is not needed, and not read.
        let response = request.send().await.map_err(|error| reason(&error))?;
        Ok((response.status(), retry_after(response.headers(), now)))
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
        _ if error.is_timeout() => "no response in time".into(),
        Some(cause) if error.is_connect() => format!("no connection: {cause}"),
        Some(cause) => cause,
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
