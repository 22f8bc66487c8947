//! Who this node is to its peers, and whom it deals with: members of its own
//! cluster, in the incarnation of their data folders that the cluster knows.

use std::sync::Arc;

use storage::model::cluster::{Cluster, Incarnation, Member};
use storage::{Reader, View};

use crate::contact::{Clocks, Contact};
use crate::fault::Fault;
use crate::integrity::quarantine::Quarantine;
use crate::leader::clock::WallClock;
use crate::network::message::{PeerIdentity, PeerRejection};
use crate::types::NodeId;

/// This node, as it speaks to others.
pub(crate) struct LocalNode {
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) reader: Reader,
    pub(crate) wall_clock: Arc<dyn WallClock>,
    pub(crate) contact: Contact,
    pub(crate) fault: Fault,
    pub(crate) quarantine: Quarantine,
}

impl LocalNode {
    pub(crate) fn peer_identity(&self) -> PeerIdentity {
        let cluster = self.cluster().ok().flatten().map(|cluster| cluster.id);
        PeerIdentity { cluster, node: self.node, incarnation: self.incarnation }
    }

    pub(crate) fn clocks(&self) -> Clocks {
        self.contact.clocks(self.wall_clock.now())
    }

    /// The incarnation of a member's data folder that its cluster knows.
    pub(crate) fn known_incarnation(&self, node: NodeId) -> Option<Incarnation> {
        let members = self.cluster().ok().flatten()?.members;
        members.iter().find(|member| member.node == node).map(|member| member.incarnation)
    }

    /// Whether a call for that incarnation of this node's data folder is for this one. Lives of
    /// an id never change: if it is not, this folder was emptied, and what the node
    /// voted and acknowledged before is forgotten. It must not go on under its id.
    pub(crate) fn check_incarnation(
        &self,
        incarnation: Option<Incarnation>,
    ) -> Result<(), PeerRejection> {
        if incarnation.is_none_or(|incarnation| incarnation == self.incarnation) {
            return Ok(());
        }
        self.fault.report(&format_args!(
            "the cluster knows node {} by another data folder than this one: a node that lost its \
             data is another node. Remove it from the cluster, and add it again, empty, with a new id",
            self.node
        ));
        Err(PeerRejection::NotAMember)
    }

    /// Whether to deal with somebody who says to be `from`.
    pub(crate) fn check_peer(&self, from: &PeerIdentity) -> Result<(), PeerRejection> {
        check_peer(self.cluster()?.as_ref(), from)
    }

    fn cluster(&self) -> Result<Option<Cluster>, PeerRejection> {
        self.reader.cluster().map_err(|error| {
            self.fault.storage(&error);
            PeerRejection::Unavailable
        })
    }
}

/// A node whose state knows no cluster yet deals with everybody who has a
/// certificate of the same authority: it is being founded, or added.
fn check_peer(own: Option<&Cluster>, from: &PeerIdentity) -> Result<(), PeerRejection> {
    let Some(own) = own else { return Ok(()) };
    if from.cluster.is_some_and(|cluster| cluster != own.id) {
        return Err(PeerRejection::OtherCluster);
    }
    let known = own.members.iter().find(|member| member.node == from.node);
    match (known, from.cluster) {
        // One that says no cluster may be a member that has not applied so far yet.
        (Some(member), _) if *member == Member::new(from.node, from.incarnation) => Ok(()),
        // Of this cluster, and not known here: it came while this node was away. If it leads,
        // only it can tell.
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
    fn members_are_dealt_with_in_their_known_life_and_those_that_came_meanwhile() {
        let model = Model { id: ModelId([0; 8]), name: String::new(), dimension: 4 };
        let own = Cluster { id: [9; 16], members: vec![], model };
        let members = vec![
            Member::new(1, [1; 16]),
            Member::new(2, [2; 16]),
            Member { removed: true, ..Member::new(4, [4; 16]) },
        ];
        let own = Cluster { members, ..own };
        let says = |cluster, node, incarnation| {
            check_peer(Some(&own), &PeerIdentity { cluster, node, incarnation })
        };
        assert_eq!(says(Some([9; 16]), 2, [2; 16]), Ok(()));
        assert_eq!(says(None, 2, [2; 16]), Ok(()));
        assert_eq!(says(Some([8; 16]), 2, [2; 16]), Err(PeerRejection::OtherCluster));
        assert_eq!(says(None, 2, [5; 16]), Err(PeerRejection::NotAMember), "a wiped disk");
        assert_eq!(says(Some([9; 16]), 3, [3; 16]), Ok(()), "came while this node was away");
        assert_eq!(says(None, 3, [3; 16]), Err(PeerRejection::NotAMember), "a stranger");
        assert_eq!(
            says(Some([9; 16]), 4, [4; 16]),
            Err(PeerRejection::NotAMember),
            "a removed one"
        );
        let anybody = PeerIdentity { cluster: Some([8; 16]), node: 3, incarnation: [3; 16] };
        assert_eq!(check_peer(None, &anybody), Ok(()));
    }
}
