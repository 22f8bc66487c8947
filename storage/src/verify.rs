//! Verification: hashes all rows of the state at one log index, in the background, and searches for
//! rows that cannot be.
//!
//! A verify mark in the log makes every node hash its state at the same index. Nodes with
//! the same state compute the same hash. `raft` compares the hashes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::row_faults::{RowFaults, row_faults};
use crate::table::state::{Snapshot, State};

/// Maximum number of results that are retained. The oldest is dropped first.
pub const RESULTS_MAX: usize = 16;
/// Bytes hashed between two pauses.
const STRIDE_BYTES: usize = 4 << 20;
/// Length of a pause. Together with [`STRIDE_BYTES`] it limits hashing to 200 MB/s.
const PAUSE: Duration = Duration::from_millis(20);

/// Result of one verify mark on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyResult {
    /// Number of the mark.
    pub number: u64,
    /// Log index whose state was hashed.
    pub index: u64,
    /// SHA-256 over all rows in key order. Each row is key length, key, value length, value,
    /// with lengths as 4 bytes big-endian. `None` if the previous run was still in progress.
    pub hash: Option<[u8; 32]>,
    /// Rows that cannot be, once they were searched: after the hash.
    pub faults: Option<RowFaults>,
}

/// Hashes states on a background thread, one at a time.
#[derive(Default)]
pub struct Verifier {
    inner: Mutex<Inner>,
    done: Condvar,
}

#[derive(Default)]
struct Inner {
    running: bool,
    results: VecDeque<VerifyResult>,
    fault: Option<crate::error::Error>,
}

impl Verifier {
    /// The newest results, oldest first.
    pub fn results(&self) -> Vec<VerifyResult> {
        self.inner.lock().results.iter().cloned().collect()
    }

    /// Takes the error of a failed run: the state could not be read.
    pub fn take_fault(&self) -> Option<crate::error::Error> {
        self.inner.lock().fault.take()
    }

    /// Waits until no run is in progress.
    pub fn wait_idle(&self) {
        let mut inner = self.inner.lock();
        while inner.running {
            self.done.wait(&mut inner);
        }
    }

    /// Takes a snapshot of `state` and hashes it on a new thread. Returns once the snapshot is
    /// taken, so later writes do not change the hash.
    pub(crate) fn start(self: Arc<Self>, number: u64, index: u64, state: &Arc<State>) {
        {
            let mut inner = self.inner.lock();
            if inner.running {
                inner.push(VerifyResult { number, index, hash: None, faults: None });
                return;
            }
            inner.running = true;
        }
        let state = Arc::clone(state);
        let (snapshot_sender, snapshot_taken) = std::sync::mpsc::channel::<()>();
        let run = Run(self);
        let run = move || {
            let snapshot = state.snapshot();
            drop(snapshot_sender);
            let inner = || run.0.inner.lock();
            let hash = match hash_rows(&snapshot, PAUSE) {
                Ok(hash) => Some(hash),
                Err(fault) => return inner().fault = Some(fault),
            };
            inner().push(VerifyResult { number, index, hash, faults: None });
            match row_faults(&snapshot, PAUSE) {
                Ok(faults) => inner().complete(number, faults),
                Err(fault) => inner().fault = Some(fault),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("verify".into()).spawn(run) {
            tracing::warn!(%error, "cannot start the verify thread");
        }
        // Returns an error as soon as the sender is dropped: the snapshot is taken.
        let _ = snapshot_taken.recv();
    }
}

/// A run in progress. Its drop ends the run, also after a panic or when no thread starts.
struct Run(Arc<Verifier>);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.inner.lock().running = false;
        self.0.done.notify_all();
    }
}

impl Inner {
    fn complete(&mut self, number: u64, faults: RowFaults) {
        if let Some(result) = self.results.iter_mut().find(|result| result.number == number) {
            result.faults = Some(faults);
        }
    }

    fn push(&mut self, result: VerifyResult) {
        if self.results.len() == RESULTS_MAX {
            self.results.pop_front();
        }
        self.results.push_back(result);
    }
}

/// Hashes all rows in key order, with pauses of this length. See [`VerifyResult::hash`].
pub(crate) fn hash_rows(snapshot: &Snapshot<'_>, pause: Duration) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut since_pause = 0;
    for row in snapshot.all() {
        let (key, value) = row?;
        for part in [&key, &value] {
            hash.update((part.len() as u32).to_be_bytes());
            hash.update(part);
        }
        since_pause += key.len() + value.len();
        if since_pause >= STRIDE_BYTES {
            since_pause = 0;
            std::thread::sleep(pause);
        }
    }
    Ok(hash.finalize().into())
}
