//! A cluster of real processes on loopback, started by `hearth dev`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use tempfile::TempDir;

use crate::disk::Disk;
use crate::{
    Agent, Method, Node, PATIENCE, Value, array, client, eventually, json, process, signal, string,
};

/// Lines of a node's log that a failed test prints.
const LOG_LINES: usize = 20;
/// Ports that `hearth dev` gives a node.
const PORTS_PER_NODE: u16 = 3;

/// How to start a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    nodes: usize,
    embedder: &'static str,
    disk_bytes: Option<u64>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) binary: PathBuf,
}

impl Options {
    /// One node of the binary under test, with the hashing embedder.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let (binary, environment) = (binary.into(), BTreeMap::new());
        Self { nodes: 1, embedder: "hashing", disk_bytes: None, environment, binary }
    }

    /// Sets the number of nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// Uses the real embedding model.
    #[must_use]
    pub fn real_embedder(mut self) -> Self {
        self.embedder = "model";
        self
    }

    /// Gives each node a file system of its own, of so many bytes. Mounting needs root.
    #[must_use]
    pub fn disks(mut self, bytes: u64) -> Self {
        self.disk_bytes = Some(bytes);
        self
    }

    /// Sets an environment variable of every node.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Compacts the log all the time and keeps five entries. A follower that is silent for
    /// `seconds` no longer delays compaction.
    #[must_use]
    pub fn eager_compaction(self, seconds: &str) -> Self {
        self.env("HEARTH__LOG_COMPACTION__FOLLOWER_TIMEOUT_SECONDS", seconds)
            .env("HEARTH__LOG_COMPACTION__LOG_BYTES", "1")
            .env("HEARTH__LOG_COMPACTION__KEEP_ENTRIES", "5")
    }

    /// Starts the cluster in a new folder and waits until it is ready.
    pub fn start(self) -> Cluster {
        let folder = TempDir::new().expect("a temporary folder");
        let log = folder.path().join("dev.log");
        let mount = |id, bytes| Disk::mount(&folder.path().join(format!("node-{id}")), bytes);
        let mount_all = |bytes| (1..=self.nodes).map(|id| mount(id, bytes)).collect();
        let disks = self.disk_bytes.map(mount_all).unwrap_or_default();
        let first_port = process::free_ports(PORTS_PER_NODE * self.nodes as u16).to_string();
        let mut dev = Command::new(&self.binary)
            .args(["dev", "--json", "--base-port", &first_port, "--embedder", self.embedder])
            .args(["--nodes", &self.nodes.to_string(), "--data"])
            .arg(folder.path())
            .envs(&self.environment)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).expect("a log file"))
            .spawn()
            .expect("the binary under test starts");
        let stdout = dev.stdout.take().expect("it was piped");
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let line = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            panic!("`hearth dev --json` does not print its line: {log}")
        });
        let info: Value = serde_json::from_str(&line).expect("the line is JSON");
        let (client, options) = (client(Path::new(string(&info["ca"]))), Arc::new(self));
        let key = string(&info["key"]);
        let operator_key = info["operator_key"].as_str().unwrap_or_default();
        let node = |(at, info): (usize, &Value)| Node {
            at,
            info: info.clone(),
            key: key.to_owned(),
            operator_key: operator_key.to_owned(),
            client: client.clone(),
            options: Arc::clone(&options),
            ended: Default::default(),
            restarted: Default::default(),
        };
        let nodes = array(&info["nodes"]).iter().enumerate().map(node).collect();
        Cluster { nodes, info, dev, _disks: disks, folder }
    }
}

/// A running cluster. It stands for its first node where no other is named.
pub struct Cluster {
    /// What `hearth dev --json` printed.
    pub info: Value,
    nodes: Vec<Node>,
    dev: Child,
    _disks: Vec<Disk>,
    folder: TempDir,
}

impl Deref for Cluster {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.nodes[0]
    }
}

impl Cluster {
    /// The node at a position, from 0.
    pub fn at(&self, at: usize) -> &Node {
        &self.nodes[at]
    }

    /// All nodes.
    pub fn nodes(&self) -> std::slice::Iter<'_, Node> {
        self.nodes.iter()
    }

    /// Position of the node that leads, once one does.
    pub async fn leader(&self) -> usize {
        let find = async || {
            for node in self.nodes() {
                if node.status().await.is_some_and(|status| status["role"] == "leader") {
                    return Some(node.at);
                }
            }
            None
        };
        eventually("a node leads", find, Option::is_some).await.expect("it holds")
    }

    /// The nodes from the leader on, in the order of their positions.
    pub async fn leader_first<const N: usize>(&self) -> [&Node; N] {
        let leader = self.leader().await;
        std::array::from_fn(|at| &self.nodes[(leader + at) % self.nodes.len()])
    }

    /// Transfers leadership to the node at this position. An attempt may fail while it lacks entries.
    pub async fn transfer_to(&self, at: usize) {
        let to = json!({"to": self.at(at).id()});
        let transferred = async || {
            let found = self.leader().await;
            if found != at {
                let transfer = self.at(found).ops_request(Method::POST, "/cluster/transfer");
                drop(transfer.json(&to).try_send().await);
            }
            found
        };
        eventually("it leads", transferred, |found| *found == at).await;
    }

    /// A client with its own connections.
    pub fn new_agent(&self) -> Agent {
        Agent(client(Path::new(string(&self.info["ca"]))))
    }

    /// Runs `hearth` with these arguments and the operator key; returns whether it succeeded, and
    /// its output.
    pub async fn run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = tokio::process::Command::new(&self.options.binary);
        command.args(arguments).env("HEARTH_OPERATOR_KEY", &self.operator_key);
        let ran = command.output().await.expect("the binary under test starts");
        let text = [ran.stdout, ran.stderr].concat();
        (ran.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes the configuration of the first node with another data folder, for `hearth restore`.
    pub fn restored_config(&self) -> PathBuf {
        let text = std::fs::read_to_string(self.data().join("hearth.toml")).expect("a file");
        let mut config: toml::Table = text.parse().expect("a valid file");
        let data = self.folder().join("restored");
        config["node"]["data"] = data.to_str().expect("a path in UTF-8").into();
        let path = self.folder().join("restored.toml");
        std::fs::write(&path, config.to_string()).expect("it is written");
        path
    }

    /// Ends `hearth dev` with SIGTERM and returns whether it ended with success.
    pub async fn stop(&mut self) -> bool {
        self.nodes.iter().for_each(|node| node.ended.store(true, Ordering::Relaxed));
        signal(self.dev.id(), "TERM");
        process::ended(&mut self.dev).await
    }

    /// The binary under test.
    pub fn binary(&self) -> &Path {
        &self.options.binary
    }

    /// The folder of the whole cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Prints the last warnings and errors of a node, beside the failure of its test.
fn print_warnings(node: &Node) {
    let log = std::fs::read_to_string(node.data().join("node.log")).unwrap_or_default();
    let is_warning = |line: &&str| line.contains(" WARN ") || line.contains("ERROR ");
    let lines: Vec<&str> = log.lines().filter(is_warning).collect();
    for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
        println!("node {}: {line}", node.id());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.nodes.iter().for_each(print_warnings);
        }
        // The nodes first, by SIGKILL: an orderly end waits for this test's connections.
        // Then `hearth dev`, which collects them before it ends.
        for node in self.nodes.iter().filter(|node| !node.ended.load(Ordering::Relaxed)) {
            // One that ended against its test's expectation must not keep the others alive.
            process::try_signal(node.pid(), "KILL");
        }
        if let Ok(None) = self.dev.try_wait() {
            signal(self.dev.id(), "TERM");
            drop(self.dev.wait());
        }
    }
}
