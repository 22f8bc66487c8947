//! A pool of embedder threads, with a cache of vectors of short texts. The service bounds the texts
//! in the queue by its permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use api::{EmbedError, EmbedScope, Embedder, Embedding};
use futures::FutureExt;
use futures::future::BoxFuture;
use moka::sync::Cache;
use parking_lot::Mutex;
use storage::model::cluster::Model;
use tokio::sync::oneshot;

const CACHE_ENTRIES: u64 = 2_048;
/// Longest cached text. Queries are short, and queries repeat.
const CACHE_TEXT_BYTES: usize = 512;

/// Embeds one text at a time, on its own thread.
pub trait Worker: Send {
    /// The vector of `text`.
    ///
    /// # Errors
    /// The reason, for the log.
    fn embed(&mut self, text: &str) -> Result<Embedding, String>;
}

struct Task {
    text: String,
    reply: oneshot::Sender<Result<Embedding, EmbedError>>,
}

/// A running embedder.
pub struct Pool {
    model: Model,
    threads: usize,
    queue: Sender<Task>,
    cache: Cache<(EmbedScope, String), Arc<[f32]>>,
    pub(crate) counters: Arc<Counters>,
}

/// Numbers of a pool since its start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) texts: AtomicU64,
    pub(crate) cached: AtomicU64,
    /// Microseconds spent embedding, summed over all threads.
    pub(crate) micros: AtomicU64,
}

impl Pool {
    /// Starts one thread per worker.
    pub fn start(model: Model, workers: Vec<Box<dyn Worker>>) -> Self {
        let (queue, tasks) = channel();
        let tasks = Arc::new(Mutex::new(tasks));
        let counters = Arc::new(Counters::default());
        let threads = workers.len();
        for worker in workers {
            let (tasks, counters) = (Arc::clone(&tasks), Arc::clone(&counters));
            std::thread::Builder::new()
                .name("embedder".into())
                .spawn(move || run_worker(worker, &tasks, &counters))
                .expect("the system starts a thread: without one, no node can run");
        }
        Self { model, threads, queue, cache: Cache::new(CACHE_ENTRIES), counters }
    }
}

/// Embeds texts of the queue until the pool is dropped.
fn run_worker(mut worker: Box<dyn Worker>, tasks: &Mutex<Receiver<Task>>, counters: &Counters) {
    loop {
        let next = tasks.lock().recv();
        let Ok(task) = next else { return };
        if task.reply.is_closed() {
            continue;
        }
        let started = Instant::now();
        let embedded = worker.embed(&task.text);
        counters.texts.fetch_add(1, Ordering::Relaxed);
        counters.micros.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        let embedded = embedded.map_err(|error| {
            tracing::error!(error, "embedding failed");
            EmbedError
        });
        // An error means that the caller no longer waits.
        let _: Result<(), _> = task.reply.send(embedded);
    }
}

impl Embedder for Pool {
    fn embed(
        &self,
        scope: EmbedScope,
        text: String,
    ) -> BoxFuture<'_, Result<Embedding, EmbedError>> {
        async move {
            let key = (text.len() <= CACHE_TEXT_BYTES).then(|| (scope, text.clone()));
            if let Some(vector) = key.as_ref().and_then(|key| self.cache.get(key)) {
                self.counters.cached.fetch_add(1, Ordering::Relaxed);
                return Ok(vector.to_vec());
            }
            let (reply, embedded) = oneshot::channel();
            self.queue.send(Task { text, reply }).map_err(|_| EmbedError)?;
            let vector = embedded.await.unwrap_or(Err(EmbedError))?;
            if let Some(key) = key {
                self.cache.insert(key, vector.as_slice().into());
            }
            Ok(vector)
        }
        .boxed()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn model(&self) -> &Model {
        &self.model
    }
}
