//! Makes a copied state the data of a new cluster of one node, in an empty data folder: that of a
//! backup, or of what a lost cluster left.

use std::io;
use std::path::{Path, PathBuf};

use api::random_bytes;
use raft::{Remains, RestoredNode};
use storage::backup::CopiedState;
use storage::file::is_plain_name;
use storage::model::release::LEVEL;

use crate::backup::manifest::{FileOf, Manifest, ModelOf};
use crate::backup::store::Store;
use crate::error::{cannot, text};
use crate::identity::{self, BegunRestoration};

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

/// Downloads a backup and makes it a data folder. No node starts on the folder before it is complete.
/// `received` is called with the bytes of each part.
pub(crate) async fn restore(
    store: &Store,
    manifest: &Manifest,
    to: Restoration,
    received: impl Fn(u64),
) -> Result<(), String> {
    to.check(manifest)?;
    let begun = to.begin()?;
    let source = begun.folder.join("source");
    std::fs::create_dir(&source).map_err(cannot("create a folder"))?;
    for FileOf { name, sha256, .. } in &manifest.files {
        if !is_plain_name(name) {
            return Err(format!("the manifest has the file name {name:?}"));
        }
        fail::fail_point!("restore-file", |_| std::process::abort());
        if !store.download(sha256, Some(&source.join(name)), &received).await? {
            return Err(format!("the file {sha256} is damaged"));
        }
    }
    let expected = manifest.state_sha256.clone();
    let built = tokio::task::spawn_blocking(move || {
        let state = storage::backup::examine(&source).map_err(text)?;
        if hex::encode(state.hash) != expected {
            return Err("the state is not the one that was backed up".to_owned());
        }
        to.end(begun, &source, state)
    });
    built.await.map_err(text)?
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
