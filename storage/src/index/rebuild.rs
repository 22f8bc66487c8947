//! Rebuilds the registry of a state from its rows when the state is opened. Graphs are not
//! part of it: the graph builder adds them in the background.

use std::collections::HashMap;

use crate::change::all_of;
use crate::codec::{self, Record};
use crate::error::{Error, Result};
use crate::index::data::IndexChange;
use crate::index::registry::{Registry, dimension};
use crate::index::tenant::TenantIndex;
use crate::index::triggers::Triggers;
use crate::model::heat::Anchor;
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::memory::Memory;
use crate::model::tenant::KeyId;
use crate::model::vector::Vector;
use crate::model::words::document_words;
use crate::table::key::{Kind, cursor_of, fixed, split};
use crate::table::state::{State, count};
use crate::table::view::Row;

/// Maximum number of index changes applied under one lock.
const CHANGES_PER_LOCK: usize = 4_096;

/// Builds the registry of `state`, without graphs.
pub(crate) fn rebuild(state: &State, exact_max: usize) -> Result<Registry> {
    let registry = Registry::new(exact_max);
    let dimension = dimension(state)?;
    for_each(state, Kind::Tenant, |tenant, _, row| {
        registry.put_tenant(tenant, row, dimension);
        Ok(())
    })?;
    for_each(state, Kind::ApiKey, |tenant, rest, row| {
        registry.put_key(tenant, KeyId(fixed(rest)?), row);
        Ok(())
    })?;
    for_each(state, Kind::Rules, |tenant, _, row| {
        registry.put_rules(tenant, row);
        Ok(())
    })?;
    let mut triggers: HashMap<TenantId, Vec<_>> = HashMap::new();
    for_each(state, Kind::Trigger, |tenant, rest, row| {
        triggers.entry(tenant).or_default().push((TriggerId(fixed(rest)?), row));
        Ok(())
    })?;
    for (tenant, all) in triggers {
        registry.change_triggers(tenant, |of_tenant| *of_tenant = Triggers::of(all));
    }
    for_each(state, Kind::Firings, |tenant, rest, row| {
        registry.put_firings(tenant, TriggerId(fixed(rest)?), row);
        Ok(())
    })?;
    for (tenant, index) in registry.all() {
        rebuild_memories(state, tenant, &index)?;
        rebuild_counts(state, tenant, &index)?;
        registry.mark_if_stale(tenant, &index);
    }
    Ok(registry)
}

/// Calls `put` with each record of a kind: its tenant, the rest of its key, and its value.
fn for_each<R: Record>(
    state: &State,
    kind: Kind,
    mut put: impl FnMut(TenantId, &[u8], R) -> Result<()>,
) -> Result<()> {
    for row in state.range(&[kind as u8], &[kind as u8 + 1]) {
        let (key, value) = row?;
        let (tenant, rest) = split(&key)?;
        put(tenant, rest, codec::decode(&value)?)?;
    }
    Ok(())
}

/// Indexes all memories of a tenant. Text, anchor and vector rows are three key ranges in
/// the same order of ids, so this is one merge pass over all three.
fn rebuild_memories(state: &State, tenant: TenantId, index: &TenantIndex) -> Result<()> {
    let range = |kind| {
        let (start, end) = all_of(kind, tenant);
        state.range(&start, &end)
    };
    let (mut anchors, mut vectors) = (range(Kind::Anchor), range(Kind::Vector));
    let mut changes = Vec::new();
    for row in range(Kind::Memory) {
        let (key, value) = row?;
        let id = MemoryId(fixed(split(&key)?.1)?);
        let memory: Memory = codec::decode(&value)?;
        let anchor: Anchor = codec::decode(&same_id(id, anchors.next())?)?;
        let vector: Vector = codec::decode(&same_id(id, vectors.next())?)?;
        let words = document_words(memory.texts());
        changes.push(IndexChange::Memory { id, memory, words_before: Vec::new(), words });
        changes.push(IndexChange::Anchor(id, anchor));
        changes.push(IndexChange::vector(id, &vector)?);
        if changes.len() >= CHANGES_PER_LOCK {
            index.apply(changes.drain(..));
        }
    }
    index.apply(changes);
    Ok(())
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
    let range = |kind| {
        let (start, end) = all_of(kind, tenant);
        state.range(&start, &end)
    };
    for row in range(Kind::Receipt) {
        let (key, _) = row?;
        let (day, _) = split(&key)?.1.split_at_checked(4).unwrap_or_default();
        index.apply([IndexChange::ReceiptPut(u32::from_be_bytes(fixed(day)?))]);
    }
    // Each edge has two rows.
    index.apply((0..count(range(Kind::Edge))? / 2).map(|_| IndexChange::EdgeAppended));
    for row in range(Kind::Event) {
        let (key, _) = row?;
        index.apply([IndexChange::EventAppended(cursor_of(split(&key)?.1)?.index)]);
    }
    Ok(())
}
