//! Backups of several nodes and the removal of old ones, at a place whose operations take any time and
//! whose clients end at any time. A seed decides both, and how wrong the wall clocks are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use jiff::{SignedDuration, Timestamp};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;
use raft::Until;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout};

use crate::backup::create::put;
use crate::backup::manifest::{FileOf, Manifest, ModelOf};
use crate::backup::store::{Choice, Store};

const SEEDS: u64 = 60;
/// Time of a run: unnamed files are removed after a day.
const TIME: Duration = Duration::from_secs(10 * 86_400);
/// Longest time of an operation of the place: a backup may take longer than an unnamed file stays.
const STEP_MAX: Duration = Duration::from_secs(40 * 3_600);
/// Longest time of most slow ones.
const SLOW_STEP: Duration = Duration::from_secs(3 * 3_600);
/// Backups that stay.
const KEPT: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const CLUSTER: &str = "c1";

/// A place with a clock of its own. Each operation waits before it takes effect, and after that too.
#[derive(Clone)]
struct Place(Arc<Content>);

struct Content {
    objects: InMemory,
    random: Mutex<Rng>,
    started: Instant,
    /// When each object was written.
    written: Mutex<BTreeMap<Path, Duration>>,
}

impl Deref for Place {
    type Target = Content;

    fn deref(&self) -> &Content {
        &self.0
    }
}

impl Place {
    async fn wait(&self) {
        let time = {
            let mut random = self.random.lock();
            // Most operations are quick.
            let most = match random.u8(..) {
                0..2 => STEP_MAX,
                2..32 => SLOW_STEP,
                _ => Duration::from_secs(1),
            };
            random.u64(..most.as_millis() as u64)
        };
        sleep(Duration::from_millis(time)).await;
    }

    fn write(&self, path: &Path) {
        self.written.lock().insert(path.clone(), self.started.elapsed());
    }

    /// The object with the time of this place.
    fn dated(&self, mut meta: ObjectMeta) -> ObjectMeta {
        let written = self.written.lock().get(&meta.location).copied().unwrap_or_default();
        meta.last_modified = Default::default();
        meta.last_modified += Duration::from_secs(1_790_000_000) + written;
        meta
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "simulated place")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Place {
    async fn put_opts(
        &self,
        path: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.wait().await;
        let put = self.objects.put_opts(path, payload, options).await?;
        self.write(path);
        self.wait().await;
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        path: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.objects.put_multipart_opts(path, options).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.wait().await;
        let found = self.objects.get_opts(path, options).await?;
        Ok(GetResult { meta: self.dated(found.meta.clone()), ..found })
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let removed = paths.then(move |path| {
            let this = this.clone();
            async move {
                let path = path?;
                this.wait().await;
                this.objects.delete(&path).await?;
                this.wait().await;
                Ok(path)
            }
        });
        removed.boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, prefix) = (self.clone(), prefix.cloned());
        // What is there at some moment between the call and the first object.
        let listed = async move {
            this.wait().await;
            let found: Vec<_> = this.objects.list(prefix.as_ref()).collect().await;
            this.wait().await;
            futures::stream::iter(found.into_iter().map(move |it| it.map(|meta| this.dated(meta))))
        };
        futures::stream::once(listed).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// A run: its place, and what is known of its backups.
struct Run {
    place: Place,
    store: Store,
    random: Mutex<Rng>,
    /// Index of the log.
    index: Mutex<u64>,
}

impl Run {
    fn new(seed: u64) -> Arc<Self> {
        let place = Place(Arc::new(Content {
            objects: InMemory::new(),
            random: Mutex::new(Rng::with_seed(seed)),
            started: Instant::now(),
            written: Mutex::default(),
        }));
        let store = Store { objects: Arc::new(place.clone()), root: Path::default() };
        let random = Mutex::new(Rng::with_seed(seed + 1));
        Arc::new(Self { place, store, random, index: Mutex::new(0) })
    }

    fn random(&self, below: u64) -> u64 {
        self.random.lock().u64(..below)
    }

    async fn pause(&self, hours: u64) {
        sleep(Duration::from_secs(1 + self.random(hours * 3_600))).await;
    }

    /// A backup of some of few files: most are those of other backups too.
    fn backup(&self, folder: &FilePath, node: u64) -> Manifest {
        let index = {
            let mut index = self.index.lock();
            *index += 1;
            *index
        };
        let names: BTreeSet<u64> = (0..3).map(|_| self.random(6)).chain([100 + index]).collect();
        let files = names.into_iter().map(|number| {
            let (name, content) = (format!("{number}.sst"), vec![number as u8; 100]);
            std::fs::write(folder.join(&name), &content).unwrap();
            let sha256 = hex::encode(Sha256::digest(&content));
            let object = format!("{sha256}-{index}");
            FileOf { name, sha256, bytes: 100, object }
        });
        // The wall clock of the node is wrong by up to a year.
        let error = SignedDuration::from_hours(self.random(2 * 8_760) as i64 - 8_760);
        let created_at = Timestamp::from_second(1_790_000_000).unwrap() + error;
        Manifest {
            format: 1,
            id: format!("{}-{index:08x}", created_at.strftime("%Y%m%dT%H%M%S.000Z")),
            created_at,
            version: "0.0.0".into(),
            level: 1,
            cluster: CLUSTER.into(),
            node,
            index,
            term: 1,
            clock: Timestamp::from_second(index as i64).unwrap(),
            state_sha256: String::new(),
            model: ModelOf { id: String::new(), name: String::new() },
            cluster_key: None,
            files: files.collect(),
        }
    }

    /// Creates backups. Some end before they are complete.
    async fn create(self: Arc<Self>, node: u64) {
        let folder = tempfile::tempdir().unwrap();
        loop {
            self.pause(20).await;
            let manifest = self.backup(folder.path(), node);
            let end = Duration::from_secs(self.random(40 * 3_600));
            let status = Mutex::default();
            let creating = async {
                put(&self.store, folder.path(), &manifest, &status).await.unwrap();
                self.store.remove_pending(&manifest.id).await.unwrap();
            };
            match self.random(3) {
                0 => drop(timeout(end, creating).await),
                _ => creating.await,
            }
        }
    }

    /// Removes what is old. Some removals end before they are complete.
    async fn prune(self: Arc<Self>) {
        loop {
            self.pause(15).await;
            let end = Duration::from_secs(self.random(30 * 3_600));
            let pruning = self.store.prune(KEPT);
            match self.random(3) {
                0 => drop(timeout(end, pruning).await),
                // A manifest that it has listed may be removed by another one.
                _ => drop(pruning.await),
            }
        }
    }

    /// Looks at the place itself: each backup has its files, and the newest ones are there.
    async fn check(self: Arc<Self>) {
        let mut newest = 0;
        loop {
            sleep(Duration::from_secs(3_600)).await;
            let all = self.manifests().await;
            for manifest in &all {
                for file in &manifest.files {
                    let path = Path::from(format!("files/{}", file.object));
                    let found = self.place.objects.get_opts(&path, GetOptions::default()).await;
                    assert!(found.is_ok(), "backup {} lacks {}", manifest.index, file.name);
                }
            }
            let last = all.iter().map(|manifest| manifest.index).max().unwrap_or(0);
            assert!(last >= newest, "backup {newest} is gone, and {last} is the newest");
            newest = last;
        }
    }

    async fn manifests(&self) -> Vec<Manifest> {
        let prefix = Path::from("backups");
        let found: Vec<ObjectMeta> =
            self.place.objects.list(Some(&prefix)).try_collect().await.unwrap();
        let mut manifests = Vec::new();
        for object in found {
            let read = self.place.objects.get_opts(&object.location, GetOptions::default()).await;
            manifests.push(Manifest::parse(&read.unwrap().bytes().await.unwrap()).unwrap());
        }
        manifests
    }
}

async fn run(seed: u64) {
    let run = Run::new(seed);
    let tasks = [
        tokio::spawn(Arc::clone(&run).create(1)),
        tokio::spawn(Arc::clone(&run).create(2)),
        tokio::spawn(Arc::clone(&run).create(3)),
        tokio::spawn(Arc::clone(&run).prune()),
        tokio::spawn(Arc::clone(&run).prune()),
    ];
    let checking = tokio::spawn(Arc::clone(&run).check());
    sleep(TIME).await;
    for task in &tasks {
        assert!(!task.is_finished(), "seed {seed}: a node has panicked");
        task.abort();
    }
    checking.abort();
    let ended = checking.await;
    assert!(ended.is_err_and(|error| error.is_cancelled()), "seed {seed}");
    let all = run.manifests().await;
    let last = all.iter().map(|manifest| manifest.index).max();
    let chosen = run.store.manifest(Choice::Last(Some(CLUSTER), Until::End)).await;
    assert_eq!(chosen.ok().map(|manifest| manifest.index), last, "seed {seed}");
    assert!(last > Some(10), "seed {seed}: {last:?}");
    // Removal keeps up with the three that create.
    let files: Vec<ObjectMeta> =
        run.place.objects.list(Some(&Path::from("files"))).try_collect().await.unwrap();
    let written = run.place.written.lock().len();
    let created = *run.index.lock() as usize;
    assert!(all.len() < created / 2, "seed {seed}: {} backups of {created}", all.len());
    assert!(files.len() < written / 2, "seed {seed}: {} files of {written}", files.len());
}

#[test]
fn backups_have_their_files_and_the_newest_stays() {
    for seed in 1..=SEEDS {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run(seed));
    }
}
