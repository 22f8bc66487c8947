//! Sections `node` and `cluster`: the identity of a node, and the initial members.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// The identity of this node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Id: 1 or more, unique in the cluster, never reused.
    pub id: u64,
    /// The data folder of this node.
    pub data: PathBuf,
    /// Name of the first tenant of a new cluster.
    #[serde(default = "default_tenant")]
    pub tenant: String,
}

impl Node {
    pub(super) fn validate(&self) -> Result<(), String> {
        if self.id == 0 {
            return Err("node.id must be 1 or more".into());
        }
        if self.tenant.trim().is_empty() {
            return Err("node.tenant must not be empty".into());
        }
        Ok(())
    }
}

pub(super) fn default_tenant() -> String {
    "default".into()
}

/// The initial members of the cluster; read only when the cluster is bootstrapped.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    /// Peer address (host and port) per node id, as `1=host:port, 2=host:port`. Empty: this node
    /// alone.
    #[serde(deserialize_with = "members")]
    pub members: BTreeMap<u64, String>,
}

/// Parses `1=host:port, 2=host:port`.
fn members<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u64, String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut members = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (id, address) = member(part).ok_or_else(|| {
            D::Error::custom(format!("{part:?} is not a member: write 1=host:port, 2=host:port"))
        })?;
        if members.insert(id, address).is_some() {
            return Err(D::Error::custom(format!("duplicate member id {id}")));
        }
    }
    Ok(members)
}

/// Parses `1=host:port`.
fn member(text: &str) -> Option<(u64, String)> {
    let (id, address) = text.split_once('=')?;
    let (id, address) = (id.trim().parse().ok()?, address.trim());
    (id > 0 && address.contains(':')).then(|| (id, address.to_owned()))
}
