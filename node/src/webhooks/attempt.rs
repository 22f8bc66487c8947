//! One attempt to deliver: where it goes, what is sent, and what became of it. When it is made,
//! and who records it, is not known here.

use std::error::Error;
use std::time::{Duration, SystemTime};

use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use storage::model::delivery::{AttemptOutcome, Delivery, DeliveryId};
use storage::model::id::Timestamp;
use storage::model::trigger::{SealedSecret, Trigger, TriggerAction};
use uuid::Uuid;

use super::Webhooks;
use super::address::NotAllowed;
use super::message::Message;

/// Longest that a receiver's `Retry-After` is heeded.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);
/// What a pause is multiplied by, at random.
const JITTER: std::ops::Range<f64> = 0.8..1.2;

/// What becomes of a trigger's requests.
#[derive(Clone)]
pub(super) enum Target {
    /// The trigger rests.
    Disabled,
    /// They are sent.
    To {
        url: String,
        /// Whom not to crowd.
        host: String,
        secrets: Vec<SealedSecret>,
        /// When the trigger was last changed.
        changed_at: Timestamp,
    },
}

impl Target {
    /// Where the requests of `trigger` go at `now`, if it sends any.
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
        Some(Self::To { url, host, secrets, changed_at: updated_at })
    }

    /// The host that its requests go to; nothing, if none are sent.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::To { host, .. } => host,
            Self::Disabled => "",
        }
    }
}

impl Webhooks {
    /// Makes an attempt, and says what became of it.
    pub(super) async fn attempt(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        target: &Target,
    ) -> AttemptOutcome {
        let (url, secrets, changed_at) = match target {
            Target::Disabled => return AttemptOutcome::Disabled,
            Target::To { url, secrets, changed_at, .. } => (url, secrets, *changed_at),
        };
        let failures = delivery.attempts.saturating_sub(delivery.attempts_before) as usize;
        let pause = self.retries.get(failures).copied();
        match self.send(id, delivery, (url, secrets)).await {
            Ok((status, _)) if status.is_success() => AttemptOutcome::Delivered(status.as_u16()),
            Ok((StatusCode::GONE, _)) => AttemptOutcome::Gone(changed_at),
            Ok((status, retry_after)) => failed(status.to_string(), pause, retry_after),
            Err(reason) => failed(reason, pause, None),
        }
    }

    /// Sends a request, and says what was answered and for how long to wait; or why it was not.
    async fn send(
        &self,
        id: DeliveryId,
        delivery: &Delivery,
        (url, secrets): (&str, &[SealedSecret]),
    ) -> Result<(StatusCode, Option<Duration>), String> {
        // The resolver is not asked about literal addresses.
        let url = self.policy.check(url)?;
        let open = |sealed| self.sealer.as_ref().and_then(|sealer| sealer.open(sealed));
        let secrets: Option<Vec<String>> = secrets.iter().map(open).collect();
        let secrets = secrets.ok_or("its secret was sealed with another key than webhooks.key")?;
        let now = SystemTime::now();
        let message = Message::new(id, delivery, &secrets, now);
        let client = if url.scheme() == "https" { &self.client } else { &self.plain_client };
        let request = client.post(url).headers(message.headers).body(message.body);
        // The answer's body is of no interest, and is not read.
        let answer = request.send().await.map_err(|error| plain(&error))?;
        Ok((answer.status(), retry_after(answer.headers(), now)))
    }
}

/// What a receiver asks for, in seconds or as a date.
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
    let random = f64::from(Uuid::new_v4().as_u64_pair().1 as u32) / f64::from(u32::MAX);
    let jitter = JITTER.start + (JITTER.end - JITTER.start) * random;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_asks_for_time_in_seconds_or_by_a_date() {
        let asked = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
            retry_after(&headers, now)
        };
        assert_eq!(asked("120"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:51:37 GMT"), Some(Duration::from_secs(120)));
        assert_eq!(asked("Sun, 06 Nov 1994 08:00:00 GMT"), None);
        assert_eq!(asked("soon"), None);
    }

    #[test]
    fn a_pause_is_the_schedules_give_or_take_a_fifth_or_what_was_asked_for() {
        let pause = |asked| match failed(String::new(), Some(Duration::from_secs(100)), asked) {
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
