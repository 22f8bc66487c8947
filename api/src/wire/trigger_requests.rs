//! What requests about triggers, deliveries and the event stream may say, for OpenAPI: see
//! [`super::requests`]. [`super::trigger`] reads them.
#![expect(dead_code, reason = "these types describe; nothing makes one")]

use utoipa::{IntoParams, ToSchema};

use super::schema;

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
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[param(value_type = Option<uuid::Uuid>)]
    cursor: Option<String>,
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
    /// Firings, attempts to deliver what they pending, or both.
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

/// What to send anew.
#[derive(ToSchema)]
pub(crate) struct Replay {
    /// The `webhook-id` of a dead letter; all, if none is named.
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
