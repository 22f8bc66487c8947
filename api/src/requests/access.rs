//! Requests about API keys, access rules, and the caller's own namespace.

use serde::Deserialize;
use storage::OwnTenantPatch;
use storage::model::access::ANY;
use storage::model::api_key::{KEY_LIFETIME_SECONDS, KEY_NAMESPACES_MAX};
use storage::model::id::{KeyId, Timestamp};
use storage::model::tenant::{Role, WEBHOOK_HOSTS_MAX};
use utoipa::{IntoParams, ToSchema};

use crate::error::{ApiError, ApiResult};
use crate::requests::fields::*;
use crate::requests::memories::any_namespace;
use crate::requests::values::{Id, Items, first_text};

/// Name of a key that the request does not name.
const UNNAMED: &str = "unnamed";

/// A new key.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewKey {
    name: Option<KeyName>,
    /// Alias of `name`, which comes first.
    #[schema(ignore)]
    label: Option<KeyName>,
    #[schema(default = "agent")]
    pub(crate) role: Option<RoleWord>,
    /// Its own namespace, which its searches boost.
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
    /// The only namespaces that it may use, at least one. Absent is all. Not for an admin key.
    #[schema(min_items = 1, max_items = 100)]
    namespaces: Option<Vec<RuleNamespace>>,
    /// How long it is valid. Absent is without an end.
    expires_in_seconds: Option<KeyLifetime>,
    /// Alias of `expires_in_seconds`, which comes first: when it ends.
    #[schema(ignore)]
    expires_at: Option<TimeText>,
}

/// Which keys.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct KeyQuery {
    #[serde(default)]
    limit: KeyLimit,
    /// The `next_cursor` of the page before, or the id of a key: the page begins after it.
    #[param(value_type = Option<String>, pattern = "^[0-9a-f]{16}$")]
    cursor: Option<KeyIdText>,
    /// A namespace: each key in the response has `may_use`.
    pub(crate) access_to: Option<Namespace>,
}

/// A key's new text.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct KeyRotation {
    /// How long the present text stays valid.
    #[schema(default = 3600)]
    pub(crate) overlap_seconds: Option<KeyOverlap>,
}

impl KeyQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    pub(crate) fn after(&self) -> Option<KeyId> {
        self.cursor.as_ref().map(|Id(key)| *key)
    }
}

impl NewKey {
    /// The namespaces that it may use; empty is all. An empty list is rejected: a client that computed
    /// it meant none.
    pub(crate) fn bound_to(&self) -> ApiResult<Vec<String>> {
        let Some(names) = &self.namespaces else { return Ok(Vec::new()) };
        let names: Vec<_> = names.iter().map(|name| name.0.clone()).collect();
        let is_admin = self.role.as_ref().is_some_and(|role| role.0 >= Role::Admin);
        let message = match () {
            () if names.len() > KEY_NAMESPACES_MAX => {
                format!("must have at most {KEY_NAMESPACES_MAX} names")
            }
            () if is_admin => "must be absent: an admin key may use all namespaces".to_owned(),
            () if names.is_empty() => "must have a name; absent is all namespaces".to_owned(),
            () if names.iter().any(|name| name == ANY) => "must name each namespace".to_owned(),
            () => return Ok(names),
        };
        Err(ApiError::invalid("namespaces", message))
    }

    /// The seconds for which it is valid; `None` is without an end.
    pub(crate) fn lifetime(&self, now: Timestamp) -> ApiResult<Option<u64>> {
        let end = self.expires_at.as_ref().and_then(|time| time.0.start());
        let seconds = match (&self.expires_in_seconds, end) {
            (Some(seconds), _) => return Ok(Some(seconds.0)),
            (None, None) => return Ok(None),
            (None, Some(end)) => end.since(now) / 1_000_000,
        };
        let (min, max) = KEY_LIFETIME_SECONDS;
        match u64::try_from(seconds) {
            Ok(seconds) if (min..=max).contains(&seconds) => Ok(Some(seconds)),
            _ => Err(ApiError::invalid("expires_at", "must be in the future, within ten years")),
        }
    }

    /// Published clients send an empty name for none.
    pub(crate) fn name(&self) -> String {
        let names = [&self.name, &self.label].into_iter().flatten().map(|text| text.0.as_str());
        let first = names.into_iter().find(|name| !name.trim().is_empty());
        first.unwrap_or(UNNAMED).to_owned()
    }
}

/// A rule. It replaces the one for the same agent and namespace; policy `default` deletes it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewRule {
    /// Id or name of a key, or `*`.
    #[schema(default = "*")]
    pub(crate) agent_id: Option<AgentName>,
    /// A namespace, or `*`.
    pub(crate) namespace: RuleNamespace,
    pub(crate) policy: PolicyWord,
}

/// The caller's own namespace; absent clears it.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct OwnNamespace {
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
}

/// Changes to a tenant.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct OrgChanges {
    org_name: Option<OrgName>,
    /// Alias of `org_name`, which comes first.
    #[schema(ignore)]
    name: Option<OrgName>,
    /// Hosts to which agents may direct webhooks through MCP; those of an admin may go anywhere.
    #[schema(value_type = Option<Vec<String>>, max_items = 100)]
    webhook_hosts: Option<Items<HostName, 0, WEBHOOK_HOSTS_MAX>>,
    /// Whether only the key that has locked a memory, or an admin, may rewrite or unlock it.
    guards_locked: Option<bool>,
}

impl OrgChanges {
    pub(crate) fn into_patch(self) -> OwnTenantPatch {
        let hosts = self.webhook_hosts.map(|hosts| hosts.0.into_iter());
        OwnTenantPatch {
            name: first_text(self.org_name.as_ref(), self.name.as_ref()),
            webhook_hosts: hosts.map(|hosts| hosts.map(|it| it.0.to_lowercase()).collect()),
            guards_locked: self.guards_locked,
        }
    }
}
