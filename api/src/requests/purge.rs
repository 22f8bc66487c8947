//! The request to purge memories.

use serde::Deserialize;
use storage::model::origin::Origin;
use utoipa::ToSchema;

use crate::error::{ApiError, ApiResult};
use crate::requests::fields::*;
use crate::requests::memories::single_namespace;

/// Which memories to purge: those that fit all of these fields. At least one is required.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(min_properties = 1)]
pub(crate) struct PurgeRequest {
    /// Memories of this namespace.
    #[schema(schema_with = single_namespace)]
    namespace: Option<RuleNamespace>,
    /// Memories that keys with this name created.
    agent: Option<AgentName>,
    /// Memories that this key created.
    key_id: Option<KeyIdText>,
    /// Whether to count only.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

impl PurgeRequest {
    /// The namespace, and the origin.
    pub(crate) fn scope(self) -> ApiResult<(Option<String>, Origin)> {
        let namespace = self.namespace.map(|name| name.0);
        if namespace.as_deref() == Some("*") {
            return Err(ApiError::invalid("namespace", "must be one namespace"));
        }
        let (key, agent) = (self.key_id.map(|id| id.0), self.agent.map(|name| name.0));
        let origin = Origin { key, agent, ..Origin::default() };
        if namespace.is_none() && origin == Origin::default() {
            return Err(ApiError::invalid(
                "namespace",
                "is required, unless agent or key_id is set",
            ));
        }
        Ok((namespace, origin))
    }
}
