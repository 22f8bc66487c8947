//! An endpoint that the operator runs or pays for, and that reads texts: of embeddings, a reranker, or an extractor.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use raft::causes;
use reqwest::Client;
use reqwest::redirect::Policy;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::config;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest response.
const RESPONSE_BYTES_MAX: usize = 4 << 20;

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

/// Why a request failed. The cause is for the log: it has neither texts nor keys.
pub(crate) enum EndpointError {
    /// The endpoint rejects this text: another one may succeed.
    Rejects(String),
    /// It does not respond as it should.
    Unavailable(String),
}

/// Sends requests to an endpoint. Clones share its connections.
#[derive(Clone)]
pub(crate) struct EndpointClient {
    client: Client,
    url: Url,
    key: Option<String>,
}

impl EndpointError {
    /// What is wrong, whatever may succeed.
    pub(crate) fn cause(self) -> String {
        match self {
            Self::Rejects(cause) | Self::Unavailable(cause) => cause,
        }
    }
}

impl EndpointClient {
    /// That of a section of the configuration, if it names an endpoint.
    ///
    /// # Errors
    /// See [`Self::new`].
    pub(crate) fn of(config: &config::ModelEndpoint) -> Result<Option<Self>, String> {
        let config::ModelEndpoint { url, key_file, timeout_ms, .. } = config.clone();
        if url.is_empty() {
            return Ok(None);
        }
        Self::new(&Endpoint { url, key_file, timeout_ms: Some(timeout_ms) }).map(Some)
    }

    /// # Errors
    /// The URL is not usable, or the key cannot be read.
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Self, String> {
        let Endpoint { url, key_file, timeout_ms } = endpoint;
        let url = Url::parse(url).map_err(|error| format!("the URL of an endpoint: {error}"))?;
        let has_credentials = !url.username().is_empty() || url.password().is_some();
        if !["http", "https"].contains(&url.scheme()) || !url.has_host() || has_credentials {
            return Err("the URL of an endpoint begins with https:// or http://, and has no \
                        credentials: key_file names the file with its key"
                .into());
        }
        let key = key_file.as_ref().map(|file| {
            let key = std::fs::read_to_string(file);
            key.map(|key| key.trim().to_owned())
                .map_err(|error| format!("{}: {error}", file.display()))
        });
        let timeout = timeout_ms.map_or(TIMEOUT, |it| Duration::from_millis(it.get()));
        // It connects to the endpoint alone: to no proxy of the environment, and to no other host.
        let mut client = Client::builder().no_proxy().redirect(Policy::none()).timeout(timeout);
        if url.scheme() == "http" {
            // It needs no authority, and a machine may have none.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|error| causes(&error))?;
        Ok(Self { client, url, key: key.transpose()? })
    }

    /// The response to a request.
    pub(crate) async fn post<R: DeserializeOwned>(
        &self,
        request: &Value,
    ) -> Result<R, EndpointError> {
        // Without a query, which may have a key.
        let place = format!("{}{}", self.url.origin().ascii_serialization(), self.url.path());
        let unavailable = |cause: String| EndpointError::Unavailable(format!("{place}: {cause}"));
        let failed = |error: reqwest::Error| unavailable(causes(&error.without_url()));
        let mut sent = self.client.post(self.url.clone()).json(request);
        if let Some(key) = &self.key {
            sent = sent.bearer_auth(key);
        }
        let mut response = sent.send().await.map_err(failed)?;
        match response.status().as_u16() {
            200..300 => {}
            status @ (400 | 413 | 422) => {
                return Err(EndpointError::Rejects(format!("{place}: status {status}")));
            }
            status => return Err(unavailable(format!("status {status}"))),
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return Err(unavailable(format!("more than {RESPONSE_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        // The text of the error may quote the response.
        serde_json::from_slice(&body).map_err(|error| {
            unavailable(format!("the response is unusable at column {}", error.column()))
        })
    }
}
