//! `hearth demo`: the story of a memory service in a few lines, on a real
//! cluster with real text; then the cluster stays up.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use crate::cli::children::{Cluster, Wanted};
use crate::cli::dev::as_text;

const SAMPLES: &str = include_str!("../../../deploy/samples/samples.jsonl");
const QUERIES: &str = include_str!("../../../deploy/samples/queries.json");
/// Requests under way at once while samples are stored.
const STORE_CLIENTS: usize = 8;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Characters of a label that a line shows.
const SHOWN_CHARS: usize = 88;

/// Nodes of the demo's cluster.
const NODES: u64 = 3;
/// How long the cluster may take to write again after a node's death.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(30);

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
pub(crate) async fn run() -> Result<(), String> {
    let wanted = Wanted { nodes: NODES, data: None, base_port: 0, embedder: "onnx".into() };
    let cluster = Cluster::prepare(wanted)?;
    let told = cluster
        .during(async |cluster: &mut Cluster| {
            println!("Hearth demo\n\n1. Start three equal nodes: TLS, Raft log, embedding model.");
            let started = Instant::now();
            cluster.launch().await?;
            println!(
                "   ready after {}, node {} leads\n",
                millis(started),
                cluster.leader().await?
            );
            tell(cluster).await?;
            println!("{}", as_text(cluster));
            std::future::pending().await
        })
        .await;
    match &told {
        Ok(()) => println!("The cluster has ended."),
        Err(error) => println!("The demo went wrong: {error}"),
    }
    told
}

async fn tell(cluster: &mut Cluster) -> Result<(), String> {
    let agent = Agent::new(cluster)?;
    let samples: Vec<Value> = SAMPLES
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    store(&agent, &samples).await?;
    search(&agent).await?;
    load(&agent).await?;
    lose_the_leader(cluster, &agent, samples.len()).await
}

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
async fn store(agent: &Agent, samples: &[Value]) -> Result<(), String> {
    println!(
        "2. Store {} memories through all nodes in turn, each synced by two of three.",
        samples.len()
    );
    let started = Instant::now();
    agent.store(samples).await?;
    println!("   stored after {}\n", millis(started));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
async fn search(agent: &Agent) -> Result<(), String> {
    println!("3. Search by meaning, heat and words, on each node in turn.");
    let queries: Vec<Value> = serde_json::from_str(QUERIES).map_err(|error| error.to_string())?;
    for (at, query) in queries.iter().enumerate() {
        let started = Instant::now();
        let mut body = json!({ "query": query["query"], "limit": 3 });
        if !query["namespace"].is_null() {
            body["namespace"] = query["namespace"].clone();
        }
        let hits = agent.post(at, "/api/v1/agent/search", &body).await?;
        let took = millis(started);
        println!("   {}", query["query"].as_str().unwrap_or_default());
        println!("     → {}  ({}, {took})", shown(&hits[0]["label"]), hits[0]["score"]);
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
async fn load(agent: &Agent) -> Result<(), String> {
    println!("\n4. Load hot context: pinned first, then the hottest.");
    let started = Instant::now();
    let hot = agent.post(1, "/api/v1/agent/hot-context", &json!({ "limit": 5 })).await?;
    let took = millis(started);
    for memory in hot.as_array().into_iter().flatten() {
        let pin = if memory["is_pinned"] == true { "pinned" } else { "      " };
        let heat = memory["heat"].as_f64().unwrap_or(0.0);
        println!("   {pin} {heat:4.2}  {}", shown(&memory["label"]));
    }
    println!("   loaded in {took}\n");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
async fn lose_the_leader(
    cluster: &mut Cluster,
    agent: &Agent,
    stored: usize,
) -> Result<(), String> {
    let leader = cluster.leader().await? as usize - 1;
    println!("5. Kill node {}, the leader, with SIGKILL, and go on writing.", leader + 1);
    let killed = Instant::now();
    cluster.nodes[leader].kill().await;
    let survivor = (leader + 1) % cluster.nodes.len();
    let body = json!({ "label": "Stored while the old leader lay dead.", "namespace": "demo" });
    loop {
        // Asked with one key until it is answered, it is done once.
        match agent.post_once(survivor, "/api/v1/agent/nodes", &body).await {
            Ok(_) => break,
            Err(error) if killed.elapsed() > FAILOVER_TIMEOUT => return Err(error),
            Err(_) => {}
        }
    }
    let paused = millis(killed);
    println!(
        "   node {} leads now; the first write went through after {paused}",
        cluster.leader().await?
    );
    let total = agent.total(survivor).await?;
    if total != stored + 1 {
        return Err(format!("{total} memories are there, but {} were acknowledged", stored + 1));
    }
    println!(
        "   {total} memories are there, the {stored} from before and the new one: none is missing"
    );
    println!("\n6. Bring node {} back.", leader + 1);
    let started = Instant::now();
    cluster.nodes[leader].start(false)?;
    cluster.nodes[leader].ready().await?;
    let found = agent.total(leader).await?;
    println!("   it answers again after {}, with {found} memories\n", millis(started));
    match found == total {
        true => Ok(()),
        false => Err(format!("node {} holds {found} memories of {total}", leader + 1)),
    }
}

fn millis(since: Instant) -> String {
    format!("{:.1} ms", since.elapsed().as_secs_f64() * 1e3)
}

fn shown(label: &Value) -> String {
    let label = label.as_str().unwrap_or("nothing").replace('\n', " ");
    match label.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &label[..end]),
        None => label,
    }
}

/// A client with the demo's key.
struct Agent {
    client: Client,
    urls: Vec<String>,
    key: String,
}

impl Agent {
    fn new(cluster: &Cluster) -> Result<Self, String> {
        let client = client(&cluster.ca)?;
        let urls = cluster.nodes.iter().map(|node| node.url.clone()).collect();
        Ok(Self { client, urls, key: cluster.key.clone() })
    }

    /// Asks node number `node`, counted on from the first.
    async fn post(&self, node: usize, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("{}{path}", self.urls[node % self.urls.len()]);
        self.answer(path, self.client.post(url).json(body)).await
    }

    /// The same, with a key by which the write is done once however often it is asked for.
    async fn post_once(&self, node: usize, path: &str, body: &Value) -> Result<Value, String> {
        let url = format!("{}{path}", self.urls[node % self.urls.len()]);
        let request = self.client.post(url).header("Idempotency-Key", "the first write");
        self.answer(path, request.json(body)).await
    }

    async fn answer(&self, path: &str, request: RequestBuilder) -> Result<Value, String> {
        let answer = request.bearer_auth(&self.key).send().await;
        let answer = answer.map_err(|error| error.to_string())?;
        let status = answer.status();
        let value: Value = answer.json().await.map_err(|error| error.to_string())?;
        match status.is_success() {
            true => Ok(value),
            false => Err(format!("{path} answered {status}: {value}")),
        }
    }

    async fn store(&self, samples: &[Value]) -> Result<(), String> {
        let style = ProgressStyle::with_template("   {bar:40} {pos}/{len}");
        let bar = ProgressBar::new(samples.len() as u64);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut stored = stream::iter(samples.iter().enumerate())
            .map(|(at, sample)| self.post(at, "/api/v1/agent/nodes", sample))
            .buffer_unordered(STORE_CLIENTS);
        while let Some(result) = stored.next().await {
            result?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Memories that a node holds, of all that was ever acknowledged.
    async fn total(&self, node: usize) -> Result<usize, String> {
        let path = "/api/v1/agent/nodes?page_size=1&consistency=linearizable";
        let list = self.answer(path, self.client.get(format!("{}{path}", self.urls[node]))).await?;
        Ok(list["total"].as_u64().unwrap_or(0) as usize)
    }
}

/// A client that trusts the development cluster's authority only.
fn client(ca: &Path) -> Result<Client, String> {
    let pem = std::fs::read(ca).map_err(|error| error.to_string())?;
    let ca = reqwest::Certificate::from_pem(&pem).map_err(|error| error.to_string())?;
    Client::builder()
        .tls_certs_only([ca])
        .no_proxy()
        .timeout(REQUEST_TIMEOUT)
        .build()
        .map_err(|error| error.to_string())
}
