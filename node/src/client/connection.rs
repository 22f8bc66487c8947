//! Requests to a cluster: to any node of a list, repeated on the next one where that is safe.

use std::cell::Cell;
use std::time::{Duration, Instant};

use raft::causes;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::failure::{Exit, Failure};

/// Pause before a repetition where no response states one.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause before a repetition: another node may respond sooner.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Longest time until a node has accepted a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time without a byte of a response. A stream of events has one every 15 s.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of the public listeners of a cluster, with one key.
pub(crate) struct Connection {
    client: Client,
    /// Not empty.
    urls: Vec<String>,
    /// Index of the node that responded last.
    at: Cell<usize>,
    key: String,
    /// The namespace of the profile.
    namespace: Option<String>,
    deadline: Duration,
}

/// Whether a request may be sent again although the node may have received it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// A repetition changes nothing more.
    Yes,
    /// It changes nothing more within this command, which has an idempotency key.
    WithKey,
    No,
}

/// Where a request goes, and what of it is a result.
struct Target<'a> {
    method: Method,
    /// Of the URL, with its query.
    path: &'a str,
    repeat: Repeat,
    /// Whether a response with this status is the result.
    is_result: fn(StatusCode) -> bool,
}

impl<'a> Target<'a> {
    fn new(method: Method, path: &'a str, repeat: Repeat) -> Self {
        Self { method, path, repeat, is_result: |status| status.is_success() }
    }
}

/// An attempt without success.
struct Attempt {
    failure: Failure,
    /// Whether the node may have done it.
    may_be_done: bool,
    /// Whether another attempt may have another result.
    is_passing: bool,
    pause: Option<Duration>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: String,
    message: String,
    field: Option<String>,
}

impl Connection {
    pub(super) fn new(
        client: Client,
        urls: Vec<String>,
        key: String,
        namespace: Option<String>,
        deadline: Duration,
    ) -> Self {
        let urls = urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        Self { client, urls, at: Cell::new(0), key, namespace, deadline }
    }

    /// The URL of the node that responded last, and the key.
    pub(crate) fn endpoint(&self) -> (&str, &str) {
        (&self.urls[self.at.get() % self.urls.len()], &self.key)
    }

    /// The namespace that is named, or that of the profile.
    pub(crate) fn namespace(&self, named: Option<String>) -> Option<String> {
        named.or_else(|| self.namespace.clone())
    }

    /// The response to a GET of a path below `/api/v1`. Queries without a value are left out.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, Option<String>)],
    ) -> Result<T, Failure> {
        let query: Vec<_> = query.iter().filter(|(_, value)| value.is_some()).collect();
        let build = |request: RequestBuilder| request.query(&query);
        self.json(Method::GET, path, Repeat::Yes, build).await
    }

    /// All items of a list, page by page. `field` names them.
    pub(crate) async fn all(&self, path: &str, field: &str) -> Result<Vec<Value>, Failure> {
        Ok(self.first(path, field, &[], usize::MAX).await?.0)
    }

    /// The first items of a list, page by page, and the rest of the last page. `field` names them.
    pub(crate) async fn first(
        &self,
        path: &str,
        field: &str,
        query: &[(&str, Option<String>)],
        limit: usize,
    ) -> Result<(Vec<Value>, Value), Failure> {
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            let query = [query, &[("cursor", cursor)]].concat();
            let mut page: Value = self.get(path, &query).await?;
            items.extend(parse::<Vec<Value>>(page[field].take())?);
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() || items.len() >= limit {
                items.truncate(limit);
                return Ok((items, page));
            }
        }
    }

    /// The response to a POST that only reads.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, Failure> {
        self.set(Method::POST, path, body).await
    }

    /// The results of a search, with the headers that say what it found beside them.
    pub(crate) async fn search(&self, body: &Value) -> Result<(HeaderMap, Value), Failure> {
        let read = async |response: Response| {
            let headers = response.headers().clone();
            Ok((headers, response.bytes().await?))
        };
        let build = |request: RequestBuilder| request.json(body);
        let to = Target::new(Method::POST, "/api/v1/agent/search", Repeat::Yes);
        let (headers, results) = self.send(to, build, read).await?;
        Ok((headers, of_interface(&results)?))
    }

    /// The response to a request whose repetition changes nothing more.
    pub(crate) async fn set<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<T, Failure> {
        self.json(method, path, Repeat::Yes, |request| request.json(body)).await
    }

    /// The response to a write that takes an idempotency key, so that it is done once.
    pub(crate) async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let once = Uuid::new_v4().to_string();
        let build = |request: RequestBuilder| {
            let request = request.header("Idempotency-Key", &once);
            body.into_iter().fold(request, |request, body| request.json(body))
        };
        self.json(method, path, Repeat::WithKey, build).await
    }

    /// The response to a write that takes no idempotency key.
    pub(crate) async fn write_once<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, Failure> {
        let build = |request| {
            body.into_iter().fold(request, |request: RequestBuilder, it| request.json(it))
        };
        self.json(method, path, Repeat::No, build).await
    }

    /// The response to a POST of lines of JSON, whose repetition changes nothing more.
    pub(crate) async fn post_lines<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, String)],
        lines: &bytes::Bytes,
    ) -> Result<T, Failure> {
        let build = |request: RequestBuilder| request.query(query).body(lines.clone());
        self.json(Method::POST, path, Repeat::Yes, build).await
    }

    /// The endless response to a GET.
    pub(crate) async fn stream(
        &self,
        path: &str,
        build: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Failure> {
        let path = format!("/api/v1{path}");
        let to = Target::new(Method::GET, &path, Repeat::Yes);
        self.send(to, build, async |response| Ok(response)).await
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        repeat: Repeat,
        build: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<T, Failure> {
        let read = async |response: Response| response.bytes().await;
        let path = format!("/api/v1{path}");
        let body = self.send(Target::new(method, &path, repeat), build, read).await?;
        // A deletion of a trigger has no body.
        of_interface(if body.is_empty() { b"null" } else { &body[..] })
    }

    /// Sends a message of MCP. Returns what a node responds: also an error, unless another node may do better.
    /// `once` is the idempotency key of a message that writes.
    pub(super) async fn send_message(
        &self,
        path: &str,
        headers: &HeaderMap,
        body: &str,
        once: Option<&str>,
    ) -> Result<Response, Failure> {
        let repeat = if once.is_some() { Repeat::WithKey } else { Repeat::Yes };
        let is_result = |status: StatusCode| {
            !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS
        };
        let build = |request: RequestBuilder| {
            let request = request.headers(headers.clone()).body(body.to_owned());
            once.into_iter().fold(request, |request, once| request.header("Idempotency-Key", once))
        };
        let to = Target { is_result, ..Target::new(Method::POST, path, repeat) };
        self.send(to, build, async |response| Ok(response)).await
    }

    /// Sends the next request to another node.
    pub(super) fn leave_node(&self) {
        self.at.set((self.at.get() + 1) % self.urls.len());
    }

    /// Sends a request until a node responds with success, it makes no sense to repeat it, or the
    /// time is over.
    async fn send<T>(
        &self,
        to: Target<'_>,
        build: impl Fn(RequestBuilder) -> RequestBuilder,
        read: impl AsyncFn(Response) -> reqwest::Result<T>,
    ) -> Result<T, Failure> {
        let Target { method, path, repeat, is_result } = to;
        let started = Instant::now();
        loop {
            let url = &self.urls[self.at.get() % self.urls.len()];
            let request = self.client.request(method.clone(), format!("{url}{path}"));
            let request = build(request.bearer_auth(&self.key));
            let attempt = async {
                match request.send().await {
                    Ok(response) if is_result(response.status()) => {
                        read(response).await.map_err(|error| Attempt::of_error(url, &error))
                    }
                    Ok(response) => Err(Attempt::of_response(response).await),
                    Err(error) => Err(Attempt::of_error(url, &error)),
                }
            };
            // A node that hangs leaves time for the others.
            let left = self.deadline.saturating_sub(started.elapsed());
            let limit = if self.urls.len() == 1 { left } else { left / 2 };
            let attempt = match tokio::time::timeout(limit, attempt).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(attempt)) => attempt,
                Err(_) => Attempt::without_response(url, "no response in time"),
            };
            let pause = attempt.pause.unwrap_or(PAUSE).min(PAUSE_MAX);
            let is_over = started.elapsed() + pause >= self.deadline;
            let is_safe = !attempt.may_be_done || repeat != Repeat::No;
            if is_over || !attempt.is_passing || !is_safe {
                let mut failure = attempt.failure;
                if attempt.may_be_done && repeat != Repeat::Yes {
                    failure.exit = Exit::Unknown;
                }
                return Err(failure);
            }
            self.leave_node();
            tokio::time::sleep(pause).await;
        }
    }
}

fn of_interface<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    Ok(serde_json::from_slice(body).map_err(|_| "the response is not of this interface")?)
}

impl Attempt {
    async fn of_response(response: Response) -> Self {
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let pause = after.and_then(|after| after.parse().ok()).map(Duration::from_secs);
        let failure = match response.json().await {
            Ok(ErrorBody { error, message, field }) => {
                let message = field.map_or_else(|| message.clone(), |it| format!("{it} {message}"));
                Failure::of_response(status, &error, message)
            }
            Err(_) => Failure::of_response(status, "", format!("the node responded {status}")),
        };
        let may_be_done = failure.exit == Exit::Unknown;
        let is_passing = status == StatusCode::SERVICE_UNAVAILABLE
            || (status == StatusCode::TOO_MANY_REQUESTS && pause.is_some())
            || may_be_done;
        Self { failure, may_be_done, is_passing, pause }
    }

    fn of_error(url: &str, error: &reqwest::Error) -> Self {
        let causes = causes(error);
        let is_untrusted = causes.contains("certificate");
        let reason = if causes.contains("not valid for name") {
            "its certificate does not name this host: use a name that it has (`hearth certs --host`)"
        } else if is_untrusted {
            "its certificate is not trusted: name the cluster's authority with --ca or HEARTH_CA"
        } else if error.is_connect() {
            "no connection: is this the public listener of a node?"
        } else if error.is_builder() {
            "this is no URL: write https://host:port"
        } else {
            "the connection ended before the response"
        };
        Self {
            may_be_done: !error.is_connect() && !error.is_builder(),
            is_passing: !is_untrusted && !error.is_builder(),
            ..Self::without_response(url, reason)
        }
    }

    fn without_response(url: &str, reason: &str) -> Self {
        let failure = Failure::new(Exit::Unavailable, format!("{url}: {reason}"));
        Self { failure, may_be_done: true, is_passing: true, pause: None }
    }
}

/// A client that gives up connections which no one accepts, and nodes that send nothing.
pub(super) fn builder() -> reqwest::ClientBuilder {
    Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(READ_TIMEOUT)
}

/// A part of a response as a type.
pub(super) fn parse<T: DeserializeOwned>(value: Value) -> Result<T, Failure> {
    Ok(serde_json::from_value(value).map_err(|_| "the response is not of this interface")?)
}

/// An object of the fields that are given.
pub(super) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}
