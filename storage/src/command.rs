//! What can be asked of the cluster, and what it answers. Commands travel from
//! the node that got the request to the leader, and never enter the log.

use serde::{Deserialize, Serialize};

use crate::codec::Record;
use crate::model::access::{Policy, Rule};
use crate::model::analytics::Report;
use crate::model::cluster::{Cluster, Incarnation};
use crate::model::delivery::{Attempt, DeliveryId};
use crate::model::edge::{EDGES_MAX, Edge, Suggestion};
use crate::model::id::{MemoryId, TenantId, TriggerId};
use crate::model::memory::{DecayClass, Memory, MemoryRecord, MemoryType};
use crate::model::receipt::ReceiptRequest;
use crate::model::tenant::{ApiKey, KeyId};
use crate::model::thermo::{SettingFault, SettingValue, Thermo};
use crate::model::trigger::{Firings, Notification, Trigger, TriggerAction};
use crate::model::vector::Vector;

/// Most memories of a batch create.
pub const CREATE_MAX: usize = 50;
/// Most memories of a bulk update, deletion or restoration.
pub const BULK_MAX: usize = 500;

/// Which line of the executor's queue a command waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Somebody waits for it.
    Client,
    /// The leader's own upkeep; goes after clients.
    Background,
}

/// Something asked, with who asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// On whose memories; duties of the cluster have none.
    pub tenant: Option<TenantId>,
    /// Which key asks; `None` is the service itself.
    pub actor: Option<KeyId>,
    /// Remember the outcome under this key.
    pub receipt: Option<ReceiptRequest>,
    /// What is asked.
    pub action: Action,
}

impl Record for Command {
    const FORMAT: u8 = 1;
    const NAME: &'static str = "command";
}

/// What is asked. Everything that a rule cannot compute alike everywhere
/// (embedding, randomness) was settled by the node that got the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Be a cluster: identity, first tenant, its first key.
    Bootstrap {
        /// Who this cluster is.
        cluster: Cluster,
        /// Name of the first tenant.
        tenant: String,
        /// Id of its first key.
        key_id: KeyId,
        /// That key's row; its times are set by the decision.
        key: ApiKey,
    },
    /// Store memories, all or none.
    CreateMemories(Vec<NewMemory>),
    /// Change a memory.
    UpdateMemory(MemoryId, MemoryPatch),
    /// Delete a memory.
    DeleteMemory(MemoryId),
    /// Change several memories alike, each by itself.
    UpdateMemories(Vec<MemoryId>, MemoryPatch),
    /// Delete several memories, each by itself.
    DeleteMemories(Vec<MemoryId>, BulkFilter),
    /// Bring several memories back from the cold tier, each by itself.
    RestoreMemories(Vec<MemoryId>),
    /// Say what a memory was worth.
    GiveFeedback(MemoryId, Signal),
    /// Relate the first memory to the second.
    CreateEdge(MemoryId, MemoryId, String),
    /// Undo that, whichever of them was named first.
    DeleteEdge(MemoryId, MemoryId, String),
    /// Let a key in, whose row is this but for its times.
    CreateKey(KeyId, ApiKey),
    /// Let a key in no more.
    DeleteKey(KeyId),
    /// Make this namespace a key's own.
    SetKeyNamespace(KeyId, Option<String>),
    /// Make a rule; `None` takes the one for this agent and namespace away.
    PutRule {
        /// Id or name of a key, or `*`.
        agent: String,
        /// A namespace, or `*`.
        namespace: String,
        /// What holds.
        policy: Option<Policy>,
    },
    /// Take the rule of this number away.
    DeleteRule(u64),
    /// Give the tenant another name.
    RenameTenant(String),
    /// Append something to the journal that an agent did.
    RecordActivity(Vec<String>),
    /// Count and warm what a node saw.
    RecordReport(Report),
    /// Take the next step of the tenant's tick, if one is due.
    AdvanceTick,
    /// Make a trigger; its number, owner and times are set by the decision.
    CreateTrigger(TriggerId, Box<Trigger>),
    /// Change a trigger.
    UpdateTrigger(TriggerId, Box<TriggerPatch>),
    /// Take a trigger away.
    DeleteTrigger(TriggerId),
    /// Record what became of attempts to deliver.
    RecordAttempts(Vec<Attempt>),
    /// Owe a delivery anew that was dead-lettered, or all of them.
    ReplayDeliveries(Option<DeliveryId>),
    /// Change settings of the tenant's configuration, all or none.
    UpdateSettings(Vec<(String, SettingValue)>),
    /// Move the clock, nothing else.
    AdvanceClock,
    /// Drop receipts and events past their time.
    Expire,
    /// Have every node hash its state.
    Verify,
    /// Let a node into the cluster.
    AddMember {
        /// Its id, which nobody had before.
        node: u64,
        /// The life of its data folder.
        incarnation: Incarnation,
    },
    /// Deal with a node no more.
    RemoveMember {
        /// Its id.
        node: u64,
    },
}

/// A memory to be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewMemory {
    /// Made by the node that got the request.
    pub id: MemoryId,
    /// See [`crate::model::memory::Memory`], as for the fields below.
    pub label: String,
    /// Kind of knowledge.
    pub memory_type: MemoryType,
    /// Where it belongs.
    pub namespace: String,
    /// Class of its half-life.
    pub decay_class: DecayClass,
    /// Does not cool.
    pub is_pinned: bool,
    /// Its own floor, 0 to 1.
    pub min_heat: f32,
    /// Heat it starts with, 0 to 1.
    pub initial_heat: f32,
    /// Extra words to be found by.
    pub key_points: Vec<String>,
    /// The meaning of label.
    pub vector: Vector,
    /// Edges that it should get.
    pub suggestions: Vec<Suggestion>,
}

/// Changes to a memory; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPatch {
    /// A new text comes with its vector.
    pub label: Option<(String, Vector)>,
    /// Kind of knowledge.
    pub memory_type: Option<MemoryType>,
    /// Where it belongs.
    pub namespace: Option<String>,
    /// Class of its half-life.
    pub decay_class: Option<DecayClass>,
    /// Does not cool.
    pub is_pinned: Option<bool>,
    /// Cannot be deleted.
    pub is_locked: Option<bool>,
    /// To be reviewed.
    pub is_flagged: Option<bool>,
    /// Its own floor, 0 to 1.
    pub min_heat: Option<f32>,
    /// Heat from now on, 0 to 1.
    pub current_heat: Option<f32>,
}

/// Changes to a trigger; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerPatch {
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// What it does, of the same kind as before.
    pub action: Option<TriggerAction>,
    /// Sign no more. Without it, an action that brings no secret keeps the one it had.
    pub drop_secret: bool,
    /// Whatever `action` says, a webhook's address stays.
    pub keep_url: bool,
    /// Its own namespace; `Some(None)` is none, as for all below.
    pub namespace: Option<Option<String>>,
    /// Filter of type.
    pub memory_type: Option<Option<MemoryType>>,
    /// Filter of namespace.
    pub filter_namespace: Option<Option<String>>,
    /// Filter of label.
    pub label_pattern: Option<Option<String>>,
    /// Filter of heat.
    pub heat_below: Option<Option<f64>>,
    /// Filter of heat.
    pub heat_above: Option<Option<f64>>,
    /// Fires so often at most.
    pub max_fires: Option<Option<u64>>,
    /// Seconds between two firings at least.
    pub cooldown_seconds: Option<u32>,
    /// Fires at all.
    pub enabled: Option<bool>,
    /// Count firings from 0 again.
    pub reset_count: bool,
}

/// Which memories a bulk command is about, of those that it names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BulkFilter {
    /// Of this type only.
    pub memory_type: Option<MemoryType>,
    /// In this namespace only.
    pub namespace: Option<String>,
}

impl BulkFilter {
    /// Whether it is about `memory`.
    pub fn matches(&self, memory: &Memory) -> bool {
        self.memory_type.is_none_or(|wanted| wanted == memory.memory_type)
            && self.namespace.as_ref().is_none_or(|wanted| *wanted == memory.namespace)
    }
}

/// What somebody says of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signal {
    /// It helped: warms and strengthens.
    Relevant,
    /// It did not: leaves little of its heat.
    Irrelevant,
    /// It holds no longer: takes its heat.
    Outdated,
    /// It is not true: flags it for review.
    Wrong,
}

impl Signal {
    /// All signals.
    pub const ALL: [Self; 4] = [Self::Relevant, Self::Irrelevant, Self::Outdated, Self::Wrong];

    /// The name used in JSON, the journal and docs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relevant => "relevant",
            Self::Irrelevant => "irrelevant",
            Self::Outdated => "outdated",
            Self::Wrong => "wrong",
        }
    }
}

impl Command {
    /// A command of the service itself.
    pub fn background(action: Action) -> Self {
        Self { tenant: None, actor: None, receipt: None, action }
    }

    /// Which line it waits in.
    pub fn priority(&self) -> Priority {
        match self.action {
            Action::Bootstrap { .. }
            | Action::CreateMemories(_)
            | Action::UpdateMemory(..)
            | Action::DeleteMemory(_)
            | Action::UpdateSettings(_)
            | Action::AddMember { .. }
            | Action::RemoveMember { .. } => Priority::Client,
            Action::UpdateMemories(..)
            | Action::DeleteMemories(..)
            | Action::RestoreMemories(_)
            | Action::GiveFeedback(..)
            | Action::CreateEdge(..)
            | Action::DeleteEdge(..)
            | Action::CreateKey(..)
            | Action::DeleteKey(_)
            | Action::SetKeyNamespace(..)
            | Action::PutRule { .. }
            | Action::DeleteRule(_)
            | Action::RenameTenant(_)
            | Action::CreateTrigger(..)
            | Action::UpdateTrigger(..)
            | Action::DeleteTrigger(_)
            | Action::ReplayDeliveries(_)
            | Action::RecordActivity(_) => Priority::Client,
            Action::AdvanceClock
            | Action::Expire
            | Action::Verify
            | Action::AdvanceTick
            | Action::RecordAttempts(_)
            | Action::RecordReport(_) => Priority::Background,
        }
    }

    /// Roughly the memory that it holds while it waits, in bytes.
    pub fn size_bytes(&self) -> usize {
        const FIXED: usize = 128;
        FIXED
            + match &self.action {
                Action::CreateMemories(memories) => {
                    memories.iter().map(NewMemory::size_bytes).sum()
                }
                Action::UpdateMemory(_, patch) => patch.size_bytes(),
                Action::UpdateMemories(ids, patch) => size_of_val(&ids[..]) + patch.size_bytes(),
                Action::DeleteMemories(ids, _) | Action::RestoreMemories(ids) => {
                    size_of_val(&ids[..])
                }
                Action::CreateTrigger(_, trigger) => trigger.size_bytes(),
                Action::RecordAttempts(attempts) => size_of_val(&attempts[..]),
                Action::RecordActivity(details) => details.iter().map(String::len).sum(),
                Action::RecordReport(report) => {
                    let recalls = report.tenants.iter().map(|tenant| &tenant.recalls);
                    recalls.map(|recalls| size_of_val(&recalls[..])).sum()
                }
                _ => 0,
            }
    }
}

impl MemoryPatch {
    fn size_bytes(&self) -> usize {
        self.label.as_ref().map_or(0, |(label, vector)| label.len() + vector.size_bytes())
    }
}

impl NewMemory {
    fn size_bytes(&self) -> usize {
        const FIXED: usize = 128;
        let key_points: usize = self.key_points.iter().map(String::len).sum();
        FIXED + self.label.len() + self.namespace.len() + key_points + self.vector.size_bytes()
    }
}

/// What a decided command answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The memories as created or changed, in the order asked.
    Memories(Vec<MemoryRecord>),
    /// The memory is gone.
    Deleted(MemoryId),
    /// What became of each memory of a bulk command, in the order asked: of as many as one
    /// command may touch, one at least. Ask again for the rest.
    Bulk(Vec<Result<(), Rejection>>),
    /// What feedback did.
    Feedback(FeedbackReply),
    /// The key as it is now.
    ApiKey(KeyId, ApiKey),
    /// The rule as it is, or was.
    Rule(Rule),
    /// The edge as it is, or was.
    Edge {
        /// The edge.
        edge: Edge,
        /// Whether it was not there before.
        is_new: bool,
    },
    /// The tenant's configuration as it is now.
    Settings(Box<Thermo>),
    /// The write was done before; what it touched, as it is now.
    Replayed {
        /// Status of the first answer.
        status: u16,
        /// Each memory it touched; `None` when deleted since.
        memories: Vec<(MemoryId, Option<MemoryRecord>)>,
    },
    /// Done; nothing to say.
    Done,
    /// Done in part, as much as one command may; ask again for the rest.
    Partial,
    /// Every node hashes its state at the mark of this number.
    VerifyMark(u64),
    /// The trigger as it is now.
    Trigger(TriggerId, Box<Trigger>, Firings),
    /// Deliveries are pending anew.
    ReplayedDeliveries {
        /// How many.
        count: usize,
        /// Whether there are more: ask again.
        has_more: bool,
    },
    /// The reply, and what triggers said.
    WithNotifications(Box<Reply>, Vec<Notification>),
}

/// What feedback did to a memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FeedbackReply {
    /// Which memory.
    pub id: MemoryId,
    /// Its heat before, 0 to 1.
    pub heat_before: f64,
    /// And after.
    pub heat_after: f64,
    /// Its stability before, 1 to 100.
    pub stability_before: f32,
    /// And after.
    pub stability_after: f32,
}

/// Why a command was not done. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// No such memory in this tenant.
    #[error("no memory has this id")]
    NotFound,
    /// The memory is not one of those that were named by type or namespace.
    #[error("the memory is of another type or namespace than was named")]
    FilterMismatch,
    /// No such edge.
    #[error("no edge of this relation lies between these memories")]
    NoEdge,
    /// The key may not touch this namespace.
    #[error("this key may not use the namespace {0:?}")]
    NamespaceForbidden(String),
    /// The trigger is another key's.
    #[error("this trigger is another key's: its owner may change it, and keys without bounds")]
    NotOwner,
    /// No such key, rule, trigger or tenant.
    #[error("there is no such {0}")]
    NoSuch(String),
    /// The tenant has as many of them as it may.
    #[error("a tenant may have {max} {what}, and this one does")]
    TooMany {
        /// Of what.
        what: String,
        /// The bound.
        max: usize,
    },
    /// The memory has as many edges as it may.
    #[error("memory {id} has {EDGES_MAX} edges, and may have no more")]
    EdgesFull {
        /// Which one.
        id: MemoryId,
    },
    /// The memory is locked.
    #[error("the memory is locked: unlock it with PATCH {{\"is_locked\": false}} first")]
    Locked,
    /// The tenant is full.
    #[error("this tenant may hold {max} memories and does")]
    StorageLimitReached {
        /// Most memories it may hold.
        max: u64,
    },
    /// A setting cannot be set so.
    #[error("{} {}", .0.name, .0.message)]
    Setting(SettingFault),
    /// The id exists already.
    #[error("a memory with this id exists already")]
    IdTaken,
    /// The receipt was made for another body.
    #[error("this Idempotency-Key was used for a different request")]
    KeyReused,
    /// The tenant has too many receipts.
    #[error("too many idempotency keys in use: the oldest are forgotten within 48 hours")]
    ReceiptsFull,
    /// The vector is not of the cluster's model.
    #[error("the text was embedded by another model than this cluster's")]
    ModelMismatch,
    /// The cluster has formed already, or not yet.
    #[error("{0}")]
    WrongState(String),
    /// The decided changes exceed what a batch may carry.
    #[error("the request decides to more than {max} bytes")]
    TooLarge {
        /// Most bytes a command may decide to.
        max: usize,
    },
}

/// What became of one command.
pub type Decision = Result<Reply, Rejection>;
