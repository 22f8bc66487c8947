//! Operations of an operator, run on the leader: cluster status, adding and removing members,
//! leadership transfer. `integrity.rs` has the state comparison.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use storage::command::{AddMember, AdvanceClock, ClusterAction, RemoveMember};
use storage::{ClusterRule, Command, ReplyValue};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::Span;

use crate::error::SubmitError;
use crate::membership::maintenance::{CONTACT_AGE_MAX, Followers};
use crate::network::client::Identified;
use crate::network::transport::Channel;
use crate::operation::{
    ClockStatus, ClusterStatus, MemberRole, MemberStatus, OperateError, OperateResult, Operation,
    OperationResult,
};
use crate::shared::Shared;
use crate::system_clock::median;
use crate::types::{Address, NodeId, TypeConfig, is_address};

/// Timeout of the request for the identity of a node that is to be added.
const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait for a voter to receive the last entries of the log, before it becomes the leader.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(500);
/// Wait for a new leader.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn is_responsive(member: &MemberStatus) -> bool {
    member.last_contact_ms.is_some_and(|ms| Duration::from_millis(ms) <= CONTACT_AGE_MAX)
}

fn rejected<T>(reason: impl Into<String>) -> OperateResult<T> {
    Err(OperateError::Rejected(reason.into()))
}

/// The cluster as this node sees it.
pub(crate) fn status(shared: &Shared) -> ClusterStatus {
    // A copy: what follows reads the metrics too, and a second borrow may wait for ever.
    let metrics = shared.raft.metrics().borrow_watched().clone();
    let voters: BTreeSet<NodeId> = metrics.membership_config.voter_ids().collect();
    let leader = shared.present_leader();
    let (local, followers) = (&shared.local, Followers(&metrics));
    let full_disks = local.contact.full_disks(metrics.id);
    let (boottime, leads) = (local.clock.read().boottime, shared.leads());
    let last_contact = |node: NodeId| match leads {
        _ if node == metrics.id => Some(Duration::ZERO),
        true => followers.last_contact(node),
        false => local.contact.message_age(node, boottime),
    };
    let member = |(node, address): (&NodeId, &Address)| {
        let role = match (Some(*node) == leader, voters.contains(node)) {
            (true, _) => MemberRole::Leader,
            (false, true) => MemberRole::Voter,
            (false, false) => MemberRole::Learner,
        };
        MemberStatus {
            node: *node,
            address: address.clone(),
            role,
            lag: followers.lag(*node).filter(|_| leads),
            last_contact_ms: last_contact(*node).map(|time| time.as_millis() as u64),
            disk_full: full_disks.contains(node),
            version: shared.release(*node).map(|release| release.to_string()),
        }
    };
    ClusterStatus {
        leader,
        node: metrics.id,
        term: metrics.current_term,
        last_log_index: metrics.last_log_index.unwrap_or(0),
        commit_index: metrics.local_committed.map_or(0, |id| id.index()),
        applied_index: *shared.applied.borrow(),
        feature_level: local.required_release().level,
        changing: metrics.membership_config.membership().get_joint_config().len() > 1,
        members: metrics.membership_config.nodes().map(member).collect(),
    }
}

/// Runs operations on this node, which must be the leader.
pub(crate) struct Operations<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) deadline: Instant,
}

impl Operations<'_> {
    pub(crate) async fn operate(&self, operation: Operation) -> OperateResult<OperationResult> {
        if !self.shared.is_serving() {
            return Err(OperateError::NoLeader);
        }
        match operation {
            Operation::Status => return Ok(OperationResult::Status(self.status())),
            Operation::Add { node, address } => self.add(node, address).await,
            Operation::Remove(node) => self.remove(node).await,
            Operation::Transfer(to) => self.transfer(to).await,
            Operation::Verify => return self.verify().await.map(OperationResult::Verified),
            Operation::Clock => return Ok(OperationResult::Clock(self.clock())),
            Operation::SetClock => return self.set_clock().await.map(OperationResult::Clock),
        }
        .map(|()| OperationResult::Done)
    }

    pub(crate) fn status(&self) -> ClusterStatus {
        status(self.shared)
    }

    fn clock(&self) -> ClockStatus {
        let local = &self.shared.local;
        let own = local.clock.read();
        let nodes: Vec<NodeId> = self.status().members.iter().map(|member| member.node).collect();
        let wall_clocks = local.contact.wall_clocks(&nodes, local.node, own);
        let samples = local.contact.samples(&self.shared.voters(), local.node, own);
        ClockStatus {
            cluster_time: local.cluster_time(own.boottime),
            median: samples.map(|samples| median(&samples)),
            wall_clocks: nodes.into_iter().zip(wall_clocks).collect(),
        }
    }

    /// Lets the next stamp move forward to its target, and requests a stamp.
    async fn set_clock(&self) -> OperateResult<ClockStatus> {
        let before = self.clock();
        match before.median {
            None => return rejected("the wall clocks of a majority are unknown: try again"),
            Some(median) if median <= before.cluster_time => {
                return rejected(format!(
                    "cluster time ({}) is not behind the median of the voters' wall clocks \
                     ({median}): it moves forward only",
                    before.cluster_time
                ));
            }
            Some(_) => {}
        }
        self.shared.leading.clock_jump.store(true, Ordering::SeqCst);
        let stamped = self.submit(AdvanceClock).await;
        self.shared.leading.clock_jump.store(false, Ordering::SeqCst);
        stamped?;
        let after = self.clock();
        tracing::info!(
            from = %before.cluster_time,
            to = %after.cluster_time,
            "an operator moved cluster time to the median of the voters' wall clocks"
        );
        Ok(after)
    }

    /// Adds a node to the replicated members, so that peers accept its messages, then to raft as
    /// a learner. `membership/maintenance.rs` promotes it once it has caught up.
    async fn add(&self, node: NodeId, address: String) -> OperateResult<()> {
        if !is_address(&address) {
            return rejected(format!("{address:?} is not the address of a node: use host:port"));
        }
        let peers = &self.shared.peers;
        let identified = peers.identify(Channel::Forward, &address, IDENTIFY_TIMEOUT).await;
        let Identified { from, is_pristine, release } = match identified {
            Ok(identified) => identified,
            Err(error) => return rejected(format!("node {node} at {address}: {error}")),
        };
        if from.node != node {
            return rejected(format!("expected node {node} at {address}: it is {}", from.node));
        }
        let cluster = self.shared.local.peer_identity().cluster;
        if !is_pristine && from.cluster.is_some() && from.cluster != cluster {
            return rejected(format!("node {node} at {address} belongs to another cluster"));
        }
        // Alone in its own membership, it would stand for election again and again.
        let recorded = self.shared.local.recorded_incarnation(node);
        if !is_pristine && from.cluster.is_none() && recorded != Some(from.incarnation) {
            return rejected(format!(
                "node {node} at {address} has begun a cluster of its own, and not completed it: start \
                 it with an empty data folder, without `--bootstrap`"
            ));
        }
        let needed = self.shared.local.required_release();
        if release.level < needed.level {
            return rejected(format!(
                "node {node} at {address} is version {release} with feature level {}: the cluster has \
                 level {}, which needs version {needed} or a later one",
                release.level, needed.level
            ));
        }
        let members = self.status().members;
        if let Some(member) = members.iter().find(|member| member.node == node)
            && member.address != address
        {
            return rejected(format!(
                "node {node} is already a member at {}: to move a node, start it empty with a new id, \
                 and run `hearth cluster replace`",
                member.address
            ));
        }
        self.submit(AddMember { node, incarnation: from.incarnation }).await?;
        self.change(self.shared.raft.add_learner(node, address, false)).await
    }

    async fn remove(&self, node: NodeId) -> OperateResult<()> {
        let members = self.status().members;
        let voters = members.iter().filter(|member| member.role.votes());
        let others: Vec<&MemberStatus> = voters.filter(|member| member.node != node).collect();
        let member = members.iter().find(|member| member.node == node);
        let responsive = others.iter().filter(|member| is_responsive(member)).count();
        match member {
            // Not in raft's membership: an earlier removal may have stopped here.
            None => {}
            Some(member) if member.role.votes() && responsive <= others.len() / 2 => {
                return rejected(format!(
                    "without node {node} only {responsive} of {} voters are reachable, which is no \
                     majority: restart the other voters or add nodes first",
                    others.len()
                ));
            }
            // The role is that of a voter while no quorum has responded for a time, as after a pause.
            Some(_) if node == self.shared.local.node => {
                self.transfer_leadership().await?;
                // The caller repeats the operation on the new leader.
                return Err(OperateError::NoLeader);
            }
            Some(member) => {
                let one = BTreeSet::from([node]);
                let change = match member.role.votes() {
                    true => ChangeMembers::RemoveVoters(one),
                    false => ChangeMembers::RemoveNodes(one),
                };
                self.change(self.shared.raft.change_membership(change, false)).await?;
            }
        }
        self.submit(RemoveMember(node)).await.map(drop)
    }

    async fn change<T>(
        &self,
        change: impl Future<Output = Result<T, RaftError<TypeConfig, ClientWriteError<TypeConfig>>>>,
    ) -> OperateResult<()> {
        match timeout_at(self.deadline, change).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(_)))) => {
                Err(OperateError::NoLeader)
            }
            Ok(Err(RaftError::APIError(ClientWriteError::ChangeMembershipError(error)))) => {
                rejected(error.to_string())
            }
            Ok(Err(_)) | Err(_) => Err(OperateError::Unknown),
        }
    }

    async fn transfer(&self, to: NodeId) -> OperateResult<()> {
        if !self.shared.voters().contains(&to) {
            return rejected(format!("node {to} is not a voter"));
        }
        let local = self.shared.local.node;
        if to == local {
            return Ok(());
        }
        if !self.status().members.iter().any(|member| member.node == to && is_responsive(member)) {
            return rejected(format!("node {to} is not reachable"));
        }
        // Without new entries, a voter that responds soon has them all. If the disk of this node
        // hangs, a round may hold the lock for ever, and proposes nothing.
        let _no_proposals = timeout(CATCH_UP_TIMEOUT, self.shared.leading.proposals.lock()).await;
        self.wait_caught_up(to).await?;
        let trigger = self.shared.raft.trigger();
        match timeout_at(self.deadline, trigger.transfer_leader(to)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(OperateError::Unknown),
            Err(_) => return rejected("raft on this node does not respond"),
        }
        let elected = self
            .shared
            .wait_metrics(|metrics| metrics.current_leader.filter(|leader| *leader != local));
        let deadline = self.deadline.min(Instant::now() + TRANSFER_TIMEOUT);
        match timeout_at(deadline, elected).await {
            Ok(Some(leader)) if leader == to => Ok(()),
            Ok(Some(other)) => rejected(format!("node {other} became the leader, not node {to}")),
            Ok(None) => Err(OperateError::Unknown),
            Err(_) => rejected(format!("node {to} did not become the leader in time")),
        }
    }

    /// Waits until a voter has all entries of this node's log.
    async fn wait_caught_up(&self, node: NodeId) -> OperateResult<()> {
        let mut metrics = self.shared.raft.metrics();
        let caught_up = async {
            while Followers(&metrics.borrow_watched()).lag(node) != Some(0) {
                metrics.changed().await.ok()?;
            }
            Some(())
        };
        match timeout(CATCH_UP_TIMEOUT, caught_up).await {
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(OperateError::Unknown),
            Err(_) => rejected(format!("node {node} lacks entries of the log: try again later")),
        }
    }

    /// Transfers leadership to a responsive voter, a fit one first, then that with the smallest lag.
    /// Returns it; `None` if this node does not lead, or no other node has a vote.
    pub(crate) async fn transfer_leadership(&self) -> OperateResult<Option<NodeId>> {
        let local = self.shared.local.node;
        if !self.shared.leads() || self.shared.voters() == [local] {
            return Ok(None);
        }
        let Some((_, _, next)) = self.successors().into_iter().min() else {
            return rejected("no other voter is reachable");
        };
        self.transfer(next).await.map(|()| Some(next))
    }

    /// The same, to a fit voter only. Returns `None` if none is.
    pub(crate) async fn hand_over(&self) -> OperateResult<Option<NodeId>> {
        let fit = self.successors().into_iter().filter(|(is_unfit, ..)| !is_unfit).min();
        let Some((_, _, next)) = fit else { return Ok(None) };
        self.transfer(next).await.map(|()| Some(next))
    }

    /// The other voters that respond: whether each is unfit, its lag, and its id.
    fn successors(&self) -> Vec<(bool, u64, NodeId)> {
        let local = &self.shared.local;
        let is_successor = |member: &MemberStatus| {
            member.node != local.node && member.role == MemberRole::Voter && is_responsive(member)
        };
        let found = self.status().members.into_iter().filter(is_successor).map(|member| {
            let is_unfit = local.contact.is_unfit(member.node) || member.disk_full;
            (is_unfit, member.lag.unwrap_or(u64::MAX), member.node)
        });
        found.collect()
    }

    /// Submits a command. Returns the index at which it is applied, and its reply.
    pub(crate) async fn submit<C>(&self, command: C) -> OperateResult<(u64, C::Reply)>
    where
        C: ClusterRule + Into<ClusterAction>,
    {
        match self.shared.submit(Command::of_cluster(command), self.deadline, Span::none).await {
            Ok(outcome) => match outcome.accepted {
                Ok(accepted) => match C::Reply::from_reply(accepted.reply) {
                    Some(reply) => Ok((outcome.index, reply)),
                    None => Err(OperateError::Unknown),
                },
                Err(rejection) => rejected(rejection.to_string()),
            },
            Err(SubmitError::Unknown) => Err(OperateError::Unknown),
            Err(SubmitError::NoLeader) => Err(OperateError::NoLeader),
            Err(error) => rejected(error.to_string()),
        }
    }
}
