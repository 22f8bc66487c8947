//! What operators do with a cluster: look at it, let nodes in and out, hand over
//! leadership, compare states. Any node takes the wish to the leader.

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use storage::{Action, Command, Reply};
use tokio::time::Instant;

use crate::error::SubmitError;
use crate::membership::followers::Followers;
use crate::network::client::Peers;
use crate::operation::{
    ClusterStatus, MemberStatus, Operate, OperateError, Operation, OperationResult,
};
use crate::shared::Shared;
use crate::types::{NodeId, Peer, TypeConfig};

/// How long a node that is to join may take to say who it is.
const INTRODUCE_TIMEOUT: Duration = Duration::from_secs(5);
/// A voter that answered so recently is there to vote.
const CONTACT_AGE_MAX_MS: u64 = 1_000;
/// How long a voter may take to take over.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a member is there to vote.
fn is_there(member: &MemberStatus) -> bool {
    member.last_contact_ms.is_some_and(|ms| ms <= CONTACT_AGE_MAX_MS)
}

fn refused<T>(reason: impl Into<String>) -> Operate<T> {
    Err(OperateError::Refused(reason.into()))
}

/// The leader, operated on.
pub(crate) struct Operator<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) peers: &'a Peers,
    pub(crate) deadline: Instant,
}

impl Operator<'_> {
    /// Does what is wanted, as the leader.
    pub(crate) async fn operate(&self, operation: Operation) -> Operate<OperationResult> {
        if !self.shared.serves() {
            return Err(OperateError::NoLeader);
        }
        match operation {
            Operation::Status => self.status().map(OperationResult::Status),
            Operation::Add { node, address } => self.add(node, address).await,
            Operation::Remove { node } => self.remove(node).await,
            Operation::Transfer { to } => self.transfer(to).await,
            Operation::Verify => self.verify().await.map(OperationResult::Verified),
        }
    }

    pub(crate) fn status(&self) -> Operate<ClusterStatus> {
        let metrics = self.shared.raft.metrics();
        let metrics = metrics.borrow_watched();
        let last_log_index = metrics.last_log_index.unwrap_or(0);
        let voters: BTreeSet<NodeId> = metrics.membership_config.voter_ids().collect();
        let followers = Followers(&metrics);
        let joint = metrics.membership_config.membership().get_joint_config().len() > 1;
        let member = |(node, peer): (&NodeId, &Peer)| {
            let role = match (*node == metrics.id, voters.contains(node)) {
                (true, _) => "leader",
                (false, true) => "voter",
                (false, false) => "learner",
            };
            let silence = followers.silence(*node).map(|silence| silence.as_millis() as u64);
            MemberStatus {
                node: *node,
                address: peer.address.clone(),
                role: role.to_owned(),
                lag: followers.lag(*node),
                last_contact_ms: if role == "leader" { Some(0) } else { silence },
            }
        };
        Ok(ClusterStatus {
            leader: metrics.id,
            term: metrics.current_term,
            last_log_index,
            changing: joint,
            members: metrics.membership_config.nodes().map(member).collect(),
        })
    }

    /// Admitted first, so that its answers are believed; then a learner. Voting is
    /// given by the leader's upkeep, once it has caught up.
    async fn add(&self, node: NodeId, address: String) -> Operate<OperationResult> {
        let (from, pristine) = match self.peers.introduce(&address, INTRODUCE_TIMEOUT).await {
            Ok(introduced) => introduced,
            Err(error) => return refused(format!("node {node} at {address}: {error}")),
        };
        if from.node != node {
            return refused(format!("node {} answers at {address}, not {node}", from.node));
        }
        let cluster = self.peers.local.peer_identity().cluster;
        if !pristine && from.cluster.is_some() && from.cluster != cluster {
            return refused(format!("node {node} at {address} belongs to another cluster"));
        }
        let members = self.status()?.members;
        if let Some(member) = members.iter().find(|member| member.node == node)
            && member.address != address
        {
            return refused(format!(
                "node {node} is a member at {}: a node that moves is removed, and added, empty, \
                 with a new id",
                member.address
            ));
        }
        self.submit(Action::AddMember { node, incarnation: from.incarnation }).await?;
        let added = self.shared.raft.add_learner(node, Peer { address }, false);
        match tokio::time::timeout_at(self.deadline, added).await {
            Ok(added) => changed(added.map(drop)),
            Err(_) => Err(OperateError::Unknown),
        }
    }

    async fn remove(&self, node: NodeId) -> Operate<OperationResult> {
        let status = self.status()?;
        let voters = status.members.iter().filter(|member| member.role != "learner");
        let others: Vec<&MemberStatus> = voters.filter(|member| member.node != node).collect();
        let member = status.members.iter().find(|member| member.node == node);
        let there = others.iter().filter(|member| is_there(member)).count();
        match member {
            // Nothing to tell raft: an earlier removal may have got so far.
            None => {}
            Some(member) if member.role != "learner" && there <= others.len() / 2 => {
                return refused(format!(
                    "without node {node} only {there} of {} voters answer, which cannot decide \
                     anything: bring the others back, or add nodes, first",
                    others.len()
                ));
            }
            Some(member) if member.role == "leader" => {
                self.transfer_leadership().await?;
                // The new leader is asked next, as by any node that does not lead.
                return Err(OperateError::NoLeader);
            }
            Some(member) => {
                let one = BTreeSet::from([node]);
                let change = match member.role.as_str() {
                    "learner" => ChangeMembers::RemoveNodes(one),
                    _ => ChangeMembers::RemoveVoters(one),
                };
                let removed = self.shared.raft.change_membership(change, false);
                match tokio::time::timeout_at(self.deadline, removed).await {
                    Ok(removed) => drop(changed(removed.map(drop))?),
                    Err(_) => return Err(OperateError::Unknown),
                }
            }
        }
        self.submit(Action::RemoveMember { node }).await?;
        Ok(OperationResult::Done)
    }

    async fn transfer(&self, to: NodeId) -> Operate<OperationResult> {
        if !self.shared.voters().contains(&to) {
            return refused(format!("node {to} is no voter"));
        }
        let raft = &self.shared.raft;
        if to == self.peers.local.node {
            return Ok(OperationResult::Done);
        }
        let status = self.status()?;
        if !status.members.iter().any(|member| member.node == to && is_there(member)) {
            return refused(format!("node {to} does not answer"));
        }
        if raft.trigger().transfer_leader(to).await.is_err() {
            return Err(OperateError::Unknown);
        }
        let mut metrics = raft.server_metrics();
        let local = self.peers.local.node;
        let decided = async {
            loop {
                let leader = metrics.borrow_watched().current_leader;
                match leader {
                    Some(leader) if leader == to => return Ok(OperationResult::Done),
                    Some(other) if other != local => {
                        return refused(format!("node {other} took over, not node {to}"));
                    }
                    _ => {}
                }
                if metrics.changed().await.is_err() {
                    return Err(OperateError::Unknown);
                }
            }
        };
        let deadline = self.deadline.min(Instant::now() + TRANSFER_TIMEOUT);
        let waited = tokio::time::timeout_at(deadline, decided).await;
        waited.unwrap_or_else(|_| refused(format!("node {to} did not take over in time")))
    }

    /// Has the voter that is nearest lead, if there is one and this node leads.
    pub(crate) async fn transfer_leadership(&self) -> Operate<Option<NodeId>> {
        if !self.shared.serves() {
            return Ok(None);
        }
        let members = self.status()?.members;
        let near = members.iter().filter(|member| member.role == "voter" && is_there(member));
        let Some(next) = near.min_by_key(|member| member.lag.unwrap_or(u64::MAX)) else {
            return Ok(None);
        };
        self.transfer(next.node).await.map(|_| Some(next.node))
    }

    /// Has the action decided; the index that shows it, and what the rules said.
    pub(crate) async fn submit(&self, action: Action) -> Operate<(u64, Reply)> {
        match self.shared.submit(Command::background(action), self.deadline).await {
            Ok(outcome) => match outcome.decision {
                Ok(reply) => Ok((outcome.index, reply)),
                Err(rejection) => refused(rejection.to_string()),
            },
            Err(SubmitError::Unknown) => Err(OperateError::Unknown),
            Err(SubmitError::NoLeader) => Err(OperateError::NoLeader),
            Err(error) => refused(error.to_string()),
        }
    }
}

fn changed(
    result: Result<(), RaftError<TypeConfig, ClientWriteError<TypeConfig>>>,
) -> Operate<OperationResult> {
    match result {
        Ok(()) => Ok(OperationResult::Done),
        Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_))) => {
            Err(OperateError::NoLeader)
        }
        Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error))) => {
            refused(error.to_string())
        }
        Err(_) => Err(OperateError::Unknown),
    }
}
