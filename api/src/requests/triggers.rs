//! Requests about triggers, their history, and webhook deliveries.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::limits::{HISTORY_DEFAULT, TRIGGERS_PAGE};
use crate::requests::fields::{
    ActionWord, AnyWord, Cooldown, DeliveryIdText, DeliveryWord, Description, EventWord,
    FullTriggerName, HistoryLimit, HistoryWord, LabelPattern, MaxFires, MemoryIdText,
    MemoryTypeOrEmpty, Namespace, PageCursorText, TriggerIdText, TriggerName, TriggersLimit,
    WholeNumber,
};
use crate::requests::numbers::{Clamped, Heat};
use crate::requests::trigger_actions::ActionConfig;
use crate::requests::values::{JsonObject, nullable};
use crate::words::HistoryKind;

/// A new trigger. All filters that are set must match; heat bounds are strict.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewTrigger {
    pub(crate) event: EventWord,
    pub(crate) action: ActionWord,
    #[schema(value_type = Option<ActionConfig>)]
    pub(crate) action_config: Option<JsonObject<ActionConfig>>,
    /// Event and action, if absent or empty.
    pub(crate) name: Option<TriggerName>,
    pub(crate) description: Option<Description>,
    /// The trigger fires for memories of this namespace only.
    pub(crate) namespace: Option<Namespace>,
    pub(crate) filter_memory_type: Option<MemoryTypeOrEmpty>,
    pub(crate) filter_namespace: Option<Namespace>,
    /// Substring of the label; case does not matter.
    pub(crate) filter_label_pattern: Option<LabelPattern>,
    pub(crate) filter_heat_below: Option<Heat>,
    pub(crate) filter_heat_above: Option<Heat>,
    pub(crate) max_fires: Option<MaxFires>,
    /// At most a year.
    #[schema(default = 0)]
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
    pub(crate) name: Option<FullTriggerName>,
    pub(crate) description: Option<Description>,
    /// Replaces the settings of the action. A webhook keeps its address and secret if they are
    /// absent.
    #[schema(value_type = Option<ActionConfig>)]
    pub(crate) action_config: Option<JsonObject<ActionConfig>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Namespace>)]
    pub(crate) namespace: Option<Option<Namespace>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<MemoryTypeOrEmpty>)]
    pub(crate) filter_memory_type: Option<Option<MemoryTypeOrEmpty>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Namespace>)]
    pub(crate) filter_namespace: Option<Option<Namespace>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<LabelPattern>)]
    pub(crate) filter_label_pattern: Option<Option<LabelPattern>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Heat>)]
    pub(crate) filter_heat_below: Option<Option<Heat>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Heat>)]
    pub(crate) filter_heat_above: Option<Option<Heat>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<MaxFires>)]
    pub(crate) max_fires: Option<Option<MaxFires>>,
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
    pub(crate) event: EventWord,
    pub(crate) node_id: MemoryIdText,
}

/// Which triggers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct TriggerQuery {
    pub(crate) event: Option<EventWord>,
    #[param(default = 1000)]
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
    #[param(default = 50)]
    limit: Option<HistoryLimit>,
    /// Of this trigger only.
    pub(crate) trigger_id: Option<TriggerIdText>,
    /// The `next_cursor` of the page before.
    before: Option<PageCursorText>,
    /// Alias of `before`, which comes first.
    #[param(ignore)]
    cursor: Option<PageCursorText>,
    /// Firings, delivery attempts, or both.
    #[param(default = "firing")]
    kind: Option<HistoryWord>,
}

impl HistoryQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(HISTORY_DEFAULT, Clamped::get)
    }

    pub(crate) fn before(&self) -> Option<PageCursorText> {
        self.before.or(self.cursor)
    }

    pub(crate) fn kind(&self) -> HistoryKind {
        self.kind.map_or(HistoryKind::Firing, |kind| kind.0)
    }
}

/// Which deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    #[param(default = 50)]
    limit: Option<HistoryLimit>,
    pub(crate) status: Option<DeliveryWord>,
    /// The `next_cursor` of the page before.
    pub(crate) cursor: Option<DeliveryIdText>,
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
    pub(crate) id: Option<DeliveryIdText>,
}
