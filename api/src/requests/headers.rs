//! Headers of requests: freshness of reads, the default namespace, the time zone, the origin of new
//! memories, idempotency keys, and where an event stream resumes. Ids in paths.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::HeaderMap;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH, USER_AGENT};
use axum::http::request::Parts;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use storage::model::access::Caller;
use storage::model::id::{KeyId, MemoryId, TenantId, TriggerId};
use storage::model::memory::{ORIGIN_BYTES_MAX, Origin};
use storage::{ETAGS_MAX, Filter, Precondition, Rejection};
use utoipa::IntoParams;

use crate::app::App;
use crate::error::{ApiError, ApiResult};
use crate::limits::STALENESS_MAX;
use crate::requests::fields::*;
use crate::requests::memories::named_namespace;
use crate::requests::parse_pairs;
use crate::service::Session;

/// How fresh a response must be.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ReadHeaders {
    #[serde(rename = "X-Hearth-Consistency")]
    #[param(inline)]
    pub(crate) consistency: Option<ConsistencyWord>,
    /// The response reflects this log index at least; 503 after 10 s.
    #[serde(rename = "X-Hearth-Min-Index")]
    #[param(inline)]
    pub(crate) min_index: Option<WholeNumber>,
    /// Bound of the staleness of a local read, in milliseconds; beyond it 503.
    #[serde(rename = "X-Hearth-Max-Staleness-Ms")]
    #[param(inline, default = json!(STALENESS_MAX.as_millis() as u64))]
    pub(crate) max_staleness_ms: Option<WholeNumber>,
}

/// The default namespace of a request.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct NamespaceHeader {
    /// Namespace, if body and query name none.
    #[serde(rename = "X-Namespace")]
    namespace: Option<Namespace>,
}

impl NamespaceHeader {
    pub(crate) fn namespace(&self) -> Option<String> {
        let name = self.namespace.as_ref().map(|name| name.0.trim());
        name.filter(|name| !name.is_empty()).map(str::to_owned)
    }

    /// The memories that a read may return: those that the caller may access, in the namespace
    /// that the request names, else in that of the header. `*` is all of them.
    pub(crate) fn filter(&self, session: &Session, named: Option<Namespace>) -> ApiResult<Filter> {
        session.filter(named_namespace(named)?, self.namespace())
    }
}

/// The time zone of the times that a query names.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ZoneHeader {
    /// Where the days of "yesterday" or "last week" begin: a name of the IANA database.
    #[serde(rename = "X-Timezone")]
    #[param(inline, default = "UTC")]
    pub(crate) zone: Option<ZoneName>,
}

impl ZoneHeader {
    /// The zone; UTC without the header.
    pub(crate) fn time_zone(self) -> TimeZone {
        self.zone.map_or(TimeZone::UTC, |zone| zone.0.0)
    }
}

/// Where new memories come from, as the request says.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct OriginHeaders {
    /// The tool by which the agent stores the memory.
    #[serde(rename = "X-Hearth-Tool")]
    tool: Option<OriginName>,
}

/// Where new memories come from.
pub(crate) struct RequestOrigin {
    tool: Option<OriginName>,
    /// The first word of `User-Agent`, if it is printable.
    client: Option<String>,
}

impl RequestOrigin {
    /// The origin of the memories that `caller` creates by a tool.
    pub(crate) fn of_tool(&self, caller: &Caller, tool: &str) -> Origin {
        let origin = Self { tool: None, client: self.client.clone() }.of(caller);
        Origin { tool: Some(tool.to_owned()), ..origin }
    }

    /// The origin of the memories that `caller` creates.
    pub(crate) fn of(self, caller: &Caller) -> Origin {
        let agent = Some(caller.name.clone()).filter(|name| !name.is_empty());
        let (client, tool) = (self.client, self.tool.map(|tool| tool.0));
        Origin { key: Some(caller.key), agent, client, tool }
    }
}

impl FromRequestParts<App> for RequestOrigin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let OriginHeaders { tool } = OriginHeaders::from_request_parts(parts, app).await?;
        Ok(Self { tool, client: client_name(&parts.headers) })
    }
}

/// The first word of `User-Agent`, if it is printable.
pub(crate) fn client_name(headers: &HeaderMap) -> Option<String> {
    let client = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let client = client.and_then(|text| text.split_whitespace().next());
    client.map(|word| word.chars().take(ORIGIN_BYTES_MAX).collect())
}

/// Name of the header with the namespace of a request.
pub(crate) const NAMESPACE: &str = "x-namespace";

/// The `Idempotency-Key` of a write, of which [`crate::openapi`] tells.
#[derive(Debug, Clone, Default, Deserialize)]
struct IdempotencyHeader {
    #[serde(rename = "Idempotency-Key")]
    key: Option<IdempotencyKey>,
}

/// The idempotency key of a request.
///
/// # Errors
/// If it is blank or too long.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> ApiResult<Option<String>> {
    let IdempotencyHeader { key } = parse(headers, &["Idempotency-Key"])?;
    Ok(key.map(|key| key.0))
}

/// What `If-Match` or `If-None-Match` requires of the resource that a write changes. A text that is no tag of this
/// service is that of no resource. `If-None-Match` has only `*`; with another value, no resource is right.
pub(crate) fn precondition(headers: &HeaderMap) -> Option<Precondition> {
    let mut values = headers.get_all(IF_MATCH).iter().peekable();
    if values.peek().is_none() {
        let value = headers.get(IF_NONE_MATCH)?;
        return Some(match value.as_bytes() {
            b"*" => Precondition::Absent,
            _ => Precondition::HasOne(Vec::new()),
        });
    }
    let texts: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
    if texts.iter().any(|text| text.trim() == "*") {
        return Some(Precondition::Exists);
    }
    let tags =
        texts.iter().flat_map(|text| text.split(',')).filter_map(|tag| tag.trim().parse().ok());
    Some(Precondition::HasOne(tags.take(ETAGS_MAX).collect()))
}

/// Where an event stream resumes.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct ResumeHeader {
    /// Id of the last event received; absent starts the stream now.
    #[serde(rename = "Last-Event-ID")]
    #[param(inline)]
    pub(crate) last: Option<EventIdText>,
}

/// Extracts types of headers, each by the names of its fields.
macro_rules! headers {
    ($($type:ty: $($name:literal),+;)+) => {
        $(impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, _: &App) -> ApiResult<Self> {
                parse(&parts.headers, &[$($name),+])
            }
        })+

        /// The fuzz target of headers.
        #[cfg(feature = "fuzzing")]
        pub(crate) fn fuzz(headers: &HeaderMap) {
            $(drop(parse::<$type>(headers, &[$($name),+]));)+
            drop(idempotency_key(headers));
            if let Some(Precondition::HasOne(tags)) = precondition(headers) {
                assert!(tags.len() <= ETAGS_MAX);
            }
            assert!(client_name(headers).is_none_or(|name| name.len() <= ORIGIN_BYTES_MAX));
        }
    };
}

headers! {
    ReadHeaders: "X-Hearth-Consistency", "X-Hearth-Min-Index", "X-Hearth-Max-Staleness-Ms";
    NamespaceHeader: "X-Namespace";
    ZoneHeader: "X-Timezone";
    OriginHeaders: "X-Hearth-Tool";
    ResumeHeader: "Last-Event-ID";
}

/// Parses the headers with these names.
fn parse<T: DeserializeOwned + Default>(headers: &HeaderMap, names: &[&str]) -> ApiResult<T> {
    if !names.iter().any(|name| headers.contains_key(*name)) {
        return Ok(T::default());
    }
    let mut pairs = BTreeMap::new();
    for name in names.iter().copied() {
        let Some(value) = headers.get(name) else { continue };
        let text = str::from_utf8(value.as_bytes());
        let text = text.map_err(|_| ApiError::invalid(name, "must be UTF-8"))?;
        pairs.insert(name.to_owned(), vec![text.to_owned()]);
    }
    // An event source sends an empty id before its first event.
    if pairs.get("Last-Event-ID").is_some_and(|texts| texts.concat().is_empty()) {
        pairs.remove("Last-Event-ID");
    }
    parse_pairs(pairs)
}

/// Defines and extracts an id of a path. A text that is no id is that of nothing: 404.
macro_rules! paths {
    ($($(#[$doc:meta])* $type:ident($(#[$schema:meta])? $id:ty): $what:literal;)+) => {
        $($(#[$doc])*
        #[derive(IntoParams)]
        #[into_params(names("id"), parameter_in = Path)]
        pub(crate) struct $type($(#[$schema])? pub(crate) $id);

        impl FromRequestParts<App> for $type {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
                let text = Path::<String>::from_request_parts(parts, app).await.ok();
                let id = text.and_then(|Path(text)| text.parse().ok()).map(Self);
                id.ok_or_else(|| Rejection::NoSuch($what.to_owned()).into())
            }
        })+
    };
}

paths! {
    /// Id of a memory.
    MemoryPath(#[param(value_type = uuid::Uuid)] MemoryId): "memory";
    /// Id of a trigger.
    TriggerPath(#[param(value_type = uuid::Uuid)] TriggerId): "trigger";
    /// Id of a key.
    KeyPath(#[param(value_type = String, pattern = "^[0-9a-f]{16}$")] KeyId): "key";
    /// Number of an access rule.
    RulePath(#[param(value_type = String, pattern = "^[0-9]{1,18}$")] u64): "rule";
    /// Id of a tenant.
    TenantPath(#[param(value_type = u32)] TenantId): "tenant";
    /// Id of a node of the cluster.
    NodePath(u64): "node";
}
