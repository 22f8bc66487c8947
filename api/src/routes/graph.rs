//! Edges between memories: made, shown, undone; and the graph view.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use storage::model::edge::{EDGES_MAX, Edge, RELATION_BYTES_MAX};
use storage::model::id::MemoryId;
use storage::{Action, Filter, HotRequest, Neighbour, Reply, View};

use crate::app::App;
use crate::auth::{AdminCaller, AgentCaller, ReaderCaller};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Fields, Id, Query};
use crate::limits::{GRAPH_DEFAULT, GRAPH_MAX, NEIGHBOUR_DEPTH_MAX, NEIGHBOURS_DEFAULT};
use crate::routes::memories::read_namespace;
use crate::wire;
use crate::write::ask;

/// Relation of memories when nobody says.
const RELATION_DEFAULT: &str = "related_to";

/// Relate two memories: `{source_id, target_id, relation}`. 200 if they were already.
pub(crate) async fn edge_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let (source, target, relation) = ends(&body.fields)?;
    let action = Action::Relate(source, target, relation);
    let (freshness, reply) = ask(&app, &caller, None, action).await?;
    let Reply::Related { edge, is_new } = reply else { return Err(ApiError::internal()) };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, freshness, Json(shown(&edge))).into_response())
}

/// Undo that: the same fields, in the body or in the query.
pub(crate) async fn edge_delete(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    Query(query): Query,
    body: Body,
) -> ApiResult<Response> {
    let in_query = query.alias(&["source_id"]).is_some();
    let (source, target, relation) = ends(if in_query { &query } else { &body.fields })?;
    let action = Action::Unrelate(source, target, relation);
    let (freshness, reply) = ask(&app, &caller, None, action).await?;
    let Reply::Related { edge, .. } = reply else { return Err(ApiError::internal()) };
    let mut body = shown(&edge);
    body["deleted"] = true.into();
    Ok((freshness, Json(body)).into_response())
}

/// List the memories that one is related to, the nearest first.
pub(crate) async fn neighbours_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Id(id): Id,
    Query(query): Query,
) -> ApiResult<Response> {
    let limit = query.limit(NEIGHBOURS_DEFAULT)?;
    let depth = query.clamped("depth", 1, 1, NEIGHBOUR_DEPTH_MAX)? as u32;
    let found = app.read(move |reader| reader.neighbours(caller.tenant, id, depth, limit)).await?;
    let found = found.ok_or(storage::Refusal::NotFound)?;
    let open = |neighbour: &&Neighbour| caller.access.allows(&neighbour.record.memory.namespace);
    let neighbours: Vec<Value> = found
        .iter()
        .filter(open)
        .map(|neighbour| {
            let mut value = wire::memory(&neighbour.record);
            value["relation"] = neighbour.edge.relation.as_str().into();
            value["weight"] = f64::from(neighbour.edge.weight).into();
            value["hops"] = neighbour.hops.into();
            value
        })
        .collect();
    let body = json!({ "node_id": id.to_string(), "neighbors": neighbours });
    Ok((freshness, Json(body)).into_response())
}

/// The hottest memories and the edges between them.
pub(crate) async fn graph_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    freshness: Freshness,
    headers: HeaderMap,
    Query(query): Query,
) -> ApiResult<Response> {
    let filter = Filter {
        namespace: read_namespace(&caller, &query, &headers)?,
        access: caller.access.clone(),
        ..Filter::default()
    };
    let limit = query.clamped("limit", GRAPH_DEFAULT, 1, GRAPH_MAX)?;
    let request = HotRequest { filter, limit, ..HotRequest::default() };
    let view = app.read(move |reader| reader.graph_view(caller.tenant, &request)).await?;
    let nodes: Vec<Value> = view.memories.iter().map(wire::memory).collect();
    let links: Vec<Value> = view
        .edges
        .iter()
        .map(|edge| {
            json!({
                "source": edge.source.to_string(),
                "target": edge.target.to_string(),
                "relation": edge.relation,
                "edge_type": edge.relation,
                "weight": f64::from(edge.weight),
            })
        })
        .collect();
    let body = json!({ "nodes": nodes, "links": links, "total_nodes": view.total });
    Ok((freshness, Json(body)).into_response())
}

/// Tell how the graph of edges stands.
pub(crate) async fn graph_status(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let counts = app.read(move |reader| Ok(reader.counts(caller.tenant))).await?;
    let body = json!({
        "status": "ok", "total_nodes": counts.memories, "total_edges": counts.edges,
    });
    Ok((freshness, Json(body)).into_response())
}

/// Tell whether a memory's edges lead to memories that are there.
pub(crate) async fn graph_verify(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Id(id): Id,
) -> ApiResult<Response> {
    let (edges, found) = app
        .read(move |reader| {
            let found = reader.neighbours(caller.tenant, id, 1, EDGES_MAX)?;
            Ok((reader.edges(caller.tenant, id)?, found))
        })
        .await?;
    let found = found.ok_or(storage::Refusal::NotFound)?;
    let others: HashSet<MemoryId> = edges.iter().map(|edge| edge.other(id)).collect();
    let body = json!({
        "node_id": id.to_string(),
        "edges": edges.len(),
        "neighbors": found.len(),
        "verified": others.len() == found.len(),
    });
    Ok((freshness, Json(body)).into_response())
}

fn ends(fields: &Fields) -> ApiResult<(MemoryId, MemoryId, String)> {
    let (source, target) = (fields.memory_id("source_id")?, fields.memory_id("target_id")?);
    if source == target {
        return Err(ApiError::invalid("target_id", "must be another memory than source_id"));
    }
    let relation = fields.full_text("relation", RELATION_BYTES_MAX)?;
    Ok((source, target, relation.unwrap_or_else(|| RELATION_DEFAULT.to_owned())))
}

fn shown(edge: &Edge) -> Value {
    json!({
        "id": format!("{}~{}~{}", edge.source, edge.relation, edge.target),
        "source_id": edge.source.to_string(),
        "target_id": edge.target.to_string(),
        "relation": edge.relation,
        "weight": f64::from(edge.weight),
        "created_at": wire::timestamp(edge.created_at),
    })
}
