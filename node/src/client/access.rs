//! Where a client command finds the cluster: options, environment, profile, in this order.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Certificate;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::client::connection::{Connection, builder};
use crate::client::print::Format;
use crate::client::profiles::{Profile, Profiles};
use crate::error::{text, unusable};
use crate::failure::{Exit, Failure};

/// The public listener of the first node of `hearth dev`.
const DEFAULT_URL: &str = "https://127.0.0.1:4200";
const SECONDS_MAX: u64 = 3_600;

/// How to reach a cluster, and as whom.
#[derive(Args)]
#[command(next_help_heading = "Cluster and key")]
pub(crate) struct Access {
    /// Public listeners of the nodes, with commas between them
    #[arg(
        long = "url",
        value_name = "URL",
        env = "HEARTH_URL",
        value_delimiter = ',',
        global = true
    )]
    urls: Vec<String>,
    /// File with the certificate authority of the cluster; by default those of the system
    #[arg(long, value_name = "FILE", env = "HEARTH_CA", global = true)]
    ca: Option<PathBuf>,
    /// File with the API key, if HEARTH_API_KEY does not hold it
    #[arg(long, value_name = "FILE", global = true)]
    key_file: Option<PathBuf>,
    /// Profile that `hearth login` wrote; by default the current one
    #[arg(long, value_name = "NAME", env = "HEARTH_PROFILE", global = true)]
    pub(super) profile: Option<String>,
    /// Time zone of days such as "yesterday" in a query, as Europe/Berlin; by default UTC
    #[arg(long, value_name = "ZONE", env = "HEARTH_TIMEZONE", global = true)]
    timezone: Option<String>,
    /// Seconds until a request is given up, repetitions included
    #[arg(long, value_name = "SECONDS", default_value_t = 30, global = true,
        value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    timeout: u64,
}

/// Header with the time zone of a request.
const TIMEZONE: HeaderName = HeaderName::from_static("x-timezone");
/// Variable with the text of an API key. It is no option: other users see the options of a process.
const KEY_VARIABLE: &str = "HEARTH_API_KEY";

impl Access {
    /// A connection with the key of options, environment or profile.
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        let profile = self.profile()?;
        let key = self.key()?.or_else(|| profile.as_ref().map(|profile| profile.key.clone()));
        let key = key.ok_or_else(|| {
            let advice = "no API key: run `hearth login`, set HEARTH_API_KEY, or name --key-file";
            Failure::new(Exit::Denied, advice)
        })?;
        Ok(self.with_profile(profile, key)?)
    }

    /// A connection with a key that no profile holds yet, and the profile to be.
    pub(crate) fn connect_as(&self, key: String) -> Result<(Connection, Profile), Failure> {
        let ca = self.ca.as_ref().map(|path| std::fs::read_to_string(path).map_err(unusable(path)));
        let urls = match &self.urls[..] {
            [] => vec![DEFAULT_URL.to_owned()],
            urls => urls.to_vec(),
        };
        let profile = Profile { urls, key: key.clone(), ca: ca.transpose()?, namespace: None };
        Ok((self.with_profile(Some(profile.clone()), key)?, profile))
    }

    /// The profile, unless other URLs are named: its key is for its own cluster only.
    fn profile(&self) -> Result<Option<Profile>, String> {
        if !self.urls.is_empty() && self.profile.is_none() {
            return Ok(None);
        }
        let profiles = Profiles::load()?;
        let profile = profiles.get(self.profile.as_deref())?;
        let is_of = |profile: &Profile| self.urls.iter().all(|url| profile.urls.contains(url));
        match profile {
            Some(profile) if !is_of(profile) => Err(format!(
                "the key of this profile is for {} only: leave --url and HEARTH_URL out",
                profile.urls.join(", ")
            )),
            profile => Ok(profile.cloned()),
        }
    }

    fn with_profile(&self, profile: Option<Profile>, key: String) -> Result<Connection, String> {
        let (urls, ca, namespace) = match profile {
            Some(profile) => (profile.urls, profile.ca, profile.namespace),
            None => (vec![DEFAULT_URL.to_owned()], None, None),
        };
        let urls = if self.urls.is_empty() { urls } else { self.urls.clone() };
        let ca = match &self.ca {
            Some(path) => Some(std::fs::read_to_string(path).map_err(unusable(path))?),
            None => ca,
        };
        let mut client = builder();
        if let Some(pem) = ca {
            client =
                client.tls_certs_only(Certificate::from_pem_bundle(pem.as_bytes()).map_err(text)?);
        }
        if let Some(zone) = &self.timezone {
            let zone =
                HeaderValue::from_str(zone).map_err(|_| "--timezone is no name of a zone")?;
            client = client.default_headers(HeaderMap::from_iter([(TIMEZONE, zone)]));
        }
        let client = client.build().map_err(text)?;
        let deadline = Duration::from_secs(self.timeout);
        Ok(Connection::new(client, urls, key, namespace, deadline))
    }

    /// The key of a file or of the environment.
    pub(super) fn key(&self) -> Result<Option<String>, String> {
        if let Some(path) = &self.key_file {
            let key = std::fs::read_to_string(path).map_err(unusable(path))?;
            return Ok(Some(key.trim().to_owned()));
        }
        let key = std::env::var(KEY_VARIABLE).ok().map(|key| key.trim().to_owned());
        Ok(key.filter(|key| !key.is_empty()))
    }
}

/// The connection of a command, and the form of its output.
#[derive(Args)]
pub(crate) struct Client {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    format: Format,
}

impl Client {
    pub(crate) fn connect(&self) -> Result<Connection, Failure> {
        self.access.connect()
    }

    /// Whether programs read the output.
    pub(crate) fn is_json(&self) -> bool {
        self.format.json
    }
}
