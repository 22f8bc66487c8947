//! The arguments of tools. Their comments are the descriptions that agents read, their types the bounds.
//! Heat is 0 to 100 here, as agents know it from the published tools.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::requests::fields::*;
use crate::requests::memories::any_namespace;
use crate::requests::numbers::{Clamped, Percent};
use crate::requests::triggers::ActionConfig;
use crate::requests::values::JsonObject;

/// A memory to store.
#[derive(Deserialize, ToSchema)]
pub(super) struct Remember {
    /// What to remember: one statement that is clear without the conversation.
    pub(super) content: FullLabel,
    /// `fact` and `preference` stay for months, `semantic` for weeks, `episodic` for days.
    #[schema(default = "semantic")]
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// How present it is at first: 100 is the hottest.
    #[schema(default = 100)]
    pub(super) heat: Option<Percent>,
    /// Where it belongs; that of the key by default.
    pub(super) namespace: Option<Namespace>,
    /// Names and terms by which it is found too, and by which memories are related.
    pub(super) key_points: Option<KeyPoints>,
    /// Id of a memory that this one replaces, because it no longer holds.
    pub(super) supersedes: Option<MemoryIdText>,
}

/// A search.
#[derive(Deserialize, ToSchema)]
pub(super) struct SearchFor {
    /// What to look for, as a question or in key words. Times such as "last week" are understood.
    pub(super) query: Query,
    #[serde(default)]
    pub(super) limit: ToolLimit,
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
    /// Whether archived memories are searched too.
    #[schema(default = false)]
    pub(super) include_archived: Option<bool>,
}

/// A page of memories, the hottest first.
#[derive(Deserialize, ToSchema)]
pub(super) struct ListPage {
    #[schema(default = 1)]
    pub(super) page: Option<Positive>,
    #[serde(default)]
    pub(super) page_size: ToolPageSize,
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
    pub(super) pinned: Option<bool>,
}

/// Changes to a memory; absent fields stay.
#[derive(Deserialize, ToSchema)]
pub(super) struct Update {
    pub(super) memory_id: MemoryIdText,
    /// The new text.
    #[schema(value_type = Option<FullLabel>)]
    pub(super) label: Option<Label>,
    pub(super) memory_type: Option<MemoryTypeWord>,
    pub(super) is_pinned: Option<bool>,
    /// The heat from now on.
    pub(super) heat: Option<Percent>,
}

/// A memory.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneMemory {
    pub(super) memory_id: MemoryIdText,
}

/// The hottest memories.
#[derive(Deserialize, ToSchema)]
pub(super) struct Hottest {
    #[serde(default)]
    pub(super) limit: ToolLimit,
    /// `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
}

/// Feedback on a memory.
#[derive(Deserialize, ToSchema)]
pub(super) struct Feedback {
    pub(super) memory_id: MemoryIdText,
    /// `relevant`: it helped. `irrelevant`: it did not. `outdated`: it no longer holds. `wrong`: a person
    /// should review it.
    pub(super) signal: SignalWord,
}

/// No arguments.
#[derive(Deserialize, ToSchema)]
pub(super) struct Nothing {}

/// A trigger to create.
#[derive(Deserialize, ToSchema)]
pub(super) struct NewTrigger {
    pub(super) event: EventWord,
    pub(super) action: ActionWord,
    /// Settings of the action: `message` of notify, `strength` of boost, `label` of tag, `url` of
    /// webhook.
    #[schema(value_type = Option<ActionConfig>)]
    pub(super) action_config: Option<JsonObject<ActionConfig>>,
    pub(super) name: Option<TriggerName>,
    pub(super) filter_memory_type: Option<MemoryTypeOrEmpty>,
    pub(super) filter_namespace: Option<Namespace>,
    /// Text that the memory must contain.
    pub(super) filter_label_pattern: Option<LabelPattern>,
    pub(super) filter_heat_below: Option<Percent>,
    pub(super) filter_heat_above: Option<Percent>,
    /// Firings after which it stops.
    pub(super) max_fires: Option<MaxFires>,
    /// Seconds between two firings.
    pub(super) cooldown_seconds: Option<Cooldown>,
}

/// A trigger.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneTrigger {
    pub(super) trigger_id: TriggerIdText,
}

impl ListPage {
    /// Page number from 1, page size, and memories before the page.
    pub(super) fn paging(&self) -> (usize, usize, usize) {
        let (page, size) = (self.page.map_or(1, Clamped::get), self.page_size.get());
        (page, size, (page - 1).saturating_mul(size))
    }
}
