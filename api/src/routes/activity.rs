//! What happened, the latest first: the journal as its tenant sees it, and what agents add
//! to it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};
use storage::model::access::Access;
use storage::model::id::{MemoryId, TenantId};
use storage::model::journal::{Cursor, Event, EventKind};
use storage::model::memory::Memory;
use storage::model::tenant::{ApiKey, Caller, KeyId};
use storage::{Action, EventPage, Reader, View};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AgentCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Query};
use crate::limits::{ACTIVITY_DEFAULT, NOTE_BYTES_MAX, NOTE_METADATA_BYTES_MAX};
use crate::openapi::{Reading, Writing};
use crate::wire;
use crate::wire::requests::{self, Fresh};
use crate::write::{Answer, ask};

/// Characters of a memory's text beside an event.
const LABEL_CHARS: usize = 120;

/// A page of what happened.
#[derive(Serialize, ToSchema)]
struct ActivityPage {
    items: Vec<ShownEvent>,
    /// Where the next page begins; null on the last.
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Something that happened.
#[derive(Serialize, ToSchema)]
pub(crate) struct ShownEvent {
    id: String,
    /// Name of a key, or `system`.
    pub(crate) actor: String,
    /// `memory.add` and the like, or what an agent noted.
    action: String,
    #[schema(required)]
    pub(crate) target_id: Option<String>,
    #[schema(required)]
    pub(crate) target_label: Option<String>,
    /// What else is known.
    pub(crate) metadata: Value,
    #[schema(format = DateTime)]
    pub(crate) created_at: String,
}

/// Something was done.
#[derive(Serialize, ToSchema)]
struct Noted {
    /// Always true.
    ok: bool,
}

/// List what happened, the latest first.
#[utoipa::path(get, path = "/api/v1/activity", tag = "activity",
    params(requests::ActivityQuery, Fresh),
    responses((status = OK, body = ActivityPage), Reading))]
pub(crate) async fn activity_list(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Query(query): Query,
) -> ApiResult<Response> {
    let limit = query.limit(ACTIVITY_DEFAULT)?;
    let cursor = query.text("cursor", 64)?;
    let before = cursor.map(|text| parsed(&text, "cursor")).transpose()?;
    let (items, next) = recent(&app, &caller, before, limit).await?;
    let body = ActivityPage { items, next_cursor: next.map(named) };
    Ok((freshness, Json(body)).into_response())
}

/// Note something that an agent did.
#[utoipa::path(post, path = "/api/v1/activity", tag = "activity",
    request_body = requests::Note,
    responses((status = CREATED, body = Noted), Writing))]
pub(crate) async fn activity_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let fields = &body.fields;
    let action = fields.full_text("action", NOTE_BYTES_MAX)?;
    let action = action.ok_or_else(|| ApiError::invalid("action", "is required"))?;
    let text = |name| fields.text(name, NOTE_BYTES_MAX).map(Option::unwrap_or_default);
    let metadata = fields.all().get("metadata").cloned().unwrap_or(Value::Null);
    let metadata = metadata.to_string();
    if metadata.len() > NOTE_METADATA_BYTES_MAX {
        let message = format!("may have {NOTE_METADATA_BYTES_MAX} bytes of JSON at most");
        return Err(ApiError::invalid("metadata", message));
    }
    let details = vec![action, text("target_id")?, text("target_label")?, metadata];
    let Answer { freshness, .. } =
        ask(&app, &caller, None, Action::RecordActivity(details)).await?;
    Ok((StatusCode::CREATED, freshness, Json(Noted { ok: true })).into_response())
}

/// EventPage before `before` that the caller may know of, the latest first, and where the next
/// page begins.
pub(crate) async fn recent(
    app: &App,
    caller: &Caller,
    before: Option<Cursor>,
    limit: usize,
) -> ApiResult<(Vec<ShownEvent>, Option<Cursor>)> {
    let (tenant, access) = (caller.tenant, caller.access.clone());
    app.read(move |reader| {
        let label = |id: MemoryId| Ok(reader.get(tenant, id)?.map(|found| found.memory));
        let may_know = |event: &Event| may_know(reader, tenant, &access, event);
        let EventPage { events, next } = reader.journal(tenant, before, limit, may_know)?;
        let keys = reader.api_keys(tenant)?;
        let shown = events.iter().map(|event| {
            let present = event.1.subject.map(label).transpose()?.flatten();
            let present = present.filter(|memory| access.allows(&memory.namespace));
            Ok(shown(event, &keys, present.as_ref()))
        });
        Ok((shown.collect::<storage::Result<_>>()?, next))
    })
    .await
}

/// Whether an event is about nothing that is closed.
pub(crate) fn may_know(
    reader: &Reader,
    tenant: TenantId,
    access: &Access,
    event: &Event,
) -> storage::Result<bool> {
    if !event.namespace.is_empty() && !access.allows(&event.namespace) {
        return Ok(false);
    }
    let Some(other) = other_end(event).filter(|_| !access.is_whole()) else { return Ok(true) };
    // Where one lay that is gone nobody knows any more.
    let other = reader.get(tenant, other)?;
    Ok(other.is_some_and(|found| access.allows(&found.memory.namespace)))
}

/// The other end of an edge that an event is about.
fn other_end(event: &Event) -> Option<MemoryId> {
    let is_edge = matches!(event.kind, EventKind::Related | EventKind::Unrelated);
    event.details.first().filter(|_| is_edge)?.parse().ok()
}

/// An event as published clients read it, with the memory that it is about as it is now.
pub(crate) fn shown(
    (cursor, event): &(Cursor, Event),
    keys: &[(KeyId, ApiKey)],
    present: Option<&Memory>,
) -> ShownEvent {
    let actor = match event.actor {
        None => "system".to_owned(),
        Some(id) => {
            let key = keys.iter().find(|(known, _)| *known == id);
            key.map_or_else(|| id.to_string(), |(_, key)| key.name.clone())
        }
    };
    let detail =
        |at: usize| event.details.get(at).map(String::as_str).filter(|text| !text.is_empty());
    let target = event.subject.map(|id| id.to_string());
    let (mut target, mut label) = (target, present.map(|memory| memory.label.as_str()));
    let mut metadata = json!({ "namespace": event.namespace });
    let action = match event.kind {
        EventKind::Created => "memory.add",
        EventKind::Updated => {
            metadata["fields"] = event.details.clone().into();
            if event.details == ["is_pinned"] { "memory.pin" } else { "memory.patch" }
        }
        EventKind::Deleted => {
            label = detail(0);
            "memory.delete"
        }
        EventKind::Archived => "memory.archive",
        EventKind::Restored => "memory.restore",
        EventKind::Cooled => "memory.cool",
        EventKind::Warmed => "memory.warm",
        EventKind::Feedback => {
            metadata["signal"] = detail(0).into();
            "memory.feedback"
        }
        EventKind::Related | EventKind::Unrelated => {
            metadata["other_id"] = detail(0).into();
            metadata["relation"] = detail(1).into();
            if event.kind == EventKind::Related { "edge.add" } else { "edge.delete" }
        }
        EventKind::Fired
        | EventKind::Delivered
        | EventKind::DeliveryFailed
        | EventKind::FiringsSkipped => {
            label = detail(4).filter(|_| event.kind == EventKind::Fired).or(label);
            of_triggers(event, &mut metadata)
        }
        EventKind::Noted => {
            target = detail(1).map(str::to_owned);
            label = detail(2);
            metadata =
                detail(3).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
            detail(0).unwrap_or_default()
        }
    };
    ShownEvent {
        id: named(*cursor),
        actor,
        action: action.to_owned(),
        target_id: target,
        target_label: label.map(|label| label.chars().take(LABEL_CHARS).collect()),
        metadata,
        created_at: wire::timestamp(event.at),
    }
}

/// What a trigger did, and what came of it, added to `metadata`.
fn of_triggers(event: &Event, metadata: &mut Value) -> &'static str {
    let names: &[&str] = match event.kind {
        EventKind::Fired => {
            &["trigger_id", "trigger_name", "event", "trigger_action", "label", "result"]
        }
        EventKind::FiringsSkipped => &["skipped"],
        _ => &["trigger_id", "delivery_id", "attempt", "result", "next"],
    };
    for (name, detail) in names.iter().zip(&event.details) {
        let number = matches!(*name, "skipped" | "attempt").then(|| detail.parse::<u64>().ok());
        metadata[*name] = number.flatten().map_or_else(|| detail.clone().into(), Value::from);
    }
    match event.kind {
        EventKind::Fired => "trigger.fire",
        EventKind::FiringsSkipped => "trigger.skip",
        EventKind::Delivered => "webhook.deliver",
        _ => "webhook.fail",
    }
}

pub(crate) fn named(cursor: Cursor) -> String {
    format!("{}.{}", cursor.index, cursor.ordinal)
}

/// A cursor that `field` holds.
pub(crate) fn parsed(text: &str, field: &str) -> ApiResult<Cursor> {
    let parts = text.split_once('.');
    let parts =
        parts.and_then(|(index, ordinal)| Some((index.parse().ok()?, ordinal.parse().ok()?)));
    let (index, ordinal) =
        parts.ok_or_else(|| ApiError::invalid(field, "must be the next_cursor of a page"))?;
    Ok(Cursor { index, ordinal })
}
