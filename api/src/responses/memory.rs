//! Memories in responses: alone, in lists, and as results of a search.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use storage::model::details::Details;
use storage::model::id::Timestamp;
use storage::model::memory::Origin;
use storage::model::memory::{Editor, MemoryRecord};
use storage::model::score::rounded;
use storage::{Hit, SearchResults, Touched, TouchedMemory};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::requests::fields::*;
use crate::requests::values::{Id, OneOf};
use crate::responses::{Nullable, Time};

/// A memory. Heat and text have two names each, since published clients read either.
#[derive(Serialize, ToSchema)]
pub(crate) struct Memory {
    id: MemoryIdText,
    /// The text.
    label: String,
    /// The text, again.
    pointer_summary: String,
    memory_type: MemoryTypeWord,
    namespace: String,
    /// The heat as of the response.
    #[schema(minimum = 0, maximum = 1)]
    current_heat: f64,
    /// The heat, again.
    #[schema(minimum = 0, maximum = 1)]
    heat: f64,
    base_utility: f64,
    /// Factor of the half-life.
    #[schema(minimum = 0)]
    stability: f64,
    is_pinned: bool,
    is_locked: bool,
    flagged_for_review: bool,
    decay_class: DecayClassWord,
    /// Heat floor.
    #[schema(minimum = 0, maximum = 1)]
    min_heat: f64,
    modality: &'static str,
    key_points: Vec<String>,
    tags: Vec<String>,
    #[schema(value_type = Object)]
    metadata: BTreeMap<String, Box<RawValue>>,
    recall_count: u32,
    #[schema(required)]
    last_recalled_at: Option<Time>,
    tier: MemoryTier,
    #[schema(required)]
    archived_at: Option<Time>,
    /// The memory that replaces this one.
    #[schema(required)]
    superseded_by: Option<MemoryIdText>,
    /// The memory that it repeats, which had been recalled a moment before.
    #[schema(required)]
    echo_of: Option<MemoryIdText>,
    origin: OriginView,
    /// Who changed its text, its lock or its namespace last; null if none did.
    #[schema(required)]
    changed_by: Option<EditorView>,
    /// The memories that it replaces, which are in the cold tier.
    folded_from: Vec<MemoryIdText>,
    /// Its id, again, if a create found it instead of creating a memory with the same text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = MemoryIdText)]
    duplicate_of: Option<MemoryIdText>,
    created_at: Time,
    updated_at: Time,
    /// When it happened, if that is known to be another time than `created_at`.
    #[schema(required)]
    occurred_at: Option<Time>,
    /// From when on it holds, if that was said.
    #[schema(required)]
    valid_from: Option<Time>,
    /// Until when it holds: what was said, or when another one replaced it.
    #[schema(required)]
    valid_until: Option<Time>,
    /// When it is deleted.
    #[schema(required)]
    expires_at: Option<Time>,
    /// The id that its client has given it.
    external_id: Nullable<String>,
    /// `suspect` while it is flagged for review or in quarantine, `reviewed` once an admin has reviewed it.
    trust: TrustWord,
    /// What the guard has found in it, or removed from it.
    detections: Vec<DetectionWord>,
    /// Whether only admins see it, until one has reviewed it.
    quarantined: bool,
}

impl From<&MemoryRecord> for Memory {
    fn from(record: &MemoryRecord) -> Self {
        let memory = &record.memory;
        let heat = rounded(record.heat);
        let times = memory.times.as_deref().copied().unwrap_or_default();
        Self {
            id: Id(record.id),
            label: memory.label.clone(),
            pointer_summary: memory.label.clone(),
            memory_type: OneOf(memory.memory_type),
            namespace: memory.namespace.clone(),
            current_heat: heat,
            heat,
            base_utility: 0.0,
            stability: rounded(f64::from(record.anchor.stability)),
            is_pinned: memory.is_pinned,
            is_locked: memory.is_locked,
            flagged_for_review: memory.is_flagged,
            decay_class: OneOf(memory.decay_class),
            min_heat: rounded(f64::from(memory.min_heat)),
            modality: "text",
            key_points: memory.key_points.clone(),
            tags: memory.details.as_ref().map(|it| it.tags.clone()).unwrap_or_default(),
            metadata: memory.details.as_deref().map(metadata).unwrap_or_default(),
            recall_count: record.anchor.recall_count,
            last_recalled_at: record.anchor.last_recall.map(Time),
            tier: OneOf(memory.tier()),
            archived_at: memory.archived_at.map(Time),
            superseded_by: memory.superseded_by.map(Id),
            echo_of: memory.echo_of.map(Id),
            origin: (&memory.origin).into(),
            changed_by: memory.changed_by.as_ref().map(Into::into),
            folded_from: memory.folded_from.iter().copied().map(Id).collect(),
            duplicate_of: None,
            created_at: Time(memory.created_at),
            updated_at: Time(memory.updated_at),
            occurred_at: times.occurred_at.map(Time),
            valid_from: times.valid_from.map(Time),
            valid_until: valid_until(memory).map(Time),
            expires_at: times.expires_at.map(Time),
            external_id: memory.external_id.clone(),
            trust: OneOf(memory.trust()),
            detections: memory.guard.detections().map(OneOf).collect(),
            quarantined: memory.guard.is_quarantined(),
        }
    }
}

/// Until when a memory holds; `None` is without end.
pub(crate) fn valid_until(memory: &storage::model::memory::Memory) -> Option<Timestamp> {
    Some(memory.validity().end).filter(|end| *end < Timestamp(i64::MAX))
}

/// Stored values are valid JSON.
pub(crate) fn metadata(details: &Details) -> BTreeMap<String, Box<RawValue>> {
    let entries = details.metadata.iter();
    entries
        .filter_map(|(name, value)| {
            Some((name.clone(), RawValue::from_string(value.clone()).ok()?))
        })
        .collect()
}

/// Where a memory comes from: stamped from the request that created it.
#[derive(Serialize, ToSchema)]
#[schema(as = Origin)]
pub(crate) struct OriginView {
    #[schema(required)]
    key_id: Option<KeyIdText>,
    /// The name that the key had.
    agent: Nullable<String>,
    /// Name and version of the program.
    client: Nullable<String>,
    /// Tool by which the agent stored it.
    tool: Nullable<String>,
}

/// A key that changed a memory.
#[derive(Serialize, ToSchema)]
#[schema(as = Editor)]
pub(crate) struct EditorView {
    key_id: KeyIdText,
    /// The name that the key had.
    agent: String,
}

impl From<&Editor> for EditorView {
    fn from(editor: &Editor) -> Self {
        Self { key_id: Id(editor.key), agent: editor.agent.clone() }
    }
}

impl From<&Origin> for OriginView {
    fn from(origin: &Origin) -> Self {
        Self {
            key_id: origin.key.map(Id),
            agent: origin.agent.clone(),
            client: origin.client.clone(),
            tool: origin.tool.clone(),
        }
    }
}

/// A memory or a trigger that was deleted.
#[derive(Serialize, ToSchema)]
pub(crate) struct Deleted {
    id: Uuid,
    /// Always true.
    deleted: bool,
}

impl Deleted {
    pub(crate) fn new(id: [u8; 16]) -> Self {
        Self { id: Uuid::from_bytes(id), deleted: true }
    }
}

/// A memory whose text is too long for the response; read it by its id.
#[derive(Serialize, ToSchema)]
pub(crate) struct TooLong {
    id: Uuid,
    /// Always true.
    too_long: bool,
}

impl From<TouchedMemory> for MemoryOrDeleted {
    fn from(TouchedMemory { id, is_duplicate, now }: TouchedMemory) -> Self {
        match now {
            Touched::Memory(record) => {
                let duplicate_of = is_duplicate.then_some(Id(id));
                Self::Memory(Box::new(Memory { duplicate_of, ..(&*record).into() }))
            }
            Touched::Deleted => Self::Deleted(Deleted::new(id.0)),
            Touched::TooLong => {
                Self::TooLong(TooLong { id: Uuid::from_bytes(id.0), too_long: true })
            }
        }
    }
}

/// A memory that a write touched. If the write is a repetition, the memory may be deleted since, or
/// too long for the response.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum MemoryOrDeleted {
    Memory(Box<Memory>),
    Deleted(Deleted),
    TooLong(TooLong),
}

/// A memory, with its anchor if the request names it.
#[derive(Serialize, ToSchema)]
pub(crate) struct AnchoredMemory {
    #[serde(flatten)]
    memory: Memory,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<AnchorView>,
}

/// The heat from which a memory cools, and since when.
#[derive(Serialize, ToSchema)]
struct AnchorView {
    #[schema(minimum = 0, maximum = 1)]
    heat: f64,
    at: Time,
}

impl AnchoredMemory {
    pub(crate) fn new(record: &MemoryRecord, has_anchor: bool) -> Self {
        let heat = rounded(record.anchor.heat.into());
        let anchor = has_anchor.then_some(AnchorView { heat, at: Time(record.anchor.at) });
        Self { memory: record.into(), anchor }
    }
}

/// A memory with its score.
#[derive(Serialize, ToSchema)]
pub(crate) struct Scored {
    #[serde(flatten)]
    memory: Memory,
    score: f64,
}

/// What a search says beside its results.
#[derive(Serialize, ToSchema)]
pub(crate) struct SearchSummary {
    /// Whether one of the first results may answer the query. Null for a query without words.
    #[schema(required)]
    pub(crate) evidence: Option<EvidenceWord>,
    /// Archived memories, up to 100, that may answer the query and would be among the results of both tiers.
    pub(crate) cold_matches: usize,
}

impl SearchSummary {
    pub(crate) fn new(results: &SearchResults) -> Self {
        Self { evidence: results.evidence().map(OneOf), cold_matches: results.cold_matches }
    }
}

impl Scored {
    /// A memory of a list by heat.
    pub(crate) fn by_heat(record: &MemoryRecord) -> Self {
        Self { memory: record.into(), score: rounded(record.heat) }
    }
}

/// A result of a search.
#[derive(Serialize, ToSchema)]
pub(crate) struct SearchResult {
    #[serde(flatten)]
    scored: Scored,
    /// `graph_traversal`, if it was found as the neighbour of another result.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    /// True if its time comes before the score: the query asks for a time and nothing else, and this memory
    /// was stored then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    ranks_first: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explanation>,
}

impl SearchResult {
    /// `explain` adds every factor of the score, the time window of the query, and what else `results` say.
    pub(crate) fn new(hit: &Hit, results: &SearchResults, explain: bool) -> Self {
        let happened_at = hit.record.memory.happened_at();
        let window = results.window.as_ref().filter(|_| results.window_first);
        Self {
            scored: Scored { memory: (&hit.record).into(), score: hit.score },
            source: hit.via.map(|_| "graph_traversal"),
            ranks_first: window.is_some_and(|window| window.contains(happened_at)),
            explain: explain.then(|| Explanation::new(hit, results)),
        }
    }
}

/// The composition of a score. Results of graph traversal have no factors.
#[derive(Serialize, ToSchema)]
struct Explanation {
    #[serde(flatten)]
    #[schema(value_type = Factors)]
    factors: Option<Factors>,
    /// The score.
    fused_score: f64,
    #[schema(required)]
    context: Option<ContextSource>,
    #[schema(required)]
    temporal_window: Option<TemporalWindow>,
    #[schema(required)]
    graph: Option<TraversalPath>,
    /// What the reranker said, by which the first results are ordered. Null without one.
    #[schema(required)]
    relevance: Option<f64>,
    /// The same for all results.
    #[serde(flatten)]
    summary: SearchSummary,
}

/// Factors of a score: `base_score`, times `keyword_factor`, `temporal_factor` and `namespace_factor`. If
/// another memory replaces this one, the score is multiplied by `superseded_factor` too.
// `default` documents that they may be absent.
#[derive(Serialize, ToSchema, Default)]
#[serde(default)]
struct Factors {
    similarity: f64,
    cosine_distance: f64,
    similarity_weight: f64,
    heat: f64,
    heat_weight: f64,
    base_score: f64,
    /// `own` plus `neighbours`.
    keyword_overlap: f64,
    /// What the words of the memory give.
    own: f64,
    /// What memories stored next to this one give: `words_before`, and the `source_score` of `context` times its
    /// `share`, as an overlap that adds this product to the score.
    neighbours: f64,
    /// What the words of the three memories before give.
    words_before: f64,
    keyword_weight: f64,
    keyword_factor: f64,
    temporal_boost: f64,
    temporal_factor: f64,
    namespace_boost: f64,
    namespace_factor: f64,
    /// Less than 1 if another memory replaces this one.
    superseded_factor: f64,
}

/// The memory that was created next to the result and gave it its `neighbours`.
#[derive(Serialize, ToSchema)]
struct ContextSource {
    id: MemoryIdText,
    /// The score of that memory with heat 0 and without context.
    source_score: f64,
    share: f64,
}

/// The time window that a query refers to.
#[derive(Serialize, ToSchema)]
struct TemporalWindow {
    /// The words of the query that name it.
    reference: String,
    start: Time,
    end: Time,
}

/// The path of a result of graph traversal: its numbers multiply to the score.
#[derive(Serialize, ToSchema)]
struct TraversalPath {
    seed_id: MemoryIdText,
    seed_score: f64,
    edge_weight: f64,
    damping: f64,
}

impl Explanation {
    fn new(hit: &Hit, results: &SearchResults) -> Self {
        let weights = &hit.weights;
        let factors = hit.factors.as_ref().map(|factors| Factors {
            similarity: factors.similarity,
            cosine_distance: 1.0 - factors.similarity,
            similarity_weight: weights.similarity_weight,
            heat: factors.heat,
            heat_weight: weights.heat_weight,
            base_score: factors.base(weights),
            keyword_overlap: factors.keyword_overlap(),
            own: factors.own,
            neighbours: factors.neighbours,
            words_before: hit.passed.words_before,
            keyword_weight: weights.keyword_weight,
            keyword_factor: 1.0 + weights.keyword_weight * factors.keyword_overlap(),
            temporal_boost: factors.temporal_boost,
            temporal_factor: 1.0 + factors.temporal_boost,
            namespace_boost: factors.namespace_boost,
            namespace_factor: 1.0 + factors.namespace_boost,
            superseded_factor: factors.superseded_factor,
        });
        let context = hit.passed.context.map(|context| ContextSource {
            id: Id(context.id),
            source_score: context.source_score,
            share: context.share,
        });
        let window = results.window.as_ref().map(|window| TemporalWindow {
            reference: window.reference.clone(),
            start: Time(window.start),
            end: Time(window.end),
        });
        let traversal = hit.via.map(|via| TraversalPath {
            seed_id: Id(via.seed),
            seed_score: via.seed_score,
            edge_weight: via.edge_weight,
            damping: via.damping,
        });
        Self {
            factors,
            fused_score: hit.score,
            context,
            temporal_window: window,
            graph: traversal,
            relevance: hit.relevance,
            summary: SearchSummary::new(results),
        }
    }
}
