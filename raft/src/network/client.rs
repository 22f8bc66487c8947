//! Calling peers: mutual TLS, HTTP/2, one connection a peer and purpose, so that
//! a snapshot never holds up a heartbeat.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Body, Certificate, Client, Identity, Response as HttpResponse, StatusCode};
use storage::codec;

use crate::network::identity::LocalNode;
use crate::network::log_throttle::LogThrottle;
use crate::network::message::{MESSAGE_BYTES_MAX, WINDOW_BYTES};
use crate::network::message::{PeerIdentity, PeerRejection, Request, Response, Rpc, RpcResponse};
use crate::types::NodeId;

/// How long a peer may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_000);
/// How often a connection is checked, and how long the other side may take.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));

/// PEM texts with which a node shows itself to its peers.
#[derive(Clone)]
pub struct PeerTls {
    /// The authority that signed all nodes of the cluster.
    pub authority: Vec<u8>,
    /// This node's certificate chain.
    pub certificate: Vec<u8>,
    /// Its private key.
    pub key: Vec<u8>,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
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

/// Why a call brought no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RpcError {
    /// It never arrived: nothing happened.
    #[error("not reached: {0}")]
    NotSent(String),
    /// It may have arrived.
    #[error("no answer: {0}")]
    Lost(String),
    /// One side does not deal with the other: nothing happened.
    #[error("refused: {0}")]
    Refused(#[from] PeerRejection),
}

/// Calls to all peers.
pub(crate) struct Peers {
    pub(crate) local: Arc<LocalNode>,
    raft: Client,
    forward: Client,
    snapshot: Client,
    /// What was last wrong with each peer.
    log_throttle: LogThrottle,
}

impl Peers {
    pub(crate) fn new(local: Arc<LocalNode>, tls: &PeerTls) -> Result<Self, reqwest::Error> {
        let (raft, forward, snapshot) = (client(tls)?, client(tls)?, client(tls)?);
        Ok(Self { local, raft, forward, snapshot, log_throttle: LogThrottle::default() })
    }

    /// Calls the node at `address`, which must be `to` if that is given.
    pub(crate) async fn call(
        &self,
        lane: Channel,
        to: NodeId,
        address: &str,
        call: Rpc,
        timeout: Duration,
    ) -> Result<RpcResponse, RpcError> {
        if is_partitioned(to) {
            return Err(RpcError::NotSent("cut off by a test".into()));
        }
        let request = self.request(Some(to), call);
        let called = self.send(lane, address, codec::encode(&request).into());
        match tokio::time::timeout(timeout, called).await {
            Ok(Ok(response)) => self.accept(to, response),
            Ok(Err(error)) => {
                if self.log_throttle.is_new(to, &error) {
                    tracing::warn!(peer = to, address, %error, "a peer does not answer");
                }
                Err(error)
            }
            // Slow is not gone.
            Err(_) => Err(RpcError::Lost(format!("nothing within {} ms", timeout.as_millis()))),
        }
    }

    /// Asks whoever is at `address` who they are, and whether they ever belonged to a
    /// cluster.
    pub(crate) async fn introduce(
        &self,
        address: &str,
        timeout: Duration,
    ) -> Result<(PeerIdentity, bool), RpcError> {
        let body = codec::encode(&self.request(None, Rpc::Introduce)).into();
        let sent = tokio::time::timeout(timeout, self.send(Channel::Raft, address, body)).await;
        let response = sent.map_err(|_| RpcError::Lost("nothing in time".into()))??;
        match response.result? {
            RpcResponse::Introduced { pristine } => Ok((response.from, pristine)),
            _ => Err(RpcError::Lost("the peer answered another question".into())),
        }
    }

    /// A request with everything that this node says of itself.
    pub(crate) fn request(&self, to: Option<NodeId>, call: Rpc) -> Request {
        let incarnation = to.and_then(|node| self.local.known_incarnation(node));
        Request {
            from: self.local.peer_identity(),
            to,
            incarnation,
            clocks: self.local.clocks(),
            call,
        }
    }

    /// Sends a body and reads the answer.
    pub(crate) async fn send(
        &self,
        lane: Channel,
        address: &str,
        body: Body,
    ) -> Result<Response, RpcError> {
        let client = match lane {
            Channel::Raft => &self.raft,
            Channel::Forward => &self.forward,
            Channel::Snapshot => &self.snapshot,
        };
        let sent = client.post(format!("https://{address}{}", lane.path())).body(body).send().await;
        let answer = sent.map_err(|error| match error.is_connect() {
            true => RpcError::NotSent(causes(&error)),
            false => RpcError::Lost(causes(&error)),
        })?;
        match answer.status() {
            StatusCode::OK => {}
            // Said before anything was done with the call.
            status if status.is_client_error() => {
                return Err(RpcError::NotSent(format!("the peer answered {status}")));
            }
            status => return Err(RpcError::Lost(format!("the peer answered {status}"))),
        }
        let bytes = bounded(answer).await?;
        codec::decode(&bytes).map_err(|error| RpcError::Lost(error.to_string()))
    }

    /// Checks who answered, and takes note of its clocks.
    pub(crate) fn accept(&self, to: NodeId, response: Response) -> Result<RpcResponse, RpcError> {
        let from = response.from;
        let admitted = match from.node == to {
            true => self.local.check_peer(&from),
            false => Err(PeerRejection::NotMe),
        };
        let note = |refused: PeerRejection| {
            if self.log_throttle.is_new(to, &refused) {
                tracing::error!(peer = to, reason = %refused, "a peer and this node refuse each other");
            }
        };
        if let Err(refused) = admitted {
            note(refused);
            // It may have done what was asked before this node ceased to believe it.
            return Err(RpcError::Lost(format!("the answer is not believed: {refused}")));
        }
        let returned = response.result.inspect_err(|refused| note(*refused))?;
        if self.log_throttle.clear(to) {
            tracing::info!(peer = to, "a peer answers again");
        }
        self.local.contact.heard(from.node, response.clocks, self.local.wall_clock.now());
        Ok(returned)
    }
}

/// Never, but in tests of networks that let only some nodes reach each other: a file
/// names those that this one does not reach.
fn is_partitioned(node: NodeId) -> bool {
    fail::fail_point!("peer-cut", |file| {
        let cut = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
        cut.split_whitespace().any(|cut| cut == node.to_string())
    });
    // The macro leaves nothing of it otherwise.
    let _ = node;
    false
}

/// An HTTP client says only what it was doing; why it failed stands in the causes.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn bounded(mut answer: HttpResponse) -> Result<Vec<u8>, RpcError> {
    let mut bytes = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= MESSAGE_BYTES_MAX => {
                bytes.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => return Err(RpcError::Lost("the answer is too long".into())),
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(RpcError::Lost(causes(&error))),
        }
    }
}

fn client(tls: &PeerTls) -> Result<Client, reqwest::Error> {
    let identity = [&tls.certificate[..], b"\n", &tls.key].concat();
    Client::builder()
        .tls_certs_only(Certificate::from_pem_bundle(&tls.authority)?)
        .identity(Identity::from_pem(&identity)?)
        .https_only(true)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_initial_stream_window_size(WINDOW_BYTES)
        .http2_initial_connection_window_size(WINDOW_BYTES)
        .http2_keep_alive_interval(KEEP_ALIVE.0)
        .http2_keep_alive_timeout(KEEP_ALIVE.1)
        .http2_keep_alive_while_idle(true)
        .build()
}
