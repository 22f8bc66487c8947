//! What the state holds of memories that are purged, apart from their rows: texts of events, pending
//! and failed deliveries, and receipts of writes.

use std::collections::HashSet;

use model::id::{KeyId, MemoryId, TenantId};
use model::journal::{Event, EventKind, JournalPart};
use model::receipt::{Receipt, WriteEffect};
use model::tombstone::Tombstones;
use model::trigger::Delivery;

use crate::change::{all_of, memory_keys};
use crate::codec;
use crate::decide::purge::TraceRows;
use crate::decide::tombstone::namespace_hash;
use crate::error::Result;
use crate::journal::event_row;
use crate::reader::Reader;
use crate::table::key::{Kind, delivery_of, receipt_key_of};
use crate::table::view::View;

/// Whose traces are meant.
#[derive(Debug, Clone, Default)]
pub struct TraceScope {
    /// The memories.
    pub ids: HashSet<MemoryId>,
    /// Also what is about other memories of this namespace: deleted ones.
    pub namespace: Option<String>,
    /// Also what these keys did and created, as far as the journal says so.
    pub keys: HashSet<KeyId>,
}

/// What there is of memories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// Memories of the scope with a row, or in an index.
    pub memories: usize,
    /// Their edges.
    pub edges: usize,
    /// Texts of events, deliveries and receipts about them.
    pub rows: TraceRows,
}

impl TraceScope {
    fn has_delivery(&self, delivery: &Delivery) -> bool {
        self.ids.contains(&delivery.memory) || self.namespace.as_ref() == Some(&delivery.namespace)
    }

    fn has_receipt(&self, receipt: &Receipt) -> bool {
        match &receipt.effect {
            WriteEffect::Memories(all) => all.iter().any(|touched| self.ids.contains(&touched.id)),
            WriteEffect::Reply(ids, _) => ids.iter().any(|id| self.ids.contains(id)),
            WriteEffect::Trigger(_) => false,
        }
    }

    fn has_event(&self, event: &Event) -> bool {
        let is_of = |id: Option<MemoryId>| id.is_some_and(|id| self.ids.contains(&id));
        if event.actor.is_some_and(|key| self.keys.contains(&key)) {
            return true;
        }
        if let EventKind::Activity(activity) = &event.kind {
            return is_of(activity.target_id.as_ref().and_then(|id| id.parse().ok()));
        }
        let is_in_namespace =
            event.subject.is_some() && self.namespace.as_ref() == Some(&event.namespace);
        is_of(event.subject) || is_of(event.kind.other_end()) || is_in_namespace
    }
}

impl Reader {
    /// Finds all traces. Reads the whole journal, outbox and all receipts of the tenant.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn traces(&self, tenant: TenantId, scope: &TraceScope) -> Result<Traces> {
        let engine = self.engine();
        let rows_of = |kind| {
            let (start, end) = all_of(kind, tenant);
            engine.state.range(&start, &end)
        };
        let mut traces = Traces::default();
        let index = self.index(tenant);
        let is_indexed = |id| index.as_ref().is_some_and(|index| index.read().has(id));
        // Deleted memories have no row that says who created them.
        let mut scope = scope.clone();
        let events =
            || JournalPart::ALL.into_iter().flat_map(|part| rows_of(Kind::of_events(part)));
        for row in events().take_while(|_| !scope.keys.is_empty()) {
            let (_, event) = event_row(&row?)?;
            let is_theirs = event.actor.is_some_and(|key| scope.keys.contains(&key));
            if is_theirs && event.kind == EventKind::Created {
                scope.ids.extend(event.subject.filter(|id| !is_indexed(*id)));
            }
        }
        for id in &scope.ids {
            let mut is_there = is_indexed(*id);
            for key in memory_keys(tenant, *id) {
                is_there |= engine.state.bytes(&key)?.is_some();
            }
            traces.memories += usize::from(is_there);
            traces.edges += engine.state.edges(tenant, *id)?.len();
        }
        for row in events() {
            let (cursor, mut event) = event_row(&row?)?;
            if scope.has_event(&event) && event.remove_texts() {
                traces.rows.events.push(cursor);
            }
        }
        for row in rows_of(Kind::Delivery) {
            let (key, value) = row?;
            if scope.has_delivery(&codec::decode(&value)?) {
                traces.rows.deliveries.push(delivery_of(&key)?);
            }
        }
        let namespace = scope.namespace.as_deref().map(namespace_hash);
        for row in rows_of(Kind::Tombstones) {
            let all: Tombstones = codec::decode(&row?.1)?;
            let of_scope = all.0.iter().filter(|tombstone| {
                namespace == Some(tombstone.namespace)
                    || tombstone.author.is_some_and(|key| scope.keys.contains(&key))
            });
            traces.rows.tombstones.extend(of_scope.map(|tombstone| tombstone.value));
        }
        for row in rows_of(Kind::Receipt) {
            let (key, value) = row?;
            if scope.has_receipt(&codec::decode(&value)?) {
                traces.rows.receipts.push(receipt_key_of(&key)?);
            }
        }
        Ok(traces)
    }
}
