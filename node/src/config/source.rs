//! The sources of a configuration, as providers of the `figment` crate: the file, and one per
//! environment variable. An error names the source of the key that is wrong.

use std::path::Path;

use figment::util::nest;
use figment::value::{Dict, Map, Value};
use figment::{Error, Metadata, Profile, Provider};

/// Prefix of all environment variables.
const PREFIX: &str = "HEARTH__";
/// Separates the section from the key in the name of a variable.
const SEPARATOR: &str = "__";

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

    /// The key of an environment variable. `None` if its name lacks the prefix.
    ///
    /// The value is a number, a boolean or a quoted string if it reads as one. Any other value
    /// is a string, unchanged.
    pub(super) fn variable(name: &str, value: &str) -> Result<Option<Self>, String> {
        let Some(path) = name.strip_prefix(PREFIX) else { return Ok(None) };
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
