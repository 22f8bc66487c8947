//! `hearth dev`: a development cluster on this machine. A node that crashes stays down;
//! `hearth serve` starts it again.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::cli::dev_cluster::{Cluster, ClusterOptions};
use crate::cli::dev_node::Node;

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
        let cluster = Cluster::prepare(ClusterOptions { nodes, data, base_port, embedder })?;
        cluster
            .during(async |cluster: &mut Cluster| {
                cluster.launch().await?;
                let leader = cluster.leader().await?;
                let text = if json { as_json(cluster, leader) } else { as_text(cluster) };
                print(&text).map_err(|error| error.to_string())?;
                std::future::pending().await
            })
            .await
    }
}

fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

fn as_json(cluster: &Cluster, leader: u64) -> String {
    let node = |node: &Node| -> Value {
        json!({
            "id": node.id,
            "url": node.url,
            "ops": node.ops,
            "pid": node.pid,
            "data": node.data,
        })
    };
    json!({
        "nodes": cluster.nodes.iter().map(node).collect::<Vec<_>>(),
        "ca": cluster.ca,
        "key": cluster.key,
        "leader": leader,
    })
    .to_string()
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
