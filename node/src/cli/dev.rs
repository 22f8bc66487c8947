//! `hearth dev`: a development cluster on this machine. A node that crashes stays down;
//! `hearth serve` starts it again.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::dev_cluster::Cluster;
use crate::cli::dev_node::Node;
use crate::error::text;

/// Most nodes of a development cluster.
const NODES_MAX: i64 = 7;

/// Arguments of `hearth dev`.
#[derive(Args)]
pub(crate) struct Dev {
    /// Number of nodes
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=NODES_MAX as u64))]
    nodes: u64,
    /// Folder of the cluster; a temporary one if absent
    #[arg(long)]
    data: Option<PathBuf>,
    /// First port; each node has three. 0: existing nodes keep theirs, new nodes get free ones
    #[arg(long, default_value_t = 4200, value_parser = clap::value_parser!(u16).range(..65_500))]
    base_port: u16,
    /// Print one line of JSON when ready, and nothing else
    #[arg(long)]
    json: bool,
    /// Embedder of the nodes
    #[arg(long, default_value = "onnx", value_parser = ["onnx", "hashing"])]
    embedder: String,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<(), String> {
        let Self { nodes, data, base_port, json, embedder } = self;
        Cluster::prepare(nodes, data, base_port, &embedder)?
            .during(async |cluster: &mut Cluster| {
                cluster.launch().await?;
                let leader = cluster.leader().await?;
                let line = if json { as_json(cluster, leader) } else { as_text(cluster) };
                let mut out = std::io::stdout();
                writeln!(out, "{line}").and_then(|()| out.flush()).map_err(text)?;
                std::future::pending().await
            })
            .await
    }
}

fn as_json(cluster: &Cluster, leader: u64) -> String {
    let node = |Node { id, url, ops, pid, data, .. }: &Node| -> Value {
        json!({ "id": id, "url": url, "ops": ops, "pid": pid, "data": data })
    };
    let nodes: Vec<Value> = cluster.nodes.iter().map(node).collect();
    json!({ "nodes": nodes, "ca": cluster.ca, "key": cluster.key, "leader": leader }).to_string()
}

/// The addresses of the cluster and an example, for people.
pub(crate) fn as_text(cluster: &Cluster) -> String {
    let (ca, key) = (cluster.ca.display(), &cluster.key);
    let mut text = String::from("Hearth is ready.\n");
    for node in &cluster.nodes {
        text += &format!("  node {}    {}   metrics {}/metrics\n", node.id, node.url, node.ops);
    }
    let first = &cluster.nodes[0].url;
    text + &format!(
        "  CA file   {ca}\n  API key   {key}\n\nTry:\n  curl --cacert {ca} \
         -H 'Authorization: Bearer {key}' {first}/api/v1/agent/hot_nodes\n\nCtrl-C stops it."
    )
}
