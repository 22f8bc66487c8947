//! What the commands of a draft add to the counts of tenants, which their limits compare.

use std::collections::BTreeMap;

use model::id::{KeyId, TenantId};
use model::journal::EventKind;

use crate::change::Change;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Counted {
    Memories,
    Bytes,
    Edges,
    /// Receipts of a key.
    Receipts(KeyId),
}

/// A count of a tenant.
pub(super) type CountOf = (TenantId, Counted);

/// What changes add to counts. Negative: more is removed.
#[derive(Default)]
pub(super) struct Added(BTreeMap<CountOf, i64>);

impl Added {
    pub(super) fn add(&mut self, count: CountOf, number: i64) {
        *self.0.entry(count).or_default() += number;
    }

    pub(super) fn to(&self, count: CountOf) -> i64 {
        self.0.get(&count).copied().unwrap_or(0)
    }

    /// Receipts of all keys of a tenant.
    pub(super) fn receipts(&self, tenant: TenantId) -> i64 {
        let [first, last] = [[0; 8], [u8::MAX; 8]].map(|id| Counted::Receipts(KeyId(id)));
        self.0.range((tenant, first)..=(tenant, last)).map(|(_, added)| added).sum()
    }
}

/// What a change shows by itself. Rules count bytes, which depend on the row before.
pub(super) fn counted_by(change: &Change) -> Option<(CountOf, i64)> {
    let (tenant, counted, number) = match change {
        // Each creation and each deletion appends its event.
        Change::EventAppended(tenant, event) => match event.kind {
            EventKind::Created => (tenant, Counted::Memories, 1),
            EventKind::Deleted(_) => (tenant, Counted::Memories, -1),
            _ => return None,
        },
        Change::EdgePut(tenant, _) => (tenant, Counted::Edges, 1),
        Change::EdgeRemoved(tenant, ..) => (tenant, Counted::Edges, -1),
        Change::ReceiptPut(tenant, owner, ..) => (tenant, Counted::Receipts(*owner), 1),
        Change::ReceiptsRemoved(tenant, owner, _, removed) => {
            (tenant, Counted::Receipts(*owner), -(removed.len() as i64))
        }
        _ => return None,
    };
    Some(((*tenant, counted), number))
}
