//! Webhooks: where requests may go, what they say and how they are signed, and the leader's
//! duty of sending what the outbox owes. What is pending is decided in `storage`.

mod address;
mod attempt;
mod message;
mod permits;
mod sealing;
mod sender;

use std::path::Path;
use std::time::Duration;

use api::Hooks;
use reqwest::redirect::Policy as Redirects;
use reqwest::{Certificate, Client};
use storage::model::id::TriggerId;
use storage::model::trigger::SealedSecret;

use crate::config;

use address::{Policy, Resolver};
use sealing::SecretSealer;
pub(crate) use sealing::new_key;
pub(crate) use sender::{Counters, Sender};

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For how long a connection is kept for the next request to the same receiver.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The rules of this node's webhooks, and its key for their secrets.
pub(crate) struct Webhooks {
    policy: Policy,
    sealer: Option<SecretSealer>,
    client: Client,
    /// Without TLS: reaches what the operator allows, and nothing else.
    plain_client: Client,
    retries: Vec<Duration>,
}

impl Webhooks {
    pub(crate) fn new(config: &config::Webhooks) -> Result<Self, String> {
        let policy = Policy { allowed: config.allow.clone() };
        let sealer = config.key.as_deref().map(SecretSealer::read).transpose()?;
        let client = |only_allowed| -> Result<Client, String> {
            let mut client = Client::builder()
                // Whoever answers must not send us elsewhere, nor the environment.
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
    let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Certificate::from_pem_bundle(&pem).map_err(|error| format!("{}: {error}", path.display()))
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
