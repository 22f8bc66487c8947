//! Whether all nodes hold the same: the leader has each hash its state at one index,
//! compares, and keeps out who is alone with its answer. On demand, and at an interval.

use std::sync::Arc;
use std::time::Duration;

use storage::{Action, Reply};
use tokio::time::Instant;

use crate::membership::operations::Operator;
use crate::network::client::{Channel, Peers};
use crate::network::identity::LocalNode;
use crate::network::message::{Rpc, RpcResponse};
use crate::operation::{Hash, HashStatus, MemberStatus, Operate, OperateError, Verification};
use crate::shared::Shared;

/// How often to look whether something has come about.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// How long a node may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Calls in a row that a node may leave without an answer.
const SILENCES_MAX: usize = 5;
/// How often to look whether a comparison is due.
const DUE_INTERVAL: Duration = Duration::from_secs(1);
/// How long one that was not asked for may take: hashing reads all that there is.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// How soon one is repeated that came to nothing.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);

/// The hash that more than half of all voters gave, silent ones counted among them.
/// Whoever disagrees with it is too few to be missed.
fn agreed(voters: &[Option<Hash>]) -> Option<Hash> {
    let holding = |hash: &Hash| voters.iter().filter(|voter| **voter == Some(*hash)).count();
    voters.iter().flatten().copied().find(|hash| holding(hash) > voters.len() / 2)
}

impl Operator<'_> {
    pub(crate) async fn verify(&self) -> Operate<Verification> {
        let (index, reply) = self.submit(Action::Verify).await?;
        let Reply::VerifyMark(number) = reply else { return Err(OperateError::Unknown) };
        let status = self.status()?;
        let local = &self.shared.local;
        // Earlier than the caller gives up, so that it hears of those that are silent.
        let until = self.deadline.checked_sub(ANSWER_TIMEOUT).unwrap_or(self.deadline);
        let hashes = futures::future::join_all(status.members.iter().map(|member| async {
            let status = match member.node == local.node {
                true => hash_status(local, number, until).await,
                false => self.hash_status_of(member, number, until).await,
            };
            match status {
                HashStatus::Ready(hash) => Some(hash),
                HashStatus::Pending | HashStatus::Skipped => None,
            }
        }));
        let hashes: Vec<_> = status.members.iter().zip(hashes.await).collect();
        let voters = hashes.iter().filter(|(member, _)| member.role != "learner");
        let agreed = agreed(&voters.map(|(_, hash)| *hash).collect::<Vec<_>>());
        let mut quarantined = Vec::new();
        // Not while voters change: there are two majorities then.
        if let Some(agreed) = agreed.filter(|_| !status.changing) {
            for (member, hash) in &hashes {
                if hash.is_some_and(|hash| hash != agreed)
                    && self.quarantine_member(member, number, agreed).await
                {
                    quarantined.push(member.node);
                }
            }
        }
        let hashes = hashes.into_iter().map(|(member, hash)| (member.node, hash)).collect();
        Ok(Verification { index, hashes, quarantined })
    }

    async fn hash_status_of(
        &self,
        member: &MemberStatus,
        number: u64,
        until: Instant,
    ) -> HashStatus {
        let mut silences = 0;
        while Instant::now() < until && silences < SILENCES_MAX {
            match self.ask(member, Rpc::Verified { number }).await {
                Some(RpcResponse::Verified(HashStatus::Pending)) => silences = 0,
                Some(RpcResponse::Verified(status)) => return status,
                _ => silences += 1,
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        HashStatus::Pending
    }

    async fn quarantine_member(&self, member: &MemberStatus, number: u64, agreed: Hash) -> bool {
        tracing::error!(node = member.node, "its state is not that of most others");
        if member.node == self.peers.local.node {
            return quarantine_if_diverged(&self.shared.local, number, agreed);
        }
        let answer = self.ask(member, Rpc::Diverged { number, agreed }).await;
        matches!(answer, Some(RpcResponse::Quarantined { accepted: true }))
    }

    async fn ask(&self, member: &MemberStatus, call: Rpc) -> Option<RpcResponse> {
        let (node, address) = (member.node, &member.address);
        self.peers.call(Channel::Forward, node, address, call, ANSWER_TIMEOUT).await.ok()
    }
}

/// What this node says of its state at a mark; waits until it can say, or until `until`.
pub(crate) async fn hash_status(local: &LocalNode, number: u64, until: Instant) -> HashStatus {
    loop {
        let results = local.reader.verifier().results();
        match results.iter().find(|result| result.number == number) {
            Some(result) => return result.hash.map_or(HashStatus::Skipped, HashStatus::Ready),
            None if Instant::now() >= until => return HashStatus::Pending,
            None => tokio::time::sleep(LOOK_INTERVAL).await,
        }
    }
}

/// Takes the leader's status that most voters hold what hashes to `agreed` at a mark. If
/// this node does not, it is kept out from now on, and stops. Says whether it is.
pub(crate) fn quarantine_if_diverged(local: &LocalNode, number: u64, agreed: Hash) -> bool {
    let results = local.reader.verifier().results();
    let Some(own) = results.iter().find(|result| result.number == number) else { return false };
    if own.hash.is_none_or(|hash| hash == agreed) {
        return false;
    }
    let reason = format!(
        "the state of node {} as of index {} is not that of most other nodes: remove it from \
         the cluster, keep its data folder for whoever looks into this, and add a node with an \
         empty one and a new id",
        local.node, own.index
    );
    let entered = local.quarantine.enter(&reason);
    match &entered {
        Ok(()) => local.fault.report(&reason),
        Err(error) => local.fault.storage(error),
    }
    entered.is_ok()
}

/// Compares once in `every` of the time that the process runs, as long as this node
/// leads; sooner again if that came to nothing. Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>, peers: Arc<Peers>, every: Duration) {
    let newest = || shared.local.reader.verifier().results().last().map(|result| result.number);
    let (mut last, mut due) = (newest(), Instant::now() + every);
    loop {
        tokio::time::sleep(DUE_INTERVAL).await;
        // Every node hashes whoever asked, and so knows when that last was.
        if newest() != last {
            (last, due) = (newest(), Instant::now() + every);
        }
        if Instant::now() < due || !shared.serves() {
            continue;
        }
        let deadline = Instant::now() + TIMEOUT;
        let operator = Operator { shared: &shared, peers: &peers, deadline };
        let pause = match operator.verify().await {
            Ok(found) => {
                told(&found);
                if found.agrees() { every } else { every.min(RETRY_INTERVAL) }
            }
            Err(error) => {
                tracing::warn!(%error, "the nodes' states were not compared");
                every.min(RETRY_INTERVAL)
            }
        };
        (last, due) = (newest(), Instant::now() + pause);
    }
}

fn told(found: &Verification) {
    let Verification { index, quarantined, .. } = found;
    match (found.agrees(), found.differs()) {
        (true, _) => tracing::info!(index, "all nodes hold the same"),
        (_, true) => tracing::error!(index, ?quarantined, "the nodes do not all hold the same"),
        _ => tracing::warn!(index, "not all nodes said what they hold"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_voters_hold_counts_silent_ones_among_them() {
        let (a, b) = ([1; 32], [2; 32]);
        assert_eq!(agreed(&[Some(a), Some(a), Some(b)]), Some(a));
        assert_eq!(agreed(&[Some(b), Some(a), Some(a)]), Some(a));
        assert_eq!(agreed(&[Some(a), None, Some(b)]), None);
        assert_eq!(agreed(&[Some(a), None, None]), None);
        assert_eq!(agreed(&[Some(a), Some(b)]), None);
        assert_eq!(agreed(&[Some(a), Some(a), Some(b), Some(b)]), None);
    }

    #[test]
    fn a_node_that_said_nothing_neither_agrees_nor_differs() {
        let of = |hashes: &[Option<Hash>]| {
            let hashes = (1..).zip(hashes.iter().copied()).collect();
            Verification { index: 1, hashes, quarantined: Vec::new() }
        };
        let (a, b) = (Some([1; 32]), Some([2; 32]));
        assert!(of(&[a, a]).agrees() && !of(&[a, a]).differs());
        assert!(!of(&[a, None]).agrees() && !of(&[a, None]).differs());
        assert!(!of(&[a, None, b]).agrees() && of(&[a, None, b]).differs());
    }
}
