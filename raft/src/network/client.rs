//! The client for peers: HTTP/2 over mutual TLS, with one connection per peer and channel. A
//! snapshot therefore never delays a heartbeat.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use reqwest::{Body, Certificate, Client, Identity, Response as HttpResponse, StatusCode};
use storage::codec;
use storage::model::cluster::GROUP;

use crate::network::identity::LocalNode;
use crate::network::log_throttle::LogThrottle;
use crate::network::message::{MESSAGE_BYTES_MAX, WINDOW_BYTES};
use crate::network::message::{PeerIdentity, PeerRejection, Request, Response, Rpc, RpcResponse};
use crate::types::NodeId;

const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Time without a response to a ping after which a connection is closed.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum characters of a peer's error text that are kept.
const REASON_CHARS_MAX: usize = 300;

/// Certificates of a node for its connections to peers, as PEM texts.
#[derive(Clone)]
pub struct PeerTls {
    /// Certificate of the authority that signs all nodes' certificates.
    pub authority: Vec<u8>,
    /// This node's certificate chain.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// The purpose of a connection. Its task runs where its first call was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// Calls that only Raft's threads make, so that no other load delays them.
    Raft,
    Forward,
    Snapshot,
}

impl Channel {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Raft => "/peer/raft",
            Self::Forward => "/peer/forward",
            Self::Snapshot => "/peer/snapshot",
        }
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RpcError {
    /// The peer did not receive it; no effect.
    #[error("not delivered: {0}")]
    NotSent(String),
    /// The peer may have received it; the effect is unknown.
    #[error("no response: {0}")]
    Lost(String),
    /// The peer rejected it; no effect.
    #[error("rejected: {0}")]
    Rejected(#[from] PeerRejection),
}

pub(crate) struct Peers {
    pub(crate) local: Arc<LocalNode>,
    /// One client per [`Channel`].
    clients: RwLock<[Client; 3]>,
    log_throttle: LogThrottle,
}

impl Peers {
    pub(crate) fn new(local: Arc<LocalNode>, tls: &PeerTls) -> Result<Self, reqwest::Error> {
        let clients = RwLock::new(clients(tls)?);
        Ok(Self { local, clients, log_throttle: LogThrottle::default() })
    }

    /// Uses other certificates for calls from here on. They open new connections; calls in
    /// progress complete on the old ones. After an error nothing changes.
    pub(crate) fn reload(&self, tls: &PeerTls) -> Result<(), reqwest::Error> {
        *self.clients.write() = clients(tls)?;
        Ok(())
    }

    pub(crate) async fn call(
        &self,
        channel: Channel,
        to: NodeId,
        address: &str,
        call: Rpc,
        timeout: Duration,
    ) -> Result<RpcResponse, RpcError> {
        let request = self.request(Some(to), call);
        let called = self.send(channel, address, codec::encode(&request).into());
        match tokio::time::timeout(timeout, called).await {
            Ok(Ok(response)) => self.accept(to, response),
            Ok(Err(error)) => {
                if self.log_throttle.is_new(to, &error) {
                    tracing::warn!(peer = to, address, %error, "peer not reachable");
                }
                Err(error)
            }
            // Not logged: the peer may be slow only.
            Err(_) => Err(RpcError::Lost(format!("timeout after {} ms", timeout.as_millis()))),
        }
    }

    /// A call of the Raft channel in a task of its own, for callers that may drop it: a dropped call
    /// would abort a connection in progress, for which other calls wait.
    pub(crate) async fn call_in_task(
        self: &Arc<Self>,
        to: NodeId,
        address: &str,
        call: Rpc,
        timeout: Duration,
    ) -> Result<RpcResponse, RpcError> {
        let (peers, address) = (Arc::clone(self), address.to_owned());
        let called =
            tokio::spawn(
                async move { peers.call(Channel::Raft, to, &address, call, timeout).await },
            );
        called.await.unwrap_or_else(|error| Err(RpcError::Lost(error.to_string())))
    }

    /// Returns the identity of the node at `address`, and whether it is pristine.
    pub(crate) async fn identify(
        &self,
        channel: Channel,
        address: &str,
        timeout: Duration,
    ) -> Result<(PeerIdentity, bool), RpcError> {
        let body = codec::encode(&self.request(None, Rpc::Identify)).into();
        let sent = tokio::time::timeout(timeout, self.send(channel, address, body)).await;
        let response = sent.map_err(|_| RpcError::Lost("timeout".into()))??;
        match response.result? {
            RpcResponse::Identified(pristine) => Ok((response.from, pristine)),
            _ => Err(RpcError::Lost("the response does not match the request".into())),
        }
    }

    /// A request with the identity and the clocks of this node.
    pub(crate) fn request(&self, to: Option<NodeId>, call: Rpc) -> Request {
        let incarnation = to.and_then(|node| self.local.recorded_incarnation(node));
        Request {
            group: GROUP,
            from: self.local.peer_identity(),
            to,
            incarnation,
            clocks: self.local.clocks(),
            call,
        }
    }

    pub(crate) async fn send(
        &self,
        channel: Channel,
        address: &str,
        body: Body,
    ) -> Result<Response, RpcError> {
        if is_cut(address) {
            return Err(RpcError::NotSent("partitioned by a test".into()));
        }
        let url = format!("https://{address}{}", channel.path());
        let client = self.clients.read()[channel as usize].clone();
        let sent = client.post(url).body(body).send().await;
        let response = sent.map_err(|error| match error.is_connect() {
            true => RpcError::NotSent(causes(&error)),
            false => RpcError::Lost(causes(&error)),
        })?;
        match response.status() {
            StatusCode::OK => {}
            // A client error means that the peer did not process the request.
            status if status.is_client_error() => {
                let reason = read_reason(response).await;
                return Err(RpcError::NotSent(format!("HTTP status {status}: {reason}")));
            }
            status => return Err(RpcError::Lost(format!("HTTP status {status}"))),
        }
        let bytes = read_bounded(response).await?;
        if is_cut(&format!("from:{address}")) {
            // The response is lost: only the caller's timeout ends the call.
            std::future::pending::<()>().await;
        }
        codec::decode(&bytes).map_err(|error| RpcError::Lost(error.to_string()))
    }

    /// Checks the identity in a response, and records its clocks.
    pub(crate) fn accept(&self, to: NodeId, response: Response) -> Result<RpcResponse, RpcError> {
        let from = response.from;
        let checked = match from.node == to {
            true => self.local.check_peer(&from),
            false => Err(PeerRejection::OtherNode),
        };
        if let Err(rejection) = checked {
            self.log_rejection(to, rejection);
            // The peer may have processed the call, so its effect is unknown.
            return Err(RpcError::Lost(format!("response from an invalid peer: {rejection}")));
        }
        let result = response.result.inspect_err(|rejection| self.log_rejection(to, *rejection))?;
        if self.log_throttle.clear(to) {
            tracing::info!(peer = to, "peer reachable again");
        }
        let boottime = self.local.clock.read().boottime;
        self.local.contact.record_clocks(from.node, response.clocks, boottime);
        Ok(result)
    }

    fn log_rejection(&self, peer: NodeId, rejection: PeerRejection) {
        if self.log_throttle.is_new(peer, &rejection) {
            tracing::error!(peer, reason = %rejection, "call to peer rejected");
        }
    }
}

/// Whether a test has cut a path of the network. The failpoint names a file with the paths:
/// `host:port` loses requests to that peer, `from:host:port` loses its responses. Always false
/// without failpoints.
fn is_cut(path: &str) -> bool {
    fail::fail_point!("peer-cut", |file| {
        let paths = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        paths.split_whitespace().any(|cut| cut == path)
    });
    // Without failpoints the macro expands to nothing, and `path` would be unused.
    let _ = path;
    false
}

/// The error with its causes. An error of the HTTP client itself names the step only.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
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

/// The text of an error response. It names the format if the peer could not read it.
async fn read_reason(response: HttpResponse) -> String {
    let bytes = read_bounded(response).await.unwrap_or_default();
    String::from_utf8_lossy(&bytes).chars().take(REASON_CHARS_MAX).collect()
}

fn clients(tls: &PeerTls) -> Result<[Client; 3], reqwest::Error> {
    Ok([client(tls)?, client(tls)?, client(tls)?])
}

fn client(tls: &PeerTls) -> Result<Client, reqwest::Error> {
    let identity = [&tls.certificate[..], b"\n", &tls.key].concat();
    Client::builder()
        .tls_certs_only(Certificate::from_pem_bundle(&tls.authority)?)
        .identity(Identity::from_pem(&identity)?)
        .https_only(true)
        // Without it, each call that finds no open connection opens one.
        .http2_prior_knowledge()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_initial_stream_window_size(WINDOW_BYTES)
        .http2_initial_connection_window_size(WINDOW_BYTES)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .http2_keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build()
}
