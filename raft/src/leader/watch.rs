//! The watch of the leader: the followers notice soon that the leader is gone, and the one with the
//! newest log stands for election at once.
//!
//! # Problem
//! The timeouts of elections must exceed the slowest sync and the slowest message, so they are long.
//! But when a process ends, its operating system closes its connections, and refuses new ones to its
//! port. And a response to a probe waits for no disk.
//!
//! # Algorithm
//! 1. Each follower keeps one call open at the leader, [`Rpc::Leads`].
//! 2. If that call ends, or the leader was silent for longer than between two heartbeats, the follower
//!    examines the leader, and sends [`Rpc::IsGone`] to the other voters, which examine it as well.
//!    The leader is *gone* if one of these holds:
//!    - Two connections in a row are refused: its process has ended.
//!    - It responds that it does not lead the term: its process was started again, or no quorum has
//!      acknowledged it within the lease.
//!    - It responds to no probe for the time between two heartbeats: it is paused or partitioned, or
//!      its machine failed.
//! 3. If it is gone for a majority of the voters, the one of them with the newest log stands, of equal
//!    ones that with the highest id. Its election counts as a transfer of leadership, so voters do not
//!    wait until the lease of the leader is over.
//!
//! # Invariants
//! - Elections are those of Raft. If the leader is not gone, this costs an election and loses no
//!   write. Reads do not depend on leases.
//! - A leader with a slow disk responds to probes, so it stays.
//! - A node whose own connections to the leader fail gets no majority.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use openraft::async_runtime::WatchReceiver;
use openraft::raft::TransferLeaderRequest;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::log::record::LogIdRecord;
use crate::network::message::{Rpc, RpcError, RpcResponse};
use crate::network::transport::Channel;
use crate::shared::Shared;
use crate::types::{NodeId, Vote};

/// How long the leader keeps the call open.
const WATCH_TIME: Duration = Duration::from_secs(10);
/// Timeout of that call.
const WATCH_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after the leader was examined and is not gone.
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
/// Pause after a probe that could not be sent.
const PROBE_PAUSE: Duration = Duration::from_millis(50);
/// Time for the call to another voter, beside that in which it examines the leader.
const VOTER_TIMEOUT: Duration = Duration::from_millis(300);
/// Wait for the remaining voters, once a majority agrees: one of them may have a newer log.
const REMAINING_TIMEOUT: Duration = Duration::from_millis(50);

/// A leader that this node follows.
struct Followed {
    vote: Vote,
    node: NodeId,
    address: String,
}

impl Followed {
    fn term(&self) -> u64 {
        self.vote.leader_id.term
    }
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
        let watch = Rpc::Leads { term: leader.term(), waits: true };
        let watching = shared.peers.call(Channel::Raft, *node, address, watch, WATCH_TIMEOUT);
        let leads = tokio::select! {
            result = watching => result,
            () = silence(&shared, *node) => Ok(RpcResponse::Leads(false)),
            () = shared.leader_changed(*node) => continue,
        };
        match leads {
            Ok(RpcResponse::Leads(true)) => {}
            Ok(_) | Err(RpcError::Lost(_) | RpcError::NotSent(_)) => {
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

/// Waits until a leader has sent no message for longer than between two heartbeats.
async fn silence(shared: &Shared, leader: NodeId) {
    let max = shared.timers.heartbeat * 5 / 4;
    loop {
        let age = shared.local.contact.message_age(leader, shared.local.clock.read().boottime);
        match max.checked_sub(age.unwrap_or_default()) {
            Some(left) => sleep(left.max(ATTEMPT_PAUSE)).await,
            None => return,
        }
    }
}

/// Whether this node leads a term and has a quorum: the response to a follower. If it `waits`, the
/// response is true after some seconds only.
pub(crate) async fn leads(shared: &Shared, term: u64, waits: bool) -> bool {
    let end = Instant::now() + WATCH_TIME;
    let runs = || shared.raft.metrics().borrow_watched().running_state.is_ok();
    while waits && runs() && shared.leads_with_quorum(term) && Instant::now() < end {
        let _ = timeout(shared.timers.heartbeat, shared.leadership_lost(term)).await;
    }
    shared.leads_with_quorum(term)
}

/// Whether a leader that this node follows is gone, and then the last entry of this node's log: the
/// response to another voter.
pub(crate) async fn is_gone(shared: &Shared, leader: NodeId, term: u64) -> Option<LogIdRecord> {
    let followed = followed(shared)?;
    let is_same = followed.node == leader && followed.term() == term;
    let is_gone = is_same && examine(shared, &followed).await;
    if is_gone { last(shared) } else { None }
}

/// Stands for election if the leader is gone and this node is the one to stand. Returns whether the
/// leader is gone.
async fn replace(shared: &Shared, leader: &Followed) -> bool {
    let (local, voters) = (shared.local.node, voters(shared));
    let is_voter = voters.iter().any(|(voter, _)| *voter == local);
    if is_off() || !is_voter {
        return false;
    }
    let (is_gone, mut agreeing) =
        tokio::join!(examine(shared, leader), agreeing(shared, leader, &voters));
    let Some(own) = last(shared).filter(|_| is_gone) else { return false };
    agreeing.push((own, local));
    if 2 * agreeing.len() <= voters.len() {
        return false;
    }
    if agreeing.iter().max() == Some(&(own, local)) && follows(shared, leader) {
        tracing::info!(leader = leader.node, term = leader.term(), "the leader is gone: standing");
        let request = TransferLeaderRequest::new(leader.vote, local, Some(own.into()));
        if let Err(error) = shared.raft.handle_transfer_leader(request).await {
            tracing::warn!(%error, "raft has stopped");
        }
    }
    // Another survivor stands, or the timeout decides.
    let _ = timeout(VOTER_TIMEOUT, shared.leader_changed(leader.node)).await;
    true
}

/// The other voters that find the leader gone, with the last entries of their logs.
async fn agreeing(
    shared: &Shared,
    leader: &Followed,
    voters: &[(NodeId, String)],
) -> Vec<(LogIdRecord, NodeId)> {
    let others =
        voters.iter().filter(|(voter, _)| ![shared.local.node, leader.node].contains(voter));
    let mut calls: FuturesUnordered<_> = others
        .map(async |(voter, address)| {
            let is_gone = Rpc::IsGone { leader: leader.node, term: leader.term() };
            let time = shared.timers.heartbeat + VOTER_TIMEOUT;
            let called = shared.peers.call(Channel::Raft, *voter, address, is_gone, time);
            match called.await {
                Ok(RpcResponse::Gone(last)) => last.map(|last| (last, *voter)),
                _ => None,
            }
        })
        .collect();
    let mut agreeing = Vec::new();
    loop {
        // This node counts too.
        let next = match 2 * (agreeing.len() + 1) > voters.len() {
            true => timeout(REMAINING_TIMEOUT, calls.next()).await.ok().flatten(),
            false => calls.next().await,
        };
        match next {
            Some(response) => agreeing.extend(response),
            None => return agreeing,
        }
    }
}

/// Whether the leader is gone.
async fn examine(shared: &Shared, leader: &Followed) -> bool {
    tokio::select! {
        true = is_refused(|| shared.peers.transport.connect(&leader.address)) => true,
        leads = probe(shared, leader) => !leads,
    }
}

/// Whether the leader responds that it leads the term, within the time between two heartbeats.
async fn probe(shared: &Shared, leader: &Followed) -> bool {
    let deadline = Instant::now() + shared.timers.heartbeat;
    while Instant::now() < deadline {
        let left = deadline.saturating_duration_since(Instant::now());
        let leads = Rpc::Leads { term: leader.term(), waits: false };
        match shared.peers.call(Channel::Raft, leader.node, &leader.address, leads, left).await {
            Ok(RpcResponse::Leads(leads)) => return leads,
            Ok(_) | Err(RpcError::Rejected(_)) => return true,
            Err(RpcError::Lost(_) | RpcError::NotSent(_)) => {
                sleep_until(deadline.min(Instant::now() + PROBE_PAUSE)).await;
            }
        }
    }
    false
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
async fn is_refused<F: Future<Output = io::Result<()>>>(connect: impl Fn() -> F) -> bool {
    let mut refused = 0;
    for _ in 0..ATTEMPTS {
        match timeout(CONNECT_TIMEOUT, connect()).await {
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
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connect(address: &str) -> io::Result<()> {
        TcpStream::connect(address).await.map(drop)
    }

    #[tokio::test]
    async fn only_a_closed_port_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        assert!(!is_refused(|| connect(&address)).await, "connections wait, and none is accepted");
        let closes = async {
            sleep(ATTEMPT_PAUSE).await;
            drop(listener);
        };
        let (is_refused, ()) = tokio::join!(is_refused(|| connect(&address)), closes);
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
        assert!(!is_refused(|| connect(&address)).await);
        resets.abort();
    }
}
