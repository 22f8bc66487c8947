//! Threads that embed: a bounded queue in front, a small cache of short texts
//! beside it. Which model runs on them is not known here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use api::{EmbedError, Embedder, Embedding};
use futures::FutureExt;
use futures::future::BoxFuture;
use moka::sync::Cache;
use storage::model::cluster::Model;
use tokio::sync::oneshot;

/// Texts that may wait; more are turned away.
pub const QUEUE_MAX: usize = 512;
/// Vectors that are kept.
const CACHE_ENTRIES: u64 = 2_048;
/// Longer texts are not kept: queries are short, and it is those that repeat.
const CACHE_TEXT_BYTES: usize = 512;

/// Something that embeds, one text at a time, on a thread of its own.
pub trait Worker: Send {
    /// The vector of `text`.
    ///
    /// # Errors
    /// A text for the log.
    fn embed(&mut self, text: &str) -> Result<Embedding, String>;
}

struct Task {
    text: String,
    answer: oneshot::Sender<Result<Embedding, EmbedError>>,
}

/// A running embedder.
pub struct Pool {
    model: Model,
    queue: SyncSender<Task>,
    cache: Cache<String, Arc<[f32]>>,
    counters: Arc<Counters>,
}

/// What a pool did since its start.
#[derive(Debug, Default)]
pub struct Counters {
    texts: AtomicU64,
    cached: AtomicU64,
    busy: AtomicU64,
    micros: AtomicU64,
}

impl Counters {
    /// Texts embedded.
    pub fn texts(&self) -> u64 {
        self.texts.load(Ordering::Relaxed)
    }

    /// Texts found in the cache.
    pub fn cached(&self) -> u64 {
        self.cached.load(Ordering::Relaxed)
    }

    /// Texts turned away.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// Seconds spent embedding, all threads together.
    pub fn seconds(&self) -> f64 {
        self.micros.load(Ordering::Relaxed) as f64 / 1e6
    }
}

impl Pool {
    /// Starts one thread a worker.
    pub fn start(model: Model, workers: Vec<Box<dyn Worker>>) -> Self {
        let (queue, waiting) = sync_channel(QUEUE_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let counters = Arc::new(Counters::default());
        for worker in workers {
            let (waiting, counters) = (Arc::clone(&waiting), Arc::clone(&counters));
            std::thread::Builder::new()
                .name("embedder".into())
                .spawn(move || work(worker, &waiting, &counters))
                .expect("the system refuses a thread at start-up: nothing can run then");
        }
        Self { model, queue, cache: Cache::new(CACHE_ENTRIES), counters }
    }

    /// What the pool did.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

fn work(mut worker: Box<dyn Worker>, waiting: &Mutex<Receiver<Task>>, counters: &Counters) {
    loop {
        let next = waiting.lock().expect("no code panics while it holds the queue").recv();
        let Ok(task) = next else { return };
        if task.answer.is_closed() {
            continue;
        }
        let started = Instant::now();
        let embedded = worker.embed(&task.text);
        counters.texts.fetch_add(1, Ordering::Relaxed);
        counters.micros.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        let embedded = embedded.map_err(|error| {
            tracing::error!(error, "embedding failed");
            EmbedError::Failed
        });
        // A caller that went away needs no answer.
        let _: Result<(), _> = task.answer.send(embedded);
    }
}

impl Embedder for Pool {
    fn embed(&self, text: String) -> BoxFuture<'_, Result<Embedding, EmbedError>> {
        async move {
            let keep = text.len() <= CACHE_TEXT_BYTES;
            if keep && let Some(vector) = self.cache.get(&text) {
                self.counters.cached.fetch_add(1, Ordering::Relaxed);
                return Ok(vector.to_vec());
            }
            let key = keep.then(|| text.clone());
            let (answer, embedded) = oneshot::channel();
            self.queue.try_send(Task { text, answer }).map_err(|error| match error {
                TrySendError::Full(_) => {
                    self.counters.busy.fetch_add(1, Ordering::Relaxed);
                    EmbedError::Busy
                }
                TrySendError::Disconnected(_) => EmbedError::Failed,
            })?;
            let vector = embedded.await.unwrap_or(Err(EmbedError::Failed))?;
            if let Some(key) = key {
                self.cache.insert(key, vector.as_slice().into());
            }
            Ok(vector)
        }
        .boxed()
    }

    fn model(&self) -> &Model {
        &self.model
    }
}
