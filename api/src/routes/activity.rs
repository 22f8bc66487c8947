//! Activity: the events of the journal, the latest first, and those that agents record.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller};
use crate::openapi::{ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::activity::{ActivityQuery, NewActivity};
use crate::requests::headers::Fresh;
use crate::requests::{ValidJson, ValidQuery};
use crate::responses::Respond;
use crate::responses::event::{ActivityItem, page_cursor};
use crate::service::error::ApiResult;

/// A page of events.
#[derive(Serialize, ToSchema)]
pub(crate) struct ActivityPage {
    items: Vec<ActivityItem>,
    /// Cursor of the next page; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// An activity was recorded.
#[derive(Serialize, ToSchema)]
pub(crate) struct Recorded {
    /// Always true.
    ok: bool,
}

/// List events, the latest first.
#[utoipa::path(get, path = "/api/v1/activity", tag = "activity", params(ActivityQuery, Fresh),
    responses((status = OK, body = ActivityPage), ReadErrors))]
pub(crate) async fn activity_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    ValidQuery(query): ValidQuery<ActivityQuery>,
) -> ApiResult<Respond<ActivityPage>> {
    let before = query.cursor.map(|cursor| cursor.0);
    let page = app.service().recent_events(&caller, before, query.limit()).await?;
    let items = page.events.iter().map(ActivityItem::from).collect();
    let body = ActivityPage { items, next_cursor: page.next.map(page_cursor) };
    Ok(Respond::ok(freshness, body))
}

/// Record an activity of an agent.
#[utoipa::path(post, path = "/api/v1/activity", tag = "activity", request_body = NewActivity,
    responses((status = CREATED, body = Recorded), WriteErrors))]
pub(crate) async fn activity_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    ValidJson(request): ValidJson<NewActivity>,
) -> ApiResult<Respond<Recorded>> {
    let activity = request.into_activity()?;
    let freshness = app.service().record_activity(&caller, activity).await?;
    Ok(Respond::created(freshness, Recorded { ok: true }))
}
