//! Resources: the present context, and each memory by its id. Also what completes their addresses and the
//! arguments of prompts.

use std::collections::BTreeSet;
use std::str::FromStr;

use rmcp::model::{Resource, ResourceContents, ResourceTemplate};
use storage::model::id::MemoryId;
use storage::model::memory::MemoryRecord;
use storage::{Filter, HotRequest, ListRequest, TierFilter};

use crate::error::{ApiError, ApiResult};
use crate::mcp::calls::Call;
use crate::mcp::results::{MEMORY, MemoryView, title};
use crate::requests::context::ContextRequest;
use crate::requests::values::MemoryCursor;

pub(super) const CONTEXT: &str = "hearth://context";
const MARKDOWN: &str = "text/markdown";
const JSON: &str = "application/json";
/// Memories of a page of the list.
const PAGE: usize = 50;
/// Hot memories whose ids, key points and tags are offered.
const OFFERED: usize = 100;

/// A page of resources, and the cursor of the next one. The first has the context too.
pub(super) async fn list(
    call: &Call,
    cursor: Option<&str>,
) -> ApiResult<(Vec<Resource>, Option<String>)> {
    let after = cursor.map(|text| {
        let unknown = |_| ApiError::invalid("cursor", "must be that of a page");
        MemoryCursor::from_str(text).map(|cursor| cursor.0).map_err(unknown)
    });
    let after = after.transpose()?;
    let filter = Filter { tier: TierFilter::All, ..call.filter(None)? };
    let request = ListRequest { filter, after, limit: PAGE, ..ListRequest::default() };
    let found = call.session.list(request).await?;
    let context = Resource::new(CONTEXT, "context")
        .with_title("Present context")
        .with_description(
            "Pinned and hot memories: headings, and one line of JSON for each memory.",
        )
        .with_mime_type(MARKDOWN);
    let memory = |record: &MemoryRecord| {
        Resource::new(format!("{MEMORY}{}", record.id), record.id.to_string())
            .with_title(title(record))
            .with_mime_type(JSON)
    };
    let first = after.is_none().then_some(context);
    let resources = first.into_iter().chain(found.memories.iter().map(memory)).collect();
    Ok((resources, found.next.map(|next| MemoryCursor(next).to_string())))
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let memory = ResourceTemplate::new(format!("{MEMORY}{{id}}"), "memory")
        .with_title("Memory")
        .with_description("A memory by its id, as JSON.")
        .with_mime_type(JSON);
    vec![memory]
}

/// The id of the memory at an address.
pub(super) fn memory_at(uri: &str) -> Option<MemoryId> {
    uri.strip_prefix(MEMORY).and_then(|id| MemoryId::from_str(id).ok())
}

/// A resource; `None` if there is none at this address.
pub(super) async fn read(call: &Call, uri: &str) -> ApiResult<Option<ResourceContents>> {
    if uri == CONTEXT {
        let load = ContextRequest::default();
        let text = load.load(&call.session, &call.home, call.zone.clone()).await?.context;
        return Ok(Some(ResourceContents::text(text, uri).with_mime_type(MARKDOWN)));
    }
    let Some(id) = memory_at(uri) else { return Ok(None) };
    let record = match call.session.memory(id).await {
        Err(error) if error.code == "not_found" => return Ok(None),
        found => found?,
    };
    let text = serde_json::to_string(&MemoryView::whole(&record));
    let text = text.map_err(|_| ApiError::internal())?;
    Ok(Some(ResourceContents::text(text, uri).with_mime_type(JSON)))
}

/// Ids of hot memories that begin with a text.
pub(super) async fn complete_id(call: &Call, start: &str) -> ApiResult<Vec<String>> {
    let ids = hot(call).await?.into_iter().map(|record| record.id.to_string());
    Ok(ids.filter(|id| id.starts_with(start)).collect())
}

/// Key points and tags of hot memories that contain a text.
pub(super) async fn complete_topic(call: &Call, part: &str) -> ApiResult<Vec<String>> {
    let part = part.to_lowercase();
    let words = hot(call).await?.into_iter().flat_map(|record| {
        let tags = record.memory.details.map(|details| details.tags).unwrap_or_default();
        record.memory.key_points.into_iter().chain(tags)
    });
    let words: BTreeSet<_> = words.filter(|word| word.to_lowercase().contains(&part)).collect();
    Ok(words.into_iter().take(OFFERED).collect())
}

async fn hot(call: &Call) -> ApiResult<Vec<MemoryRecord>> {
    let request =
        HotRequest { filter: call.filter(None)?, limit: OFFERED, ..HotRequest::default() };
    call.session.hottest(request).await
}
