//! The arguments of tools. Their comments are the descriptions that agents read, their types the bounds. Heat
//! is 0 to 100 here, as agents know it from the published tools.

use jiff::tz::TimeZone;
use serde::Deserialize;
use storage::Filter;
use storage::model::details::Details;
use utoipa::ToSchema;

use crate::error::ApiResult;
use crate::requests::conditions::{FilterJson, condition};
use crate::requests::details::{Metadata, RequiredMetadata, Tags};
use crate::requests::fields::*;
use crate::requests::memories::any_namespace;
use crate::requests::numbers::{Clamped, Percent};
use crate::requests::times::TimeSpan;
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
    /// Words by which searches and lists are filtered.
    pub(super) tags: Option<Tags>,
    /// Further facts as names and values, such as `{"source": "mail"}`. Filters find short values.
    pub(super) metadata: Option<Metadata>,
    /// Id of a memory that this one replaces, because it no longer holds.
    pub(super) supersedes: Option<MemoryIdText>,
    /// When it happened, if that is not now: a time or a day such as 2026-03-05.
    pub(super) occurred_at: Option<TimeText>,
    /// From when on it holds, if not since it happened.
    pub(super) valid_from: Option<TimeText>,
    /// Until when it holds, if that is known.
    pub(super) valid_until: Option<TimeText>,
    /// Seconds after which it is deleted, for what matters only for a while.
    pub(super) ttl_seconds: Option<TtlSeconds>,
}

/// Defines the arguments of a tool that returns some memories: those of its own, and filters. serde's `flatten`
/// would parse the filters without [`parse_arguments`](crate::requests::parse_arguments).
macro_rules! filtered {
    ($(#[$of_type:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$of_type])*
        #[derive(Deserialize, ToSchema)]
        pub(super) struct $name {
            $($(#[$of_field])* pub(super) $field: $type,)+
            /// Only memories of this type.
            memory_type: Option<MemoryTypeWord>,
            /// Only memories of this namespace; `*` is all. By default those that the key may read.
            #[schema(schema_with = any_namespace)]
            namespace: Option<Namespace>,
            /// Tags that a memory must have, all of them.
            tags: Option<Tags>,
            /// Entries that its metadata must have, all of them.
            metadata: Option<RequiredMetadata>,
            /// Conditions such as `{"or": [{"tags": "billing"}, {"metadata.priority": {"gte": 3}}]}`, on tags,
            /// metadata.NAME, memory_type, namespace, is_pinned, trust, heat (0 to 1), occurred_at, created_at, updated_at.
            filter: Option<FilterJson>,
            /// Only memories that hold at this time.
            as_of: Option<TimeText>,
            /// Only memories of this day or time, or later.
            time_from: Option<TimeText>,
            /// Only memories of this day or time, or earlier.
            time_to: Option<TimeText>,
        }

        impl $name {
            /// Takes the filters: their parts for `Filter`, and the namespace.
            pub(super) fn take_filters(
                &mut self,
                zone: &TimeZone,
            ) -> ApiResult<(Filter, Option<Namespace>)> {
                let [from, to] = [&self.time_from, &self.time_to].map(|it| it.as_ref().map(|it| it.0));
                let tags = self.tags.take().unwrap_or_default().0;
                let metadata = self.metadata.take().unwrap_or_default().0;
                let filter = Filter {
                    memory_type: self.memory_type.map(|it| it.0),
                    happened: TimeSpan::between(from, to, zone),
                    valid_at: self.as_of.and_then(|at| at.0.instant_in(zone)),
                    condition: condition(self.filter.as_ref(), zone)?,
                    details: Details { tags, metadata },
                    ..Filter::default()
                };
                Ok((filter, self.namespace.take()))
            }
        }
    };
}

filtered! {
    /// A search.
    SearchFor {
        /// What to look for, as a question or in key words. Times such as "last week" are understood.
        query: Query,
        /// Most memories to return.
        #[serde(default)]
        limit: ToolLimit,
        /// Whether archived memories are searched too.
        #[schema(default = false)]
        include_archived: Option<bool>,
    }
}

filtered! {
    /// A page of memories, the hottest first.
    ListPage {
        /// Number of the page, from 1.
        #[schema(default = 1)]
        page: Option<Positive>,
        /// Memories of a page.
        #[serde(default)]
        page_size: ToolPageSize,
        /// Only memories that are pinned, or only others.
        pinned: Option<bool>,
    }
}

/// Changes to a memory; absent fields stay.
#[derive(Deserialize, ToSchema)]
pub(super) struct Update {
    /// Id of the memory.
    pub(super) memory_id: MemoryIdText,
    /// The new text.
    #[schema(value_type = Option<FullLabel>)]
    pub(super) label: Option<Label>,
    /// The new type.
    pub(super) memory_type: Option<MemoryTypeWord>,
    /// Whether it stays hot and is part of every context.
    pub(super) is_pinned: Option<bool>,
    /// The heat from now on.
    pub(super) heat: Option<Percent>,
    /// The tags from now on, in place of those it has.
    pub(super) tags: Option<Tags>,
    /// The metadata from now on, in place of those it has.
    pub(super) metadata: Option<Metadata>,
}

/// Where to begin, and how far to go.
#[derive(Deserialize, ToSchema)]
pub(super) struct Traverse {
    /// Id of the memory.
    pub(super) memory_id: MemoryIdText,
    /// Edges between it and the farthest memory.
    #[serde(default)]
    pub(super) depth: Depth,
    /// Most memories to return.
    #[serde(default)]
    pub(super) limit: ToolLimit,
}

/// A memory.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneMemory {
    /// Id of the memory.
    pub(super) memory_id: MemoryIdText,
}

/// A memory to delete.
#[derive(Deserialize, ToSchema)]
pub(super) struct Forget {
    /// Id of the memory.
    pub(super) memory_id: MemoryIdText,
    /// Whether what it says is wrong: then captures and imports do not bring it back.
    #[schema(default = false)]
    pub(super) is_wrong: Option<bool>,
}

/// The hottest memories.
#[derive(Deserialize, ToSchema)]
pub(super) struct Hottest {
    /// Most memories to return.
    #[serde(default)]
    pub(super) limit: ToolLimit,
    /// Only memories of this namespace; `*` is all.
    #[schema(schema_with = any_namespace)]
    pub(super) namespace: Option<Namespace>,
}

/// Feedback on a memory.
#[derive(Deserialize, ToSchema)]
pub(super) struct Feedback {
    /// Id of the memory.
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
    /// When it is evaluated.
    pub(super) event: EventWord,
    /// What it does.
    pub(super) action: ActionWord,
    /// Settings of the action: `message` of notify, `strength` of boost, `label` of tag, `url` of
    /// webhook.
    #[schema(value_type = Option<ActionConfig>)]
    pub(super) action_config: Option<JsonObject<ActionConfig>>,
    /// A name for people.
    pub(super) name: Option<TriggerName>,
    /// Only for memories of this type.
    pub(super) filter_memory_type: Option<MemoryTypeOrEmpty>,
    /// Only for memories of this namespace.
    pub(super) filter_namespace: Option<Namespace>,
    /// Text that the memory must contain.
    pub(super) filter_label_pattern: Option<LabelPattern>,
    /// Only for memories that are colder.
    pub(super) filter_heat_below: Option<Percent>,
    /// Only for memories that are hotter.
    pub(super) filter_heat_above: Option<Percent>,
    /// Firings after which it stops.
    pub(super) max_fires: Option<MaxFires>,
    /// Seconds between two firings.
    pub(super) cooldown_seconds: Option<Cooldown>,
}

/// A trigger.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneTrigger {
    /// Id of the trigger.
    pub(super) trigger_id: TriggerIdText,
}

impl ListPage {
    /// Page number from 1, page size, and memories before the page.
    pub(super) fn paging(&self) -> (usize, usize, usize) {
        let (page, size) = (self.page.map_or(1, Clamped::get), self.page_size.get());
        (page, size, (page - 1).saturating_mul(size))
    }
}

/// A search, as programs without other tools have it.
#[derive(Deserialize, ToSchema)]
pub(super) struct FindQuery {
    /// What to look for, as a question or in key words.
    pub(super) query: Query,
}

/// A memory, as programs without other tools name it.
#[derive(Deserialize, ToSchema)]
pub(super) struct OneDocument {
    /// An id that `search` returned.
    pub(super) id: MemoryIdText,
}
