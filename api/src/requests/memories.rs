//! Requests that create, change, list and delete memories, and feedback on them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use storage::command::BulkFilter;
use storage::model::details::DetailsPatch;
use storage::model::guard::GuardMark;
use storage::model::id::MemoryId;
use storage::model::memory::Origin;
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_BYTES_MAX};
use storage::model::vector::Vector;
use storage::{CREATE_MAX, MemoryPatch};
use utoipa::openapi::schema::{Object, Type};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use storage::command::EdgeRef;

use crate::error::{ApiError, ApiResult};
use crate::requests::JsonBody;
use crate::requests::details::{Metadata, Tags, details};
use crate::requests::fields::*;
use crate::requests::numbers::Heat;
use crate::requests::times::GivenTimes;
use crate::requests::values::{
    Id, Items, JsonObject, SOME_TEXT, TextForm, first_non_blank, non_empty, object,
};

/// A new memory.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(example = json!({"label": "The customer prefers invoices in German.", "memory_type": "preference", "key_points": ["invoice", "German"], "tags": ["billing"]}))]
pub(crate) struct NewMemory {
    /// Its text, at most 64 KiB.
    #[schema(value_type = FullLabel, required)]
    pub(crate) label: Option<Label>,
    /// Alias of `label`, and first of them: the full text where clients send both.
    #[schema(ignore)]
    pub(crate) pointer_summary: Option<Label>,
    /// Alias of `label`, last of them.
    #[schema(ignore)]
    pub(crate) content: Option<Label>,
    #[schema(default = "episodic")]
    pub(crate) memory_type: Option<MemoryTypeWord>,
    #[schema(schema_with = single_namespace)]
    pub(crate) namespace: Option<Namespace>,
    pub(crate) is_pinned: Option<bool>,
    #[schema(default = "normal")]
    pub(crate) decay_class: Option<DecayClassWord>,
    /// Heat that it never cools below.
    #[schema(default = 0)]
    pub(crate) min_heat: Option<Heat>,
    #[schema(default = 1)]
    pub(crate) initial_heat: Option<Heat>,
    /// Alias of `initial_heat`, which comes first.
    #[schema(ignore)]
    pub(crate) heat: Option<Heat>,
    /// At most 256 bytes each; memories that share one get an edge.
    pub(crate) key_points: Option<KeyPoints>,
    /// Filters find the memory by them.
    pub(crate) tags: Option<Tags>,
    /// Any JSON object of at most 16 KiB and 64 entries. Filters find the memory by its short values.
    pub(crate) metadata: Option<Metadata>,
    /// The memory that it replaces, of the same namespace.
    #[serde(default, deserialize_with = "id_or_empty")]
    pub(crate) supersedes: Option<MemoryIdText>,
    /// What happens if the namespace has a memory of this type with the same text; the tenant's
    /// setting by default.
    pub(crate) on_duplicate: Option<OnDuplicateWord>,
    /// When it happened, if that is not now: any time, or a day. Searches for a time find it by this.
    pub(crate) occurred_at: Option<TimeText>,
    /// From when on it holds; by default since it happened.
    pub(crate) valid_from: Option<TimeText>,
    /// Until when it holds, a day included; by default without end, or until another one replaces it.
    pub(crate) valid_until: Option<TimeText>,
    /// When it is deleted: by the next tick after that.
    pub(crate) expires_at: Option<TimeText>,
    /// Seconds after which it is deleted; before `expires_at`.
    pub(crate) ttl_seconds: Option<TtlSeconds>,
    /// Alias of `ttl_seconds`, which comes first.
    #[schema(ignore)]
    pub(crate) ttl: Option<TtlSeconds>,
    /// Whether each recall begins `ttl_seconds` anew.
    #[schema(default = false)]
    pub(crate) refresh_on_read: Option<bool>,
    /// An id of the client's own, unique in the namespace. A memory that has it is replaced: its text, type, key
    /// points, tags, metadata and times. Its heat stays.
    pub(crate) external_id: Option<ExternalId>,
}

/// An id. An empty text is none.
fn id_or_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MemoryIdText>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    let id = text.map(|text| text.parse().map_err(|_| D::Error::custom(MemoryId::EXPECTED)));
    Ok(id.transpose()?.map(Id))
}

/// The id of the memory to which a client has given an id.
pub(crate) fn external_id_of(namespace: &str, external_id: &str) -> MemoryId {
    MemoryId::of_parts([namespace, "external", external_id])
}

impl NewMemory {
    /// The memory to create, without its vector; in the namespace `home` if it names none.
    pub(crate) fn into_memory(self, home: &str, origin: Origin) -> ApiResult<storage::NewMemory> {
        let label = label(self.pointer_summary, self.label, self.content)?;
        let namespace = match non_empty(self.namespace) {
            Some(name) => concrete(name)?,
            None => concrete(home.to_owned())?,
        };
        let heat = self.initial_heat.or(self.heat);
        let external_id = self.external_id.map(|id| id.0);
        let id = match &external_id {
            Some(external_id) => external_id_of(&namespace, external_id),
            None => MemoryId(Uuid::now_v7().into_bytes()),
        };
        Ok(storage::NewMemory {
            id,
            label: label.ok_or_else(|| ApiError::invalid("label", "is required"))?,
            memory_type: self.memory_type.map_or(MemoryType::Episodic, |it| it.0),
            namespace,
            decay_class: self.decay_class.map_or(DecayClass::Normal, |it| it.0),
            is_pinned: self.is_pinned.unwrap_or(false),
            min_heat: self.min_heat.map_or(0.0, |heat| heat.0 as f32),
            initial_heat: heat.map_or(1.0, |heat| heat.0 as f32),
            key_points: self.key_points.unwrap_or_default().0,
            vector: Vector::default(),
            suggestions: Vec::new(),
            supersedes: self.supersedes.map(|id| id.0),
            on_duplicate: self.on_duplicate.map(|it| it.0),
            origin,
            folds: Vec::new(),
            details: details(self.tags, self.metadata),
            times: GivenTimes {
                occurred_at: self.occurred_at.map(|it| it.0),
                valid_from: self.valid_from.map(|it| it.0),
                valid_until: self.valid_until.map(|it| it.0),
                expires_at: self.expires_at.map(|it| it.0),
                ttl_seconds: self.ttl_seconds.or(self.ttl).map(|it| it.0),
                refresh_on_read: self.refresh_on_read,
            }
            .new_times(),
            external_id,
            guard: GuardMark::default(),
            unless_rejected: Vec::new(),
        })
    }
}

/// Changes to a memory; absent fields stay.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(example = json!({"label": "The customer prefers invoices in English.", "is_pinned": true}))]
pub(crate) struct MemoryChanges {
    #[schema(value_type = Option<FullLabel>)]
    pub(crate) label: Option<Label>,
    /// Alias of `label`, and first of them.
    #[schema(ignore)]
    pub(crate) pointer_summary: Option<Label>,
    /// Alias of `label`, last of them.
    #[schema(ignore)]
    pub(crate) content: Option<Label>,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// Moves the memory.
    #[schema(schema_with = single_namespace)]
    pub(crate) namespace: Option<Namespace>,
    pub(crate) is_pinned: Option<bool>,
    /// A locked memory can be changed, but not deleted.
    pub(crate) is_locked: Option<bool>,
    /// Feedback `wrong` and the guard set it; a reviewer clears it.
    pub(crate) flagged_for_review: Option<bool>,
    /// `true`: an admin has reviewed it. It leaves the quarantine, and is flagged no more.
    pub(crate) reviewed: Option<bool>,
    pub(crate) decay_class: Option<DecayClassWord>,
    pub(crate) min_heat: Option<Heat>,
    /// All tags from now on.
    pub(crate) tags: Option<Tags>,
    /// Tags that it gets beside those.
    pub(crate) add_tags: Option<Tags>,
    /// Tags that it loses.
    pub(crate) remove_tags: Option<Tags>,
    /// All metadata from now on.
    pub(crate) metadata: Option<Metadata>,
    /// Sets the heat as of now.
    pub(crate) current_heat: Option<Heat>,
    /// Alias of `current_heat`, which comes first.
    #[schema(ignore)]
    pub(crate) heat: Option<Heat>,
    /// When it happened, any time, or a day. An empty text removes it, as for all times.
    pub(crate) occurred_at: Option<TimeText>,
    /// From when on it holds; by default since it happened.
    pub(crate) valid_from: Option<TimeText>,
    /// Until when it holds, a day included; by default without end, or until another one replaces it.
    pub(crate) valid_until: Option<TimeText>,
    /// When it is deleted: by the next tick after that.
    pub(crate) expires_at: Option<TimeText>,
    /// Seconds from now on after which it is deleted; before `expires_at`.
    pub(crate) ttl_seconds: Option<TtlSeconds>,
    /// Alias of `ttl_seconds`, which comes first.
    #[schema(ignore)]
    pub(crate) ttl: Option<TtlSeconds>,
    /// Whether each recall begins `ttl_seconds` anew.
    pub(crate) refresh_on_read: Option<bool>,
}

impl MemoryChanges {
    /// The changes; a new label without its vector.
    pub(crate) fn into_patch(self) -> ApiResult<MemoryPatch> {
        let label = label(self.pointer_summary, self.label, self.content)?;
        Ok(MemoryPatch {
            label: label.map(|label| (label, Vector::default())),
            memory_type: self.memory_type.map(|it| it.0),
            namespace: non_empty(self.namespace).map(concrete).transpose()?,
            decay_class: self.decay_class.map(|it| it.0),
            is_pinned: self.is_pinned,
            is_locked: self.is_locked,
            is_flagged: self.flagged_for_review,
            is_reviewed: self.reviewed.unwrap_or(false),
            guard: GuardMark::default(),
            examined_in: Vec::new(),
            moved: None,
            min_heat: self.min_heat.map(|heat| heat.0 as f32),
            current_heat: self.current_heat.or(self.heat).map(|heat| heat.0 as f32),
            details: DetailsPatch {
                tags: self.tags.map(|it| it.0),
                add_tags: self.add_tags.unwrap_or_default().0,
                remove_tags: self.remove_tags.unwrap_or_default().0,
                metadata: self.metadata.map(|it| it.0),
            },
            times: GivenTimes {
                occurred_at: self.occurred_at.map(|it| it.0),
                valid_from: self.valid_from.map(|it| it.0),
                valid_until: self.valid_until.map(|it| it.0),
                expires_at: self.expires_at.map(|it| it.0),
                ttl_seconds: self.ttl_seconds.or(self.ttl).map(|it| it.0),
                refresh_on_read: self.refresh_on_read,
            }
            .patch(),
            similar: Vec::new(),
        })
    }
}

// The derive below needs a literal.
const _: () = assert!(CREATE_MAX == 50);

/// The memory that replaces another one.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"by": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c02"}))]
pub(crate) struct Supersession {
    pub(crate) by: MemoryIdText,
}

/// New memories, all or none.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"nodes": [{"label": "The office moved to Hamburg.", "memory_type": "fact"}, {"label": "Release 2.1 went out on Monday.", "memory_type": "episodic"}]}))]
pub(crate) struct NewMemories {
    #[schema(value_type = Vec<NewMemory>, min_items = 1, max_items = 50)]
    pub(crate) nodes: Items<JsonObject<NewMemory>, 1, CREATE_MAX>,
}

/// The memories that a bulk request names.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"ids": ["019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c02"]}))]
pub(crate) struct BulkIds {
    pub(crate) ids: BulkMemoryIds,
}

/// The same changes to several memories.
#[derive(ToSchema)]
#[schema(example = json!({"ids": ["019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c02"], "is_pinned": true}))]
pub(crate) struct BulkChanges {
    #[serde(flatten)]
    pub(crate) ids: BulkIds,
    #[serde(flatten)]
    pub(crate) changes: MemoryChanges,
}

impl BulkChanges {
    /// Parses both parts from the same fields. Errors of a derived parser would name no field
    /// within a flattened part.
    pub(crate) fn parse(body: &JsonBody) -> ApiResult<Self> {
        Ok(Self { ids: body.parse()?, changes: body.parse()? })
    }
}

/// Relation of an edge that names none.
const RELATION_DEFAULT: &str = "related_to";

/// Two memories and their relation.
#[derive(Debug, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
#[schema(example = json!({"source_id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "target_id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c02", "relation": "explains"}))]
pub(crate) struct Relation {
    /// The memory where the edge starts.
    source_id: MemoryIdText,
    /// The memory where it ends: another one.
    target_id: MemoryIdText,
    /// For example `depends_on`, `part_of` or `contradicts`.
    #[schema(default = "related_to")]
    relation: Option<RelationName>,
}

impl Relation {
    pub(crate) fn into_edge(self) -> ApiResult<EdgeRef> {
        let (source, target) = (self.source_id.0, self.target_id.0);
        if source == target {
            return Err(ApiError::invalid("target_id", "must differ from source_id"));
        }
        let relation = self.relation.map_or_else(|| RELATION_DEFAULT.to_owned(), |text| text.0);
        Ok(EdgeRef { source, target, relation })
    }
}

/// Which memories to delete. With ids and filters, the intersection is deleted. Without both,
/// the request is rejected.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"ids": ["019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c02"]}))]
pub(crate) struct BulkDeletion {
    pub(crate) ids: Option<BulkMemoryIds>,
    memory_type: Option<MemoryTypeWord>,
    #[schema(schema_with = any_namespace)]
    namespace: Option<Namespace>,
    /// Whether the texts are wrong: captures and imports do not bring them back.
    #[serde(default)]
    pub(crate) reject: bool,
}

/// How to delete a memory.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeletionQuery {
    /// Whether the text is wrong: captures and imports do not bring it back.
    #[param(default = false)]
    pub(crate) reject: Option<bool>,
}

impl BulkDeletion {
    /// The filters, with `*` as a namespace of its own.
    pub(crate) fn filter(&self) -> ApiResult<BulkFilter> {
        Ok(BulkFilter {
            memory_type: self.memory_type.map(|it| it.0),
            namespace: named_namespace(self.namespace.clone())?,
        })
    }
}

/// Feedback on a memory that the path names.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"signal": "relevant"}))]
pub(crate) struct FeedbackSignal {
    #[serde(alias = "feedback_type")]
    pub(crate) signal: SignalWord,
}

/// Feedback on a memory.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"node_id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c01", "signal": "outdated"}))]
pub(crate) struct Feedback {
    pub(crate) node_id: MemoryIdText,
    #[serde(alias = "feedback_type")]
    pub(crate) signal: SignalWord,
}

/// The parts of an origin that a filter names.
pub(crate) fn origin(
    key: Option<KeyIdText>,
    agent: &Option<AgentName>,
    client: &Option<OriginName>,
    tool: &Option<OriginName>,
) -> Origin {
    Origin {
        key: key.map(|key| key.0),
        agent: agent.as_ref().map(|name| name.0.clone()),
        client: client.as_ref().map(|name| name.0.clone()),
        tool: tool.as_ref().map(|name| name.0.clone()),
    }
}

/// A namespace of a request, `*` included; blank is rejected.
pub(crate) fn named_namespace(namespace: Option<Namespace>) -> ApiResult<Option<String>> {
    match non_empty(namespace) {
        Some(name) if name.trim().is_empty() => {
            Err(ApiError::invalid("namespace", "must not be empty"))
        }
        name => Ok(name),
    }
}

/// A namespace that a memory can be in: `*` names all of them.
pub(crate) fn concrete(namespace: String) -> ApiResult<String> {
    match namespace.as_str() {
        "*" => Err(ApiError::invalid("namespace", "must name one namespace")),
        name if name.trim().is_empty() => Err(ApiError::invalid("namespace", "must not be empty")),
        _ => Ok(namespace),
    }
}

fn label(
    pointer_summary: Option<Label>,
    label: Option<Label>,
    content: Option<Label>,
) -> ApiResult<Option<String>> {
    let is_empty = label.as_ref().is_some_and(|label| label.0.is_empty());
    let found = first_non_blank([
        ("pointer_summary", pointer_summary),
        ("label", label),
        ("content", content),
    ])?;
    match found {
        None if is_empty => Err(ApiError::invalid("label", "must not be empty")),
        found => Ok(found),
    }
}

pub(crate) fn single_namespace() -> Object {
    namespace_schema(r"^([^\s\u0085].+|[^\s\u0085*])$", "The namespace.")
}

/// Schema of a namespace, or `*` for all.
pub(crate) fn any_namespace() -> Object {
    namespace_schema(SOME_TEXT, "Only memories of this namespace; `*` is all.")
}

/// The derive takes no description of a field whose schema is a function.
fn namespace_schema(pattern: &str, description: &str) -> Object {
    let text = object(Type::String).min_length(Some(1)).max_length(Some(NAMESPACE_BYTES_MAX));
    text.pattern(Some(pattern)).description(Some(description)).build()
}
