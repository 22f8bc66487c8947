//! Forwarding to the leader: commands, read indexes and operations run on the leader, whichever
//! node receives them from a client.
//!
//! # Problem
//! A client may use any node. The leader may change at any time, also while a command is on its
//! way. A command that is sent twice could take effect twice. A command that is never sent again
//! fails during every election.
//!
//! # Algorithm
//! Find the leader in raft's metrics and send it the call. The leader runs the call itself and
//! never forwards it. On `NoLeader`, wait for a leader and repeat, for [`LEADER_WAIT`] at most.
//!
//! # Invariants
//! - A command is sent again only if its last attempt certainly had no effect: the peer was not
//!   reached, rejected the call, or returned `NoLeader`.
//! - A lost response ends the command as `Unknown`. The caller decides whether to repeat it, with
//!   its idempotency key.
//! - A read index has no effect, so it is requested again after every failure.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use storage::Command;
use tokio::time::Instant;

use crate::error::{Outcome, ReadError, SubmitError};
use crate::membership::operations::Operator;
use crate::network::client::{Channel, Peers, RpcError};
use crate::network::message::{Rpc, RpcResponse};
use crate::operation::{OperateError, Operation, OperationResult};
use crate::shared::Shared;
use crate::types::NodeId;

/// Maximum wait for a leader; longer than an election.
const LEADER_WAIT: Duration = Duration::from_secs(4);
/// Pause between two lookups of the leader.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The leader's timeout ends this much before the caller's, so that the response arrives.
const RESPONSE_MARGIN: Duration = Duration::from_millis(100);
/// Time for the responses of a former leader after the leader has changed.
const LEADER_CHANGE_GRACE: Duration = Duration::from_millis(500);

/// Forwards calls to the leader.
pub(crate) struct Forward {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peers: Arc<Peers>,
}

/// The present leader.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Leader {
    Local,
    Peer(NodeId, String),
}

/// Progress of one call through its attempts.
struct LeaderRetry {
    give_up_at: Instant,
    is_first: bool,
}

impl LeaderRetry {
    fn until(deadline: Instant) -> Self {
        Self { give_up_at: deadline.min(Instant::now() + LEADER_WAIT), is_first: true }
    }
}

impl Forward {
    /// Submits a command to the leader.
    pub(crate) async fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        let mut retry = LeaderRetry::until(deadline);
        while let Some(leader) = self.next_leader(&mut retry).await {
            let submitted = match leader {
                Leader::Local => self.shared.submit(command.clone(), deadline).await,
                Leader::Peer(node, address) => {
                    self.submit_to(node, &address, command.clone(), deadline).await
                }
            };
            match submitted {
                Err(SubmitError::NoLeader) => {}
                submitted => return submitted,
            }
        }
        Err(SubmitError::NoLeader)
    }

    async fn submit_to(
        &self,
        node: NodeId,
        address: &str,
        command: Command,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let call = Rpc::Submit { command, timeout_micros: remote_timeout_micros(timeout) };
        self.shared.counters.forwarded.fetch_add(1, Ordering::Relaxed);
        let response = self.peers.call(Channel::Forward, node, address, call, timeout);
        let leader_changed = async {
            self.leader_changed(node).await;
            tokio::time::sleep(LEADER_CHANGE_GRACE).await;
        };
        let response = tokio::select! {
            response = response => response,
            () = leader_changed => return Err(SubmitError::Unknown),
        };
        match response {
            Ok(RpcResponse::Submitted(submitted)) => submitted,
            Err(RpcError::NotSent(_) | RpcError::Rejected(_)) => Err(SubmitError::NoLeader),
            Ok(_) | Err(RpcError::Lost(_)) => Err(SubmitError::Unknown),
        }
    }

    /// Requests the leader's read index. A local read at this index includes everything
    /// acknowledged before this call.
    pub(crate) async fn read_index(&self, deadline: Instant) -> Result<u64, ReadError> {
        let mut retry = LeaderRetry::until(deadline);
        while let Some(leader) = self.next_leader(&mut retry).await {
            let index = match leader {
                Leader::Local => {
                    tokio::time::timeout_at(deadline, self.shared.read_index()).await.ok().flatten()
                }
                Leader::Peer(node, address) => self.read_index_of(node, &address, deadline).await,
            };
            if let Some(index) = index {
                return Ok(index);
            }
        }
        Err(ReadError::NoLeader)
    }

    async fn read_index_of(&self, node: NodeId, address: &str, deadline: Instant) -> Option<u64> {
        let timeout = deadline.saturating_duration_since(Instant::now()).min(LEADER_WAIT);
        let response = self.peers.call(Channel::Forward, node, address, Rpc::ReadIndex, timeout);
        tokio::select! {
            response = response => match response {
                Ok(RpcResponse::ReadIndex { index }) => index,
                _ => None,
            },
            () = self.leader_changed(node) => None,
        }
    }

    /// Runs an operation on the leader.
    pub(crate) async fn operate(
        &self,
        operation: Operation,
        deadline: Instant,
    ) -> Result<OperationResult, OperateError> {
        let mut retry = LeaderRetry::until(deadline);
        while let Some(leader) = self.next_leader(&mut retry).await {
            let result = match leader {
                Leader::Local => {
                    let (shared, peers) = (&*self.shared, &*self.peers);
                    Operator { shared, peers, deadline }.operate(operation.clone()).await
                }
                Leader::Peer(node, address) => {
                    self.operate_at(node, &address, operation.clone(), deadline).await
                }
            };
            match result {
                Err(OperateError::NoLeader) => {}
                result => return result,
            }
        }
        Err(OperateError::NoLeader)
    }

    async fn operate_at(
        &self,
        node: NodeId,
        address: &str,
        operation: Operation,
        deadline: Instant,
    ) -> Result<OperationResult, OperateError> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let call = Rpc::Operate { operation, timeout_micros: remote_timeout_micros(timeout) };
        match self.peers.call(Channel::Forward, node, address, call, timeout).await {
            Ok(RpcResponse::OperationResult(result)) => result,
            Err(RpcError::NotSent(_) | RpcError::Rejected(_)) => Err(OperateError::NoLeader),
            Ok(_) | Err(RpcError::Lost(_)) => Err(OperateError::Unknown),
        }
    }

    /// Waits for the leader of the next attempt; `None` when the time is over. Call it again
    /// only after an attempt that had no effect.
    async fn next_leader(&self, retry: &mut LeaderRetry) -> Option<Leader> {
        if std::mem::take(&mut retry.is_first)
            && let Some(leader) = self.leader()
        {
            return Some(leader);
        }
        while Instant::now() < retry.give_up_at {
            tokio::time::sleep(RETRY_PAUSE).await;
            if let Some(leader) = self.leader() {
                return Some(leader);
            }
        }
        None
    }

    fn leader(&self) -> Option<Leader> {
        let metrics = self.shared.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        if leader == self.shared.local.node {
            return Some(Leader::Local);
        }
        let peer = metrics.membership_config.membership().get_node(&leader)?;
        Some(Leader::Peer(leader, peer.address.clone()))
    }

    /// Waits until `node` is no longer the leader in this node's metrics.
    async fn leader_changed(&self, node: NodeId) {
        let mut metrics = self.shared.raft.server_metrics();
        while metrics.borrow_watched().current_leader == Some(node) {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }
}

/// The leader's timeout for a call that has `timeout` left here.
fn remote_timeout_micros(timeout: Duration) -> u64 {
    u64::try_from(timeout.saturating_sub(RESPONSE_MARGIN).as_micros()).unwrap_or(u64::MAX)
}
