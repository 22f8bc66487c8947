//! One node of a development cluster: its process, and checks of its state.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use reqwest::Client;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::cli::dev_config::{CONFIG_FILE, Ports};
use crate::error::{cannot, text};

pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const READY_INTERVAL: Duration = Duration::from_millis(50);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Lines of the log in an error.
const LOG_LINES: usize = 5;

pub(crate) struct Node {
    pub(crate) id: u64,
    /// URL of the public listener.
    pub(crate) url: String,
    /// URL of the operator's listener.
    pub(crate) ops: String,
    pub(crate) data: PathBuf,
    /// Id of the last process of the node; 0 before the first.
    pub(crate) pid: u32,
    process: Option<Process>,
}

/// A running process. One task waits for it, so its end is reported once.
struct Process {
    /// Closed to stop the node.
    stdin: Option<ChildStdin>,
    kill: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

impl Node {
    pub(crate) fn new(id: u64, data: PathBuf, ports: Ports, plain_http: bool) -> Self {
        let scheme = if plain_http { "http" } else { "https" };
        let url = format!("{scheme}://127.0.0.1:{}", ports.public);
        let ops = format!("http://127.0.0.1:{}", ports.operator);
        Self { id, url, ops, data, pid: 0, process: None }
    }

    /// Starts it on the configuration in its data folder.
    pub(crate) fn start(&mut self, bootstrap: bool) -> Result<(), String> {
        let bootstrap: &[&str] = if bootstrap { &["--bootstrap"] } else { &[] };
        self.start_on(&self.data.join(CONFIG_FILE), bootstrap, &[])
    }

    /// Starts it on a configuration, with further arguments and variables.
    pub(crate) fn start_on(
        &mut self,
        config: &Path,
        arguments: &[&str],
        environment: &[(&str, String)],
    ) -> Result<(), String> {
        let spawned = spawn(&self.data, config, arguments, environment);
        let mut child = spawned.map_err(cannot("start a node"))?;
        self.pid = child.id().unwrap_or_default();
        let stdin = child.stdin.take();
        let (kill, killed) = oneshot::channel();
        let ended = tokio::spawn(process_task(self.id, child, killed));
        self.process = Some(Process { stdin, kill, ended });
        Ok(())
    }

    /// Kills its process with SIGKILL, and waits for the end.
    pub(crate) async fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            process.kill().await;
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.ended.is_finished())
    }

    /// Stops its process in an orderly way; kills it after [`STOP_TIMEOUT`].
    pub(crate) async fn stop(mut self) {
        let Some(mut process) = self.process.take() else { return };
        drop(process.stdin.take());
        if tokio::time::timeout(STOP_TIMEOUT, &mut process.ended).await.is_err() {
            process.kill().await;
        }
    }

    /// Waits until it reports that it is ready.
    pub(crate) async fn wait_ready(&self) -> Result<(), String> {
        let client = http_client()?;
        let started = Instant::now();
        loop {
            if !self.is_running() {
                return Err(format!("node {} has ended; {}", self.id, self.log_tail()));
            }
            let response = client.get(format!("{}/readyz", self.ops)).send().await;
            if response.is_ok_and(|response| response.status().is_success() && self.sent(&response))
            {
                return Ok(());
            }
            if started.elapsed() > READY_TIMEOUT {
                return Err(format!("node {} is not ready; {}", self.id, self.log_tail()));
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// Whether the response is from this process: another one may listen on the same port.
    fn sent(&self, response: &reqwest::Response) -> bool {
        let process = response.headers().get("x-hearth-process");
        process.and_then(|value| value.to_str().ok()?.parse().ok()) == Some(self.pid)
    }

    fn log_tail(&self) -> String {
        let path = self.data.join("node.log");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
        format!("the end of {}:\n{}", path.display(), tail.join("\n"))
    }
}

impl Process {
    async fn kill(self) {
        // An error means that the process has already ended.
        let _: Result<(), ()> = self.kill.send(());
        drop(self.ended.await);
    }
}

/// Waits for the end of a node's process, so that its port is free for the next one.
async fn process_task(id: u64, mut child: Child, killed: oneshot::Receiver<()>) {
    let status = tokio::select! {
        status = child.wait() => status,
        Ok(()) = killed => {
            if let Err(error) = child.kill().await {
                eprintln!("hearth dev: cannot kill node {id}: {error}");
            }
            return;
        }
    };
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("hearth: node {id} ended ({status}) and stays down"),
        Err(error) => eprintln!("hearth: cannot wait for node {id}: {error}"),
    }
}

fn spawn(
    data: &Path,
    config: &Path,
    arguments: &[&str],
    environment: &[(&str, String)],
) -> std::io::Result<Child> {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("node.log"))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", "--while-stdin-open", "--config"]).arg(config).args(arguments);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn()
}

/// A client of the operator's listeners, over plain HTTP: it needs no authority.
pub(crate) fn http_client() -> Result<Client, String> {
    Client::builder().no_proxy().tls_certs_only([]).build().map_err(text)
}
