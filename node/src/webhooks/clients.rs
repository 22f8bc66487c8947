//! The HTTP clients, address rules and keys of webhooks. Implements the interface's [`Hooks`].

use std::path::Path;
use std::time::Duration;

use api::Hooks;
use reqwest::redirect::Policy as Redirects;
use reqwest::{Certificate, Client};
use storage::model::id::TriggerId;
use storage::model::trigger::SealedSecret;

use super::address::{Policy, Resolver};
use super::message;
use super::sealing::SecretSealer;
use crate::config;

/// Time limit of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which an idle connection is kept for the next request to the same receiver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What this node needs to check and send webhooks.
pub(crate) struct Webhooks {
    pub(super) policy: Policy,
    /// `None` if no cluster key is configured.
    pub(super) sealer: Option<SecretSealer>,
    /// Reaches public and allowed addresses.
    pub(super) client: Client,
    /// For plain HTTP: reaches only the networks that the operator allows.
    pub(super) plain_client: Client,
    /// Pause after each failed attempt.
    pub(super) retries: Vec<Duration>,
}

impl Webhooks {
    pub(crate) fn new(config: &config::Webhooks) -> Result<Self, String> {
        let policy = Policy { allowed: config.allow.clone() };
        let sealer = config.key.as_deref().map(SecretSealer::read).transpose()?;
        let client = |only_allowed| -> Result<Client, String> {
            let mut client = Client::builder()
                // Neither a receiver nor a proxy variable may change where a request goes.
                .redirect(Redirects::none())
                .no_proxy()
                .dns_resolver(Resolver::new(policy.clone(), only_allowed))
                .connect_timeout(CONNECT_TIMEOUT)
                .timeout(Duration::from_millis(config.timeout_ms))
                .pool_idle_timeout(IDLE_TIMEOUT)
                .user_agent(concat!("hearth/", env!("CARGO_PKG_VERSION")));
            if let Some(path) = &config.authority {
                client = client.tls_certs_merge(authority(path)?);
            }
            client.build().map_err(|error| format!("webhooks: {error}"))
        };
        let (client, plain_client) = (client(false)?, client(true)?);
        let retries = config.retry_seconds.clone();
        Ok(Self { policy, sealer, client, plain_client, retries })
    }
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
