//! The thread that owns the engine's writer. A write of the engine may block on the disk; Raft's
//! tasks, which send heartbeats, never do.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use storage::{Error, Writer};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce(&mut Writer) + Send>;

/// The thread. A drop waits for its end, so that the engine is closed before the process ends.
pub(crate) struct WriterThread {
    /// `None` during the drop. The caller waits for each job, so one has room.
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl WriterThread {
    pub(crate) fn start(mut writer: Writer) -> io::Result<Self> {
        let (jobs, queue) = sync_channel::<Job>(1);
        let thread = std::thread::Builder::new().name("apply".into()).spawn(move || {
            while let Ok(job) = queue.recv() {
                job(&mut writer);
            }
        })?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `work` on the thread. After a panic in it, this call and all later ones fail.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> storage::Result<T> + Send + 'static,
    ) -> storage::Result<T> {
        let (sender, result) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            // A caller that was cancelled has dropped the receiver.
            let _: Result<(), _> = sender.send(work(writer));
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        match result.await {
            Ok(result) if sent => result,
            _ => Err(Error::Misuse("the thread that applies entries has panicked".into())),
        }
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
