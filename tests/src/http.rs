//! HTTP requests, and responses as tests read them.

use std::path::Path;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, RequestBuilder};

use crate::{StatusCode, Value};

/// A response: status, headers by name, JSON body (null without one).
#[derive(Debug, Clone)]
pub struct Response {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Value,
}

impl Response {
    /// The body of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.body);
        self.body
    }

    /// A header as a number.
    #[track_caller]
    pub fn number(&self, header: &str) -> u64 {
        self.headers[header].to_str().ok().and_then(|text| text.parse().ok()).expect("a number")
    }

    /// Asserts the status and the error code, which an error of JSON-RPC has in its data.
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        let error = &self.body["error"];
        let code_of = error.as_str().or(error["data"]["error"].as_str());
        let found = (self.status.as_u16(), code_of);
        assert_eq!(found, (status, Some(code)), "{}", self.body);
    }

    /// Asserts a 400 because of `field`.
    #[track_caller]
    pub fn assert_invalid(&self, field: &str) {
        self.assert_error(400, "invalid_field");
        assert_eq!(self.body["field"], field, "{}", self.body);
    }
}

/// A request to be sent.
pub struct Request(pub RequestBuilder);

impl Request {
    /// With a header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value))
    }

    /// With a JSON body, unless it is null.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        if body.is_null() { self } else { Self(self.0.json(body)) }
    }

    /// With a body of these bytes.
    #[must_use]
    pub fn raw(self, body: impl Into<Vec<u8>>) -> Self {
        Self(self.0.body(body.into()))
    }

    /// Sends it.
    ///
    /// # Errors
    /// When there was no response.
    pub async fn try_send(self) -> Result<Response, reqwest::Error> {
        let response = self.0.send().await?;
        let status = response.status();
        let headers = response.headers().clone();
        let bytes = response.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Response { status, headers, body })
    }

    /// Sends it and returns the response, which must come.
    pub async fn send(self) -> Response {
        self.try_send().await.expect("a response")
    }
}

/// A client with its own connections that trusts one authority only.
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

/// The id of an object of the interface.
#[track_caller]
pub fn id(value: &Value) -> &str {
    string(&value["id"])
}

/// A JSON string.
#[track_caller]
pub fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}"))
}

/// A JSON array.
#[track_caller]
pub fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not an array: {value}"))
}
