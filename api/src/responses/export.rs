//! The lines of an export: all that a memory, an edge or a trigger is, so that an import creates it as
//! it was. Numbers are exact, not rounded.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use storage::ImportedMemory;
use storage::model::edge::Edge;
use utoipa::ToSchema;

use crate::requests::fields::*;
use crate::requests::values::{Id, OneOf};
use crate::responses::Time;
use crate::responses::memory::{OriginView, metadata};
use crate::responses::trigger::TriggerView;

/// A line of an export.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportLine {
    /// The first line.
    HearthExport(ExportHeader),
    Memory(Box<MemoryLine>),
    Edge(EdgeLine),
    Trigger(Box<TriggerView>),
    /// The last line. An export without it is not complete.
    End(ExportEnd),
}

/// What an export holds.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExportHeader {
    /// The form of all lines.
    pub(crate) format: u32,
    /// The log index as of which everything is.
    pub(crate) index: u64,
    pub(crate) exported_at: Time,
    /// The namespace; null is all that the key may read.
    #[schema(required)]
    pub(crate) namespace: Option<String>,
    /// The model of the vectors.
    pub(crate) model: String,
}

/// How many lines there are, and the SHA-256 of their bytes, without the first and the last line.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExportEnd {
    pub(crate) memories: u64,
    pub(crate) edges: u64,
    pub(crate) triggers: u64,
    pub(crate) sha256: String,
}

/// A memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct MemoryLine {
    id: MemoryIdText,
    label: String,
    memory_type: MemoryTypeWord,
    namespace: String,
    decay_class: DecayClassWord,
    is_pinned: bool,
    is_locked: bool,
    flagged_for_review: bool,
    min_heat: f64,
    key_points: Vec<String>,
    tags: Vec<String>,
    #[schema(value_type = Object)]
    metadata: BTreeMap<String, Box<RawValue>>,
    /// The heat at `heat_at`. It cools from then on.
    heat: f64,
    heat_at: Time,
    stability: f64,
    recall_count: u32,
    #[schema(required)]
    last_recalled_at: Option<Time>,
    #[schema(required)]
    returned_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    #[schema(required)]
    archived_at: Option<Time>,
    #[schema(required)]
    superseded_by: Option<MemoryIdText>,
    #[schema(required)]
    echo_of: Option<MemoryIdText>,
    folded_from: Vec<MemoryIdText>,
    origin: OriginView,
    /// Its vector, if the export has vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    vector: Option<VectorLine>,
}

/// The vector of a memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct VectorLine {
    /// Id of the model, as hexadecimal digits.
    model: String,
    /// The components as little-endian f16, in base64.
    f16: String,
}

/// An edge.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeLine {
    source_id: MemoryIdText,
    target_id: MemoryIdText,
    relation: String,
    weight: f64,
    created_at: Time,
}

impl From<(&ImportedMemory, bool)> for MemoryLine {
    /// A memory, with its vector or without.
    fn from((of, has_vector): (&ImportedMemory, bool)) -> Self {
        let ImportedMemory { id, memory, anchor, vector } = of;
        let details = &memory.details;
        Self {
            id: Id(*id),
            label: memory.label.clone(),
            memory_type: OneOf(memory.memory_type),
            namespace: memory.namespace.clone(),
            decay_class: OneOf(memory.decay_class),
            is_pinned: memory.is_pinned,
            is_locked: memory.is_locked,
            flagged_for_review: memory.is_flagged,
            min_heat: memory.min_heat.into(),
            key_points: memory.key_points.clone(),
            tags: details.as_ref().map(|it| it.tags.clone()).unwrap_or_default(),
            metadata: details.as_deref().map(metadata).unwrap_or_default(),
            heat: anchor.heat.into(),
            heat_at: Time(anchor.at),
            stability: anchor.stability.into(),
            recall_count: anchor.recall_count,
            last_recalled_at: anchor.last_recall.map(Time),
            returned_at: anchor.returned_at.map(Time),
            created_at: Time(memory.created_at),
            updated_at: Time(memory.updated_at),
            archived_at: memory.archived_at.map(Time),
            superseded_by: memory.superseded_by.map(Id),
            echo_of: memory.echo_of.map(Id),
            folded_from: memory.folded_from.iter().copied().map(Id).collect(),
            origin: (&memory.origin).into(),
            vector: has_vector.then(|| VectorLine {
                model: hex::encode(vector.model.0),
                f16: STANDARD.encode(vector.half_bytes()),
            }),
        }
    }
}

impl From<&Edge> for EdgeLine {
    fn from(edge: &Edge) -> Self {
        Self {
            source_id: Id(edge.source),
            target_id: Id(edge.target),
            relation: edge.relation.clone(),
            weight: edge.weight.into(),
            created_at: Time(edge.created_at),
        }
    }
}
