//! Rebuilds the index of a tenant from its rows when a state is opened. Threads decode and tokenize
//! blocks of memories, and this one indexes them in the order of their ids.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle, available_parallelism};

use index::data::IndexChange;
use index::data::TenantIndex;
use index::terms::Terms;
use model::cluster::VectorPlace;
use model::heat::Anchor;
use model::id::{MemoryId, TenantId};
use model::journal::{Event, JournalPart};
use model::memory::Memory;
use model::vector::Vector;

use crate::change::all_of;
use crate::codec;
use crate::error::{Error, Result};
use crate::table::key::{Kind, cursor_of, fixed, receipt_of, split};
use crate::table::state::{State, count};
use crate::table::view::{Row, View};

/// Memories of a block. They are indexed under one lock.
const BLOCK_MEMORIES: usize = 1_000;
/// Threads that decode at most. Blocks are bounded by their number.
const THREADS_MAX: usize = 8;

/// The rows of a memory: its id, then memory, anchor and vector, and its state if it has that row.
type Rows = (MemoryId, [Box<[u8]>; 3], Option<Box<[u8]>>);

/// A memory as it is indexed.
struct Decoded {
    id: MemoryId,
    memory: Memory,
    terms: Terms,
    anchor: Anchor,
    vector: IndexChange<'static>,
}

/// Indexes all rows of a tenant. Adds the number of indexed memories to `indexed`.
pub(super) fn rebuild(
    state: &State,
    tenant: TenantId,
    index: &TenantIndex,
    indexed: &AtomicU64,
) -> Result<()> {
    fail::fail_point!("index-rebuild");
    let place = state.models()?.place;
    let threads = available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    thread::scope(|scope| {
        let mut decoding: VecDeque<ScopedJoinHandle<'_, Result<Vec<Decoded>>>> = VecDeque::new();
        let mut rows = memory_rows(state, tenant, place);
        loop {
            let block: Vec<Rows> = rows.by_ref().take(BLOCK_MEMORIES).collect::<Result<_>>()?;
            if decoding.len() == threads || block.is_empty() {
                let Some(first) = decoding.pop_front() else { break };
                let decoded = first.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                indexed.fetch_add(decoded.len() as u64, Ordering::Relaxed);
                index_memories(decoded, index);
            }
            if !block.is_empty() {
                decoding.push_back(scope.spawn(|| block.into_iter().map(decode).collect()));
            }
        }
        Ok::<_, Error>(())
    })?;
    rebuild_counts(state, tenant, index)
}

/// The rows of all memories. They are four key ranges in the same order of ids.
fn memory_rows(
    state: &State,
    tenant: TenantId,
    place: VectorPlace,
) -> impl Iterator<Item = Result<Rows>> {
    let range = |kind| rows_of(state, kind, tenant);
    let (mut anchors, mut vectors) = (range(Kind::Anchor), range(Kind::of_vectors(place)));
    let mut states = range(Kind::MemoryState).peekable();
    range(Kind::Memory).map(move |row| {
        let (key, memory) = row?;
        let id = MemoryId(fixed(split(&key)?.1)?);
        // Keys of both kinds differ in their first byte only.
        let is_later = |row: &Result<Row>| matches!(row, Ok((it, _)) if it[1..] > key[1..]);
        let state = states.next_if(|row| !is_later(row));
        let state = state.map(|row| same_id(id, Some(row))).transpose()?;
        let rows = [memory, same_id(id, anchors.next())?, same_id(id, vectors.next())?];
        Ok((id, rows, state))
    })
}

fn decode((id, [memory, anchor, vector], state): Rows) -> Result<Decoded> {
    let mut memory: Memory = codec::decode(&memory)?;
    if let Some(state) = state {
        memory = memory.with(&codec::decode(&state)?);
    }
    let vector: Vector = codec::decode(&vector)?;
    Ok(Decoded {
        id,
        terms: Terms::of(&memory),
        memory,
        anchor: codec::decode(&anchor)?,
        vector: IndexChange::vector(id, &vector)?,
    })
}

fn index_memories(decoded: Vec<Decoded>, index: &TenantIndex) {
    index.apply(decoded.into_iter().flat_map(|Decoded { id, memory, terms, anchor, vector }| {
        let (memory, before) = (Cow::Owned(memory), Terms::default());
        let memory = IndexChange::Memory { id, memory, before, terms };
        [memory, IndexChange::Anchor(id, anchor), vector]
    }));
}

fn rows_of(
    state: &State,
    kind: Kind,
    tenant: TenantId,
) -> impl Iterator<Item = Result<Row>> + use<'_> {
    let (start, end) = all_of(kind, tenant);
    state.range(&start, &end)
}

/// The value of `row`, which must be the row of memory `id`.
fn same_id(id: MemoryId, row: Option<Result<Row>>) -> Result<Box<[u8]>> {
    let (key, value) = row.transpose()?.unwrap_or_default();
    match split(&key).and_then(|(_, rest)| fixed(rest)) {
        Ok(found) if MemoryId(found) == id => Ok(value),
        _ => Err(Error::Corrupt {
            what: "memory",
            detail: format!("{id} has no anchor or vector row, or an extra row precedes it"),
        }),
    }
}

/// Counts the receipts, edges and events of a tenant.
fn rebuild_counts(state: &State, tenant: TenantId, index: &TenantIndex) -> Result<()> {
    for row in rows_of(state, Kind::ReceiptAge, tenant) {
        let (owner, retention, at, _) = receipt_of(&row?.0)?;
        index.apply([IndexChange::ReceiptPut(owner, retention, at)]);
    }
    // Each edge has two rows.
    let edges = count(rows_of(state, Kind::Edge, tenant))? / 2;
    index.apply((0..edges).map(|_| IndexChange::EdgeAppended));
    for part in JournalPart::ALL {
        let mut first_at = None;
        for row in rows_of(state, Kind::of_events(part), tenant) {
            let (key, event) = row?;
            let at = match first_at {
                Some(at) => at,
                None => codec::decode::<Event>(&event)?.at,
            };
            first_at = Some(at);
            let (cursor, bytes) = (cursor_of(split(&key)?.1)?, event.len() as u64);
            index.apply([IndexChange::EventAppended(part, cursor.index, at, bytes)]);
        }
    }
    Ok(())
}
