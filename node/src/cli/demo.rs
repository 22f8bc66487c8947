//! `hearth demo`: shows the features of the service on a development cluster with sample texts.
//! The cluster then keeps running.

#![expect(clippy::print_stdout, reason = "the output of the command")]

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::header::RETRY_AFTER;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::cli::dev::{DevCluster, as_text};
use crate::cli::dev_config::NodeOptions;
use crate::error::text;

const SAMPLES: &str = include_str!("../../../deploy/samples/samples.jsonl");
const QUERIES: &str = include_str!("../../../deploy/samples/queries.json");
/// Concurrent requests while samples are stored.
const STORE_CLIENTS: usize = 8;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Characters of a label on one line.
const LABEL_CHARS: usize = 88;
/// Requests per minute of the tier free.
const TRIAL_REQUESTS: usize = 60;
const NODES: u64 = 3;
/// Time limit of the first write after the leader was killed.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) async fn run() -> Result<(), String> {
    let result = DevCluster::prepare(NODES, None, 0, &NodeOptions::real())?
        .during(async |cluster: &mut DevCluster| {
            println!("Hearth demo\n");
            println!("1. Start three equal nodes: TLS, Raft log, embedding model.");
            let started = Instant::now();
            cluster.launch().await?;
            let (took, leader) = (millis(started), cluster.leader().await?);
            println!("   ready after {took}, node {leader} leads\n");
            show(cluster).await?;
            println!("{}", as_text(cluster)?);
            std::future::pending().await
        })
        .await;
    match &result {
        Ok(()) => println!("The cluster has stopped."),
        Err(error) => println!("The demo failed: {error}"),
    }
    result
}

async fn show(cluster: &mut DevCluster) -> Result<(), String> {
    let agent = Agent::new(cluster)?;
    let samples = SAMPLES.lines().map(serde_json::from_str).collect::<Result<Vec<_>, _>>();
    let samples = samples.map_err(text)?;
    store(&agent, &samples).await?;
    search(&agent).await?;
    load_hot_context(&agent).await?;
    kill_leader(cluster, &agent, samples.len()).await?;
    show_tenants(cluster, &agent).await
}

/// Creates a second tenant with a limit, and reaches it.
async fn show_tenants(cluster: &DevCluster, agent: &Agent) -> Result<(), String> {
    println!("7. Create a second tenant, of the tier free: 60 requests per minute over all nodes.");
    let url = format!("{}/cluster/tenants", cluster.nodes[0].ops);
    let create = agent.client.post(url).bearer_auth(&cluster.operator_key);
    let created = create.json(&json!({ "name": "trial", "tier": "free" })).send().await;
    let tenant: Value = created.map_err(text)?.json().await.map_err(text)?;
    let key = tenant["key"].as_str().ok_or_else(|| format!("no key: {tenant}"))?;
    let mut accepted = 0;
    loop {
        let path = "/api/v1/agent/nodes?page_size=1&consistency=linearizable";
        let request = agent.client.get(agent.url(accepted, path)).bearer_auth(key);
        let response = request.send().await.map_err(text)?;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            let seconds = response.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok());
            let seconds = seconds.unwrap_or("some").to_owned();
            println!(
                "   {accepted} requests through all nodes are accepted, with 0 memories: it sees none"
            );
            println!("   of the first tenant. The next one is a 429: retry after {seconds} s");
            break;
        }
        let list: Value = response.error_for_status().map_err(text)?.json().await.map_err(text)?;
        if list["total"] != 0 || accepted > 2 * TRIAL_REQUESTS {
            return Err(format!("request {accepted} of the second tenant responded {list}"));
        }
        accepted += 1;
    }
    let total = agent.total(0).await?;
    println!("   The first tenant is not limited: it counts {total} memories\n");
    Ok(())
}

async fn store(agent: &Agent, samples: &[Value]) -> Result<(), String> {
    println!(
        "2. Store {} memories through all nodes in turn. Two of three nodes sync each one.",
        samples.len()
    );
    let started = Instant::now();
    let style = ProgressStyle::with_template("   {bar:40} {pos}/{len}");
    let bar = ProgressBar::new(samples.len() as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut stored = stream::iter(samples.iter().enumerate())
        .map(|(at, sample)| agent.post(at, "/api/v1/agent/nodes", sample))
        .buffer_unordered(STORE_CLIENTS);
    while let Some(result) = stored.next().await {
        result?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    println!("   stored after {}\n", millis(started));
    Ok(())
}

async fn search(agent: &Agent) -> Result<(), String> {
    println!("3. Search by meaning, heat and words, on each node in turn.");
    let queries: Vec<Value> = serde_json::from_str(QUERIES).map_err(text)?;
    for (at, query) in queries.iter().enumerate() {
        let started = Instant::now();
        let mut body = json!({ "query": query["query"], "limit": 3 });
        if !query["namespace"].is_null() {
            body["namespace"] = query["namespace"].clone();
        }
        let hits = agent.post(at, "/api/v1/agent/search", &body).await?;
        let took = millis(started);
        println!("   {}", query["query"].as_str().unwrap_or_default());
        println!("     → {}  ({}, {took})", label_line(&hits[0]["label"]), hits[0]["score"]);
    }
    Ok(())
}

async fn load_hot_context(agent: &Agent) -> Result<(), String> {
    println!("\n4. Load hot context: pinned first, then the hottest.");
    let started = Instant::now();
    let hot = agent.post(1, "/api/v1/agent/hot-context", &json!({ "limit": 5 })).await?;
    let took = millis(started);
    for memory in hot.as_array().into_iter().flatten() {
        let pin = if memory["is_pinned"] == true { "pinned" } else { "      " };
        let heat = memory["heat"].as_f64().unwrap_or(0.0);
        println!("   {pin} {heat:4.2}  {}", label_line(&memory["label"]));
    }
    println!("   loaded in {took}\n");
    Ok(())
}

async fn kill_leader(cluster: &mut DevCluster, agent: &Agent, stored: usize) -> Result<(), String> {
    let leader = cluster.leader().await? as usize - 1;
    println!("5. Kill node {}, the leader, with SIGKILL, and continue to write.", leader + 1);
    let killed = Instant::now();
    cluster.nodes[leader].kill().await;
    let survivor = (leader + 1) % cluster.nodes.len();
    let body = json!({ "label": "Stored while the old leader was down.", "namespace": "demo" });
    let path = "/api/v1/agent/nodes";
    loop {
        let request = agent.client.post(agent.url(survivor, path)).json(&body);
        // Retries have one idempotency key, so the memory is stored once.
        let request = request.header("Idempotency-Key", "the first write");
        match agent.send(path, request).await {
            Ok(_) => break,
            Err(error) if killed.elapsed() > FAILOVER_TIMEOUT => return Err(error),
            Err(_) => {}
        }
    }
    let (paused, next) = (millis(killed), cluster.leader().await?);
    println!("   node {next} leads now; the first write succeeded after {paused}");
    let total = agent.total(survivor).await?;
    if total != stored + 1 {
        return Err(format!("{total} memories exist, but {} were acknowledged", stored + 1));
    }
    println!("   {total} memories exist: the {stored} stored before, and the new one");
    println!("\n6. Restart node {}.", leader + 1);
    let started = Instant::now();
    cluster.nodes[leader].start(false)?;
    cluster.nodes[leader].wait_ready().await?;
    let found = agent.total(leader).await?;
    println!("   it is ready after {}, with {found} memories\n", millis(started));
    match found == total {
        true => Ok(()),
        false => Err(format!("node {} holds {found} memories of {total}", leader + 1)),
    }
}

fn millis(since: Instant) -> String {
    format!("{:.1} ms", since.elapsed().as_secs_f64() * 1e3)
}

/// A label on one line, shortened.
fn label_line(label: &Value) -> String {
    let label = label.as_str().unwrap_or("nothing").replace('\n', " ");
    match label.char_indices().nth(LABEL_CHARS) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label,
    }
}

/// A client with the key of the demo's cluster.
struct Agent {
    client: Client,
    urls: Vec<String>,
    key: String,
}

impl Agent {
    fn new(cluster: &DevCluster) -> Result<Self, String> {
        // Trusts only the authority of the development cluster.
        let pem = std::fs::read(&cluster.ca).map_err(text)?;
        let ca = reqwest::Certificate::from_pem(&pem).map_err(text)?;
        let client = Client::builder().tls_certs_only([ca]).no_proxy().timeout(REQUEST_TIMEOUT);
        let client = client.build().map_err(text)?;
        let urls = cluster.nodes.iter().map(|node| node.url.clone()).collect();
        Ok(Self { client, urls, key: cluster.key.clone() })
    }

    /// A URL of node `node`, counted from 0, modulo the number of nodes.
    fn url(&self, node: usize, path: &str) -> String {
        format!("{}{path}", self.urls[node % self.urls.len()])
    }

    async fn post(&self, node: usize, path: &str, body: &Value) -> Result<Value, String> {
        self.send(path, self.client.post(self.url(node, path)).json(body)).await
    }

    async fn send(&self, path: &str, request: RequestBuilder) -> Result<Value, String> {
        let response = request.bearer_auth(&self.key).send().await.map_err(text)?;
        let status = response.status();
        let value: Value = response.json().await.map_err(text)?;
        match status.is_success() {
            true => Ok(value),
            false => Err(format!("{path} responded {status}: {value}")),
        }
    }

    /// The number of memories on a node, read linearizably.
    async fn total(&self, node: usize) -> Result<usize, String> {
        let path = "/api/v1/agent/nodes?page_size=1&consistency=linearizable";
        let list = self.send(path, self.client.get(self.url(node, path))).await?;
        Ok(list["total"].as_u64().unwrap_or(0) as usize)
    }
}
