//! The event stream: new events of the journal as server-sent events. Every node serves it. An id identifies
//! the same event on all nodes, so a client can resume on another node without gap or repetition.

use std::convert::Infallible;

use axum::http::header;
use axum::response::sse::{Event as Frame, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use storage::model::journal::{Cursor, EventName};
use tokio::sync::mpsc::Receiver;

use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::following::{Followed, follow};
use crate::prelude::*;
use crate::requests::headers::ResumeHeader;
use crate::requests::values::EventId;
use crate::responses::freshness_headers;
use crate::routes::activity::{StreamItem, StreamQuery, stream_kinds};

/// Follow new events, as server-sent events. `Last-Event-ID` resumes after an event, on any
/// node. 409 if the id belongs to another cluster, 410 if the events after it were trimmed.
#[utoipa::path(get, path = "/api/v1/events", tag = "activity",
    params(StreamQuery, ResumeHeader, ReadHeaders),
    responses((status = OK, body = StreamItem, content_type = "text/event-stream"),
        (status = CONFLICT, body = crate::responses::Error),
        (status = GONE, body = crate::responses::Error), ReadErrors))]
pub(crate) async fn stream_events(
    State(app): State<App>,
    ReaderRead(session, freshness): ReaderRead,
    resume: ResumeHeader,
    ValidQuery(query): ValidQuery<StreamQuery>,
) -> ApiResult<Response> {
    let kinds = parse_kinds(query.kind.as_ref().map(|kind| kind.0.as_str()))?;
    let namespace = session.read_namespace(named_namespace(query.namespace)?, None)?;
    let cluster = hex::encode(session.cluster_id().await?);
    let after = match resume.last.or(query.last_event_id).map(|id| id.0) {
        Some(last) if last.cluster != cluster => {
            let message = "this id belongs to another cluster: resume without an id";
            return Err(ApiError::new(ErrorKind::Conflict, "other_cluster", message));
        }
        Some(last) => last.cursor,
        None => Cursor::after(freshness.index),
    };
    if let Some(first) = session.first_after_gap(after).await? {
        let oldest = EventId { cluster, cursor: first.previous() };
        return Err(ApiError::gone(oldest.to_string()));
    }
    let receiver = follow(&app, &session, kinds, namespace, after)?;
    let frames = stream::unfold((receiver, cluster), next);
    let frames = Sse::new(frames).keep_alive(KeepAlive::default());
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok((freshness_headers(&freshness), headers, frames).into_response())
}

async fn next(
    (mut receiver, cluster): (Receiver<Followed>, String),
) -> Option<(Result<Frame, Infallible>, (Receiver<Followed>, String))> {
    let frame = frame(&cluster, receiver.recv().await?);
    Some((Ok(frame), (receiver, cluster)))
}

fn frame(cluster: &str, followed: Followed) -> Frame {
    let id = |cursor| EventId { cluster: cluster.to_owned(), cursor }.to_string();
    match followed {
        Followed::Marker(name, cursor) => Frame::default().event(name).id(id(cursor)).data("{}"),
        Followed::Event(view) => {
            let item = StreamItem::new(id(view.cursor), &view);
            let data = serde_json::to_string(&item).unwrap_or_default();
            Frame::default().id(id(view.cursor)).event(view.event.kind.name().name()).data(data)
        }
    }
}

/// The kinds of a comma-separated list; absent is all.
pub(crate) fn parse_kinds(text: Option<&str>) -> ApiResult<Vec<EventName>> {
    let Some(text) = text else { return Ok(stream_kinds().collect()) };
    let known = |name: &str| stream_kinds().find(|kind| kind.name() == name.trim());
    let kinds: Option<Vec<_>> = text.split(',').map(known).collect();
    kinds.ok_or_else(|| {
        let names: Vec<_> = stream_kinds().map(EventName::name).collect();
        let message = format!("must be some of {}, comma-separated", names.join(", "));
        ApiError::invalid("kind", message)
    })
}
