//! The identity of a data folder: the node that it belongs to, and its incarnation.
//!
//! The file is written once. Without it, a folder could be opened with the id of another node,
//! and that id would vote twice.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{storage_error, text};

/// Name of the file in the data folder.
const FILE: &str = "identity.toml";
/// A folder in a data folder while a backup is restored into it.
const RESTORING: &str = "restoring";

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
    if data.join(RESTORING).exists() {
        let data = data.display();
        return Err(format!(
            "a restoration into {data} did not end: empty the folder, and repeat it"
        ));
    }
    create_private_folder(data).map_err(|error| unusable(data, &error))?;
    match read(data, node)? {
        Some(identity) => Ok(identity),
        None => create(data, node),
    }
}

fn create(data: &Path, node: u64) -> Result<Identity, String> {
    let identity = Identity { node, incarnation: Uuid::new_v4() };
    let toml = toml::to_string(&identity).map_err(text)?;
    storage::file::replace(&data.join(FILE), toml.as_bytes()).map_err(text)?;
    Ok(identity)
}

/// A restoration into a data folder, which no node uses before its end.
pub(crate) struct BegunRestoration {
    pub(crate) identity: Identity,
    /// A folder for its files, which goes with its end.
    pub(crate) folder: PathBuf,
}

/// Begins a restoration into the empty folder `data` of `node`.
pub(crate) fn begin_restoration(data: &Path, node: u64) -> Result<BegunRestoration, String> {
    let folder = data.join(RESTORING);
    create_private_folder(&folder).map_err(|error| unusable(data, &error))?;
    Ok(BegunRestoration { identity: create(data, node)?, folder })
}

impl BegunRestoration {
    /// Ends it: a node can use the folder.
    pub(crate) fn end(self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.folder).map_err(|error| unusable(&self.folder, &error))
    }
}

/// The node that the folder `data` belongs to.
pub(crate) fn node_of(data: &Path) -> Result<u64, String> {
    let found = find(data)?;
    found.map(|it| it.node).ok_or_else(|| format!("{} is no data folder", data.display()))
}

fn find(data: &Path) -> Result<Option<Identity>, String> {
    let path = data.join(FILE);
    let read: Result<Identity, storage::Error> = match std::fs::read_to_string(&path) {
        Ok(toml) => toml::from_str(&toml)
            .map_err(|error| storage::Error::Corrupt { what: FILE, detail: text(error) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => Err(storage::Error::File { action: "read", path, source }),
    };
    read.map(Some).map_err(storage_error(data))
}

/// The node that the folder `data` belongs to, if it belongs to one.
pub(crate) fn owner(data: &Path) -> Result<Option<u64>, String> {
    Ok(find(data)?.map(|identity| identity.node))
}

/// Removes the identity of a folder whose node never was a member of a cluster.
pub(crate) fn remove(data: &Path) -> Result<(), String> {
    std::fs::remove_file(data.join(FILE)).map_err(|error| unusable(data, &error))
}

/// Reads the identity of folder `data`, which must belong to `node`. `None` without one.
pub(crate) fn read(data: &Path, node: u64) -> Result<Option<Identity>, String> {
    let Some(identity) = find(data)? else { return Ok(None) };
    if identity.node != node {
        return Err(format!(
            "{} belongs to node {}, but node.id is {node}: set node.id back, or use another folder",
            data.display(),
            identity.node,
        ));
    }
    Ok(Some(identity))
}

fn unusable(data: &Path, error: &io::Error) -> String {
    format!("cannot prepare {}: {error}", data.display())
}

/// Creates a folder, and its parents, that only its owner may read.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
