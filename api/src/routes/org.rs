//! The caller and its tenant, in the shapes that published clients read, and the access rules for its
//! namespaces. All features are included in every tier.

use std::collections::BTreeMap;

use storage::Etag;
use storage::command::{DeleteRule, PutRule};
use storage::model::access::{ANY, Rule};
use storage::model::tenant::Limit;

use serde::Deserialize;
use storage::OwnTenantPatch;
use storage::model::tenant::WEBHOOK_HOSTS_MAX;

use crate::prelude::*;
use crate::requests::memories::any_namespace;
use crate::requests::values::{Items, first_text};
use crate::words::RulePolicy;

/// A rule. It replaces the one for the same agent and namespace; policy `default` deletes it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"agent_id": "support agent", "namespace": "payroll", "policy": "deny"}))]
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
#[schema(example = json!({"namespace": "support"}))]
pub(crate) struct OwnNamespace {
    #[schema(schema_with = any_namespace)]
    pub(crate) namespace: Option<Namespace>,
}

/// Changes to a tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"webhook_hosts": ["hooks.example.com"], "guards_locked": true}))]
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

/// The features that published clients read.
const FEATURES: [&str; 8] = [
    "semantic_search",
    "hot_context",
    "graph",
    "feedback",
    "analytics",
    "cold_tier",
    "bulk",
    "acl",
];

/// The identity of a key.
#[derive(Serialize, ToSchema)]
pub(crate) struct Identity {
    /// Always true.
    authenticated: bool,
    tenant_id: String,
    /// Name of the tenant's tier.
    plan_tier: String,
    /// Name of the key.
    agent_label: String,
    /// Id of the key.
    key_id: KeyIdText,
    role: RoleWord,
    /// Its own namespace, which its searches boost.
    namespace: Nullable<String>,
    /// Where it stores memories that name no namespace.
    default_namespace: String,
    /// The only namespaces that it may use; empty is all.
    namespaces: Vec<String>,
    /// When it ends; null is never.
    #[schema(required)]
    expires_at: Option<Time>,
    limits: TenantLimits,
    features: [&'static str; FEATURES.len()],
}

/// Limits of a tenant; null is unlimited.
#[derive(Serialize, ToSchema)]
struct TenantLimits {
    ops_per_month: Nullable<u64>,
    max_nodes: Nullable<u64>,
    max_agents: Nullable<u64>,
    max_sync_requests: Nullable<u64>,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Org {
    tenant_id: String,
    org_name: String,
    /// Name of its tier.
    plan_tier: String,
    ops_limit: Nullable<u64>,
    nodes_limit: Nullable<u64>,
    max_seats: Nullable<u64>,
    /// API keys; null for a key that is restricted to some namespaces.
    seats_used: Nullable<u64>,
    /// All limits by name; null is unlimited.
    limits: BTreeMap<&'static str, Option<u64>>,
    features: String,
    /// Hosts to which agents may direct webhooks through MCP.
    webhook_hosts: Vec<String>,
    /// Whether only the key that has locked a memory, or an admin, may rewrite or unlock it.
    guards_locked: bool,
    created_at: Time,
}

/// Get the identity of the key.
#[utoipa::path(get, path = "/api/v1/auth/verify", tag = "tenant", params(ReadHeaders),
    responses((status = OK, body = Identity), ReadErrors))]
pub(crate) async fn verify_key(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<Identity> {
    let tenant = session.tenant().await?;
    let [max_nodes, max_agents] = [Limit::Memories, Limit::Keys].map(|limit| session.limit(limit));
    let (default_namespace, expires_at) = (session.store_namespace(None), session.key_end().await?);
    let caller = session.caller;
    let body = Identity {
        authenticated: true,
        tenant_id: caller.tenant.0.to_string(),
        plan_tier: tenant.tier,
        agent_label: caller.name,
        key_id: Id(caller.key),
        role: OneOf(caller.role),
        namespace: caller.namespace,
        default_namespace,
        namespaces: caller.access.bound_to().to_vec(),
        expires_at: expires_at.map(Time),
        limits: TenantLimits {
            ops_per_month: None,
            max_nodes,
            max_agents,
            max_sync_requests: None,
        },
        features: FEATURES,
    };
    Ok(Success::ok(freshness, body))
}

/// Get the tenant.
#[utoipa::path(get, path = "/api/v1/org", tag = "tenant", params(ReadHeaders),
    responses((status = OK, body = Org), ReadErrors))]
pub(crate) async fn get_org(ReaderRead(session, freshness): ReaderRead) -> ApiResponse<Org> {
    session.request.set_tag(Etag::of(&session.tenant().await?));
    Ok(Success::ok(freshness, org(&session).await?))
}

/// Change the tenant. What the body lacks stays as it is.
#[utoipa::path(patch, path = "/api/v1/org", tag = "tenant", request_body = OrgChanges,
    responses((status = OK, body = Org), WriteErrors))]
pub(crate) async fn update_org(
    Admin(session): Admin,
    ValidJson(request): ValidJson<OrgChanges>,
) -> ApiResponse<Org> {
    let freshness = session.change_tenant(request.into_patch()).await?;
    Ok(Success::ok(freshness, org(&session).await?))
}

async fn org(session: &Session) -> ApiResult<Org> {
    let (tenant, keys) = (session.tenant().await?, session.key_count().await?);
    let sees_all = session.caller.access.is_unrestricted();
    Ok(Org {
        tenant_id: session.caller.tenant.0.to_string(),
        org_name: tenant.name,
        plan_tier: tenant.tier,
        ops_limit: None,
        nodes_limit: session.limit(Limit::Memories),
        max_seats: session.limit(Limit::Keys),
        seats_used: sees_all.then_some(keys),
        limits: Limit::ALL.into_iter().map(|limit| (limit.name(), session.limit(limit))).collect(),
        features: FEATURES.join(","),
        webhook_hosts: tenant.webhook_hosts,
        guards_locked: tenant.guards_locked,
        created_at: Time(tenant.created_at),
    })
}

/// The caller's own namespace.
#[derive(Serialize, ToSchema)]
pub(crate) struct OwnNamespaceView {
    /// Always true.
    ok: bool,
    namespace: Nullable<String>,
}

/// A rule.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleView {
    id: String,
    agent_id: String,
    namespace: String,
    // `default` after its deletion.
    policy: PolicyWord,
    created_at: Time,
}

/// All rules of a tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleList {
    items: Vec<RuleView>,
}

/// Set the caller's own namespace: its searches boost memories of it.
#[utoipa::path(put, path = "/api/v1/namespaces/default", tag = "access",
    request_body = OwnNamespace,
    responses((status = OK, body = OwnNamespaceView), WriteErrors, NotFound))]
pub(crate) async fn set_default_namespace(
    Agent(session): Agent,
    ValidJson(request): ValidJson<OwnNamespace>,
) -> ApiResponse<OwnNamespaceView> {
    let namespace = named_namespace(request.namespace)?;
    let done = session.set_own_namespace(namespace).await?;
    let body = OwnNamespaceView { ok: true, namespace: done.value.key.namespace };
    Ok(Success::ok(done.freshness, body))
}

/// List the access rules.
#[utoipa::path(get, path = "/api/v1/namespaces/acl", tag = "access", params(ReadHeaders),
    responses((status = OK, body = RuleList), ReadErrors))]
pub(crate) async fn list_access_rules(
    AdminRead(session, freshness): AdminRead,
) -> ApiResponse<RuleList> {
    let rules = session.rules().await?;
    session.request.set_tag(Etag::of(&rules));
    let rules = rules.rules;
    let view = |rule: Rule| RuleView::new(Some(rule.policy), rule);
    Ok(Success::ok(freshness, RuleList { items: rules.into_iter().map(view).collect() }))
}

/// Create or replace a rule; policy `default` deletes it.
#[utoipa::path(post, path = "/api/v1/namespaces/acl", tag = "access", request_body = NewRule,
    responses((status = CREATED, body = RuleView), (status = OK, body = RuleView), WriteErrors,
        NotFound))]
pub(crate) async fn set_access_rule(
    Admin(session): Admin,
    ValidJson(request): ValidJson<NewRule>,
) -> ApiResponse<RuleView> {
    let agent = request.agent_id.map_or_else(|| ANY.to_owned(), |agent| agent.0);
    let policy = request.policy.0;
    let done = session.submit(PutRule { agent, namespace: request.namespace.0, policy }).await?;
    let status = if policy.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    let body = RuleView::new(policy, done.value);
    Ok(Success { status, freshness: done.freshness, body })
}

/// Delete a rule.
#[utoipa::path(delete, path = "/api/v1/namespaces/acl/{id}", tag = "access", params(RulePath),
    responses((status = OK, body = RuleView), WriteErrors, NotFound))]
pub(crate) async fn delete_access_rule(
    Admin(session): Admin,
    RulePath(number): RulePath,
) -> ApiResponse<RuleView> {
    let done = session.submit(DeleteRule(number)).await?;
    Ok(Success::ok(done.freshness, RuleView::new(None, done.value)))
}

impl RuleView {
    fn new(policy: RulePolicy, rule: Rule) -> Self {
        Self {
            id: rule.number.to_string(),
            agent_id: rule.agent,
            namespace: rule.namespace,
            policy: OneOf(policy),
            created_at: Time(rule.created_at),
        }
    }
}
