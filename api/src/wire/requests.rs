//! What requests may say, for OpenAPI. [`crate::extract`] reads them, field by field; what
//! it knows besides, for published clients, is in docs/api.md: aliases, `null` for absent,
//! numbers as text in queries.
#![expect(dead_code, reason = "these types describe; nothing makes one")]

use serde_json::Value;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::schema;

/// A new memory.
#[derive(ToSchema)]
pub(crate) struct NewMemory {
    /// Its text, 64 KiB at most.
    #[schema(min_length = 1, max_length = 65536, pattern = r"\S")]
    label: String,
    #[schema(schema_with = schema::memory_type, default = "episodic")]
    memory_type: Option<String>,
    #[schema(schema_with = schema::namespace)]
    namespace: Option<String>,
    is_pinned: Option<bool>,
    #[schema(schema_with = schema::decay_class, default = "normal")]
    decay_class: Option<String>,
    #[schema(minimum = 0, maximum = 1, default = 0)]
    min_heat: Option<f64>,
    #[schema(minimum = 0, maximum = 1, default = 1)]
    initial_heat: Option<f64>,
    /// Each of 256 bytes at most; memories that share one are related.
    #[schema(max_items = 32)]
    key_points: Option<Vec<String>>,
}

/// What is to be changed of a memory.
#[derive(ToSchema)]
pub(crate) struct MemoryChanges {
    #[schema(min_length = 1, max_length = 65536, pattern = r"\S")]
    label: Option<String>,
    #[schema(schema_with = schema::memory_type)]
    memory_type: Option<String>,
    #[schema(schema_with = schema::namespace)]
    namespace: Option<String>,
    is_pinned: Option<bool>,
    /// A locked memory can be changed, but not deleted.
    is_locked: Option<bool>,
    /// Feedback `wrong` flags it; whoever has reviewed it sets this to false.
    flagged_for_review: Option<bool>,
    #[schema(schema_with = schema::decay_class)]
    decay_class: Option<String>,
    #[schema(minimum = 0, maximum = 1)]
    min_heat: Option<f64>,
    #[schema(minimum = 0, maximum = 1)]
    current_heat: Option<f64>,
}

/// New memories.
#[derive(ToSchema)]
pub(crate) struct NewMemories {
    #[schema(min_items = 1, max_items = 50)]
    nodes: Vec<NewMemory>,
}

/// The same changes to several memories.
#[derive(ToSchema)]
pub(crate) struct BulkChanges {
    #[schema(min_items = 1, max_items = 500, value_type = Vec<uuid::Uuid>)]
    ids: Vec<String>,
    #[serde(flatten)]
    changes: MemoryChanges,
}

/// Which memories to delete: those named, or all of a type and namespace. One of these
/// must be said.
#[derive(ToSchema)]
pub(crate) struct BulkDeletion {
    #[schema(min_items = 1, max_items = 500, value_type = Option<Vec<uuid::Uuid>>)]
    ids: Option<Vec<String>>,
    #[schema(schema_with = schema::memory_type)]
    memory_type: Option<String>,
    #[schema(schema_with = schema::namespaces)]
    namespace: Option<String>,
}

/// Several memories.
#[derive(ToSchema)]
pub(crate) struct Ids {
    #[schema(min_items = 1, max_items = 500, value_type = Vec<uuid::Uuid>)]
    ids: Vec<String>,
}

/// What a memory, named in the path, was worth.
#[derive(ToSchema)]
pub(crate) struct Judgement {
    #[schema(schema_with = schema::signal)]
    signal: String,
}

/// What a memory was worth.
#[derive(ToSchema)]
pub(crate) struct Feedback {
    #[schema(format = Uuid)]
    node_id: String,
    #[schema(schema_with = schema::signal)]
    signal: String,
}

/// Two memories and how they are related.
#[derive(ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Relation {
    #[schema(format = Uuid)]
    #[param(format = Uuid)]
    source_id: String,
    /// Another memory.
    #[schema(format = Uuid)]
    #[param(format = Uuid)]
    target_id: String,
    #[schema(min_length = 1, max_length = 64, pattern = r"\S", default = "related_to")]
    #[param(min_length = 1, max_length = 64, pattern = r"\S")]
    relation: Option<String>,
}

/// A search.
#[derive(ToSchema)]
pub(crate) struct Search {
    /// 64 KiB at most; with nothing in it, the answer goes by heat.
    #[schema(max_length = 65536)]
    query: String,
    #[schema(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    #[schema(schema_with = schema::memory_type)]
    memory_type: Option<String>,
    /// `*` is all.
    #[schema(schema_with = schema::namespaces)]
    namespace: Option<String>,
    #[schema(schema_with = schema::tiers, default = "hot")]
    tier: Option<String>,
    /// Says how each score came about.
    explain: Option<bool>,
}

/// A hot context.
#[derive(ToSchema)]
pub(crate) struct HotContext {
    #[schema(minimum = 1, maximum = 100, default = 10)]
    limit: Option<u32>,
    #[schema(schema_with = schema::memory_type)]
    memory_type: Option<String>,
    /// `*` is all.
    #[schema(schema_with = schema::namespaces)]
    namespace: Option<String>,
    /// Characters of labels; the first memory is there at any rate.
    #[schema(minimum = 1)]
    budget_chars: Option<u64>,
}

/// Settings and what they are to be.
pub(crate) struct Configuration;

impl PartialSchema for Configuration {
    fn schema() -> RefOr<Schema> {
        schema::changes().into()
    }
}

impl ToSchema for Configuration {}

/// Something that an agent did.
#[derive(ToSchema)]
pub(crate) struct Note {
    #[schema(min_length = 1, max_length = 1024, pattern = r"\S")]
    action: String,
    #[schema(max_length = 1024)]
    target_id: Option<String>,
    #[schema(max_length = 1024)]
    target_label: Option<String>,
    /// Any JSON, 8 KiB at most.
    metadata: Option<Value>,
}

/// A new key.
#[derive(ToSchema)]
pub(crate) struct NewKey {
    #[schema(max_length = 128)]
    name: Option<String>,
    #[schema(schema_with = schema::role, default = "agent")]
    role: Option<String>,
    /// Its own namespace, which its searches boost.
    #[schema(schema_with = schema::namespaces)]
    namespace: Option<String>,
}

/// A rule; the one for the same agent and namespace gives way to it.
#[derive(ToSchema)]
pub(crate) struct NewRule {
    /// Id or name of a key, or `*`.
    #[schema(min_length = 1, max_length = 128, pattern = r"\S", default = "*")]
    agent_id: Option<String>,
    /// A namespace, or `*`.
    #[schema(schema_with = schema::namespaces)]
    namespace: String,
    #[schema(schema_with = schema::policy)]
    policy: String,
}

/// The caller's own namespace; none, if nothing is named.
#[derive(ToSchema)]
pub(crate) struct OwnNamespace {
    #[schema(schema_with = schema::namespaces)]
    namespace: Option<String>,
}

/// What is to be changed of a tenant.
#[derive(ToSchema)]
pub(crate) struct OrgChanges {
    #[schema(min_length = 1, max_length = 128, pattern = r"\S")]
    org_name: Option<String>,
}

/// Which page of which memories.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    #[param(minimum = 1, default = 1)]
    page: Option<u64>,
    /// More is moved into range.
    #[param(minimum = 1, maximum = 100, default = 25)]
    page_size: Option<u32>,
    #[param(schema_with = schema::memory_type)]
    memory_type: Option<String>,
    /// `*` is all.
    #[param(max_length = 128)]
    namespace: Option<String>,
    pinned: Option<bool>,
    flagged: Option<bool>,
    /// Words that all must be there.
    #[param(max_length = 4096)]
    search: Option<String>,
    /// `heat`, `updated_at`, `created_at` or `memory_type`; anything else is heat.
    #[param(max_length = 64)]
    sort: Option<String>,
    /// `asc` or `desc`; anything else is `desc`.
    #[param(max_length = 64)]
    order: Option<String>,
}

/// Which of the hottest memories.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HotQuery {
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    #[param(schema_with = schema::memory_type)]
    memory_type: Option<String>,
    /// `*` is all.
    #[param(max_length = 128)]
    namespace: Option<String>,
}

/// How many memories of a graph.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    #[param(minimum = 1, maximum = 1000, default = 200)]
    limit: Option<u32>,
    /// `*` is all.
    #[param(max_length = 128)]
    namespace: Option<String>,
}

/// How many neighbours, how far away.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NeighbourQuery {
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    #[param(minimum = 1, maximum = 3, default = 1)]
    depth: Option<u32>,
}

/// Which events.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActivityQuery {
    #[param(minimum = 1, maximum = 100, default = 50)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[param(pattern = r"^[0-9]{1,18}\.[0-9]{1,9}$")]
    cursor: Option<String>,
}

/// Which namespace.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespaceQuery {
    /// `*` is all.
    #[param(max_length = 128)]
    namespace: Option<String>,
}

/// Where a request is at home.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Home {
    /// Namespace, if body and query name none; 128 bytes at most.
    #[param(rename = "X-Namespace", max_length = 128)]
    namespace: Option<String>,
}

/// How fresh an answer must be.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Fresh {
    #[param(rename = "X-Hearth-Consistency", schema_with = schema::consistency)]
    consistency: Option<String>,
    /// Waits until the node shows this entry, 10 s at most; then 503.
    #[param(rename = "X-Hearth-Min-Index", minimum = 0)]
    min_index: Option<u64>,
    /// Oldest knowledge that a local read may come from; else 503.
    #[param(rename = "X-Hearth-Max-Staleness-Ms", minimum = 0, default = 10000)]
    staleness_max: Option<u64>,
}

/// What happens once, however often it is sent.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Once {
    /// Repeated within a day, the request does nothing and is answered as the first was.
    #[param(rename = "Idempotency-Key", min_length = 1, max_length = 255)]
    key: Option<String>,
}
