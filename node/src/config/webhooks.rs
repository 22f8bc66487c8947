//! Section `webhooks`: their secrets, the networks that they may reach, and retries.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Longest pause before a retry.
const RETRY_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Delivery of webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Webhooks {
    /// File with the key that seals secrets, the same on all nodes.
    pub key: Option<PathBuf>,
    /// Allowed networks besides the public internet, as `10.1.0.0/16, ::1/128`.
    #[serde(deserialize_with = "list")]
    pub allow: Vec<IpNet>,
    /// PEM file with certificate authorities of receivers, besides those of the system.
    pub authority: Option<PathBuf>,
    /// Time limit of one request.
    pub timeout_ms: u64,
    /// Pauses after failed attempts, as `5, 300`. The number of pauses bounds the retries.
    #[serde(deserialize_with = "pauses")]
    pub retry_seconds: Vec<Duration>,
}

impl Default for Webhooks {
    fn default() -> Self {
        const HOUR: u64 = 3_600;
        let retries =
            [5, 300, 1_800, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];
        Self {
            key: None,
            allow: Vec::new(),
            authority: None,
            timeout_ms: 15_000,
            retry_seconds: retries.map(Duration::from_secs).into(),
        }
    }
}

/// A list as text, or a single number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text with commas between the items")]
enum List {
    Text(String),
    Integer(i64),
    Float(f64),
}

/// Parses a list with commas between its items.
fn list<'de, D: Deserializer<'de>, T: FromStr>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let text = match List::deserialize(deserializer)? {
        List::Text(text) => text,
        List::Integer(number) => number.to_string(),
        List::Float(number) => number.to_string(),
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            item.parse().map_err(|_| D::Error::custom(format!("{item:?} cannot be parsed")))
        })
        .collect()
}

fn pauses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    let seconds: Vec<f64> = list(deserializer)?;
    let pause = |seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|pause| *pause <= RETRY_MAX)
            .ok_or_else(|| D::Error::custom(format!("{seconds} is not between 0 and 30 days")))
    };
    seconds.into_iter().map(pause).collect()
}
