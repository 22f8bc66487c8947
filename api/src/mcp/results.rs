//! The results of tools: short, since an agent pays for each token. Heat is 0 to 100 here, as agents know it
//! from the published tools.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use storage::Neighbour;
use storage::model::memory::MemoryRecord;
use utoipa::ToSchema;

use crate::requests::context::LoadedContext;
use crate::requests::fields::*;
use crate::requests::triggers::{NotificationView, TriggerView};
use crate::requests::values::{Id, OneOf};
use crate::responses::memory::{metadata, valid_until};
use crate::responses::{Time, TypeCount};

/// The address of a memory as a resource, before its id.
pub(super) const MEMORY: &str = "hearth://memories/";
/// Characters of the label of a memory that are its title.
const TITLE_CHARS: usize = 80;

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
    /// When it happened, if that is another time than `created_at`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    occurred_at: Option<Time>,
    /// Until when it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    valid_until: Option<Time>,
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
            heat: percent(record.heat),
            is_pinned: memory.is_pinned,
            tier: OneOf(memory.tier()),
            key_points: memory.key_points.clone(),
            changed_by: editor.filter(|editor| Some(editor) != agent.as_ref()),
            agent,
            superseded_by: memory.superseded_by.map(Id),
            created_at: Time(memory.created_at),
            updated_at: Time(memory.updated_at),
            occurred_at: memory.times.as_ref().and_then(|times| times.occurred_at).map(Time),
            valid_until: valid_until(memory).map(Time),
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

/// Memories that a list or a search found.
#[derive(Serialize, ToSchema)]
pub(super) struct Memories {
    pub(super) memories: Vec<MemoryView>,
    /// Of a search: whether one of the first memories may answer the query. With `none` the answer is probably
    /// not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) evidence: Option<EvidenceWord>,
    /// Of a search: archived memories that match as well. Search again with `include_archived`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) cold_matches: Option<usize>,
    /// Of a list: memories on all pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) total: Option<u64>,
    /// Of a list: the number of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    pub(super) page: Option<usize>,
}

impl Memories {
    pub(super) fn new(memories: Vec<MemoryView>) -> Self {
        Self { memories, evidence: None, cold_matches: None, total: None, page: None }
    }
}

/// A memory, and those that edges connect with it.
#[derive(Serialize, ToSchema)]
pub(super) struct MemoryRead {
    pub(super) memory: MemoryView,
    /// Its neighbours, the strongest edges first.
    pub(super) neighbors: Vec<NeighbourView>,
}

/// Memories that edges connect with one.
#[derive(Serialize, ToSchema)]
#[schema(as = McpNeighbours)]
pub(super) struct Neighbours {
    pub(super) neighbors: Vec<NeighbourView>,
}

/// A memory that edges connect with another one.
#[derive(Serialize, ToSchema)]
#[schema(as = McpNeighbour)]
pub(super) struct NeighbourView {
    id: MemoryIdText,
    label: String,
    #[schema(minimum = 0, maximum = 100)]
    heat: f64,
    /// Relation of the last edge of the path.
    relation: String,
    weight: f64,
    /// Edges of the path.
    hops: u32,
}

impl NeighbourView {
    pub(super) fn new(neighbour: &Neighbour) -> Self {
        let Neighbour { record, edge, hops } = neighbour;
        Self {
            id: Id(record.id),
            label: record.memory.label.clone(),
            heat: percent(record.heat),
            relation: edge.relation.clone(),
            weight: edge.weight.into(),
            hops: *hops,
        }
    }
}

/// What `search` found, in the form that some programs require.
#[derive(Serialize, ToSchema)]
pub(super) struct Documents {
    pub(super) results: Vec<DocumentTitle>,
}

/// A memory that `search` found.
#[derive(Serialize, ToSchema)]
pub(super) struct DocumentTitle {
    pub(super) id: MemoryIdText,
    /// The beginning of its text.
    pub(super) title: String,
    /// Its address as a resource.
    pub(super) url: String,
}

/// A memory, in the form that some programs require.
#[derive(Serialize, ToSchema)]
pub(super) struct Document {
    #[serde(flatten)]
    pub(super) head: DocumentTitle,
    pub(super) text: String,
    #[schema(value_type = Object)]
    pub(super) metadata: BTreeMap<String, Box<RawValue>>,
}

/// The beginning of the text of a memory, in one line.
pub(super) fn title(record: &MemoryRecord) -> String {
    let words: Vec<_> = record.memory.label.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(TITLE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A heat of 0 to 1 in percent, to a tenth: one that is set comes back as it was set.
pub(super) fn percent(heat: f64) -> f64 {
    (heat * 1_000.0).round() / 10.0
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
    Changed, Document, Documents, FeedbackGiven, Forgotten, Memories, MemoryRead, Neighbours, Related, StatusView,
    TriggerCreated, TriggerDeleted, Triggers,
}
