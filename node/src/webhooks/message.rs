//! The body and the signatures of a webhook's request.
//!
//! Each request has two signatures. One follows Standard Webhooks
//! (<https://www.standardwebhooks.com>, headers `webhook-*`). The other has the form that
//! published receivers verify (headers `X-Sulcus-*`).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac::{HMAC_SHA256, Key, sign};
use serde_json::json;
use storage::model::id::Timestamp;
use storage::model::score::rounded;
use storage::model::trigger::{Delivery, DeliveryId};

/// Prefix of a secret of Standard Webhooks. The key follows in base64.
const STANDARD_PREFIX: &str = "whsec_";

pub(crate) struct Message {
    pub(crate) body: String,
    pub(crate) headers: HeaderMap,
}

impl Message {
    /// The request of an attempt at `now`. All `secrets` sign it; the newest is first.
    pub(crate) fn new(
        id: DeliveryId,
        delivery: &Delivery,
        secrets: &[String],
        now: SystemTime,
    ) -> Self {
        let (id_text, body) = (id.to_string(), body(id, delivery));
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id_text.clone()),
            ("webhook-timestamp", seconds.to_string()),
            ("x-sulcus-event", delivery.event.name().to_owned()),
        ];
        let standard = secrets.iter().map(|secret| {
            let content = format!("{id_text}.{seconds}.{body}");
            format!("v1,{}", STANDARD.encode(hmac(&key_of(secret), content.as_bytes())))
        });
        let standard = standard.collect::<Vec<_>>().join(" ");
        if let Some(secret) = secrets.first() {
            let hex = hex::encode(hmac(secret.as_bytes(), body.as_bytes()));
            headers.push(("webhook-signature", standard));
            headers.push(("x-sulcus-signature", format!("sha256={hex}")));
        }
        let header = |(name, value): (&'static str, String)| {
            let value = HeaderValue::from_str(&value).ok()?;
            Some((HeaderName::from_static(name), value))
        };
        Self { body, headers: headers.into_iter().filter_map(header).collect() }
    }
}

/// Permitted lengths of the key in a standard secret, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// Checks whether `secret` can sign. Text with the standard prefix must be a standard secret.
pub(crate) fn check_secret(secret: &str) -> Result<(), String> {
    let Some(text) = secret.strip_prefix(STANDARD_PREFIX) else { return Ok(()) };
    match STANDARD.decode(text) {
        Ok(key) if KEY_BYTES.contains(&key.len()) => Ok(()),
        _ => Err("must have the base64 of 24 to 64 bytes after whsec_".into()),
    }
}

/// The key of a secret: the decoded base64 after `whsec_`, or the bytes of any other text.
fn key_of(secret: &str) -> Vec<u8> {
    let standard = secret.strip_prefix(STANDARD_PREFIX);
    let key = standard.and_then(|text| STANDARD.decode(text).ok());
    key.unwrap_or_else(|| secret.as_bytes().to_vec())
}

fn hmac(key: &[u8], content: &[u8]) -> Vec<u8> {
    sign(&Key::new(HMAC_SHA256, key), content).as_ref().to_vec()
}

fn body(id: DeliveryId, delivery: &Delivery) -> String {
    let tags = delivery.label.split_whitespace().filter_map(|word| word.strip_prefix('#'));
    let tags: Vec<&str> = tags.filter(|tag| !tag.is_empty() && !tag.starts_with('#')).collect();
    json!({
        "event": delivery.event.name(),
        "trigger_id": id.trigger.to_string(),
        "trigger_name": delivery.trigger_name,
        "fired_at": timestamp(delivery.fired_at),
        "node": {
            "id": delivery.memory.to_string(),
            "label": delivery.label,
            "memory_type": delivery.memory_type.name(),
            "namespace": delivery.namespace,
            "heat": rounded(delivery.heat),
            "tags": tags,
        },
    })
    .to_string()
}

fn timestamp(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use storage::model::id::{MemoryId, TriggerId};
    use storage::model::memory::MemoryType;
    use storage::model::trigger::DeliveryStage;
    use storage::model::trigger::TriggerEvent;

    fn message(secrets: &[&str]) -> Message {
        let delivery = Delivery {
            event: TriggerEvent::Store,
            trigger_name: "t".into(),
            fired_at: Timestamp(1_500_000),
            memory: MemoryId([1; 16]),
            namespace: "n".into(),
            label: "one #two #".into(),
            memory_type: MemoryType::Fact,
            heat: 0.25,
            attempts: 0,
            attempts_before: 0,
            reason: String::new(),
            stage: DeliveryStage::Pending(Timestamp(0)),
        };
        let id = DeliveryId { trigger: TriggerId([2; 16]), number: 3 };
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_614_265_330);
        Message::new(id, &delivery, &secrets, now)
    }

    #[test]
    fn body_has_the_published_form() {
        let body: serde_json::Value = serde_json::from_str(&message(&[]).body).unwrap();
        let node = json!({
            "id": "01010101-0101-0101-0101-010101010101", "label": "one #two #",
            "memory_type": "fact", "namespace": "n", "heat": 0.25, "tags": ["two"],
        });
        let expected = json!({
            "event": "on_store", "trigger_id": "02020202-0202-0202-0202-020202020202",
            "trigger_name": "t", "fired_at": "1970-01-01T00:00:01.5Z", "node": node,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn no_secret_means_no_signature() {
        let headers = message(&[]).headers;
        let id = format!("msg_{}_3", "02".repeat(16));
        assert_eq!(headers["webhook-id"], id.as_str());
        assert_eq!(headers["webhook-timestamp"], "1614265330");
        assert!(!headers.contains_key("webhook-signature"));
        assert!(!headers.contains_key("x-sulcus-signature"));
    }

    #[test]
    fn every_secret_signs_the_request() {
        let headers = message(&["whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "plain secret"]).headers;
        let signatures = headers["webhook-signature"].to_str().unwrap();
        assert_eq!(signatures.split(' ').count(), 2);
        assert!(signatures.split(' ').all(|signature| signature.starts_with("v1,")));
        // Computed from the body and the secret's text by another implementation.
        let expected = "sha256=d0865171e34fcbde0e436f49da68360a0174036b144cd875160da2774d76650c";
        assert_eq!(headers["x-sulcus-signature"], expected);
    }

    #[test]
    fn malformed_standard_secrets_are_rejected() {
        assert!(check_secret("plain secret").is_ok());
        assert!(check_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").is_ok());
        for wrong in
            ["whsec_", "whsec_c2VjcmV0", "whsec_no base64", &format!("whsec_{}", "A".repeat(88))]
        {
            assert!(check_secret(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn signature_matches_the_specification() {
        // The example of the specification's reference libraries.
        let (secret, id) =
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek");
        let content = format!("{id}.1614265330.{}", r#"{"test": 2432232314}"#);
        let signature = STANDARD.encode(hmac(&key_of(secret), content.as_bytes()));
        assert_eq!(signature, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
