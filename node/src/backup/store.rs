//! Where backups are: a folder, or a bucket of S3 or Azure. The environment holds the credentials of a bucket, by the names that each provider documents.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path as FilePath;
use std::sync::Arc;

use futures::TryStreamExt;
use jiff::{SignedDuration, Timestamp};
use object_store::buffered::BufWriter;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutPayload};
use raft::Until;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use url::Url;

use crate::backup::manifest::Manifest;
use crate::error::text;

/// Bytes of a file that are in memory during a transfer.
const BUFFER_BYTES: usize = 8 << 20;
/// Largest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 64 << 20;
/// Time between the two looks at which no manifest names a file, before it is removed.
const UNNAMED_TIME: SignedDuration = SignedDuration::from_hours(24);
const NONE: &str = "there is no such backup";
/// Age from which the manifest of a backup that never ended names nothing.
const PENDING_AGE_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Files that no manifest names, and when this was first seen.
pub(crate) type Unnamed = BTreeMap<String, Timestamp>;

/// What was removed.
pub(crate) struct Pruned {
    pub(crate) backups: usize,
    pub(crate) segments: usize,
    pub(crate) files: usize,
}

/// What manifests name.
#[derive(Default)]
struct Named {
    /// The objects of complete backups.
    objects: BTreeSet<String>,
    /// The hashes of files of those that are being created: they may use any object with one.
    hashes: BTreeSet<String>,
}

impl Named {
    fn has(&self, object: &str) -> bool {
        let hash = object.split('-').next();
        self.objects.contains(object) || hash.is_some_and(|hash| self.hashes.contains(hash))
    }
}

/// An open place for backups.
#[derive(Clone)]
pub(crate) struct Store {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) root: Path,
}

/// Which backup is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice<'a> {
    /// The one with this id.
    Id(&'a str),
    /// The last one up to some entry, of the cluster with this id. The place may have backups of other
    /// clusters too, so without an id there must be one cluster only.
    Last(Option<&'a str>, Until),
}

impl Store {
    /// Opens the place at `url`: a path, `file:`, `s3:` or `az:`. A folder is created.
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

    fn pending_path(&self, id: &str) -> Path {
        self.root.clone().join("pending").join(format!("{id}.json"))
    }

    fn file_path(&self, object: &str) -> Path {
        self.root.clone().join("files").join(object)
    }

    /// Whether it has a file of this length.
    pub(crate) async fn has_file(&self, object: &str, bytes: u64) -> Result<bool, String> {
        match self.objects.head(&self.file_path(object)).await {
            Ok(found) => Ok(found.size == bytes),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(text(error)),
        }
    }

    /// Removes a file, so that the next backup uploads it again.
    pub(crate) async fn remove_file(&self, object: &str) -> Result<(), String> {
        match self.objects.delete(&self.file_path(object)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(text(error)),
        }
    }

    /// Uploads a file. `sent` is called with the bytes of each part.
    pub(crate) async fn upload(
        &self,
        from: &FilePath,
        object: &str,
        sent: impl Fn(u64),
    ) -> Result<(), String> {
        let mut file = tokio::fs::File::open(from).await.map_err(text)?;
        let (to, objects) = (self.file_path(object), Arc::clone(&self.objects));
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
        object: &str,
        sha256: &str,
        to: Option<&FilePath>,
        received: impl Fn(u64),
    ) -> Result<bool, String> {
        let found = self.objects.get(&self.file_path(object)).await.map_err(text)?;
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
        self.put_json(&self.manifest_path(&manifest.id), manifest).await
    }

    /// Names the files of a backup that is being created, so that none of them is removed.
    pub(crate) async fn put_pending(&self, manifest: &Manifest) -> Result<(), String> {
        self.put_json(&self.pending_path(&manifest.id), manifest).await
    }

    /// The backup exists, and its own manifest names the files.
    pub(crate) async fn remove_pending(&self, id: &str) -> Result<(), String> {
        self.objects.delete(&self.pending_path(id)).await.map_err(text)
    }

    async fn put_json(&self, path: &Path, value: &impl Serialize) -> Result<(), String> {
        let bytes = serde_json::to_vec_pretty(value).map_err(text)?;
        self.objects.put(path, PutPayload::from(bytes)).await.map_err(text)?;
        Ok(())
    }

    async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, String> {
        self.list_below(&self.root.clone().join(folder)).await
    }

    pub(super) async fn list_below(&self, folder: &Path) -> Result<Vec<ObjectMeta>, String> {
        self.objects.list(Some(folder)).try_collect().await.map_err(text)
    }

    /// All backups: each cluster's oldest first. A manifest that cannot be read is an error in its
    /// place, before all others.
    pub(crate) async fn manifests(
        &self,
    ) -> Result<Vec<(String, Result<Manifest, String>)>, String> {
        let mut manifests = Vec::new();
        for object in self.list("backups").await? {
            let name = object.location.filename().unwrap_or_default();
            let Some(id) = name.strip_suffix(".json") else { continue };
            manifests
                .push((id.to_owned(), self.read_manifest(&object.location, object.size).await));
        }
        manifests.sort_by_cached_key(|(id, manifest)| {
            let position = manifest.as_ref().ok().map(|it| (it.cluster.clone(), it.index));
            (position, id.clone())
        });
        Ok(manifests)
    }

    /// The newest backup of a cluster.
    pub(crate) async fn newest_of(&self, cluster: &str) -> Result<Option<Manifest>, String> {
        Ok(self.backups_of(cluster).await?.pop())
    }

    /// The backups of a cluster that can be read, in the order of the log.
    pub(crate) async fn backups_of(&self, cluster: &str) -> Result<Vec<Manifest>, String> {
        let readable = self.manifests().await?.into_iter().filter_map(|(_, found)| found.ok());
        Ok(readable.filter(|it| it.cluster == cluster).collect())
    }

    /// The chosen backup. None is the last one beside a manifest that cannot be read.
    pub(crate) async fn manifest(&self, choice: Choice<'_>) -> Result<Manifest, String> {
        let all = self.manifests().await?;
        let (cluster, until) = match choice {
            Choice::Id(id) => {
                let (_, found) = all.into_iter().find(|(known, _)| known == id).ok_or(NONE)?;
                return found.map_err(|error| format!("backup {id}: {error}"));
            }
            Choice::Last(cluster, until) => (cluster, until),
        };
        if let Some((damaged, _)) = all.iter().find(|(_, manifest)| manifest.is_err()) {
            return Err(format!(
                "the manifest {damaged} cannot be read, and may be that of the newest backup: choose one \
                 by --id, see `hearth backup list`"
            ));
        }
        let readable = all.into_iter().filter_map(|(_, manifest)| manifest.ok());
        let mut of_cluster: Vec<Manifest> =
            readable.filter(|it| cluster.is_none_or(|cluster| it.cluster == cluster)).collect();
        let clusters: BTreeSet<&str> = of_cluster.iter().map(|it| it.cluster.as_str()).collect();
        if clusters.len() > 1 {
            return Err(format!(
                "there are backups of {} clusters: choose one by --cluster, see `hearth backup list`",
                clusters.len()
            ));
        }
        of_cluster.retain(|manifest| match until {
            Until::End => true,
            Until::Index(index) => manifest.index <= index,
            Until::Clock(time) => manifest.clock.as_microsecond() <= time.0,
        });
        of_cluster.pop().ok_or_else(|| NONE.into())
    }

    /// The objects that complete backups name, by their hashes.
    pub(crate) async fn objects(&self) -> Result<BTreeMap<String, String>, String> {
        let readable = self.manifests().await?.into_iter().filter_map(|(_, found)| found.ok());
        let files = readable.flat_map(|manifest| manifest.files);
        Ok(files.map(|file| (file.sha256, file.object)).collect())
    }

    async fn read_manifest(&self, path: &Path, bytes: u64) -> Result<Manifest, String> {
        if bytes > MANIFEST_BYTES_MAX {
            return Err("the manifest is too long".into());
        }
        let found = self.objects.get(path).await.map_err(text)?;
        Manifest::parse(&found.bytes().await.map_err(text)?)
    }

    /// Removes all backups of each cluster but the newest `keep`, the log before the oldest one that
    /// stays, and files that no backup has named for a day. Returns how many of each. Removes nothing
    /// while a manifest cannot be read: it may name files.
    pub(crate) async fn prune(&self, keep: NonZeroUsize) -> Result<Pruned, String> {
        let mut clusters: BTreeMap<String, Vec<Manifest>> = BTreeMap::new();
        for (id, manifest) in self.manifests().await? {
            let manifest = manifest.map_err(|error| format!("backup {id}: {error}"))?;
            clusters.entry(manifest.cluster.clone()).or_default().push(manifest);
        }
        let (mut backups, mut segments) = (0, 0);
        for (cluster, manifests) in &clusters {
            for manifest in manifests.iter().rev().skip(keep.get()) {
                self.objects.delete(&self.manifest_path(&manifest.id)).await.map_err(text)?;
                backups += 1;
            }
            if let Some(oldest) = manifests.iter().rev().take(keep.get()).next_back() {
                segments += self.prune_log(cluster, oldest.index).await?;
            }
        }
        Ok(Pruned { backups, segments, files: self.remove_unnamed().await? })
    }

    /// Removes the files that no manifest names, and none named a day ago. Returns how many.
    async fn remove_unnamed(&self) -> Result<usize, String> {
        let path = self.root.clone().join("unnamed.json");
        let known: Unnamed = match self.objects.get(&path).await {
            Ok(found) => serde_json::from_slice(&found.bytes().await.map_err(text)?)
                .map_err(|error| format!("unnamed.json is damaged: {error}"))?,
            Err(object_store::Error::NotFound { .. }) => BTreeMap::new(),
            Err(error) => return Err(text(error)),
        };
        // The time of the place: the clocks of two nodes may differ.
        self.put_json(&path, &known).await?;
        let now = self.objects.head(&path).await.map_err(text)?.last_modified.timestamp();
        let now = Timestamp::from_second(now).map_err(text)?;
        let named = self.named(now).await?;
        let mut unnamed = Unnamed::new();
        for file in self.list("files").await? {
            let Some(name) = file.location.filename() else { continue };
            if !named.has(name) {
                // A clock that was ahead does not keep it longer.
                let since = known.get(name).map_or(now, |since| now.min(*since));
                unnamed.insert(name.to_owned(), since);
            }
        }
        let is_due = |since: &Timestamp| now.duration_since(*since) >= UNNAMED_TIME;
        let due: Vec<String> = unnamed
            .iter()
            .filter(|(_, since)| is_due(since))
            .map(|(name, _)| name.clone())
            .collect();
        // Once more: a backup that began meanwhile has named its files.
        let named = self.named(now).await?;
        for name in &due {
            if !named.has(name) {
                self.remove_file(name).await?;
            }
            unnamed.remove(name);
        }
        self.put_json(&path, &unnamed).await?;
        Ok(due.iter().filter(|name| !named.has(name)).count())
    }

    /// The files of all backups, also of those that are being created. Removes what backups that
    /// never ended left.
    async fn named(&self, now: Timestamp) -> Result<Named, String> {
        let mut named = Named::default();
        let before = now - PENDING_AGE_MAX;
        // In this order: a backup that is completed meanwhile is in the second list.
        for folder in ["pending", "backups"] {
            for object in self.list(folder).await? {
                let is_old = object.last_modified.timestamp() < before.as_second();
                if folder == "pending" && is_old {
                    self.objects.delete(&object.location).await.map_err(text)?;
                    continue;
                }
                let manifest = self.read_manifest(&object.location, object.size).await;
                let manifest = manifest.map_err(|error| format!("{}: {error}", object.location))?;
                for file in manifest.files {
                    match folder {
                        "pending" => named.hashes.insert(file.sha256),
                        _ => named.objects.insert(file.object),
                    };
                }
            }
        }
        Ok(named)
    }
}
