//! Creates backups on a running node, one at a time: copies the state, reads the copy whole, and
//! uploads what the store lacks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::{BackupProgress, BackupStatus, BackupSummary};
use parking_lot::Mutex;
use raft::Handle;
use sha2::{Digest, Sha256};
use storage::Flusher;

use crate::backup::manifest::{FileOf, Manifest};
use crate::backup::store::Store;
use crate::error::text;

/// Staleness up to which a node has caught up.
const STALENESS_MAX: Duration = Duration::from_secs(10);

/// Creates backups of the state of this node.
#[derive(Clone)]
pub(crate) struct Backups {
    raft: Handle,
    flusher: Flusher,
    node: u64,
    /// Fingerprint of the cluster key.
    cluster_key: Option<String>,
    status: Arc<Mutex<BackupStatus>>,
}

impl Backups {
    pub(crate) fn new(
        raft: Handle,
        flusher: Flusher,
        node: u64,
        cluster_key: Option<String>,
    ) -> Self {
        Self { raft, flusher, node, cluster_key, status: Arc::default() }
    }

    /// Whether this node has caught up with the leader.
    pub(crate) fn is_fresh(&self) -> bool {
        self.raft.staleness().is_some_and(|staleness| staleness <= STALENESS_MAX)
    }

    /// Creates a backup at `url`. An error if another one is under way, or this node has not caught
    /// up.
    pub(crate) async fn create(&self, url: &str) -> Result<Manifest, String> {
        self.begin(url)?;
        self.run(url).await
    }

    fn begin(&self, url: &str) -> Result<(), String> {
        if !self.is_fresh() {
            return Err("this node has not caught up with the leader: use another one".into());
        }
        let mut status = self.status.lock();
        if let Some(running) = &status.running {
            return Err(format!("a backup to {} is under way", running.url));
        }
        status.running = Some(BackupProgress { url: url.to_owned(), ..BackupProgress::default() });
        Ok(())
    }

    async fn run(&self, url: &str) -> Result<Manifest, String> {
        let created = self.upload(url).await;
        let mut status = self.status.lock();
        let progress = status.running.take().unwrap_or_default();
        match &created {
            Ok(manifest) => {
                let bytes = progress.uploaded_bytes;
                tracing::info!(
                    url,
                    id = manifest.id,
                    index = manifest.index,
                    bytes,
                    "backup created"
                );
                status.last = Some(summary(manifest, bytes));
                status.error = None;
            }
            Err(error) => {
                tracing::error!(url, error, "backup failed");
                status.error = Some(error.clone());
            }
        }
        created
    }

    async fn upload(&self, url: &str) -> Result<Manifest, String> {
        let store = Store::open(url)?;
        let folder = self.raft.copy_folder().ok_or("this node is quarantined")?;
        let flusher = self.flusher.clone();
        let copied = tokio::task::spawn_blocking(move || {
            flusher.checkpoint(folder.path()).map_err(text)?;
            let state = storage::backup::examine(folder.path()).map_err(text)?;
            Ok::<_, String>((state, files(folder.path())?, folder))
        });
        let (state, files, folder) = copied.await.map_err(text)??;
        fail::fail_point!("backup-copied", |_| std::process::abort());
        let manifest = Manifest::new(&state, self.node, self.cluster_key.clone(), files)?;
        progress(&self.status, |progress| progress.total_bytes = manifest.bytes());
        put(&store, folder.path(), &manifest, &self.status).await?;
        // The backup exists. What is left names its files for a week.
        if let Err(error) = store.remove_pending(&manifest.id).await {
            tracing::warn!(url, error, "the manifest in pending/ was not removed");
        }
        Ok(manifest)
    }
}

/// Uploads the files of a backup from a folder, then its manifest.
///
/// Another node may be removing files meanwhile: those that no backup has named for a day. It may have looked
/// before this backup named its own. So this one uses no object because it is there, but because a complete
/// backup names it.
pub(super) async fn put(
    store: &Store,
    folder: &Path,
    manifest: &Manifest,
    status: &Mutex<BackupStatus>,
) -> Result<(), String> {
    store.put_pending(manifest).await?;
    // After that: from now on no other node finds that nothing names the objects of complete backups.
    let objects = store.objects().await?;
    let mut manifest = manifest.clone();
    for file in &mut manifest.files {
        if let Some(object) = objects.get(&file.sha256) {
            file.object.clone_from(object);
        }
    }
    upload_missing(store, folder, &manifest, status).await?;
    fail::fail_point!("backup-uploaded", |_| std::process::abort());
    fail::fail_point!("backup-complete");
    store.put_manifest(&manifest).await
}

async fn upload_missing(
    store: &Store,
    folder: &Path,
    manifest: &Manifest,
    status: &Mutex<BackupStatus>,
) -> Result<(), String> {
    for FileOf { name, bytes, object, .. } in &manifest.files {
        fail::fail_point!("backup-file", |_| std::process::abort());
        if store.has_file(object, *bytes).await? {
            progress(status, |progress| progress.done_bytes += bytes);
            continue;
        }
        let sent = |part| {
            progress(status, |progress| {
                progress.done_bytes += part;
                progress.uploaded_bytes += part;
            });
        };
        store.upload(&folder.join(name), object, sent).await?;
    }
    Ok(())
}

fn progress(status: &Mutex<BackupStatus>, change: impl Fn(&mut BackupProgress)) {
    status.lock().running.iter_mut().for_each(change);
}

impl api::Backups for Backups {
    fn start(&self, url: String) -> Result<(), String> {
        Store::open(&url)?;
        self.begin(&url)?;
        let this = self.clone();
        tokio::spawn(async move { this.run(&url).await });
        Ok(())
    }

    fn status(&self) -> BackupStatus {
        self.status.lock().clone()
    }
}

fn summary(manifest: &Manifest, uploaded_bytes: u64) -> BackupSummary {
    BackupSummary {
        id: manifest.id.clone(),
        index: manifest.index,
        bytes: manifest.bytes(),
        uploaded_bytes,
        state_sha256: manifest.state_sha256.clone(),
    }
}

/// Name, hash and length of each file in a flat folder, sorted by name.
fn files(folder: &Path) -> Result<Vec<FileOf>, String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(text)? {
        let path = entry.map_err(text)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name is not UTF-8")?;
        let (mut file, mut hash) = (std::fs::File::open(&path).map_err(text)?, Sha256::new());
        let bytes = std::io::copy(&mut file, &mut hash).map_err(text)?;
        let sha256 = hex::encode(hash.finalize());
        files.push(FileOf { name: name.to_owned(), sha256, bytes, object: String::new() });
    }
    files.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(files)
}
