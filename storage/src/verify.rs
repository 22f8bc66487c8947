//! Verification: hashes all rows of the state at one log index, in the background, and searches for
//! rows that cannot be.
//!
//! A verify mark in the log makes every node hash its state at the same index. Nodes with
//! the same state compute the same hash. `raft` compares the hashes.
//!
//! Rows that cannot be: a row without the row that each write of it also writes. One alone means a
//! fault of this software, or files that were exchanged.
//!
//! Rows with the same id are compared as sorted streams, one per kind (a sort-merge join). The other
//! counterparts are looked up.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use model::edge::RelationKey;
use model::id::{KeyId, MemoryId, TenantId};
use model::receipt::Receipt;
use model::trigger::Delivery;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::change::in_order;
use crate::codec;
use crate::error::Result;
use crate::table::key::{
    Key, Kind, delivery_of, fixed, prefix, prefix_end, receipt_key_of, receipt_of, split,
};
use crate::table::state::{Snapshot, State};
use crate::table::view::{Row, View};

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

/// Faults that are named. All are counted.
const NAMED_MAX: usize = 100;
/// Rows that are read between two pauses.
const STRIDE_ROWS: u64 = 20_000;

/// Kinds of rows with the same ids. The first must be there, if another one is.
const FAMILIES: [&[Kind]; 3] = [
    &[
        Kind::Memory,
        Kind::Anchor,
        Kind::Vector,
        Kind::SecondVector,
        Kind::MemoryState,
        Kind::MemoryVersions,
    ],
    &[Kind::ApiKey, Kind::KeyUses, Kind::KeyUsed],
    &[Kind::Trigger, Kind::Firings],
];

/// A row without its counterpart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFault {
    /// Its kind, as in [`Key`].
    pub kind: String,
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id: a UUID, or the rest of its key in hexadecimal digits.
    pub id: String,
    /// What is wrong with it.
    pub fault: String,
}

/// The rows of a state that have no counterpart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFaults {
    /// Their number.
    pub count: u64,
    /// The first of them, 100 at most.
    pub first: Vec<RowFault>,
}

impl fmt::Display for RowFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, tenant, id, fault } = self;
        write!(out, "{kind} {id} of tenant {}: {fault}", tenant.0)
    }
}

/// Searches all rows of a snapshot, with pauses of this length.
pub(crate) fn row_faults(snapshot: &Snapshot<'_>, pause: Duration) -> Result<RowFaults> {
    let mut search = FaultSearch { snapshot, pause, rows: 0, found: RowFaults::default() };
    for family in FAMILIES {
        search.family(family)?;
    }
    search.each(Kind::Edge, FaultSearch::edge)?;
    search.each(Kind::Receipt, FaultSearch::receipt)?;
    search.each(Kind::ReceiptAge, FaultSearch::receipt_age)?;
    search.each(Kind::Delivery, FaultSearch::delivery)?;
    search.each(Kind::Due, FaultSearch::stage)?;
    search.each(Kind::DeadLetter, FaultSearch::stage)?;
    for kind in Kind::of_tenants() {
        search.tenants(kind)?;
    }
    Ok(search.found)
}

struct FaultSearch<'a> {
    snapshot: &'a Snapshot<'a>,
    pause: Duration,
    rows: u64,
    found: RowFaults,
}

/// Whether a row has its counterpart; else, what is wrong.
type Checked = Result<Option<&'static str>>;

impl FaultSearch<'_> {
    fn add(&mut self, kind: Kind, key: &[u8], fault: &'static str) -> Result<()> {
        self.found.count += 1;
        if self.found.first.len() < NAMED_MAX {
            let (tenant, rest) = split(key)?;
            let id = match (kind, rest.first_chunk::<16>()) {
                (
                    Kind::Memory
                    | Kind::Anchor
                    | Kind::Vector
                    | Kind::SecondVector
                    | Kind::MemoryState
                    | Kind::MemoryVersions
                    | Kind::Edge
                    | Kind::Trigger
                    | Kind::Firings,
                    Some(id),
                ) => MemoryId(*id).to_string(),
                (Kind::ApiKey | Kind::KeyUses | Kind::KeyUsed, _) => {
                    KeyId(fixed(rest)?).to_string()
                }
                _ => hex::encode(rest),
            };
            self.found.first.push(RowFault {
                kind: kind.name().into(),
                tenant,
                id,
                fault: fault.into(),
            });
        }
        Ok(())
    }

    fn count(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(STRIDE_ROWS) {
            std::thread::sleep(self.pause);
        }
    }

    /// Reads the rows of kinds with the same ids side by side.
    fn family(&mut self, kinds: &[Kind]) -> Result<()> {
        let mut streams = Vec::new();
        for kind in kinds {
            let mut rows = self.snapshot.scan(*kind);
            let next = rows.next().transpose()?;
            streams.push((*kind, rows, next));
        }
        let id = |row: &Row| row.0[1..].to_vec();
        while let Some(least) = streams.iter().filter_map(|(.., next)| next.as_ref().map(id)).min()
        {
            let mut present = Vec::new();
            for (kind, rows, next) in &mut streams {
                if next.as_ref().is_some_and(|row| row.0[1..] == least) {
                    present.push(*kind);
                    *next = rows.next().transpose()?;
                }
            }
            self.count();
            let key = [&[0][..], &least].concat();
            match (present.contains(&kinds[0]), present[0]) {
                (true, Kind::Memory) if !present.contains(&Kind::Anchor) => {
                    self.add(Kind::Memory, &key, "it has no anchor")?;
                }
                (true, _) => {}
                (false, _) => {
                    for kind in present {
                        self.add(kind, &key, kinds[0].is_absent())?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks each row of a kind.
    fn each(&mut self, kind: Kind, check: fn(&Self, &Row) -> Checked) -> Result<()> {
        for row in self.snapshot.scan(kind) {
            let row = row?;
            self.count();
            if let Some(fault) = check(self, &row)? {
                self.add(kind, &row.0, fault)?;
            }
        }
        Ok(())
    }

    fn has(&self, key: &Key) -> Result<bool> {
        Ok(self.snapshot.bytes(key)?.is_some())
    }

    /// An edge is stored at both ends.
    fn edge(&self, (key, _): &Row) -> Checked {
        let (tenant, rest) = split(key)?;
        let ids: [u8; 40] = fixed(rest)?;
        let [end, other] = [0, 16].map(|at| fixed(&ids[at..at + 16]).map(MemoryId));
        let (end, other) = (end?, other?);
        let relation: RelationKey = fixed(&ids[32..])?;
        Ok(if !self.has(&Key::Edge(tenant, other, end, relation))? {
            Some("it is not stored at its other end")
        } else if !self.has(&Key::Memory(tenant, end))? {
            Some(Kind::Memory.is_absent())
        } else {
            None
        })
    }

    fn receipt(&self, (key, value): &Row) -> Checked {
        let ((tenant, _), (owner, hash)) = (split(key)?, receipt_key_of(key)?);
        let Receipt { retention, at, .. } = codec::decode(value)?;
        let age = Key::ReceiptAge(tenant, owner, retention, at, hash);
        Ok((!self.has(&age)?).then_some("it is in no order of age"))
    }

    fn receipt_age(&self, (key, _): &Row) -> Checked {
        let ((tenant, _), (owner, _, _, hash)) = (split(key)?, receipt_of(key)?);
        let receipt = Key::Receipt(tenant, owner, hash);
        Ok((!self.has(&receipt)?).then_some(Kind::Receipt.is_absent()))
    }

    fn delivery(&self, (key, value): &Row) -> Checked {
        let ((tenant, _), id) = (split(key)?, delivery_of(key)?);
        let delivery: Delivery = codec::decode(value)?;
        let stage = in_order(&delivery.stage, tenant, id);
        Ok((!self.has(&stage)?).then_some("it is in no order of time"))
    }

    fn stage(&self, (key, _): &Row) -> Checked {
        let ((tenant, _), id) = (split(key)?, delivery_of(key)?);
        Ok((!self.has(&Key::Delivery(tenant, id))?).then_some(Kind::Delivery.is_absent()))
    }

    /// Finds rows of tenants that do not exist: the first row of each tenant tells.
    fn tenants(&mut self, kind: Kind) -> Result<()> {
        let mut start = vec![kind as u8];
        while let Some(row) = self.snapshot.range(&start, &[kind as u8 + 1]).next() {
            let (key, _) = row?;
            let (tenant, _) = split(&key)?;
            if tenant != TenantId::OPERATOR && !self.has(&Key::Tenant(tenant))? {
                self.add(kind, &key, Kind::Tenant.is_absent())?;
            }
            start = prefix_end(&prefix(kind, tenant));
        }
        Ok(())
    }
}

impl Kind {
    fn is_absent(self) -> &'static str {
        match self {
            Self::Memory => "its memory is absent",
            Self::ApiKey => "its API key is absent",
            Self::Trigger => "its trigger is absent",
            Self::Receipt => "its receipt is absent",
            Self::Delivery => "its delivery is absent",
            _ => "its tenant is absent",
        }
    }
}
