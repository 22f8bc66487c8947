//! The identity of a data folder: the node that it belongs to, and its incarnation.
//!
//! The file is written once. Without it, a folder could be opened with the id of another node,
//! and that id would vote twice.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::text;

/// Name of the file in the data folder.
const FILE: &str = "identity.toml";

/// The identity of a data folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// The node that the folder belongs to.
    pub(crate) node: u64,
    /// Random name of this incarnation of the folder. An emptied folder gets a new one.
    pub(crate) incarnation: Uuid,
}

/// Reads the identity of folder `data`, which must belong to `node`. A missing folder is
/// created, readable by its owner only; a missing identity is created too.
pub(crate) fn of_folder(data: &Path, node: u64) -> Result<Identity, String> {
    let unusable = |error: io::Error| format!("cannot prepare {}: {error}", data.display());
    create_private_folder(data).map_err(unusable)?;
    let path = data.join(FILE);
    let identity = match std::fs::read_to_string(&path) {
        Ok(toml) => {
            toml::from_str(&toml).map_err(|error| format!("{}: {error}", path.display()))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let identity = Identity { node, incarnation: Uuid::new_v4() };
            let toml = toml::to_string(&identity).map_err(text)?;
            storage::file::replace(&path, toml.as_bytes()).map_err(text)?;
            identity
        }
        Err(error) => return Err(unusable(error)),
    };
    if identity.node != node {
        return Err(format!(
            "{} belongs to node {}, but node.id is {node}: set node.id back, or use another folder",
            data.display(),
            identity.node,
        ));
    }
    Ok(identity)
}

/// Creates a folder, and its parents, that only its owner may read.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
