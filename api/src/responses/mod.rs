//! Responses as types, the responder that puts freshness and status around them, and errors: the
//! status of each kind, and the body that all of them share.

pub(crate) mod memory;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use serde::{Serialize, Serializer};
use storage::Overview;
use storage::model::id::Timestamp;
use storage::model::memory::MemoryType;
use utoipa::ToSchema;
use utoipa::openapi::schema::{KnownFormat, SchemaFormat, Type};

use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::SMALL_RESPONSE_BYTES_MAX;
use crate::requests::fields::{MemoryIdText, MemoryTypeWord};
use crate::requests::values::{Id, OneOf, object, schema};
use crate::service::freshness::Freshness;
use crate::words::Word;

/// What a handler returns.
pub(crate) type ApiResponse<T> = ApiResult<Success<T>>;

/// A successful response: a status, how fresh it is, and a JSON body.
pub(crate) struct Success<T> {
    pub(crate) status: StatusCode,
    pub(crate) freshness: Freshness,
    pub(crate) body: T,
}

impl<T> Success<T> {
    /// 200.
    pub(crate) fn ok(freshness: Freshness, body: T) -> Self {
        Self { status: StatusCode::OK, freshness, body }
    }

    /// 201.
    pub(crate) fn created(freshness: Freshness, body: T) -> Self {
        Self { status: StatusCode::CREATED, freshness, body }
    }
}

impl<T: Serialize + Send + 'static> IntoResponse for Success<T> {
    fn into_response(self) -> Response {
        match json(self.body) {
            Ok(body) => {
                let headers = [(header::CONTENT_TYPE, "application/json")];
                (self.status, freshness_headers(&self.freshness), headers, body).into_response()
            }
            Err(error) => error.into_response(),
        }
    }
}

/// A value as JSON. The text of a large one is built when it is read, once its bytes are counted: a
/// page of control characters takes twelve times as much as its labels.
fn json<T: Serialize + Send + 'static>(value: T) -> ApiResult<Body> {
    let start = start(&value)?;
    Ok(match start.bytes == start.text.len() {
        true => Body::from(start.text),
        false => Body::new(LargeJson { value: Some(value), bytes: start.bytes }),
    })
}

/// A body that knows its size before it is built.
struct LargeJson<T> {
    /// `None` once it is read.
    value: Option<T>,
    bytes: usize,
}

impl<T> Unpin for LargeJson<T> {}

impl<T: Serialize> HttpBody for LargeJson<T> {
    type Data = Bytes;
    type Error = serde_json::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, serde_json::Error>>> {
        let Self { value, bytes } = self.get_mut();
        Poll::Ready(value.take().map(|value| {
            let mut text = Vec::with_capacity(*bytes);
            serde_json::to_writer(&mut text, &value)?;
            Ok(Frame::data(Bytes::from(text)))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.value.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(if self.value.is_some() { self.bytes as u64 } else { 0 })
    }
}

/// Bytes of a body as JSON.
pub(crate) fn json_bytes<T: Serialize>(body: &T) -> ApiResult<usize> {
    Ok(start(body)?.bytes)
}

fn start<T: Serialize>(body: &T) -> ApiResult<Start> {
    let mut start = Start::default();
    serde_json::to_writer(&mut start, body).map_err(|error| {
        tracing::error!(%error, "a response cannot be serialized");
        ApiError::internal()
    })?;
    Ok(start)
}

/// Keeps a text of [`SMALL_RESPONSE_BYTES_MAX`] at most. Counts all of its bytes.
#[derive(Default)]
struct Start {
    text: Vec<u8>,
    bytes: usize,
}

impl io::Write for Start {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.bytes += part.len();
        if self.bytes <= SMALL_RESPONSE_BYTES_MAX {
            self.text.extend_from_slice(part);
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The headers that report how fresh a response is.
pub(crate) fn freshness_headers(freshness: &Freshness) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(3);
    headers.insert("x-hearth-index", freshness.index.into());
    let consistency = HeaderValue::from_static(freshness.consistency.name());
    headers.insert("x-hearth-consistency", consistency);
    let millis = u64::try_from(freshness.staleness.as_millis()).unwrap_or(u64::MAX);
    headers.insert("x-hearth-staleness-ms", millis.into());
    headers
}

/// The body of an error response.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({"error": "invalid_field", "message": "is required", "request_id": "019a3c5e-7d40-7b21-9c0e-5f1d2a3b4c09", "field": "label"}))]
pub(crate) struct Error {
    /// A stable code.
    error: &'static str,
    /// A text for people.
    message: String,
    request_id: String,
    /// The field at fault, for `invalid_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The id after which an event stream may resume, for `events_gone`.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<String>,
    /// The memory with the same text, for `duplicate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate_of: Option<MemoryIdText>,
}

/// A response without a body. [`name_request`] adds that, with the id of the request.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.kind as u16).expect("each kind is a status");
        let mut response = status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == ErrorKind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// Adds the body to the response of an error.
pub(crate) fn name_request(response: &mut Response, request_id: &str) {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        let (head, body) = Json(error.body(request_id)).into_response().into_parts();
        *response.body_mut() = body;
        response.headers_mut().extend(head.headers);
    }
}

impl ApiError {
    /// The body of the response to the request with this id.
    pub(crate) fn body(self, request_id: &str) -> Error {
        Error {
            error: self.code,
            message: self.message,
            request_id: request_id.to_owned(),
            field: self.field,
            oldest: self.oldest,
            duplicate_of: self.duplicate_of.map(Id),
        }
    }
}

/// A text or a number that may be null, but is never absent. utoipa takes each `Option` for a
/// field that may be absent.
pub(crate) type Nullable<T> = Option<T>;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Time(pub(crate) Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

schema!([] Time as "Time", object(Type::String)
    .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).build());

/// Number of memories of a type.
#[derive(Serialize, ToSchema)]
pub(crate) struct TypeCount {
    r#type: MemoryTypeWord,
    count: u64,
}

/// Memories of each type.
pub(crate) fn type_counts(overview: &Overview) -> Vec<TypeCount> {
    let counts = MemoryType::ALL.into_iter().zip(overview.types);
    counts.map(|(memory_type, count)| TypeCount { r#type: OneOf(memory_type), count }).collect()
}

/// First and last day of a month (see `Timestamp::month`), as YYYY-MM-DD.
pub(crate) fn days_of(month: u32) -> (String, String) {
    let (year, number) = ((month / 12) as i16, (month % 12 + 1) as i8);
    let first = jiff::civil::Date::new(year, number, 1).unwrap_or_default();
    (first.to_string(), first.last_of_month().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn month_has_first_and_last_day() {
        let (first, last) = days_of(Timestamp(1_709_251_200_000_000).month());
        assert_eq!((first.as_str(), last.as_str()), ("2024-03-01", "2024-03-31"));
    }

    #[test]
    fn times_are_iso_8601_in_utc() {
        let time = serde_json::to_value(Time(Timestamp(1_500_000)));
        assert_eq!(time.ok(), Some("1970-01-01T00:00:01.5Z".into()));
    }
}
