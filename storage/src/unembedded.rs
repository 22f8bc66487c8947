//! Finds memories that lack a vector of the next model, while the embedding model is changed.

use model::id::{MemoryId, TenantId};
use model::memory::Memory;

use crate::codec;
use crate::error::Result;
use crate::reader::Reader;
use crate::table::key::{Key, Kind, fixed, split};
use crate::table::state::count;
use crate::table::view::Row;

/// Most memories that one call examines.
const EXAMINED_MAX: u64 = 10_000;

/// Memories without a vector of the next model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unembedded {
    /// Their tenants, ids and texts.
    pub memories: Vec<(TenantId, MemoryId, String)>,
    /// The last examined one, if there are more: continue after it.
    pub next: Option<(TenantId, MemoryId)>,
}

impl Reader {
    /// At most `most` memories of all tenants after `after`, in the order of their ids.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn unembedded(
        &self,
        after: Option<(TenantId, MemoryId)>,
        most: usize,
    ) -> Result<Unembedded> {
        let engine = self.engine();
        let vectors = Kind::of_vectors(engine.registry.vector_place().other());
        let snapshot = engine.state.snapshot();
        let rows_of = |kind: Kind| {
            let start = after.map_or(vec![kind as u8], |(tenant, id)| {
                let after = Key::Memory(tenant, id).bytes();
                [&[kind as u8], &after[1..], &[0]].concat()
            });
            snapshot.range(&start, &[kind as u8 + 1])
        };
        let mut present = rows_of(vectors).peekable();
        let mut found = Unembedded::default();
        for (row, examined) in rows_of(Kind::Memory).zip(1..) {
            let (key, memory) = row?;
            // Keys of both kinds differ in their first byte only.
            let is_before = |row: &Result<Row>| matches!(row, Ok((it, _)) if it[1..] < key[1..]);
            while present.next_if(is_before).is_some() {}
            let is_of_it = |row: &Result<Row>| !matches!(row, Ok((it, _)) if it[1..] != key[1..]);
            let has_vector = present.next_if(is_of_it).transpose()?.is_some();
            let (tenant, id) = split(&key)?;
            let id = MemoryId(fixed(id)?);
            if !has_vector {
                found.memories.push((tenant, id, codec::decode::<Memory>(&memory)?.label));
            }
            found.next = Some((tenant, id));
            if examined == EXAMINED_MAX || found.memories.len() == most {
                return Ok(found);
            }
        }
        found.next = None;
        Ok(found)
    }

    /// How many vectors of the next model there are. Reads all their keys.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn next_vectors(&self) -> Result<u64> {
        let engine = self.engine();
        let kind = Kind::of_vectors(engine.registry.vector_place().other()) as u8;
        count(engine.state.range(&[kind], &[kind + 1]))
    }
}
