//! Makes a copied state the data of a new cluster of one node.
//!
//! # Index
//! The log of the new cluster begins far above the copy. Clients hold indexes of the past
//! (`X-Hearth-Min-Index`), also some that the old cluster reached after the copy. A read at such an
//! index must not wait for it, nor take it for one of the new cluster.
//!
//! # Term
//! The log begins after an entry of a term that the old cluster did not have at that index. The vote
//! is of that term, so the first election is in a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use openraft::Membership;
use storage::backup::{CopiedState, install};
use storage::model::cluster::{Incarnation, Member, Position};
use storage::{LogField, LogWrite, codec};

use crate::error::StartError;
use crate::log::record::{HighWaterMark, LogIdRecord, StoredMembershipRecord, VoteRecord};
use crate::log::store::MARK_FILE;
use crate::state_machine::snapshot_meta;
use crate::types::{LogId, NodeId, StoredMembership};

/// Entries between the copy and the log of the new cluster.
const INDEX_GAP: u64 = 1 << 32;

/// The new cluster and its node.
#[derive(Debug, Clone)]
pub struct RestoredNode {
    /// Random id of the cluster.
    pub cluster: Incarnation,
    /// Its node.
    pub node: NodeId,
    /// Incarnation of the node's data folder.
    pub incarnation: Incarnation,
    /// Host and port of its peer listener.
    pub address: String,
    /// Whether deliveries of webhooks wait for the operator.
    pub hold_webhooks: bool,
    /// Whether the API keys of the copy stay valid.
    pub keeps_keys: bool,
}

/// Moves the copied state in `source` into the empty data folder `data`, and creates its log.
///
/// # Errors
/// If the data folder is not empty, or the copy is damaged.
pub fn restore(
    data: &Path,
    source: &Path,
    state: CopiedState,
    node: &RestoredNode,
) -> Result<(), StartError> {
    let before = snapshot_meta(&state.position)?.last_log_id.map(LogIdRecord::from);
    let before = before.unwrap_or(LogIdRecord { term: 0, index: 0 });
    let last = LogIdRecord { term: before.term + 1, index: before.index + INDEX_GAP };
    let nodes = BTreeMap::from([(node.node, node.address.clone())]);
    let membership = Membership::new(vec![BTreeSet::from([node.node])], nodes)
        .map_err(|error| StartError::Settings(error.to_string()))?;
    let membership = StoredMembership::new(Some(LogId::from(last)), membership);
    let position = Position {
        index: last.index,
        log_id: codec::encode(&last),
        membership: codec::encode(&StoredMembershipRecord::from(&membership)),
        ..state.position
    };
    let member = Member::new(node.node, node.incarnation);
    let cluster = state.cluster.restored(node.cluster, member, position.clock, node.hold_webhooks);

    let log = storage::open_log(data)?;
    let vote = VoteRecord { term: last.term, voted_for: node.node, committed: true };
    for (field, bytes) in [
        (LogField::Vote, codec::encode(&vote)),
        (LogField::Committed, codec::encode(&last)),
        (LogField::Purged, codec::encode(&last)),
    ] {
        log.write(&LogWrite::Set(field, bytes))?;
    }
    log.sync()?;
    let mark = HighWaterMark { vote: Some(vote), last: Some(last) };
    mark.write(&data.join(MARK_FILE))?;
    Ok(install(data, source, &position, &cluster, node.keeps_keys)?)
}
