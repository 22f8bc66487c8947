//! Requests about triggers, their history, and webhook deliveries.

use serde::{Deserialize, Deserializer};
use storage::model::delivery::DeliveryId;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::limits::{HISTORY_DEFAULT, TRIGGERS_PAGE};
use crate::requests::activity::PageCursor;
use crate::requests::fields::{
    ActionWord, AnyWord, Cooldown, DeliveryWord, Description, EventWord, FullTriggerName,
    HistoryLimit, HistoryWord, LabelPattern, MaxFires, MemoryIdText, MemoryTypeOrEmpty, Namespace,
    TriggerIdText, TriggerName, TriggersLimit, WholeNumber,
};
use crate::requests::numbers::{Clamped, Heat};
use crate::requests::trigger_actions::ActionConfig;
use crate::requests::values::{JsonObject, nullable};
use crate::words::HistoryKind;

/// A new trigger. All filters that are set must match; heat bounds are strict.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewTrigger {
    #[schema(inline)]
    pub(crate) event: EventWord,
    #[schema(inline)]
    pub(crate) action: ActionWord,
    #[schema(value_type = Option<ActionConfig>)]
    pub(crate) action_config: Option<JsonObject<ActionConfig>>,
    /// Event and action, if absent or empty.
    #[schema(inline)]
    pub(crate) name: Option<TriggerName>,
    #[schema(inline)]
    pub(crate) description: Option<Description>,
    /// The trigger fires for memories of this namespace only.
    #[schema(inline)]
    pub(crate) namespace: Option<Namespace>,
    #[schema(inline)]
    pub(crate) filter_memory_type: Option<MemoryTypeOrEmpty>,
    #[schema(inline)]
    pub(crate) filter_namespace: Option<Namespace>,
    /// Substring of the label; case does not matter.
    #[schema(inline)]
    pub(crate) filter_label_pattern: Option<LabelPattern>,
    #[schema(inline)]
    pub(crate) filter_heat_below: Option<Heat>,
    #[schema(inline)]
    pub(crate) filter_heat_above: Option<Heat>,
    #[schema(inline)]
    pub(crate) max_fires: Option<MaxFires>,
    /// At most a year.
    #[schema(inline, default = 0)]
    pub(crate) cooldown_seconds: Option<Cooldown>,
    #[schema(default = true)]
    pub(crate) enabled: Option<bool>,
}

/// Changes to a trigger. `null` clears a filter or a limit; event and action cannot change.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct TriggerChanges {
    /// Accepted if it is the trigger's event.
    #[schema(ignore)]
    pub(crate) event: Option<AnyWord>,
    /// Accepted if it is the trigger's action.
    #[schema(ignore)]
    pub(crate) action: Option<AnyWord>,
    #[schema(inline)]
    pub(crate) name: Option<FullTriggerName>,
    #[schema(inline)]
    pub(crate) description: Option<Description>,
    /// Replaces the settings of the action. A webhook keeps its address and secret if they are
    /// absent.
    #[schema(value_type = Option<ActionConfig>)]
    pub(crate) action_config: Option<JsonObject<ActionConfig>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Namespace>, inline)]
    pub(crate) namespace: Option<Option<Namespace>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<MemoryTypeOrEmpty>, inline)]
    pub(crate) filter_memory_type: Option<Option<MemoryTypeOrEmpty>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Namespace>, inline)]
    pub(crate) filter_namespace: Option<Option<Namespace>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<LabelPattern>, inline)]
    pub(crate) filter_label_pattern: Option<Option<LabelPattern>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Heat>, inline)]
    pub(crate) filter_heat_below: Option<Option<Heat>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Heat>, inline)]
    pub(crate) filter_heat_above: Option<Option<Heat>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<MaxFires>, inline)]
    pub(crate) max_fires: Option<Option<MaxFires>>,
    #[schema(inline)]
    pub(crate) cooldown_seconds: Option<Cooldown>,
    pub(crate) enabled: Option<bool>,
    /// Resets `fire_count` to 0.
    pub(crate) reset_count: Option<bool>,
    /// Alias of `reset_count`, which comes first.
    #[schema(ignore)]
    pub(crate) reset_fire_count: Option<bool>,
}

/// An event that might happen to a memory.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Evaluate {
    #[schema(inline)]
    pub(crate) event: EventWord,
    #[schema(inline)]
    pub(crate) node_id: MemoryIdText,
}

/// Which triggers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TriggerQuery {
    #[param(inline)]
    pub(crate) event: Option<EventWord>,
    #[param(inline, default = 1000)]
    limit: Option<TriggersLimit>,
    /// The `next_cursor` of the page before.
    #[param(value_type = Option<String>, pattern = "^[0-9]{1,18}$")]
    pub(crate) cursor: Option<WholeNumber>,
}

impl TriggerQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(TRIGGERS_PAGE, Clamped::get)
    }
}

/// Which entries of the trigger history.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    #[param(inline, default = 50)]
    limit: Option<HistoryLimit>,
    /// Of this trigger only.
    #[param(inline)]
    pub(crate) trigger_id: Option<TriggerIdText>,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    before: Option<PageCursor>,
    /// Alias of `before`, which comes first.
    #[param(ignore)]
    cursor: Option<PageCursor>,
    /// Firings, delivery attempts, or both.
    #[param(inline, default = "firing")]
    kind: Option<HistoryWord>,
}

impl HistoryQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(HISTORY_DEFAULT, Clamped::get)
    }

    pub(crate) fn before(&self) -> Option<PageCursor> {
        self.before.or(self.cursor)
    }

    pub(crate) fn kind(&self) -> HistoryKind {
        self.kind.map_or(HistoryKind::Firing, |kind| kind.0)
    }
}

/// The id of a delivery: the `webhook-id` of its requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeliveryCursor(pub(crate) DeliveryId);

impl<'de> Deserialize<'de> for DeliveryCursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |()| serde::de::Error::custom("must be the id of a delivery");
        text.parse().map(Self).map_err(wrong)
    }
}

impl PartialSchema for DeliveryCursor {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.pattern(Some(r"^msg_[0-9a-f]{32}_[0-9]{1,18}$")).build().into()
    }
}

impl ToSchema for DeliveryCursor {}

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    #[param(inline, default = 50)]
    limit: Option<HistoryLimit>,
    #[param(inline)]
    pub(crate) status: Option<DeliveryWord>,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    pub(crate) cursor: Option<DeliveryCursor>,
}

impl DeliveryQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(HISTORY_DEFAULT, Clamped::get)
    }
}

/// Which dead letters to replay.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Replay {
    /// The `webhook-id` of a dead letter; absent is all.
    #[schema(inline)]
    pub(crate) id: Option<DeliveryCursor>,
}
