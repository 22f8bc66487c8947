//! Makes a copied state the data of a new cluster of one node, in an empty data folder: that of a
//! backup, or of what a lost cluster left.

use std::io;
use std::path::{Path, PathBuf};

use api::random_bytes;
use futures::{StreamExt, stream};
use raft::{Remains, Replay, RestoredNode, Segment, Until};
use storage::backup::CopiedState;
use storage::file::is_plain_name;
use storage::model::release::LEVEL;
use tokio::task::block_in_place;

use crate::backup::manifest::{FileOf, Manifest, ModelOf};
use crate::backup::store::Store;
use crate::error::{cannot, text};
use crate::identity::{self, BegunRestoration};
use crate::program::VERSION;

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
    async fn check(&self, store: &Store, plan: &Plan<'_>) -> Result<(), String> {
        let manifest = plan.backup;
        if manifest.level > LEVEL {
            return Err(format!(
                "the backup needs version {} or later: this is {}",
                manifest.version, VERSION
            ));
        }
        let log = store.log_end(&manifest.cluster).await?;
        let may_switch = plan.until.is_some() && log.is_some_and(|end| end.index > manifest.index);
        if !may_switch {
            self.check_model(&manifest.model)?;
        }
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

/// What is restored.
pub(crate) struct Plan<'a> {
    /// The backup.
    pub(crate) backup: &'a Manifest,
    /// Where the log that is applied to it ends; without it, none is applied.
    pub(crate) until: Option<Until>,
    /// A later backup, to whose state the log must lead.
    pub(crate) passes: Option<&'a Manifest>,
}

/// Downloads a backup, applies the log that follows it, and makes the result a data folder. Returns
/// the state. No node starts on the folder before it is complete. `received` is called with the bytes
/// of each part.
pub(crate) async fn restore(
    store: &Store,
    plan: &Plan<'_>,
    to: Restoration,
    received: impl Fn(u64),
) -> Result<CopiedState, String> {
    to.check(store, plan).await?;
    let begun = to.begin()?;
    let mut source = begun.folder.join("source");
    let mut state = download(store, plan.backup, &source, &received).await?;
    if let Some(until) = plan.until {
        let (work, replayed) = (begun.folder.join("work"), begun.folder.join("replayed"));
        storage::backup::found_state(&work, &source).map_err(text)?;
        replay(store, plan, until, &work, &replayed, received).await?;
        state = block_in_place(|| storage::backup::examine(&replayed)).map_err(text)?;
        to.check_model(&ModelOf::new(&state.cluster.model))?;
        source = replayed;
    }
    block_in_place(|| to.end(begun, &source, state.clone()))?;
    Ok(state)
}

/// Downloads the state of a backup into the new folder `to`.
async fn download(
    store: &Store,
    manifest: &Manifest,
    to: &Path,
    received: impl Fn(u64),
) -> Result<CopiedState, String> {
    std::fs::create_dir(to).map_err(cannot("create a folder"))?;
    for FileOf { name, sha256, object, .. } in &manifest.files {
        let path = to.join(plain(name)?);
        fail::fail_point!("restore-file", |_| std::process::abort());
        if !store.download(object, sha256, Some(&path), &received).await? {
            return Err(format!("the file {sha256} is damaged"));
        }
    }
    block_in_place(|| examine(manifest, to))
}

/// A name that a manifest gives to a file. Another one would be a path out of the folder.
pub(crate) fn plain(name: &str) -> Result<&str, String> {
    match is_plain_name(name) {
        true => Ok(name),
        false => Err(format!("the manifest has the file name {name:?}")),
    }
}

/// Reads a downloaded state, and checks that it is the one that was backed up.
pub(crate) fn examine(manifest: &Manifest, folder: &Path) -> Result<CopiedState, String> {
    let state = storage::backup::examine(folder).map_err(text)?;
    match hex::encode(state.hash) == manifest.state_sha256 {
        true => Ok(state),
        false => Err("the state is not the one that was backed up".into()),
    }
}

/// Applies the log that follows a backup to its state in the folder `work`, and copies the result to
/// the new folder `to`.
async fn replay(
    store: &Store,
    plan: &Plan<'_>,
    until: Until,
    work: &Path,
    to: &Path,
    received: impl Fn(u64),
) -> Result<(), String> {
    let Plan { backup, mut passes, .. } = *plan;
    let mut replay = block_in_place(|| Replay::open(work, 0)).map_err(text)?;
    let firsts = store.segments_after(&backup.cluster, backup.index).await?;
    let read = async |first: u64| store.segment(&backup.cluster, first).await;
    let mut segments = stream::iter(firsts).map(read).buffered(SEGMENTS_AHEAD);
    let mut is_reached = until == Until::Index(backup.index);
    while !is_reached && let Some(segment) = segments.next().await {
        let segment = segment?;
        if segment.head.last.index < replay.next() {
            continue;
        }
        fail::fail_point!("restore-segment", |_| std::process::abort());
        if let Some(later) = passes.take_if(|later| later.index <= segment.head.last.index) {
            apply(&mut replay, &segment, Until::Index(later.index))?;
            compare(&replay, later)?;
        }
        if replay.next() <= segment.head.last.index {
            is_reached = apply(&mut replay, &segment, until)?;
        }
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

fn apply(replay: &mut Replay, segment: &Segment, until: Until) -> Result<bool, String> {
    let (first, last) = (segment.head.before.index + 1, replay.next() - 1);
    block_in_place(|| replay.apply(segment, until)).map_err(|error| {
        format!("the segment of entry {first}: {error}. `--at {last}` restores what is before it")
    })
}

/// Checks that a replay has led to the state of a backup.
fn compare(replay: &Replay, backup: &Manifest) -> Result<(), String> {
    let hash = block_in_place(|| replay.reader().hash()).map_err(text)?;
    match hex::encode(hash) == backup.state_sha256 {
        true => Ok(()),
        false => Err(format!(
            "the log does not lead to the state of backup {}: at entry {} it is another one",
            backup.id, backup.index
        )),
    }
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
