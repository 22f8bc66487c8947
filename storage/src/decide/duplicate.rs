//! Finds the memory that a new one repeats. The leader decides, on the state of all earlier commands:
//! of two nodes that store the same text at the same moment, one finds the other's memory.
//!
//! Texts with the same words are found by the word index, by the edges that the receiving node
//! suggests, and among the changes of this batch. What another memory replaces is no duplicate: its
//! text may hold again.
//!
//! An echo is a duplicate of what a search has just recalled: agents store again what they have read.

use model::access::Access;
use model::duplicate::{Duplicates, has_same_words};
use model::edge::Suggestion;
use model::id::{MemoryId, Timestamp};
use model::memory::{Memory, MemoryRecord};
use text::tokenizer::first_document_words;

use crate::change::Change;
use crate::decide::context::Context;
use crate::error::Result;
use crate::new_memory::NewMemory;

/// Words of a text by which others with the same words are looked for.
const WORDS_MAX: usize = 64;
/// Memories of the namespace with these words whose vectors are compared, the newest first: other
/// writes wait.
const VECTORS_MAX: usize = 2_000;
/// Lowest cosine of texts with the same words: punctuation and case change their vectors.
const EQUAL_COSINE: f32 = 0.9;
/// Memories whose texts are compared.
const TEXTS_MAX: usize = 64;

/// The memory of the same namespace and type that says the same as a new one.
pub(super) fn find(
    context: &mut Context<'_>,
    new: &NewMemory,
    duplicates: &Duplicates,
) -> Result<Option<MemoryRecord>> {
    let matches = |present: &MemoryRecord| {
        repeats(&present.memory, new) && present.memory.memory_type == new.memory_type
    };
    for id in indexed(context, new).into_iter().chain(in_batch(context, new)) {
        if let Some(present) = context.present(id)?.filter(matches) {
            return Ok(Some(present));
        }
    }
    suggested(context, new, duplicates, matches)
}

/// Whether a new memory says the same as a present one of its namespace that still holds.
fn repeats(present: &Memory, new: &NewMemory) -> bool {
    present.namespace == new.namespace
        && present.superseded_by.is_none()
        && has_same_words(&present.label, &new.label)
}

/// The first memory that matches, of those that the receiving node has found to be similar.
fn suggested(
    context: &Context<'_>,
    new: &NewMemory,
    duplicates: &Duplicates,
    matches: impl Fn(&MemoryRecord) -> bool,
) -> Result<Option<MemoryRecord>> {
    for Suggestion { other, relation, weight } in &new.suggestions {
        if !duplicates.are_similar(relation, *weight) {
            continue;
        }
        if let Some(present) = context.present(*other)?.filter(&matches) {
            return Ok(Some(present));
        }
    }
    Ok(None)
}

/// The memory that a new one echoes: it says the same, and a search returned it a moment ago. If that
/// is an echo, the memory that it echoes.
pub(super) fn echoed(
    context: &Context<'_>,
    new: &NewMemory,
    duplicates: &Duplicates,
) -> Result<Option<MemoryId>> {
    let now = context.now();
    let present = suggested(context, new, duplicates, |present| {
        is_echo(present, duplicates, now) && repeats(&present.memory, new)
    })?;
    let Some(MemoryRecord { id, memory, .. }) = present else { return Ok(None) };
    Ok(Some(source(context, &memory)?.unwrap_or(id)))
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

/// Memories of the namespace that contain the words of a text, and whose vector is that of the text.
fn indexed(context: &Context<'_>, new: &NewMemory) -> Vec<MemoryId> {
    let words = first_document_words(std::iter::once(new.label.as_str()), WORDS_MAX);
    let Some(index) = context.draft.base.index(context.tenant) else { return Vec::new() };
    let data = index.read();
    let mut slots = data.words.intersection(words.into_iter());
    if slots.is_empty() {
        return Vec::new();
    }
    let Ok(vector) = new.vector.components() else { return Vec::new() };
    let visible = data.namespaces.visible(Some(&new.namespace), &Access::default());
    if let Some(of_namespace) = visible {
        slots &= &*of_namespace;
    }
    let vectors = slots.iter().rev().take(VECTORS_MAX).map(|slot| data.vector_of(slot));
    let equal = vectors.filter(|(_, other)| other.cosine(&vector) >= EQUAL_COSINE);
    let mut equal: Vec<_> = equal.take(TEXTS_MAX).map(|(id, _)| id).collect();
    // The oldest one absorbs the others.
    equal.reverse();
    equal
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
