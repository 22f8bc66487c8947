//! The client for peers, over mutual TLS. Calls share one connection per peer and channel (see
//! `connection`), so load on one channel never delays another. A snapshot is a request of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use reqwest::header::{CONNECTION, UPGRADE};
use reqwest::{Body, Client, Response as HttpResponse, StatusCode, Upgraded};
use rustls::ClientConfig;
use storage::codec;
use storage::model::cluster::GROUP;
use storage::model::release::Release;
use tokio::sync::watch;

use crate::error::Claim;
use crate::network::connection::{Connection, PROTOCOL, REASON_CHARS_MAX};
use crate::network::identity::LocalNode;
use crate::network::log_throttle::LogThrottle;
use crate::network::message::{
    MESSAGE_BYTES_MAX, PeerIdentity, PeerRejection, Request, Response, Rpc, RpcError, RpcResponse,
};
use crate::timings::Timings;
use crate::types::NodeId;

/// Timeout of a connection until its peer can receive calls.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// Interval of the probes of a silent connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Time without an acknowledgement by the peer's operating system after which a connection ends.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(4);
/// The same of a snapshot. A receiver whose disk is slow acknowledges no more than its buffers hold.
const SNAPSHOT_ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The purpose of a connection. Its task runs where its first call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Channel {
    /// Calls that only Raft's threads make, so that no other load delays them.
    Raft,
    Forward,
    Snapshot,
}

impl Channel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Raft => "raft",
            Self::Forward => "forward",
            Self::Snapshot => "snapshot",
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Raft => "/peer/raft",
            Self::Forward => "/peer/forward",
            Self::Snapshot => "/peer/snapshot",
        }
    }
}

/// What a node says of itself.
pub(crate) struct Identified {
    pub(crate) from: PeerIdentity,
    /// Whether it has never belonged to a cluster.
    pub(crate) is_pristine: bool,
    pub(crate) release: Release,
}

pub(crate) struct Peers {
    pub(crate) local: Arc<LocalNode>,
    clients: RwLock<Clients>,
    /// One per peer that was called, by its address.
    connections: Mutex<HashMap<(Channel, String), Connection>>,
    log_throttle: LogThrottle,
    pub(crate) timings: Timings,
    /// Counts uses of other certificates.
    pub(crate) reloads: watch::Sender<u64>,
}

#[derive(Clone)]
struct Clients {
    /// Opens connections.
    calls: Client,
    snapshots: Client,
}

impl Peers {
    pub(crate) fn new(
        local: Arc<LocalNode>,
        tls: &ClientConfig,
        timings: Timings,
    ) -> Result<Self, reqwest::Error> {
        let (clients, connections) = (RwLock::new(clients(tls)?), Mutex::default());
        let (log_throttle, reloads) = (LogThrottle::default(), watch::Sender::new(0));
        Ok(Self { local, clients, connections, log_throttle, timings, reloads })
    }

    /// Uses other certificates for calls from here on. They open new connections; calls in
    /// progress complete on the old ones. After an error nothing changes.
    pub(crate) fn reload(&self, tls: &ClientConfig) -> Result<(), reqwest::Error> {
        *self.clients.write() = clients(tls)?;
        self.connections.lock().clear();
        Ok(())
    }

    /// Requests peers to end their connections: they were checked with other certificates.
    pub(crate) fn end_connections(&self) {
        self.reloads.send_modify(|count| *count += 1);
    }

    pub(crate) async fn call(
        &self,
        channel: Channel,
        to: NodeId,
        address: &str,
        call: Rpc,
        timeout: Duration,
    ) -> Result<RpcResponse, RpcError> {
        // A watch lasts as long as nothing happens.
        let is_timed = !matches!(call, Rpc::Leads { waits: true, .. });
        let started = Instant::now();
        let message = codec::encode(&self.request(Some(to), timeout, call));
        let bytes = message.len();
        let claim = Claim::default();
        let exchange = self.exchange(channel, address, message, claim.clone());
        let called = tokio::time::timeout(timeout, exchange).await;
        if is_timed {
            let took = matches!(called, Ok(Ok(_))).then(|| started.elapsed());
            self.timings.record_call(to, channel.name(), bytes, took);
        }
        match called {
            Ok(Ok(response)) => self.accept(to, channel, response),
            Ok(Err(error)) => {
                if self.log_throttle.is_new(to, channel.name(), &error) {
                    tracing::warn!(peer = to, address, %error, "peer not reachable");
                }
                Err(error)
            }
            // Not logged: the peer may be slow only.
            Err(_) => {
                let reason = format!("timeout after {} ms", timeout.as_millis());
                Err(if claim.take() { RpcError::NotSent(reason) } else { RpcError::Lost(reason) })
            }
        }
    }

    /// Returns what the node at `address` says of itself.
    pub(crate) async fn identify(
        &self,
        channel: Channel,
        address: &str,
        timeout: Duration,
    ) -> Result<Identified, RpcError> {
        let message = codec::encode(&self.request(None, timeout, Rpc::Identify));
        let exchange = self.exchange(channel, address, message, Claim::default());
        let called = tokio::time::timeout(timeout, exchange).await;
        let response = called.map_err(|_| RpcError::Lost("timeout".into()))??;
        match response.result? {
            RpcResponse::Identified(is_pristine) => {
                let (from, release) = (response.from, response.condition.release);
                Ok(Identified { from, is_pristine, release })
            }
            _ => Err(RpcError::Lost("the response does not match the request".into())),
        }
    }

    /// A request with the identity and the condition of this node.
    pub(crate) fn request(&self, to: Option<NodeId>, timeout: Duration, call: Rpc) -> Request {
        Request {
            group: GROUP,
            from: self.local.peer_identity(),
            to,
            incarnation: to.and_then(|node| self.local.recorded_incarnation(node)),
            condition: self.local.condition(),
            timeout_micros: u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX),
            call,
        }
    }

    /// Sends an encoded request over the connection of a channel, and waits for the response.
    async fn exchange(
        &self,
        channel: Channel,
        address: &str,
        message: Vec<u8>,
        claim: Claim,
    ) -> Result<Response, RpcError> {
        check_cut(address)?;
        received(address, &self.start_call(channel, address, message, claim).await?).await
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

    /// Sends a snapshot as a stream, and waits for the response.
    pub(crate) async fn send_snapshot(
        &self,
        address: &str,
        body: Body,
    ) -> Result<Response, RpcError> {
        check_cut(address)?;
        let url = format!("https://{address}{}", Channel::Snapshot.path());
        let client = self.clients.read().snapshots.clone();
        let sent = client.post(url).body(body).send().await;
        let response = sent.map_err(|error| match error.is_connect() {
            true => RpcError::NotSent(causes(&error)),
            false => RpcError::Lost(causes(&error)),
        })?;
        match response.status() {
            StatusCode::OK => received(address, &read_bounded(response).await?).await,
            // A client error means that the peer did not process the request.
            status if status.is_client_error() => Err(RpcError::NotSent(rejection(response).await)),
            status => Err(RpcError::Lost(format!("HTTP status {status}"))),
        }
    }

    /// Checks the identity in a response, and records the condition of its sender.
    pub(crate) fn accept(
        &self,
        to: NodeId,
        channel: Channel,
        response: Response,
    ) -> Result<RpcResponse, RpcError> {
        let from = response.from;
        let checked = match from.node == to {
            true => self.local.check_peer(&from),
            false => Err(PeerRejection::OtherNode),
        };
        if let Err(rejection) = checked {
            self.log_rejection(to, channel, rejection);
            // The peer may have processed the call, so its effect is unknown.
            return Err(RpcError::Lost(format!("response from an invalid peer: {rejection}")));
        }
        let rejected = |rejection: &_| self.log_rejection(to, channel, *rejection);
        let result = response.result.inspect_err(rejected)?;
        if self.log_throttle.clear(to, channel.name()) {
            tracing::info!(peer = to, channel = channel.name(), "peer reachable again");
        }
        let boottime = self.local.clock.read().boottime;
        self.local.contact.record_condition(from.node, response.condition, boottime);
        Ok(result)
    }

    fn log_rejection(&self, peer: NodeId, channel: Channel, rejection: PeerRejection) {
        if self.log_throttle.is_new(peer, channel.name(), &rejection) {
            tracing::error!(peer, reason = %rejection, "call to peer rejected");
        }
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
pub(crate) fn is_cut(kind: &str, address: &str) -> bool {
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
async fn received(address: &str, bytes: &[u8]) -> Result<Response, RpcError> {
    if is_cut("from:", address) {
        // Only the caller's timeout ends the call.
        std::future::pending::<()>().await;
    }
    codec::decode(bytes).map_err(|error| RpcError::Lost(error.to_string()))
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
