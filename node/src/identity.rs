//! Whose data folder this is: a small file that is written once. A folder opened
//! under another node's id would vote twice in that node's name.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Name of the file within the data folder.
const FILE: &str = "identity.toml";

/// A data folder's identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    /// The node that it belongs to.
    pub(crate) node: u64,
    /// Random name of this life of the folder: an emptied folder is another one.
    pub(crate) incarnation: Uuid,
}

/// The identity of folder `data`, made there if there is none. The folder is made
/// too, readable by its owner only.
pub(crate) fn of_folder(data: &Path, node: u64) -> Result<Identity, String> {
    let told = |error: io::Error| format!("cannot prepare {}: {error}", data.display());
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(told)?;
    let path = data.join(FILE);
    let identity = match fs::read_to_string(&path) {
        Ok(text) => {
            toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let identity = Identity { node, incarnation: Uuid::new_v4() };
            let text = toml::to_string(&identity).map_err(|error| error.to_string())?;
            storage::file::replace(&path, text.as_bytes()).map_err(|error| error.to_string())?;
            identity
        }
        Err(error) => return Err(told(error)),
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
