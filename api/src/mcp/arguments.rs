//! The arguments and results of tools. The comments of arguments are the descriptions that agents read,
//! their types the bounds. Results are short, since an agent pays for each token. Heat is 0 to 100 here, as
//! agents know it from the published tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use storage::model::memory::MemoryRecord;
use storage::model::score::rounded;
use utoipa::ToSchema;

use crate::requests::context::LoadedContext;
use crate::requests::fields::*;
use crate::requests::memories::any_namespace;
use crate::requests::numbers::{Clamped, Percent};
use crate::requests::triggers::{ActionConfig, NotificationView, TriggerView};
use crate::requests::values::{Id, JsonObject, OneOf};
use crate::responses::memory::metadata;
use crate::responses::{Time, TypeCount};

/// A memory to store.
#[derive(Deserialize, ToSchema)]
pub(super) struct Remember {
    /// What to remember: one statement that is clear without the conversation.
    pub(super) content: FullLabel,
    /// `fact` and `preference` stay for months, `semantic` for weeks, `episodic` for days.
    #[schema(default = "semantic")]
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// How present it is at first: 100 is the hottest.
    #[schema(default = 100)]
    pub(super) heat: Option<Percent>,
    /// Where it belongs; that of the key by default.
    pub(super) namespace: Option<Namespace>,
    /// Names and terms by which it is found too, and by which memories are related.
    pub(super) key_points: Option<KeyPoints>,
    /// Id of a memory that this one replaces, because it no longer holds.
    pub(super) supersedes: Option<MemoryIdText>,
}

/// A search.
#[derive(Deserialize, ToSchema)]
pub(super) struct SearchFor {
    /// What to look for, as a question or in key words. Times such as "last week" are understood.
    pub(super) query: Query,
    #[serde(default)]
    pub(super) limit: ToolLimit,
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
    /// Whether archived memories are searched too.
    #[schema(default = false)]
    pub(super) include_archived: Option<bool>,
}

/// A page of memories, the hottest first.
#[derive(Deserialize, ToSchema)]
pub(super) struct ListPage {
    #[schema(default = 1)]
    pub(super) page: Option<Positive>,
    #[serde(default)]
    pub(super) page_size: ToolPageSize,
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
    pub(super) pinned: Option<bool>,
}

/// Changes to a memory; absent fields stay.
#[derive(Deserialize, ToSchema)]
pub(super) struct Update {
    pub(super) memory_id: MemoryIdText,
    /// The new text.
    #[schema(value_type = Option<FullLabel>)]
    pub(super) label: Option<Label>,
    pub(super) memory_type: Option<MemoryTypeWord>,
    pub(super) is_pinned: Option<bool>,
    /// The heat from now on.
    pub(super) heat: Option<Percent>,
}

/// A memory.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneMemory {
    pub(super) memory_id: MemoryIdText,
}

/// The hottest memories.
#[derive(Deserialize, ToSchema)]
pub(super) struct Hottest {
    #[serde(default)]
    pub(super) limit: ToolLimit,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
}

/// Feedback on a memory.
#[derive(Deserialize, ToSchema)]
pub(super) struct Feedback {
    pub(super) memory_id: MemoryIdText,
    /// `relevant`: it helped. `irrelevant`: it did not. `outdated`: it no longer holds. `wrong`: a person
    /// should review it.
    pub(super) signal: SignalWord,
}

/// No arguments.
#[derive(Deserialize, ToSchema)]
pub(super) struct Nothing {}

/// A trigger to create.
#[derive(Deserialize, ToSchema)]
pub(super) struct NewTrigger {
    pub(super) event: EventWord,
    pub(super) action: ActionWord,
    /// Settings of the action: `message` of notify, `strength` of boost, `label` of tag, `url` of
    /// webhook.
    #[schema(value_type = Option<ActionConfig>)]
    pub(super) action_config: Option<JsonObject<ActionConfig>>,
    pub(super) name: Option<TriggerName>,
    pub(super) filter_memory_type: Option<MemoryTypeOrEmpty>,
    pub(super) filter_namespace: Option<Namespace>,
    /// Text that the memory must contain.
    pub(super) filter_label_pattern: Option<LabelPattern>,
    pub(super) filter_heat_below: Option<Percent>,
    pub(super) filter_heat_above: Option<Percent>,
    /// Firings after which it stops.
    pub(super) max_fires: Option<MaxFires>,
    /// Seconds between two firings.
    pub(super) cooldown_seconds: Option<Cooldown>,
}

/// A trigger.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneTrigger {
    pub(super) trigger_id: TriggerIdText,
}

impl ListPage {
    /// Page number from 1, page size, and memories before the page.
    pub(super) fn paging(&self) -> (usize, usize, usize) {
        let (page, size) = (self.page.map_or(1, Clamped::get), self.page_size.get());
        (page, size, (page - 1).saturating_mul(size))
    }
}

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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    tags: Vec<String>,
    /// Of one memory that is read by its id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object, required = false)]
    metadata: BTreeMap<String, Box<RawValue>>,
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
            tags: memory.details.as_ref().map(|it| it.tags.clone()).unwrap_or_default(),
            metadata: BTreeMap::new(),
            score,
        }
    }

    /// With its metadata.
    pub(super) fn whole(record: &MemoryRecord) -> Self {
        let metadata = record.memory.details.as_deref().map(metadata).unwrap_or_default();
        Self { metadata, ..Self::new(record, None) }
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

/// What a search found.
#[derive(Serialize, ToSchema)]
pub(super) struct Found {
    pub(super) memories: Vec<MemoryView>,
    /// Whether one of the first memories may answer the query. With `none` the answer is probably not stored.
    /// Null for a query without words.
    #[schema(required)]
    pub(super) evidence: Option<EvidenceWord>,
    /// Archived memories that match as well: search again with `include_archived`.
    pub(super) cold_matches: usize,
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
    /// `cold` if it is archived.
    pub(super) tier: MemoryTier,
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

impl ToolResult for LoadedContext {
    fn text(&self) -> Option<&str> {
        Some(&self.context)
    }
}

macro_rules! results {
    ($($type:ty),+ $(,)?) => { $(impl ToolResult for $type {})+ };
}

results! {
    Changed, FeedbackGiven, Forgotten, Found, Memories, MemoriesPage, Related, StatusView, TriggerCreated,
    TriggerDeleted, Triggers,
}
