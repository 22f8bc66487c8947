//! The thread that owns the engine's writer. A write of the engine may block on the disk; Raft's
//! tasks, which send heartbeats, never do.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use futures::FutureExt;
use storage::{Error, Writer};
use tokio::sync::{mpsc, oneshot};

use crate::machine::{DiskStep, Machine};

type Job = Box<dyn FnOnce(storage::Result<&mut Writer>) + Send>;

/// The thread. A drop waits for its end, so that the engine is closed before the process ends.
pub(crate) struct WriterThread {
    /// `None` during the drop. The caller waits for each job, so one has room.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    pub(crate) fn start(mut writer: Writer, machine: Arc<dyn Machine>) -> io::Result<Self> {
        let (jobs, mut queue) = mpsc::channel::<Job>(1);
        let host = Arc::clone(&machine);
        let task = async move {
            while let Some(job) = queue.recv().await {
                let ready = machine.before(DiskStep::Apply).await;
                job(ready.map(|()| &mut writer));
            }
        };
        let thread = host.start_thread("apply", task.boxed())?;
        Ok(Self { jobs: Some(jobs), thread })
    }

    /// Runs `work` on the thread. After a panic in it, this call and all later ones fail.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> storage::Result<T> + Send + 'static,
    ) -> storage::Result<T> {
        let (sender, result) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            // A caller that was cancelled has dropped the receiver.
            let _: Result<(), _> = sender.send(writer.and_then(work));
        });
        if let Some(jobs) = &self.jobs {
            // After a panic the job is dropped, and with it the sender of its result.
            let _: Result<(), _> = jobs.send(job).await;
        }
        let panicked = || Error::Misuse("the thread that applies entries has panicked".into());
        result.await.unwrap_or_else(|_| Err(panicked()))
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Its panic was reported by the job that panicked.
            drop(thread.join());
        }
    }
}
