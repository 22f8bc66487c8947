//! Requests about activity: the journal's pages, what agents record, and the event stream.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use storage::model::cluster::{GROUP, GroupId};
use storage::model::journal::{AgentActivity, Cursor};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::limits::{ACTIVITY_DEFAULT, ACTIVITY_METADATA_BYTES_MAX};
use crate::requests::fields::{ActivityName, ActivityTarget, EventKinds, Limit, Namespace};
use crate::requests::numbers::Clamped;
use crate::service::error::{ApiError, ApiResult};

/// The `next_cursor` of a page of events: index and ordinal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageCursor(pub(crate) Cursor);

impl<'de> Deserialize<'de> for PageCursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let cursor = text.split_once('.').and_then(|(index, ordinal)| {
            Some(Cursor::new(index.parse().ok()?, ordinal.parse().ok()?))
        });
        let wrong = || serde::de::Error::custom("must be the next_cursor of a page");
        cursor.map(Self).ok_or_else(wrong)
    }
}

impl PartialSchema for PageCursor {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.pattern(Some(r"^[0-9]{1,18}\.[0-9]{1,9}$")).build().into()
    }
}

impl ToSchema for PageCursor {}

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActivityQuery {
    #[param(inline, default = 50)]
    limit: Option<Limit>,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    pub(crate) cursor: Option<PageCursor>,
}

impl ActivityQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.map_or(ACTIVITY_DEFAULT, Clamped::get)
    }
}

/// An activity of an agent.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewActivity {
    #[schema(inline)]
    action: ActivityName,
    #[schema(inline)]
    target_id: Option<ActivityTarget>,
    #[schema(inline)]
    target_label: Option<ActivityTarget>,
    /// Any JSON, at most 8 KiB.
    metadata: Option<Value>,
}

impl NewActivity {
    pub(crate) fn into_activity(self) -> ApiResult<AgentActivity> {
        let metadata = self.metadata.unwrap_or_default().to_string();
        if metadata.len() > ACTIVITY_METADATA_BYTES_MAX {
            let message = format!("must have at most {ACTIVITY_METADATA_BYTES_MAX} bytes of JSON");
            return Err(ApiError::invalid("metadata", message));
        }
        let text =
            |text: Option<ActivityTarget>| text.map(|text| text.0).filter(|text| !text.is_empty());
        let (target_id, target_label) = (text(self.target_id), text(self.target_label));
        Ok(AgentActivity { action: self.action.0, target_id, target_label, metadata })
    }
}

/// The namespace of a read.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NamespaceQuery {
    /// `*` is all.
    #[param(inline)]
    pub(crate) namespace: Option<Namespace>,
}

/// Which events of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Kinds of events, comma-separated; absent is all.
    #[param(inline)]
    pub(crate) kind: Option<EventKinds>,
    /// `*` is all.
    #[param(inline)]
    pub(crate) namespace: Option<Namespace>,
    /// The header `Last-Event-ID`, for clients that cannot set one.
    #[param(inline)]
    pub(crate) last_event_id: Option<EventId>,
}

/// The id of an event of the stream: cluster, Raft group, index, ordinal.
#[derive(Debug, Clone)]
pub(crate) struct EventId {
    pub(crate) cluster: String,
    pub(crate) cursor: Cursor,
}

/// Hexadecimal digits of a cluster's id.
const CLUSTER_DIGITS: usize = 32;

impl EventId {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('.');
        let cluster = parts.next().filter(|cluster| cluster.len() == CLUSTER_DIGITS)?.to_owned();
        let group = Some(GroupId(parts.next()?.parse().ok()?)).filter(|group| *group == GROUP)?;
        let (index, ordinal) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let cursor = Cursor { group, index, ordinal };
        parts.next().is_none().then_some(Self { cluster, cursor })
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cursor { group, index, ordinal } = self.cursor;
        write!(out, "{}.{}.{index}.{ordinal}", self.cluster, group.0)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom("must be the id of an event of this stream");
        Self::parse(&text).ok_or_else(wrong)
    }
}

impl PartialSchema for EventId {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.pattern(Some(r"^[0-9a-f]{32}\.[0-9]{1,10}\.[0-9]{1,18}\.[0-9]{1,10}$")).build().into()
    }
}

impl ToSchema for EventId {}
