//! Reads all memories, edges and triggers of a tenant as of one log index.

use model::access::Access;
use model::cluster::Position;
use model::edge::Edge;
use model::id::{MemoryId, TenantId, Timestamp, TriggerId};
use model::memory::Memory;
use model::trigger::{Firings, Trigger};
use model::vector::Vector;

use crate::change::all_of;
use crate::codec;
use crate::error::{Error, Result};
use crate::new_memory::ImportedMemory;
use crate::reader::Reader;
use crate::table::key::{Key, Kind, fixed, split};
use crate::table::view::View;

/// A part of an export, in this order.
pub enum Exported {
    /// The log index and the cluster time of all that follows.
    Begin(u64, Timestamp),
    /// A memory. They come in the order of their ids.
    Memory(Box<ImportedMemory>),
    /// An edge. They come in the order of their sources.
    Edge(Edge),
    /// A trigger.
    Trigger(TriggerId, Box<Trigger>, Firings),
    /// The export is complete.
    End,
}

impl Reader {
    /// Calls `visit` with each part of an export: of one namespace, or of all that `access` allows.
    /// Ends once it returns false.
    ///
    /// # Errors
    /// If the state cannot be read.
    pub fn export(
        &self,
        tenant: TenantId,
        namespace: Option<&str>,
        access: &Access,
        mut visit: impl FnMut(Exported) -> bool,
    ) -> Result<()> {
        let engine = self.engine();
        let place = engine.registry.vector_place();
        let snapshot = engine.state.snapshot();
        let position: Position = snapshot.record(&Key::Position)?.unwrap_or_default();
        let is_wanted = |memory: &Memory| {
            namespace.is_none_or(|one| one == memory.namespace) && access.allows(&memory.namespace)
        };
        if !visit(Exported::Begin(position.index, position.clock)) {
            return Ok(());
        }
        let (start, end) = all_of(Kind::Memory, tenant);
        for row in snapshot.range(&start, &end) {
            let id = MemoryId(fixed(split(&row?.0)?.1)?);
            let Some(memory) = snapshot.memory(tenant, id)?.filter(is_wanted) else { continue };
            let missing = |what| Error::missing(what, tenant, id);
            let anchor = snapshot.anchor(tenant, id)?.ok_or_else(|| missing("anchor"))?;
            let vector: Option<Vector> = snapshot.record(&Key::vector(place, tenant, id))?;
            let vector = vector.ok_or_else(|| missing("vector"))?;
            let memory = ImportedMemory { id, memory, anchor, vector, unless_rejected: Vec::new() };
            if !visit(Exported::Memory(Box::new(memory))) {
                return Ok(());
            }
        }
        // Edges have memories at both ends, so that a whole export reads none of them again.
        let is_whole = namespace.is_none() && access.is_unrestricted();
        let (start, end) = all_of(Kind::Edge, tenant);
        for row in snapshot.range(&start, &end) {
            let (key, row) = row?;
            let edge: Edge = codec::decode(&row)?;
            // Each edge has a row at both ends.
            let is_source = split(&key)?.1.starts_with(&edge.source.0);
            if !is_source {
                continue;
            }
            let is_open = |end| -> Result<bool> {
                Ok(is_whole || snapshot.memory(tenant, end)?.is_some_and(|it| is_wanted(&it)))
            };
            if is_open(edge.source)? && is_open(edge.target)? && !visit(Exported::Edge(edge)) {
                return Ok(());
            }
        }
        let (start, end) = all_of(Kind::Trigger, tenant);
        for row in snapshot.range(&start, &end) {
            let (key, row) = row?;
            let id = TriggerId(fixed(split(&key)?.1)?);
            let trigger: Trigger = codec::decode(&row)?;
            if namespace.is_some_and(|one| trigger.namespace.as_deref() != Some(one)) {
                continue;
            }
            let firings = snapshot.record(&Key::Firings(tenant, id))?.unwrap_or_default();
            if !visit(Exported::Trigger(id, Box::new(trigger), firings)) {
                return Ok(());
            }
        }
        visit(Exported::End);
        Ok(())
    }
}
