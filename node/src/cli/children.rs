//! A cluster of child processes of this binary on loopback: their folders,
//! certificates, ports and lives. What is shown of it is `dev`'s and `demo`'s.

use std::fs::{DirBuilder, File};
use std::net::TcpListener;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::bootstrap::ADMIN_KEY;
use crate::config::Config;
use crate::tls::{Certificates, NodeFiles};

/// How long a node may take to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How often to ask whether it is.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// How long a node may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// Where free ports are looked for: not where the system takes those of outgoing
/// connections from, which may take one before its node does.
const FREE_PORTS: Range<u16> = 10_240..32_768;
/// Ports that are tried for one.
const FREE_TRIES: usize = 100;
/// Names and addresses of loopback.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What a development cluster is to be.
pub(crate) struct Wanted {
    /// Nodes, from 1 on.
    pub(crate) nodes: u64,
    /// Folder of the cluster; a temporary one if absent.
    pub(crate) data: Option<PathBuf>,
    /// First port; 0 keeps the ones it had, or takes free ones.
    pub(crate) base_port: u16,
    /// Embedder of the nodes.
    pub(crate) embedder: String,
}

/// A running development cluster.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) ca: PathBuf,
    pub(crate) key: String,
    /// Held as long as this process runs the cluster.
    _lock: File,
    /// Removed when dropped.
    _temporary: Option<TempDir>,
}

/// One node of it.
pub(crate) struct Node {
    pub(crate) id: u64,
    pub(crate) url: String,
    pub(crate) ops: String,
    pub(crate) data: PathBuf,
    /// Process id of its last life.
    pub(crate) pid: u32,
    life: Option<Life>,
}

/// A running process. Nobody else waits for it, so that its end is told once.
struct Life {
    /// Its end tells the node to stop.
    stdin: Option<ChildStdin>,
    kill: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

#[derive(Clone, Copy)]
struct Ports {
    public: u16,
    operator: u16,
    peer: u16,
}

impl Cluster {
    /// Makes folders, certificates and configurations; starts nothing yet.
    pub(crate) fn prepare(wanted: Wanted) -> Result<Self, String> {
        let (folder, temporary) = folder(wanted.data)?;
        let lock = lock(&folder)?;
        let certificates = Certificates::in_folder(&folder).map_err(|error| error.to_string())?;
        let configs: Vec<PathBuf> =
            (1..=wanted.nodes).map(|id| node_folder(&folder, id).join("hearth.toml")).collect();
        same_nodes(&folder, wanted.nodes)?;
        let ports = ports(wanted.base_port, &configs)?;
        let members: Vec<String> =
            (1..).zip(&ports).map(|(id, ports)| format!("{id}=127.0.0.1:{}", ports.peer)).collect();
        let mut nodes = Vec::new();
        for (id, ports) in (1..).zip(ports) {
            let data = node_folder(&folder, id);
            make_private(&data).map_err(told(&format!("make {}", data.display())))?;
            let hosts = LOOPBACK.map(String::from);
            let files = certificates.of_node(id, &hosts).map_err(|error| error.to_string())?;
            let (authority, cluster_key) = (certificates.authority(), certificates.cluster_key());
            let (authority, cluster_key) = (&*authority, &*cluster_key);
            let text = Toml { id, data: &data, ports, authority, cluster_key, files: &files };
            let toml = text.write(&members.join(", "), &wanted.embedder)?;
            let config = data.join("hearth.toml");
            std::fs::write(&config, toml).map_err(told(&format!("write {}", config.display())))?;
            let url = format!("https://127.0.0.1:{}", ports.public);
            let ops = format!("http://127.0.0.1:{}", ports.operator);
            nodes.push(Node { id, url, ops, data, pid: 0, life: None });
        }
        let ca = certificates.authority();
        Ok(Self { nodes, ca, key: String::new(), _lock: lock, _temporary: temporary })
    }

    /// Starts all nodes, and waits until they are ready.
    pub(crate) async fn launch(&mut self) -> Result<(), String> {
        for node in &mut self.nodes {
            node.start(node.id == 1)?;
        }
        for node in &self.nodes {
            node.ready().await?;
        }
        let path = self.nodes[0].data.join(ADMIN_KEY);
        let key = std::fs::read_to_string(&path);
        self.key = key.map_err(told(&format!("read {}", path.display())))?.trim().to_owned();
        Ok(())
    }

    /// The leader, as the nodes that run say.
    pub(crate) async fn leader(&self) -> Result<u64, String> {
        let client = plain_client()?;
        let started = Instant::now();
        loop {
            for node in self.nodes.iter().filter(|node| node.runs()) {
                let answer = client.get(format!("{}/api/v1/status", node.ops)).send().await;
                let Ok(answer) = answer else { continue };
                let status = answer.json::<Value>().await.unwrap_or_default();
                if status["role"] == "leader" {
                    return Ok(node.id);
                }
            }
            if started.elapsed() > READY_TIMEOUT {
                return Err("no node leads".into());
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// Runs the cluster for the time of `story`, or until SIGINT or SIGTERM comes first;
    /// then ends it.
    pub(crate) async fn during(
        mut self,
        story: impl AsyncFnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(told("wait for signals"));
        let (mut interrupt, mut terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let told = tokio::select! {
            told = story(&mut self) => told,
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        };
        self.end().await;
        told
    }

    /// Ends the nodes that this process started.
    async fn end(self) {
        futures::future::join_all(self.nodes.into_iter().map(Node::end)).await;
    }
}

impl Node {
    /// Starts its process.
    pub(crate) fn start(&mut self, bootstrap: bool) -> Result<(), String> {
        let mut child = spawn(&self.data, bootstrap).map_err(told("start a node"))?;
        self.pid = child.id().unwrap_or_default();
        let stdin = child.stdin.take();
        let (kill, killed) = oneshot::channel();
        let ended = tokio::spawn(live(self.id, child, killed));
        self.life = Some(Life { stdin, kill, ended });
        Ok(())
    }

    /// Kills its process, as a power cut would, and waits until it is gone.
    pub(crate) async fn kill(&mut self) {
        let Some(life) = self.life.take() else { return };
        // WithNotifications already when the process has ended by itself.
        let _: Result<(), ()> = life.kill.send(());
        drop(life.ended.await);
    }

    fn runs(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.ended.is_finished())
    }

    async fn end(mut self) {
        let Some(mut life) = self.life.take() else { return };
        drop(life.stdin.take());
        let mut ended = life.ended;
        if tokio::time::timeout(END_TIMEOUT, &mut ended).await.is_err() {
            let _: Result<(), ()> = life.kill.send(());
            drop(ended.await);
        }
    }

    /// Waits until it says that it is ready.
    pub(crate) async fn ready(&self) -> Result<(), String> {
        let client = plain_client()?;
        let started = Instant::now();
        loop {
            if !self.runs() {
                return Err(format!("node {} has ended; {}", self.id, self.log_tail()));
            }
            let answer = client.get(format!("{}/readyz", self.ops)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success() && self.is_from(&answer)) {
                return Ok(());
            }
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!("node {} is not ready; {}", self.id, self.log_tail()));
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// Another process on the same port may answer as well.
    fn is_from(&self, answer: &reqwest::Response) -> bool {
        let process = answer.headers().get("x-hearth-process");
        process.and_then(|value| value.to_str().ok()?.parse().ok()) == Some(self.pid)
    }

    fn log_tail(&self) -> String {
        let path = self.data.join("node.log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let tail: Vec<&str> = text.lines().rev().take(5).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("the end of {}:\n{}", path.display(), tail.join("\n"))
    }
}

/// Collects a node's process, so that its port is free for whoever brings it back.
async fn live(id: u64, mut child: Child, killed: oneshot::Receiver<()>) {
    let status = tokio::select! {
        status = child.wait() => status,
        Ok(()) = killed => {
            if let Err(error) = child.kill().await {
                eprintln!("hearth dev: node {id} cannot be killed: {error}");
            }
            return;
        }
    };
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("hearth dev: node {id} ended ({status}) and stays down"),
        Err(error) => eprintln!("hearth dev: node {id} is lost: {error}"),
    }
}

fn plain_client() -> Result<Client, String> {
    Client::builder().no_proxy().build().map_err(|error| error.to_string())
}

/// What could not be done, before the system's answer.
fn told(action: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("cannot {action}: {error}")
}

fn folder(data: Option<PathBuf>) -> Result<(PathBuf, Option<TempDir>), String> {
    let temporary = match &data {
        Some(_) => None,
        None => {
            let made = tempfile::Builder::new().prefix("hearth-").tempdir();
            Some(made.map_err(told("make a folder"))?)
        }
    };
    let folder = temporary.as_ref().map(|folder| folder.path().to_owned()).or(data);
    let folder = folder.unwrap_or_default();
    make_private(&folder).map_err(told(&format!("make {}", folder.display())))?;
    let folder =
        std::fs::canonicalize(&folder).map_err(told(&format!("find {}", folder.display())))?;
    Ok((folder, temporary))
}

fn node_folder(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("node-{id}"))
}

/// Makes a folder that only its owner may read.
fn make_private(folder: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// One process at a time runs the cluster of a folder.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(told(&format!("open {}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(format!("another `hearth dev` runs the cluster in {}", folder.display())),
    }
}

/// The cluster in a folder keeps its nodes: who belongs to it is in their data.
fn same_nodes(folder: &Path, wanted: u64) -> Result<(), String> {
    let there =
        (1..).take_while(|id| node_folder(folder, *id).join("hearth.toml").exists()).count();
    match there {
        0 => Ok(()),
        there if there as u64 == wanted => Ok(()),
        there => Err(format!(
            "{} holds a cluster of {there}: start it with --nodes {there}, or take another folder",
            folder.display()
        )),
    }
}

/// Ports of each node. Base 0 keeps those that a node had before, and takes free
/// ones for a new one.
fn ports(base: u16, configs: &[PathBuf]) -> Result<Vec<Ports>, String> {
    // All are held until all are known, so that they differ.
    let mut held = Vec::new();
    let mut free = || {
        for _ in 0..FREE_TRIES {
            let random = uuid::Uuid::new_v4().as_u64_pair().0;
            let port = FREE_PORTS.start + (random % FREE_PORTS.len() as u64) as u16;
            if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
                held.push(listener);
                return Ok(port);
            }
        }
        Err("no free ports were found".to_owned())
    };
    let mut ports = Vec::new();
    for (at, config) in (0..).zip(configs) {
        let first = base + 3 * at;
        ports.push(if config.exists() {
            let before = Config::load(config, std::iter::empty());
            let before = before.map_err(|error| error.to_string())?;
            let (public, operator) = (before.public.listen.port(), before.operator.listen.port());
            // The other nodes know it by them.
            if base != 0 && public != first {
                return Err("these nodes have other ports: keep them with --base-port 0".into());
            }
            Ports { public, operator, peer: before.peer.listen.port() }
        } else if base != 0 {
            Ports { public: first, operator: first + 1, peer: first + 2 }
        } else {
            Ports { public: free()?, operator: free()?, peer: free()? }
        });
    }
    Ok(ports)
}

/// A node's configuration file.
struct Toml<'a> {
    id: u64,
    data: &'a Path,
    ports: Ports,
    authority: &'a Path,
    cluster_key: &'a Path,
    files: &'a NodeFiles,
}

impl Toml<'_> {
    fn write(&self, members: &str, embedder: &str) -> Result<String, String> {
        let (model, library) = cached_model()?;
        let quoted =
            |path: &Path| toml::Value::String(path.to_string_lossy().into_owned()).to_string();
        let Ports { public, operator, peer } = self.ports;
        let (certificate, key) = (quoted(&self.files.certificate), quoted(&self.files.key));
        Ok(format!(
            "# Written by `hearth dev`. Start this node again with:\n\
             #   hearth serve --config {}\n\
             [node]\nid = {}\ndata = {}\n\n\
             [public]\nlisten = \"127.0.0.1:{public}\"\ncertificate = {certificate}\nkey = {key}\n\n\
             [operator]\nlisten = \"127.0.0.1:{operator}\"\n\n\
             [peer]\nlisten = \"127.0.0.1:{peer}\"\nauthority = {}\ncertificate = {certificate}\n\
             key = {key}\n\n\
             [cluster]\nmembers = \"{members}\"\n\n\
             [webhooks]\nkey = {}\nallow = \"127.0.0.0/8, ::1/128\"\n\n\
             [embedder]\nkind = \"{embedder}\"\nmodel = {}\nlibrary = {}\n",
            self.data.join("hearth.toml").display(),
            self.id,
            quoted(self.data),
            quoted(self.authority),
            quoted(self.cluster_key),
            quoted(&model),
            quoted(&library),
        ))
    }
}

/// Where `make setup` puts model and library.
fn cached_model() -> Result<(PathBuf, PathBuf), String> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = from("HEARTH_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("hearth")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/hearth")))
        .ok_or("no cache folder: set HEARTH_CACHE")?;
    let library = cache.join("onnxruntime/libonnxruntime.so.1.31.1");
    Ok((cache.join("models/all-MiniLM-L6-v2"), library))
}

fn spawn(data: &Path, bootstrap: bool) -> std::io::Result<Child> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("node.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "--while-stdin-open", "--config"]).arg(data.join("hearth.toml"));
    if bootstrap {
        command.arg("--bootstrap");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn()
}
