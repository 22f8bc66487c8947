//! The caller and its tenant, in the shapes that published clients read. A self-hosted service
//! has no plans: limits are `null` unless set, and all features are included.

use axum::extract::State;
use serde::Serialize;
use storage::model::id::TenantId;
use storage::model::tenant::Role;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, ReaderCaller};
use crate::openapi::{ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::ValidJson;
use crate::requests::access::OrgChanges;
use crate::requests::headers::Fresh;
use crate::responses::{Respond, timestamp, word};
use crate::service::Service;
use crate::service::error::ApiResult;

/// The plan that published clients read.
const PLAN: &str = "self-hosted";
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
    plan_tier: &'static str,
    /// Name of the key.
    agent_label: String,
    #[schema(schema_with = word::<Role>)]
    role: &'static str,
    #[schema(required)]
    namespace: Option<String>,
    limits: TenantLimits,
    features: [&'static str; FEATURES.len()],
}

/// Limits of a tenant; null is unlimited.
#[derive(Serialize, ToSchema)]
struct TenantLimits {
    #[schema(required)]
    ops_per_month: Option<u64>,
    #[schema(required)]
    max_nodes: Option<u64>,
    #[schema(required)]
    max_agents: Option<u64>,
    #[schema(required)]
    max_sync_requests: Option<u64>,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
pub(crate) struct Org {
    tenant_id: String,
    org_name: String,
    plan_tier: &'static str,
    #[schema(required)]
    ops_limit: Option<u64>,
    #[schema(required)]
    nodes_limit: Option<u64>,
    #[schema(required)]
    max_seats: Option<u64>,
    seats_used: usize,
    features: String,
    #[schema(format = DateTime)]
    created_at: String,
}

/// Get the identity of the key.
#[utoipa::path(get, path = "/api/v1/auth/verify", tag = "tenant", params(Fresh),
    responses((status = OK, body = Identity), ReadErrors))]
pub(crate) async fn auth_verify(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<Identity>> {
    let tenant = app.service().tenant(caller.tenant).await?;
    let body = Identity {
        authenticated: true,
        tenant_id: caller.tenant.0.to_string(),
        plan_tier: PLAN,
        agent_label: caller.name,
        role: caller.role.name(),
        namespace: caller.namespace,
        limits: TenantLimits {
            ops_per_month: None,
            max_nodes: tenant.memories_max,
            max_agents: None,
            max_sync_requests: None,
        },
        features: FEATURES,
    };
    Ok(Respond::ok(freshness, body))
}

/// Get the tenant.
#[utoipa::path(get, path = "/api/v1/org", tag = "tenant", params(Fresh),
    responses((status = OK, body = Org), ReadErrors))]
pub(crate) async fn org_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<Org>> {
    Ok(Respond::ok(freshness, org(app.service(), caller.tenant).await?))
}

/// Rename the tenant. Without a name nothing changes.
#[utoipa::path(patch, path = "/api/v1/org", tag = "tenant", request_body = OrgChanges,
    responses((status = OK, body = Org), WriteErrors))]
pub(crate) async fn org_update(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    ValidJson(request): ValidJson<OrgChanges>,
) -> ApiResult<Respond<Org>> {
    let freshness = app.service().rename_tenant(&caller, request.into_name()).await?;
    Ok(Respond::ok(freshness, org(app.service(), caller.tenant).await?))
}

async fn org(service: &Service, id: TenantId) -> ApiResult<Org> {
    let (tenant, keys) = service.tenant_and_keys(id).await?;
    Ok(Org {
        tenant_id: id.0.to_string(),
        org_name: tenant.name,
        plan_tier: PLAN,
        ops_limit: None,
        nodes_limit: tenant.memories_max,
        max_seats: None,
        seats_used: keys,
        features: FEATURES.join(","),
        created_at: timestamp(tenant.created_at),
    })
}
