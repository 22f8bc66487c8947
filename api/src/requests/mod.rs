//! Requests as types. Each body, query and set of headers is one type that parses, validates
//! and documents itself: bounds stand in the types of its fields (see [`values`]), from where
//! both the parser and the OpenAPI schema take them.
//!
//! What published clients of the interface rely on holds for all of them: unknown fields are
//! ignored, `null` is an absent field, an absent body is an empty object, an empty query
//! parameter is an absent one. Aliases are fields of their own.

pub(crate) mod conditions;
pub(crate) mod context;
pub(crate) mod details;
pub(crate) mod fields;
pub(crate) mod headers;
pub(crate) mod import;
pub(crate) mod lists;
mod loose;
pub(crate) mod memories;
pub(crate) mod numbers;
pub(crate) mod times;
pub(crate) mod triggers;
pub(crate) mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::RequestExt;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::Extensions;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use futures::StreamExt;
use http_body_util::LengthLimitError;
use loose::{Argument, Parameter};
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::{Map, Value};

use crate::admission::request::RequestContext;
use crate::app::App;
use crate::error::{ApiError, ApiResult, ErrorKind};
use crate::limits::{BODY_BYTES_MAX, BODY_TIME};

/// Longest text of a parser that an error message repeats, in bytes.
const MESSAGE_BYTES_MAX: usize = 240;

/// The context of the request with these extensions.
pub(crate) fn context_of(extensions: &Extensions) -> &Arc<RequestContext> {
    extensions.get().expect("the outermost layer gives each request a context")
}

/// A JSON body that is valid for `T`.
pub(crate) struct ValidJson<T>(pub(crate) T);

/// A query string that is valid for `T`.
pub(crate) struct ValidQuery<T>(pub(crate) T);

/// A body as it arrived.
pub(crate) struct JsonBody(pub(crate) Bytes);

/// A query string as it arrived.
pub(crate) struct QueryText(pub(crate) String);

impl<T: DeserializeOwned> FromRequest<App> for ValidJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> ApiResult<Self> {
        JsonBody::from_request(request, app).await?.parse().map(Self)
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for ValidQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> ApiResult<Self> {
        QueryText(parts.uri.query().unwrap_or_default().to_owned()).parse().map(Self)
    }
}

impl FromRequest<App> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> ApiResult<Self> {
        let context = Arc::clone(context_of(request.extensions()));
        let length = request.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok());
        let length = match length.and_then(|text| text.parse().ok()) {
            Some(length) => BODY_BYTES_MAX.min(length),
            None if request.body().is_end_stream() => 0,
            // It may be as large as any.
            None => BODY_BYTES_MAX,
        };
        let share = app.budgets.bodies.take(context.key(), length);
        context.hold_body(
            share.map_err(|full| full.error("bodies_full", "bytes of requests in progress"))?,
        );
        let arrived = tokio::time::timeout(BODY_TIME, arrived(request.into_limited_body())).await;
        let arrived = arrived.map_err(|_| {
            let message = "the request body took too long to arrive";
            ApiError::new(ErrorKind::Timeout, "body_timeout", message)
        })?;
        arrived.inspect(|body| context.set_once_body(body)).map(Self).map_err(|error| {
            if error.into_inner().is::<LengthLimitError>() {
                ApiError::new(ErrorKind::TooLarge, "too_large", "the request body is too large")
            } else {
                ApiError::bad_request("bad_body", "the request body could not be read")
            }
        })
    }
}

/// The bytes of a body, in one buffer: each chunk keeps a buffer of its connection, and a body of
/// single bytes would take a hundred times its size.
async fn arrived(body: Body) -> Result<Bytes, axum::Error> {
    let mut bytes = Vec::new();
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes.into())
}

impl JsonBody {
    /// Parses the body; an absent one is an empty object.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> ApiResult<T> {
        let bytes = match self.0.trim_ascii() {
            b"" => b"{}",
            bytes => bytes,
        };
        if bytes[0] != b'{' {
            return Err(ApiError::bad_request("bad_json", "the body must be a JSON object"));
        }
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            match error.inner().classify() {
                serde_json::error::Category::Data => invalid(&path, &error.inner().to_string()),
                _ => bad_json(error.inner()),
            }
        })?;
        json.end().map_err(|error| bad_json(&error))?;
        Ok(parsed)
    }
}

/// Parses the arguments of a tool.
pub(crate) fn parse_arguments<T: DeserializeOwned>(object: Map<String, Value>) -> ApiResult<T> {
    serde_path_to_error::deserialize(Argument(Value::Object(object)))
        .map_err(|error| invalid(&error.path().to_string(), &error.inner().to_string()))
}

fn bad_json(error: &serde_json::Error) -> ApiError {
    if error.to_string().starts_with("recursion limit exceeded") {
        let message = "the body has objects or arrays at more than 127 levels";
        return ApiError::bad_request("bad_json", message);
    }
    ApiError::bad_request("bad_json", format!("the body is not valid JSON: {error}"))
}

impl QueryText {
    /// The values of each parameter that are not empty.
    fn parameters(&self) -> BTreeMap<String, Vec<String>> {
        let mut parameters: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let pairs = form_urlencoded::parse(self.0.as_bytes()).into_owned();
        for (name, value) in pairs.filter(|(_, value)| !value.is_empty()) {
            parameters.entry(name).or_default().push(value);
        }
        parameters
    }

    /// Whether a parameter is present and not empty.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.parameters().contains_key(name)
    }

    /// Parses the parameters.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> ApiResult<T> {
        parse_pairs(self.parameters())
    }
}

/// Parses named texts: a query string, or headers.
pub(crate) fn parse_pairs<T: DeserializeOwned>(
    pairs: BTreeMap<String, Vec<String>>,
) -> ApiResult<T> {
    let pairs = pairs.into_iter().map(|(name, text)| (name, Parameter(text)));
    serde_path_to_error::deserialize(MapDeserializer::new(pairs))
        .map_err(|error| invalid(&error.path().to_string(), &error.inner().to_string()))
}

/// An error of a field. serde reports missing and repeated fields at their parent; this names the
/// field. Messages of parsers are put in words of the interface.
fn invalid(path: &str, message: &str) -> ApiError {
    let path = if path == "." { "" } else { path };
    // The position within the body is of no use to a caller.
    let message = message.split(" at line ").next().unwrap_or_default();
    for (start, problem) in [("missing", "is required"), ("duplicate", "must be given once")] {
        let named = message.strip_prefix(start).and_then(|rest| rest.strip_prefix(" field `"));
        if let Some(name) = named.and_then(|rest| rest.split('`').next()) {
            let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            return ApiError::invalid(field, problem);
        }
    }
    if message.starts_with("invalid type: null") {
        return ApiError::invalid(path, "is required");
    }
    let expected =
        message.strip_prefix("invalid ").and_then(|rest| rest.rsplit_once(", expected "));
    if let Some((_, expected)) = expected {
        return ApiError::invalid(path, format!("must be {expected}"));
    }
    let message = match message.get(..message.floor_char_boundary(MESSAGE_BYTES_MAX)) {
        Some(start) if start.len() < message.len() => format!("{start}…"),
        _ => message.to_owned(),
    };
    ApiError::invalid(path, message)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::requests::fields::WholeNumber;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Sample {
        name: String,
        count: Option<u8>,
        #[serde(default)]
        items: Vec<Item>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Item {
        id: u8,
    }

    fn body(text: &str) -> ApiResult<Sample> {
        JsonBody(Bytes::copy_from_slice(text.as_bytes())).parse()
    }

    fn field(result: ApiResult<Sample>) -> String {
        result.unwrap_err().field.unwrap_or_default()
    }

    #[test]
    fn body_errors_name_the_field() {
        let sample = body(r#"{"name": "a", "count": null, "other": [1]}"#).unwrap();
        assert_eq!(sample, Sample { name: "a".into(), count: None, items: Vec::new() });
        assert_eq!(field(body(" ")), "name");
        assert_eq!(field(body(r#"{"name": 7}"#)), "name");
        assert_eq!(field(body(r#"{"name": "a", "name": "b"}"#)), "name");
        assert_eq!(field(body(r#"{"name": "a", "items": [{"id": 1}, {}]}"#)), "items[1].id");
        assert_eq!(field(body(r#"{"name": "a", "items": [7]}"#)), "items[0]");
        for bad in ["[]", "7", "{\"name\": NaN}", "{\"name\": \"a\"} x", "{"] {
            assert_eq!(body(bad).unwrap_err().code, "bad_json", "{bad}");
        }
    }

    #[test]
    fn query_text_is_decoded() {
        let query =
            QueryText("search=red+fox%21&flag&%C3%A4=%E4%BA%AC&page=1&page=2&empty=".into());
        let pairs = query.parameters();
        assert_eq!(pairs["search"], ["red fox!"]);
        assert_eq!(pairs["ä"], ["京"]);
        assert_eq!(pairs["page"].last().unwrap(), "2", "the last value wins");
        assert!(!query.has("flag") && !query.has("empty"));
    }

    #[test]
    fn query_numbers_are_exact() {
        type Numbers = BTreeMap<String, WholeNumber>;
        let number = |text: &str| {
            QueryText(format!("n={text}")).parse::<Numbers>().map(|numbers| numbers["n"].0)
        };
        for (text, expected) in [
            ("7", 7),
            ("3.0", 3),
            ("9007199254740993", (1 << 53) + 1),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(number(text), Ok(expected), "{text}");
        }
        for wrong in ["-1", "1.5", "NaN", "inf", "x", "18446744073709551616"] {
            assert_eq!(number(wrong).unwrap_err().field.as_deref(), Some("n"), "{wrong}");
        }
    }

    #[test]
    fn long_values_are_cut_in_messages() {
        let error =
            body(&format!(r#"{{"name": "a", "count": "{}"}}"#, "é".repeat(500))).unwrap_err();
        assert!(error.message.len() < 300);
    }
}
