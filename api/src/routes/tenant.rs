//! Who the caller is, and how its tenant stands, in the shapes that published clients
//! read. A service of one's own has no plans: limits are `null`, everything is included.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use storage::model::tenant::KEY_NAME_BYTES_MAX;
use storage::{Action, Filter, View};

use crate::app::App;
use crate::auth::{AdminCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Query};
use crate::routes::memories::read_namespace;
use crate::wire;
use crate::write::ask;

/// What published clients call a plan.
const PLAN: &str = "self-hosted";
/// What this service does.
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

/// Tell whose key this is.
pub(crate) async fn auth_verify(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let tenant = app.read(move |reader| reader.tenant(caller.tenant)).await?;
    let max_nodes = tenant.and_then(|tenant| tenant.memories_max);
    let body = json!({
        "authenticated": true,
        "tenant_id": caller.tenant.0.to_string(),
        "plan_tier": PLAN,
        "agent_label": caller.name,
        "role": caller.role.name(),
        "namespace": caller.namespace,
        "limits": {
            "ops_per_month": null,
            "max_nodes": max_nodes,
            "max_agents": null,
            "max_sync_requests": null,
        },
        "features": FEATURES,
    });
    Ok((freshness, Json(body)).into_response())
}

/// Get the tenant.
pub(crate) async fn org_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let body = org(&app, caller.tenant).await?;
    Ok((freshness, Json(body)).into_response())
}

/// Give the tenant another name: `{org_name}`.
pub(crate) async fn org_update(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    body: Body,
) -> ApiResult<Response> {
    let name = body.fields.alias(&["org_name", "name"]).unwrap_or("org_name");
    let freshness = match body.fields.full_text(name, KEY_NAME_BYTES_MAX)? {
        Some(name) => ask(&app, &caller, None, Action::Rename(name)).await?.0,
        // Nothing named is nothing changed.
        None => Freshness::of_write(app.reader().position().index),
    };
    let body = org(&app, caller.tenant).await?;
    Ok((freshness, Json(body)).into_response())
}

async fn org(app: &App, id: storage::model::id::TenantId) -> ApiResult<Value> {
    let (tenant, keys) =
        app.read(move |reader| Ok((reader.tenant(id)?, reader.api_keys(id)?))).await?;
    let tenant = tenant.ok_or_else(ApiError::internal)?;
    Ok(json!({
        "tenant_id": id.0.to_string(),
        "org_name": tenant.name,
        "plan_tier": PLAN,
        "ops_limit": null,
        "nodes_limit": tenant.memories_max,
        "max_seats": null,
        "seats_used": keys.len(),
        "features": FEATURES.join(","),
        "created_at": wire::timestamp(tenant.created_at),
    }))
}

/// Tell how the memory stands: of one namespace, if it is named, and in all.
pub(crate) async fn memory_status(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    let namespace = read_namespace(&caller, &query, &headers)?;
    let (tenant, access) = (caller.tenant, caller.access.clone());
    let of = Filter { namespace: namespace.clone(), access: access.clone(), ..Filter::default() };
    let (here, all) = app
        .read(move |reader| {
            let all = Filter { access, ..Filter::default() };
            Ok((reader.overview(tenant, &of), reader.overview(tenant, &all)))
        })
        .await?;
    let total = all.hot + all.cold;
    let body = json!({
        "backend": "hearth",
        "version": app.identity().version,
        "namespace": namespace.as_deref().unwrap_or("*"),
        "stats": {
            "namespace_memories": here.hot + here.cold,
            "total_memories": total,
            "tenant_total_memories": total,
            "total_nodes": total,
            "hot_nodes": all.hot,
            "cold_nodes": all.cold,
            "average_heat": storage::model::score::rounded(all.average_heat),
            "memory_types": wire::type_counts(&all),
        },
        "capabilities": { "siu_classification": false, "semantic_search": true },
    });
    Ok((freshness, Json(body)).into_response())
}

/// Tell what the memories take.
pub(crate) async fn storage_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let filter = Filter { access: caller.access.clone(), ..Filter::default() };
    let overview = app.read(move |reader| Ok(reader.overview(caller.tenant, &filter))).await?;
    let body = json!({
        "total_nodes": overview.hot + overview.cold,
        "total_size_bytes": overview.bytes,
        "namespaces": overview.namespaces,
        "oldest_node": overview.oldest.map(wire::timestamp),
        "newest_node": overview.newest.map(wire::timestamp),
    });
    Ok((freshness, Json(body)).into_response())
}

/// Numbers of this node and of the tenant, as JSON; Prometheus has its own, richer page.
pub(crate) async fn metrics_json(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let tenant = caller.tenant;
    let (counts, usage) = app
        .read(move |reader| {
            let month = reader.position().clock.month();
            Ok((reader.counts(tenant), reader.usage(tenant, month)?))
        })
        .await?;
    let raft = app.raft().status();
    let body = json!({
        "node": raft.node,
        "role": raft.role,
        "leader": raft.leader,
        "term": raft.term,
        "applied_index": raft.applied_index,
        "memories": counts.memories,
        "edges": counts.edges,
        "events": counts.events,
        "requests_this_month": usage.requests,
        "nodes_added_this_month": usage.nodes_added,
    });
    Ok((freshness, Json(body)).into_response())
}
