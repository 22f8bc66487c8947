//! Edges between memories, their neighbours, and the graph view.

use std::collections::HashSet;

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use storage::model::caller::Caller;
use storage::model::edge::Edge;
use storage::{Action, HotRequest, Neighbour, Reply, View};
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{AdminCaller, AgentCaller, ReaderCaller};
use crate::openapi::{NotFound, ReadErrors, WriteErrors};
use crate::read::FreshRead;
use crate::requests::graph::{GraphQuery, NeighbourQuery, Relation};
use crate::requests::headers::{Fresh, Home};
use crate::requests::path::MemoryPath;
use crate::requests::{JsonBody, QueryText, ValidJson, ValidQuery};
use crate::responses::memory::Memory;
use crate::responses::trigger::WithNotifications;
use crate::responses::{Respond, timestamp};
use crate::service::error::{ApiError, ApiResult};
use crate::service::writes::Done;

/// An edge.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeView {
    id: String,
    #[schema(format = Uuid)]
    source_id: String,
    #[schema(format = Uuid)]
    target_id: String,
    relation: String,
    weight: f64,
    #[schema(format = DateTime)]
    created_at: String,
    /// True after its deletion.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    deleted: bool,
}

/// A memory with an edge to another one.
#[derive(Serialize, ToSchema)]
pub(crate) struct NeighbourView {
    #[serde(flatten)]
    memory: Memory,
    /// Relation of the last edge of the path.
    relation: String,
    weight: f64,
    /// Edges of the path.
    hops: u32,
}

/// The neighbours of a memory.
#[derive(Serialize, ToSchema)]
pub(crate) struct Neighbours {
    #[schema(format = Uuid)]
    node_id: String,
    neighbors: Vec<NeighbourView>,
}

/// Memories and the edges between them.
#[derive(Serialize, ToSchema)]
pub(crate) struct Graph {
    nodes: Vec<Memory>,
    links: Vec<Link>,
    /// Memories of the hot tier.
    total_nodes: usize,
}

/// An edge of the graph view.
#[derive(Serialize, ToSchema)]
pub(crate) struct Link {
    #[schema(format = Uuid)]
    source: String,
    #[schema(format = Uuid)]
    target: String,
    relation: String,
    /// The relation, again.
    edge_type: String,
    weight: f64,
}

/// Size of the graph of edges.
#[derive(Serialize, ToSchema)]
pub(crate) struct GraphStatus {
    /// Always `ok`.
    status: &'static str,
    total_nodes: u64,
    total_edges: u64,
}

/// Whether all edges of a memory lead to existing memories.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeCheck {
    #[schema(format = Uuid)]
    node_id: String,
    edges: usize,
    neighbors: usize,
    verified: bool,
}

/// Create an edge between two memories. 200 if it existed already.
#[utoipa::path(post, path = "/api/v1/agent/graph/relate", tag = "graph",
    request_body = Relation,
    responses((status = CREATED, body = WithNotifications<EdgeView>),
        (status = OK, body = WithNotifications<EdgeView>), WriteErrors, NotFound))]
pub(crate) async fn edge_create(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    ValidJson(request): ValidJson<Relation>,
) -> ApiResult<Respond<WithNotifications<EdgeView>>> {
    let action = Action::CreateEdge(request.into_edge()?);
    let (edge, is_new, done) = submit(&app, &caller, action).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = WithNotifications::new(EdgeView::from(&edge), &done.notifications);
    Ok(Respond::ok(done.freshness, body).with_status(status))
}

/// Delete an edge. The same fields, in the query or in the body.
#[utoipa::path(delete, path = "/api/v1/agent/graph/relate", tag = "graph", params(Relation),
    responses((status = OK, body = EdgeView), WriteErrors, NotFound))]
pub(crate) async fn edge_delete(
    State(app): State<App>,
    AgentCaller(caller): AgentCaller,
    query: QueryText,
    body: JsonBody,
) -> ApiResult<Respond<EdgeView>> {
    let request: Relation = if query.has("source_id") { query.parse()? } else { body.parse()? };
    let action = Action::DeleteEdge(request.into_edge()?);
    let (edge, _, done) = submit(&app, &caller, action).await?;
    Ok(Respond::ok(done.freshness, EdgeView { deleted: true, ..EdgeView::from(&edge) }))
}

async fn submit(app: &App, caller: &Caller, action: Action) -> ApiResult<(Edge, bool, Done<()>)> {
    let Done { freshness, value, notifications } =
        app.service().submit(caller, None, action).await?;
    let Reply::Edge { edge, is_new } = value else { return Err(ApiError::internal()) };
    Ok((edge, is_new, Done { freshness, value: (), notifications }))
}

/// List the neighbours of a memory, the nearest first.
#[utoipa::path(get, path = "/api/v1/agent/graph/neighbors/{id}", tag = "graph",
    params(MemoryPath, NeighbourQuery, Fresh),
    responses((status = OK, body = Neighbours), ReadErrors, NotFound))]
pub(crate) async fn neighbours_get(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    MemoryPath(id): MemoryPath,
    ValidQuery(query): ValidQuery<NeighbourQuery>,
) -> ApiResult<Respond<Neighbours>> {
    let (limit, depth) = (query.limit(), query.depth());
    app.service().check_readable(&caller, id).await?;
    let found = app
        .service()
        .read(move |reader| reader.neighbours(caller.tenant, id, &caller.access, depth, limit))
        .await?;
    let found = found.ok_or(storage::Rejection::NotFound)?;
    let view = |neighbour: &Neighbour| NeighbourView {
        memory: (&neighbour.record).into(),
        relation: neighbour.edge.relation.clone(),
        weight: neighbour.edge.weight.into(),
        hops: neighbour.hops,
    };
    let neighbors = found.iter().map(view).collect();
    Ok(Respond::ok(freshness, Neighbours { node_id: id.to_string(), neighbors }))
}

/// Get the hottest memories and the edges between them.
#[utoipa::path(get, path = "/api/v1/admin/visualize/graph", tag = "graph",
    params(GraphQuery, Home, Fresh),
    responses((status = OK, body = Graph), ReadErrors))]
pub(crate) async fn graph_get(
    State(app): State<App>,
    AdminCaller(caller): AdminCaller,
    FreshRead(freshness): FreshRead,
    home: Home,
    ValidQuery(query): ValidQuery<GraphQuery>,
) -> ApiResult<Respond<Graph>> {
    let limit = query.limit();
    let filter = home.filter(&caller, query.namespace)?;
    let request = HotRequest { filter, limit, ..HotRequest::default() };
    let view = app.service().read(move |reader| reader.graph_view(caller.tenant, &request)).await?;
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
    Ok(Respond::ok(freshness, body))
}

/// Get the size of the graph of edges.
#[utoipa::path(get, path = "/api/v1/agent/graph/status", tag = "graph", params(Fresh),
    responses((status = OK, body = GraphStatus), ReadErrors))]
pub(crate) async fn graph_status(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
) -> ApiResult<Respond<GraphStatus>> {
    let counts = app.service().counts(&caller).await?;
    let body =
        GraphStatus { status: "ok", total_nodes: counts.memories, total_edges: counts.edges };
    Ok(Respond::ok(freshness, body))
}

/// Check that all edges of a memory lead to existing memories.
#[utoipa::path(get, path = "/api/v1/agent/graph/verify/{id}", tag = "graph",
    params(MemoryPath, Fresh),
    responses((status = OK, body = EdgeCheck), ReadErrors, NotFound))]
pub(crate) async fn graph_verify(
    State(app): State<App>,
    ReaderCaller(caller): ReaderCaller,
    FreshRead(freshness): FreshRead,
    MemoryPath(id): MemoryPath,
) -> ApiResult<Respond<EdgeCheck>> {
    app.service().check_readable(&caller, id).await?;
    let node_id = id.to_string();
    let mut check = EdgeCheck { node_id, edges: 0, neighbors: 0, verified: true };
    let read = move |reader: &storage::Reader| {
        let mut others = HashSet::new();
        for edge in reader.edges(caller.tenant, id)? {
            let other = edge.other(id);
            match reader.get(caller.tenant, other)? {
                None => check.verified = false,
                // Edges to inaccessible memories do not exist for this caller.
                Some(found) if !caller.access.allows(&found.memory.namespace) => continue,
                Some(_) => drop(others.insert(other)),
            }
            check.edges += 1;
        }
        check.neighbors = others.len();
        Ok(check)
    };
    Ok(Respond::ok(freshness, app.service().read(read).await?))
}

impl From<&Edge> for EdgeView {
    fn from(edge: &Edge) -> Self {
        Self {
            id: format!("{}~{}~{}", edge.source, edge.relation, edge.target),
            source_id: edge.source.to_string(),
            target_id: edge.target.to_string(),
            relation: edge.relation.clone(),
            weight: edge.weight.into(),
            created_at: timestamp(edge.created_at),
            deleted: false,
        }
    }
}
