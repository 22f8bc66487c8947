//! Calls between nodes over mutual TLS. They share one connection per peer and channel (see
//! `connection`), so load on one channel never delays another. A snapshot is a request of its own.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use reqwest::header::{CONNECTION, UPGRADE};
use reqwest::{Body, Client, Response as HttpResponse, StatusCode, Upgraded};
use rustls::ClientConfig;
use tokio::net::TcpStream;

use crate::error::Claim;
use crate::network::connection::{Connection, PROTOCOL, REASON_CHARS_MAX};
use crate::network::message::{MESSAGE_BYTES_MAX, RpcError};
use crate::network::transfer::SentSnapshot;
use crate::network::transport::{Channel, Transport};

/// Timeout of a connection until its peer can receive calls.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Interval of the probes of a silent connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Time without an acknowledgement by the peer's operating system after which a connection ends.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(4);
/// The same of a snapshot. A receiver whose disk is slow acknowledges no more than its buffers hold.
const SNAPSHOT_ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The connections to peers.
pub(crate) struct Https {
    clients: RwLock<Clients>,
    /// One per peer that was called, by its address.
    connections: Mutex<HashMap<(Channel, String), Connection>>,
}

#[derive(Clone)]
struct Clients {
    /// Opens connections.
    calls: Client,
    snapshots: Client,
}

impl Https {
    pub(crate) fn new(tls: &ClientConfig) -> Result<Self, reqwest::Error> {
        Ok(Self { clients: RwLock::new(clients(tls)?), connections: Mutex::default() })
    }

    /// Uses other certificates for calls from here on. They open new connections; calls in
    /// progress complete on the old ones. After an error nothing changes.
    pub(crate) fn reload(&self, tls: &ClientConfig) -> Result<(), reqwest::Error> {
        *self.clients.write() = clients(tls)?;
        self.connections.lock().clear();
        Ok(())
    }

    /// Starts a call on the connection of a channel, which is opened if there is none.
    fn start_call(
        &self,
        channel: Channel,
        address: &str,
        message: Vec<u8>,
        claim: Claim,
    ) -> impl Future<Output = Result<Bytes, RpcError>> + Send + use<> {
        let mut connections = self.connections.lock();
        let key = (channel, address.to_owned());
        if let Some(open) = connections.get(&key).filter(|open| !open.is_closed()) {
            return open.call(message, claim);
        }
        connections.retain(|_, connection| !connection.is_closed());
        let url = format!("https://{address}{}", channel.path());
        let connection = Connection::open(connect(self.clients.read().calls.clone(), url));
        let call = connection.call(message, claim);
        connections.insert(key, connection);
        call
    }
}

impl Transport for Https {
    fn call(
        &self,
        channel: Channel,
        address: &str,
        message: Vec<u8>,
        claim: Claim,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        if let Err(error) = check_cut(address) {
            return std::future::ready(Err(error)).boxed();
        }
        let called = self.start_call(channel, address, message, claim);
        let address = address.to_owned();
        async move { received(&address, called.await?).await }.boxed()
    }

    fn send_snapshot(
        &self,
        address: &str,
        snapshot: SentSnapshot,
    ) -> BoxFuture<'static, Result<Bytes, RpcError>> {
        let (client, address) = (self.clients.read().snapshots.clone(), address.to_owned());
        async move {
            check_cut(&address)?;
            let (body, writing) = snapshot.stream(&address);
            let response = send(client, &address, body).await;
            writing.await;
            received(&address, response?).await
        }
        .boxed()
    }

    fn connect(&self, address: &str) -> BoxFuture<'static, io::Result<()>> {
        if is_cut("refused:", address) {
            return std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed();
        }
        let address = address.to_owned();
        async move { TcpStream::connect(address).await.map(drop) }.boxed()
    }
}

/// Sends a snapshot as a stream.
async fn send(client: Client, address: &str, body: Body) -> Result<Bytes, RpcError> {
    let url = format!("https://{address}{}", Channel::Snapshot.path());
    let sent = client.post(url).body(body).send().await;
    let response = sent.map_err(|error| match error.is_connect() {
        true => RpcError::NotSent(causes(&error)),
        false => RpcError::Lost(causes(&error)),
    })?;
    match response.status() {
        StatusCode::OK => Ok(read_bounded(response).await?.into()),
        // A client error means that the peer did not process the request.
        status if status.is_client_error() => Err(RpcError::NotSent(rejection(response).await)),
        status => Err(RpcError::Lost(format!("HTTP status {status}"))),
    }
}

fn check_cut(address: &str) -> Result<(), RpcError> {
    match is_cut("", address) || is_cut("refused:", address) {
        true => Err(RpcError::NotSent("partitioned by a test".into())),
        false => Ok(()),
    }
}

/// Whether a test has cut a path of the network. The failpoint names a file with the paths:
/// `host:port` loses requests to that peer, `from:host:port` loses its responses, and the port of
/// `refused:host:port` seems to be closed. Always false without failpoints.
fn is_cut(kind: &str, address: &str) -> bool {
    fail::fail_point!("peer-cut", |file| {
        let paths = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        paths.split_whitespace().any(|cut| cut.strip_prefix(kind) == Some(address))
    });
    // Without failpoints the macro expands to nothing, and the parameters would be unused.
    let _ = (kind, address);
    false
}

/// The error with its causes. An error of the HTTP client itself names the step only.
pub fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Opens a connection for calls.
async fn connect(client: Client, url: String) -> Result<Upgraded, String> {
    let opened = async {
        let request = client.get(url).header(CONNECTION, "upgrade").header(UPGRADE, PROTOCOL);
        let response = request.send().await.map_err(|error| causes(&error))?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                response.upgrade().await.map_err(|error| causes(&error))
            }
            _ => Err(rejection(response).await),
        }
    };
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, opened).await;
    opened.unwrap_or_else(|_| Err("timeout of the connection".into()))
}

/// A response that has arrived, unless a test loses it.
async fn received(address: &str, response: Bytes) -> Result<Bytes, RpcError> {
    if is_cut("from:", address) {
        // Only the caller's timeout ends the call.
        std::future::pending::<()>().await;
    }
    Ok(response)
}

async fn read_bounded(mut response: HttpResponse) -> Result<Vec<u8>, RpcError> {
    let lost = |error| RpcError::Lost(causes(&error));
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        if bytes.len() + chunk.len() > MESSAGE_BYTES_MAX {
            return Err(RpcError::Lost("the response is too long".into()));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Status and text of a response that is no result. The text names the format if the peer could
/// not read it.
async fn rejection(response: HttpResponse) -> String {
    let status = response.status();
    let bytes = read_bounded(response).await.unwrap_or_default();
    let reason: String = String::from_utf8_lossy(&bytes).chars().take(REASON_CHARS_MAX).collect();
    format!("HTTP status {status}: {reason}")
}

fn clients(tls: &ClientConfig) -> Result<Clients, reqwest::Error> {
    let calls = client(tls, ACKNOWLEDGE_TIMEOUT)?;
    Ok(Clients { calls, snapshots: client(tls, SNAPSHOT_ACKNOWLEDGE_TIMEOUT)? })
}

fn client(tls: &ClientConfig, acknowledge_timeout: Duration) -> Result<Client, reqwest::Error> {
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .https_only(true)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(KEEP_ALIVE_INTERVAL)
        .tcp_keepalive_interval(KEEP_ALIVE_INTERVAL)
        .tcp_user_timeout(acknowledge_timeout)
        .build()
}
