//! What can have happened: the facts that the log carries, and the rows they
//! write. Not why they happened; that was decided before, by the leader alone.
//!
//! This is the log format. Variants are only appended, fields never change;
//! `tests::the_bytes_of_every_change_are_fixed` pins them.

use serde::{Deserialize, Serialize};

use crate::codec::{self, Record};
use crate::model::access::Rules;
use crate::model::analytics::{LastReport, RecallStats, Usage};
use crate::model::cluster::{BatchId, Cluster};
use crate::model::delivery::{Delivery, DeliveryId, DeliveryStage, Outbox};
use crate::model::edge::{Edge, RelationKey, relation_key};
use crate::model::heat::Anchor;
use crate::model::id::{MemoryId, TenantId, Timestamp, TriggerId};
use crate::model::journal::{Cursor, Event};
use crate::model::memory::Memory;
use crate::model::receipt::{Receipt, ReceiptKey};
use crate::model::tenant::{ApiKey, KeyId, Tenant};
use crate::model::tick::Tick;
use crate::model::trigger::{Firings, Trigger};
use crate::model::vector::Vector;
use crate::table::key::{Key, Kind, after, prefix};

/// A plain fact with absolute values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// The cluster formed with this identity.
    ClusterPut(Cluster),
    /// The tenant now reads so.
    TenantPut(TenantId, Tenant),
    /// The API key now reads so.
    ApiKeyPut(TenantId, KeyId, ApiKey),
    /// The memory now reads so.
    MemoryPut(TenantId, MemoryId, Memory),
    /// The memory's heat is this as of then.
    AnchorPut(TenantId, MemoryId, Anchor),
    /// The memory's meaning is this.
    VectorPut(TenantId, MemoryId, Vector),
    /// The memory is gone, with anchor and vector.
    MemoryRemoved(TenantId, MemoryId),
    /// A write with an idempotency key was done; the number is its day.
    ReceiptPut(TenantId, u32, ReceiptKey, Receipt),
    /// Receipts of days before this one are gone.
    ReceiptsDropped(TenantId, u32),
    /// This happened; its cursor is the entry's index and the event's ordinal.
    EventAppended(TenantId, Event),
    /// Events before this cursor are gone.
    EventsTrimmed(TenantId, Cursor),
    /// Every node hashes its state as of here; the number names the run.
    VerifyMark(u64),
    /// The tenant's last tick now reads so.
    TickPut(TenantId, Tick),
    /// What is known of the tenant's recalls now reads so.
    RecallStatsPut(TenantId, RecallStats),
    /// What the tenant used in this month now reads so.
    UsagePut(TenantId, u32, Usage),
    /// The last report of this node is that one.
    LastReportPut(u64, LastReport),
    /// Two memories are related so.
    EdgePut(TenantId, Edge),
    /// The edge of this relation between two memories is gone.
    EdgeRemoved(TenantId, MemoryId, MemoryId, RelationKey),
    /// The API key is gone.
    ApiKeyRemoved(TenantId, KeyId),
    /// The tenant's access rules now read so.
    RulesPut(TenantId, Rules),
    /// The trigger now reads so.
    TriggerPut(TenantId, TriggerId, Trigger),
    /// The trigger is gone, with the count of its firings.
    TriggerRemoved(TenantId, TriggerId),
    /// What the trigger has done so far now reads so.
    FiringsPut(TenantId, TriggerId, Firings),
    /// How many deliveries the tenant has.
    OutboxPut(TenantId, Outbox),
    /// The delivery now reads so; where it stood before, if it was there.
    DeliveryPut(TenantId, DeliveryId, Delivery, Option<DeliveryStage>),
    /// The delivery is gone; where it stood.
    DeliveryRemoved(TenantId, DeliveryId, DeliveryStage),
}

/// What one log entry carries: changes, and the state they were decided on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Names this batch.
    pub id: BatchId,
    /// The batch that the decider's state ended with; on any other this one is stale.
    pub after: BatchId,
    /// The cluster clock from here on.
    pub stamp: Timestamp,
    /// What happened, in order.
    pub changes: Vec<Change>,
}

impl Record for Batch {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "batch";
}

/// One write to a row of the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RowWrite {
    Put(Key, Vec<u8>),
    Delete(Key),
    /// All keys from the first up to, not including, the second.
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Change {
    /// The row writes that this change is. `event` is the cursor that an
    /// appended event gets. The only translation of facts into rows: `apply`
    /// stores what it yields, a draft reads it back.
    pub(crate) fn rows(&self, event: Cursor) -> Vec<RowWrite> {
        fn put<R: Record>(key: Key, record: &R) -> Vec<RowWrite> {
            vec![RowWrite::Put(key, codec::encode(record))]
        }
        match self {
            Self::ClusterPut(cluster) => put(Key::Cluster, cluster),
            Self::TenantPut(tenant, row) => put(Key::Tenant(*tenant), row),
            Self::ApiKeyPut(tenant, id, row) => put(Key::ApiKey(*tenant, *id), row),
            Self::MemoryPut(tenant, id, row) => put(Key::Memory(*tenant, *id), row),
            Self::AnchorPut(tenant, id, row) => put(Key::Anchor(*tenant, *id), row),
            Self::VectorPut(tenant, id, row) => put(Key::Vector(*tenant, *id), row),
            Self::MemoryRemoved(tenant, id) => vec![
                RowWrite::Delete(Key::Memory(*tenant, *id)),
                RowWrite::Delete(Key::Anchor(*tenant, *id)),
                RowWrite::Delete(Key::Vector(*tenant, *id)),
            ],
            Self::ReceiptPut(tenant, day, key, row) => put(Key::Receipt(*tenant, *day, *key), row),
            Self::ReceiptsDropped(tenant, before) => vec![RowWrite::DeleteRange(
                prefix(Kind::Receipt, *tenant),
                [&prefix(Kind::Receipt, *tenant)[..], &before.to_be_bytes()].concat(),
            )],
            Self::EventAppended(tenant, row) => {
                let mut writes = put(Key::Event(*tenant, event), row);
                if row.kind.is_of_triggers() {
                    writes.push(RowWrite::Put(Key::TriggerEvent(*tenant, event), Vec::new()));
                }
                writes
            }
            Self::EventsTrimmed(tenant, before) => trimmed(*tenant, *before),
            Self::VerifyMark(_) => Vec::new(),
            Self::TickPut(tenant, row) => put(Key::Tick(*tenant), row),
            Self::RecallStatsPut(tenant, row) => put(Key::RecallStats(*tenant), row),
            Self::UsagePut(tenant, month, row) => put(Key::Usage(*tenant, *month), row),
            Self::LastReportPut(node, row) => put(Key::LastReport(*node), row),
            // At both ends, so that each memory's edges lie together.
            Self::EdgePut(tenant, edge) => {
                let relation = relation_key(&edge.relation);
                let row = codec::encode(edge);
                ends(*tenant, edge.source, edge.target, relation)
                    .map(|key| RowWrite::Put(key, row.clone()))
                    .into()
            }
            Self::ApiKeyRemoved(tenant, id) => vec![RowWrite::Delete(Key::ApiKey(*tenant, *id))],
            Self::RulesPut(tenant, row) => put(Key::Rules(*tenant), row),
            Self::EdgeRemoved(tenant, source, target, relation) => {
                ends(*tenant, *source, *target, *relation).map(RowWrite::Delete).into()
            }
            Self::TriggerPut(tenant, id, row) => put(Key::Trigger(*tenant, *id), row),
            Self::TriggerRemoved(tenant, id) => vec![
                RowWrite::Delete(Key::Trigger(*tenant, *id)),
                RowWrite::Delete(Key::Firings(*tenant, *id)),
            ],
            Self::FiringsPut(tenant, id, row) => put(Key::Firings(*tenant, *id), row),
            Self::OutboxPut(tenant, row) => put(Key::Outbox(*tenant), row),
            Self::DeliveryPut(tenant, id, row, before) => {
                let before = before.as_ref().map(|stage| place(*tenant, *id, stage));
                let mut writes: Vec<_> = before.map(RowWrite::Delete).into_iter().collect();
                writes.extend(put(Key::Delivery(*tenant, *id), row));
                writes.push(RowWrite::Put(place(*tenant, *id, &row.stage), Vec::new()));
                writes
            }
            Self::DeliveryRemoved(tenant, id, stage) => vec![
                RowWrite::Delete(Key::Delivery(*tenant, *id)),
                RowWrite::Delete(place(*tenant, *id, stage)),
            ],
        }
    }

    /// Roughly the bytes that this change takes in the log; the parts without
    /// variable length are counted as 64.
    pub(crate) fn size_bytes(&self) -> usize {
        const FIXED: usize = 64;
        FIXED
            + match self {
                Self::MemoryPut(_, _, memory) => {
                    memory.texts().map(str::len).sum::<usize>() + memory.namespace.len()
                }
                Self::VectorPut(_, _, vector) => vector.size_bytes(),
                Self::ReceiptPut(_, _, _, receipt) => receipt.ids.len() * 16,
                Self::EventAppended(_, event) => {
                    event.details.iter().map(String::len).sum::<usize>() + event.namespace.len()
                }
                Self::TenantPut(..) => 512,
                Self::TickPut(..) => 1_024,
                Self::RecallStatsPut(..) => 512,
                Self::RulesPut(_, rules) => rules.rules.len() * 64,
                Self::EdgePut(_, edge) => 2 * edge.relation.len() + 64,
                Self::TriggerPut(_, _, trigger) => trigger.size_bytes(),
                Self::DeliveryPut(_, _, delivery, _) => {
                    delivery.label.len() + delivery.trigger_name.len() + delivery.namespace.len()
                }
                _ => 0,
            }
    }
}

/// What lies before the first event kept, and that one.
fn trimmed(tenant: TenantId, first: Cursor) -> Vec<RowWrite> {
    let (events, of_triggers) = (Key::Event(tenant, first), Key::TriggerEvent(tenant, first));
    vec![
        RowWrite::DeleteRange(prefix(Kind::Event, tenant), events.bytes()),
        RowWrite::DeleteRange(prefix(Kind::TriggerEvent, tenant), of_triggers.bytes()),
        RowWrite::Put(Key::FirstEvent(tenant), codec::encode(&first)),
    ]
}

/// The key that says where a delivery stands.
fn place(tenant: TenantId, id: DeliveryId, stage: &DeliveryStage) -> Key {
    match stage {
        DeliveryStage::Pending(due_at) => Key::Due(tenant, *due_at, id),
        DeliveryStage::DeadLettered(at) => Key::Dead(tenant, *at, id),
    }
}

/// The keys of an edge's two rows.
fn ends(tenant: TenantId, source: MemoryId, target: MemoryId, relation: RelationKey) -> [Key; 2] {
    [Key::Edge(tenant, source, target, relation), Key::Edge(tenant, target, source, relation)]
}

impl Cursor {
    /// The cursors of a batch's events, in order: one a call.
    pub(crate) fn advance(&mut self, change: &Change) -> Self {
        let cursor = *self;
        if matches!(change, Change::EventAppended(..)) {
            self.ordinal += 1;
        }
        cursor
    }
}

/// The range of all rows of a tenant and kind.
pub(crate) fn all_of(kind: Kind, tenant: TenantId) -> (Vec<u8>, Vec<u8>) {
    let start = prefix(kind, tenant);
    let end = after(&start);
    (start, end)
}
