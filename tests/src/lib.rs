//! The harness: starts the real binary, talks to it as a client would, and does
//! to it what the world does. Ends every process that it started, and no other.

pub mod engine;
mod http;
mod process;
mod receiver;
mod stream;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use tempfile::TempDir;

pub use http::{Answer, Ask, client};
pub use process::{Node, cpu_seconds, signal, wait_gone};
pub use receiver::{Behaviour, Receiver, Request};
pub use stream::{Event, Stream};

/// Longest that anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// How to start a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    nodes: usize,
    embedder: &'static str,
    environment: BTreeMap<String, String>,
    binary: PathBuf,
}

impl Options {
    /// One node with the hashing embedder. `binary` is the binary under test.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let (binary, environment) = (binary.into(), BTreeMap::new());
        Self { nodes: 1, embedder: "hashing", environment, binary }
    }

    /// With so many nodes.
    #[must_use]
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.nodes = nodes;
        self
    }

    /// With the real embedding model.
    #[must_use]
    pub fn real_embedder(mut self) -> Self {
        self.embedder = "onnx";
        self
    }

    /// With a variable in the environment of every node.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Starts it in a new folder and waits until it is ready.
    pub fn start(self) -> Cluster {
        let folder = TempDir::new().expect("a temporary folder");
        let log = folder.path().join("dev.log");
        let mut dev = Command::new(&self.binary)
            .args(["dev", "--json", "--base-port", "0", "--embedder", self.embedder])
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
        Cluster {
            client: client(Path::new(text(&info["ca"]))),
            killed: (0..self.nodes).map(|_| AtomicBool::new(false)).collect(),
            info,
            dev,
            options: self,
            folder,
        }
    }
}

/// A running cluster. What is asked of it without naming a node is asked of the first.
pub struct Cluster {
    /// What `hearth dev --json` printed.
    pub info: Value,
    client: Client,
    dev: Child,
    /// Which of the nodes that it started were killed; their numbers may be others' now.
    killed: Vec<AtomicBool>,
    options: Options,
    folder: TempDir,
}

/// One node of a cluster.
#[derive(Clone, Copy)]
pub struct At<'a> {
    cluster: &'a Cluster,
    at: usize,
}

impl At<'_> {
    fn info(&self) -> &Value {
        &self.cluster.info["nodes"][self.at]
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.info()["id"].as_u64().expect("an id")
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        text(&self.info()["url"])
    }

    /// URL of its operator's listener.
    pub fn ops(&self) -> &str {
        text(&self.info()["ops"])
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        PathBuf::from(text(&self.info()["data"]))
    }

    /// Process id of the process that `hearth dev` started.
    pub fn pid(&self) -> u32 {
        self.info()["pid"].as_u64().expect("a process id") as u32
    }

    /// A request with the admin key; `path` follows `/api/v1`.
    pub fn ask(&self, method: Method, path: &str) -> Ask {
        let request = self.cluster.client.request(method, format!("{}/api/v1{path}", self.url()));
        Ask { request: request.bearer_auth(self.cluster.key()) }
    }

    /// A request without a key, of a whole path.
    pub fn ask_bare(&self, method: Method, path: &str) -> Ask {
        let request = self.cluster.client.request(method, format!("{}{path}", self.url()));
        Ask { request }
    }

    /// A request to the operator's listener, with JSON or nothing in its body.
    pub fn operate(&self, method: Method, path: &str) -> Ask {
        let request = self.cluster.client.request(method, format!("{}{path}", self.ops()));
        Ask { request }
    }

    /// Creates a memory and returns it.
    pub async fn create(&self, body: &Value) -> Value {
        self.ask(Method::POST, "/agent/nodes").json(body).send().await.ok()
    }

    /// Value of a metric without labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.all_metrics().await;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        let value = line.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        value.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Sum of the metrics of the node whose names and labels begin so.
    pub async fn metrics(&self, beginning: &str) -> f64 {
        let text = self.all_metrics().await;
        let lines = text.lines().filter(|line| line.starts_with(beginning));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// By a connection of its own: one that is kept may end while the next request is sent.
    async fn all_metrics(&self) -> String {
        let ask = self.cluster.client.get(format!("{}/metrics", self.ops()));
        let answer = ask.header("Connection", "close").send().await;
        answer.expect("the operator's listener answers").text().await.expect("text")
    }

    /// Kills the process that `hearth dev` started, as a power cut would.
    pub fn kill(&self) {
        self.cluster.killed[self.at].store(true, Ordering::Relaxed);
        signal(self.pid(), "KILL");
        wait_gone(self.pid());
    }

    /// Waits until the process that `hearth dev` started, and was told to stop, is gone.
    pub fn gone(&self) {
        self.cluster.killed[self.at].store(true, Ordering::Relaxed);
        wait_gone(self.pid());
    }

    /// Starts its process anew, as an operator would, and does not wait.
    pub fn serve(&self) -> Node {
        self.serve_with(&[])
    }

    /// The same, with further variables in its environment.
    pub fn serve_with(&self, environment: &[(&str, &str)]) -> Node {
        let log = self.data().join("served.log");
        let child = Command::new(&self.cluster.options.binary)
            .args(["serve", "--config"])
            .arg(self.data().join("hearth.toml"))
            .envs(&self.cluster.options.environment)
            .envs(environment.iter().copied())
            .stderr(std::fs::File::create(&log).expect("a log file"))
            .spawn()
            .expect("the binary under test starts");
        Node { child, log }
    }

    /// Waits until it answers, ready or not.
    pub async fn up(&self) {
        let started = Instant::now();
        while self.readyz().await.is_none() {
            assert!(started.elapsed() < PATIENCE, "the node does not come up");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until it says that it is ready.
    pub async fn ready(&self) {
        let started = Instant::now();
        while !self.readyz().await.is_some_and(|(status, _)| status.is_success()) {
            let log = std::fs::read_to_string(self.data().join("served.log")).unwrap_or_default();
            assert!(started.elapsed() < PATIENCE, "the node does not become ready: {log}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Status and text of `/readyz?verbose`, if it answers.
    pub async fn readyz(&self) -> Option<(StatusCode, String)> {
        let url = format!("{}/readyz?verbose", self.ops());
        let answer = self.cluster.client.get(url).send().await.ok()?;
        Some((answer.status(), answer.text().await.ok()?))
    }

    /// What it says of itself, if it answers.
    pub async fn status(&self) -> Option<Value> {
        let answer = self.operate(Method::GET, "/api/v1/status").try_send().await.ok()?;
        answer.status.is_success().then_some(answer.body)
    }
}

impl Cluster {
    /// The node with this position, from 0.
    pub fn at(&self, at: usize) -> At<'_> {
        At { cluster: self, at }
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = At<'_>> {
        (0..self.options.nodes).map(|at| self.at(at))
    }

    /// Position of the node that leads, once one says so.
    pub async fn leader(&self) -> usize {
        let started = Instant::now();
        loop {
            for node in self.nodes() {
                if node.status().await.is_some_and(|status| status["role"] == "leader") {
                    return node.at;
                }
            }
            assert!(started.elapsed() < PATIENCE, "no node leads");
            tokio::time::sleep(POLL).await;
        }
    }

    /// The URL of the first node.
    pub fn url(&self) -> &str {
        text(&self.info["nodes"][0]["url"])
    }

    /// The URL of its operator's listener.
    pub fn ops(&self) -> &str {
        text(&self.info["nodes"][0]["ops"])
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        self.at(0).data()
    }

    /// The admin key.
    pub fn key(&self) -> &str {
        text(&self.info["key"])
    }

    /// The client that trusts this cluster.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// See [`At::ask`].
    pub fn ask(&self, method: Method, path: &str) -> Ask {
        self.at(0).ask(method, path)
    }

    /// See [`At::ask_bare`].
    pub fn ask_bare(&self, method: Method, path: &str) -> Ask {
        self.at(0).ask_bare(method, path)
    }

    /// A client with connections of its own, as another agent would have.
    pub fn another_client(&self) -> Agent {
        Agent(client(Path::new(text(&self.info["ca"]))))
    }

    /// See [`At::create`].
    pub async fn create(&self, body: &Value) -> Value {
        self.at(0).create(body).await
    }

    /// See [`At::metric`].
    pub async fn metric(&self, name: &str) -> f64 {
        self.at(0).metric(name).await
    }

    /// See [`At::pid`].
    pub fn pid(&self) -> u32 {
        self.at(0).pid()
    }

    /// See [`At::kill`].
    pub fn kill_node(&self) {
        self.at(0).kill();
    }

    /// See [`At::serve`].
    pub fn serve(&self) -> Node {
        self.at(0).serve()
    }

    /// See [`At::serve_with`].
    pub fn serve_with(&self, environment: &[(&str, &str)]) -> Node {
        self.at(0).serve_with(environment)
    }

    /// See [`At::ready`].
    pub async fn ready(&self) {
        self.at(0).ready().await;
    }

    /// See [`At::readyz`].
    pub async fn readyz(&self) -> Option<(StatusCode, String)> {
        self.at(0).readyz().await
    }

    /// Ends `hearth dev` in order and returns whether it ended well.
    pub fn end(&mut self) -> bool {
        self.killed.iter().for_each(|killed| killed.store(true, Ordering::Relaxed));
        signal(self.dev.id(), "TERM");
        process::wait(&mut self.dev)
    }

    /// The folder of the whole cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The nodes first, at once: an orderly end would wait for this test's own
        // connections. Then `hearth dev`, which has collected them before it ends.
        for node in self.nodes() {
            if !self.killed[node.at].load(Ordering::Relaxed) {
                signal(node.pid(), "KILL");
            }
        }
        if let Ok(None) = self.dev.try_wait() {
            signal(self.dev.id(), "TERM");
            drop(self.dev.wait());
        }
    }
}

/// A client with connections of its own.
pub struct Agent(Client);

impl Agent {
    /// A request with the admin key of `cluster`; `path` follows `/api/v1`.
    pub fn ask(&self, cluster: &Cluster, method: Method, path: &str) -> Ask {
        self.ask_at(&cluster.at(0), method, path)
    }

    /// The same, of a certain node.
    pub fn ask_at(&self, node: &At<'_>, method: Method, path: &str) -> Ask {
        let request = self.0.request(method, format!("{}/api/v1{path}", node.url()));
        Ask { request: request.bearer_auth(node.cluster.key()) }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}
