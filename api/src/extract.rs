//! Reading requests: JSON bodies and query strings field by field, so that every
//! complaint names its field, and what is not known is ignored.

use std::collections::{HashSet, VecDeque};

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use storage::model::id::{MemoryId, TriggerId};
use storage::model::memory::{MemoryType, NAMESPACE_BYTES_MAX};
use utoipa::IntoParams;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits::{BODY_TIME, PAGE_MAX};
use crate::wire;

/// A JSON object of a request, an absent body being an empty one; or a query string, whose
/// values are all texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fields {
    map: Map<String, Value>,
    is_query: bool,
}

/// Memories that a bulk command names.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    pub(crate) known: VecDeque<MemoryId>,
    /// What is the id of nothing.
    pub(crate) unknown: Vec<String>,
}

/// Characters that are told of a text that is no id.
const UNKNOWN_ID_CHARS: usize = 64;

/// The body of a request as it came, and read.
pub(crate) struct Body {
    pub(crate) bytes: Bytes,
    pub(crate) fields: Fields,
}

impl FromRequest<App> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> ApiResult<Self> {
        let arrived = tokio::time::timeout(BODY_TIME, Bytes::from_request(request, app)).await;
        let arrived = arrived.map_err(|_| {
            let message = "the request body took too long to arrive";
            ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", message)
        })?;
        let bytes = arrived.map_err(|rejection| match rejection.into_response().status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let message = "a request body may have 2 MiB at most";
                ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
            }
            _ => ApiError::bad_request("bad_body", "the request body could not be read"),
        })?;
        let fields = Fields::parse(&bytes)?;
        Ok(Self { bytes, fields })
    }
}

impl Fields {
    pub(crate) fn parse(bytes: &[u8]) -> ApiResult<Self> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) => Ok(Self { map, is_query: false }),
            Ok(_) => Err(ApiError::bad_request("bad_json", "the body must be a JSON object")),
            Err(error) => {
                let message = format!("the body is not valid JSON: {error}");
                Err(ApiError::bad_request("bad_json", message))
            }
        }
    }

    /// The fields of a query string, as strings.
    fn of_query(query: &str) -> Self {
        // `?namespace=` says as little as no `namespace` at all.
        let pairs = query_pairs(query).into_iter().filter(|(_, value)| !value.is_empty());
        let map = pairs.map(|(name, value)| (name, Value::String(value))).collect();
        Self { map, is_query: true }
    }

    pub(crate) fn of_value(value: Value, field: &str) -> ApiResult<Self> {
        match value {
            Value::Object(map) => Ok(Self { map, is_query: false }),
            _ => Err(ApiError::invalid(field, "must be an object")),
        }
    }

    /// All fields, as they came.
    pub(crate) fn all(&self) -> &Map<String, Value> {
        &self.map
    }

    /// A field that is there and not null.
    fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// Whether a field says something.
    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether a field says that there is to be nothing.
    pub(crate) fn is_null(&self, name: &str) -> bool {
        self.map.get(name).is_some_and(Value::is_null)
    }

    /// Has a field that does not say anything say `text`.
    pub(crate) fn default_to(&mut self, name: &str, text: &str) {
        if !self.is_there(name) {
            self.map.insert(name.to_owned(), text.into());
        }
    }

    /// The first of several names that says something: aliases, the one that wins first.
    pub(crate) fn alias<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let says = |name: &&str| self.get(name).is_some_and(|value| value.as_str() != Some(""));
        names.iter().copied().find(says)
    }

    /// The first of several names that says something, read; what the others say is read as
    /// well, so that nothing wrong passes behind an alias.
    pub(crate) fn either<T>(
        &self,
        names: &[&str],
        read: impl Fn(&Self, &str) -> ApiResult<Option<T>>,
    ) -> ApiResult<Option<T>> {
        let says = |name: &&&str| self.alias(&[**name]).is_some();
        let read: Vec<Option<T>> =
            names.iter().filter(says).map(|name| read(self, name)).collect::<ApiResult<_>>()?;
        Ok(read.into_iter().flatten().next())
    }

    pub(crate) fn text(&self, name: &str, bytes_max: usize) -> ApiResult<Option<String>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() <= bytes_max => Ok(Some(text.clone())),
            Some(Value::String(_)) => {
                Err(ApiError::invalid(name, format!("may have {bytes_max} bytes at most")))
            }
            Some(_) => Err(ApiError::invalid(name, "must be a string")),
        }
    }

    /// A text with something in it.
    pub(crate) fn full_text(&self, name: &str, bytes_max: usize) -> ApiResult<Option<String>> {
        match self.text(name, bytes_max)? {
            Some(text) if text.trim().is_empty() => {
                Err(ApiError::invalid(name, "must not be empty"))
            }
            text => Ok(text),
        }
    }

    pub(crate) fn boolean(&self, name: &str) -> ApiResult<Option<bool>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(*value)),
            Some(Value::String(text)) if self.is_query && text == "true" => Ok(Some(true)),
            Some(Value::String(text)) if self.is_query && text == "false" => Ok(Some(false)),
            Some(_) => Err(ApiError::invalid(name, "must be true or false")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> ApiResult<Option<f64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| ApiError::invalid(name, "must be a number"))
    }

    /// A whole number within bounds.
    pub(crate) fn whole(&self, name: &str, min: u64, max: u64) -> ApiResult<Option<u64>> {
        match self.number(name)? {
            None => Ok(None),
            Some(number)
                if number.fract() == 0.0 && number >= min as f64 && number <= max as f64 =>
            {
                Ok(Some(number as u64))
            }
            Some(_) => {
                Err(ApiError::invalid(name, format!("must be a whole number from {min} to {max}")))
            }
        }
    }

    /// A heat, 0 to 1.
    pub(crate) fn heat(&self, name: &str) -> ApiResult<Option<f32>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_f64() {
            Some(heat) if (0.0..=1.0).contains(&heat) => Ok(Some(heat as f32)),
            _ => Err(ApiError::invalid(name, "must be a number from 0 to 1")),
        }
    }

    /// A whole number; one beyond the range is moved into it, as clients expect.
    pub(crate) fn clamped(
        &self,
        name: &str,
        default: usize,
        min: usize,
        max: usize,
    ) -> ApiResult<usize> {
        let number = match self.get(name) {
            None => return Ok(default),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) if self.is_query => text.parse().ok(),
            Some(_) => None,
        };
        match number {
            Some(number) if number.fract() == 0.0 => {
                Ok(number.clamp(min as f64, max as f64) as usize)
            }
            _ => Err(ApiError::invalid(name, "must be a whole number")),
        }
    }

    /// Id of a memory, which must be there.
    pub(crate) fn memory_id(&self, name: &str) -> ApiResult<MemoryId> {
        let id = self.get(name).and_then(Value::as_str).and_then(|text| text.parse().ok());
        id.ok_or_else(|| ApiError::invalid(name, "must be the id of a memory, a UUID"))
    }

    /// Ids of memories, each once, in the order of their first appearance; and texts in
    /// their place that are none.
    pub(crate) fn memory_ids(&self, name: &str, count_max: usize) -> ApiResult<Option<Ids>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let Value::Array(items) = value else {
            return Err(ApiError::invalid(name, "must be an array of ids"));
        };
        if items.is_empty() || items.len() > count_max {
            return Err(ApiError::invalid(name, format!("must have 1 to {count_max} items")));
        }
        let (mut seen, mut ids) = (HashSet::new(), Ids::default());
        for (at, item) in items.iter().enumerate() {
            let Value::String(text) = item else {
                let field = format!("{name}[{at}]");
                return Err(ApiError::invalid(field, "must be the id of a memory, a UUID"));
            };
            match text.parse() {
                Ok(id) if seen.insert(id) => ids.known.push_back(id),
                Ok(_) => {}
                Err(_) => ids.unknown.push(text.chars().take(UNKNOWN_ID_CHARS).collect()),
            }
        }
        Ok(Some(ids))
    }

    /// Id of a node.
    pub(crate) fn node(&self, name: &str) -> ApiResult<u64> {
        let id = self.get(name).and_then(Value::as_u64).filter(|id| *id > 0);
        id.ok_or_else(|| ApiError::invalid(name, "must be the id of a node"))
    }

    /// `limit` of a read.
    pub(crate) fn limit(&self, default: usize) -> ApiResult<usize> {
        self.clamped("limit", default, 1, PAGE_MAX)
    }

    /// One of a set of words.
    pub(crate) fn one_of<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        choices: &str,
    ) -> ApiResult<Option<T>> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => value
                .as_str()
                .and_then(parse)
                .map(Some)
                .ok_or_else(|| ApiError::invalid(name, format!("must be one of {choices}"))),
        }
    }

    pub(crate) fn memory_type(&self) -> ApiResult<Option<MemoryType>> {
        self.one_of("memory_type", wire::memory_type, wire::MEMORY_TYPES)
    }

    pub(crate) fn namespace(&self) -> ApiResult<Option<String>> {
        match self.alias(&["namespace"]) {
            Some(name) => self.full_text(name, NAMESPACE_BYTES_MAX),
            None => Ok(None),
        }
    }

    pub(crate) fn texts(
        &self,
        name: &str,
        count_max: usize,
        bytes_max: usize,
    ) -> ApiResult<Vec<String>> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let Value::Array(items) = value else {
            return Err(ApiError::invalid(name, "must be an array of strings"));
        };
        if items.len() > count_max {
            return Err(ApiError::invalid(name, format!("may have {count_max} items at most")));
        }
        let text = |item: &Value| match item {
            Value::String(text) if text.len() <= bytes_max => Ok(text.clone()),
            Value::String(_) => Err(ApiError::invalid(
                name,
                format!("each item may have {bytes_max} bytes at most"),
            )),
            _ => Err(ApiError::invalid(name, "must be an array of strings")),
        };
        items.iter().map(text).collect()
    }

    /// The objects of an array field, each for its own complaint.
    pub(crate) fn objects(&self, name: &str, count_max: usize) -> ApiResult<Vec<Self>> {
        let Some(Value::Array(items)) = self.get(name) else {
            return Err(ApiError::invalid(name, "must be an array of objects"));
        };
        if items.is_empty() || items.len() > count_max {
            return Err(ApiError::invalid(name, format!("must have 1 to {count_max} items")));
        }
        let numbered = items.iter().enumerate();
        numbered.map(|(at, item)| Self::of_value(item.clone(), &format!("{name}[{at}]"))).collect()
    }
}

/// The fields of the query string.
pub(crate) struct Query(pub(crate) Fields);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(Fields::of_query(parts.uri.query().unwrap_or_default())))
    }
}

/// A memory's id from the path.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct Id(#[param(value_type = uuid::Uuid)] pub(crate) MemoryId);

impl FromRequestParts<App> for Id {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let id = in_path(parts, app).await.map(Self);
        id.ok_or_else(|| ApiError::invalid("id", "must be the id of a memory, a UUID"))
    }
}

/// A trigger's id from the path.
#[derive(IntoParams)]
#[into_params(names("id"), parameter_in = Path)]
pub(crate) struct TriggerPath(#[param(value_type = uuid::Uuid)] pub(crate) TriggerId);

impl FromRequestParts<App> for TriggerPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let id = in_path(parts, app).await.map(Self);
        id.ok_or_else(|| ApiError::invalid("id", "must be the id of a trigger, a UUID"))
    }
}

async fn in_path<T: std::str::FromStr>(parts: &mut Parts, app: &App) -> Option<T> {
    let Path(text) = Path::<String>::from_request_parts(parts, app).await.ok()?;
    text.parse().ok()
}

/// Name and value of each part of a query string, decoded.
pub(crate) fn query_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|part| !part.is_empty());
    pairs
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

/// `application/x-www-form-urlencoded` decoding; a `%` that introduces no byte stays.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        match (first, tail.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[2..];
                continue;
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_strings_are_decoded() {
        assert_eq!(
            query_pairs("search=red+fox%21&flag&x=%zz&%C3%A4=%E4%BA%AC"),
            [("search", "red fox!"), ("flag", ""), ("x", "%zz"), ("ä", "京")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn numbers_beyond_the_range_are_moved_into_it() {
        let fields = Fields::parse(br#"{"limit": 1000, "a": -5, "b": 2.5, "c": "7"}"#).unwrap();
        assert_eq!(fields.limit(20), Ok(100));
        assert_eq!(fields.clamped("a", 1, 1, 9), Ok(1));
        assert!(fields.clamped("b", 1, 1, 9).is_err());
        assert!(fields.clamped("c", 1, 1, 9).is_err(), "a text is no number in a body");
        assert_eq!(Fields::of_query("c=7").clamped("c", 1, 1, 9), Ok(7));
        assert_eq!(fields.clamped("absent", 3, 1, 9), Ok(3));
    }

    #[test]
    fn an_absent_body_is_an_empty_object() {
        assert!(Fields::parse(b" \n").unwrap().all().is_empty());
        assert!(Fields::parse(b"[]").is_err());
        assert!(Fields::parse(b"{\"a\": NaN}").is_err());
    }
}
