//! Detection of diverged replicas: every node hashes its state at the same log index (the verify
//! mark), and the leader compares the hashes, at an interval and on request. A node whose hash
//! differs from the majority's is quarantined.
//!
//! A data folder with a quarantine file never takes part in a cluster again. No data is removed;
//! an operator replaces the node.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use storage::command::Verify;
use storage::{RowFaults, VerifyMark, VerifyResult};
use tokio::time::Instant;

use crate::membership::operations::Operations;
use crate::network::identity::LocalNode;
use crate::network::message::{Rpc, RpcResponse};
use crate::network::transport::Channel;
use crate::operation::{Hash, HashStatus, MemberStatus, OperateResult, Verification};
use crate::shared::Shared;
use crate::types::NodeId;

/// Name of the quarantine file in the data folder.
const QUARANTINE_FILE: &str = "quarantine";
/// Interval at which a hash is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Consecutive failed calls after which a member counts as unreachable.
const FAILURES_MAX: usize = 5;
/// Interval at which the next periodic comparison is checked for.
const DUE_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a periodic comparison. Hashing reads the whole state.
const TIMEOUT: Duration = Duration::from_secs(3_600);
/// Time after which an incomplete comparison is repeated.
const RETRY_INTERVAL: Duration = Duration::from_secs(600);

/// The hash that more than half of all voters returned. Voters without a hash count as voters.
/// So the nodes that differ from it are a minority, and the cluster can lose them.
fn majority_hash(voters: &[Option<Hash>]) -> Option<Hash> {
    let count = |hash: &Hash| voters.iter().filter(|voter| **voter == Some(*hash)).count();
    voters.iter().flatten().copied().find(|hash| count(hash) > voters.len() / 2)
}

impl Operations<'_> {
    /// Compares all states. A member whose state differs from the majority's in two comparisons, one
    /// after the other, is quarantined for good.
    pub(crate) async fn verify(&self) -> OperateResult<Verification> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let (first, differing) = self.compare(Instant::now() + left / 2).await?;
        if differing.is_empty() {
            return Ok(first);
        }
        let nodes: Vec<NodeId> = differing.iter().map(|(member, ..)| member.node).collect();
        tracing::error!(?nodes, "states differ from the majority's: comparing again");
        while Instant::now() < self.deadline {
            let (mut second, again) = self.compare(self.deadline).await?;
            // A node that still searches the rows at the first mark returns no hash at the next one.
            let is_complete = first.hashes.iter().all(|(node, hash)| {
                hash.is_none()
                    || second.hashes.iter().any(|(of, hash)| of == node && hash.is_some())
            });
            if !is_complete {
                tokio::time::sleep(DUE_INTERVAL).await;
                continue;
            }
            for (member, mark, majority) in again {
                if nodes.contains(&member.node)
                    && self.quarantine_member(&member, mark, majority).await
                {
                    second.quarantined.push(member.node);
                }
            }
            return Ok(second);
        }
        Ok(first)
    }

    /// Compares all states once. Returns also the members whose state differs from the majority's, with
    /// the mark and the majority's hash.
    async fn compare(
        &self,
        deadline: Instant,
    ) -> OperateResult<(Verification, Vec<(MemberStatus, u64, Hash)>)> {
        let (index, VerifyMark(mark)) = self.submit(Verify).await?;
        let status = self.status();
        // Ends before the caller's deadline, so that the result can list unreachable members.
        let until = deadline.checked_sub(CALL_TIMEOUT).unwrap_or(deadline);
        let requests = status.members.iter().map(|member| self.hash_of(member, mark, until));
        let found = futures::future::join_all(requests).await;
        let found: Vec<_> = status.members.into_iter().zip(found).collect();
        let voters = found.iter().filter(|(member, _)| member.role.votes());
        let majority = majority_hash(&voters.map(|(_, hash)| *hash).collect::<Vec<_>>());
        let hashes = found.iter().map(|(member, hash)| (member.node, *hash)).collect();
        // A joint configuration has two majorities, so nothing is quarantined in it.
        let differing = match majority.filter(|_| !status.changing) {
            None => Vec::new(),
            Some(majority) => found
                .into_iter()
                .filter(|(_, hash)| hash.is_some_and(|hash| hash != majority))
                .map(|(member, _)| (member, mark, majority))
                .collect(),
        };
        let faults = faults_at(&self.shared.local, mark, until).await;
        Ok((Verification { index, hashes, quarantined: Vec::new(), faults }, differing))
    }

    async fn hash_of(&self, member: &MemberStatus, mark: u64, until: Instant) -> Option<Hash> {
        let local = &self.shared.local;
        if member.node == local.node {
            let status = hash_status(local, mark, until).await;
            return if let HashStatus::Ready(hash) = status { Some(hash) } else { None };
        }
        let mut failures = 0;
        while Instant::now() < until && failures < FAILURES_MAX {
            match self.call(member, Rpc::StateHash(mark)).await {
                Some(RpcResponse::StateHash(HashStatus::Ready(hash))) => return Some(hash),
                Some(RpcResponse::StateHash(HashStatus::Skipped)) => return None,
                Some(RpcResponse::StateHash(HashStatus::Pending)) => failures = 0,
                _ => failures += 1,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        None
    }

    async fn quarantine_member(&self, member: &MemberStatus, mark: u64, majority: Hash) -> bool {
        tracing::error!(node = member.node, "state differs from the majority's");
        if member.node == self.shared.local.node {
            return quarantine_if_diverged(&self.shared.local, mark, majority);
        }
        let response = self.call(member, Rpc::Quarantine { mark, majority }).await;
        matches!(response, Some(RpcResponse::Quarantined(true)))
    }

    async fn call(&self, member: &MemberStatus, call: Rpc) -> Option<RpcResponse> {
        let (node, address) = (member.node, &member.address);
        self.shared.peers.call(Channel::Forward, node, address, call, CALL_TIMEOUT).await.ok()
    }
}

fn result_at(local: &LocalNode, mark: u64) -> Option<VerifyResult> {
    local.reader.verifier().results().into_iter().find(|result| result.number == mark)
}

/// This node's hash at a verify mark. Waits for it until `until`.
pub(crate) async fn hash_status(local: &LocalNode, mark: u64, until: Instant) -> HashStatus {
    loop {
        match result_at(local, mark) {
            Some(result) => return result.hash.map_or(HashStatus::Skipped, HashStatus::Ready),
            None if Instant::now() >= until => return HashStatus::Pending,
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// This node's rows that cannot be at a verify mark. Waits for the search until `until`.
async fn faults_at(local: &LocalNode, mark: u64, until: Instant) -> Option<RowFaults> {
    loop {
        match result_at(local, mark) {
            // The search follows the hash.
            Some(VerifyResult { hash: Some(_), faults: None, .. }) if Instant::now() < until => {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            found => return found?.faults,
        }
    }
}

/// Quarantines and stops this node if its hash at the mark is not `majority`, the hash that the
/// leader reports. Returns whether it is quarantined.
pub(crate) fn quarantine_if_diverged(local: &LocalNode, mark: u64, majority: Hash) -> bool {
    let Some(own) = result_at(local, mark) else { return false };
    if own.hash.is_none_or(|hash| hash == majority) {
        return false;
    }
    let reason = format!(
        "the state of node {} as of index {} is not that of most other nodes: keep its data \
         folder for analysis, start an empty node with a new id, and run `hearth cluster replace`",
        local.node, own.index
    );
    let entered = quarantine(&local.data, &reason);
    match &entered {
        Ok(()) => local.fault.report(&reason),
        Err(error) => local.fault.report_storage(error),
    }
    entered.is_ok()
}

/// Why the data folder is quarantined; `None` if it is not.
pub(crate) fn quarantine_reason(data: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(data.join(QUARANTINE_FILE)) {
        Ok(reason) => Ok(Some(reason.trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the quarantine file durably. It takes effect at the next start. An existing file is
/// kept.
fn quarantine(data: &Path, reason: &str) -> storage::Result<()> {
    let path = data.join(QUARANTINE_FILE);
    if path.exists() { Ok(()) } else { storage::file::replace(&path, reason.as_bytes()) }
}

/// Compares the states once per `interval` while this node leads. An incomplete comparison is
/// repeated earlier. Runs until the runtime stops.
pub(crate) async fn run(shared: Arc<Shared>, interval: Duration) {
    let newest = || shared.local.reader.verifier().results().last().map(|result| result.number);
    let (mut last, mut due) = (newest(), Instant::now() + interval);
    loop {
        tokio::time::sleep(DUE_INTERVAL).await;
        // Every node hashes at every mark, so each notices comparisons that others started.
        if newest() != last {
            (last, due) = (newest(), Instant::now() + interval);
        }
        if Instant::now() < due || !shared.is_serving() {
            continue;
        }
        let deadline = Instant::now() + TIMEOUT;
        let operator = Operations { shared: &shared, deadline };
        let pause = match operator.verify().await {
            Ok(verification) => {
                log_result(&verification);
                if verification.agrees() { interval } else { interval.min(RETRY_INTERVAL) }
            }
            Err(error) => {
                tracing::warn!(%error, "state comparison failed");
                interval.min(RETRY_INTERVAL)
            }
        };
        (last, due) = (newest(), Instant::now() + pause);
    }
}

fn log_result(verification: &Verification) {
    let Verification { index, quarantined, faults, .. } = verification;
    if let Some(faults) = faults
        && let Some(first) = faults.first.first()
    {
        tracing::error!(index, count = faults.count, %first, "the state has rows that cannot be");
    }
    match (verification.agrees(), verification.differs()) {
        (true, _) => tracing::info!(index, "all states are equal"),
        (_, true) => tracing::error!(index, ?quarantined, "states differ"),
        _ => tracing::warn!(index, "state comparison incomplete: not all nodes returned a hash"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majority_hash_needs_most_of_all_voters() {
        let (a, b) = ([1; 32], [2; 32]);
        assert_eq!(majority_hash(&[Some(a), Some(a), Some(b)]), Some(a));
        assert_eq!(majority_hash(&[Some(b), Some(a), Some(a)]), Some(a));
        assert_eq!(majority_hash(&[Some(a), None, Some(b)]), None);
        assert_eq!(majority_hash(&[Some(a), None, None]), None);
        assert_eq!(majority_hash(&[Some(a), Some(b)]), None);
        assert_eq!(majority_hash(&[Some(a), Some(a), Some(b), Some(b)]), None);
    }

    #[test]
    fn missing_hash_neither_agrees_nor_differs() {
        let verification = |hashes: &[Option<Hash>]| {
            let hashes = (1..).zip(hashes.iter().copied()).collect();
            Verification { index: 1, hashes, ..Verification::default() }
        };
        let (a, b) = (Some([1; 32]), Some([2; 32]));
        assert!(verification(&[a, a]).agrees() && !verification(&[a, a]).differs());
        assert!(!verification(&[a, None]).agrees() && !verification(&[a, None]).differs());
        assert!(!verification(&[a, None, b]).agrees() && verification(&[a, None, b]).differs());
    }
}
