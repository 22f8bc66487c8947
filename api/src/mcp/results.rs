//! The results of tools: short, since an agent pays for each token.

use serde::Serialize;
use storage::model::memory::MemoryRecord;
use storage::model::score::rounded;
use utoipa::ToSchema;

use crate::requests::fields::*;
use crate::requests::values::{Id, OneOf};
use crate::responses::trigger::{NotificationView, TriggerView};
use crate::responses::{Time, TypeCount};

/// What a tool returns.
pub(super) trait ToolResult: Serialize + ToSchema {
    /// The text for agents; by default the JSON.
    fn text(&self) -> Option<&str> {
        None
    }
}

/// A memory.
#[derive(Serialize, ToSchema)]
#[schema(as = McpMemory)]
pub(super) struct MemoryView {
    pub(super) id: MemoryIdText,
    /// Its text.
    pub(super) label: String,
    memory_type: MemoryTypeWord,
    namespace: String,
    #[schema(minimum = 0, maximum = 100)]
    heat: f64,
    is_pinned: bool,
    /// `hot`, or `cold` if it is archived.
    tier: MemoryTier,
    key_points: Vec<String>,
    /// Name of the key that stored it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    agent: Option<String>,
    /// Name of the key that last changed its text, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    changed_by: Option<String>,
    /// The memory that replaces this one: use that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    superseded_by: Option<MemoryIdText>,
    created_at: Time,
    updated_at: Time,
    /// How well it matches the search.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    score: Option<f64>,
}

impl MemoryView {
    pub(super) fn new(record: &MemoryRecord, score: Option<f64>) -> Self {
        let memory = &record.memory;
        let agent = memory.origin.agent.clone();
        let editor = memory.changed_by.as_ref().map(|editor| editor.agent.clone());
        Self {
            id: Id(record.id),
            label: memory.label.clone(),
            memory_type: OneOf(memory.memory_type),
            namespace: memory.namespace.clone(),
            heat: rounded(record.heat * 100.0),
            is_pinned: memory.is_pinned,
            tier: OneOf(memory.tier()),
            key_points: memory.key_points.clone(),
            changed_by: editor.filter(|editor| Some(editor) != agent.as_ref()),
            agent,
            superseded_by: memory.superseded_by.map(Id),
            created_at: Time(memory.created_at),
            updated_at: Time(memory.updated_at),
            score,
        }
    }
}

/// A memory after a change.
#[derive(Serialize, ToSchema)]
pub(super) struct Changed {
    pub(super) memory_id: MemoryIdText,
    /// Absent if it was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) memory: Option<MemoryView>,
    /// Whether the memory was there already, with the same text.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub(super) is_duplicate: bool,
    /// Messages of triggers that fired.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub(super) notifications: Vec<NotificationView>,
}

/// Memories.
#[derive(Serialize, ToSchema)]
pub(super) struct Memories {
    pub(super) memories: Vec<MemoryView>,
}

/// A page of memories.
#[derive(Serialize, ToSchema)]
pub(super) struct MemoriesPage {
    pub(super) memories: Vec<MemoryView>,
    /// Memories on all pages.
    pub(super) total: usize,
    pub(super) page: usize,
}

/// A memory that was deleted.
#[derive(Serialize, ToSchema)]
pub(super) struct Forgotten {
    pub(super) memory_id: MemoryIdText,
    /// Always true.
    pub(super) deleted: bool,
}

/// An edge.
#[derive(Serialize, ToSchema)]
pub(super) struct Related {
    pub(super) source_id: MemoryIdText,
    pub(super) target_id: MemoryIdText,
    pub(super) relation: String,
    /// False if it existed before.
    pub(super) is_new: bool,
}

/// The effect of feedback.
#[derive(Serialize, ToSchema)]
pub(super) struct FeedbackGiven {
    pub(super) memory_id: MemoryIdText,
    #[schema(minimum = 0, maximum = 100)]
    pub(super) heat_before: f64,
    #[schema(minimum = 0, maximum = 100)]
    pub(super) heat_after: f64,
}

/// The memories of the caller, and the service.
#[derive(Serialize, ToSchema)]
#[schema(as = McpStatus)]
pub(super) struct StatusView {
    pub(super) memories: u64,
    pub(super) archived: u64,
    #[schema(minimum = 0, maximum = 100)]
    pub(super) average_heat: f64,
    pub(super) memory_types: Vec<TypeCount>,
    /// The name of the caller's key.
    pub(super) agent: String,
    /// What the key may do: `reader`, `agent` or `admin`.
    pub(super) role: RoleWord,
    /// Where memories are stored by default.
    pub(super) namespace: String,
    pub(super) version: &'static str,
}

/// Triggers.
#[derive(Serialize, ToSchema)]
pub(super) struct Triggers {
    pub(super) triggers: Vec<TriggerView>,
    /// Whether there are more.
    pub(super) has_more: bool,
}

/// A trigger that was created.
#[derive(Serialize, ToSchema)]
pub(super) struct TriggerCreated {
    pub(super) trigger: TriggerView,
}

/// A trigger that was deleted.
#[derive(Serialize, ToSchema)]
pub(super) struct TriggerDeleted {
    pub(super) trigger_id: TriggerIdText,
    /// Always true.
    pub(super) deleted: bool,
}

impl ToolResult for crate::context::LoadedContext {
    fn text(&self) -> Option<&str> {
        Some(&self.context)
    }
}

macro_rules! results {
    ($($type:ty),+ $(,)?) => { $(impl ToolResult for $type {})+ };
}

results! {
    Changed, FeedbackGiven, Forgotten, Memories, MemoriesPage, Related, StatusView, TriggerCreated,
    TriggerDeleted, Triggers,
}
