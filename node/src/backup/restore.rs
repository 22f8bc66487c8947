//! Makes a copied state the data of a new cluster of one node, in an empty data folder: that of a
//! backup, or of what a lost cluster left.

use std::io;
use std::path::{Path, PathBuf};

use api::random_bytes;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use raft::{Remains, Replay, RestoredNode, Until};
use storage::backup::CopiedState;
use storage::file::is_plain_name;
use storage::model::release::LEVEL;
use tokio::task::block_in_place;

use crate::backup::manifest::{FileOf, Manifest, ModelOf};
use crate::backup::store::Store;
use crate::error::{cannot, text};
use crate::identity::{self, BegunRestoration};

/// Segments of the log that are in memory.
const SEGMENTS_AHEAD: usize = 4;

/// What a restoration needs of the new node.
pub(crate) struct Restoration {
    pub(crate) data: PathBuf,
    pub(crate) node: u64,
    pub(crate) address: String,
    /// Id of the configured model, in hex digits.
    pub(crate) model: String,
    /// Fingerprint of the configured cluster key.
    pub(crate) cluster_key: Option<String>,
    pub(crate) hold_webhooks: bool,
    pub(crate) keeps_keys: bool,
}

impl Restoration {
    /// Refuses a backup that the new node could not use, before anything is written.
    fn check(&self, manifest: &Manifest) -> Result<(), String> {
        if manifest.level > LEVEL {
            return Err(format!(
                "the backup needs version {} or later: this is {}",
                manifest.version,
                env!("CARGO_PKG_VERSION")
            ));
        }
        self.check_model(&manifest.model)?;
        if manifest.cluster_key.is_some() && manifest.cluster_key != self.cluster_key {
            return Err(
                "webhooks.key is not the cluster key of the backup, without which the secrets \
                 of webhooks are lost: copy cluster.key from a node of the old cluster"
                    .into(),
            );
        }
        Ok(())
    }

    fn check_model(&self, model: &ModelOf) -> Result<(), String> {
        match model.id == self.model {
            true => Ok(()),
            false => Err(format!(
                "the memories were embedded by {} ({}), but another model is configured: set \
                 embedder.model",
                model.name, model.id
            )),
        }
    }

    fn begin(&self) -> Result<BegunRestoration, String> {
        if !is_empty(&self.data).map_err(cannot("read the data folder"))? {
            return Err(format!("{} is not empty: use an empty folder", self.data.display()));
        }
        identity::begin_restoration(&self.data, self.node)
    }

    /// Makes the state in `source` that of the new cluster. Moves `source`.
    fn end(
        &self,
        begun: BegunRestoration,
        source: &Path,
        state: CopiedState,
    ) -> Result<(), String> {
        let node = RestoredNode {
            cluster: random_bytes(),
            node: self.node,
            incarnation: begun.identity.incarnation.into_bytes(),
            address: self.address.clone(),
            hold_webhooks: self.hold_webhooks,
            keeps_keys: self.keeps_keys,
        };
        raft::restore(&self.data, source, state, &node).map_err(text)?;
        begun.end()
    }
}

/// Whether a folder is absent or empty. A new file system may have a folder of its own.
fn is_empty(folder: &Path) -> io::Result<bool> {
    match std::fs::read_dir(folder) {
        Ok(entries) => {
            let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
            Ok(names?.iter().all(|name| name == "lost+found"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// What a restoration contains.
pub(crate) struct Restored {
    /// Index of the last entry.
    pub(crate) index: u64,
    /// Cluster time there.
    pub(crate) clock: Timestamp,
}

/// Downloads a backup, applies the log that follows it up to `until` unless that is `None`, and makes
/// the result a data folder. No node starts on the folder before it is complete. `received` is called
/// with the bytes of each part.
pub(crate) async fn restore(
    store: &Store,
    manifest: &Manifest,
    until: Option<Until>,
    to: Restoration,
    received: impl Fn(u64),
) -> Result<Restored, String> {
    to.check(manifest)?;
    let begun = to.begin()?;
    let mut source = begun.folder.join("source");
    let mut state = download(store, manifest, &source, &received).await?;
    if let Some(until) = until {
        let (work, replayed) = (begun.folder.join("work"), begun.folder.join("replayed"));
        storage::backup::found_state(&work, &source).map_err(text)?;
        replay(store, manifest, until, &work, &replayed, received).await?;
        state = block_in_place(|| storage::backup::examine(&replayed)).map_err(text)?;
        // The log may have switched the model.
        to.check_model(&ModelOf::new(&state.cluster.model))?;
        source = replayed;
    }
    let clock = Timestamp::from_microsecond(state.position.clock.0).unwrap_or_default();
    let restored = Restored { index: state.position.index, clock };
    block_in_place(|| to.end(begun, &source, state))?;
    Ok(restored)
}

/// Downloads the state of a backup into the new folder `to`, and checks that it is the one that was
/// backed up.
async fn download(
    store: &Store,
    manifest: &Manifest,
    to: &Path,
    received: impl Fn(u64),
) -> Result<CopiedState, String> {
    std::fs::create_dir(to).map_err(cannot("create a folder"))?;
    for FileOf { name, sha256, .. } in &manifest.files {
        if !is_plain_name(name) {
            return Err(format!("the manifest has the file name {name:?}"));
        }
        fail::fail_point!("restore-file", |_| std::process::abort());
        if !store.download(sha256, Some(&to.join(name)), &received).await? {
            return Err(format!("the file {sha256} is damaged"));
        }
    }
    let state = block_in_place(|| storage::backup::examine(to)).map_err(text)?;
    match hex::encode(state.hash) == manifest.state_sha256 {
        true => Ok(state),
        false => Err("the state is not the one that was backed up".into()),
    }
}

/// Applies the log that follows a backup to its state in the folder `work`, and copies the result to
/// the new folder `to`.
async fn replay(
    store: &Store,
    manifest: &Manifest,
    until: Until,
    work: &Path,
    to: &Path,
    received: impl Fn(u64),
) -> Result<(), String> {
    let mut replay = block_in_place(|| Replay::open(work, 0)).map_err(text)?;
    let firsts = store.segments_after(&manifest.cluster, manifest.index).await?;
    let read = async |first: u64| (first, store.segment(&manifest.cluster, first).await);
    let mut segments = stream::iter(firsts).map(read).buffered(SEGMENTS_AHEAD);
    let mut is_reached = until == Until::Index(manifest.index);
    while !is_reached && let Some((first, segment)) = segments.next().await {
        let segment = segment?;
        if segment.head.last.index <= manifest.index {
            continue;
        }
        fail::fail_point!("restore-segment", |_| std::process::abort());
        is_reached = block_in_place(|| replay.apply(&segment, until)).map_err(|error| {
            let last = replay.next() - 1;
            format!(
                "the segment of entry {first}: {error}. `--at {last}` restores what is before it"
            )
        })?;
        received(segment.bytes());
    }
    let last = replay.next() - 1;
    if let Until::Index(index) = until
        && last != index
    {
        return Err(format!("the log in the place ends at entry {last}, before entry {index}"));
    }
    block_in_place(|| replay.end(to)).map_err(text)
}

/// Makes what a stopped node left the data of a new cluster: its state, with its whole log applied.
/// Returns the state. The old data folder stays as it is.
pub(crate) fn recover(remains: &Remains, to: &Restoration) -> Result<CopiedState, String> {
    let begun = to.begin()?;
    let source = begun.folder.join("source");
    raft::apply_remains(remains, &begun.folder.join("work"), &source).map_err(text)?;
    let state = storage::backup::examine(&source).map_err(text)?;
    to.check_model(&ModelOf::new(&state.cluster.model))?;
    to.end(begun, &source, state.clone())?;
    Ok(state)
}
