//! The caller and its tenant, in the shapes that published clients read. All features are included
//! in every tier.

use std::collections::BTreeMap;

use storage::model::tenant::Limit;

use crate::prelude::*;
use crate::requests::access::OrgChanges;

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
pub(crate) async fn auth_verify(
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
pub(crate) async fn org_get(ReaderRead(session, freshness): ReaderRead) -> ApiResponse<Org> {
    Ok(Success::ok(freshness, org(&session).await?))
}

/// Change the tenant. What the body lacks stays as it is.
#[utoipa::path(patch, path = "/api/v1/org", tag = "tenant", request_body = OrgChanges,
    responses((status = OK, body = Org), WriteErrors))]
pub(crate) async fn org_update(
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
