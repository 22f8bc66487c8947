//! The watch of the leader: a follower notices within milliseconds that the leader's process has
//! ended, and the survivor with the newest log stands for election at once.
//!
//! # Problem
//! A silent leader may be slow, paused or partitioned. So elections wait for a timeout. But when a
//! process ends, its operating system closes its connections, and refuses new ones to its port.
//!
//! # Algorithm
//! 1. Each follower keeps one call open at the leader, [`Rpc::Watch`].
//! 2. When the connection of that call is lost, it opens new ones, ten at most. If two in a row are
//!    *refused*, it sends [`Rpc::IsEnded`] to the other voters, which try as well.
//! 3. If a majority of the voters finds the leader's port refused, the one of them with the newest
//!    log stands, of equal ones that with the highest id. Its election counts as a transfer of
//!    leadership, so voters do not wait until the lease of the leader is over.
//!
//! # Invariants
//! - Elections are those of Raft. If the leader has not ended, this costs an election and
//!   loses no write. Reads do not depend on leases.
//! - A port that accepts, or does not respond, is not refused. So a slow, paused or partitioned
//!   leader stays until the timeout.
//! - A node whose own connections are refused on their way gets no majority.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::log::record::LogIdRecord;
use crate::network::client::Channel;
use crate::network::message::{Rpc, RpcError, RpcResponse};
use crate::shared::Shared;
use crate::types::{NodeId, Vote};

/// How long the leader keeps the call open.
pub(crate) const WATCH_TIME: Duration = Duration::from_secs(10);
/// Timeout of that call.
const WATCH_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after a call that was lost although the leader has not ended.
const PAUSE: Duration = Duration::from_millis(500);
/// Pause while this node does not know the address of the leader: it has just joined.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(20);
/// Pause after a call that the leader rejected: it is another version, or this node is no member.
const REJECTED_PAUSE: Duration = Duration::from_secs(10);
/// Refused connections in a row at which a process counts as ended.
const REFUSED: usize = 2;
/// Connections after which a process that accepts them counts as running. One that ends may close
/// its connections some time before its listener.
const ATTEMPTS: usize = 10;
/// Pause after one of them.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(5);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(100);
/// Timeout of the call to another voter.
const VOTER_TIMEOUT: Duration = Duration::from_millis(300);

/// A leader that this node follows.
struct Followed {
    vote: Vote,
    node: NodeId,
    address: String,
}

/// Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let local = shared.local.node;
    let is_followed = |leader: Option<NodeId>| leader.filter(|leader| *leader != local);
    while shared.wait_metrics(|metrics| is_followed(metrics.current_leader)).await.is_some() {
        if shared.raft.metrics().borrow_watched().running_state.is_err() {
            return;
        }
        let Some(leader) = followed(&shared) else {
            sleep(UNKNOWN_PAUSE).await;
            continue;
        };
        let Followed { node, address, .. } = &leader;
        let result = tokio::select! {
            result = shared.peers.call(Channel::Raft, *node, address, Rpc::Watch, WATCH_TIMEOUT) => result,
            () = shared.leader_changed(*node) => continue,
        };
        match result {
            Ok(_) => {}
            Err(RpcError::Lost(_) | RpcError::NotSent(_)) => {
                // The same node may have been elected again meanwhile.
                let present = followed(&shared).filter(|present| present.node == leader.node);
                let Some(present) = present else { continue };
                if !replace(&shared, &present).await {
                    sleep(PAUSE).await;
                }
            }
            Err(RpcError::Rejected(_)) => sleep(REJECTED_PAUSE).await,
        }
    }
}

/// Whether the process of a leader that this node follows has ended, and the last entry of this
/// node's log: the response to another voter.
pub(crate) async fn is_ended(shared: &Shared, leader: NodeId, term: u64) -> Option<LogIdRecord> {
    let followed = followed(shared)?;
    let is_same = followed.node == leader && followed.vote.leader_id.term == term;
    let is_ended = is_same && is_refused(&followed.address).await;
    if is_ended { last(shared) } else { None }
}

/// Stands for election if the leader has ended and this node is the one to stand. Returns whether
/// the leader has ended.
async fn replace(shared: &Shared, leader: &Followed) -> bool {
    let (local, term) = (shared.local.node, leader.vote.leader_id.term);
    let voters = voters(shared);
    let is_voter = voters.iter().any(|(voter, _)| *voter == local);
    if is_off() || !is_voter || !is_refused(&leader.address).await {
        return false;
    }
    let others = voters.iter().filter(|(voter, _)| ![local, leader.node].contains(voter));
    let responses = join_all(others.map(async |(voter, address)| {
        let is_ended = Rpc::IsEnded { leader: leader.node, term };
        let called = shared.peers.call(Channel::Raft, *voter, address, is_ended, VOTER_TIMEOUT);
        match called.await {
            Ok(RpcResponse::Ended(last)) => last.map(|last| (last, *voter)),
            _ => None,
        }
    }));
    let mut agreeing: Vec<_> = responses.await.into_iter().flatten().collect();
    let Some(own) = last(shared) else { return false };
    agreeing.push((own, local));
    if 2 * agreeing.len() <= voters.len() {
        return false;
    }
    if agreeing.iter().max() == Some(&(own, local)) && follows(shared, leader) {
        tracing::info!(leader = leader.node, term, "the leader's process has ended: standing");
        let request = TransferLeaderRequest::new(leader.vote, local, Some(own.into()));
        if let Err(error) = shared.raft.handle_transfer_leader(request).await {
            tracing::warn!(%error, "raft has stopped");
        }
    }
    // Another survivor stands, or the timeout decides.
    let _ = timeout(VOTER_TIMEOUT, shared.leader_changed(leader.node)).await;
    true
}

/// The leader that this node follows.
fn followed(shared: &Shared) -> Option<Followed> {
    let metrics = shared.raft.metrics();
    let metrics = metrics.borrow_watched();
    let node = metrics.current_leader.filter(|leader| *leader != shared.local.node)?;
    let address = metrics.membership_config.membership().get_node(&node)?.clone();
    Some(Followed { vote: metrics.vote, node, address })
}

fn follows(shared: &Shared, leader: &Followed) -> bool {
    followed(shared).is_some_and(|present| present.vote == leader.vote)
}

/// The voters with their addresses.
fn voters(shared: &Shared) -> Vec<(NodeId, String)> {
    let metrics = shared.raft.metrics();
    let metrics = metrics.borrow_watched();
    let membership = metrics.membership_config.membership();
    let address = |id: NodeId| Some((id, membership.get_node(&id)?.clone()));
    membership.voter_ids().filter_map(address).collect()
}

/// The last entry of this node's log.
fn last(shared: &Shared) -> Option<LogIdRecord> {
    let last = shared.raft.data_metrics().borrow_watched().last_log;
    last.map(LogIdRecord::from)
}

/// Whether two connections in a row are refused, of [`ATTEMPTS`].
async fn is_refused(address: &str) -> bool {
    let mut refused = 0;
    for _ in 0..ATTEMPTS {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => refused += 1,
            // Accepted, or reset.
            Ok(_) => refused = 0,
            Err(_) => return false,
        }
        if refused == REFUSED {
            return true;
        }
        sleep(ATTEMPT_PAUSE).await;
    }
    false
}

/// Whether a test has switched the watch off, to wait for the timeout. Always false without
/// failpoints.
fn is_off() -> bool {
    fail::fail_point!("leader-watch", |_| true);
    false
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn only_a_closed_port_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(!is_refused(&address).await, "connections wait, and none is accepted");
        let closes = async {
            sleep(ATTEMPT_PAUSE).await;
            drop(listener);
        };
        let (is_refused, ()) = tokio::join!(is_refused(&address), closes);
        assert!(is_refused, "a process that ends may close its listener last");
    }

    #[tokio::test]
    async fn port_that_resets_is_not_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let resets = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                connection.set_zero_linger().unwrap();
            }
        });
        assert!(!is_refused(&address).await);
        resets.abort();
    }
}
