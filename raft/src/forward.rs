//! To the leader, wherever it is: commands go there once and are decided there or
//! nowhere; reads ask it which index to wait for. A command is sent again only
//! while the last answer meant that nothing had happened.

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

/// How long a command or a read waits for somebody to lead: longer than an election.
const LEADER_WAIT: Duration = Duration::from_secs(4);
/// Pause before the same leader is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The leader gives up so much earlier than the caller, so that its status arrives.
const ANSWER_TIME: Duration = Duration::from_millis(100);
/// How long a leader that leads no more may take for its last answers.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The way to the leader.
pub(crate) struct Forward {
    pub(crate) shared: Arc<Shared>,
    pub(crate) peers: Arc<Peers>,
}

/// Where the leader is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Leader {
    Local,
    Peer(NodeId, String),
}

/// LeaderRetry at asking whoever leads.
struct LeaderRetry {
    patience: Instant,
    first: bool,
}

impl LeaderRetry {
    fn until(deadline: Instant) -> Self {
        Self { patience: deadline.min(Instant::now() + LEADER_WAIT), first: true }
    }
}

impl Forward {
    /// Has the leader decide a command.
    pub(crate) async fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Outcome, SubmitError> {
        let mut turns = LeaderRetry::until(deadline);
        while let Some(leader) = self.turn(&mut turns).await {
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
        let left = deadline.saturating_duration_since(Instant::now());
        let call = Rpc::Submit { command, patience_micros: patience_micros(left) };
        self.shared.counters.forwarded.fetch_add(1, Ordering::Relaxed);
        let called = self.peers.call(Channel::Forward, node, address, call, left);
        let gone = async {
            self.leader_changed(node).await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        let returned = tokio::select! {
            returned = called => returned,
            () = gone => return Err(SubmitError::Unknown),
        };
        match returned {
            Ok(RpcResponse::Submitted(submitted)) => submitted,
            Err(RpcError::NotSent(_) | RpcError::Refused(_)) => Err(SubmitError::NoLeader),
            Ok(_) | Err(RpcError::Lost(_)) => Err(SubmitError::Unknown),
        }
    }

    /// Index at which a local read sees everything acknowledged before this call.
    pub(crate) async fn read_index(&self, deadline: Instant) -> Result<u64, ReadError> {
        let mut turns = LeaderRetry::until(deadline);
        while let Some(leader) = self.turn(&mut turns).await {
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
        let left = deadline.saturating_duration_since(Instant::now()).min(LEADER_WAIT);
        let asked = self.peers.call(Channel::Forward, node, address, Rpc::ReadIndex, left);
        tokio::select! {
            asked = asked => match asked {
                Ok(RpcResponse::ReadIndex { index }) => index,
                _ => None,
            },
            () = self.leader_changed(node) => None,
        }
    }

    /// Has the leader do what an operator wants.
    pub(crate) async fn operate(
        &self,
        operation: Operation,
        deadline: Instant,
    ) -> Result<OperationResult, OperateError> {
        let mut turns = LeaderRetry::until(deadline);
        while let Some(leader) = self.turn(&mut turns).await {
            let operated = match leader {
                Leader::Local => {
                    let (shared, peers) = (&*self.shared, &*self.peers);
                    Operator { shared, peers, deadline }.operate(operation.clone()).await
                }
                Leader::Peer(node, address) => {
                    self.operate_at(node, &address, operation.clone(), deadline).await
                }
            };
            match operated {
                Err(OperateError::NoLeader) => {}
                operated => return operated,
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
        let left = deadline.saturating_duration_since(Instant::now());
        let call = Rpc::Operate { operation, patience_micros: patience_micros(left) };
        match self.peers.call(Channel::Forward, node, address, call, left).await {
            Ok(RpcResponse::OperationResult(operated)) => operated,
            Err(RpcError::NotSent(_) | RpcError::Refused(_)) => Err(OperateError::NoLeader),
            Ok(_) | Err(RpcError::Lost(_)) => Err(OperateError::Unknown),
        }
    }

    /// Whom to ask next, as soon as somebody leads; `None` when nobody does in time. Take
    /// another turn only after an answer that meant that nothing had happened.
    async fn turn(&self, turns: &mut LeaderRetry) -> Option<Leader> {
        if std::mem::take(&mut turns.first)
            && let Some(leader) = self.leader()
        {
            return Some(leader);
        }
        while Instant::now() < turns.patience {
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

    /// Waits until this node knows of another leader than `node`.
    async fn leader_changed(&self, node: NodeId) {
        let mut metrics = self.shared.raft.server_metrics();
        while metrics.borrow_watched().current_leader == Some(node) {
            if metrics.changed().await.is_err() {
                return;
            }
        }
    }
}

/// How long the leader may take, so that its status arrives within `left`.
fn patience_micros(left: Duration) -> u64 {
    u64::try_from(left.saturating_sub(ANSWER_TIME).as_micros()).unwrap_or(u64::MAX)
}
