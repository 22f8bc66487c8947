//! Where backups are: a folder, or a bucket of S3, Google Cloud Storage or Azure. The environment
//! holds the credentials of a bucket, by the names that each provider documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use crate::backup::manifest::Manifest;
use crate::error::text;

/// Bytes of a file that are in memory during a transfer.
const BUFFER_BYTES: usize = 8 << 20;
/// Largest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Age from which a file that no backup names may be removed. An upload that is under way has not
/// written its manifest yet.
const UNNAMED_AGE: Duration = Duration::from_secs(24 * 3_600);

/// An open place for backups.
#[derive(Clone)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    root: Path,
}

impl Store {
    /// Opens the place at `url`: a path, `file:`, `s3:`, `gs:` or `az:`. A folder is created.
    pub(crate) fn open(url: &str) -> Result<Self, String> {
        if let Some(folder) = url.strip_prefix("file://").or(url.starts_with('/').then_some(url)) {
            std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
            let objects = LocalFileSystem::new_with_prefix(folder).map_err(text)?.with_fsync(true);
            return Ok(Self { objects: Arc::new(objects), root: Path::default() });
        }
        let parsed = Url::parse(url).map_err(|error| format!("{url}: {error}"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("put credentials into the environment, not into the URL".into());
        }
        let environment = std::env::vars().map(|(name, value)| (name.to_lowercase(), value));
        let (objects, root) = object_store::parse_url_opts(&parsed, environment).map_err(text)?;
        Ok(Self { objects: Arc::from(objects), root })
    }

    fn manifest_path(&self, id: &str) -> Path {
        self.root.clone().join("backups").join(format!("{id}.json"))
    }

    fn file_path(&self, sha256: &str) -> Path {
        self.root.clone().join("files").join(sha256)
    }

    /// Whether it has a file of this hash and length.
    pub(crate) async fn has_file(&self, sha256: &str, bytes: u64) -> Result<bool, String> {
        match self.objects.head(&self.file_path(sha256)).await {
            Ok(found) => Ok(found.size == bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(text(error)),
        }
    }

    /// Removes a file, so that the next backup uploads it again.
    pub(crate) async fn remove_file(&self, sha256: &str) -> Result<(), String> {
        match self.objects.delete(&self.file_path(sha256)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(text(error)),
        }
    }

    /// Uploads a file with this hash. `sent` is called with the bytes of each part.
    pub(crate) async fn upload(
        &self,
        from: &FilePath,
        sha256: &str,
        sent: impl Fn(u64),
    ) -> Result<(), String> {
        let mut file = tokio::fs::File::open(from).await.map_err(text)?;
        let (to, objects) = (self.file_path(sha256), Arc::clone(&self.objects));
        let mut out = BufWriter::with_capacity(objects, to, BUFFER_BYTES);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            match file.read(&mut buffer).await.map_err(text)? {
                0 => return out.shutdown().await.map_err(text),
                read => {
                    out.write_all(&buffer[..read]).await.map_err(text)?;
                    fail::fail_point!("backup-part", |_| std::process::abort());
                    sent(read as u64);
                }
            }
        }
    }

    /// Downloads a file to `to`, or only reads it without a target. Returns whether it has its hash.
    pub(crate) async fn download(
        &self,
        sha256: &str,
        to: Option<&FilePath>,
        received: impl Fn(u64),
    ) -> Result<bool, String> {
        let found = self.objects.get(&self.file_path(sha256)).await.map_err(text)?;
        let mut parts = found.into_stream();
        let mut file = match to {
            Some(path) => Some(tokio::fs::File::create_new(path).await.map_err(text)?),
            None => None,
        };
        let mut hash = Sha256::new();
        while let Some(part) = parts.try_next().await.map_err(text)? {
            hash.update(&part);
            if let Some(file) = &mut file {
                file.write_all(&part).await.map_err(text)?;
            }
            received(part.len() as u64);
        }
        if let Some(file) = &mut file {
            file.sync_all().await.map_err(text)?;
        }
        Ok(hex::encode(hash.finalize()) == sha256)
    }

    /// Writes a manifest: from here on the backup exists.
    pub(crate) async fn put_manifest(&self, manifest: &Manifest) -> Result<(), String> {
        let bytes = serde_json::to_vec_pretty(manifest).map_err(text)?;
        let path = self.manifest_path(&manifest.id);
        self.objects.put(&path, PutPayload::from(bytes)).await.map_err(text)?;
        Ok(())
    }

    /// All backups, oldest first. A manifest that cannot be read is an error in its place.
    pub(crate) async fn manifests(
        &self,
    ) -> Result<Vec<(String, Result<Manifest, String>)>, String> {
        let folder = self.root.clone().join("backups");
        let found = self.objects.list(Some(&folder)).try_collect::<Vec<_>>().await.map_err(text)?;
        let mut manifests = Vec::new();
        for object in found {
            let name = object.location.filename().unwrap_or_default();
            let Some(id) = name.strip_suffix(".json") else { continue };
            manifests
                .push((id.to_owned(), self.read_manifest(&object.location, object.size).await));
        }
        manifests.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(manifests)
    }

    /// The backup with this id, or the newest one. The place may have backups of other clusters too,
    /// so the newest one is not searched among several clusters.
    pub(crate) async fn manifest(&self, id: Option<&str>) -> Result<Manifest, String> {
        let all = self.manifests().await?;
        let clusters: BTreeSet<&str> =
            all.iter().flat_map(|(_, manifest)| manifest).map(|it| it.cluster.as_str()).collect();
        if id.is_none() && clusters.len() > 1 {
            return Err(format!(
                "there are backups of {} clusters: choose one by --id, see `hearth backup list`",
                clusters.len()
            ));
        }
        let found = match id {
            Some(id) => all.into_iter().find(|(known, _)| known == id),
            None => all.into_iter().next_back(),
        };
        let (id, manifest) = found.ok_or("there is no such backup")?;
        manifest.map_err(|error| format!("backup {id}: {error}"))
    }

    async fn read_manifest(&self, path: &Path, bytes: u64) -> Result<Manifest, String> {
        if bytes > MANIFEST_BYTES_MAX {
            return Err("the manifest is too long".into());
        }
        let found = self.objects.get(path).await.map_err(text)?;
        Manifest::parse(&found.bytes().await.map_err(text)?)
    }

    /// Removes all backups of each cluster but the newest `keep`, and the files that no backup names
    /// any longer. Returns how many of both. Removes nothing while a manifest cannot be read: it may
    /// name files.
    pub(crate) async fn prune(&self, keep: usize) -> Result<(usize, usize), String> {
        let mut clusters: BTreeMap<String, Vec<Manifest>> = BTreeMap::new();
        for (id, manifest) in self.manifests().await? {
            let manifest = manifest.map_err(|error| format!("backup {id}: {error}"))?;
            clusters.entry(manifest.cluster.clone()).or_default().push(manifest);
        }
        let (mut kept, mut removed) = (Vec::new(), Vec::new());
        for mut manifests in clusters.into_values() {
            let excess = manifests.len().saturating_sub(keep.max(1));
            removed.extend(manifests.drain(..excess));
            kept.extend(manifests);
        }
        for manifest in &removed {
            self.objects.delete(&self.manifest_path(&manifest.id)).await.map_err(text)?;
        }
        let named: BTreeSet<&str> =
            kept.iter().flat_map(|it| &it.files).map(|file| file.sha256.as_str()).collect();
        let folder = self.root.clone().join("files");
        let files = self.objects.list(Some(&folder)).try_collect::<Vec<_>>().await.map_err(text)?;
        let before = Timestamp::now() - UNNAMED_AGE;
        let mut files_removed = 0;
        for file in files {
            let is_named = file.location.filename().is_some_and(|name| named.contains(name));
            let is_old = file.last_modified.timestamp() < before.as_second();
            if !is_named && is_old {
                self.objects.delete(&file.location).await.map_err(text)?;
                files_removed += 1;
            }
        }
        Ok((removed.len(), files_removed))
    }
}
