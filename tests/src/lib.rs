//! The harness: starts the real binary, talks to it as a client would, and does
//! to it what the world does. Ends every process that it started, and no other.

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

/// Longest that anything may take before a test fails.
pub const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

/// How to start a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    embedder: &'static str,
    environment: BTreeMap<String, String>,
    binary: PathBuf,
}

impl Options {
    /// One node with the hashing embedder. `binary` is the binary under test.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self { embedder: "hashing", environment: BTreeMap::new(), binary: binary.into() }
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
        let mut dev = Command::new(&self.binary)
            .args(["dev", "--json", "--base-port", "0", "--embedder", self.embedder, "--data"])
            .arg(folder.path())
            .envs(&self.environment)
            .stdout(Stdio::piped())
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
        let line = receiver.recv_timeout(PATIENCE).expect("`hearth dev --json` prints its line");
        let info: Value = serde_json::from_str(&line).expect("the line is JSON");
        Cluster {
            client: client(Path::new(text(&info["ca"]))),
            info,
            dev,
            node_killed: AtomicBool::new(false),
            options: self,
            folder,
        }
    }
}

/// A running cluster.
pub struct Cluster {
    /// What `hearth dev --json` printed.
    pub info: Value,
    client: Client,
    dev: Child,
    /// Whether the node that it started was killed; its number may be another's now.
    node_killed: AtomicBool,
    options: Options,
    folder: TempDir,
}

/// An answer: status, headers by name, JSON body (null if there is none).
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// Headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Value,
}

impl Answer {
    /// Its body, which must be that of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, self.body);
        self.body
    }

    /// A header as a number.
    #[track_caller]
    pub fn number(&self, header: &str) -> u64 {
        self.headers[header].parse().expect("a number")
    }
}

/// A request to be sent.
pub struct Ask {
    request: reqwest::RequestBuilder,
}

impl Ask {
    /// With a header.
    #[must_use]
    pub fn header(self, name: &str, value: &str) -> Self {
        Self { request: self.request.header(name, value) }
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        Self { request: self.request.json(body) }
    }

    /// With a body as it stands.
    #[must_use]
    pub fn raw(self, body: impl Into<Vec<u8>>) -> Self {
        Self { request: self.request.body(body.into()) }
    }

    /// Sends it. An error means that there was no answer.
    pub async fn try_send(self) -> Result<Answer, reqwest::Error> {
        let answer = self.request.send().await?;
        let status = answer.status();
        let header = |(name, value): (&reqwest::header::HeaderName, &_)| {
            let value: &reqwest::header::HeaderValue = value;
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let headers = answer.headers().iter().map(header).collect();
        let bytes = answer.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Answer { status, headers, body })
    }

    /// Sends it; there must be an answer.
    pub async fn send(self) -> Answer {
        self.try_send().await.expect("an answer")
    }
}

impl Cluster {
    /// The URL of the node.
    pub fn url(&self) -> &str {
        text(&self.info["nodes"][0]["url"])
    }

    /// The URL of its operator's listener.
    pub fn ops(&self) -> &str {
        text(&self.info["nodes"][0]["ops"])
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        PathBuf::from(text(&self.info["nodes"][0]["data"]))
    }

    /// The admin key.
    pub fn key(&self) -> &str {
        text(&self.info["key"])
    }

    /// The client that trusts this cluster.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A request with the admin key; `path` follows `/api/v1`.
    pub fn ask(&self, method: Method, path: &str) -> Ask {
        let request = self.client.request(method, format!("{}/api/v1{path}", self.url()));
        Ask { request: request.bearer_auth(self.key()) }
    }

    /// A request without a key, of a whole path.
    pub fn ask_bare(&self, method: Method, path: &str) -> Ask {
        Ask { request: self.client.request(method, format!("{}{path}", self.url())) }
    }

    /// A client with connections of its own, as another agent would have.
    pub fn another_client(&self) -> Agent {
        Agent(client(Path::new(text(&self.info["ca"]))))
    }

    /// Creates a memory and returns it.
    pub async fn create(&self, body: &Value) -> Value {
        self.ask(Method::POST, "/agent/nodes").json(body).send().await.ok()
    }

    /// Value of a metric without labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let answer = self.client.get(format!("{}/metrics", self.ops())).send().await;
        let text = answer.expect("the operator's listener answers").text().await.expect("text");
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        let value = line.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        value.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Process id of the node that `hearth dev` started.
    pub fn pid(&self) -> u32 {
        self.info["nodes"][0]["pid"].as_u64().expect("a process id") as u32
    }

    /// Kills the node that `hearth dev` started, as a power cut would.
    pub fn kill_node(&self) {
        self.node_killed.store(true, Ordering::Relaxed);
        signal(self.pid(), "KILL");
        wait_gone(self.pid());
    }

    /// Starts the node's process anew, as an operator would, and does not wait.
    pub fn serve(&self) -> Node {
        self.serve_with(&[])
    }

    /// The same, with further variables in its environment.
    pub fn serve_with(&self, environment: &[(&str, &str)]) -> Node {
        let log = std::fs::File::create(self.data().join("served.log")).expect("a log file");
        let child = Command::new(&self.options.binary)
            .args(["serve", "--config"])
            .arg(self.data().join("hearth.toml"))
            .envs(&self.options.environment)
            .envs(environment.iter().copied())
            .stderr(log)
            .spawn()
            .expect("the binary under test starts");
        Node { child, log: self.data().join("served.log") }
    }

    /// Waits until the node says that it is ready.
    pub async fn ready(&self) {
        let started = Instant::now();
        while !self.readyz().await.is_some_and(|(status, _)| status.is_success()) {
            let log = std::fs::read_to_string(self.data().join("served.log")).unwrap_or_default();
            assert!(started.elapsed() < PATIENCE, "the node does not become ready: {log}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Status and text of `/readyz?verbose`, if the node answers.
    pub async fn readyz(&self) -> Option<(StatusCode, String)> {
        let answer = self.client.get(format!("{}/readyz?verbose", self.ops())).send().await.ok()?;
        Some((answer.status(), answer.text().await.ok()?))
    }

    /// Ends `hearth dev` in order and returns whether it ended well.
    pub fn end(&mut self) -> bool {
        self.node_killed.store(true, Ordering::Relaxed);
        signal(self.dev.id(), "TERM");
        wait(&mut self.dev)
    }

    /// The folder of the whole cluster.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The node first, at once: an orderly end would wait for this test's own
        // connections. Then `hearth dev`, which has collected it before it ends.
        if !self.node_killed.load(Ordering::Relaxed) {
            signal(self.pid(), "KILL");
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
        let request = self.0.request(method, format!("{}/api/v1{path}", cluster.url()));
        Ask { request: request.bearer_auth(cluster.key()) }
    }
}

/// A node that the test itself started.
pub struct Node {
    child: Child,
    log: PathBuf,
}

impl Node {
    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Tells it to stop, and returns whether it ended well.
    pub fn stop(&mut self) -> bool {
        signal(self.child.id(), "TERM");
        wait(&mut self.child)
    }

    /// Waits until it ends by itself, and returns whether it ended well.
    pub fn ended(&mut self) -> bool {
        wait(&mut self.child)
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).expect("its log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn wait(child: &mut Child) -> bool {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status.success();
        }
        assert!(started.elapsed() < PATIENCE, "the process does not end");
        std::thread::sleep(POLL);
    }
}

/// Sends a signal to a process that a test started.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(status.expect("kill runs").success(), "no process {pid}");
}

/// Waits until a process is gone, all its threads and files with it: `hearth dev`,
/// its parent, has collected it then.
pub fn wait_gone(pid: u32) {
    let started = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        assert!(started.elapsed() < PATIENCE, "process {pid} does not end");
        std::thread::sleep(POLL);
    }
}

/// CPU time that a process has used, from `/proc` (100 ticks a second on Linux).
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}

fn client(ca: &Path) -> Client {
    // An error means that it is installed already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let pem = std::fs::read(ca).expect("the CA file");
    let ca = reqwest::Certificate::from_pem(&pem).expect("a certificate");
    Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .timeout(Duration::from_secs(30))
        .build()
        .expect("a client")
}
