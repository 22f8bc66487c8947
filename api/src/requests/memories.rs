//! Requests that create, change, list and delete memories, and feedback on them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use storage::command::BulkFilter;
use storage::model::details::Details;
use storage::model::id::MemoryId;
use storage::model::memory::Origin;
use storage::model::memory::{DecayClass, MemoryType, NAMESPACE_BYTES_MAX};
use storage::model::vector::Vector;
use storage::{CREATE_MAX, MemoryPatch, Order, Sort, TierFilter};
use utoipa::openapi::schema::{Object, Type};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use storage::command::EdgeRef;

use crate::error::{ApiError, ApiResult};
use crate::limits::PAGE_DEFAULT;
use crate::requests::JsonBody;
use crate::requests::details::{self, Metadata, MetadataList, TagList, Tags, details};
use crate::requests::fields::*;
use crate::requests::numbers::{Clamped, Heat};
use crate::requests::values::{
    Id, Items, JsonObject, SOME_TEXT, TextForm, first_non_blank, non_empty, object,
};
use crate::words::Word;

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
}

/// An id. An empty text is none.
fn id_or_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<MemoryIdText>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty());
    let id = text.map(|text| text.parse().map_err(|_| D::Error::custom(MemoryId::EXPECTED)));
    Ok(id.transpose()?.map(Id))
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
        Ok(storage::NewMemory {
            id: MemoryId(Uuid::now_v7().into_bytes()),
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
    /// Feedback `wrong` sets it; a reviewer clears it.
    pub(crate) flagged_for_review: Option<bool>,
    pub(crate) decay_class: Option<DecayClassWord>,
    pub(crate) min_heat: Option<Heat>,
    /// All tags from now on.
    pub(crate) tags: Option<Tags>,
    /// All metadata from now on.
    pub(crate) metadata: Option<Metadata>,
    /// Sets the heat as of now.
    pub(crate) current_heat: Option<Heat>,
    /// Alias of `current_heat`, which comes first.
    #[schema(ignore)]
    pub(crate) heat: Option<Heat>,
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
            min_heat: self.min_heat.map(|heat| heat.0 as f32),
            current_heat: self.current_heat.or(self.heat).map(|heat| heat.0 as f32),
            details: details::patch(self.tags, self.metadata),
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

/// What of a memory is returned.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MemoryQuery {
    /// Adds the anchor: the heat from which it cools, and since when.
    pub(crate) anchor: Option<bool>,
}

/// Page, filters and order of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    #[param(default = 1)]
    page: Option<Positive>,
    /// Clamped to 1 to 100.
    #[param(inline, default = json!(PAGE_DEFAULT))]
    page_size: Option<Limit>,
    /// Alias of `page_size`, which comes first.
    #[param(inline, ignore)]
    limit: Option<Limit>,
    /// Memories to skip; `page` comes first.
    #[param(ignore)]
    offset: Option<Offset>,
    /// The `next_cursor` of the page before, in place of `page`. Deletions do not move it. Memories that change
    /// meanwhile may be missed or repeated in the orders of heat and `updated_at`, but not in that of `created_at`.
    #[param(inline)]
    pub(crate) cursor: Option<MemoryCursorText>,
    pub(crate) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) pinned: Option<bool>,
    pub(crate) flagged: Option<bool>,
    /// Only memories that are at least so hot.
    pub(crate) min_heat: Option<Heat>,
    /// Only memories created at this time or later. A day is one of the time zone in `X-Timezone`.
    pub(crate) time_from: Option<TimeText>,
    /// Only memories created at this time or earlier, or on this day.
    pub(crate) time_to: Option<TimeText>,
    /// Default `all`.
    #[param(default = "all")]
    tier: Option<TierWord>,
    /// Name of the key that created the memory.
    agent: Option<AgentName>,
    key_id: Option<KeyIdText>,
    /// Program that created it, with or without its version.
    client: Option<OriginName>,
    tool: Option<OriginName>,
    /// Tags that a memory must have, with commas between them.
    #[param(inline)]
    tags: Option<TagList>,
    /// A tag that a memory must have, with its commas. May be repeated.
    #[param(inline)]
    tag: Option<Tags>,
    /// Entries that the metadata must have: `name=value`, with commas between them.
    #[param(inline)]
    metadata: Option<MetadataList>,
    /// Words that must all occur.
    #[param(inline)]
    search: Option<ListWords>,
    /// `heat`, `updated_at`, `created_at` or `memory_type`; anything else is heat.
    #[param(inline)]
    sort: Option<AnyWord>,
    /// Alias of `sort`, which comes first.
    #[param(inline, ignore)]
    sort_by: Option<AnyWord>,
    /// `asc` or `desc`; anything else is `desc`.
    #[param(inline)]
    order: Option<AnyWord>,
    /// Alias of `order`, which comes first.
    #[param(inline, ignore)]
    sort_order: Option<AnyWord>,
}

impl ListQuery {
    /// Page number from 1, page size, and memories before the page.
    pub(crate) fn paging(&self) -> (usize, usize, usize) {
        let size = self.page_size.or(self.limit).map_or(PAGE_DEFAULT, Clamped::get);
        match (self.page, self.offset) {
            (None, Some(offset)) => {
                let page = (offset.get() / size).saturating_add(1);
                (page, size, offset.get())
            }
            (page, _) => {
                let page = page.map_or(1, Clamped::get);
                (page, size, (page - 1).saturating_mul(size))
            }
        }
    }

    pub(crate) fn tier(&self) -> TierFilter {
        self.tier.map_or(TierFilter::All, |tier| tier.0)
    }

    pub(crate) fn origin(&self) -> Origin {
        origin(self.key_id, &self.agent, &self.client, &self.tool)
    }

    /// The tags and the metadata that memories must have.
    pub(crate) fn details(&self) -> Details {
        let listed = self.tags.as_ref().map(|it| &it.0).into_iter().flatten();
        let tags = listed.chain(self.tag.as_ref().map(|it| &it.0).into_iter().flatten());
        let tags = tags.cloned().collect();
        let metadata = self.metadata.as_ref().map(|it| it.0.clone()).unwrap_or_default();
        Details { tags, metadata }
    }

    pub(crate) fn words(&self) -> Option<&str> {
        self.search.as_ref().map(|text| text.0.as_str()).filter(|text| !text.trim().is_empty())
    }

    /// By heat if the name is unknown, since every client's default must work.
    pub(crate) fn sort(&self) -> Sort {
        let name = self.sort.as_ref().or(self.sort_by.as_ref());
        name.and_then(|name| Sort::parse(&name.0)).unwrap_or_default()
    }

    /// Descending if the name is unknown.
    pub(crate) fn order(&self) -> Order {
        let name = self.order.as_ref().or(self.sort_order.as_ref());
        name.and_then(|name| Order::parse(&name.0)).unwrap_or_default()
    }
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
