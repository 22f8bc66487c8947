//! A memory as every client reads it, by itself and as the result of a search.

use serde::Serialize;
use storage::Hit;
use storage::model::id::{MemoryId, TriggerId};
use storage::model::memory::{MemoryRecord, Tier};
use storage::model::score::rounded;
use storage::model::temporal::Window;
use utoipa::ToSchema;

use super::{schema, timestamp};

/// A memory: both names of its heat, both names of its text.
#[derive(Serialize, ToSchema)]
pub(crate) struct Memory {
    #[schema(format = Uuid)]
    id: String,
    /// Its text.
    label: String,
    /// Its text, by another name.
    pointer_summary: String,
    #[schema(schema_with = schema::memory_type)]
    memory_type: &'static str,
    namespace: String,
    /// Its heat at the moment of the answer.
    #[schema(schema_with = schema::heat)]
    current_heat: f64,
    /// The same, by another name.
    #[schema(schema_with = schema::heat)]
    heat: f64,
    base_utility: f64,
    /// Multiplies its half-life.
    #[schema(minimum = 0)]
    stability: f64,
    is_pinned: bool,
    is_locked: bool,
    flagged_for_review: bool,
    #[schema(schema_with = schema::decay_class)]
    decay_class: &'static str,
    /// It never cools below.
    #[schema(schema_with = schema::heat)]
    min_heat: f64,
    modality: &'static str,
    key_points: Vec<String>,
    recall_count: u32,
    #[schema(required, format = DateTime)]
    last_recalled_at: Option<String>,
    #[schema(schema_with = schema::tier)]
    tier: &'static str,
    #[schema(required, format = DateTime)]
    archived_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl From<&MemoryRecord> for Memory {
    fn from(record: &MemoryRecord) -> Self {
        let memory = &record.memory;
        let heat = rounded(record.heat);
        Self {
            id: record.id.to_string(),
            label: memory.label.clone(),
            pointer_summary: memory.label.clone(),
            memory_type: memory.memory_type.name(),
            namespace: memory.namespace.clone(),
            current_heat: heat,
            heat,
            base_utility: 0.0,
            stability: rounded(f64::from(record.anchor.stability)),
            is_pinned: memory.is_pinned,
            is_locked: memory.is_locked,
            flagged_for_review: memory.is_flagged,
            decay_class: memory.decay_class.name(),
            min_heat: rounded(f64::from(memory.min_heat)),
            modality: "text",
            key_points: memory.key_points.clone(),
            recall_count: record.anchor.recall_count,
            last_recalled_at: record.anchor.last_recall.map(timestamp),
            tier: match memory.tier() {
                Tier::Hot => "hot",
                Tier::Cold => "cold",
            },
            archived_at: memory.archived_at.map(timestamp),
            created_at: timestamp(memory.created_at),
            updated_at: timestamp(memory.updated_at),
        }
    }
}

/// A memory, or a trigger, that is no more.
#[derive(Serialize, ToSchema)]
pub(crate) struct Gone {
    #[schema(format = Uuid)]
    id: String,
    /// Always true.
    deleted: bool,
}

impl From<MemoryId> for Gone {
    fn from(id: MemoryId) -> Self {
        Self { id: id.to_string(), deleted: true }
    }
}

impl From<TriggerId> for Gone {
    fn from(id: TriggerId) -> Self {
        Self { id: id.to_string(), deleted: true }
    }
}

/// A memory that was written; or gone since, when an earlier request did it.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum Written {
    Memory(Box<Memory>),
    Gone(Gone),
}

/// A memory with the score that it was found by.
#[derive(Serialize, ToSchema)]
pub(crate) struct Scored {
    #[serde(flatten)]
    memory: Memory,
    score: f64,
}

impl Scored {
    /// A memory of a list by heat.
    pub(crate) fn by_heat(record: &MemoryRecord) -> Self {
        Self { memory: record.into(), score: rounded(record.heat) }
    }
}

/// A result of a search.
#[derive(Serialize, ToSchema)]
pub(crate) struct Found {
    #[serde(flatten)]
    scored: Scored,
    /// `graph_traversal`, if it was found as the neighbour of another.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explain: Option<Explanation>,
}

impl Found {
    /// `explain` adds every factor of the score, with the time that the query names.
    pub(crate) fn new(hit: &Hit, explain: Option<Option<&Window>>) -> Self {
        Self {
            scored: Scored { memory: (&hit.record).into(), score: hit.score },
            source: hit.via.map(|_| "graph_traversal"),
            explain: explain.map(|window| Explanation::new(hit, window)),
        }
    }
}

/// How a score came about. The factors are there unless it came over the graph.
#[derive(Serialize, ToSchema)]
struct Explanation {
    #[serde(flatten)]
    #[schema(value_type = Factors)]
    factors: Option<Factors>,
    /// The score.
    fused_score: f64,
    #[schema(required)]
    temporal_window: Option<TemporalWindow>,
    #[schema(required)]
    graph: Option<Traversal>,
}

/// Factors of a score: `base_score`, times the three `…_factor`s.
// `default` says that they may be absent.
#[derive(Serialize, ToSchema, Default)]
#[serde(default)]
struct Factors {
    similarity: f64,
    cosine_distance: f64,
    similarity_weight: f64,
    heat: f64,
    heat_weight: f64,
    base_score: f64,
    keyword_overlap: f64,
    keyword_weight: f64,
    keyword_factor: f64,
    temporal_boost: f64,
    temporal_factor: f64,
    namespace_boost: f64,
    namespace_factor: f64,
}

/// The time that a query names.
#[derive(Serialize, ToSchema)]
struct TemporalWindow {
    /// The query's words for it.
    reference: String,
    #[schema(format = DateTime)]
    start: String,
    #[schema(format = DateTime)]
    end: String,
}

/// How a memory was reached over the graph; these multiply to its score.
#[derive(Serialize, ToSchema)]
struct Traversal {
    #[schema(format = Uuid)]
    seed_id: String,
    seed_score: f64,
    edge_weight: f64,
    damping: f64,
}

impl Explanation {
    fn new(hit: &Hit, window: Option<&Window>) -> Self {
        let weights = &hit.weights;
        let factors = hit.factors.as_ref().map(|factors| Factors {
            similarity: factors.similarity,
            cosine_distance: 1.0 - factors.similarity,
            similarity_weight: weights.similarity_weight,
            heat: factors.heat,
            heat_weight: weights.heat_weight,
            base_score: factors.base(weights),
            keyword_overlap: factors.keyword_overlap,
            keyword_weight: weights.keyword_weight,
            keyword_factor: 1.0 + weights.keyword_weight * factors.keyword_overlap,
            temporal_boost: factors.temporal_boost,
            temporal_factor: 1.0 + factors.temporal_boost,
            namespace_boost: factors.namespace_boost,
            namespace_factor: 1.0 + factors.namespace_boost,
        });
        let window = window.map(|window| TemporalWindow {
            reference: window.reference.clone(),
            start: timestamp(window.start),
            end: timestamp(window.end),
        });
        let traversal = hit.via.map(|via| Traversal {
            seed_id: via.seed.to_string(),
            seed_score: via.seed_score,
            edge_weight: via.edge_weight,
            damping: via.damping,
        });
        Self { factors, fused_score: hit.score, temporal_window: window, graph: traversal }
    }
}
