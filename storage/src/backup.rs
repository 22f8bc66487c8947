//! The state in a backup: a copy of the state folder at one log index. A restoration makes it the
//! state of another cluster.

use std::fs;
use std::path::Path;
use std::time::Duration;

use model::cluster::{Cluster, Incarnation, Position};
use model::release::Release;

use crate::checkpoint::Folder;
use crate::codec;
use crate::error::{Error, Result};
use crate::table::key::{Key, Kind};
use crate::table::state::Environment;
use crate::table::state::State;
use crate::table::view::View;
use crate::verify::{RowFaults, hash_rows, row_faults};

/// What a copy of the state holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedState {
    /// Its position in the log.
    pub position: Position,
    /// The cluster that it comes from.
    pub cluster: Cluster,
    /// SHA-256 of all rows, as in [`crate::VerifyResult`]: the same on all nodes at this position.
    pub hash: [u8; 32],
    /// Rows that cannot be.
    pub faults: RowFaults,
}

/// What the state of a data folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// Its position in the log.
    pub position: Position,
    /// Id of its cluster, if it is bootstrapped in this state.
    pub cluster: Option<Incarnation>,
    /// Rows that cannot be.
    pub faults: RowFaults,
}

/// Reads the state of the data folder `data`. Changes no file.
///
/// # Errors
/// If there is no state, or it is damaged.
pub fn examine_data(data: &Path) -> Result<Examined> {
    let current = Folder::new(&data.join("state")).named()?;
    let state = State::open_to_read(&current)?;
    let cluster = state.record::<Cluster>(&Key::Cluster)?.map(|cluster| cluster.id);
    let position = state.record::<Position>(&Key::Position)?.unwrap_or_default();
    let faults = row_faults(&state.snapshot(), Duration::ZERO)?;
    Ok(Examined { position, cluster, faults })
}

/// Makes a copy of the state of the data folder `data`, which no process may use, the state of the
/// new folder `to`. Files that the engine never changes are hard links on the same file system.
///
/// # Errors
/// If there is no state, `to` exists already, or the file system fails.
pub fn copy_state(data: &Path, to: &Path) -> Result<()> {
    let current = Folder::new(&data.join("state")).named()?;
    let copy = to.join("copy");
    fs::create_dir_all(&copy).map_err(Error::file("create", &copy))?;
    for entry in fs::read_dir(&current).map_err(Error::file("list", &current))? {
        let entry = entry.map_err(Error::file("list", &current))?;
        let (from, to) = (entry.path(), copy.join(entry.file_name()));
        let is_table = from.extension().is_some_and(|it| it == "sst");
        if !(is_table && fs::hard_link(&from, &to).is_ok()) {
            fs::copy(&from, &to).map_err(Error::file("copy", &from))?;
        }
    }
    found_state(to, &copy)
}

/// Makes the copy in `source` the state of the data folder `data`, which has none. Moves `source`,
/// which must be on the same file system.
///
/// # Errors
/// If there is a state, or the file system fails.
pub fn found_state(data: &Path, source: &Path) -> Result<()> {
    let root = data.join("state");
    fs::create_dir_all(data).map_err(Error::file("create", data))?;
    fs::create_dir(&root).map_err(Error::file("create", &root))?;
    Folder::new(&root).found(source)
}

/// Reads all rows of the copy in `folder`. Changes no file.
///
/// # Errors
/// If the copy is damaged, or was taken before the cluster was bootstrapped.
pub fn examine(folder: &Path) -> Result<CopiedState> {
    let state = State::open_to_read(folder)?;
    let position = state.record::<Position>(&Key::Position)?.unwrap_or_default();
    let cluster = state.record::<Cluster>(&Key::Cluster)?.ok_or_else(|| no_cluster(folder))?;
    cluster.check_readable(Release::own())?;
    let snapshot = state.snapshot();
    let hash = hash_rows(&snapshot, Duration::ZERO)?;
    let faults = row_faults(&snapshot, Duration::ZERO)?;
    Ok(CopiedState { position, cluster, hash, faults })
}

fn no_cluster(folder: &Path) -> Error {
    let detail = format!("{} holds no cluster", folder.display());
    Error::Corrupt { what: "state", detail }
}

/// Makes the copy in `source` the state of the new data folder `data`, at another position and in
/// another cluster, without its API keys unless `keeps_keys`. Moves `source`, which must be on the
/// same file system.
///
/// # Errors
/// If the data folder has a state already, or the copy is damaged.
pub fn install(
    data: &Path,
    source: &Path,
    position: &Position,
    cluster: &Cluster,
    keeps_keys: bool,
) -> Result<()> {
    let root = data.join("state");
    if root.exists() {
        return Err(Error::Misuse(format!("{} exists already", root.display())));
    }
    let state = State::open(source, Environment::Machine)?;
    let mut rows = rocksdb::WriteBatch::default();
    rows.put(Key::Position.bytes(), codec::encode(position));
    rows.put(Key::Cluster.bytes(), codec::encode(cluster));
    // The nodes of the old cluster had loaded its next model.
    let mut models = state.models()?;
    if let Some(next) = &mut models.next {
        (next.ready, next.is_switching, next.forced) = (Vec::new(), false, false);
        rows.put(Key::Models.bytes(), codec::encode(&models));
    }
    if !keeps_keys {
        for kind in [Kind::ApiKey, Kind::KeyUses, Kind::KeyUsed] {
            rows.delete_range([kind as u8], [kind as u8 + 1]);
        }
    }
    state.write(rows)?;
    state.flush()?;
    drop(state);
    found_state(data, source)
}
