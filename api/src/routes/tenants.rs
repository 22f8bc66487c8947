//! The tenants of the cluster and their tiers, for its operator. On the operator's listener only.
//! Every route requires the operator key.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::Path;
use serde::Deserialize;
use storage::TenantPatch;
use storage::command::NewTenant;
use storage::model::id::TenantId;
use storage::model::tenant::{
    Limit, OwnLimits, TENANT_NAME_BYTES_MAX, TIER_NAME_BYTES_MAX, TenantState, Tier,
};

use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::admission::request::RequestContext;
use crate::openapi::{OperatorErrors, OperatorReadErrors};
use crate::prelude::*;
use crate::requests::headers::TenantPath;
use crate::requests::numbers::Whole;
use crate::requests::values::NonBlank;
use crate::service::Operator;
use crate::service::tenants::TenantSummary;

type TenantName = NonBlank<TENANT_NAME_BYTES_MAX>;
type TenantStateWord = OneOf<TenantState>;
type TierName = NonBlank<TIER_NAME_BYTES_MAX>;
/// Limits by name; null is unlimited.
type LimitValues = BTreeMap<LimitWord, Option<Whole<0, { i64::MAX as u64 }>>>;

/// The name of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct LimitWord(Limit);

impl TryFrom<String> for LimitWord {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = Limit::ALL.into_iter().find(|limit| limit.name() == name);
        known
            .map(Self)
            .ok_or_else(|| format!("must be one of {}", Limit::ALL.map(Limit::name).join(", ")))
    }
}

/// A tenant to create.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "Example Ltd", "limits": {"memories": 100000}}))]
pub(crate) struct TenantRequest {
    name: TenantName,
    tier: Option<TierName>,
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Option<u64>>)]
    limits: LimitValues,
}

/// Changes of a tenant; absent fields stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"state": "suspended"}))]
pub(crate) struct TenantChanges {
    name: Option<TenantName>,
    tier: Option<TierName>,
    state: Option<TenantStateWord>,
    /// Replaces all limits of its own.
    #[schema(value_type = Option<BTreeMap<String, Option<u64>>>)]
    limits: Option<LimitValues>,
}

/// The tenant's name, so that a wrong id deletes nothing.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Confirmation {
    #[param(inline)]
    name: TenantName,
}

/// Limits of a tier.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"limits": {"memories": 1000000, "requests_per_minute": 6000}}))]
pub(crate) struct TierLimits {
    #[schema(value_type = BTreeMap<String, Option<u64>>)]
    limits: LimitValues,
    /// Whether new tenants that name no tier get this one.
    #[serde(default)]
    default: bool,
}

/// A limit, and what is used of it.
#[derive(Serialize, ToSchema)]
struct LimitView {
    /// Null is unlimited.
    max: Nullable<u64>,
    /// Null where it is not a count of things that exist.
    used: Nullable<u64>,
    /// Whether it is the tenant's own, and not that of its tier.
    own: bool,
}

/// A tenant.
#[derive(Serialize, ToSchema)]
struct TenantView {
    id: u32,
    name: String,
    tier: String,
    state: TenantStateWord,
    created_at: Time,
    limits: BTreeMap<&'static str, LimitView>,
}

/// A tenant that was created.
#[derive(Serialize, ToSchema)]
struct CreatedTenantView {
    #[serde(flatten)]
    tenant: TenantView,
    /// Its first key, that of an admin: returned this once.
    key: String,
}

/// A key that was created.
#[derive(Serialize, ToSchema)]
struct AdminKeyView {
    id: String,
    /// Its text: returned this once.
    key: String,
}

/// What was deleted with a tenant.
#[derive(Serialize, ToSchema)]
struct DeletedTenantView {
    id: u32,
    memories: u64,
    bytes: u64,
    edges: u64,
    events: u64,
    receipts: u64,
    /// Rows of the tenant in the state after the deletion: 0.
    remaining: u64,
}

/// A tier.
#[derive(Serialize, ToSchema)]
struct TierView {
    name: String,
    /// Whether new tenants that name no tier get it.
    default: bool,
    /// What it does not name is unlimited.
    limits: BTreeMap<&'static str, u64>,
}

/// All tenants, in the order of their ids.
#[derive(Serialize, ToSchema)]
struct TenantList {
    tenants: Vec<TenantView>,
}

/// All tiers.
#[derive(Serialize, ToSchema)]
struct TierList {
    tiers: Vec<TierView>,
}

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_tenants, create_tenant))
        .routes(routes!(get_tenant, update_tenant, delete_tenant))
        .routes(routes!(create_admin_key))
        .routes(routes!(list_tiers))
        .routes(routes!(put_tier, delete_tier))
}

/// List all tenants.
#[utoipa::path(get, path = "/cluster/tenants", tag = "tenants",
    responses((status = OK, body = TenantList), OperatorReadErrors))]
async fn list_tenants(operator: Operator) -> ApiResult<Json<TenantList>> {
    let tenants = operator.tenants().await?;
    Ok(Json(TenantList { tenants: tenants.into_iter().map(TenantView::from).collect() }))
}

/// Get a tenant.
#[utoipa::path(get, path = "/cluster/tenants/{id}", tag = "tenants", params(TenantPath),
    responses((status = OK, body = TenantView), OperatorReadErrors, NotFound))]
async fn get_tenant(operator: Operator, TenantPath(id): TenantPath) -> ApiResult<Json<TenantView>> {
    Ok(Json(operator.tenant(id).await?.into()))
}

/// Create a tenant, and its first key.
#[utoipa::path(post, path = "/cluster/tenants", tag = "tenants", request_body = TenantRequest,
    responses((status = CREATED, body = CreatedTenantView), OperatorErrors))]
async fn create_tenant(
    operator: Operator,
    ValidJson(request): ValidJson<TenantRequest>,
) -> ApiResult<(StatusCode, Json<CreatedTenantView>)> {
    let tier = request.tier.map(|tier| tier.0);
    let new = NewTenant { name: request.name.0, tier, limits: own_limits(request.limits) };
    let (tenant, key) = operator.create_tenant(new).await?;
    record(&operator, "tenant created", tenant.id);
    let body = CreatedTenantView { tenant: tenant.into(), key: key.as_str().to_owned() };
    Ok((StatusCode::CREATED, Json(body)))
}

/// Change a tenant: rename, suspend, or set limits.
#[utoipa::path(patch, path = "/cluster/tenants/{id}", tag = "tenants", params(TenantPath),
    request_body = TenantChanges,
    responses((status = OK, body = TenantView), OperatorErrors, NotFound))]
async fn update_tenant(
    operator: Operator,
    TenantPath(id): TenantPath,
    ValidJson(request): ValidJson<TenantChanges>,
) -> ApiResult<Json<TenantView>> {
    let patch = TenantPatch {
        name: request.name.map(|name| name.0),
        tier: request.tier.map(|tier| tier.0),
        state: request.state.map(|state| state.0),
        limits: request.limits.map(own_limits),
    };
    operator.update_tenant(id, patch).await?;
    record(&operator, "tenant changed", id);
    Ok(Json(operator.tenant(id).await?.into()))
}

/// Create an admin key of a tenant: its own may be lost.
#[utoipa::path(post, path = "/cluster/tenants/{id}/keys", tag = "tenants", params(TenantPath),
    responses((status = CREATED, body = AdminKeyView), OperatorErrors, NotFound))]
async fn create_admin_key(
    operator: Operator,
    TenantPath(id): TenantPath,
) -> ApiResult<(StatusCode, Json<AdminKeyView>)> {
    let (key, text) = operator.create_admin_key(id).await?;
    record(&operator, "admin key created", id);
    let body = AdminKeyView { id: key.to_string(), key: text.as_str().to_owned() };
    Ok((StatusCode::CREATED, Json(body)))
}

/// Delete a suspended tenant with all that it holds.
#[utoipa::path(delete, path = "/cluster/tenants/{id}", tag = "tenants", params(TenantPath, Confirmation),
    responses((status = OK, body = DeletedTenantView), OperatorErrors, NotFound))]
async fn delete_tenant(
    operator: Operator,
    TenantPath(id): TenantPath,
    ValidQuery(confirmation): ValidQuery<Confirmation>,
) -> ApiResult<Json<DeletedTenantView>> {
    let deleted = operator.delete_tenant(id, confirmation.name.0).await?;
    record(&operator, "tenant deleted", id);
    let (counts, remaining) = (deleted.counts, deleted.remaining);
    Ok(Json(DeletedTenantView {
        id: id.0,
        memories: counts.memories,
        bytes: counts.bytes,
        edges: counts.edges,
        events: counts.events,
        receipts: counts.receipts,
        remaining,
    }))
}

/// List all tiers.
#[utoipa::path(get, path = "/cluster/tiers", tag = "tenants",
    responses((status = OK, body = TierList), OperatorReadErrors))]
async fn list_tiers(operator: Operator) -> ApiResult<Json<TierList>> {
    let tiers = operator.tiers().await?;
    Ok(Json(TierList { tiers: tiers.into_iter().map(TierView::from).collect() }))
}

/// Create or replace a tier.
#[utoipa::path(put, path = "/cluster/tiers/{name}", tag = "tenants",
    params(("name" = TierName, Path, description = "Its name.")), request_body = TierLimits,
    responses((status = OK, body = TierView), OperatorErrors))]
async fn put_tier(
    operator: Operator,
    Path(name): Path<String>,
    ValidJson(request): ValidJson<TierLimits>,
) -> ApiResult<Json<TierView>> {
    if name.trim().is_empty() || name.len() > TIER_NAME_BYTES_MAX {
        let message = format!("must have 1 to {TIER_NAME_BYTES_MAX} bytes");
        return Err(ApiError::invalid("name", message));
    }
    let limits = own_limits(request.limits).into_iter();
    let limits = limits.filter_map(|(limit, max)| Some((limit, max?))).collect();
    let tier = operator.put_tier(name, Some(limits), request.default).await?;
    tracing::info!(tier = tier.name, source = ?operator.request.source, "tier changed");
    Ok(Json(tier.into()))
}

/// Delete a tier that no tenant has.
#[utoipa::path(delete, path = "/cluster/tiers/{name}", tag = "tenants",
    params(("name" = TierName, Path, description = "Its name.")),
    responses((status = OK, body = TierView), OperatorErrors, NotFound))]
async fn delete_tier(operator: Operator, Path(name): Path<String>) -> ApiResult<Json<TierView>> {
    let tier = operator.put_tier(name, None, false).await?;
    tracing::info!(tier = tier.name, source = ?operator.request.source, "tier deleted");
    Ok(Json(tier.into()))
}

/// Logs what an operator has done.
fn record(operator: &Operator, what: &str, id: TenantId) {
    let RequestContext { source, id: request_id, .. } = &*operator.request;
    tracing::info!(
        tenant = id.0,
        source = source.map(tracing::field::display),
        request_id,
        "{what}"
    );
}

fn own_limits(values: LimitValues) -> OwnLimits {
    values.into_iter().map(|(word, max)| (word.0, max.map(|max| max.0))).collect()
}

impl From<TenantSummary> for TenantView {
    fn from(TenantSummary { id, row, limits }: TenantSummary) -> Self {
        let view = |(limit, max, used): (Limit, _, _)| {
            (limit.name(), LimitView { max, used, own: row.limits.contains_key(&limit) })
        };
        Self {
            id: id.0,
            limits: limits.into_iter().map(view).collect(),
            name: row.name,
            tier: row.tier,
            state: OneOf(row.state),
            created_at: Time(row.created_at),
        }
    }
}

impl From<Tier> for TierView {
    fn from(tier: Tier) -> Self {
        let limits = tier.limits.into_iter().map(|(limit, max)| (limit.name(), max));
        Self { name: tier.name, default: tier.is_default, limits: limits.collect() }
    }
}
