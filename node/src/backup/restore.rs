//! Restores a backup into an empty data folder, as a new cluster of one node.

use std::path::{Path, PathBuf};

use api::random_bytes;
use raft::RestoredNode;

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
}

impl Restoration {
    /// Refuses before anything is written what the new node could not use.
    fn check(&self, manifest: &Manifest) -> Result<(), String> {
        let is_empty = |folder: &Path| {
            std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
        };
        if !is_empty(&self.data) {
            return Err(format!("{} is not empty: use an empty folder", self.data.display()));
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

/// Downloads a backup and makes it a data folder. Until it is complete, everything is in a folder
/// beside it, with the extension `restoring`. `received` is called with the bytes of each part.
pub(crate) async fn restore(
    store: &Store,
    manifest: &Manifest,
    to: &Restoration,
    received: impl Fn(u64),
) -> Result<(), String> {
    to.check(manifest)?;
    let work = to.data.with_extension("restoring");
    if work.exists() {
        return Err(format!("remove {}: an earlier restoration did not end", work.display()));
    }
    let identity = identity::of_folder(&work, to.node)?;
    let source = work.join("source");
    std::fs::create_dir(&source).map_err(cannot("create a folder"))?;
    for FileOf { name, sha256, .. } in &manifest.files {
        if !is_plain(name) {
            return Err(format!("the manifest has the file name {name:?}"));
        }
        fail::fail_point!("restore-file", |_| std::process::abort());
        store.download(sha256, Some(&source.join(name)), &received).await?;
    }
    let node = RestoredNode {
        cluster: random_bytes(),
        node: to.node,
        incarnation: identity.incarnation.into_bytes(),
        address: to.address.clone(),
        hold_webhooks: to.hold_webhooks,
    };
    let (expected, target) = (manifest.state_sha256.clone(), work.clone());
    let built = tokio::task::spawn_blocking(move || {
        let state = storage::backup::examine(&source).map_err(text)?;
        if hex::encode(state.hash) != expected {
            return Err("the state is not the one that was backed up".to_owned());
        }
        raft::restore(&target, &source, state, &node).map_err(text)
    });
    built.await.map_err(text)??;
    if to.data.exists() {
        std::fs::remove_dir(&to.data).map_err(cannot("replace the data folder"))?;
    }
    std::fs::rename(&work, &to.data).map_err(cannot("create the data folder"))
}

/// Whether a name cannot leave its folder.
fn is_plain(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_allowed)
}
