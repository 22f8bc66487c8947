//! One node of a cluster: where it listens, requests to it, and faults of its process.

use std::fmt::Display;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use reqwest::Client;

use crate::process::{block_until_gone, is_stopped};
use crate::{
    Method, Options, Process, Request, Response, StatusCode, Value, eventually, id, json, signal,
    string, wait_gone,
};

/// A node that `hearth dev` started.
pub struct Node {
    /// Its position in the cluster, from 0.
    pub(crate) at: usize,
    pub(crate) info: Value,
    /// The admin key.
    pub key: String,
    /// The operator key.
    pub operator_key: String,
    /// The client that trusts its cluster.
    pub client: Client,
    pub(crate) options: Arc<Options>,
    /// Whether the process of `hearth dev` ended; another process may have its id then.
    pub(crate) ended: AtomicBool,
    /// The process that replaced it.
    pub(crate) restarted: Mutex<Option<Process>>,
}

impl Node {
    /// Its id.
    pub fn id(&self) -> u64 {
        self.info["id"].as_u64().expect("an id")
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        string(&self.info["url"])
    }

    /// URL of its operator's listener.
    pub fn ops(&self) -> &str {
        string(&self.info["ops"])
    }

    /// Its data folder.
    pub fn data(&self) -> PathBuf {
        PathBuf::from(string(&self.info["data"]))
    }

    /// Address of its peer listener.
    pub fn peer_address(&self) -> String {
        let toml = std::fs::read_to_string(self.data().join("hearth.toml")).expect("a file");
        let config: toml::Table = toml.parse().expect("a valid file");
        config["peer"]["listen"].as_str().expect("an address").to_owned()
    }

    /// Process id of its process.
    pub fn pid(&self) -> u32 {
        let started = || self.info["pid"].as_u64().expect("a process id") as u32;
        self.restarted().as_ref().map_or_else(started, Process::pid)
    }

    fn restarted(&self) -> MutexGuard<'_, Option<Process>> {
        self.restarted.lock().expect("no thread panics with it")
    }

    /// A request with the admin key; `path` follows `/api/v1`.
    pub fn request(&self, method: Method, path: &str) -> Request {
        let request = self.bare_request(method, &format!("/api/v1{path}"));
        Request(request.0.bearer_auth(&self.key))
    }

    /// A request with the key that `POST /keys` returned; `path` follows `/api/v1`.
    pub fn request_as(&self, key: &Value, method: Method, path: &str) -> Request {
        let request = self.bare_request(method, &format!("/api/v1{path}"));
        Request(request.0.bearer_auth(string(&key["key"])))
    }

    /// A request without a key; `path` is the whole path.
    pub fn bare_request(&self, method: Method, path: &str) -> Request {
        Request(self.client.request(method, format!("{}{path}", self.url())))
    }

    /// A request to the operator's listener, with the operator key.
    pub fn ops_request(&self, method: Method, path: &str) -> Request {
        let request = self.client.request(method, format!("{}{path}", self.ops()));
        Request(request.bearer_auth(&self.operator_key))
    }

    /// Sends a request with the admin key and a JSON body.
    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Response {
        self.request(method, path).json(body).send().await
    }

    /// Sends a POST that must be rejected (400) because of `field`.
    pub async fn assert_rejected(&self, path: &str, body: &Value, field: &str) {
        self.send(Method::POST, path, body).await.assert_invalid(field);
    }

    /// The body of a successful GET with the admin key.
    pub async fn get(&self, path: &str) -> Value {
        self.request(Method::GET, path).send().await.ok()
    }

    /// The body of a successful POST with the admin key.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        self.send(Method::POST, path, body).await.ok()
    }

    /// The body of a successful PATCH with the admin key.
    pub async fn patch(&self, path: &str, body: &Value) -> Value {
        self.send(Method::PATCH, path, body).await.ok()
    }

    /// The body of a successful DELETE with the admin key.
    pub async fn delete(&self, path: &str) -> Value {
        self.request(Method::DELETE, path).send().await.ok()
    }

    /// Creates a memory and returns it.
    pub async fn create(&self, body: &Value) -> Value {
        self.post("/agent/nodes", body).await
    }

    /// Creates a memory and returns its id.
    pub async fn store(&self, body: &Value) -> String {
        id(&self.create(body).await).to_owned()
    }

    /// Creates memories one after another and returns their ids.
    pub async fn store_each(&self, bodies: impl IntoIterator<Item = Value>) -> Vec<String> {
        self.post_each("/agent/nodes", bodies).await
    }

    /// Creates objects one after another and returns their ids.
    pub async fn post_each(
        &self,
        path: &str,
        bodies: impl IntoIterator<Item = Value>,
    ) -> Vec<String> {
        let mut ids = Vec::new();
        for body in bodies {
            ids.push(id(&self.post(path, &body).await).to_owned());
        }
        ids
    }

    /// Value of a metric without labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.all_metrics().await;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        let value = line.and_then(|line| line.split(' ').nth(1)?.parse().ok());
        value.unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// Sum of the metrics whose names and labels start with `prefix`.
    pub async fn metrics(&self, prefix: &str) -> f64 {
        let text = self.all_metrics().await;
        let lines = text.lines().filter(|line| line.starts_with(prefix));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Over its own connection: a kept one may end while the next request is sent.
    async fn all_metrics(&self) -> String {
        let request = self.client.get(format!("{}/metrics", self.ops()));
        let response = request.header("Connection", "close").send().await;
        response.expect("the operator's listener responds").text().await.expect("text")
    }

    /// Kills its process with SIGKILL.
    pub fn kill(&self) {
        let restarted = self.restarted().take();
        match restarted {
            Some(mut process) => process.kill(),
            None => {
                signal(self.pid(), "KILL");
                self.ended.store(true, Ordering::Relaxed);
                block_until_gone(self.pid());
            }
        }
    }

    /// Pauses its process, as a pause of its machine would: all of its threads have stopped.
    pub fn pause(&self) {
        signal(self.pid(), "STOP");
        let start = Instant::now();
        while !is_stopped(self.pid()) {
            assert!(start.elapsed() < Duration::from_secs(10), "the process goes on");
            std::thread::yield_now();
        }
    }

    /// Resumes its paused process.
    pub fn resume(&self) {
        signal(self.pid(), "CONT");
    }

    /// Sends SIGTERM to its process.
    pub fn terminate(&self) {
        signal(self.pid(), "TERM");
    }

    /// Waits until the process of `hearth dev`, which received a signal to end, is gone.
    pub async fn wait_gone(&self) {
        self.ended.store(true, Ordering::Relaxed);
        wait_gone(self.pid()).await;
    }

    /// Kills its process and starts it again.
    pub async fn crash(&self) {
        self.kill();
        self.restart().await;
    }

    /// Starts the process of a killed node again and does not wait.
    pub fn start(&self) {
        self.start_with(&[]);
    }

    /// [`Self::start`], with further environment variables.
    pub fn start_with(&self, environment: &[(&str, &str)]) {
        *self.restarted() = Some(self.serve_with(environment));
    }

    /// Starts the process of a killed node again and waits until it is ready.
    pub async fn restart(&self) {
        self.restart_with(&[]).await;
    }

    /// [`Self::restart`], with further environment variables.
    pub async fn restart_with(&self, environment: &[(&str, &str)]) {
        self.start_with(environment);
        self.ready().await;
    }

    /// Stops its process in order, and waits for its end. That of a restarted node must be a success.
    pub async fn shut_down(&self) {
        let restarted = self.restarted().take();
        match restarted {
            Some(mut process) => assert!(process.stop().await, "{}", process.log()),
            None => {
                self.terminate();
                self.wait_gone().await;
            }
        }
    }

    /// Starts `hearth serve`, which must fail, and returns its log.
    pub async fn failed_start(&self, environment: &[(&str, &str)]) -> String {
        let mut process = self.serve_with(environment);
        assert!(!process.ended().await, "it must not run: {}", process.log());
        process.log()
    }

    /// Starts `hearth serve` on its configuration, with further environment variables.
    pub fn serve_with(&self, environment: &[(&str, &str)]) -> Process {
        let mut command = Command::new(&self.options.binary);
        command.args(["serve", "--config"]).arg(self.data().join("hearth.toml"));
        command.envs(&self.options.environment).envs(environment.iter().copied());
        Process::start(&mut command, self.data().join("served.log"))
    }

    /// Waits until it responds, ready or not.
    pub async fn up(&self) {
        eventually("a node responds", async || self.readyz().await, Option::is_some).await;
    }

    /// Waits until it is ready.
    pub async fn ready(&self) {
        let observe = async || match self.readyz().await {
            Some((status, _)) if status.is_success() => Ok(()),
            _ => Err(std::fs::read_to_string(self.data().join("served.log"))),
        };
        drop(eventually("a node is ready", observe, Result::is_ok).await);
    }

    /// Status and text of `/readyz?verbose`, if it responds and has opened its data.
    pub async fn readyz(&self) -> Option<(StatusCode, String)> {
        let url = format!("{}/readyz?verbose", self.ops());
        let response = self.client.get(url).send().await.ok()?;
        let (status, text) = (response.status(), response.text().await.ok()?);
        (!text.contains("data failed: opening")).then_some((status, text))
    }

    /// Whether a path of its operator's listener responds with success.
    pub async fn operator_responds(&self, path: &str) -> bool {
        let response = self.client.get(format!("{}{path}", self.ops())).send().await;
        response.is_ok_and(|response| response.status().is_success())
    }

    /// Its `/api/v1/status`, if it responds.
    pub async fn status(&self) -> Option<Value> {
        let response = self.ops_request(Method::GET, "/api/v1/status").try_send().await.ok()?;
        response.status.is_success().then_some(response.body)
    }

    /// The Raft term in its status.
    pub async fn term(&self) -> u64 {
        let status = self.status().await.expect("a status");
        status["term"].as_u64().expect("a term")
    }
}

/// The body of a memory with defaults.
pub fn labelled(label: impl Display) -> Value {
    json!({"label": label.to_string()})
}

/// A client with its own connections, as another agent has.
pub struct Agent(pub(crate) Client);

impl Agent {
    /// A request to `node` with the admin key; `path` follows `/api/v1`.
    pub fn request(&self, node: &Node, method: Method, path: &str) -> Request {
        let request = self.0.request(method, format!("{}/api/v1{path}", node.url()));
        Request(request.bearer_auth(&node.key))
    }

    /// A read with the key that `POST /keys` returned.
    pub fn get_as(&self, node: &Node, key: &Value, path: &str) -> Request {
        let request = self.0.get(format!("{}/api/v1{path}", node.url()));
        Request(request.bearer_auth(string(&key["key"])))
    }
}
