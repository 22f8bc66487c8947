//! Whether all nodes hold the same: the leader has each hash its state at one index,
//! compares, and keeps out who is alone with its answer. On demand, and at an interval.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use storage::Action;
use tokio::time::Instant;

use crate::network::client::{Lane, Peers};
use crate::network::identity::Me;
use crate::network::message::{Call, Return};
use crate::operate::{MemberStatus, Operate, OperateError, Operated, Operation, Operator};
use crate::shared::Shared;
use crate::types::NodeId;

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

/// The SHA-256 of a state.
pub(crate) type Hash = [u8; 32];

/// Hashes of all members' states as of one index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// The index.
    pub index: u64,
    /// Each member with the SHA-256 of its state; `None` for one that did not say in time.
    pub hashes: Vec<(NodeId, Option<Hash>)>,
    /// Members that were told to keep out: most others agree on another hash.
    pub quarantined: Vec<NodeId>,
}

impl Verification {
    /// Whether all members said the same.
    pub fn agrees(&self) -> bool {
        let mut hashes = self.hashes.iter().map(|(_, hash)| *hash);
        let first = hashes.next().flatten();
        first.is_some() && hashes.all(|hash| hash == first)
    }
}

/// The hash that more than half of all members gave.
fn majority(hashes: &[(NodeId, Option<Hash>)]) -> Option<Hash> {
    let mut counts: HashMap<Hash, usize> = HashMap::new();
    hashes
        .iter()
        .filter_map(|(_, hash)| *hash)
        .for_each(|hash| *counts.entry(hash).or_default() += 1);
    counts.into_iter().find(|(_, count)| *count > hashes.len() / 2).map(|(hash, _)| hash)
}

impl Operator<'_> {
    pub(crate) async fn verify(&self) -> Operate<Verification> {
        let index = self.submit(Action::Verify).await?;
        let members = self.status()?.members;
        let hashes = futures::future::join_all(members.iter().map(|member| async {
            let hash = match member.node == self.peers.me.node {
                true => hash_at(&self.shared.me, index, self.deadline).await,
                false => self.hash_of(member, index).await,
            };
            (member.node, hash)
        }));
        let hashes = hashes.await;
        let mut quarantined = Vec::new();
        if let Some(agreed) = majority(&hashes) {
            for (member, (_, hash)) in members.iter().zip(&hashes) {
                if hash.is_some_and(|hash| hash != agreed)
                    && self.keep_out(member, index, agreed).await
                {
                    quarantined.push(member.node);
                }
            }
        }
        Ok(Verification { index, hashes, quarantined })
    }

    async fn hash_of(&self, member: &MemberStatus, index: u64) -> Option<Hash> {
        let mut silences = 0;
        while Instant::now() < self.deadline && silences < SILENCES_MAX {
            match self.ask(member, Call::Verified { index }).await {
                Some(Return::Verified { hash: Some(hash) }) => return Some(hash),
                Some(_) => silences = 0,
                None => silences += 1,
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        None
    }

    async fn keep_out(&self, member: &MemberStatus, index: u64, agreed: Hash) -> bool {
        tracing::error!(node = member.node, index, "its state is not that of most others");
        if member.node == self.peers.me.node {
            return diverged(&self.shared.me, index, agreed);
        }
        let answer = self.ask(member, Call::Diverged { index, agreed }).await;
        matches!(answer, Some(Return::Quarantined { accepted: true }))
    }

    async fn ask(&self, member: &MemberStatus, call: Call) -> Option<Return> {
        let (node, address) = (member.node, &member.address);
        self.peers.call(Lane::Forward, node, address, call, ANSWER_TIMEOUT).await.ok()
    }
}

/// What this node's state hashed to at `index`; waits for it until `deadline`.
pub(crate) async fn hash_at(me: &Me, index: u64, deadline: Instant) -> Option<Hash> {
    loop {
        let results = me.reader.verifier().results();
        let found = results.iter().find(|result| result.index == index);
        match found {
            Some(result) => return result.hash,
            None if Instant::now() >= deadline => return None,
            None => tokio::time::sleep(LOOK_INTERVAL).await,
        }
    }
}

/// Takes the word that most nodes hold what hashes to `agreed` at `index`. If this one
/// does not, it is kept out from now on, and stops.
pub(crate) fn diverged(me: &Me, index: u64, agreed: Hash) -> bool {
    let results = me.reader.verifier().results();
    let own = results.iter().find(|result| result.index == index).and_then(|result| result.hash);
    if own.is_none_or(|own| own == agreed) {
        return false;
    }
    let reason = format!(
        "the state of node {} as of index {index} is not that of most other nodes: remove it from \
         the cluster, keep its data folder for whoever looks into this, and add a node with an \
         empty one and a new id",
        me.node
    );
    match me.quarantine.enter(&reason) {
        Ok(()) => me.fault.report(&reason),
        Err(error) => me.fault.storage(&error),
    }
    true
}

/// Compares at least once in `every`, as long as this node leads. Runs until raft stops.
pub(crate) async fn run(shared: Arc<Shared>, peers: Arc<Peers>, every: Duration) {
    let (mut last, mut since) = (None, Instant::now());
    loop {
        tokio::time::sleep(DUE_INTERVAL).await;
        // Every node hashes whoever asked, and so knows when that last was.
        let newest = shared.me.reader.verifier().results().last().map(|result| result.index);
        if newest != last {
            (last, since) = (newest, Instant::now());
        }
        if since.elapsed() < every || !shared.serves() {
            continue;
        }
        since = Instant::now();
        let operator = Operator { shared: &shared, peers: &peers, deadline: since + TIMEOUT };
        match operator.operate(Operation::Verify).await {
            Ok(Operated::Verified(verification)) if verification.agrees() => {
                tracing::info!(index = verification.index, "all nodes hold the same");
            }
            Ok(Operated::Verified(verification)) => {
                let Verification { index, quarantined, .. } = verification;
                tracing::error!(index, ?quarantined, "the nodes do not all say the same");
            }
            Ok(_) | Err(OperateError::NoLeader) => {}
            Err(error) => tracing::warn!(%error, "the nodes' states were not compared"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_more_than_half_of_all_members_also_of_those_that_are_silent() {
        let (a, b) = ([1; 32], [2; 32]);
        let of = |hashes: &[Option<Hash>]| {
            majority(&(1..).zip(hashes.iter().copied()).collect::<Vec<_>>())
        };
        assert_eq!(of(&[Some(a), Some(a), Some(b)]), Some(a));
        assert_eq!(of(&[Some(b), Some(a), Some(a)]), Some(a));
        assert_eq!(of(&[Some(a), None, Some(b)]), None);
        assert_eq!(of(&[Some(a), None, None]), None);
        assert_eq!(of(&[Some(a), Some(b)]), None);
        assert_eq!(of(&[Some(a), Some(a), Some(b), Some(b)]), None);
    }
}
