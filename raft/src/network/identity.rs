//! The identity of this node, and the check of a peer's identity: a peer must be a member of the
//! same cluster, with the incarnation of its data folder that the cluster has recorded.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use storage::model::cluster::{Cluster, Incarnation, Member};
use storage::model::id::Timestamp;
use storage::model::release::Release;
use storage::{Reader, View};

use crate::contact::{Condition, Contact};
use crate::fault::Fault;
use crate::network::message::{PeerIdentity, PeerRejection};
use crate::system_clock::SystemClock;
use crate::types::NodeId;

/// This node: its identity and the parts that every peer call needs.
pub(crate) struct LocalNode {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) reader: Reader,
    pub(crate) clock: SystemClock,
    pub(crate) contact: Contact,
    pub(crate) fault: Fault,
    /// Its data folder.
    pub(crate) data: PathBuf,
}

impl LocalNode {
    pub(crate) fn peer_identity(&self) -> PeerIdentity {
        let cluster = self.cluster().ok().flatten().map(|cluster| cluster.id);
        PeerIdentity { cluster, node: self.node, incarnation: self.incarnation }
    }

    pub(crate) fn condition(&self) -> Condition {
        self.contact.condition(self.clock.read(), self.reader.own_release())
    }

    /// Cluster time at this boot time: the last stamp, plus the time since then. Without a stamp
    /// of a leader during this process, the last stamp in the state.
    pub(crate) fn cluster_time(&self, boottime: Duration) -> Timestamp {
        let last = self.contact.last_stamp();
        let advanced = last.map(|last| last.advanced_to(boottime, 100));
        advanced.unwrap_or_default().max(self.reader.position().clock)
    }

    /// The release that every member must have; that of this node before there is a cluster.
    pub(crate) fn required_release(&self) -> Release {
        let cluster = self.cluster().ok().flatten();
        cluster.map_or(self.reader.own_release(), |cluster| cluster.release)
    }

    /// The recorded incarnation of a member's data folder.
    pub(crate) fn recorded_incarnation(&self, node: NodeId) -> Option<Incarnation> {
        let cluster = self.cluster().ok().flatten()?;
        cluster.members.iter().find(|member| member.node == node).map(|member| member.incarnation)
    }

    /// Checks that a call is for this incarnation of the data folder. The incarnation of an id
    /// never changes. If it differs, the folder was emptied, and its votes and acknowledged
    /// entries are lost. The node must not continue under its id, so it stops.
    pub(crate) fn check_incarnation(
        &self,
        incarnation: Option<Incarnation>,
    ) -> Result<(), PeerRejection> {
        if incarnation.is_none_or(|incarnation| incarnation == self.incarnation) {
            return Ok(());
        }
        self.fault.report(&format_args!(
            "the data folder of node {} is not the one that its cluster has recorded: a node that \
             lost its data cannot keep its id. Start it empty with a new id, and run `hearth \
             cluster replace`",
            self.node
        ));
        Err(PeerRejection::NotAMember)
    }

    pub(crate) fn check_peer(&self, from: &PeerIdentity) -> Result<(), PeerRejection> {
        check_peer(self.cluster()?.as_deref(), from)
    }

    fn cluster(&self) -> Result<Option<Arc<Cluster>>, PeerRejection> {
        self.reader.cluster().map_err(|error| {
            self.fault.report_storage(&error);
            PeerRejection::Unavailable
        })
    }
}

/// Without a cluster of its own, a node accepts every peer with a certificate of the authority:
/// it is being bootstrapped or added.
fn check_peer(own: Option<&Cluster>, from: &PeerIdentity) -> Result<(), PeerRejection> {
    let Some(own) = own else { return Ok(()) };
    if from.cluster.is_some_and(|cluster| cluster != own.id) {
        return Err(PeerRejection::OtherCluster);
    }
    let member = own.members.iter().find(|member| member.node == from.node);
    match (member, from.cluster) {
        // A member sends no cluster until it has applied the first batch.
        (Some(member), _) if *member == Member::new(from.node, from.incarnation) => Ok(()),
        // Added while this node was away. If it leads, only it can replicate that entry.
        (None, Some(_)) => Ok(()),
        _ => Err(PeerRejection::NotAMember),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::model::cluster::Model;
    use storage::model::vector::ModelId;

    #[test]
    fn only_members_with_recorded_incarnation_pass() {
        let model = Model::new(ModelId([0; 8]), String::new(), 4);
        let removed = Member { removed: true, ..Member::new(4, [4; 16]) };
        let members = vec![Member::new(1, [1; 16]), Member::new(2, [2; 16]), removed];
        let own = Cluster { id: [9; 16], members, model, restored: None, release: Release::own() };
        let check = |cluster, node, incarnation| {
            check_peer(Some(&own), &PeerIdentity { cluster, node, incarnation })
        };
        assert_eq!(check(Some([9; 16]), 2, [2; 16]), Ok(()));
        assert_eq!(check(None, 2, [2; 16]), Ok(()));
        assert_eq!(check(Some([8; 16]), 2, [2; 16]), Err(PeerRejection::OtherCluster));
        assert_eq!(check(None, 2, [5; 16]), Err(PeerRejection::NotAMember), "a wiped disk");
        assert_eq!(check(Some([9; 16]), 3, [3; 16]), Ok(()), "added while this node was away");
        assert_eq!(check(None, 3, [3; 16]), Err(PeerRejection::NotAMember), "not a member");
        assert_eq!(check(Some([9; 16]), 4, [4; 16]), Err(PeerRejection::NotAMember), "removed");
        let any = PeerIdentity { cluster: Some([8; 16]), node: 3, incarnation: [3; 16] };
        assert_eq!(check_peer(None, &any), Ok(()));
    }
}
