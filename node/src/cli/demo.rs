//! `hearth demo`: the story of a memory service in a few lines, on a real
//! cluster with real text; then the cluster stays up.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use reqwest::Client;
use serde_json::{Value, json};

use crate::cli::dev::Cluster;

const SAMPLES: &str = include_str!("../../../deploy/samples/samples.jsonl");
const QUERIES: &str = include_str!("../../../deploy/samples/queries.json");
/// Requests under way at once while samples are stored.
const STORE_CLIENTS: usize = 8;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Characters of a label that a line shows.
const SHOWN_CHARS: usize = 88;

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
pub(crate) async fn run() -> Result<(), String> {
    println!("Hearth demo\n\n1. Start a cluster of one node: TLS, Raft log, embedding model.");
    let started = Instant::now();
    let mut cluster = Cluster::start(None, 0, "onnx").await?;
    println!("   ready after {}\n", millis(started));
    let story = tell(&cluster).await;
    match &story {
        Ok(()) => println!("{}", cluster.text()),
        Err(error) => println!("The demo went wrong: {error}"),
    }
    if story.is_ok() {
        cluster.until_told().await;
    }
    println!("Ending the cluster.");
    cluster.end().await?;
    story
}

#[expect(clippy::print_stdout, reason = "the demo talks to its user")]
async fn tell(cluster: &Cluster) -> Result<(), String> {
    let agent = Agent::new(cluster)?;
    let samples: Vec<Value> = SAMPLES
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;

    println!("2. Store {} memories, each embedded, decided, synced and applied.", samples.len());
    let started = Instant::now();
    agent.store(&samples).await?;
    println!("   stored after {}\n", millis(started));

    println!("3. Search by meaning, heat and words.");
    let queries: Vec<Value> = serde_json::from_str(QUERIES).map_err(|error| error.to_string())?;
    for query in &queries {
        let started = Instant::now();
        let mut body = json!({ "query": query["query"], "limit": 3 });
        if !query["namespace"].is_null() {
            body["namespace"] = query["namespace"].clone();
        }
        let hits = agent.post("/api/v1/agent/search", &body).await?;
        let took = millis(started);
        println!("   {}", query["query"].as_str().unwrap_or_default());
        println!("     → {}  ({}, {took})", shown(&hits[0]["label"]), hits[0]["score"]);
    }

    println!("\n4. Load hot context: pinned first, then the hottest.");
    let started = Instant::now();
    let hot = agent.post("/api/v1/agent/hot-context", &json!({ "limit": 5 })).await?;
    let took = millis(started);
    for memory in hot.as_array().into_iter().flatten() {
        let pin = if memory["is_pinned"] == true { "pinned" } else { "      " };
        println!(
            "   {pin} {:4.2}  {}",
            memory["heat"].as_f64().unwrap_or(0.0),
            shown(&memory["label"])
        );
    }
    println!("   loaded in {took}\n");
    Ok(())
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
    url: String,
    key: String,
}

impl Agent {
    fn new(cluster: &Cluster) -> Result<Self, String> {
        let client = client(&cluster.ca)?;
        Ok(Self { client, url: cluster.url.clone(), key: cluster.key.clone() })
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let request = self.client.post(format!("{}{path}", self.url)).bearer_auth(&self.key);
        let answer = request.json(body).send().await.map_err(|error| error.to_string())?;
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
        let mut stored = stream::iter(samples)
            .map(|sample| self.post("/api/v1/agent/nodes", sample))
            .buffer_unordered(STORE_CLIENTS);
        while let Some(result) = stored.next().await {
            result?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
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
