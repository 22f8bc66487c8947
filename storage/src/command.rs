//! Commands: the requests for changes. A command travels from the node that received the
//! request to the leader. It never enters the log.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::codec::bounded;
use crate::import::Import;
use crate::model::access::Policy;
use crate::model::analytics::{Report, TenantReport};
use crate::model::api_key::NewApiKey;
use crate::model::audit::AuditAction;
use crate::model::cluster::{Cluster, Incarnation, Model};
use crate::model::delivery::{Attempt, DeadLetterCursor, DeliveryId};
use crate::model::id::{KeyId, MemoryId, TenantId, TriggerId};
use crate::model::journal::{AgentActivity, Cursor};
use crate::model::limits::{Limits, OwnLimits};
use crate::model::memory::{Memory, MemoryType, Signal};
use crate::model::models::{EMBEDDED_MAX, EmbeddedMemory};
use crate::model::receipt::{ReceiptKey, ReceiptRequest};
use crate::model::release::Release;
use crate::model::retention::{RETENTION_RULES_MAX, RetentionRule};
use crate::model::thermo::SettingValue;
use crate::model::tick::TickStep;
use crate::model::trigger::Trigger;
use crate::new_memory::{CREATE_MAX, NewMemory};
use crate::patch::{MemoryPatch, OwnTenantPatch, TenantPatch, TriggerPatch};

/// Most bytes of their labels, key points, tags and metadata. All nodes index them before the next write.
pub const CREATE_TEXT_BYTES_MAX: usize = 512 << 10;
/// Most memories of a bulk update, deletion or restoration.
pub const BULK_MAX: usize = 500;

/// Most rows of each kind of which a command removes texts.
pub const TRACES_MAX: usize = 300;
/// Most attempts of a command.
pub const ATTEMPTS_MAX: usize = 500;
/// Most named values of an operation.
const OPERATION_FIELDS_MAX: usize = 8;
/// Most settings of a command: more than a request can name.
const SETTINGS_MAX: usize = 1_024;

/// The queue of the executor in which a command waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A client waits for the outcome.
    Client,
    /// A background task of the leader. It comes after all clients.
    Background,
}

/// A requested change, with its caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// The tenant; commands about the cluster have none.
    pub tenant: Option<TenantId>,
    /// The key of the caller; `None` is the service itself.
    pub actor: Option<KeyId>,
    /// The address from which the request came; `None` is the service itself.
    pub source: Option<IpAddr>,
    /// The idempotency key under which the outcome is stored.
    pub receipt: Option<ReceiptRequest>,
    /// The requested change.
    pub action: Action,
}

/// A requested change. It contains everything that differs between machines, such as embeddings
/// and random ids: the node that received the request computed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Create the cluster: its identity, the first tenant, and that tenant's first key.
    Bootstrap {
        /// Identity and members.
        cluster: Cluster,
        /// Name of the first tenant.
        tenant: String,
        /// Id of the tenant's first key.
        key_id: KeyId,
        /// That key.
        key: NewApiKey,
    },
    /// Create memories, all or none.
    CreateMemories(#[serde(deserialize_with = "bounded::<CREATE_MAX, _, _>")] Vec<NewMemory>),
    /// Change a memory.
    UpdateMemory(MemoryId, MemoryPatch),
    /// Delete a memory.
    DeleteMemory(MemoryId),
    /// Apply the same patch to several memories. Each succeeds or fails by itself.
    UpdateMemories(Vec<MemoryId>, MemoryPatch),
    /// Delete several memories. Each succeeds or fails by itself.
    DeleteMemories(Vec<MemoryId>, BulkFilter),
    /// Return several memories from the cold tier. Each succeeds or fails by itself.
    RestoreMemories(Vec<MemoryId>),
    /// Give feedback on a memory.
    GiveFeedback(MemoryId, Signal),
    /// Create an edge.
    CreateEdge(EdgeRef),
    /// Delete an edge in either direction.
    DeleteEdge(EdgeRef),
    /// Replace a memory by another one, which both stay.
    Supersede {
        /// The memory that is replaced.
        old: MemoryId,
        /// The memory that replaces it.
        by: MemoryId,
    },
    /// Delete several memories for good, also locked ones. The journal keeps no text of them.
    PurgeMemories(Vec<MemoryId>),
    /// Remove deliveries, texts of events, and the contents of receipts.
    RemoveTraces(TraceRows),
    /// Delete a memory, and restore those that it was folded from.
    Unfold(MemoryId),
    /// Create a key.
    CreateKey(KeyId, NewApiKey),
    /// Give a key another text.
    RotateKey {
        /// The key.
        id: KeyId,
        /// SHA-256 of its new text.
        hash: [u8; 32],
        /// How long the present text stays valid.
        overlap_seconds: u64,
    },
    /// Delete a key.
    DeleteKey(KeyId),
    /// Set or clear the default namespace of a key.
    SetKeyNamespace(KeyId, Option<String>),
    /// Create, replace or delete the access rule of an agent and a namespace.
    PutRule {
        /// Id or name of a key, or `*`.
        agent: String,
        /// A namespace, or `*`.
        namespace: String,
        /// The new policy; `None` deletes the rule.
        policy: Option<Policy>,
    },
    /// Delete the access rule with this number.
    DeleteRule(u64),
    /// Rename the tenant.
    ChangeTenant(OwnTenantPatch),
    /// Append an activity of an agent to the journal.
    RecordActivity(AgentActivity),
    /// Count the recalls of a node, and raise the heat of the recalled memories.
    RecordReport(Report),
    /// Take the next step of the tenant's tick, if one is due. Without what it works on, it is found
    /// meanwhile. If the state has changed so that it does not fit, nothing happens.
    AdvanceTick(Option<Box<TickStep>>),
    /// Create a trigger; `decide` sets its number, owner and times.
    CreateTrigger(TriggerId, Box<Trigger>),
    /// Change a trigger.
    UpdateTrigger(TriggerId, Box<TriggerPatch>),
    /// Delete a trigger.
    DeleteTrigger(TriggerId),
    /// Record the outcomes of delivery attempts.
    RecordAttempts(#[serde(deserialize_with = "bounded::<ATTEMPTS_MAX, _, _>")] Vec<Attempt>),
    /// Make a dead letter pending again.
    ReplayDelivery(DeliveryId),
    /// Make all dead letters after this one pending again, as many as one command may.
    ReplayDeliveries(Option<DeadLetterCursor>),
    /// Change settings of the tenant, all or none.
    UpdateSettings(
        #[serde(deserialize_with = "bounded::<SETTINGS_MAX, _, _>")] Vec<(String, SettingValue)>,
    ),
    /// Replace the tenant's rules of retention.
    UpdateRetention(
        #[serde(deserialize_with = "bounded::<RETENTION_RULES_MAX, _, _>")] Vec<RetentionRule>,
    ),
    /// Advance the cluster clock, without another change.
    AdvanceClock,
    /// Remove expired receipts and events of tenants, from this one on.
    Expire(TenantId),
    /// Mark a position at which every node hashes its state.
    Verify,
    /// Add a node to the cluster.
    AddMember {
        /// Its id, which no node had before.
        node: u64,
        /// Incarnation of its data folder.
        incarnation: Incarnation,
    },
    /// Remove the node with this id from the cluster for good.
    RemoveMember(u64),
    /// Create a tenant with its first key; `decide` sets its number and the times.
    CreateTenant {
        /// The tenant.
        tenant: NewTenant,
        /// Id of its first key.
        key_id: KeyId,
        /// Row of that key.
        key: NewApiKey,
    },
    /// Change a tenant.
    UpdateTenant(TenantId, TenantPatch),
    /// Delete a suspended tenant with this name, and all that belongs to it, for good.
    DeleteTenant(TenantId, String),
    /// Create or replace a tier, or delete one that no tenant has.
    PutTier {
        /// Its name.
        name: String,
        /// Its limits; `None` deletes it.
        limits: Option<Limits>,
        /// Whether it becomes the default tier.
        becomes_default: bool,
    },
    /// Record an operation on the cluster in the audit log: what was done to what, with named
    /// values.
    RecordOperation(
        AuditAction,
        String,
        #[serde(deserialize_with = "bounded::<OPERATION_FIELDS_MAX, _, _>")] Vec<(String, String)>,
    ),
    /// Let the deliveries of a restored cluster go out.
    ReleaseWebhooks,
    /// Raise the feature level of the cluster: the lowest release of all members.
    RaiseLevel(Release),
    /// Begin to change the embedding model: the new one, and its folder on every node.
    StartModelChange(Model, String),
    /// Give up the change that is under way.
    CancelModelChange,
    /// A node has loaded the next model.
    ReportModelReady(u64),
    /// Store vectors of the next model.
    RecordVectors(#[serde(deserialize_with = "bounded::<EMBEDDED_MAX, _, _>")] Vec<EmbeddedMemory>),
    /// Let the switch not wait for members that have not loaded the model: they stop then.
    ForceModelSwitch,
    /// Reject new texts until the switch.
    BeginModelSwitch,
    /// Switch to the next model, which this is.
    SwitchModel(Model),
    /// Accept new texts again: not all memories can be embedded now, or a node cannot load the model.
    PostponeModelSwitch(Option<u64>),
    /// Create what another cluster exported, as it was.
    Import(Import),
}

/// A tenant to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTenant {
    /// Its name.
    pub name: String,
    /// Name of its tier; `None` is the default one.
    pub tier: Option<String>,
    /// Limits of its own.
    pub limits: OwnLimits,
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
}

/// Identifies an edge: at most one per pair of memories and relation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeRef {
    /// The memory that the edge starts from.
    pub source: MemoryId,
    /// The memory at which it ends.
    pub target: MemoryId,
    /// Its relation.
    pub relation: String,
}

/// Filter of the memories that a bulk command names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkFilter {
    /// Only memories of this type.
    pub memory_type: Option<MemoryType>,
    /// Only memories in this namespace.
    pub namespace: Option<String>,
}

impl BulkFilter {
    /// Whether `memory` passes the filter.
    pub fn matches(&self, memory: &Memory) -> bool {
        self.memory_type.is_none_or(|one| one == memory.memory_type)
            && self.namespace.as_ref().is_none_or(|one| *one == memory.namespace)
    }
}

impl Action {
    /// Whether it stores more data, which a full disk rejects.
    pub fn adds_data(&self) -> bool {
        matches!(
            self,
            Self::CreateMemories(_)
                | Self::UpdateMemory(..)
                | Self::UpdateMemories(..)
                | Self::RestoreMemories(_)
                | Self::GiveFeedback(..)
                | Self::CreateEdge(_)
                | Self::Supersede { .. }
                | Self::Unfold(_)
                | Self::CreateTrigger(..)
                | Self::UpdateTrigger(..)
                | Self::CreateTenant { .. }
                | Self::RecordActivity(_)
                | Self::RecordVectors(_)
                | Self::Import(_)
        )
    }

    /// Whether it only removes, so that it gives memory back.
    pub fn only_removes(&self) -> bool {
        matches!(
            self,
            Self::DeleteMemory(_)
                | Self::DeleteMemories(..)
                | Self::DeleteEdge(_)
                | Self::DeleteKey(_)
                | Self::DeleteTrigger(_)
                | Self::DeleteRule(_)
        )
    }
}

impl Command {
    /// A command of the service itself.
    pub fn background(action: Action) -> Self {
        Self { tenant: None, actor: None, source: None, receipt: None, action }
    }

    /// Its queue.
    pub fn priority(&self) -> Priority {
        match self.action {
            Action::AdvanceClock
            | Action::Expire(_)
            | Action::Verify
            | Action::RaiseLevel(_)
            | Action::ReportModelReady(_)
            | Action::RecordVectors(_)
            | Action::BeginModelSwitch
            | Action::SwitchModel(_)
            | Action::PostponeModelSwitch(_)
            | Action::AdvanceTick(_)
            | Action::RecordAttempts(_)
            | Action::RecordReport(_) => Priority::Background,
            _ => Priority::Client,
        }
    }

    /// Approximate size in memory, in bytes.
    pub fn size_bytes(&self) -> usize {
        const FIXED: usize = 128;
        FIXED
            + match &self.action {
                Action::CreateMemories(memories) => {
                    memories.iter().map(NewMemory::size_bytes).sum()
                }
                Action::Import(import) => import.size_bytes(),
                Action::UpdateMemory(_, patch) => patch.size_bytes(),
                Action::UpdateMemories(ids, patch) => size_of_val(&ids[..]) + patch.size_bytes(),
                Action::DeleteMemories(ids, _) | Action::RestoreMemories(ids) => {
                    size_of_val(&ids[..])
                }
                Action::RecordVectors(embedded) => {
                    embedded.iter().map(|one| one.label.len() + one.vector.size_bytes()).sum()
                }
                Action::CreateTrigger(_, trigger) => trigger.size_bytes(),
                Action::AdvanceTick(Some(step)) => size_of_val(&step.candidates[..]),
                Action::RecordAttempts(attempts) => size_of_val(&attempts[..]),
                Action::RecordActivity(activity) => activity.size_bytes(),
                Action::RecordReport(report) => {
                    let memories = |it: &TenantReport| {
                        size_of_val(&it.recalls[..]) + size_of_val(&it.returned[..])
                    };
                    report.tenants.iter().map(memories).sum()
                }
                _ => 0,
            }
    }
}
