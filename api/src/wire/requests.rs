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

/// A new trigger. All filters that are set must hold; bounds of heat are strict.
#[derive(ToSchema)]
pub(crate) struct NewTrigger {
    #[schema(schema_with = schema::trigger_event)]
    event: String,
    #[schema(schema_with = schema::trigger_action)]
    action: String,
    action_config: Option<ActionConfig>,
    /// Event and action, if nobody says.
    #[schema(max_length = 256)]
    name: Option<String>,
    #[schema(max_length = 1024)]
    description: Option<String>,
    /// Its own namespace: it fires for no memory of another.
    #[schema(max_length = 128)]
    namespace: Option<String>,
    #[schema(schema_with = schema::memory_type)]
    filter_memory_type: Option<String>,
    #[schema(max_length = 128)]
    filter_namespace: Option<String>,
    /// What the label must hold, in whatever case.
    #[schema(max_length = 1024)]
    filter_label_pattern: Option<String>,
    #[schema(minimum = 0, maximum = 1)]
    filter_heat_below: Option<f64>,
    #[schema(minimum = 0, maximum = 1)]
    filter_heat_above: Option<f64>,
    #[schema(minimum = 1, maximum = 4294967295_u64)]
    max_fires: Option<u64>,
    /// A year at most.
    #[schema(minimum = 0, maximum = 31536000, default = 0)]
    cooldown_seconds: Option<u64>,
    #[schema(default = true)]
    enabled: Option<bool>,
}

/// What is to be changed of a trigger; event and action stay.
#[derive(ToSchema)]
pub(crate) struct TriggerChanges {
    #[schema(min_length = 1, max_length = 256, pattern = r"\S")]
    name: Option<String>,
    #[schema(max_length = 1024)]
    description: Option<String>,
    /// Takes the place of the old one, but for the address and the secret of a webhook.
    action_config: Option<ActionConfig>,
    #[schema(max_length = 128)]
    namespace: Option<String>,
    #[schema(schema_with = schema::memory_type)]
    filter_memory_type: Option<String>,
    #[schema(max_length = 128)]
    filter_namespace: Option<String>,
    #[schema(max_length = 1024)]
    filter_label_pattern: Option<String>,
    #[schema(minimum = 0, maximum = 1)]
    filter_heat_below: Option<f64>,
    #[schema(minimum = 0, maximum = 1)]
    filter_heat_above: Option<f64>,
    #[schema(minimum = 1, maximum = 4294967295_u64)]
    max_fires: Option<u64>,
    #[schema(minimum = 0, maximum = 31536000)]
    cooldown_seconds: Option<u64>,
    enabled: Option<bool>,
    /// Counts firings from 0 again.
    reset_count: Option<bool>,
}

/// Settings of an action; each looks at its own.
#[derive(ToSchema)]
pub(crate) struct ActionConfig {
    /// Of `notify`: the message, with `{node_id}`, `{label}`, `{heat}`, `{heat:.2f}`,
    /// `{namespace}`, `{memory_type}` and `{event}` filled in.
    #[schema(min_length = 1, max_length = 4096, pattern = r"\S")]
    message: Option<String>,
    /// Of `boost`.
    #[schema(exclusive_minimum = 0, maximum = 1, default = 0.3)]
    strength: Option<f64>,
    /// Of `tag`: the tag; without one it is made of the memory's label.
    #[schema(min_length = 1, max_length = 64, pattern = r"[^\s#]")]
    label: Option<String>,
    /// Of `webhook`, and required there.
    #[schema(min_length = 1, max_length = 2048, pattern = r"\S")]
    url: Option<String>,
    /// Of `webhook`: what its requests are signed with. Never shown again.
    #[schema(min_length = 8, max_length = 256)]
    webhook_secret: Option<String>,
}

/// Something that might happen to a memory.
#[derive(ToSchema)]
pub(crate) struct Evaluate {
    #[schema(schema_with = schema::trigger_event)]
    event: String,
    #[schema(format = Uuid)]
    node_id: String,
}

/// Which triggers.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TriggerQuery {
    #[param(schema_with = schema::trigger_event)]
    event: Option<String>,
}

/// Which entries of the history.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    /// Of this trigger only.
    #[param(value_type = Option<uuid::Uuid>)]
    trigger_id: Option<String>,
    /// The `next_cursor` of the page before.
    #[param(pattern = r"^[0-9]{1,18}\.[0-9]{1,9}$")]
    before: Option<String>,
    /// Firings, attempts to deliver what they owed, or both.
    #[param(schema_with = schema::history_kinds, default = "firing")]
    kind: Option<String>,
}

/// Which deliveries.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<u32>,
    #[param(schema_with = schema::delivery_status)]
    status: Option<String>,
    /// The `next_cursor` of the page before.
    #[param(pattern = r"^msg_[0-9a-f]{32}_[0-9]{1,18}$")]
    cursor: Option<String>,
}

/// What to owe anew.
#[derive(ToSchema)]
pub(crate) struct Resend {
    /// The `webhook-id` of what was given up; all, if none is named.
    #[schema(pattern = r"^msg_[0-9a-f]{32}_[0-9]{1,18}$")]
    id: Option<String>,
}

/// Which events of the stream.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Kinds of events, with commas between them; all, if none is named.
    #[param(max_length = 256)]
    kind: Option<String>,
    /// `*` is all.
    #[param(max_length = 128)]
    namespace: Option<String>,
    /// As the header `Last-Event-ID`, for those who cannot set one.
    #[param(pattern = r"^[0-9a-f]{32}\.[0-9]{1,18}\.[0-9]{1,10}$")]
    last_event_id: Option<String>,
}

/// Where a stream goes on.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Resume {
    /// Id of the last event that was received; without it, the stream begins now.
    #[param(rename = "Last-Event-ID", pattern = r"^[0-9a-f]{32}\.[0-9]{1,18}\.[0-9]{1,10}$")]
    last: Option<String>,
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
