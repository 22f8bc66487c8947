//! An endpoint embeds texts, and another one orders results anew. Each text goes to it once; what is down or changes
//! there fails texts, never memories.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::membership::wipe;
use super::*;

const DIMENSION: usize = 64;

/// The endpoints of a test, and what they embedded.
#[derive(Clone)]
struct Endpoints {
    url: String,
    /// Status of their responses.
    status: Arc<AtomicU16>,
    /// Number of the model that embeds.
    model: Arc<AtomicU16>,
    /// How often each text was embedded.
    inputs: Arc<Mutex<BTreeMap<String, usize>>>,
    folder: Arc<TempDir>,
}

impl Endpoints {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let folder = Arc::new(TempDir::new().unwrap());
        let (status, model, inputs) =
            (Arc::new(AtomicU16::new(200)), Arc::default(), Arc::default());
        let endpoints = Self { url, status, model, inputs, folder };
        let routes =
            Router::new().route("/v1/embeddings", post(embed)).route("/rerank", post(rerank));
        let routes = routes.with_state(endpoints.clone());
        // A test blocks its own thread while a cluster starts.
        std::thread::spawn(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                axum::serve(listener, routes).await.unwrap();
            });
        });
        endpoints
    }

    /// The variable with a folder whose manifest names the endpoint.
    fn environment(&self) -> [(&'static str, String); 1] {
        let manifest = json!({
            "model": "letters", "dimension": DIMENSION, "max_tokens": 4096,
            "query_prefix": "query: ", "passage_prefix": "passage: ",
            "endpoint": {"url": format!("{}/v1/embeddings", self.url), "key_file": "key",
                "timeout_ms": 5000},
        });
        std::fs::write(self.folder.path().join("key"), "secret\n").unwrap();
        std::fs::write(self.folder.path().join("manifest.json"), manifest.to_string()).unwrap();
        [("HEARTH__EMBEDDER__MODEL", self.folder.path().to_str().unwrap().to_owned())]
    }

    fn options(&self) -> Options {
        let [(name, folder)] = self.environment();
        options().real_embedder().env(name, &folder)
    }

    fn respond_with(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    fn embedded(&self, text: &str) -> usize {
        self.inputs.lock().unwrap().get(text).copied().unwrap_or(0)
    }
}

/// Counts letters. Each model counts them in other components.
async fn embed(
    State(endpoints): State<Endpoints>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> (axum::http::StatusCode, Json<Value>) {
    assert_eq!(
        (&headers["authorization"], &request["model"]),
        (&"Bearer secret".parse().unwrap(), &json!("letters"))
    );
    let text = string(&request["input"][0]);
    *endpoints.inputs.lock().unwrap().entry(text.into()).or_default() += 1;
    let model = usize::from(endpoints.model.load(Ordering::SeqCst));
    let mut vector = vec![0.01; DIMENSION];
    let without_prefix = text.split_once(": ").map_or(text, |(_, rest)| rest);
    for letter in without_prefix.chars().filter(|letter| letter.is_alphabetic()) {
        vector[(letter as usize + 7 * model * (letter as usize % 3 + 1)) % DIMENSION] += 1.0;
    }
    let status = endpoints.status.load(Ordering::SeqCst).try_into().unwrap();
    (status, Json(json!({"data": [{"embedding": vector}]})))
}

/// Prefers short texts, and says nothing of the last one.
async fn rerank(
    State(endpoints): State<Endpoints>,
    Json(request): Json<Value>,
) -> (axum::http::StatusCode, Json<Value>) {
    let documents = array(&request["documents"]);
    let result = |(index, text): (usize, &Value)| json!({"index": index, "relevance_score": 1.0 / string(text).len() as f64});
    let results: Vec<_> =
        documents.iter().enumerate().take(documents.len() - 1).map(result).collect();
    let status = endpoints.status.load(Ordering::SeqCst).try_into().unwrap();
    (status, Json(json!({"results": results})))
}

fn search(query: &str) -> Value {
    json!({"query": query, "limit": 3, "explain": true})
}

#[tokio::test]
async fn endpoint_embeds_each_text_once_for_all_nodes() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().nodes(3).start();
    cluster.at(0).store(&labelled("zebra crossing")).await;
    for node in cluster.nodes() {
        let found = async || node.post("/agent/search", &search("zebra")).await;
        let found = eventually("it is found", found, |found| !array(found).is_empty()).await;
        assert!(float(&found[0]["explain"]["similarity"]) > 0.5, "{found}");
    }
    assert_eq!(endpoints.embedded("passage: zebra crossing"), 1, "before the log");
    assert_eq!(endpoints.embedded("query: zebra"), 3, "each node has a cache");
    cluster.at(0).post("/agent/search", &search("zebra")).await;
    assert_eq!(endpoints.embedded("query: zebra"), 3);
}

#[tokio::test]
async fn another_model_behind_the_endpoint_stops_the_node() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().start();
    cluster.kill();
    endpoints.model.store(1, Ordering::SeqCst);
    let log = cluster.failed_start(&[]).await;
    assert!(log.contains("computes other vectors than those of the memories"), "{log}");
    endpoints.model.store(0, Ordering::SeqCst);
    cluster.restart().await;
}

#[tokio::test]
async fn endpoint_that_is_down_fails_texts_alone() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().start();
    let id = cluster.store(&labelled("zebra crossing")).await;
    let rejected = async || {
        let response = cluster.send(Method::POST, "/agent/nodes", &labelled("yak")).await;
        response.assert_error(503, "embedder_unavailable");
    };
    endpoints.respond_with(500);
    rejected().await;
    cluster.kill();
    cluster.restart().await;
    rejected().await;
    assert_eq!(cluster.get(&format!("/agent/nodes/{id}")).await["label"], "zebra crossing");
    assert!(cluster.metric("hearth_embedder_failed_total").await > 0.0);
    endpoints.respond_with(200);
    let stored = async || cluster.send(Method::POST, "/agent/nodes", &labelled("yak")).await;
    eventually("texts are embedded again", stored, |response| response.status.is_success()).await;
}

#[tokio::test]
async fn no_cluster_is_created_without_its_endpoint() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().start();
    cluster.kill();
    endpoints.respond_with(500);
    wipe(&cluster);
    let mut command = Command::new(BINARY);
    command.args(["serve", "--bootstrap", "--config"]).arg(cluster.data().join("hearth.toml"));
    command.envs(endpoints.environment());
    let mut process = Process::start(&mut command, cluster.data().join("served.log"));
    assert!(!process.ended().await, "no cluster is created");
    assert!(process.log().contains("embeds no text"), "{}", process.log());
}

#[tokio::test]
async fn reranker_orders_the_first_results() {
    let endpoints = Endpoints::start();
    let url = format!("{}/rerank", endpoints.url);
    let cluster = options()
        .env("HEARTH__RERANKER__URL", &url)
        .env("HEARTH__RERANKER__TIMEOUT_MS", "5000")
        .start();
    for label in ["zebra and yak and lion in the zoo", "zebra in the zoo", "zebra", "lion"] {
        cluster.store(&labelled(label)).await;
    }
    let found = cluster.post("/agent/search", &search("zebra and yak and lion")).await;
    let labels: Vec<_> = array(&found).iter().map(|hit| string(&hit["label"])).collect();
    let expected = ["lion", "zebra", "zebra and yak and lion in the zoo"];
    assert_eq!(labels, expected, "what has no relevance is the last: {found}");
    assert_eq!(float(&found[0]["explain"]["relevance"]), 0.25);
    assert!(float(&found[0]["score"]) < float(&found[1]["score"]), "scores stay: {found}");
    endpoints.respond_with(500);
    let found = cluster.post("/agent/search", &search("zebra and yak and lion")).await;
    assert_eq!(found[0]["label"], "zebra and yak and lion in the zoo", "the order of scores");
    assert!(found[0]["explain"]["relevance"].is_null());
    assert_eq!(cluster.metric("hearth_reranker_failed_total").await, 1.0);
    assert_eq!(cluster.metric("hearth_reranker_searches_total").await, 1.0);
}
