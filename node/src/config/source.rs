//! The sources of a configuration, as providers of the `figment` crate: the file, and one per
//! environment variable. An error names the source of the key that is wrong. Also parses values
//! with several items in one text.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use figment::util::nest;
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};
use raft::is_address;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// Prefix of all environment variables.
pub(super) const PREFIX: &str = "HEARTH__";
/// With it, `HEARTH_CACHE` and other variables are no settings.
pub(super) const MISTYPED_PREFIX: &str = "HEARTH_";
/// Separates the section from the key in the name of a variable.
pub(super) const SEPARATOR: &str = "__";
const RETRY_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Keys with their values, and the source of both.
pub(super) struct Source {
    metadata: Metadata,
    keys: Dict,
}

impl Source {
    /// All keys of the TOML file at `path` with content `text`.
    pub(super) fn file(path: &Path, text: &str) -> Result<Self, toml::de::Error> {
        let metadata =
            Metadata::named(path.display().to_string()).interpolater(|_, keys| keys.join("."));
        Ok(Self { metadata, keys: toml::from_str(text)? })
    }

    /// The key of an environment variable. `None` if its name lacks the prefix. A name that almost
    /// has it is an error: a mistyped variable must not silently have no effect.
    ///
    /// The value is a number, a boolean or a quoted string if it reads as one. Any other value
    /// is a string, unchanged.
    pub(super) fn variable(name: &str, value: &str) -> Result<Option<Self>, String> {
        let Some(path) = name.strip_prefix(PREFIX) else {
            return match name.strip_prefix(MISTYPED_PREFIX) {
                Some(rest) if rest.contains(SEPARATOR) => {
                    Err(format!("{name} is no setting: write {PREFIX}{rest}"))
                }
                _ => Ok(None),
            };
        };
        let metadata = Metadata::named("the environment")
            .interpolater(|_, keys| format!("{PREFIX}{}", keys.join(SEPARATOR).to_uppercase()));
        let Ok(value) = value.parse::<Value>();
        let keys = nest(&path.to_lowercase().replace(SEPARATOR, "."), value).into_dict();
        let keys = keys.ok_or_else(|| format!("{name} names no section and no key"))?;
        Ok(Some(Self { metadata, keys }))
    }
}

impl Provider for Source {
    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        Ok(Profile::Default.collect(self.keys.clone()))
    }
}

/// Parses `1=host:port, 2=host:port`.
pub(super) fn members<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<u64, String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut members = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (id, address) = member(part).ok_or_else(|| {
            D::Error::custom(format!("{part:?} is not a member: write 1=host:port, 2=host:port"))
        })?;
        if members.insert(id, address).is_some() {
            return Err(D::Error::custom(format!("duplicate member id {id}")));
        }
    }
    Ok(members)
}

/// The id of a node that finds its id itself, until it has.
pub(crate) const AUTO: u64 = 0;

/// An id, or "auto".
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number, or \"auto\"")]
enum IdText {
    Number(u64),
    Text(String),
}

/// Parses the id of a node.
pub(super) fn node_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match IdText::deserialize(deserializer)? {
        IdText::Number(id) if id > 0 => Ok(id),
        IdText::Text(text) if text == "auto" => Ok(AUTO),
        _ => Err(D::Error::custom("node.id must be 1 or more, or \"auto\"")),
    }
}

/// Parses `1=host:port`.
fn member(text: &str) -> Option<(u64, String)> {
    let (id, address) = text.split_once('=')?;
    let (id, address) = (id.trim().parse().ok()?, address.trim());
    (id > 0 && is_address(address)).then(|| (id, address.to_owned()))
}

/// A list as text, or a single number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text with commas between the items")]
enum List {
    Text(String),
    Number(f64),
}

/// Parses a list with commas between its items.
pub(super) fn list<'de, D: Deserializer<'de>, T: FromStr>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let text = match List::deserialize(deserializer)? {
        List::Text(text) => text,
        List::Number(number) => number.to_string(),
    };
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            item.parse().map_err(|_| D::Error::custom(format!("{item:?} cannot be parsed")))
        })
        .collect()
}

pub(super) fn pauses<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Duration>, D::Error> {
    let seconds: Vec<f64> = list(deserializer)?;
    let pause = |seconds: f64| {
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|pause| *pause <= RETRY_MAX)
            .ok_or_else(|| D::Error::custom(format!("{seconds} is not between 0 and 30 days")))
    };
    seconds.into_iter().map(pause).collect()
}
