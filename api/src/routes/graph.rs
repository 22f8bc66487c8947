//! Edges between memories, their neighbours, and the graph view.

use axum::extract::RawQuery;
use serde::Deserialize;
use storage::command::{CreateEdge, DeleteEdge};
use storage::model::edge::Edge;
use storage::{EdgeReply, HotRequest, Neighbour};
use utoipa::{IntoParams, ToSchema};

use crate::prelude::*;
use crate::requests::memories::Relation;
use crate::requests::{JsonBody, QueryText};
use crate::responses::memory::Memory;
use crate::service::memories::EdgeCheck;

/// Size of the graph view.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphQuery {
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: GraphLimit,
    /// `*` is all.
    pub(crate) namespace: Option<Namespace>,
}

/// How many neighbours, over how many edges.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct NeighbourQuery {
    #[serde(default)]
    #[param(inline)]
    pub(crate) limit: NeighboursLimit,
    #[serde(default)]
    #[param(inline)]
    pub(crate) depth: Depth,
}

/// An edge.
#[derive(Serialize, ToSchema)]
pub(crate) struct EdgeView {
    id: String,
    source_id: MemoryIdText,
    target_id: MemoryIdText,
    relation: String,
    weight: f64,
    created_at: Time,
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
    node_id: MemoryIdText,
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
    source: MemoryIdText,
    target: MemoryIdText,
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
pub(crate) struct EdgeCheckView {
    node_id: MemoryIdText,
    edges: usize,
    neighbors: usize,
    verified: bool,
}

/// Create an edge between two memories. 200 if it existed already.
#[utoipa::path(post, path = "/api/v1/agent/graph/relate", tag = "graph", request_body = Relation,
    responses((status = CREATED, body = WithNotifications<EdgeView>),
        (status = OK, body = WithNotifications<EdgeView>), WriteErrors, NotFound))]
pub(crate) async fn create_edge(
    Agent(session): Agent,
    ValidJson(request): ValidJson<Relation>,
) -> ApiResponse<WithNotifications<EdgeView>> {
    let done = session.submit(CreateEdge(request.into_edge()?)).await?;
    let EdgeReply { edge, is_new } = done.value;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let body = WithNotifications::new(EdgeView::from(edge), &done.notifications);
    Ok(Success { status, freshness: done.freshness, body })
}

/// Delete an edge. The same fields, in the query or in the body.
#[utoipa::path(delete, path = "/api/v1/agent/graph/relate", tag = "graph", params(Relation),
    responses((status = OK, body = EdgeView), WriteErrors, NotFound))]
pub(crate) async fn delete_edge(
    Agent(session): Agent,
    RawQuery(query): RawQuery,
    body: JsonBody,
) -> ApiResponse<EdgeView> {
    let query = QueryText(query.unwrap_or_default());
    let request: Relation = if query.has("source_id") { query.parse()? } else { body.parse()? };
    let done = session.submit(DeleteEdge(request.into_edge()?)).await?;
    Ok(Success::ok(done.freshness, EdgeView { deleted: true, ..EdgeView::from(done.value.edge) }))
}

/// List the neighbours of a memory, the nearest first.
#[utoipa::path(get, path = "/api/v1/agent/graph/neighbors/{id}", tag = "graph",
    params(MemoryPath, NeighbourQuery, ReadHeaders),
    responses((status = OK, body = Neighbours), ReadErrors, NotFound))]
pub(crate) async fn get_neighbours(
    ReaderRead(session, freshness): ReaderRead,
    MemoryPath(id): MemoryPath,
    ValidQuery(query): ValidQuery<NeighbourQuery>,
) -> ApiResponse<Neighbours> {
    let (limit, depth) = (query.limit.get(), query.depth.get() as u32);
    let found = session.neighbours(id, depth, limit).await?;
    let view = |neighbour: Neighbour| NeighbourView {
        memory: (&neighbour.record).into(),
        relation: neighbour.edge.relation,
        weight: neighbour.edge.weight.into(),
        hops: neighbour.hops,
    };
    let neighbors = found.into_iter().map(view).collect();
    Ok(Success::ok(freshness, Neighbours { node_id: Id(id), neighbors }))
}

/// Get the hottest memories and the edges between them.
#[utoipa::path(get, path = "/api/v1/admin/visualize/graph", tag = "graph",
    params(GraphQuery, NamespaceHeader, ReadHeaders),
    responses((status = OK, body = Graph), ReadErrors))]
pub(crate) async fn get_graph(
    AdminRead(session, freshness): AdminRead,
    home: NamespaceHeader,
    ValidQuery(query): ValidQuery<GraphQuery>,
) -> ApiResponse<Graph> {
    let limit = query.limit.get();
    let filter = home.filter(&session, query.namespace)?;
    let request = HotRequest { filter, limit, ..HotRequest::default() };
    let view = session.graph_view(request).await?;
    let link = |edge: Edge| Link {
        source: Id(edge.source),
        target: Id(edge.target),
        relation: edge.relation.clone(),
        edge_type: edge.relation,
        weight: edge.weight.into(),
    };
    let body = Graph {
        nodes: view.memories.iter().map(Memory::from).collect(),
        links: view.edges.into_iter().map(link).collect(),
        total_nodes: view.total,
    };
    Ok(Success::ok(freshness, body))
}

/// Get the size of the graph of edges.
#[utoipa::path(get, path = "/api/v1/agent/graph/status", tag = "graph", params(ReadHeaders),
    responses((status = OK, body = GraphStatus), ReadErrors))]
pub(crate) async fn get_graph_status(
    ReaderRead(session, freshness): ReaderRead,
) -> ApiResponse<GraphStatus> {
    let counts = session.counts().await?;
    let (total_nodes, total_edges) = (counts.memories, counts.edges);
    Ok(Success::ok(freshness, GraphStatus { status: "ok", total_nodes, total_edges }))
}

/// Check that all edges of a memory lead to existing memories.
#[utoipa::path(get, path = "/api/v1/agent/graph/verify/{id}", tag = "graph",
    params(MemoryPath, ReadHeaders),
    responses((status = OK, body = EdgeCheckView), ReadErrors, NotFound))]
pub(crate) async fn verify_graph(
    ReaderRead(session, freshness): ReaderRead,
    MemoryPath(id): MemoryPath,
) -> ApiResponse<EdgeCheckView> {
    let EdgeCheck { edges, neighbours: neighbors, verified } = session.check_edges(id).await?;
    Ok(Success::ok(freshness, EdgeCheckView { node_id: Id(id), edges, neighbors, verified }))
}

impl From<Edge> for EdgeView {
    fn from(edge: Edge) -> Self {
        Self {
            id: format!("{}~{}~{}", edge.source, edge.relation, edge.target),
            source_id: Id(edge.source),
            target_id: Id(edge.target),
            relation: edge.relation,
            weight: edge.weight.into(),
            created_at: Time(edge.created_at),
            deleted: false,
        }
    }
}
