//! Restores a backup into an empty data folder, as a new cluster of one node.

use std::io;
use std::path::{Path, PathBuf};

use api::random_bytes;
use raft::RestoredNode;
use storage::file::is_plain_name;
use storage::model::release::LEVEL;

use crate::backup::manifest::{FileOf, Manifest};
use crate::backup::store::Store;
use crate::error::{cannot, text};
use crate::identity;

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
    /// Refuses before anything is written what the new node could not use.
    fn check(&self, manifest: &Manifest) -> Result<(), String> {
        if !is_empty(&self.data).map_err(cannot("read the data folder"))? {
            return Err(format!("{} is not empty: use an empty folder", self.data.display()));
        }
        if manifest.level > LEVEL {
            return Err(format!(
                "the backup needs version {} or later: this is {}",
                manifest.version,
                env!("CARGO_PKG_VERSION")
            ));
        }
        if manifest.model.id != self.model {
            return Err(format!(
                "the memories were embedded by {} ({}), but another model is configured: set \
                 embedder.model",
                manifest.model.name, manifest.model.id
            ));
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
    to: &Restoration,
    received: impl Fn(u64),
) -> Result<(), String> {
    to.check(manifest)?;
    let begun = identity::begin_restoration(&to.data, to.node)?;
    for FileOf { name, sha256, .. } in &manifest.files {
        if !is_plain_name(name) {
            return Err(format!("the manifest has the file name {name:?}"));
        }
        fail::fail_point!("restore-file", |_| std::process::abort());
        if !store.download(sha256, Some(&begun.source.join(name)), &received).await? {
            return Err(format!("the file {sha256} is damaged"));
        }
    }
    let node = RestoredNode {
        cluster: random_bytes(),
        node: to.node,
        incarnation: begun.identity.incarnation.into_bytes(),
        address: to.address.clone(),
        hold_webhooks: to.hold_webhooks,
        keeps_keys: to.keeps_keys,
    };
    let (expected, data, source) =
        (manifest.state_sha256.clone(), to.data.clone(), begun.source.clone());
    let built = tokio::task::spawn_blocking(move || {
        let state = storage::backup::examine(&source).map_err(text)?;
        if hex::encode(state.hash) != expected {
            return Err("the state is not the one that was backed up".to_owned());
        }
        raft::restore(&data, &source, state, &node).map_err(text)
    });
    built.await.map_err(text)??;
    begun.end()
}
