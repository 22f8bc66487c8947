//! Requests and their answers, as tests look at them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde_json::Value;

/// An answer: status, headers by name, JSON body (null if there is none).
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// Its body, which must be that of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.body);
        self.body
    }

    /// A header as a number.
    #[track_caller]
    pub fn number(&self, header: &str) -> u64 {
        self.headers[header].parse().expect("a number")
    }
}

/// A request to be sent.
pub struct Ask {
    pub(crate) request: reqwest::RequestBuilder,
}

impl Ask {
    /// With a header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        Self { request: self.request.header(name, value) }
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        Self { request: self.request.json(body) }
    }

    /// With a body as it stands.
    #[must_use]
    pub fn raw(self, body: impl Into<Vec<u8>>) -> Self {
        Self { request: self.request.body(body.into()) }
    }

    /// Sends it. An error means that there was no answer.
    pub async fn try_send(self) -> Result<Answer, reqwest::Error> {
        let answer = self.request.send().await?;
        let status = answer.status();
        let header = |(name, value): (&reqwest::header::HeaderName, &_)| {
            let value: &reqwest::header::HeaderValue = value;
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers = answer.headers().iter().map(header).collect();
        let bytes = answer.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, headers, body })
    }

    /// Sends it; there must be an answer.
    pub async fn send(self) -> Answer {
        self.try_send().await.expect("an answer")
    }
}

/// A client with connections of its own that trusts one authority only.
pub fn client(ca: &Path) -> Client {
    // An error means that it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let pem = std::fs::read(ca).expect("the CA file");
    let ca = reqwest::Certificate::from_pem(&pem).expect("a certificate");
    Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .timeout(Duration::from_secs(30))
        .build()
        .expect("a client")
}
