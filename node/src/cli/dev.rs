//! `hearth dev`: a development cluster on this machine, of child processes of this binary on
//! loopback, in one folder. A node that crashes stays down; `hearth serve` starts it again.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bootstrap::ADMIN_KEY;
use crate::certificates::Certificates;
use crate::cli::dev_config::{CONFIG_FILE, NodeOptions, choose_ports, write_config};
use crate::cli::dev_node::{Node, READY_INTERVAL, READY_TIMEOUT, http_client};
use crate::client::profiles::{Profile, Profiles};
use crate::credentials::read_operator_key;
use crate::error::{cannot, text};
use crate::identity::create_private_folder;
use crate::process::signals;

const NODES_MAX: i64 = 7;
/// Name of the profile by which client commands find the cluster.
const PROFILE: &str = "dev";

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
    #[arg(long, default_value = "model", value_parser = ["model", "hashing"])]
    embedder: String,
    /// Let clients use HTTP without TLS, for a first try: other programs of this machine can then
    /// read keys and memories
    #[arg(long)]
    http: bool,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<(), String> {
        let Self { nodes, data, base_port, json, embedder, http } = self;
        let options = NodeOptions { embedder, plain_http: http };
        DevCluster::prepare(nodes, data, base_port, &options)?
            .during(async |cluster: &mut DevCluster| {
                cluster.launch().await?;
                let leader = cluster.leader().await?;
                let line = if json { as_json(cluster, leader) } else { as_text(cluster)? };
                let mut out = std::io::stdout();
                writeln!(out, "{line}").and_then(|()| out.flush()).map_err(text)?;
                std::future::pending().await
            })
            .await
    }
}

pub(crate) struct DevCluster {
    pub(crate) nodes: Vec<Node>,
    /// PEM file of the authority.
    pub(crate) ca: PathBuf,
    /// The admin key; empty before the cluster is launched.
    pub(crate) key: String,
    pub(crate) operator_key: String,
    /// Locked while this process runs the cluster.
    _lock: File,
    /// The profile that is removed with a temporary cluster.
    profile: Option<TemporaryProfile>,
    /// Removed when dropped.
    temporary: Option<TempDir>,
}

/// A profile of a cluster that ends with this process.
struct TemporaryProfile(Profile);

impl Drop for TemporaryProfile {
    fn drop(&mut self) {
        if let Err(error) = Profiles::remove(PROFILE, &self.0) {
            eprintln!("hearth dev: the profile {PROFILE} stays: {error}");
        }
    }
}

impl DevCluster {
    /// Creates folders, certificates and configurations. Starts no process. The ids of the nodes
    /// count from 1. The folder is a temporary one without `data`. Port 0 keeps the ports of
    /// existing nodes, and chooses free ones for new nodes.
    pub(crate) fn prepare(
        count: u64,
        data: Option<PathBuf>,
        base_port: u16,
        options: &NodeOptions,
    ) -> Result<Self, String> {
        let (folder, temporary) = cluster_folder(data)?;
        let lock = lock(&folder)?;
        let certificates = Certificates::in_folder(&folder)?;
        require_same_size(&folder, count)?;
        let configs: Vec<PathBuf> =
            (1..=count).map(|id| node_folder(&folder, id).join(CONFIG_FILE)).collect();
        let ports = choose_ports(base_port, &configs)?;
        let members: Vec<String> =
            (1..).zip(&ports).map(|(id, ports)| format!("{id}=127.0.0.1:{}", ports.peer)).collect();
        let members = members.join(", ");
        let mut nodes = Vec::new();
        for (id, ports) in (1..).zip(ports) {
            let data = node_folder(&folder, id);
            create_private(&data)?;
            write_config(id, &data, ports, &certificates, &members, options)?;
            nodes.push(Node::new(id, data, ports, options.plain_http));
        }
        let (ca, key) = (certificates.authority(), String::new());
        let (_, operator_key) = read_operator_key(&certificates.operator_key())?;
        let profile = None;
        Ok(Self { nodes, ca, key, operator_key, profile, _lock: lock, temporary })
    }

    /// Starts all nodes, and waits until they are ready.
    pub(crate) async fn launch(&mut self) -> Result<(), String> {
        for node in &mut self.nodes {
            node.start(node.id == 1)?;
        }
        for node in &self.nodes {
            node.wait_ready().await?;
        }
        let path = self.nodes[0].data.join(ADMIN_KEY);
        let key = std::fs::read_to_string(&path);
        self.key = key.map_err(cannot(&format!("read {}", path.display())))?.trim().to_owned();
        Ok(())
    }

    /// Waits for a leader among the running nodes, and returns its id.
    pub(crate) async fn leader(&self) -> Result<u64, String> {
        let client = http_client()?;
        let started = Instant::now();
        loop {
            for node in self.nodes.iter().filter(|node| node.is_running()) {
                let response = client.get(format!("{}/api/v1/status", node.ops)).send().await;
                let Ok(response) = response else { continue };
                let status = response.json::<Value>().await.unwrap_or_default();
                if status["role"] == "leader" {
                    return Ok(node.id);
                }
            }
            if started.elapsed() > READY_TIMEOUT {
                return Err("no node is the leader".into());
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// Runs `story` until it ends, or SIGINT or SIGTERM arrives. Then stops the cluster.
    pub(crate) async fn during(
        mut self,
        story: impl AsyncFnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let (mut interrupt, mut terminate) = signals().map_err(cannot("receive signals"))?;
        let result = tokio::select! {
            result = story(&mut self) => result,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        futures::future::join_all(self.nodes.into_iter().map(Node::stop)).await;
        result
    }
}

/// Creates the folder of the cluster; a temporary one, if `data` is absent.
fn cluster_folder(data: Option<PathBuf>) -> Result<(PathBuf, Option<TempDir>), String> {
    let (folder, temporary) = match data {
        Some(folder) => (folder, None),
        None => {
            let temporary = tempfile::Builder::new().prefix("hearth-").tempdir();
            let temporary = temporary.map_err(cannot("create a temporary folder"))?;
            (temporary.path().to_owned(), Some(temporary))
        }
    };
    create_private(&folder)?;
    let folder =
        std::fs::canonicalize(&folder).map_err(cannot(&format!("find {}", folder.display())))?;
    Ok((folder, temporary))
}

fn create_private(folder: &Path) -> Result<(), String> {
    create_private_folder(folder).map_err(cannot(&format!("create {}", folder.display())))
}

fn node_folder(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("node-{id}"))
}

/// Locks a folder: one process at a time runs its cluster.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(cannot(&format!("open {}", path.display())))?;
    let used = |_| format!("another `hearth dev` runs the cluster in {}", folder.display());
    file.try_lock().map(|()| file).map_err(used)
}

/// Rejects another number of nodes than the folder has: the members are part of the state.
fn require_same_size(folder: &Path, nodes: u64) -> Result<(), String> {
    let existing =
        (1..).take_while(|id| node_folder(folder, *id).join(CONFIG_FILE).exists()).count() as u64;
    if existing == 0 || existing == nodes {
        return Ok(());
    }
    Err(format!(
        "{} holds a cluster of {existing}: start it with --nodes {existing}, or use another folder",
        folder.display()
    ))
}

fn as_json(cluster: &DevCluster, leader: u64) -> String {
    let node = |Node { id, url, ops, pid, data, .. }: &Node| -> Value {
        json!({ "id": id, "url": url, "ops": ops, "pid": pid, "data": data })
    };
    let nodes: Vec<Value> = cluster.nodes.iter().map(node).collect();
    let DevCluster { ca, key, operator_key, .. } = cluster;
    json!({ "nodes": nodes, "ca": ca, "key": key, "operator_key": operator_key, "leader": leader })
        .to_string()
}

/// Writes a profile, and describes the cluster for people, with lines to paste.
pub(crate) fn as_text(cluster: &mut DevCluster) -> Result<String, String> {
    let profile = Profile {
        urls: cluster.nodes.iter().map(|node| node.url.clone()).collect(),
        key: cluster.key.clone(),
        ca: Some(std::fs::read_to_string(&cluster.ca).map_err(text)?),
        namespace: None,
    };
    let (file, is_current) = Profiles::put(PROFILE, profile.clone(), false)?;
    let is_temporary = cluster.temporary.is_some();
    cluster.profile = is_temporary.then(|| TemporaryProfile(profile));
    let (ca, key, operator_key) = (cluster.ca.display(), &cluster.key, &cluster.operator_key);
    let mut text = String::from("Hearth is ready.\n");
    for node in &cluster.nodes {
        text += &format!("  node {}    {}   metrics {}/metrics\n", node.id, node.url, node.ops);
    }
    let Node { url, ops, data, .. } = &cluster.nodes[0];
    text += &format!(
        "  dashboard {url}/dashboard#key={key}\n  operator  {ops}/dashboard#key={operator_key}\n"
    );
    text += match url.starts_with("http:") {
        true => "  WARNING   clients use plain HTTP: keys and memories are not encrypted\n",
        false => {
            "  A browser warns of the certificate of the dashboard: its authority is that of this cluster.\n"
        }
    };
    let (hearth, config, file) = (program(), data.join(CONFIG_FILE), file.display());
    let profile = if is_current { String::new() } else { format!("--profile {PROFILE} ") };
    text += &format!(
        "  CA file   {ca}\n  API key   {key}\n  profile   {PROFILE}, in {file}\n\nTry in another \
         terminal:\n  {hearth} add {profile}--type preference 'The user prefers metric units.'\n  \
         {hearth} search {profile}'which units should I answer in?'\n  curl --cacert {ca} \
         -H 'Authorization: Bearer {key}' {url}/api/v1/agent/hot_nodes\n  {hearth} cluster --config \
         {} status\n\n",
        config.display()
    );
    Ok(text
        + match is_temporary {
            true => "Ctrl-C stops it, and deletes it with all memories: --data FOLDER keeps them.",
            false => "Ctrl-C stops it.",
        })
}

/// How a shell finds this program.
fn program() -> String {
    let Ok(this) = std::env::current_exe() else { return "hearth".into() };
    let is_this = |folder: PathBuf| folder.join("hearth").canonicalize().is_ok_and(|it| it == this);
    match std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(is_this)) {
        true => "hearth".into(),
        false => this.display().to_string(),
    }
}
