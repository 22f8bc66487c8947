//! `hearth dev`: a cluster of child processes of this binary, each with its own
//! `hearth.toml`. A child that dies stays down; `hearth serve` brings it back.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, ChildStdin, Command};

use crate::config::Config;
use crate::form::ADMIN_KEY;
use crate::tls::{self, Development};

/// How long a node may take to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How often to ask whether it is.
const READY_INTERVAL: Duration = Duration::from_millis(50);
/// How long a node may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// The only size of a development cluster so far.
const NODE: u64 = 1;

/// Arguments of `hearth dev`.
#[derive(Args)]
pub(crate) struct Dev {
    /// Nodes of the cluster.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=1))]
    nodes: u8,
    /// Folder of the cluster; a temporary one if absent.
    #[arg(long)]
    data: Option<PathBuf>,
    /// First port; the operator's is the next one. 0 keeps the ones it had, or takes free ones.
    #[arg(long, default_value_t = 4200, value_parser = clap::value_parser!(u16).range(..65_535))]
    base_port: u16,
    /// Print one line of JSON when ready, and nothing else.
    #[arg(long)]
    json: bool,
    /// Embedder of the nodes.
    #[arg(long, default_value = "onnx", value_parser = ["onnx", "hashing"])]
    embedder: String,
}

/// A running development cluster.
pub(crate) struct Cluster {
    pub(crate) url: String,
    pub(crate) ops: String,
    pub(crate) ca: PathBuf,
    pub(crate) key: String,
    data: PathBuf,
    child: Child,
    /// Its end tells the node to stop; apart from the child, since waiting for a
    /// child closes what stands in it.
    stdin: Option<ChildStdin>,
    /// Held as long as this process runs the cluster.
    _lock: File,
    /// Removed when dropped.
    _temporary: Option<TempDir>,
}

impl Dev {
    pub(crate) async fn run(self) -> Result<(), String> {
        let mut cluster = Cluster::start(self.data, self.base_port, &self.embedder).await?;
        let text = if self.json { cluster.json() } else { cluster.text() };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| error.to_string())?;
        drop(out);
        cluster.until_told().await;
        cluster.end().await
    }
}

impl Cluster {
    /// Starts the cluster and waits until it is ready.
    pub(crate) async fn start(
        data: Option<PathBuf>,
        base_port: u16,
        embedder: &str,
    ) -> Result<Self, String> {
        tls::install_provider();
        let temporary = match &data {
            Some(_) => None,
            None => Some(
                tempfile::Builder::new()
                    .prefix("hearth-")
                    .tempdir()
                    .map_err(told("make a folder"))?,
            ),
        };
        let folder = match (&data, &temporary) {
            (None, Some(temporary)) => temporary.path().to_owned(),
            (data, _) => data.clone().unwrap_or_default(),
        };
        make_private(&folder).map_err(told(&format!("make {}", folder.display())))?;
        let folder =
            std::fs::canonicalize(&folder).map_err(told(&format!("find {}", folder.display())))?;
        let lock = lock(&folder)?;
        let certificates = Development::in_folder(&folder).map_err(|error| error.to_string())?;
        let node = folder.join(format!("node-{NODE}"));
        make_private(&node).map_err(told(&format!("make {}", node.display())))?;
        let config = node.join("hearth.toml");
        let (public, operator) = ports(base_port, &config)?;
        let toml = node_toml(&node, public, operator, &certificates, embedder)?;
        std::fs::write(&config, toml).map_err(told(&format!("write {}", config.display())))?;
        let mut child = spawn(&config, &node).map_err(told("start the node"))?;
        let mut cluster = Self {
            url: format!("https://127.0.0.1:{public}"),
            ops: format!("http://127.0.0.1:{operator}"),
            ca: certificates.ca,
            key: String::new(),
            data: node,
            stdin: child.stdin.take(),
            child,
            _lock: lock,
            _temporary: temporary,
        };
        cluster.ready().await?;
        let path = cluster.data.join(ADMIN_KEY);
        let key =
            std::fs::read_to_string(&path).map_err(told(&format!("read {}", path.display())))?;
        cluster.key = key.trim().to_owned();
        Ok(cluster)
    }

    async fn ready(&mut self) -> Result<(), String> {
        let client =
            reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())?;
        let started = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the node ended with {status}; {}", self.log_tail()));
            }
            let answer = client.get(format!("{}/readyz", self.ops)).send().await;
            if answer
                .is_ok_and(|answer| answer.status().is_success() && self.is_from_child(&answer))
            {
                return Ok(());
            }
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!("the node did not become ready; {}", self.log_tail()));
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// Another process on the same port may answer as well.
    fn is_from_child(&self, answer: &reqwest::Response) -> bool {
        let process = answer.headers().get("x-hearth-process");
        let process = process.and_then(|value| value.to_str().ok()?.parse().ok());
        process.is_some() && process == self.child.id()
    }

    fn log_tail(&self) -> String {
        let path = self.data.join("node.log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let tail: Vec<&str> = text.lines().rev().take(5).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        format!("the end of {}:\n{}", path.display(), tail.join("\n"))
    }

    fn json(&self) -> String {
        json!({
            "nodes": [{
                "id": NODE,
                "url": self.url,
                "ops": self.ops,
                "pid": self.child.id(),
                "data": self.data,
            }],
            "ca": self.ca,
            "key": self.key,
            "leader": NODE,
        })
        .to_string()
    }

    pub(crate) fn text(&self) -> String {
        format!(
            "Hearth is ready.\n  URL       {}\n  CA file   {}\n  API key   {}\n  metrics   {}/metrics\n\
             \nTry:\n  curl --cacert {} -H 'Authorization: Bearer {}' {}/api/v1/agent/hot_nodes\n\
             \nCtrl-C ends it.",
            self.url,
            self.ca.display(),
            self.key,
            self.ops,
            self.ca.display(),
            self.key,
            self.url,
        )
    }

    /// Waits for SIGINT or SIGTERM. A node that ends before is left as it is.
    pub(crate) async fn until_told(&mut self) {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
        let mut running = true;
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                // Collected, so that its port is free for whoever brings it back.
                status = self.child.wait(), if running => {
                    running = false;
                    let status = status.map_or_else(|error| error.to_string(), |s| s.to_string());
                    eprintln!("hearth dev: node {NODE} ended ({status}) and stays down");
                }
            }
        }
    }

    /// Ends the nodes that this process started.
    pub(crate) async fn end(mut self) -> Result<(), String> {
        drop(self.stdin.take());
        if tokio::time::timeout(END_TIMEOUT, self.child.wait()).await.is_err() {
            self.child.kill().await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// What could not be done, before the system's answer.
fn told(action: &str) -> impl Fn(std::io::Error) -> String {
    move |error| format!("cannot {action}: {error}")
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

/// Ports of the public and the operator's listener. Base 0 keeps those that the
/// cluster had before, and takes free ones for a new one.
fn ports(base: u16, config: &Path) -> Result<(u16, u16), String> {
    if base != 0 {
        return Ok((base, base + 1));
    }
    if config.exists() {
        let before = Config::load(config, std::iter::empty()).map_err(|error| error.to_string())?;
        return Ok((before.public.listen.port(), before.operator.listen.port()));
    }
    let free = || {
        // Both are held until both are known, so that they differ.
        let held = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
        Ok((held.0.local_addr()?.port(), held.1.local_addr()?.port()))
    };
    free().map_err(told("find free ports"))
}

fn node_toml(
    data: &Path,
    public: u16,
    operator: u16,
    certificates: &Development,
    embedder: &str,
) -> Result<String, String> {
    let (model, library) = cached_model()?;
    let quoted = |path: &Path| toml::Value::String(path.to_string_lossy().into_owned()).to_string();
    Ok(format!(
        "# Written by `hearth dev`. Start this node again with:\n\
         #   hearth serve --config {}\n\
         [node]\nid = {NODE}\ndata = {}\n\n\
         [public]\nlisten = \"127.0.0.1:{public}\"\ncertificate = {}\nkey = {}\n\n\
         [operator]\nlisten = \"127.0.0.1:{operator}\"\n\n\
         [embedder]\nkind = \"{embedder}\"\nmodel = {}\nlibrary = {}\n",
        data.join("hearth.toml").display(),
        quoted(data),
        quoted(&certificates.certificate),
        quoted(&certificates.key),
        quoted(&model),
        quoted(&library),
    ))
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

fn spawn(config: &Path, data: &Path) -> std::io::Result<Child> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("node.log"))?;
    Command::new(std::env::current_exe()?)
        .args(["serve", "--bootstrap", "--while-stdin-open", "--config"])
        .arg(config)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
}
