//! Finds the memory that a new one repeats. The leader decides, on the state of all earlier commands:
//! of two nodes that store the same text at the same moment, one finds the other's memory.
//!
//! Equal texts are found by the word index, and among the changes of this batch. Near ones are those
//! that the receiving node has found to be similar.

use crate::change::Change;
use crate::command::NewMemory;
use crate::decide::context::Context;
use crate::error::Result;
use crate::model::duplicate::{Duplicates, is_near_text, is_same_text};
use crate::model::edge::SIMILAR_TO;
use crate::model::id::MemoryId;
use crate::model::memory::{Memory, MemoryRecord};
use crate::model::vector::dot;
use crate::model::words::words;

/// Words of a text by which equal ones are looked for.
const WORDS_MAX: usize = 64;
/// Memories with these words whose vectors are compared, the newest first: other writes wait.
const VECTORS_MAX: usize = 2_000;
/// Lowest cosine of equal texts: their vectors differ by rounding, and in models that know case.
const EQUAL_COSINE: f32 = 0.9;
/// Memories whose texts are compared.
const TEXTS_MAX: usize = 64;

/// The memory of the same namespace and type that says the same as a new one.
pub(super) fn find(
    context: &mut Context<'_>,
    new: &NewMemory,
    duplicates: &Duplicates,
) -> Result<Option<MemoryRecord>> {
    let is_alike = |memory: &Memory| {
        memory.namespace == new.namespace && memory.memory_type == new.memory_type
    };
    for id in same_words(context, new).into_iter().chain(in_batch(context, new)) {
        let present = context.present(id)?.filter(|present| is_alike(&present.memory));
        if let Some(present) = present.filter(|it| is_same_text(&it.memory.label, &new.label)) {
            return Ok(Some(present));
        }
    }
    let near = new.suggestions.iter().filter(|suggestion| {
        suggestion.relation == SIMILAR_TO
            && f64::from(suggestion.weight) >= duplicates.similarity_min
    });
    for suggestion in near {
        let present = context.present(suggestion.other)?;
        let is_near = |present: &MemoryRecord| {
            is_alike(&present.memory)
                && is_near_text(&present.memory.label, &new.label, duplicates.overlap_min)
        };
        if let Some(present) = present.filter(is_near) {
            return Ok(Some(present));
        }
    }
    Ok(None)
}

/// Memories that contain the words of a text, and whose vector is that of the text.
fn same_words(context: &Context<'_>, new: &NewMemory) -> Vec<MemoryId> {
    let mut words = words(std::iter::once(new.label.as_str()));
    words.truncate(WORDS_MAX);
    let index = context.draft.base.index(context.tenant).filter(|_| !words.is_empty());
    let (Some(index), Ok(vector)) = (index, new.vector.components()) else { return Vec::new() };
    let data = index.read();
    let slots = data.words.intersection(&words);
    let vectors = slots.iter().rev().take(VECTORS_MAX).map(|slot| data.vector_of(slot));
    let equal = vectors.filter(|(_, other)| dot(other, &vector) >= EQUAL_COSINE);
    let mut equal: Vec<_> = equal.take(TEXTS_MAX).map(|(id, _)| id).collect();
    // The oldest one absorbs the others.
    equal.reverse();
    equal
}

/// Memories with the same text that earlier changes of this batch put.
fn in_batch(context: &Context<'_>, new: &NewMemory) -> Vec<MemoryId> {
    let same = |change: &Change| match change {
        Change::MemoryPut(tenant, id, memory)
            if *tenant == context.tenant && is_same_text(&memory.label, &new.label) =>
        {
            Some(*id)
        }
        _ => None,
    };
    context.draft.changes().iter().filter_map(same).collect()
}
