//! Requests that read memories: one, or a page of a list.

use serde::Deserialize;
use storage::model::details::Details;
use storage::model::memory::Origin;
use storage::{Order, Sort, TierFilter};
use utoipa::IntoParams;

use crate::limits::PAGE_DEFAULT;
use crate::requests::conditions::FilterJson;
use crate::requests::details::{MetadataList, TagList, Tags};
use crate::requests::fields::*;
use crate::requests::memories::origin;
use crate::requests::numbers::{Clamped, Heat};
use crate::words::Word;

/// What of a memory is returned.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct MemoryQuery {
    /// Adds the anchor: the heat from which it cools, and since when.
    pub(crate) anchor: Option<bool>,
    /// The text that it had at this time. The other fields are those of now.
    pub(crate) as_of: Option<TimeText>,
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
    /// Only memories in quarantine, which only admins see.
    pub(crate) quarantined: Option<bool>,
    /// Only memories that are at least so hot.
    pub(crate) min_heat: Option<Heat>,
    /// Only memories created at this time or later. A day is one of the time zone in `X-Timezone`.
    pub(crate) time_from: Option<TimeText>,
    /// Only memories created at this time or earlier, or on this day.
    pub(crate) time_to: Option<TimeText>,
    /// Only memories that hold at this time.
    pub(crate) as_of: Option<TimeText>,
    /// Only memories of this namespace and those below it: names are paths with `/`.
    pub(crate) namespace_prefix: Option<Namespace>,
    /// Only the memory that a client has given this id, in the namespace of the request.
    pub(crate) external_id: Option<ExternalId>,
    /// Conditions combined by and, or and not, as JSON.
    #[param(value_type = Option<String>)]
    pub(crate) filter: Option<FilterJson>,
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
