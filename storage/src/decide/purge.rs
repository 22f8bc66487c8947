//! Commands of a purge: memories are deleted for good, with what the state tells of them.

use model::audit::{AuditAction, Fields};
use model::bounded::bounded;
use model::id::{KeyId, MemoryId};
use model::journal::{Cursor, Event, JournalPart};
use model::receipt::{Receipt, ReceiptKey, WriteEffect};
use model::tombstone::{Tombstones, ValueHash};
use model::trigger::DeliveryId;
use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::decide::audit::{AuditedAct, numbers};
use crate::decide::bulk::{self, Outcomes, for_each};
use crate::decide::context::{Context, Decided};
use crate::decide::rule::{Class, TenantAudit, TenantRule};
use crate::decide::{memory, outbox};
use crate::error::Result;
use crate::table::key::Key;
use crate::table::view::View;

/// Most rows of each kind of which a command removes texts.
pub const TRACES_MAX: usize = 300;

/// Deletes several memories for good, also locked ones. The journal keeps no text of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PurgeMemories(pub Vec<MemoryId>);

impl TenantRule for PurgeMemories {
    type Reply = Outcomes;
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<Outcomes> {
        for_each(context, &self.0, |context, id| {
            let present = context.existing(id)?;
            memory::remove(context, &present, String::new())
        })
    }
}

impl PurgeMemories {
    fn audit(&self, _context: &Context<'_>, reply: Option<&Outcomes>) -> Result<AuditedAct> {
        let fields = reply.map_or_else(Fields::new, |reply| bulk::audited(&self.0, reply));
        Ok(AuditedAct::new(AuditAction::MemoryPurge, "memories", fields))
    }
}

/// Rows that tell of memories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceRows {
    /// Events with texts.
    #[serde(deserialize_with = "bounded::<TRACES_MAX, _, _>")]
    pub events: Vec<Cursor>,
    /// Deliveries.
    #[serde(deserialize_with = "bounded::<TRACES_MAX, _, _>")]
    pub deliveries: Vec<DeliveryId>,
    /// Receipts.
    #[serde(deserialize_with = "bounded::<TRACES_MAX, _, _>")]
    pub receipts: Vec<(KeyId, ReceiptKey)>,
    /// Hashes of tombstones.
    #[serde(deserialize_with = "bounded::<TRACES_MAX, _, _>")]
    pub tombstones: Vec<ValueHash>,
}

/// Removes deliveries and texts of events, and empties receipts: a repetition of their writes is
/// rejected, so it does not bring a memory back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoveTraces(pub TraceRows);

impl TenantRule for RemoveTraces {
    type Reply = ();
    const CLASS: Class = Class::Changes;
    const AUDIT: TenantAudit<Self> = Some(Self::audit);

    fn decide(&self, context: &mut Context<'_>) -> Decided<()> {
        let (tenant, rows) = (context.tenant, &self.0);
        for cursor in &rows.events {
            for part in JournalPart::ALL {
                let key = Key::event(tenant, part, *cursor);
                if let Some(mut event) = context.draft.record::<Event>(&key)?
                    && event.remove_texts()
                {
                    context.push(Change::EventReplaced(tenant, *cursor, event));
                }
            }
        }
        for id in &rows.deliveries {
            if let Some(delivery) = context.draft.delivery(tenant, *id)? {
                outbox::put(context, *id, delivery.stage, None)?;
            }
        }
        for (owner, key) in &rows.receipts {
            if let Some(receipt) = context.draft.receipt(tenant, *owner, *key)? {
                let effect = WriteEffect::Memories(Vec::new());
                let receipt = Receipt { body_hash: [0; 32], effect, ..receipt };
                context.push(Change::ReceiptReplaced(tenant, *owner, *key, receipt));
            }
        }
        for value in &rows.tombstones {
            let key = Key::Tombstones(tenant, value[0]);
            if let Some(mut all) = context.draft.record::<Tombstones>(&key)? {
                all.0.retain(|tombstone| tombstone.value != *value);
                context.push(Change::TombstonesPut(tenant, value[0], all));
            }
        }
        Ok(())
    }
}

impl RemoveTraces {
    fn audit(&self, _context: &Context<'_>, reply: Option<&()>) -> Result<AuditedAct> {
        let TraceRows { events, deliveries, receipts, tombstones } = &self.0;
        let rows = events.len() + deliveries.len() + receipts.len() + tombstones.len();
        let fields = reply.map_or_else(Fields::new, |()| numbers(&[("rows", rows)]));
        Ok(AuditedAct::new(AuditAction::MemoryPurge, "traces of memories", fields))
    }
}
