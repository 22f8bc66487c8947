//! The event stream: new events of the journal as server-sent events. Every node serves it. An
//! id identifies the same event on all nodes, so a client can resume on another node without
//! gap or repetition.

use std::convert::Infallible;

use axum::http::header;
use axum::response::sse::Event as Frame;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream;
use storage::model::access::Caller;
use storage::model::journal::Cursor;
use storage::model::tenant::Limit;
use tokio::sync::mpsc::{Receiver, channel};

use crate::cursors::EventId;
use crate::error::ErrorKind;
use crate::event_follower::{Follower, FollowerOptions, parse_kinds};
use crate::prelude::*;
use crate::requests::activity::StreamQuery;
use crate::requests::headers::ResumeHeader;
use crate::responses::event::StreamItem;
use crate::responses::freshness_headers;

/// Follow new events, as server-sent events. `Last-Event-ID` resumes after an event, on any
/// node. 409 if the id belongs to another cluster, 410 if the events after it were trimmed.
#[utoipa::path(get, path = "/api/v1/events", tag = "activity",
    params(StreamQuery, ResumeHeader, ReadHeaders),
    responses((status = OK, body = StreamItem, content_type = "text/event-stream"),
        (status = CONFLICT, body = crate::responses::Error),
        (status = GONE, body = crate::responses::Error), ReadErrors))]
pub(crate) async fn event_stream(
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
    let limit = session.limit(Limit::Streams).map_or(usize::MAX, |limit| limit as usize);
    let share = app.budgets.streams.take_below(Some(session.key_of_tenant()), 1, limit);
    let share = share.map_err(|full| full.error("too_many_streams", "open event streams"))?;
    let (sender, receiver) = channel(1);
    let Caller { tenant, key, key_hash, .. } = session.caller;
    let options = FollowerOptions { tenant, key, key_hash, kinds, namespace, cluster };
    let follower = Follower::new(app, options, after, sender);
    tokio::spawn(async move {
        let _share = share;
        follower.run().await;
    });
    let frames = Sse::new(stream::unfold(receiver, next)).keep_alive(KeepAlive::default());
    let headers = [(header::CACHE_CONTROL, "no-store")];
    Ok((freshness_headers(&freshness), headers, frames).into_response())
}

async fn next(
    mut receiver: Receiver<Frame>,
) -> Option<(Result<Frame, Infallible>, Receiver<Frame>)> {
    receiver.recv().await.map(|frame| (Ok(frame), receiver))
}
