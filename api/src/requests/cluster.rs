//! Requests of operators about the cluster.

use serde::Deserialize;

use crate::requests::fields::{Address, NodeNumber};

/// A node to add.
#[derive(Debug, Deserialize)]
pub(crate) struct NewMember {
    pub(crate) id: NodeNumber,
    /// Host and port of its peer listener.
    pub(crate) address: Address,
}

/// A voter that should lead.
#[derive(Debug, Deserialize)]
pub(crate) struct Transfer {
    pub(crate) to: NodeNumber,
}
