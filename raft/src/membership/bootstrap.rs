//! Bootstrap: makes the initial members one cluster.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use storage::model::cluster::Member;
use storage::model::release::Release;
use tokio::time::Instant;

use crate::error::StartError;
use crate::handle::Handle;
use crate::network::client::{Identified, Peers};
use crate::network::message::RpcError;
use crate::network::transport::Channel;
use crate::types::NodeId;

const IDENTIFY_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before the request is repeated to a node that is not up yet.
const IDENTIFY_PAUSE: Duration = Duration::from_millis(100);

/// Makes the nodes at these addresses one cluster. `members` must include this node. Returns false,
/// without an effect, if this node already belongs to a cluster.
///
/// Only the member with the lowest id may bootstrap, and only if every other member is pristine.
/// Otherwise two nodes could bootstrap two clusters from the same members.
///
/// # Errors
/// When a member is not reached by `deadline` or is not pristine, or when raft fails.
pub async fn bootstrap(
    handle: &Handle,
    members: &BTreeMap<NodeId, String>,
    deadline: Instant,
) -> Result<bool, StartError> {
    let Some(shared) = handle.shared() else { return Ok(false) };
    let failed = |error: String| StartError::Raft(error);
    if shared.raft.is_initialized().await.map_err(|fatal| failed(fatal.to_string()))? {
        return Ok(false);
    }
    let local = shared.local.node;
    if members.keys().next() != Some(&local) {
        return Err(failed(format!(
            "only the member with the lowest id may bootstrap a cluster, and this is node {local}"
        )));
    }
    for (node, address) in members.iter().filter(|(node, _)| **node != local) {
        if !identify(&shared.peers, *node, address, deadline).await?.is_pristine {
            return Err(failed(format!(
                "node {node} at {address} already belongs to a cluster: no cluster was bootstrapped. \
                 If this node has lost its data, start it empty with a new id, without `--bootstrap`, \
                 and run `hearth cluster replace`"
            )));
        }
    }
    shared.is_initialized.store(true, Ordering::Relaxed);
    let initialized = shared.raft.initialize(members.clone()).await;
    initialized.map(|()| true).map_err(|error| failed(error.to_string()))
}

/// An initial member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Founder {
    /// Its id, and the incarnation of its data folder.
    pub member: Member,
    /// Its release.
    pub release: Release,
}

/// The initial members, as they say themselves.
///
/// # Errors
/// When a member is not reached by `deadline`.
pub async fn founders(
    handle: &Handle,
    members: &BTreeMap<NodeId, String>,
    deadline: Instant,
) -> Result<Vec<Founder>, StartError> {
    let Some(shared) = handle.shared() else { return Ok(Vec::new()) };
    let mut founders = Vec::new();
    for (node, address) in members {
        let (incarnation, release) = match *node == shared.local.node {
            true => (shared.local.incarnation, shared.local.reader.own_release()),
            false => {
                let found = identify(&shared.peers, *node, address, deadline).await?;
                (found.from.incarnation, found.release)
            }
        };
        founders.push(Founder { member: Member::new(*node, incarnation), release });
    }
    Ok(founders)
}

/// Requests a node's identity until it responds.
async fn identify(
    peers: &Peers,
    node: NodeId,
    address: &str,
    deadline: Instant,
) -> Result<Identified, StartError> {
    let failed = |error| Err(StartError::Raft(error));
    let mut reason = String::new();
    loop {
        let error = match peers.identify(Channel::Forward, address, IDENTIFY_TIMEOUT).await {
            Ok(found) if found.from.node == node => return Ok(found),
            Ok(Identified { from, .. }) => {
                return failed(format!("expected node {node} at {address}: it is {}", from.node));
            }
            Err(RpcError::Rejected(rejection)) => return failed(rejection.to_string()),
            Err(error) => error,
        };
        if Instant::now() >= deadline {
            return failed(format!("node {node} at {address}: {error}"));
        }
        let error = error.to_string();
        if reason != error {
            tracing::info!(node, address, error, "waiting for an initial member");
            reason = error;
        }
        tokio::time::sleep(IDENTIFY_PAUSE).await;
    }
}
