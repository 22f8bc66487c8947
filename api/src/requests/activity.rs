//! Requests about activity: the journal's pages, what agents record, and the event stream.

use serde::Deserialize;
use serde_json::Value;
use storage::model::journal::AgentActivity;
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ApiResult};
use crate::limits::ACTIVITY_METADATA_BYTES_MAX;
use crate::requests::details::Exact;
use crate::requests::fields::*;

/// Which events.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ActivityQuery {
    #[serde(default)]
    pub(crate) limit: ActivityLimit,
    /// The `next_cursor` of the page before.
    pub(crate) cursor: Option<PageCursorText>,
    /// Only events of this memory. A request reads 10,000 events at most, so a page that is not the
    /// last may have fewer than `limit`, or none.
    pub(crate) node_id: Option<MemoryIdText>,
}

/// An activity of an agent.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewActivity {
    action: ActivityName,
    target_id: Option<ActivityTarget>,
    target_label: Option<ActivityTarget>,
    /// Any JSON, at most 8 KiB.
    #[schema(value_type = Option<Value>)]
    metadata: Option<Exact>,
}

impl NewActivity {
    pub(crate) fn into_activity(self) -> ApiResult<AgentActivity> {
        let metadata = self.metadata.map_or(Value::Null, |metadata| metadata.0).to_string();
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
    pub(crate) namespace: Option<Namespace>,
}

/// Which events of the stream.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct StreamQuery {
    /// Kinds of events, comma-separated; absent is all.
    pub(crate) kind: Option<EventKinds>,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
    /// The header `Last-Event-ID`, for clients that cannot set one.
    pub(crate) last_event_id: Option<EventIdText>,
}
