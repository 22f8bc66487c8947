//! Changes: the facts that the log carries, and the rows that each one writes.
//!
//! This is the log format. Variants are only appended, and fields never change. The tests in
//! `storage/tests/formats.rs` contain the bytes of each variant.

use model::access::Rules;
use model::analytics::{LastReports, RecallStats, Usage};
use model::api_key::ApiKey;
use model::audit::{AuditChain, AuditEnds, AuditEntry, KeyUses};
use model::cluster::{BatchId, Cluster};
use model::cluster::{Models, VectorPlace};
use model::edge::{Edge, RelationKey, relation_key};
use model::heat::Anchor;
use model::id::{KeyId, MemoryId, TenantId, Timestamp, TriggerId};
use model::journal::{Cursor, Event, JournalPart};
use model::memory::{Memory, MemoryState};
use model::receipt::{Receipt, ReceiptKey, Retention};
use model::tenant::{Tenancy, Tenant};
use model::tick::Tick;
use model::tombstone::Tombstones;
use model::trigger::{Delivery, DeliveryId, DeliveryStage, Outbox};
use model::trigger::{Firings, Trigger};
use model::vector::Vector;
use model::versions::Versions;
use serde::{Deserialize, Serialize};

use crate::codec::{self, Record};
use crate::table::key::{Key, Kind, prefix, prefix_end};

/// A fact with absolute values. A `Put` contains the whole row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// Identity and members of the cluster.
    ClusterPut(Cluster),
    /// A tenant.
    TenantPut(TenantId, Tenant),
    /// An API key.
    ApiKeyPut(TenantId, KeyId, ApiKey),
    /// A memory.
    MemoryPut(TenantId, MemoryId, Memory),
    /// The heat of a memory as of a time.
    AnchorPut(TenantId, MemoryId, Anchor),
    /// The vector of a memory.
    VectorPut(TenantId, MemoryId, Vector),
    /// Removes a memory with its state, its anchor and its vectors.
    MemoryRemoved(TenantId, MemoryId),
    /// The receipt of a write of an API key with an idempotency key.
    ReceiptPut(TenantId, KeyId, ReceiptKey, Receipt),
    /// Removes receipts of an API key, its oldest with this retention. In the order of their times.
    ReceiptsRemoved(TenantId, KeyId, Retention, Vec<(Timestamp, ReceiptKey)>),
    /// An event. Its cursor is the index of the entry and the ordinal of the event.
    EventAppended(TenantId, Event),
    /// Removes all events of a part before this cursor.
    EventsTrimmed(TenantId, JournalPart, Cursor),
    /// Every node hashes its state at this entry; the number identifies the run.
    VerifyMark(u64),
    /// The last tick of a tenant.
    TickPut(TenantId, Tick),
    /// The recall counts of a tenant.
    RecallStatsPut(TenantId, RecallStats),
    /// The usage of a tenant in a month.
    UsagePut(TenantId, u32, Usage),
    /// The last report of a node.
    LastReportPut(u64, LastReports),
    /// An edge.
    EdgePut(TenantId, Edge),
    /// Removes an edge.
    EdgeRemoved(TenantId, MemoryId, MemoryId, RelationKey),
    /// Removes an API key.
    ApiKeyRemoved(TenantId, KeyId),
    /// All access rules of a tenant.
    RulesPut(TenantId, Rules),
    /// A trigger.
    TriggerPut(TenantId, TriggerId, Trigger),
    /// Removes a trigger with its count of firings.
    TriggerRemoved(TenantId, TriggerId),
    /// The count of firings of a trigger.
    FiringsPut(TenantId, TriggerId, Firings),
    /// The numbers of deliveries of a tenant.
    OutboxPut(TenantId, Outbox),
    /// A delivery, and its stage before, if it existed.
    DeliveryPut(TenantId, DeliveryId, Delivery, Option<DeliveryStage>),
    /// Removes a delivery; its last stage.
    DeliveryRemoved(TenantId, DeliveryId, DeliveryStage),
    /// Replaces an event, which keeps its cursor and its trigger.
    EventReplaced(TenantId, Cursor, Event),
    /// Replaces a receipt, which keeps its time and retention.
    ReceiptReplaced(TenantId, KeyId, ReceiptKey, Receipt),
    /// What all tenants share.
    TenancyPut(Tenancy),
    /// Removes all rows of a tenant.
    TenantRemoved(TenantId),
    /// An entry of the audit log, and the ends of its chain with it.
    AuditAppended(TenantId, AuditChain, AuditEntry, AuditEnds),
    /// Removes the entries before the first one that is kept.
    AuditTrimmed(TenantId, AuditChain, AuditEnds),
    /// The kinds of use that are known of an API key.
    KeyUsesPut(TenantId, KeyId, KeyUses),
    /// The last use of an API key.
    KeyUsedPut(TenantId, KeyId, Timestamp),
    /// Which vectors are in use, and which are to come.
    ModelsPut(Models),
    /// The vector of a memory in the second place.
    SecondVectorPut(TenantId, MemoryId, Vector),
    /// Removes the vector of a memory from a place.
    VectorRemoved(VectorPlace, TenantId, MemoryId),
    /// Removes all vectors from a place. The rows of all tenants are one range.
    VectorsRemoved(VectorPlace),
    /// The state of a memory whose text stays.
    MemoryStatePut(TenantId, MemoryId, MemoryState),
    /// The texts that a memory had before.
    VersionsPut(TenantId, MemoryId, Versions),
    /// Tombstones whose hashes begin with this byte.
    TombstonesPut(TenantId, u8, Tombstones),
}

/// The content of one log entry: changes, and the state on which they were decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// Id of this batch.
    pub id: BatchId,
    /// Last batch of the state on which this one was decided. On another state it is stale.
    pub after: BatchId,
    /// The cluster clock after this batch.
    pub stamp: Timestamp,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// One write to a row of the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RowWrite {
    Put(Key, Vec<u8>),
    Delete(Key),
    /// All keys from the first up to, not including, the second.
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl RowWrite {
    /// Bytes of its keys and its value.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Put(key, value) => key.bytes().len() + value.len(),
            Self::Delete(key) => key.bytes().len(),
            Self::DeleteRange(start, end) => start.len() + end.len(),
        }
    }
}

impl Change {
    /// The row writes of this change. `event` is the cursor of an appended event. Both `apply`
    /// and the draft use this translation, so they cannot differ.
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
            Self::MemoryRemoved(tenant, id) => {
                memory_keys(*tenant, *id).map(RowWrite::Delete).into()
            }
            Self::ReceiptPut(tenant, owner, key, row) => {
                let [key, age] = receipt_keys(*tenant, *owner, row.retention, row.at, *key);
                vec![RowWrite::Put(key, codec::encode(row)), RowWrite::Put(age, Vec::new())]
            }
            Self::ReceiptsRemoved(tenant, owner, retention, removed) => {
                let keys = |(at, key): &_| receipt_keys(*tenant, *owner, *retention, *at, *key);
                removed.iter().flat_map(keys).map(RowWrite::Delete).collect()
            }
            Self::EventAppended(tenant, row) => event_row(*tenant, event, row),
            Self::EventsTrimmed(tenant, part, before) => trimmed(*tenant, *part, *before),
            Self::VerifyMark(_) => Vec::new(),
            Self::TickPut(tenant, row) => put(Key::Tick(*tenant), row),
            Self::RecallStatsPut(tenant, row) => put(Key::RecallStats(*tenant), row),
            Self::UsagePut(tenant, month, row) => put(Key::Usage(*tenant, *month), row),
            Self::LastReportPut(node, row) => put(Key::LastReport(*node), row),
            Self::EdgePut(tenant, edge) => edge_rows(*tenant, edge),
            Self::ApiKeyRemoved(tenant, id) => [Key::ApiKey, Key::KeyUses, Key::KeyUsed]
                .map(|key| RowWrite::Delete(key(*tenant, *id)))
                .into(),
            Self::RulesPut(tenant, row) => put(Key::Rules(*tenant), row),
            Self::EdgeRemoved(tenant, source, target, relation) => {
                ends(*tenant, *source, *target, *relation).map(RowWrite::Delete).into()
            }
            Self::TriggerPut(tenant, id, row) => put(Key::Trigger(*tenant, *id), row),
            Self::TriggerRemoved(tenant, id) => {
                [Key::Trigger, Key::Firings].map(|key| RowWrite::Delete(key(*tenant, *id))).into()
            }
            Self::FiringsPut(tenant, id, row) => put(Key::Firings(*tenant, *id), row),
            Self::OutboxPut(tenant, row) => put(Key::Outbox(*tenant), row),
            Self::DeliveryPut(tenant, id, row, before) => {
                delivery_rows(*tenant, *id, row, before.as_ref())
            }
            Self::DeliveryRemoved(tenant, id, stage) => {
                [Key::Delivery(*tenant, *id), in_order(stage, *tenant, *id)]
                    .map(RowWrite::Delete)
                    .into()
            }
            Self::EventReplaced(tenant, cursor, row) => event_row(*tenant, *cursor, row),
            Self::ReceiptReplaced(tenant, owner, key, row) => {
                put(Key::Receipt(*tenant, *owner, *key), row)
            }
            Self::TenancyPut(row) => put(Key::Tenancy, row),
            Self::TenantRemoved(tenant) => all_removed(*tenant),
            Self::AuditAppended(tenant, chain, row, ends) => appended(*tenant, *chain, row, ends),
            Self::AuditTrimmed(tenant, chain, ends) => audit_trimmed(*tenant, *chain, ends),
            Self::KeyUsesPut(tenant, id, row) => put(Key::KeyUses(*tenant, *id), row),
            Self::KeyUsedPut(tenant, id, at) => put(Key::KeyUsed(*tenant, *id), at),
            Self::ModelsPut(row) => put(Key::Models, row),
            Self::SecondVectorPut(tenant, id, row) => put(Key::SecondVector(*tenant, *id), row),
            Self::VectorRemoved(place, tenant, id) => {
                vec![RowWrite::Delete(Key::vector(*place, *tenant, *id))]
            }
            Self::VectorsRemoved(place) => vec![all_vectors_removed(*place)],
            Self::MemoryStatePut(tenant, id, row) => put(Key::MemoryState(*tenant, *id), row),
            Self::VersionsPut(tenant, id, row) => put(Key::MemoryVersions(*tenant, *id), row),
            Self::TombstonesPut(tenant, bucket, row) => put(Key::Tombstones(*tenant, *bucket), row),
        }
    }
}

/// The keys of the rows of a memory.
pub(crate) fn memory_keys(tenant: TenantId, id: MemoryId) -> [Key; 6] {
    [
        Key::Memory,
        Key::MemoryState,
        Key::MemoryVersions,
        Key::Anchor,
        Key::Vector,
        Key::SecondVector,
    ]
    .map(|key| key(tenant, id))
}

fn all_vectors_removed(place: VectorPlace) -> RowWrite {
    let kind = Kind::of_vectors(place) as u8;
    RowWrite::DeleteRange(vec![kind], vec![kind + 1])
}

/// An edge. It is stored at both ends: the edges of a memory have one key prefix.
fn edge_rows(tenant: TenantId, edge: &Edge) -> Vec<RowWrite> {
    let (relation, row) = (relation_key(&edge.relation), codec::encode(edge));
    let keys = ends(tenant, edge.source, edge.target, relation);
    keys.map(|key| RowWrite::Put(key, row.clone())).into()
}

/// Removes all rows of a tenant.
fn all_removed(tenant: TenantId) -> Vec<RowWrite> {
    let range = |kind| {
        let (start, end) = all_of(kind, tenant);
        RowWrite::DeleteRange(start, end)
    };
    // A draft has no ranges: without its row, no command of the tenant is decided.
    let row = RowWrite::Delete(Key::Tenant(tenant));
    Kind::of_tenants().map(range).chain([row]).collect()
}

/// An entry, and the ends of its chain with it.
fn appended(
    tenant: TenantId,
    chain: AuditChain,
    entry: &AuditEntry,
    ends: &AuditEnds,
) -> Vec<RowWrite> {
    let key = Key::Audit(tenant, chain, entry.number);
    vec![RowWrite::Put(key, codec::encode(entry)), audit_ends(tenant, chain, ends)]
}

fn audit_ends(tenant: TenantId, chain: AuditChain, ends: &AuditEnds) -> RowWrite {
    RowWrite::Put(Key::AuditEnds(tenant, chain), codec::encode(ends))
}

/// Removes all entries of a chain before the first one that is kept.
fn audit_trimmed(tenant: TenantId, chain: AuditChain, ends: &AuditEnds) -> Vec<RowWrite> {
    let [from, to] = [0, ends.first].map(|number| Key::Audit(tenant, chain, number).bytes());
    vec![RowWrite::DeleteRange(from, to), audit_ends(tenant, chain, ends)]
}

/// An event, in the part of the journal that has its kind.
fn event_row(tenant: TenantId, cursor: Cursor, row: &Event) -> Vec<RowWrite> {
    vec![RowWrite::Put(Key::event(tenant, row.kind.part(), cursor), codec::encode(row))]
}

/// Removes all events of a part before `first`. Stores `first`, from which on the journal is
/// complete, unless it is that of the history of triggers: event streams are trimmed with the rest.
fn trimmed(tenant: TenantId, part: JournalPart, first: Cursor) -> Vec<RowWrite> {
    let (start, end) = (prefix(Kind::of_events(part), tenant), Key::event(tenant, part, first));
    let removed = RowWrite::DeleteRange(start, end.bytes());
    let first = RowWrite::Put(Key::FirstEvent(tenant), codec::encode(&first));
    [Some(removed), (part == JournalPart::Others).then_some(first)].into_iter().flatten().collect()
}

/// The key of a receipt, and that of its age.
fn receipt_keys(
    tenant: TenantId,
    owner: KeyId,
    retention: Retention,
    at: Timestamp,
    key: ReceiptKey,
) -> [Key; 2] {
    [Key::Receipt(tenant, owner, key), Key::ReceiptAge(tenant, owner, retention, at, key)]
}

/// Puts a delivery in its stage, and takes it from the stage before.
fn delivery_rows(
    tenant: TenantId,
    id: DeliveryId,
    row: &Delivery,
    before: Option<&DeliveryStage>,
) -> Vec<RowWrite> {
    let before = before.map(|stage| RowWrite::Delete(in_order(stage, tenant, id)));
    let present = [
        RowWrite::Put(Key::Delivery(tenant, id), codec::encode(row)),
        RowWrite::Put(in_order(&row.stage, tenant, id), Vec::new()),
    ];
    before.into_iter().chain(present).collect()
}

/// The key of a delivery in the order of its stage.
pub(crate) fn in_order(stage: &DeliveryStage, tenant: TenantId, id: DeliveryId) -> Key {
    match stage {
        DeliveryStage::Pending(due_at) => Key::Due(tenant, *due_at, id),
        DeliveryStage::DeadLettered(at) => Key::DeadLetter(tenant, *at, id),
    }
}

/// The keys of an edge's two rows.
fn ends(tenant: TenantId, source: MemoryId, target: MemoryId, relation: RelationKey) -> [Key; 2] {
    [Key::Edge(tenant, source, target, relation), Key::Edge(tenant, target, source, relation)]
}

/// The range of all rows of a tenant and kind.
pub(crate) fn all_of(kind: Kind, tenant: TenantId) -> (Vec<u8>, Vec<u8>) {
    let start = prefix(kind, tenant);
    let end = prefix_end(&start);
    (start, end)
}
