//! Activity: the events of the journal, the latest first, and those that agents record.

use storage::command::RecordActivity;

use crate::cursors::PageCursor;
use crate::prelude::*;
use crate::requests::activity::{ActivityQuery, NewActivity};
use crate::responses::event::ActivityItem;

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct ActivityPage {
    items: Vec<ActivityItem>,
    /// Cursor of the next page; null on the last.
    next_cursor: Nullable<String>,
}

/// An activity was recorded.
#[derive(Serialize, ToSchema)]
pub(crate) struct Recorded {
    /// Always true.
    ok: bool,
}

/// List events, the latest first.
#[utoipa::path(get, path = "/api/v1/activity", tag = "activity", params(ActivityQuery, ReadHeaders),
    responses((status = OK, body = ActivityPage), ReadErrors))]
pub(crate) async fn activity_list(
    ReaderRead(session, freshness): ReaderRead,
    ValidQuery(query): ValidQuery<ActivityQuery>,
) -> ApiResponse<ActivityPage> {
    let before = query.cursor.map(|cursor| cursor.0.0);
    let node_id = query.node_id.map(|id| id.0);
    let page = session.recent_events(before, query.limit.get(), node_id).await?;
    let items = page.items.iter().map(ActivityItem::from).collect();
    let next_cursor = page.next.map(|cursor| PageCursor(cursor).to_string());
    Ok(Success::ok(freshness, ActivityPage { items, next_cursor }))
}

/// Record an activity of an agent.
#[utoipa::path(post, path = "/api/v1/activity", tag = "activity", request_body = NewActivity,
    responses((status = CREATED, body = Recorded), WriteErrors))]
pub(crate) async fn activity_create(
    Agent(session): Agent,
    ValidJson(request): ValidJson<NewActivity>,
) -> ApiResponse<Recorded> {
    let done = session.submit(RecordActivity(request.into_activity()?)).await?;
    Ok(Success::created(done.freshness, Recorded { ok: true }))
}
