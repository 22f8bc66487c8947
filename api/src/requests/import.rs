//! The lines of an import: those of an export, validated like other requests.

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use storage::ImportedMemory;
use storage::model::edge::{Edge, SUPERSEDED_MAX};
use storage::model::guard::{Detection, GuardMark};
use storage::model::heat::{Anchor, STABILITY_MAX};
use storage::model::id::{Timestamp, TriggerId};
use storage::model::memory::Origin;
use storage::model::memory::{DecayClass, Memory, MemoryType};
use storage::model::times::Times;
use storage::model::trigger::{Firings, Trigger, TriggerAction, TriggerActionKind};
use storage::model::vector::{ModelId, Vector};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::IMPORT_LINES_MAX;
use crate::requests::JsonBody;
use crate::requests::details::{Metadata, Tags, details};
use crate::requests::fields::*;
use crate::requests::memories::concrete;
use crate::requests::numbers::Heat;
use crate::requests::times::TimeSpan;
use crate::requests::triggers::NewTrigger;
use crate::requests::values::Items;
use crate::service::transfer::ImportItems;
use crate::service::triggers::ActionSettings;

/// The query of an import.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImportQuery {
    /// Validates the lines, and counts those that exist; nothing is created.
    pub(crate) dry_run: Option<bool>,
    /// Whether texts are created that a client has rejected as wrong.
    #[param(default = false)]
    pub(crate) include_rejected: Option<bool>,
}

/// What to export.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
    /// Adds the vectors of memories: a cluster with the same model need not embed them again.
    pub(crate) vectors: Option<bool>,
}

/// A line.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ImportLine {
    /// The header and the end of an export are checked by who reads the whole of it.
    HearthExport(IgnoredAny),
    End(IgnoredAny),
    Memory(Box<ImportedMemoryLine>),
    Edge(EdgeLine),
    Trigger(Box<RawValue>),
}

/// A memory. Only id and text are required.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ImportedMemoryLine {
    pub(crate) id: MemoryIdText,
    label: FullLabel,
    memory_type: Option<MemoryTypeWord>,
    namespace: Option<Namespace>,
    decay_class: Option<DecayClassWord>,
    is_pinned: Option<bool>,
    is_locked: Option<bool>,
    flagged_for_review: Option<bool>,
    min_heat: Option<Heat>,
    key_points: Option<KeyPoints>,
    tags: Option<Tags>,
    metadata: Option<Metadata>,
    heat: Option<Heat>,
    heat_at: Option<TimeText>,
    stability: Option<f64>,
    recall_count: Option<u32>,
    last_recalled_at: Option<TimeText>,
    returned_at: Option<TimeText>,
    created_at: Option<TimeText>,
    updated_at: Option<TimeText>,
    archived_at: Option<TimeText>,
    superseded_by: Option<MemoryIdText>,
    echo_of: Option<MemoryIdText>,
    #[schema(value_type = Option<Vec<uuid::Uuid>>, max_items = 16)]
    folded_from: Option<Items<MemoryIdText, 0, SUPERSEDED_MAX>>,
    occurred_at: Option<TimeText>,
    valid_from: Option<TimeText>,
    valid_until: Option<TimeText>,
    superseded_at: Option<TimeText>,
    expires_at: Option<TimeText>,
    ttl_seconds: Option<TtlSeconds>,
    refresh_on_read: Option<bool>,
    external_id: Option<ExternalId>,
    #[schema(value_type = Option<Vec<DetectionWord>>, max_items = 5)]
    detections: Option<Items<DetectionWord, 0, { Detection::ALL.len() }>>,
    quarantined: Option<bool>,
    reviewed: Option<bool>,
    origin: Option<OriginLine>,
    vector: Option<VectorLine>,
}

/// The vector of a memory.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ImportedVectorLine)]
struct VectorLine {
    model: String,
    f16: String,
}

/// Where a memory comes from.
#[derive(Debug, Deserialize, ToSchema)]
struct OriginLine {
    key_id: Option<KeyIdText>,
    agent: Option<AgentName>,
    client: Option<OriginName>,
    tool: Option<OriginName>,
}

/// An edge.
#[derive(Debug, Deserialize)]
pub(crate) struct EdgeLine {
    source_id: MemoryIdText,
    target_id: MemoryIdText,
    relation: RelationName,
    weight: Option<Heat>,
    created_at: Option<TimeText>,
}

/// What a trigger has beside the fields of a new one.
#[derive(Debug, Deserialize)]
pub(crate) struct TriggerHistory {
    pub(crate) id: TriggerIdText,
    #[serde(default)]
    action_config: Signed,
    fire_count: Option<u64>,
    last_fired_at: Option<TimeText>,
    created_at: Option<TimeText>,
    updated_at: Option<TimeText>,
}

/// Whether the requests of a webhook were signed. The secret is in no export.
#[derive(Debug, Default, Deserialize)]
struct Signed {
    #[serde(default)]
    signed: bool,
}

/// What the lines of an import do not say themselves.
pub(crate) struct LineContext {
    pub(crate) now: Timestamp,
    pub(crate) model: ModelId,
    /// Namespace of memories that name none.
    pub(crate) home: String,
}

/// The items of an import. `action` makes the action of a trigger.
pub(crate) fn import_items(
    JsonBody(body): &JsonBody,
    context: &LineContext,
    action: impl Fn(TriggerId, TriggerActionKind, ActionSettings) -> ApiResult<TriggerAction>,
) -> ApiResult<ImportItems> {
    let lines = || {
        let numbered = body.split(|byte| *byte == b'\n').zip(1..);
        numbered.filter(|(line, _)| !line.trim_ascii().is_empty())
    };
    if lines().count() > IMPORT_LINES_MAX {
        let message = format!("a request has at most {IMPORT_LINES_MAX} lines");
        return Err(ApiError::new(ErrorKind::TooLarge, "too_large", message));
    }
    let mut items = ImportItems::default();
    let LineContext { now, model, home } = context;
    for (line, number) in lines() {
        let parsed = match JsonBody(body.slice_ref(line)).parse::<ImportLine>() {
            Ok(ImportLine::HearthExport(_) | ImportLine::End(_)) => Ok(()),
            Ok(ImportLine::Memory(line)) => line
                .into_memory(*now, *model, home)
                .map(|memory| items.memories.push(number, memory)),
            Ok(ImportLine::Edge(line)) => {
                items.edges.push(number, EdgeLine::into_edge(line, *now));
                Ok(())
            }
            Ok(ImportLine::Trigger(line)) => {
                imported_trigger(&line, *now, &action).map(|it| items.triggers.push(number, it))
            }
            Err(error) => Err(error),
        };
        parsed.unwrap_or_else(|error| items.rejected.push((number, error)));
    }
    Ok(items)
}

/// The trigger of a line. A webhook that was signed has no secret here, so it is disabled.
fn imported_trigger(
    line: &RawValue,
    now: Timestamp,
    action: impl Fn(TriggerId, TriggerActionKind, ActionSettings) -> ApiResult<TriggerAction>,
) -> ApiResult<(TriggerId, Trigger, Firings)> {
    let body = JsonBody(Bytes::from(line.get().to_owned()));
    let (new, history) = (body.parse::<NewTrigger>()?, body.parse::<TriggerHistory>()?);
    let (id, was_signed) = (history.id.0, history.was_signed());
    let (created_at, updated_at, firings) = history.into_parts(now);
    let action = action(id, new.action.0, new.action_settings()?)?;
    let new = new.into_trigger(action);
    let enabled = new.enabled && !was_signed;
    Ok((id, Trigger { enabled, created_at, updated_at, ..new }, firings))
}

impl VectorLine {
    /// The vector, if it is of this model and valid.
    fn of(&self, model: ModelId) -> Option<Vector> {
        let is_same = self.model == hex::encode(model.0);
        let bytes = is_same.then(|| STANDARD.decode(&self.f16).ok()).flatten()?;
        Vector::of_half_bytes(model, bytes).ok()
    }
}

impl EdgeLine {
    /// The edge. Absent times are `now`.
    pub(crate) fn into_edge(self, now: Timestamp) -> Edge {
        Edge {
            source: self.source_id.0,
            target: self.target_id.0,
            relation: self.relation.0,
            weight: self.weight.map_or(1.0, |weight| weight.0 as f32),
            created_at: instant(self.created_at).unwrap_or(now).min(now),
        }
    }
}

impl TriggerHistory {
    /// Whether its webhook needs a secret.
    pub(crate) fn was_signed(&self) -> bool {
        self.action_config.signed
    }

    /// The times of creation and of the last change, and the firings.
    pub(crate) fn into_parts(self, now: Timestamp) -> (Timestamp, Timestamp, Firings) {
        let created_at = instant(self.created_at).unwrap_or(now).min(now);
        let updated_at = instant(self.updated_at).unwrap_or(created_at).min(now);
        let count = self.fire_count.unwrap_or(0);
        let last_at = instant(self.last_fired_at).map(|time| time.min(now));
        (created_at, updated_at, Firings { count, total: count, last_at, pending: 0 })
    }
}

fn instant(time: Option<TimeText>) -> Option<Timestamp> {
    time.and_then(|time| TimeSpan::start(time.0))
}

impl ImportedMemoryLine {
    /// The memory, with the vector of the line if it is of `model`, else without one. Times that are
    /// absent are `now`, and an absent namespace is `home`.
    pub(crate) fn into_memory(
        self,
        now: Timestamp,
        model: ModelId,
        home: &str,
    ) -> ApiResult<ImportedMemory> {
        let created_at = instant(self.created_at).unwrap_or(now).min(now);
        let origin = self.origin.map_or_else(Origin::default, |origin| Origin {
            key: origin.key_id.map(|id| id.0),
            agent: origin.agent.map(|it| it.0),
            client: origin.client.map(|it| it.0),
            tool: origin.tool.map(|it| it.0),
        });
        let memory = Memory {
            label: self.label.0,
            memory_type: self.memory_type.map_or(MemoryType::Episodic, |it| it.0),
            namespace: match self.namespace {
                Some(name) => concrete(name.0)?,
                None => home.to_owned(),
            },
            decay_class: self.decay_class.map_or(DecayClass::Normal, |it| it.0),
            is_pinned: self.is_pinned.unwrap_or(false),
            is_locked: self.is_locked.unwrap_or(false),
            is_flagged: self.flagged_for_review.unwrap_or(false),
            min_heat: self.min_heat.map_or(0.0, |heat| heat.0 as f32),
            key_points: self.key_points.unwrap_or_default().0,
            created_at,
            updated_at: instant(self.updated_at).unwrap_or(created_at).min(now),
            archived_at: instant(self.archived_at).map(|time| time.min(now)),
            superseded_by: self.superseded_by.map(|id| id.0),
            echo_of: self.echo_of.map(|id| id.0),
            origin,
            changed_by: None,
            locked_by: None,
            folded_from: self
                .folded_from
                .map_or(Vec::new(), |ids| ids.0.into_iter().map(|id| id.0).collect()),
            details: details(self.tags, self.metadata),
            times: Times {
                occurred_at: instant(self.occurred_at),
                valid_from: instant(self.valid_from),
                valid_until: instant(self.valid_until),
                superseded_at: instant(self.superseded_at),
                expires_at: instant(self.expires_at),
                ttl_seconds: self.ttl_seconds.map(|seconds| seconds.0),
                refresh_on_read: self.refresh_on_read.unwrap_or(false),
            }
            .some(),
            external_id: self.external_id.map(|id| id.0),
            guard: GuardMark::of(
                self.detections.map_or(Vec::new(), |all| all.0).into_iter().map(|it| it.0),
                self.quarantined.unwrap_or(false),
                self.reviewed.unwrap_or(false),
            ),
        };
        let stability = self.stability.unwrap_or(1.0);
        if !(1.0..=f64::from(STABILITY_MAX)).contains(&stability) {
            let message = format!("must be a number from 1 to {STABILITY_MAX}");
            return Err(ApiError::invalid("stability", message));
        }
        let heat = self.heat.map_or(1.0, |heat| heat.0 as f32);
        let anchor = Anchor {
            stability: stability as f32,
            last_recall: instant(self.last_recalled_at).map(|time| time.min(now)),
            returned_at: instant(self.returned_at).map(|time| time.min(now)),
            recall_count: self.recall_count.unwrap_or(0),
            ..Anchor::fresh(heat, instant(self.heat_at).unwrap_or(created_at).min(now))
        };
        let vector = self.vector.and_then(|vector| vector.of(model)).unwrap_or_default();
        let unless_rejected = Vec::new();
        Ok(ImportedMemory { id: self.id.0, memory, anchor, vector, unless_rejected })
    }
}
