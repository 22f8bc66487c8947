//! Finds the memory that a new one repeats. The leader decides, on the state of all earlier commands:
//! of two nodes that store the same text at the same moment, one finds the other's memory.
//!
//! The index has a hash of the words of each text, as they are said; the changes of this batch are not yet in it. What
//! another memory replaces is no duplicate: its text may hold again.
//!
//! An echo is a duplicate of what a search has just recalled: agents store again what they have read.

use std::cmp::Reverse;

use index::chunk::RowRef;
use model::duplicate::{Duplicates, has_same_words};
use model::id::{MemoryId, Timestamp};
use model::memory::{Memory, MemoryRecord};
use model::score::rounded;

use crate::change::Change;
use crate::decide::context::Context;
use crate::error::Result;
use crate::new_memory::NewMemory;

/// Memories whose texts are compared, of those with the same hash.
const TEXTS_MAX: usize = 64;

/// The memory of the same namespace and type that says the same as a new one: the oldest one absorbs the others.
pub(super) fn find(context: &mut Context<'_>, new: &NewMemory) -> Result<Option<MemoryRecord>> {
    let matches = |present: &MemoryRecord| {
        repeats(&present.memory, new) && present.memory.memory_type == new.memory_type
    };
    let is_of_type = |row: &RowRef<'_>| row.attributes().memory_type() == new.memory_type;
    let indexed = indexed(context, new, is_of_type, |row| row.id());
    for id in indexed.into_iter().chain(in_batch(context, new)) {
        if let Some(present) = context.present(id)?.filter(matches) {
            return Ok(Some(present));
        }
    }
    Ok(None)
}

/// Whether a new memory says the same as a present one of its namespace that still holds.
fn repeats(present: &Memory, new: &NewMemory) -> bool {
    present.namespace == new.namespace
        && present.superseded_by.is_none()
        && is_together(present, new)
        && has_same_words(&present.label, &new.label)
}

/// Whether both are in quarantine, and of one key, or none is. A reviewed memory is none that waits.
fn is_together(present: &Memory, new: &NewMemory) -> bool {
    match (present.guard.is_quarantined(), new.guard.is_quarantined()) {
        (true, true) => present.origin.key == new.origin.key,
        (false, true) => present.guard.is_reviewed() && present.label == new.label,
        (waits, _) => !waits,
    }
}

/// The memory that a new one echoes: it says the same, and a search returned it a moment ago. If that
/// is an echo, the memory that it echoes.
pub(super) fn echoed(
    context: &Context<'_>,
    new: &NewMemory,
    duplicates: &Duplicates,
) -> Result<Option<MemoryId>> {
    let now = context.now();
    if duplicates.echo_seconds == 0 {
        return Ok(None);
    }
    // Of equal texts, searches return the hottest ones.
    let hottest = |row: &RowRef<'_>| Reverse((rounded(row.heat(now)) * 1e6) as u64);
    for id in indexed(context, new, |_| true, hottest) {
        let Some(MemoryRecord { id, memory, .. }) = context
            .present(id)?
            .filter(|present| is_echo(present, duplicates, now) && repeats(&present.memory, new))
        else {
            continue;
        };
        return Ok(Some(source(context, &memory)?.unwrap_or(id)));
    }
    Ok(None)
}

/// The memory that this one echoes, while it exists.
pub(super) fn source(context: &Context<'_>, memory: &Memory) -> Result<Option<MemoryId>> {
    let Some(id) = memory.echo_of else { return Ok(None) };
    let source = context.memory(id)?.filter(|source| source.namespace == memory.namespace);
    Ok(source.map(|_| id))
}

/// Whether what repeats this memory at `now` is an echo.
pub(super) fn is_echo(present: &MemoryRecord, duplicates: &Duplicates, now: Timestamp) -> bool {
    let window = i64::from(duplicates.echo_seconds) * Timestamp::SECOND_MICROS;
    present.anchor.returned_at.is_some_and(|last| now.since(last) < window)
}

/// Memories of the namespace with the words of a text, as the index has them: the first ones in the order of `key`.
fn indexed<K: Ord>(
    context: &Context<'_>,
    new: &NewMemory,
    matches: impl Fn(&RowRef<'_>) -> bool,
    key: impl Fn(&RowRef<'_>) -> K,
) -> Vec<MemoryId> {
    let Some(index) = context.draft.base.index(context.tenant) else { return Vec::new() };
    let data = index.read();
    let mut rows = data.with_same_words(&new.namespace, &new.label);
    rows.retain(matches);
    rows.sort_by_cached_key(key);
    rows.into_iter().take(TEXTS_MAX).map(|row| row.id()).collect()
}

/// Memories with the same text that earlier changes of this batch put.
fn in_batch(context: &Context<'_>, new: &NewMemory) -> Vec<MemoryId> {
    let same = |change: &Change| match change {
        Change::MemoryPut(tenant, id, memory)
            if *tenant == context.tenant && repeats(memory, new) =>
        {
            Some(*id)
        }
        _ => None,
    };
    context.draft.changes().iter().filter_map(same).collect()
}
