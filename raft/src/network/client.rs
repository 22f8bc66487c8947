//! The client for peers: it encodes calls and checks who responded. `transport` carries the bytes.

use std::sync::Arc;
use std::time::Duration;

use storage::codec;
use storage::model::cluster::GROUP;
use storage::model::release::Release;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::Claim;
use crate::network::identity::LocalNode;
use crate::network::log_throttle::LogThrottle;
use crate::network::message::{
    PeerIdentity, PeerRejection, Request, Response, Rpc, RpcError, RpcResponse,
};
use crate::network::transfer::SentSnapshot;
use crate::network::transport::{Channel, Transport};
use crate::timings::Timings;
use crate::types::NodeId;

/// What a node says of itself.
pub(crate) struct Identified {
    pub(crate) from: PeerIdentity,
    /// Whether it has never belonged to a cluster.
    pub(crate) is_pristine: bool,
    pub(crate) release: Release,
}

pub(crate) struct Peers {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) transport: Arc<dyn Transport>,
    log_throttle: LogThrottle,
    pub(crate) timings: Timings,
    /// Counts uses of other certificates.
    pub(crate) reloads: watch::Sender<u64>,
}

impl Peers {
    pub(crate) fn new(
        local: Arc<LocalNode>,
        transport: Arc<dyn Transport>,
        timings: Timings,
    ) -> Self {
        let (log_throttle, reloads) = (LogThrottle::default(), watch::Sender::new(0));
        Self { local, transport, log_throttle, timings, reloads }
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
        decode(&self.transport.call(channel, address, message, claim).await?)
    }

    /// Sends a snapshot, and waits until the peer has installed it.
    pub(crate) async fn send_snapshot(
        &self,
        to: NodeId,
        address: &str,
        snapshot: SentSnapshot,
    ) -> Result<RpcResponse, RpcError> {
        let response = self.transport.send_snapshot(address, snapshot).await?;
        self.accept(to, Channel::Snapshot, decode(&response)?)
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

fn decode(response: &[u8]) -> Result<Response, RpcError> {
    codec::decode(response).map_err(|error| RpcError::Lost(error.to_string()))
}
