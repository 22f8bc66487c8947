//! A pool of embedder threads, with a cache of vectors of short texts. A model reads a limited
//! number of tokens, so a long text is embedded in overlapping parts, and its vector is their mean
//! direction. The service bounds the texts in the queue by its permits.
//!
//! *Canaries* are texts whose vectors tell whether a model is that of the cluster. An id says which files or which
//! name a model has. What an endpoint runs under a name may change, and a CPU may compute otherwise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use api::{EmbedError, EmbedScope, Embedded, Embedding, TextRole};
use futures::future::try_join_all;
use moka::sync::Cache;
use parking_lot::Mutex;
use prometheus::{Histogram, HistogramOpts};
use storage::model::cluster::Model;
use storage::model::vector::{Vector, VectorFault, mean_direction};
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
/// The least cosine of a canary to that of the cluster, of a model at an endpoint. Another model has 0.9 or less. They
/// are compared as the model computes them, with their common component.
const CANARY_COSINE_MIN: f32 = 0.999;
/// That of a model whose files have the right hashes. With weights of 8 bits, sums in another order change a cosine by
/// up to 0.002, and the next CPU may have another order.
const HASHED_COSINE_MIN: f32 = 0.98;
/// Pause before canaries are embedded again that failed or differed.
const CANARY_PAUSE: Duration = Duration::from_secs(2);
/// Bytes at the end of a part that the next one repeats, so that a sentence between both is whole
/// in one of them: about 25 tokens.
const OVERLAP_BYTES: usize = 120;

/// The first part of a text.
pub struct EmbeddedPart {
    /// Its vector.
    pub vector: Embedding,
    /// Where the next part begins, in bytes: at a character, and not at 0. `None` if this part
    /// reaches the end of the text.
    pub next: Option<usize>,
}

/// Why a part of a text is not embedded, with the cause.
pub enum WorkerError {
    /// The model fails.
    Fails(String),
    /// The endpoint that runs it does not respond as it should.
    Unavailable(String),
}

impl From<String> for WorkerError {
    fn from(cause: String) -> Self {
        Self::Fails(cause)
    }
}

/// Embeds one part of a text at a time, on its own thread.
pub trait Worker: Send {
    /// The first part of `text`, which the model reads after `prefix`.
    ///
    /// # Errors
    /// The cause, for the log.
    fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, WorkerError>;

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

/// What is known of a pool's canaries.
#[derive(Default)]
struct Canaries {
    /// Their vectors.
    found: Vec<Vector>,
    /// Whether they are those of the cluster's model.
    is_verified: bool,
}

/// A running embedder.
pub struct Pool {
    model: Model,
    canaries: Mutex<Canaries>,
    /// When and why they were not found, or differed.
    last_attempt: tokio::sync::Mutex<Option<(Instant, String)>>,
    /// Why the last part was not embedded, if it was not.
    failure: Arc<Mutex<Option<String>>>,
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
    /// Turns of which an extractor named the facts, and those of which it did not.
    pub(crate) extracted: AtomicU64,
    pub(crate) unextracted: AtomicU64,
    /// Whether the reranker did not respond for the last search.
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
            cached: AtomicU64::default(),
            micros: AtomicU64::default(),
            changed: AtomicU64::default(),
            postponed: AtomicU64::default(),
            refused: AtomicBool::default(),
            outdated: AtomicBool::default(),
            reranked: AtomicU64::default(),
            unranked: AtomicU64::default(),
            extracted: AtomicU64::default(),
            unextracted: AtomicU64::default(),
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
        let failure = Arc::default();
        for worker in workers {
            let (tasks, counters) = (Arc::clone(&tasks), Arc::clone(&counters));
            let failure = Arc::clone(&failure);
            std::thread::Builder::new()
                .name("embedder".into())
                .spawn(move || run_worker(worker, &tasks, &counters, &failure))
                .expect("the system starts a thread: without one, no node can run");
        }
        let (canaries, last_attempt) = Default::default();
        let cache = Cache::new(CACHE_ENTRIES);
        Self {
            model,
            canaries,
            last_attempt,
            failure,
            conventions,
            is_remote,
            threads,
            queue,
            cache,
            counters,
        }
    }
}

/// Embeds texts of the queue until the pool is dropped.
fn run_worker(
    mut worker: Box<dyn Worker>,
    tasks: &Mutex<Receiver<Task>>,
    counters: &Counters,
    failure: &Mutex<Option<String>>,
) {
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
        let embedded = catch_unwind(embed)
            .unwrap_or_else(|_| Err(WorkerError::Fails("the model panicked".into())));
        counters.seconds.observe(task.queued_at.elapsed().as_secs_f64());
        counters.texts.fetch_add(1, Ordering::Relaxed);
        counters.micros.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        let (embedded, cause) = match embedded {
            Ok(part) => (Ok(part), None),
            Err(WorkerError::Fails(cause)) => (Err(EmbedError::Failed), Some(cause)),
            Err(WorkerError::Unavailable(cause)) => (Err(EmbedError::Unavailable), Some(cause)),
        };
        counters.failed.fetch_add(u64::from(cause.is_some()), Ordering::Relaxed);
        let before = std::mem::replace(&mut *failure.lock(), cause.clone());
        // An endpoint that is down fails for each text.
        match (before, cause) {
            (None, Some(error)) => tracing::error!(error, "embedding failed"),
            (Some(_), None) => tracing::info!("texts are embedded again"),
            _ => {}
        }
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
        mean_direction(parts).map_err(unusable)
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
        let vector = self.conventions.centred(vector).map_err(unusable)?;
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
        let canaries = self.canaries.lock().found.clone();
        Model { canaries, ..self.model.clone() }
    }

    /// Whether its vectors are those of the cluster's model.
    pub(super) fn is_verified(&self) -> bool {
        self.canaries.lock().is_verified
    }

    /// Embeds the canaries, unless they are known. Of several callers one does; others wait for it.
    ///
    /// # Errors
    /// The model fails, or its endpoint does not respond, now or a moment ago.
    pub(crate) async fn find_canaries(&self) -> Result<(), String> {
        let mut last = self.last_attempt.lock().await;
        if !self.canaries.lock().found.is_empty() {
            return Ok(());
        }
        if let Some((at, error)) = &*last
            && at.elapsed() < CANARY_PAUSE
        {
            return Err(error.clone());
        }
        let embed = |text: &str| self.embed_parts(TextRole::Passage, text.into());
        let found = try_join_all(CANARIES.map(embed)).await;
        let cause = || self.failure.lock().clone().unwrap_or_default();
        let found = found.map_err(|_| format!("{}: {}", self.model.name, cause()));
        let quantised = |vector: Vec<f32>| Vector::quantise(self.model.id, &vector);
        let found = found.and_then(|vectors| {
            vectors.into_iter().map(quantised).collect::<Result<_, _>>().map_err(error::text)
        });
        match found {
            Ok(found) => {
                self.canaries.lock().found = found;
                Ok(())
            }
            Err(error) => {
                *last = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Compares the canaries, which are known, with those of the cluster's model. If they differ, they are forgotten,
    /// since the endpoint may run the right model later.
    ///
    /// # Errors
    /// It computes other vectors, or is another model.
    pub(crate) fn verify(&self, stored: &Model) -> Result<(), String> {
        if stored.id != self.model.id {
            return Err(format!("{} is not the model of the memories", self.model.name));
        }
        let mut canaries = self.canaries.lock();
        let cosine = |(stored, found): (&Vector, &Vector)| stored.cosine(found).unwrap_or(0.0);
        let expected = if self.is_remote { CANARY_COSINE_MIN } else { HASHED_COSINE_MIN };
        let least = stored.canaries.iter().zip(&canaries.found).map(cosine).fold(1.0, f32::min);
        if least < expected || canaries.found.len() != stored.canaries.len() {
            canaries.found.clear();
            // The parts that were embedded are of no use.
            self.counters.failed.fetch_add(CANARIES.len() as u64, Ordering::Relaxed);
            let error = format!(
                "{} computes other vectors than those of the memories: the cosine of a text to itself \
                 is {least:.4}, at least {expected} is expected. Run the model that embedded \
                 the memories, or change the model of the cluster",
                self.model.name
            );
            // Held by those who find them, who are done.
            if let Ok(mut last) = self.last_attempt.try_lock() {
                *last = Some((Instant::now(), error.clone()));
            }
            return Err(error);
        }
        canaries.is_verified = true;
        Ok(())
    }
}

fn unusable(fault: VectorFault) -> EmbedError {
    tracing::error!(%fault, "the model returned a vector without a direction");
    EmbedError::Failed
}

/// Where the part after the one that ends at `end` begins: at a word, if there is one in the
/// overlap. `None` if nothing but space follows.
pub(super) fn next_part(text: &str, end: usize) -> Option<usize> {
    if text[end..].trim_start().is_empty() {
        return None;
    }
    let overlap = text.floor_char_boundary(end.saturating_sub(OVERLAP_BYTES));
    let word = text[overlap..end].find(char::is_whitespace);
    // Each part must begin after the one before it.
    Some(word.map_or(overlap, |at| overlap + at)).filter(|next| *next > 0).or(Some(end))
}

#[cfg(test)]
mod tests {
    use storage::model::id::TenantId;

    use super::*;
    use crate::embed::hashing;

    /// Reads one letter per part. Its vector has the direction of the letter's number.
    struct Letters;

    impl Worker for Letters {
        fn embed(&mut self, prefix: &str, text: &str) -> Result<EmbeddedPart, WorkerError> {
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

    #[test]
    fn next_part_begins_at_a_word() {
        let text = format!("{} {}", "a".repeat(200), "b".repeat(200));
        assert_eq!(next_part(&text, 250), Some(200));
        assert_eq!(next_part(&text, 401), None);
        assert_eq!(next_part(&"猫".repeat(200), 300), Some(180));
        assert_eq!(next_part(" no space", 1), Some(1), "not at 0 again");
    }
}
