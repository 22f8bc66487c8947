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
use storage::span::{child, child_of};
use tokio::time::Instant;
use tracing::Span;

use crate::error::{ReadError, SubmitError, SubmitResult};
use crate::grants::{Grant, GrantRequest};
use crate::membership::operations::Operations;
use crate::network::message::{Rpc, RpcError, RpcResponse};
use crate::network::transport::Channel;
use crate::operation::{OperateError, OperateResult, Operation, OperationResult};
use crate::shared::Shared;
use crate::span::RemoteSpan;
use crate::types::NodeId;

/// Maximum wait for a leader; longer than an election.
const LEADER_WAIT: Duration = Duration::from_secs(4);
/// Pause between two lookups of the leader.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Time for the responses of a former leader after the leader has changed.
const LEADER_CHANGE_GRACE: Duration = Duration::from_millis(50);

enum Leader {
    Local,
    Peer(NodeId, String),
}

/// Repeats `attempt` with the present leader while it returns `no_leader`, which means that it
/// had no effect. Returns `no_leader` when the time is over.
async fn on_leader<T, E: PartialEq, F: Future<Output = Result<T, E>>>(
    shared: &Shared,
    deadline: Instant,
    no_leader: E,
    attempt: impl Fn(Leader) -> F,
) -> Result<T, E> {
    let give_up_at = deadline.min(Instant::now() + LEADER_WAIT);
    loop {
        if let Some(leader) = present_leader(shared) {
            let result = attempt(leader).await;
            if result.as_ref().err() != Some(&no_leader) {
                return result;
            }
        }
        if Instant::now() >= give_up_at {
            return Err(no_leader);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

fn present_leader(shared: &Shared) -> Option<Leader> {
    let metrics = shared.raft.metrics();
    let metrics = metrics.borrow_watched();
    let leader = metrics.current_leader?;
    if leader == shared.local.node {
        return Some(Leader::Local);
    }
    let address = metrics.membership_config.membership().get_node(&leader)?;
    Some(Leader::Peer(leader, address.clone()))
}

/// Waits until a node has led, and its responses have had time to arrive.
async fn former_leader(shared: &Shared, node: NodeId) {
    shared.leader_changed(node).await;
    tokio::time::sleep(LEADER_CHANGE_GRACE).await;
}

pub(crate) async fn submit(shared: &Shared, command: Command, deadline: Instant) -> SubmitResult {
    // One for all attempts: without a leader, there are many.
    let span = &child("forward");
    let attempt = |leader| submit_to(leader, shared, command.clone(), deadline, span);
    on_leader(shared, deadline, SubmitError::NoLeader, attempt).await
}

async fn submit_to(
    leader: Leader,
    shared: &Shared,
    command: Command,
    deadline: Instant,
    span: &Span,
) -> SubmitResult {
    let Leader::Peer(node, address) = leader else {
        return shared.submit(command, deadline, || child_of(span, "submit")).await;
    };
    let timeout = deadline.saturating_duration_since(Instant::now());
    let call = Rpc::Submit { command: Box::new(command), span: RemoteSpan::of(span) };
    shared.totals.lock().forwarded += 1;
    let response = tokio::select! {
        response = shared.peers.call(Channel::Forward, node, &address, call, timeout) => response,
        () = former_leader(shared, node) => return Err(SubmitError::Unknown),
    };
    match response {
        Ok(RpcResponse::Submitted(submitted, is_shared)) => {
            if is_shared {
                shared.used.leader.record_shared(Instant::now());
            }
            submitted
        }
        Err(RpcError::NotSent(_) | RpcError::Rejected(_)) => Err(SubmitError::NoLeader),
        Ok(_) | Err(RpcError::Lost(_)) => Err(SubmitError::Unknown),
    }
}

/// Requests the leader's read index. A local read at this index includes everything
/// acknowledged before this call.
pub(crate) async fn read_index(shared: &Shared, deadline: Instant) -> Result<u64, ReadError> {
    let _span = child("read_index");
    on_leader(shared, deadline, ReadError::NoLeader, |leader| async move {
        let index = tokio::time::timeout_at(deadline, read_index_of(leader, shared, deadline));
        index.await.ok().flatten().ok_or(ReadError::NoLeader)
    })
    .await
}

async fn read_index_of(leader: Leader, shared: &Shared, deadline: Instant) -> Option<u64> {
    let Leader::Peer(node, address) = leader else { return shared.read_index().await };
    let timeout = deadline.saturating_duration_since(Instant::now()).min(LEADER_WAIT);
    let response = tokio::select! {
        response = shared.peers.call(Channel::Forward, node, &address, Rpc::ReadIndex, timeout) => {
            response.ok()?
        }
        () = shared.leader_changed(node) => return None,
    };
    if let RpcResponse::ReadIndex(index) = response { index } else { None }
}

/// Requests grants of the leader. `None` without a leader that responds by `deadline`.
pub(crate) async fn grant(
    shared: &Shared,
    request: &GrantRequest,
    deadline: Instant,
) -> Option<Grant> {
    let (node, address) = match present_leader(shared)? {
        Leader::Local => return shared.grant(shared.local.node, request),
        Leader::Peer(node, address) => (node, address),
    };
    let timeout = deadline.saturating_duration_since(Instant::now());
    let call = Rpc::Grant(request.clone());
    match shared.peers.call(Channel::Forward, node, &address, call, timeout).await {
        Ok(RpcResponse::Granted(grant)) => grant,
        _ => None,
    }
}

pub(crate) async fn operate(
    shared: &Shared,
    operation: Operation,
    deadline: Instant,
) -> OperateResult<OperationResult> {
    let attempt = |leader| operate_on(leader, shared, operation.clone(), deadline);
    on_leader(shared, deadline, OperateError::NoLeader, attempt).await
}

async fn operate_on(
    leader: Leader,
    shared: &Shared,
    operation: Operation,
    deadline: Instant,
) -> OperateResult<OperationResult> {
    let Leader::Peer(node, address) = leader else {
        return Operations { shared, deadline }.operate(operation).await;
    };
    let timeout = deadline.saturating_duration_since(Instant::now());
    // Without an effect, it may be repeated at the next leader.
    let is_read = matches!(operation, Operation::Status | Operation::Clock);
    let call = Rpc::Operate(operation);
    let response = tokio::select! {
        response = shared.peers.call(Channel::Forward, node, &address, call, timeout) => response,
        () = former_leader(shared, node) => {
            return Err(if is_read { OperateError::NoLeader } else { OperateError::Unknown });
        }
    };
    match response {
        Ok(RpcResponse::OperationResult(result)) => result,
        Err(RpcError::NotSent(_) | RpcError::Rejected(_)) => Err(OperateError::NoLeader),
        Ok(_) | Err(RpcError::Lost(_)) => Err(OperateError::Unknown),
    }
}
