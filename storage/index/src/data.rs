//! The index of one tenant: slots, chunks, inverted indexes, graph coverage, namespaces and counts, behind one
//! lock. Only `apply` and the graph builder change it. Readers take the lock for one chunk at a time, so
//! writers wait briefly.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use half::f16;
use model::access::Access;
use model::duplicate::same_words_term;
use model::heat::Anchor;
use model::id::{KeyId, MemoryId, Timestamp};
use model::journal::JournalPart;
use model::memory::{Memory, Tier};
use model::receipt::Retention;
use model::sq8::Code;
use model::tenant::Tenant;
use model::vector::{HalfVector, Vector, VectorFault};
use parking_lot::{RwLock, RwLockReadGuard};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use crate::attributes::{Age, Attributes, Namespaces};
use crate::chunk::{Chunk, RowRef};
use crate::counts::{JournalCounts, ReceiptCounts};
use crate::coverage::{GraphCoverage, Restored};
use crate::graph::GraphTask;
use crate::hnsw::Graph;
use crate::inverted_index::InvertedIndex;
use crate::numbers::Numbers;
use crate::points::Query;
use crate::slots::Slots;
use crate::terms::Terms;
use crate::{CHUNK_ROWS, Slot, chunk_of, less, row_of};

/// Memories in quarantine that are passed over beside one.
const QUARANTINED_NEAR_MAX: usize = 32;

/// Numbers of a tenant's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Memories in both tiers.
    pub memories: u64,
    /// Bytes of their labels, key points and vectors.
    pub bytes: u64,
    /// Receipts of all API keys.
    pub receipts: u64,
    /// Journal events.
    pub events: u64,
    /// Edges between memories.
    pub edges: u64,
    /// Estimated bytes of the inverted indexes in RAM. Equal on all nodes.
    pub index_bytes: u64,
}

/// Everything that the index stores for one tenant. Readers share it; only
/// [`crate::data`] changes it.
#[derive(Default)]
pub struct IndexData {
    pub tenant: Tenant,
    dimension: usize,
    version: u64,
    slots: Slots,
    free: Vec<Slot>,
    pub chunks: Vec<Chunk>,
    pub words: InvertedIndex,
    /// Normalised key points, each as one term.
    pub key_points: InvertedIndex,
    /// Parts of origins, tags, entries of metadata, what [`text::form`] says of a text, and its words as they are
    /// said, each as one term.
    pub facets: InvertedIndex,
    pub coverage: GraphCoverage,
    /// Largest quantisation error of any code so far: bounds the error of graph similarities.
    pub code_error_max: f32,
    pub namespaces: Namespaces,
    pub receipts: ReceiptCounts,
    /// Bytes of labels and key points.
    text_bytes: u64,
    pub journal: JournalCounts,
    /// Log index of the last event.
    pub last_event: u64,
    edges: u64,
    /// Memories of the cold tier.
    cold: u64,
    /// When memories expire, of those that do.
    expiries: BTreeSet<(Timestamp, MemoryId)>,
    expires: HashMap<Slot, Timestamp>,
    /// Names and values of metadata that are numbers.
    pub numbers: Numbers,
}

/// Most memories with the same words that are looked at. Other writes wait for a creation.
const SAME_WORDS_MAX: usize = 10_000;

/// A change of the index. Tokenizing and conversions are done before, outside the lock.
#[expect(clippy::large_enum_variant, reason = "a list has those of one entry")]
pub enum IndexChange<'a> {
    Tenant(Tenant),
    Memory {
        id: MemoryId,
        memory: Cow<'a, Memory>,
        /// Terms that it loses, and terms that it gets.
        before: Terms,
        terms: Terms,
    },
    Anchor(MemoryId, Anchor),
    /// With the components, the factor that normalises them, and their code.
    Vector(MemoryId, Vec<f16>, f64, Code),
    Removed {
        id: MemoryId,
        before: Terms,
    },
    /// With owner and time of the receipt.
    ReceiptPut(KeyId, Retention, Timestamp),
    /// With owner, number and last time of the removed receipts.
    ReceiptsRemoved(KeyId, Retention, u64, Timestamp),
    /// With the log index and the time of the event, and the bytes of its row.
    EventAppended(JournalPart, u64, Timestamp, u64),
    /// With the number of removed events, and the bytes of their rows.
    EventsTrimmed(JournalPart, u64, u64),
    EdgeAppended,
    EdgeRemoved,
}

/// Bytes of a vector, as its tenant's limit counts them.
fn vector_bytes(dimension: usize) -> u64 {
    2 * dimension as u64
}

impl IndexChange<'_> {
    /// The change for a stored vector. Decoding fails only for corrupt rows, since vectors
    /// without a direction are rejected on creation.
    pub fn vector(id: MemoryId, vector: &Vector) -> Result<Self, VectorFault> {
        let (halves, scale) = vector.halves()?;
        let code = Code::of(&HalfVector { halves: &halves, scale }.components());
        Ok(Self::Vector(id, halves, scale, code))
    }
}

impl IndexData {
    pub fn new(tenant: Tenant, dimension: usize) -> Self {
        Self { tenant, dimension, ..Self::default() }
    }

    /// Number of memories.
    pub fn live(&self) -> usize {
        self.slots.count()
    }

    /// The chunk of this number.
    pub fn chunk(&self, number: usize) -> Option<&Chunk> {
        self.chunks.get(number)
    }

    /// The row of a slot in use.
    pub fn row(&self, slot: Slot) -> RowRef<'_> {
        self.chunks[chunk_of(slot)].row(row_of(slot))
    }

    /// Memories of a namespace whose texts probably have the same words (their hashes are equal), and which no
    /// other memory replaces.
    pub fn with_same_words(&self, namespace: &str, text: &str) -> Vec<RowRef<'_>> {
        let Some(term) = same_words_term(text) else { return Vec::new() };
        let mut slots = self.facets.slots(term);
        if let Some(of_namespace) = self.namespaces.visible(Some(namespace), &Access::default()) {
            slots = Cow::Owned(slots.as_ref() & of_namespace.as_ref());
        }
        let rows = slots.iter().take(SAME_WORDS_MAX).map(|slot| self.row(slot));
        rows.filter(|row| !row.attributes().is_superseded()).collect()
    }

    /// The id of a slot in use; zeros for others.
    pub fn id_of(&self, slot: Slot) -> MemoryId {
        let id = self.row(slot).id();
        if self.slot(id) == Some(slot) { id } else { MemoryId([0; 16]) }
    }

    /// The slot of a memory if its vector has this code.
    pub fn slot_with(&self, id: MemoryId, code: Query<'_>) -> Option<Slot> {
        let slot = self.slot(id)?;
        self.row(slot).has_code(code.values, code.scale).then_some(slot)
    }

    /// A memory and those created next to it in its namespace, oldest first: up to `older` before it, and
    /// `newer` after it. And its place among them.
    pub fn around(
        &self,
        id: MemoryId,
        older: usize,
        newer: usize,
    ) -> Option<(Vec<(Age, Slot)>, usize)> {
        let slot = self.slot(id)?;
        let row = self.row(slot);
        let at = row.created_at();
        let (before, after) = self.namespaces.around(row.attributes().namespace(), (at, id));
        let copied = |(age, slot): (&Age, &Slot)| (*age, *slot);
        // What waits in quarantine is next to nothing.
        let counts = |(_, slot): &(Age, Slot)| !self.row(*slot).attributes().is_quarantined();
        let near = |all: usize| all + QUARANTINED_NEAR_MAX;
        let before = before.map(copied).take(near(older)).filter(counts).take(older);
        let after = after.map(copied).take(near(newer)).filter(counts).take(newer);
        let mut near: Vec<_> = before.collect();
        near.reverse();
        let place = near.len();
        near.push(((at, id), slot));
        near.extend(after);
        Some((near, place))
    }

    pub fn next_graph_task(&mut self, exact_max: usize) -> Option<GraphTask> {
        let Self { slots, free, chunks, coverage, .. } = self;
        let code = |slot: Slot| chunks[chunk_of(slot)].row(row_of(slot)).code();
        coverage.next(exact_max, slots.count(), || used(slots.count(), free), code)
    }

    /// As [`GraphCoverage::begin_restore`].
    pub fn begin_restore(&mut self, exact_max: usize) -> bool {
        let Self { slots, free, coverage, .. } = self;
        coverage.begin_restore(exact_max, slots.count(), || used(slots.count(), free))
    }

    /// Components of its vectors.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Number of memories in the cold tier.
    pub fn cold(&self) -> u64 {
        self.cold
    }

    pub fn counts(&self) -> Counts {
        let (memories, receipts) = (self.live() as u64, self.receipts.total());
        let bytes = self.text_bytes + memories * vector_bytes(self.dimension);
        let index_bytes = self.words.bytes()
            + self.key_points.bytes()
            + self.facets.bytes()
            + self.numbers.bytes();
        let events = self.journal.events();
        Counts { memories, bytes, receipts, events, edges: self.edges, index_bytes }
    }

    /// A number that changes with every change of the tenant.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn set_changed(&mut self) {
        self.version += 1;
    }

    pub fn apply(&mut self, change: IndexChange<'_>) {
        match change {
            IndexChange::Tenant(tenant) => self.set_tenant(tenant),
            IndexChange::Memory { id, memory, before, terms } => {
                self.put_memory(id, &memory, &before, &terms);
            }
            IndexChange::Anchor(id, anchor) => {
                if let Some(slot) = self.slot(id) {
                    let thermo = &self.tenant.thermo;
                    self.chunks[chunk_of(slot)].set_anchor(row_of(slot), &anchor, thermo);
                }
            }
            IndexChange::Vector(id, halves, scale, code) => {
                if let Some(slot) = self.slot(id) {
                    let vector = HalfVector { halves: &halves, scale };
                    self.chunks[chunk_of(slot)].set_vector(row_of(slot), vector, &code);
                    self.coverage.set(slot);
                    self.code_error_max = self.code_error_max.max(code.error);
                }
            }
            IndexChange::Removed { id, before } => self.remove_memory(id, &before),
            IndexChange::ReceiptPut(owner, retention, at) => {
                self.receipts.put(owner, retention, at);
            }
            IndexChange::ReceiptsRemoved(owner, retention, count, last) => {
                self.receipts.remove(owner, retention, count, last);
            }
            IndexChange::EventAppended(part, index, at, bytes) => {
                self.journal.append(part, at, bytes);
                self.last_event = self.last_event.max(index);
            }
            IndexChange::EventsTrimmed(part, events, bytes) => {
                self.journal.trim(part, events, bytes);
            }
            IndexChange::EdgeAppended => self.edges += 1,
            IndexChange::EdgeRemoved => self.edges = less(self.edges, 1),
        }
    }

    fn put_memory(&mut self, id: MemoryId, memory: &Memory, before: &Terms, terms: &Terms) {
        let attributes = |slot| self.row(slot).attributes();
        let attributes_before = self.slot(id).map(attributes);
        let namespace_before = attributes_before.map(Attributes::namespace);
        let slot = self.slot_or_insert(id);
        let age = (memory.created_at, id);
        let namespace = self.namespaces.add_memory(&memory.namespace, age, slot);
        if let Some(before) = namespace_before.filter(|before| *before != namespace) {
            self.namespaces.remove_memory(before, age, slot);
        }
        self.remove_terms(slot, before);
        self.text_bytes += terms.text_bytes;
        self.words.insert(slot, &terms.words);
        self.key_points.insert(slot, &terms.key_points);
        self.facets.insert(slot, &terms.facets);
        self.numbers.insert(slot, &terms.numbers);
        self.set_expiry(slot, id, memory);
        let attributes = Attributes::of(memory, namespace);
        self.cold += u64::from(attributes.tier() == Tier::Cold);
        self.cold -= u64::from(attributes_before.is_some_and(|before| before.tier() == Tier::Cold));
        let chunk = &mut self.chunks[chunk_of(slot)];
        chunk.set_row(row_of(slot), id, memory, attributes, &self.tenant.thermo);
        if let Some(factor) = terms.form_factor {
            chunk.form_factors[row_of(slot)] = factor;
        }
    }

    fn remove_terms(&mut self, slot: Slot, before: &Terms) {
        self.text_bytes = less(self.text_bytes, before.text_bytes);
        self.words.remove(slot, &before.words);
        self.key_points.remove(slot, &before.key_points);
        self.facets.remove(slot, &before.facets);
        self.numbers.remove(slot, &before.numbers);
    }

    fn set_expiry(&mut self, slot: Slot, id: MemoryId, memory: &Memory) {
        self.clear_expiry(slot, id);
        if let Some(at) = memory.expires_at() {
            self.expires.insert(slot, at);
            self.expiries.insert((at, id));
        }
    }

    fn clear_expiry(&mut self, slot: Slot, id: MemoryId) {
        if let Some(at) = self.expires.remove(&slot) {
            self.expiries.remove(&(at, id));
        }
    }

    /// When the next memory expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Memories that have expired at `now`.
    pub fn expired(&self, now: Timestamp) -> impl Iterator<Item = MemoryId> {
        self.expiries.iter().take_while(move |(at, _)| *at <= now).map(|(_, id)| *id)
    }

    fn remove_memory(&mut self, id: MemoryId, before: &Terms) {
        let Some(slot) = self.slots.remove(id) else { return };
        self.remove_terms(slot, before);
        self.clear_expiry(slot, id);
        self.coverage.remove(slot);
        let chunk = &mut self.chunks[chunk_of(slot)];
        let row = chunk.row(row_of(slot));
        let (age, attributes) = ((row.created_at(), id), row.attributes());
        self.cold -= u64::from(attributes.tier() == Tier::Cold);
        self.namespaces.remove_memory(attributes.namespace(), age, slot);
        chunk.clear(row_of(slot));
        self.free.push(slot);
    }

    fn set_tenant(&mut self, tenant: Tenant) {
        let decay_differs = tenant.thermo.decay_differs(&self.tenant.thermo);
        self.tenant = tenant;
        if decay_differs {
            for chunk in &mut self.chunks {
                (0..chunk.rows()).for_each(|row| chunk.refresh_decay(row, &self.tenant.thermo));
            }
        }
    }

    /// Whether a memory is in the index.
    pub fn has(&self, id: MemoryId) -> bool {
        self.slot(id).is_some()
    }

    pub fn slot(&self, id: MemoryId) -> Option<Slot> {
        self.slots.get(id)
    }

    /// The slot of a memory. A new memory gets a free slot, or the next one.
    fn slot_or_insert(&mut self, id: MemoryId) -> Slot {
        if let Some(slot) = self.slots.get(id) {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            let next = self.slots.count();
            if next == self.chunks.len() * CHUNK_ROWS {
                self.chunks.push(Chunk::new(self.dimension));
            }
            next as Slot
        });
        self.slots.insert(id, slot);
        slot
    }
}

/// The slots of so many memories. All slots below the highest one are used or free.
fn used(count: usize, free: &[Slot]) -> RoaringBitmap {
    let mut used = RoaringBitmap::new();
    used.insert_range(0..(count + free.len()) as Slot);
    for slot in free {
        used.remove(*slot);
    }
    used
}

pub struct TenantIndex {
    data: RwLock<IndexData>,
}

impl TenantIndex {
    pub fn new(tenant: Tenant, dimension: usize) -> Self {
        Self { data: RwLock::new(IndexData::new(tenant, dimension)) }
    }

    /// Applies all of `changes` under one lock, so readers see all of them or none.
    pub fn apply<'a>(&self, changes: impl IntoIterator<Item = IndexChange<'a>>) {
        let mut data = self.data.write();
        data.set_changed();
        for change in changes {
            data.apply(change);
        }
    }

    /// Gives the data another version: ticks that were left out count on what is not in it, too.
    pub fn mark_changed(&self) {
        self.data.write().set_changed();
    }

    /// Locks the data for reading. Hold the guard briefly: writers wait for it.
    pub fn read(&self) -> RwLockReadGuard<'_, IndexData> {
        self.data.read()
    }

    /// The next piece of work on the graph. A tenant has a graph if it has more than
    /// `exact_max` memories.
    pub fn next_task(&self, exact_max: usize) -> Option<GraphTask> {
        self.data.write().next_graph_task(exact_max)
    }

    /// As [`GraphCoverage::begin_restore`].
    pub fn begin_restore(&self, exact_max: usize) -> bool {
        self.data.write().begin_restore(exact_max)
    }

    /// As [`GraphCoverage::restore`].
    pub fn restore_graph(&self, restored: Option<Restored>) {
        self.data.write().coverage.restore(restored);
    }

    /// As [`GraphCoverage::finish`].
    pub fn finish_task(&self, task: &GraphTask, unreachable: RoaringBitmap) -> Option<Arc<Graph>> {
        self.data.write().coverage.finish(task, unreachable)
    }

    /// Calls `visit` with every chunk, newest first, until it returns false. Locks per chunk.
    pub fn visit_chunks(&self, mut visit: impl FnMut(&IndexData, usize, &Chunk) -> bool) {
        let count = self.data.read().chunks.len();
        for number in (0..count).rev() {
            let data = self.data.read();
            // Chunks are never removed.
            let Some(chunk) = data.chunks.get(number) else { return };
            if !visit(&data, number, chunk) {
                return;
            }
        }
    }
}
