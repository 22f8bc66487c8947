//! A pool of embedder threads, with a cache of vectors of short texts. A model reads a limited
//! number of tokens, so a long text is embedded in overlapping parts, and its vector is their mean
//! direction. The service bounds the texts in the queue by its permits.
//!
//! *Canaries* are texts whose vectors tell whether a model is that of the cluster. An id says which files or which
//! name a model has. What an endpoint runs under a name may change, and a CPU may compute otherwise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use api::{EmbedError, EmbedScope, Embedded, Embedding, TextRole};
use moka::sync::Cache;
use parking_lot::Mutex;
use prometheus::{Histogram, HistogramOpts};
use storage::model::cluster::Model;
use storage::model::vector::{Vector, mean_direction};
use tokio::sync::oneshot;

use crate::embed::conventions::Conventions;
use crate::error;

const CACHE_ENTRIES: u64 = 2_048;
/// Longest cached text. Queries are short, and queries repeat.
const CACHE_TEXT_BYTES: usize = 512;
/// Parts of a text that its vector counts. Each costs the model some 70 ms on one core. Words find
/// what follows.
const PARTS_MAX: usize = 4;

/// Two texts that people write, and one that programs do.
const CANARIES: [&str; 3] = [
    "The user prefers short answers, and said so twice.",
    "用户每天早上喝茶，然后骑自行车去上班。",
    "POST /orders returned 503 after 30 s: upstream timed out (attempt 3 of 3)",
];
/// The least cosine of a canary to that of the cluster. Sums in another order change it by less than 1e-5, another
/// model to 0.9 or less.
const CANARY_COSINE_MIN: f32 = 0.999;

/// The first part of a text.
pub struct EmbeddedPart {
    /// Its vector.
    pub vector: Embedding,
    /// Where the next part begins, in bytes: at a character, and not at 0. `None` if this part
    /// reaches the end of the text.
    pub next: Option<usize>,
}

/// Embeds one part of a text at a time, on its own thread.
pub trait Worker: Send {
    /// The first part of `text`, which the model reads after `prefix`.
    ///
    /// # Errors
    /// The reason, for the log.
    fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, String>;

    /// Whether another machine may be the reason why it fails.
    fn is_remote(&self) -> bool {
        false
    }
}

/// A text, of which the part that begins at `from` is to be embedded.
struct Task {
    prefix: Arc<str>,
    text: Arc<str>,
    from: usize,
    reply: oneshot::Sender<Result<EmbeddedPart, EmbedError>>,
    queued_at: Instant,
}

/// A running embedder.
pub struct Pool {
    model: Model,
    canaries: OnceLock<Vec<Vector>>,
    pub(super) conventions: Conventions,
    pub(super) is_remote: bool,
    threads: usize,
    queue: Sender<Task>,
    /// By the text after its prefix.
    cache: Cache<(EmbedScope, String), Arc<[f32]>>,
    pub(crate) counters: Arc<Counters>,
}

/// Upper bounds of the histogram of waits and embeddings, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// Numbers of a pool since its start.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Parts of texts that wait for a thread.
    pub(crate) waiting: AtomicU64,
    /// Seconds per part of a text, with its wait.
    pub(crate) seconds: Histogram,
    pub(crate) texts: AtomicU64,
    /// Parts of texts that were not embedded.
    pub(crate) failed: AtomicU64,
    /// Whether the last one was not.
    fails: AtomicBool,
    pub(crate) cached: AtomicU64,
    /// Microseconds spent embedding, summed over all threads.
    pub(crate) micros: AtomicU64,
    /// Memories embedded by a next model.
    pub(crate) changed: AtomicU64,
    /// Switches that this node postponed.
    pub(crate) postponed: AtomicU64,
    /// Whether the next model could not be loaded.
    pub(crate) refused: AtomicBool,
    /// Whether the model in use is not the configured one.
    pub(crate) outdated: AtomicBool,
    /// Searches whose first results a reranker ordered, and those for which it did not respond.
    pub(crate) reranked: AtomicU64,
    pub(crate) unranked: AtomicU64,
    /// Whether it did not for the last one.
    pub(crate) reranker_fails: AtomicBool,
}

impl Default for Counters {
    fn default() -> Self {
        let help = "Seconds to embed a part of a text, with its wait for a thread.";
        let options = HistogramOpts::new("hearth_embedding_seconds", help);
        let seconds = Histogram::with_opts(options.buckets(BUCKETS.to_vec()));
        Self {
            waiting: AtomicU64::default(),
            seconds: seconds.expect("name and buckets are valid"),
            texts: AtomicU64::default(),
            failed: AtomicU64::default(),
            fails: AtomicBool::default(),
            cached: AtomicU64::default(),
            micros: AtomicU64::default(),
            changed: AtomicU64::default(),
            postponed: AtomicU64::default(),
            refused: AtomicBool::default(),
            outdated: AtomicBool::default(),
            reranked: AtomicU64::default(),
            unranked: AtomicU64::default(),
            reranker_fails: AtomicBool::default(),
        }
    }
}

impl Pool {
    /// Starts one thread per worker.
    pub fn start(model: Model, conventions: Conventions, workers: Vec<Box<dyn Worker>>) -> Self {
        Self::with_counters(model, conventions, workers, Arc::default())
    }

    /// [`Self::start`], with the counters of another pool.
    pub(crate) fn with_counters(
        model: Model,
        conventions: Conventions,
        workers: Vec<Box<dyn Worker>>,
        counters: Arc<Counters>,
    ) -> Self {
        let (queue, tasks) = channel();
        let tasks = Arc::new(Mutex::new(tasks));
        let threads = workers.len();
        let is_remote = workers.iter().any(|worker| worker.is_remote());
        for worker in workers {
            let (tasks, counters) = (Arc::clone(&tasks), Arc::clone(&counters));
            std::thread::Builder::new()
                .name("embedder".into())
                .spawn(move || run_worker(worker, &tasks, &counters))
                .expect("the system starts a thread: without one, no node can run");
        }
        let (canaries, cache) = (OnceLock::new(), Cache::new(CACHE_ENTRIES));
        Self { model, canaries, conventions, is_remote, threads, queue, cache, counters }
    }
}

/// Embeds texts of the queue until the pool is dropped.
fn run_worker(mut worker: Box<dyn Worker>, tasks: &Mutex<Receiver<Task>>, counters: &Counters) {
    loop {
        let next = tasks.lock().recv();
        let Ok(task) = next else { return };
        counters.waiting.fetch_sub(1, Ordering::Relaxed);
        if task.reply.is_closed() {
            continue;
        }
        let started = Instant::now();
        // A text that makes the model panic fails alone: it must end no node.
        let embed = AssertUnwindSafe(|| worker.embed(&task.prefix, &task.text[task.from..]));
        let embedded = catch_unwind(embed).unwrap_or_else(|_| Err("the model panicked".into()));
        counters.seconds.observe(task.queued_at.elapsed().as_secs_f64());
        counters.texts.fetch_add(1, Ordering::Relaxed);
        counters.micros.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        let failed = counters.fails.swap(embedded.is_err(), Ordering::Relaxed);
        if failed && embedded.is_ok() {
            tracing::info!("texts are embedded again");
        }
        let embedded = embedded.map_err(|error| {
            counters.failed.fetch_add(1, Ordering::Relaxed);
            // An endpoint that is down fails for each text.
            if !failed {
                tracing::error!(error, "embedding failed");
            }
            if worker.is_remote() { EmbedError::Unavailable } else { EmbedError::Failed }
        });
        // An error means that the caller no longer waits.
        let _: Result<(), _> = task.reply.send(embedded);
    }
}

impl Pool {
    /// Embeds the parts of a text. Each part waits in the queue again, so a long text delays others
    /// by one part only.
    async fn embed_parts(&self, role: TextRole, text: Arc<str>) -> Result<Embedding, EmbedError> {
        let prefix: Arc<str> = self.conventions.prefix(role).into();
        let mut parts = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next
            && parts.len() < PARTS_MAX
        {
            let (reply, embedded) = oneshot::channel();
            let (prefix, text) = (Arc::clone(&prefix), Arc::clone(&text));
            let task = Task { prefix, text, from, reply, queued_at: Instant::now() };
            self.counters.waiting.fetch_add(1, Ordering::Relaxed);
            self.queue.send(task).map_err(|_| EmbedError::Failed)?;
            let part = embedded.await.unwrap_or(Err(EmbedError::Failed))?;
            next = part.next.map(|next| from + next);
            parts.push(part.vector);
        }
        let vector = mean_direction(parts).and_then(|vector| self.conventions.centred(vector));
        vector.map_err(|fault| {
            tracing::error!(%fault, "the model returned a vector without a direction");
            EmbedError::Failed
        })
    }
}

impl Pool {
    /// The vector of `text`, and the model.
    ///
    /// # Errors
    /// When the model fails. The cause is in the log.
    pub async fn embed(
        &self,
        scope: EmbedScope,
        role: TextRole,
        text: String,
    ) -> Result<Embedded, EmbedError> {
        let input = || format!("{}{text}", self.conventions.prefix(role));
        let key = (text.len() <= CACHE_TEXT_BYTES).then(|| (scope, input()));
        if let Some(vector) = key.as_ref().and_then(|key| self.cache.get(key)) {
            self.counters.cached.fetch_add(1, Ordering::Relaxed);
            return Ok((self.model.id, vector.to_vec()));
        }
        let vector = self.embed_parts(role, text.into()).await?;
        if let Some(key) = key {
            self.cache.insert(key, vector.as_slice().into());
        }
        Ok((self.model.id, vector))
    }

    pub(super) fn threads(&self) -> usize {
        self.threads
    }

    /// The model, with its canaries if they are known.
    pub(super) fn model(&self) -> Model {
        let canaries = self.canaries.get().cloned().unwrap_or_default();
        Model { canaries, ..self.model.clone() }
    }

    /// Compares its canaries with those that the cluster has of this model, if they are known.
    ///
    /// # Errors
    /// It computes other vectors.
    pub(super) fn check_canaries(&self, stored: &Model) -> Result<(), String> {
        let found = self.canaries.get().filter(|_| self.model.id == stored.id);
        for (stored, found) in stored.canaries.iter().zip(found.into_iter().flatten()) {
            let cosine = stored.cosine(found).unwrap_or(0.0);
            if cosine < CANARY_COSINE_MIN {
                return Err(format!(
                    "{} computes other vectors than those of the memories: the cosine of a text to \
                     itself is {cosine:.4}, at least {CANARY_COSINE_MIN} is expected. Run the model \
                     that embedded the memories, or change the model of the cluster",
                    self.model.name
                ));
            }
        }
        Ok(())
    }

    pub(super) fn has_canaries(&self) -> bool {
        self.canaries.get().is_some()
    }

    /// Embeds the canaries, unless they are known.
    ///
    /// # Errors
    /// The model fails, or its endpoint does not respond.
    pub(super) async fn find_canaries(&self) -> Result<(), String> {
        if self.has_canaries() {
            return Ok(());
        }
        let mut canaries = Vec::new();
        for text in CANARIES {
            let embedded = self.embed_parts(TextRole::Passage, text.into()).await;
            let vector = embedded.map_err(|_| "the model embeds no text, as the log says")?;
            canaries.push(Vector::quantise(self.model.id, &vector).map_err(error::text)?);
        }
        // Of two that found them at once, the first stays.
        self.canaries.set(canaries).unwrap_or_default();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use storage::model::id::TenantId;

    use super::*;
    use crate::embed::hashing;

    /// Reads one letter per part. Its vector has the direction of the letter's number.
    struct Letters;

    impl Worker for Letters {
        fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, String> {
            assert_eq!(prefix, "passage: ");
            let mut vector = vec![0.0; 26];
            vector[usize::from(text.as_bytes()[0] - b'a')] = 3.0;
            Ok(EmbeddedPart { vector, next: (text.len() > 1).then_some(1) })
        }
    }

    const SCOPE: EmbedScope = EmbedScope { tenant: TenantId(1), key: None };

    fn pool() -> Pool {
        let prefixes = ["query: ", "passage: "].map(String::from);
        let conventions = Conventions::new(prefixes, None, None, None).unwrap();
        Pool::start(hashing::model(26), conventions, vec![Box::new(Letters)])
    }

    async fn embedded(text: &str) -> Embedding {
        pool().embed(SCOPE, TextRole::Passage, text.into()).await.unwrap().1
    }

    #[tokio::test]
    async fn panic_of_the_model_fails_its_text_alone() {
        let pool = pool();
        assert!(
            pool.embed(SCOPE, TextRole::Passage, "A".into()).await.is_err(),
            "below the first letter"
        );
        assert!(
            pool.embed(SCOPE, TextRole::Passage, "a".into()).await.is_ok(),
            "the thread goes on"
        );
    }

    #[tokio::test]
    async fn long_text_has_the_mean_of_its_parts() {
        assert_eq!(embedded("c").await[2], 3.0, "one part is not scaled");
        let vector = embedded("aab").await;
        assert_eq!(vector[..3], [2.0, 1.0, 0.0]);
    }

    #[tokio::test]
    async fn parts_of_a_text_are_bounded() {
        let vector = embedded("abcdefgh").await;
        assert_eq!(vector.iter().sum::<f32>(), PARTS_MAX as f32);
        assert_eq!(vector[..PARTS_MAX], [1.0; PARTS_MAX]);
    }
}
