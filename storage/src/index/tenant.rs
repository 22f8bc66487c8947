//! All derived data of one tenant behind one lock: columns, vectors, words.
//! Changed by `apply` only; readers hold the lock a chunk at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;

use crate::index::chunk::{CHUNK_ROWS, Chunk, Row, Slot};
use crate::index::coverage::{Coverage, GraphCounts, Task};
use crate::index::graph::Graph;
use crate::index::words::{QueryWords, Words};
use crate::model::access::Access;
use crate::model::heat::Anchor;
use crate::model::id::MemoryId;
use crate::model::memory::Memory;
use crate::model::sq8::Code;
use crate::model::tenant::Tenant;

/// The index of one tenant.
pub(crate) struct TenantIndex {
    inner: RwLock<Inner>,
}

/// What the lock guards.
pub(crate) struct Inner {
    tenant: Tenant,
    dimension: usize,
    slots: HashMap<MemoryId, Slot>,
    free: Vec<Slot>,
    chunks: Vec<Chunk>,
    words: Words,
    /// Key points as they stand, in the place of words.
    key_points: Words,
    coverage: Coverage,
    /// Largest error of a code that was ever held.
    code_error_max: f32,
    namespaces: Namespaces,
    /// Receipts kept, by day.
    receipts: BTreeMap<u32, u64>,
    /// Events kept.
    events: u64,
    /// Entry of the last one.
    last_event: u64,
    /// Edges between memories.
    edges: u64,
}

/// A change to the index, with everything slow (words, conversions) done before
/// the lock is taken.
pub(crate) enum IndexChange {
    Tenant(Tenant),
    Memory {
        id: MemoryId,
        memory: Memory,
        words_before: Vec<String>,
        words: Vec<String>,
    },
    Anchor(MemoryId, Anchor),
    Vector(MemoryId, Vec<f32>, Code),
    Removed {
        id: MemoryId,
        words_before: Vec<String>,
        key_points_before: Vec<String>,
    },
    ReceiptPut(u32),
    ReceiptsDropped(u32),
    /// In the entry of this index.
    EventAppended(u64),
    EventsTrimmed(u64),
    EdgeAppended,
    EdgeRemoved,
}

impl TenantIndex {
    pub(crate) fn new(tenant: Tenant, dimension: usize) -> Self {
        Self {
            inner: RwLock::new(Inner {
                tenant,
                dimension,
                slots: HashMap::new(),
                free: Vec::new(),
                chunks: Vec::new(),
                words: Words::default(),
                key_points: Words::default(),
                coverage: Coverage::default(),
                code_error_max: 0.0,
                namespaces: Namespaces::default(),
                receipts: BTreeMap::new(),
                events: 0,
                last_event: 0,
                edges: 0,
            }),
        }
    }

    /// All of `changes` become visible at once.
    pub(crate) fn apply(&self, changes: impl IntoIterator<Item = IndexChange>) {
        let mut inner = self.inner.write();
        for change in changes {
            inner.apply(change);
        }
    }

    /// A look at the index. Keep it short: writers wait meanwhile.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read()
    }

    /// What is to be done next for the graph, which a tenant has from more than
    /// `exact_max` memories on.
    pub(crate) fn next_task(&self, exact_max: usize) -> Option<Task> {
        let Inner { slots, free, chunks, coverage, .. } = &mut *self.inner.write();
        let code = |slot: Slot| chunks[slot as usize / CHUNK_ROWS].code(slot as usize % CHUNK_ROWS);
        let used = || {
            let mut used = RoaringBitmap::new();
            used.insert_range(0..(slots.len() + free.len()) as Slot);
            for slot in &*free {
                used.remove(*slot);
            }
            used
        };
        coverage.next(exact_max, slots.len(), used, code)
    }

    /// Notes what a task has done. Drop the task, and the graph that is returned, after it.
    pub(crate) fn finish_task(&self, task: &Task) -> Option<Arc<Graph>> {
        self.inner.write().coverage.finish(task)
    }

    /// Gives up the graph for as long as this index lives. Drop what is returned.
    pub(crate) fn abandon_graph(&self) -> Coverage {
        std::mem::replace(&mut self.inner.write().coverage, Coverage::abandoned())
    }

    /// Calls `visit` with every chunk, the newest first, until it says false, taking the
    /// lock anew for each.
    pub(crate) fn each_chunk(&self, mut visit: impl FnMut(&Inner, usize, &Chunk) -> bool) {
        let chunks = self.inner.read().chunks.len();
        for at in (0..chunks).rev() {
            let inner = self.inner.read();
            // Chunks are added and never taken away.
            let Some(chunk) = inner.chunks.get(at) else { return };
            if !visit(&inner, at, chunk) {
                return;
            }
        }
    }
}

impl Inner {
    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Memories in the index.
    pub(crate) fn live(&self) -> usize {
        self.slots.len()
    }

    /// The graph to ask, if there is one, and the slots to scan beside it.
    pub(crate) fn graph(&self) -> Option<(Arc<Graph>, RoaringBitmap)> {
        self.coverage.graph()
    }

    /// Largest error of a code that was ever held: bounds what a code may hide.
    pub(crate) fn code_error_max(&self) -> f32 {
        self.code_error_max
    }

    pub(crate) fn graph_counts(&self) -> GraphCounts {
        self.coverage.counts()
    }

    /// Whether there is work to do for the graph.
    pub(crate) fn graph_is_behind(&self, exact_max: usize) -> bool {
        self.coverage.is_behind(self.live(), exact_max)
    }

    pub(crate) fn receipts(&self) -> u64 {
        self.receipts.values().sum()
    }

    pub(crate) fn oldest_receipt_day(&self) -> Option<u32> {
        self.receipts.keys().next().copied()
    }

    pub(crate) fn edges(&self) -> u64 {
        self.edges
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Index of the entry with the last event.
    pub(crate) fn last_event(&self) -> u64 {
        self.last_event
    }

    /// Name of the namespace of this number, if any memory is in it.
    pub(crate) fn namespace_name(&self, number: u32) -> Option<&str> {
        let used = self.namespaces.used.get(number as usize);
        used.filter(|(_, memories)| *memories > 0).map(|(name, _)| &**name)
    }

    /// Numbers of the namespaces that are not open, in order.
    pub(crate) fn closed(&self, access: &Access) -> Vec<u32> {
        if access.is_whole() {
            return Vec::new();
        }
        let numbers = self.namespaces.numbers.iter();
        let closed = numbers.filter(|(name, _)| !access.allows(name)).map(|(_, number)| *number);
        let mut closed: Vec<u32> = closed.collect();
        closed.sort_unstable();
        closed
    }

    /// Number of a namespace, if any memory is in it.
    pub(crate) fn namespace(&self, name: &str) -> Option<u32> {
        self.namespaces.numbers.get(name).copied()
    }

    pub(crate) fn weigh(&self, words: Vec<String>) -> QueryWords {
        self.words.weigh(words, self.live())
    }

    pub(crate) fn overlaps(&self, query: &QueryWords, chunk: usize, overlaps: &mut [f64]) {
        self.words.overlaps(query, chunk, overlaps);
    }

    /// Slots that hold any word of a query.
    pub(crate) fn holding_any(&self, query: &QueryWords) -> RoaringBitmap {
        self.words.holding_any(query)
    }

    /// Slots that hold a word, if they are no more than `most`.
    pub(crate) fn few_holding(&self, word: &str, most: u64) -> Option<&RoaringBitmap> {
        self.words.holding(word).filter(|slots| slots.len() <= most)
    }

    /// Slots that share a key point, if they are no more than `most`.
    pub(crate) fn few_sharing(&self, key_point: &str, most: u64) -> Option<&RoaringBitmap> {
        self.key_points.holding(key_point).filter(|slots| slots.len() <= most)
    }

    /// Id and vector of the memory in a slot that holds one.
    pub(crate) fn vector_of(&self, slot: Slot) -> (MemoryId, &[f32]) {
        let (chunk, at) = (&self.chunks[slot as usize / CHUNK_ROWS], slot as usize % CHUNK_ROWS);
        (chunk.id(at), chunk.vector(at))
    }

    pub(crate) fn holding_all(&self, words: &[String]) -> RoaringBitmap {
        self.words.holding_all(words)
    }

    fn apply(&mut self, change: IndexChange) {
        match change {
            IndexChange::Tenant(tenant) => self.set_tenant(tenant),
            IndexChange::Memory { id, memory, words_before, words } => {
                // The new one first, so that a name in use keeps its number.
                let namespace = self.namespaces.enter(&memory.namespace);
                let before = self.place(id).map(|(chunk, at)| self.chunks[chunk].namespace(at));
                before.into_iter().for_each(|number| self.namespaces.leave(number));
                let slot = self.slot_for(id);
                self.words.remove(slot, &words_before);
                self.words.insert(slot, &words);
                let (chunk, at) = (slot as usize / CHUNK_ROWS, slot as usize % CHUNK_ROWS);
                self.key_points.insert(slot, &memory.shared_key_points());
                let row = Row::of(id, &memory, namespace);
                self.chunks[chunk].set_row(at, row, &self.tenant.thermo);
            }
            IndexChange::Anchor(id, anchor) => {
                if let Some((chunk, at)) = self.place(id) {
                    self.chunks[chunk].set_anchor(at, &anchor, &self.tenant.thermo);
                }
            }
            IndexChange::Vector(id, components, code) => {
                if let Some((chunk, at)) = self.place(id) {
                    self.chunks[chunk].set_vector(at, &components, &code);
                    self.coverage.set((chunk * CHUNK_ROWS + at) as Slot);
                    self.code_error_max = self.code_error_max.max(code.error);
                }
            }
            IndexChange::Removed { id, words_before, key_points_before } => {
                if let Some(slot) = self.slots.remove(&id) {
                    self.words.remove(slot, &words_before);
                    self.key_points.remove(slot, &key_points_before);
                    self.coverage.remove(slot);
                    let chunk = &mut self.chunks[slot as usize / CHUNK_ROWS];
                    self.namespaces.leave(chunk.namespace(slot as usize % CHUNK_ROWS));
                    chunk.clear(slot as usize % CHUNK_ROWS);
                    self.free.push(slot);
                }
            }
            IndexChange::ReceiptPut(day) => *self.receipts.entry(day).or_default() += 1,
            IndexChange::ReceiptsDropped(before) => {
                self.receipts = self.receipts.split_off(&before);
            }
            IndexChange::EventAppended(index) => {
                self.events += 1;
                self.last_event = self.last_event.max(index);
            }
            IndexChange::EdgeAppended => self.edges += 1,
            IndexChange::EdgeRemoved => self.edges = self.edges.saturating_sub(1),
            IndexChange::EventsTrimmed(count) => {
                self.events = self.events.saturating_sub(count);
            }
        }
    }

    fn set_tenant(&mut self, tenant: Tenant) {
        let recool = tenant.thermo.cools_differently(&self.tenant.thermo);
        self.tenant = tenant;
        if recool {
            for chunk in &mut self.chunks {
                (0..CHUNK_ROWS).for_each(|at| chunk.recool(at, &self.tenant.thermo));
            }
        }
    }

    fn place(&self, id: MemoryId) -> Option<(usize, usize)> {
        let slot = *self.slots.get(&id)? as usize;
        Some((slot / CHUNK_ROWS, slot % CHUNK_ROWS))
    }

    fn slot_for(&mut self, id: MemoryId) -> Slot {
        if let Some(slot) = self.slots.get(&id) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            let next = self.slots.len();
            if next == self.chunks.len() * CHUNK_ROWS {
                self.chunks.push(Chunk::new(self.dimension));
            }
            next as Slot
        });
        self.slots.insert(id, slot);
        slot
    }
}

/// Namespaces by number, as long as a memory is in them.
#[derive(Default)]
struct Namespaces {
    numbers: HashMap<Box<str>, u32>,
    /// By number: the name, and the memories in it; 0 is a number free for use.
    used: Vec<(Box<str>, u32)>,
    free: Vec<u32>,
}

impl Namespaces {
    fn enter(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            self.used[*number as usize].1 += 1;
            return *number;
        }
        let number = self.free.pop().map_or(self.used.len(), |number| number as usize);
        let entry = (Box::from(name), 1);
        match self.used.get_mut(number) {
            Some(used) => *used = entry,
            None => self.used.push(entry),
        }
        self.numbers.insert(name.into(), number as u32);
        number as u32
    }

    fn leave(&mut self, number: u32) {
        let (name, memories) = &mut self.used[number as usize];
        *memories -= 1;
        if *memories == 0 {
            self.numbers.remove(name);
            self.free.push(number);
        }
    }
}
