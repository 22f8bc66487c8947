//! An endpoint that the operator runs or pays for, and that reads texts: of embeddings, or of a reranker.

use std::io::Read;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use raft::causes;
use reqwest::blocking::Client;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest response.
const RESPONSE_BYTES_MAX: u64 = 4 << 20;

/// Where it is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// URL of its requests.
    pub(crate) url: String,
    /// File with the key that it expects as a bearer token; relative to the folder of its manifest.
    #[serde(default)]
    pub(crate) key_file: Option<PathBuf>,
    /// Time limit of a request, with its response: [`TIMEOUT`] if absent.
    pub(crate) timeout_ms: Option<NonZeroU64>,
}

/// Sends requests to an endpoint. Clones share its connections.
#[derive(Clone)]
pub(crate) struct EndpointClient {
    client: Client,
    url: String,
    key: Option<String>,
}

impl EndpointClient {
    /// # Errors
    /// The URL is not usable, or the key cannot be read.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, String> {
        let Endpoint { url, key_file, timeout_ms } = endpoint;
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(format!(
                "{url:?} is no URL of an endpoint: it begins with https:// or http://"
            ));
        }
        let key = key_file.as_ref().map(|file| {
            let key = std::fs::read_to_string(file);
            key.map(|key| key.trim().to_owned())
                .map_err(|error| format!("{}: {error}", file.display()))
        });
        let timeout = timeout_ms.map_or(TIMEOUT, |it| Duration::from_millis(it.get()));
        // It connects to the endpoint alone: to no proxy of the environment, and to no other host.
        let mut client = Client::builder().no_proxy().redirect(Policy::none()).timeout(timeout);
        if url.starts_with("http://") {
            // It needs no authority, and a machine may have none.
            client = client.tls_certs_only([]);
        }
        // A thread of tokio may not block.
        let built = std::thread::spawn(|| client.build()).join();
        let client = built.map_err(|_| format!("{url}: its client panicked"))?;
        let client = client.map_err(|error| format!("{url}: {}", causes(&error)))?;
        Ok(Self { client, url: url.clone(), key: key.transpose()? })
    }

    /// The response to a request. Blocks for the time limit at most.
    ///
    /// # Errors
    /// The cause, for the log. It contains neither texts nor the key.
    pub(crate) fn post<R: DeserializeOwned>(&self, request: &Value) -> Result<R, String> {
        let mut sent = self.client.post(&self.url).json(request);
        if let Some(key) = &self.key {
            sent = sent.bearer_auth(key);
        }
        let failed = |cause: String| format!("{}: {cause}", self.url);
        let response = sent.send().map_err(|error| failed(causes(&error.without_url())))?;
        if !response.status().is_success() {
            return Err(failed(format!("status {}", response.status().as_u16())));
        }
        let mut body = Vec::new();
        let read = response.take(RESPONSE_BYTES_MAX).read_to_end(&mut body);
        read.map_err(|error| failed(error.to_string()))?;
        serde_json::from_slice(&body).map_err(|error| failed(format!("unusable response: {error}")))
    }
}
