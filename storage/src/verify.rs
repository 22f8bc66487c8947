//! Verify marks: a hash of every row of the state as of one log index, made in
//! the background. Nodes that hold the same state get the same hash; who
//! compares them is not known here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::table::state::{Row, State};

/// Results that are kept; the oldest goes first.
pub const RESULTS_MAX: usize = 16;
/// Bytes between two pauses of the hashing thread.
const STRIDE_BYTES: usize = 4 << 20;
/// Length of such a pause: with the stride a limit of 200 MB/s.
const PAUSE: Duration = Duration::from_millis(20);

/// Outcome of one verify mark on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Number of the mark.
    pub number: u64,
    /// Log index whose state was hashed.
    pub index: u64,
    /// SHA-256 over all rows in key order, each as key length, key, value
    /// length, value (lengths 4 bytes, big-endian). `None`: not hashed, since
    /// the run before was still under way.
    pub hash: Option<[u8; 32]>,
}

/// Hashes states, one at a time.
#[derive(Default)]
pub struct Verifier {
    inner: Mutex<Inner>,
    done: Condvar,
}

#[derive(Default)]
struct Inner {
    running: bool,
    results: VecDeque<Verified>,
    fault: Option<crate::error::Error>,
}

impl Verifier {
    /// The newest results, oldest first.
    pub fn results(&self) -> Vec<Verified> {
        self.inner.lock().results.iter().cloned().collect()
    }

    /// A fault that stopped a run: the state could not be read. Given once.
    pub fn take_fault(&self) -> Option<crate::error::Error> {
        self.inner.lock().fault.take()
    }

    /// Waits until no run is under way.
    pub fn wait_idle(&self) {
        let mut inner = self.inner.lock();
        while inner.running {
            self.done.wait(&mut inner);
        }
    }

    fn end(&self) {
        self.inner.lock().running = false;
        self.done.notify_all();
    }

    /// Freezes `state` and hashes it on a thread of its own. Returns as soon as
    /// it is frozen, so that no later write can show in the hash.
    pub(crate) fn start(self: Arc<Self>, number: u64, index: u64, state: &Arc<State>) {
        {
            let mut inner = self.inner.lock();
            if inner.running {
                inner.keep(Verified { number, index, hash: None });
                return;
            }
            inner.running = true;
        }
        let (state, (taken, frozen)) = (Arc::clone(state), std::sync::mpsc::channel());
        let verifier = Arc::clone(&self);
        let run = move || {
            let run = Run(verifier);
            let hash = state.frozen(move || drop(taken), hash_rows);
            let mut inner = run.0.inner.lock();
            match hash {
                Ok(hash) => inner.keep(Verified { number, index, hash: Some(hash) }),
                Err(fault) => inner.fault = Some(fault),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("verify".into()).spawn(run) {
            tracing::warn!(%error, "no thread to hash the state on");
            self.end();
        }
        // The sender is dropped, unused, once the state is frozen.
        let _: std::result::Result<(), _> = frozen.recv();
    }
}

/// A run under way; ends it however its thread ends.
struct Run(Arc<Verifier>);

impl Drop for Run {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Inner {
    fn keep(&mut self, result: Verified) {
        if self.results.len() == RESULTS_MAX {
            self.results.pop_front();
        }
        self.results.push_back(result);
    }
}

fn hash_rows(rows: &mut dyn Iterator<Item = Result<Row>>) -> Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let mut since_pause = 0;
    for row in rows {
        let (key, value) = row?;
        for part in [&key, &value] {
            hash.update((part.len() as u32).to_be_bytes());
            hash.update(part);
        }
        since_pause += key.len() + value.len();
        if since_pause >= STRIDE_BYTES {
            since_pause = 0;
            std::thread::sleep(PAUSE);
        }
    }
    Ok(hash.finalize().into())
}
