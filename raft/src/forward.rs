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

use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use storage::Command;
use tokio::time::Instant;

use crate::error::{ReadError, SubmitError, SubmitResult};
use crate::membership::operations::Operator;
use crate::network::client::{Channel, RpcError};
use crate::network::message::{Rpc, RpcResponse};
use crate::operation::{Operate, OperateError, Operation, OperationResult};
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

enum Leader {
    Local,
    Peer(NodeId, String),
}

/// The leaders for the attempts of one call.
struct Leaders<'a> {
    shared: &'a Shared,
    give_up_at: Instant,
    is_first: bool,
}

impl<'a> Leaders<'a> {
    fn until(deadline: Instant, shared: &'a Shared) -> Self {
        Self { shared, give_up_at: deadline.min(Instant::now() + LEADER_WAIT), is_first: true }
    }

    /// Waits for the leader of the next attempt; `None` when the time is over. Call it again
    /// only after an attempt that had no effect.
    async fn next(&mut self) -> Option<Leader> {
        loop {
            if !std::mem::take(&mut self.is_first) {
                if Instant::now() >= self.give_up_at {
                    return None;
                }
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            if let Some(leader) = self.present() {
                return Some(leader);
            }
        }
    }

    fn present(&self) -> Option<Leader> {
        let metrics = self.shared.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leader = metrics.current_leader?;
        if leader == self.shared.local.node {
            return Some(Leader::Local);
        }
        let address = metrics.membership_config.membership().get_node(&leader)?;
        Some(Leader::Peer(leader, address.clone()))
    }
}

pub(crate) async fn submit(shared: &Shared, command: Command, deadline: Instant) -> SubmitResult {
    let mut leaders = Leaders::until(deadline, shared);
    while let Some(leader) = leaders.next().await {
        let command = command.clone();
        let submitted = match leader {
            Leader::Local => shared.submit(command, deadline).await,
            Leader::Peer(node, address) => {
                let timeout = deadline.saturating_duration_since(Instant::now());
                let call = Rpc::Submit { command, timeout_micros: remote_timeout_micros(timeout) };
                shared.totals().forwarded += 1;
                let leader_changed = async {
                    leader_changed(shared, node).await;
                    tokio::time::sleep(LEADER_CHANGE_GRACE).await;
                };
                let response = tokio::select! {
                    response = shared.peers.call(Channel::Forward, node, &address, call, timeout) => {
                        response
                    }
                    () = leader_changed => return Err(SubmitError::Unknown),
                };
                match response {
                    Ok(RpcResponse::Submitted(submitted)) => submitted,
                    Err(RpcError::NotSent(_) | RpcError::Rejected(_)) => continue,
                    Ok(_) | Err(RpcError::Lost(_)) => Err(SubmitError::Unknown),
                }
            }
        };
        if submitted != Err(SubmitError::NoLeader) {
            return submitted;
        }
    }
    Err(SubmitError::NoLeader)
}

/// Requests the leader's read index. A local read at this index includes everything
/// acknowledged before this call.
pub(crate) async fn read_index(shared: &Shared, deadline: Instant) -> Result<u64, ReadError> {
    let mut leaders = Leaders::until(deadline, shared);
    while let Some(leader) = leaders.next().await {
        let index = match leader {
            Leader::Local => {
                tokio::time::timeout_at(deadline, shared.read_index()).await.ok().flatten()
            }
            Leader::Peer(node, address) => {
                let remaining = deadline.saturating_duration_since(Instant::now());
                let timeout = remaining.min(LEADER_WAIT);
                let (peers, call) = (&shared.peers, Rpc::ReadIndex);
                tokio::select! {
                    response = peers.call(Channel::Forward, node, &address, call, timeout) => {
                        match response {
                            Ok(RpcResponse::ReadIndex(index)) => index,
                            _ => None,
                        }
                    }
                    () = leader_changed(shared, node) => None,
                }
            }
        };
        if let Some(index) = index {
            return Ok(index);
        }
    }
    Err(ReadError::NoLeader)
}

pub(crate) async fn operate(
    shared: &Shared,
    operation: Operation,
    deadline: Instant,
) -> Operate<OperationResult> {
    let mut leaders = Leaders::until(deadline, shared);
    while let Some(leader) = leaders.next().await {
        let operation = operation.clone();
        let result = match leader {
            Leader::Local => Operator { shared, deadline }.operate(operation).await,
            Leader::Peer(node, address) => {
                let timeout = deadline.saturating_duration_since(Instant::now());
                let timeout_micros = remote_timeout_micros(timeout);
                let call = Rpc::Operate { operation, timeout_micros };
                match shared.peers.call(Channel::Forward, node, &address, call, timeout).await {
                    Ok(RpcResponse::OperationResult(result)) => result,
                    Err(RpcError::NotSent(_) | RpcError::Rejected(_)) => continue,
                    Ok(_) | Err(RpcError::Lost(_)) => Err(OperateError::Unknown),
                }
            }
        };
        if result != Err(OperateError::NoLeader) {
            return result;
        }
    }
    Err(OperateError::NoLeader)
}

/// Waits until `node` is no longer the leader in this node's metrics.
async fn leader_changed(shared: &Shared, node: NodeId) {
    shared.wait_metrics(|metrics| (metrics.current_leader != Some(node)).then_some(())).await;
}

/// The leader's timeout for a call with `timeout` remaining here.
fn remote_timeout_micros(timeout: Duration) -> u64 {
    u64::try_from(timeout.saturating_sub(RESPONSE_MARGIN).as_micros()).unwrap_or(u64::MAX)
}
