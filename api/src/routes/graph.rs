//! Edges between memories: made, shown, undone; and the graph view.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use storage::model::edge::{Edge, RELATION_BYTES_MAX};
use storage::model::id::MemoryId;
use storage::model::tenant::Caller;
use storage::{Action, Filter, HotRequest, Neighbour, Reply, View};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, AgentCaller, ReaderCaller, may_read};
use crate::consistency::Freshness;
use crate::error::{ApiError, ApiResult};
use crate::extract::{Body, Fields, Id, Query};
use crate::limits::{GRAPH_DEFAULT, GRAPH_MAX, NEIGHBOUR_DEPTH_MAX, NEIGHBOURS_DEFAULT};
use crate::openapi::{Missing, Reading, Writing};
use crate::routes::memories::read_namespace;
use crate::wire;
use crate::wire::memory::Memory;
use crate::wire::requests::{self, Fresh, Home};
use crate::wire::trigger::WithNotifications;
use crate::write::{Answer, ask};

/// Relation of memories when nobody says.
const RELATION_DEFAULT: &str = "related_to";

/// An edge.
#[derive(Serialize, ToSchema)]
struct Related {
    id: String,
    #[schema(format = Uuid)]
    source_id: String,
    #[schema(format = Uuid)]
    target_id: String,
    relation: String,
    weight: f64,
    #[schema(format = DateTime)]
    created_at: String,
    /// True, if it is no more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    deleted: bool,
}

/// A memory that another is related to.
#[derive(Serialize, ToSchema)]
struct NeighbourMemory {
    #[serde(flatten)]
    memory: Memory,
    /// Of the last edge on the way.
    relation: String,
    weight: f64,
    /// Edges on the way.
    hops: u32,
}

/// The memories that one is related to.
#[derive(Serialize, ToSchema)]
struct Neighbours {
    #[schema(format = Uuid)]
    node_id: String,
    neighbors: Vec<NeighbourMemory>,
}

/// Memories and the edges between them.
#[derive(Serialize, ToSchema)]
struct Graph {
    nodes: Vec<Memory>,
    links: Vec<Link>,
    /// Memories of the hot tier.
    total_nodes: usize,
}

/// An edge of the graph view.
#[derive(Serialize, ToSchema)]
struct Link {
    #[schema(format = Uuid)]
    source: String,
    #[schema(format = Uuid)]
    target: String,
    relation: String,
    /// The relation, by another name.
    edge_type: String,
    weight: f64,
}

/// How the graph of edges stands.
#[derive(Serialize, ToSchema)]
struct GraphStatus {
    /// Always `ok`.
    status: &'static str,
    total_nodes: u64,
    total_edges: u64,
}

/// Whether a memory's edges lead somewhere.
#[derive(Serialize, ToSchema)]
struct Verified {
    #[schema(format = Uuid)]
    node_id: String,
    edges: usize,
    neighbors: usize,
    verified: bool,
}

/// Relate two memories. 200 if they were already.
#[utoipa::path(post, path = "/api/v1/agent/graph/relate", tag = "graph",
    request_body = requests::Relation,
    responses((status = CREATED, body = WithNotifications<Related>), (status = OK, body = WithNotifications<Related>),
        Writing, Missing))]
pub(crate) async fn edge_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    body: Body,
) -> ApiResult<Response> {
    let (source, target, relation) = ends(&body.fields)?;
    let action = Action::CreateEdge(source, target, relation);
    let Answer { freshness, reply, notifications } = ask(&app, &caller, None, action).await?;
    let Reply::Edge { edge, is_new } = reply else { return Err(ApiError::internal()) };
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = WithNotifications::new(shown(&edge), &notifications);
    Ok((status, freshness, Json(body)).into_response())
}

/// Take an edge away: the same fields, in the query or in the body.
#[utoipa::path(delete, path = "/api/v1/agent/graph/relate", tag = "graph",
    params(requests::Relation),
    responses((status = OK, body = Related), Writing, Missing))]
pub(crate) async fn edge_delete(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    Query(query): Query,
    body: Body,
) -> ApiResult<Response> {
    let in_query = query.alias(&["source_id"]).is_some();
    let (source, target, relation) = ends(if in_query { &query } else { &body.fields })?;
    let action = Action::DeleteEdge(source, target, relation);
    let Answer { freshness, reply, .. } = ask(&app, &caller, None, action).await?;
    let Reply::Edge { edge, .. } = reply else { return Err(ApiError::internal()) };
    let body = Related { deleted: true, ..shown(&edge) };
    Ok((freshness, Json(body)).into_response())
}

/// List the memories that one is related to, the nearest first.
#[utoipa::path(get, path = "/api/v1/agent/graph/neighbors/{id}", tag = "graph",
    params(Id, requests::NeighbourQuery, Fresh),
    responses((status = OK, body = Neighbours), Reading, Missing))]
pub(crate) async fn neighbours_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Id(id): Id,
    Query(query): Query,
) -> ApiResult<Response> {
    let limit = query.limit(NEIGHBOURS_DEFAULT)?;
    let depth = query.clamped("depth", 1, 1, NEIGHBOUR_DEPTH_MAX)? as u32;
    open_to(&app, &caller, id).await?;
    let found = app
        .read(move |reader| reader.neighbours(caller.tenant, id, &caller.access, depth, limit))
        .await?;
    let found = found.ok_or(storage::Rejection::NotFound)?;
    let shown = |neighbour: &Neighbour| NeighbourMemory {
        memory: (&neighbour.record).into(),
        relation: neighbour.edge.relation.clone(),
        weight: neighbour.edge.weight.into(),
        hops: neighbour.hops,
    };
    let neighbors = found.iter().map(shown).collect();
    let body = Neighbours { node_id: id.to_string(), neighbors };
    Ok((freshness, Json(body)).into_response())
}

/// Get the hottest memories and the edges between them.
#[utoipa::path(get, path = "/api/v1/admin/visualize/graph", tag = "graph",
    params(requests::GraphQuery, Home, Fresh),
    responses((status = OK, body = Graph), Reading))]
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
    let link = |edge: &Edge| Link {
        source: edge.source.to_string(),
        target: edge.target.to_string(),
        relation: edge.relation.clone(),
        edge_type: edge.relation.clone(),
        weight: edge.weight.into(),
    };
    let body = Graph {
        nodes: view.memories.iter().map(Memory::from).collect(),
        links: view.edges.iter().map(link).collect(),
        total_nodes: view.total,
    };
    Ok((freshness, Json(body)).into_response())
}

/// Tell how the graph of edges stands.
#[utoipa::path(get, path = "/api/v1/agent/graph/status", tag = "graph", params(Fresh),
    responses((status = OK, body = GraphStatus), Reading))]
pub(crate) async fn graph_status(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
) -> ApiResult<Response> {
    let counts = app.read(move |reader| Ok(reader.counts(caller.tenant))).await?;
    let body =
        GraphStatus { status: "ok", total_nodes: counts.memories, total_edges: counts.edges };
    Ok((freshness, Json(body)).into_response())
}

/// Tell whether a memory's edges lead to memories that are there.
#[utoipa::path(get, path = "/api/v1/agent/graph/verify/{id}", tag = "graph", params(Id, Fresh),
    responses((status = OK, body = Verified), Reading, Missing))]
pub(crate) async fn graph_verify(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    freshness: Freshness,
    Id(id): Id,
) -> ApiResult<Response> {
    open_to(&app, &caller, id).await?;
    let node_id = id.to_string();
    let mut body = Verified { node_id, edges: 0, neighbors: 0, verified: true };
    let body = app
        .read(move |reader| {
            let mut others = HashSet::new();
            for edge in reader.edges(caller.tenant, id)? {
                let other = edge.other(id);
                match reader.get(caller.tenant, other)? {
                    None => body.verified = false,
                    // An edge to what is closed is not there for this caller.
                    Some(found) if !caller.access.allows(&found.memory.namespace) => continue,
                    Some(_) => drop(others.insert(other)),
                }
                body.edges += 1;
            }
            body.neighbors = others.len();
            Ok(body)
        })
        .await?;
    Ok((freshness, Json(body)).into_response())
}

/// Refuses a memory that is not there, or not open to the caller.
async fn open_to(app: &App, caller: &Caller, id: MemoryId) -> ApiResult<()> {
    let tenant = caller.tenant;
    let found = app.read(move |reader| reader.get(tenant, id)).await?;
    let found = found.ok_or(storage::Rejection::NotFound)?;
    may_read(caller, &found.memory.namespace)
}

fn ends(fields: &Fields) -> ApiResult<(MemoryId, MemoryId, String)> {
    let (source, target) = (fields.memory_id("source_id")?, fields.memory_id("target_id")?);
    if source == target {
        return Err(ApiError::invalid("target_id", "must be another memory than source_id"));
    }
    let relation = fields.full_text("relation", RELATION_BYTES_MAX)?;
    Ok((source, target, relation.unwrap_or_else(|| RELATION_DEFAULT.to_owned())))
}

fn shown(edge: &Edge) -> Related {
    Related {
        id: format!("{}~{}~{}", edge.source, edge.relation, edge.target),
        source_id: edge.source.to_string(),
        target_id: edge.target.to_string(),
        relation: edge.relation.clone(),
        weight: edge.weight.into(),
        created_at: wire::timestamp(edge.created_at),
        deleted: false,
    }
}
