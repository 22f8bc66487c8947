//! Becoming a cluster, and changing who belongs to it.

use std::collections::BTreeMap;
use std::time::Duration;

use storage::model::cluster::Incarnation;
use tokio::time::Instant;

use crate::error::StartError;
use crate::handle::Handle;
use crate::network::client::{Peers, RpcError};
use crate::types::{NodeId, Peer};

/// How long a node may take to say who it is.
const INTRODUCE_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a node that is not up yet is asked again.
const INTRODUCE_PAUSE: Duration = Duration::from_millis(100);

/// Makes the nodes at these addresses a cluster, this one among them; does nothing
/// once this node belongs to one. Only the one with the lowest id may, and only if
/// no other has ever belonged to a cluster: two founders would found two clusters.
///
/// # Errors
/// When a node is not reached by `deadline`, is not pristine, or raft refuses.
pub async fn bootstrap(
    handle: &Handle,
    members: &BTreeMap<NodeId, Peer>,
    deadline: Instant,
) -> Result<(), StartError> {
    let Some((raft, peers)) = handle.parts() else { return Ok(()) };
    let refused = |error: String| StartError::Raft(error);
    if raft.is_initialized().await.map_err(|fatal| refused(fatal.to_string()))? {
        return Ok(());
    }
    let local = peers.local.node;
    if members.keys().next() != Some(&local) {
        return Err(refused(format!(
            "a cluster is founded by its member with the lowest id, and this is node {local}"
        )));
    }
    for (node, peer) in members.iter().filter(|(node, _)| **node != local) {
        let (_, pristine) = introduced(peers, *node, peer, deadline).await?;
        if !pristine {
            return Err(refused(format!(
                "node {node} at {} belongs to a cluster already: nothing was founded",
                peer.address
            )));
        }
    }
    raft.initialize(members.clone()).await.map_err(|error| refused(error.to_string()))
}

/// The check_incarnation of the founders' data folders, as they say themselves.
///
/// # Errors
/// When one of them is not reached by `deadline`.
pub async fn founders(
    handle: &Handle,
    members: &BTreeMap<NodeId, Peer>,
    deadline: Instant,
) -> Result<Vec<(NodeId, Incarnation)>, StartError> {
    let Some((_, peers)) = handle.parts() else { return Ok(Vec::new()) };
    let mut founders = Vec::new();
    for (node, peer) in members {
        let incarnation = match *node == peers.local.node {
            true => peers.local.incarnation,
            false => introduced(peers, *node, peer, deadline).await?.0,
        };
        founders.push((*node, incarnation));
    }
    Ok(founders)
}

/// Asks a node who it is until it answers.
async fn introduced(
    peers: &Peers,
    node: NodeId,
    peer: &Peer,
    deadline: Instant,
) -> Result<(Incarnation, bool), StartError> {
    let mut told = false;
    loop {
        let error = match peers.introduce(&peer.address, INTRODUCE_TIMEOUT).await {
            Ok((from, pristine)) if from.node == node => return Ok((from.incarnation, pristine)),
            Ok((from, _)) => {
                let error = format!("node {} answers at {}, not {node}", from.node, peer.address);
                return Err(StartError::Raft(error));
            }
            Err(RpcError::Refused(refused)) => return Err(StartError::Raft(refused.to_string())),
            Err(error) => error,
        };
        if Instant::now() >= deadline {
            let error = format!("node {node} at {}: {error}", peer.address);
            return Err(StartError::Raft(error));
        }
        if !std::mem::replace(&mut told, true) {
            tracing::info!(node, address = peer.address, "waiting for a founding member");
        }
        tokio::time::sleep(INTRODUCE_PAUSE).await;
    }
}
