//! An endpoint embeds texts, another one orders results anew, and a third one extracts facts from turns. Each text goes to it once; what is down, slow or another model
//! there fails texts, never memories.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::membership::wipe;
use super::*;

const DIMENSION: usize = 64;
const FIRST: &str = "letters";
const SECOND: &str = "other-letters";

/// The endpoints of a test, and what they embedded.
#[derive(Clone)]
struct Endpoints {
    url: String,
    /// Status of their responses, but to requests for the second model.
    status: Arc<AtomicU16>,
    /// Milliseconds before them.
    delay: Arc<AtomicU16>,
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
        let status = Arc::new(AtomicU16::new(200));
        let (delay, model, inputs) = Default::default();
        let endpoints = Self { url, status, delay, model, inputs, folder };
        let routes =
            Router::new().route("/v1/embeddings", post(embed)).route("/rerank", post(rerank));
        let routes = routes.route("/v1/chat/completions", post(complete));
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

    /// A folder whose manifest names the endpoint and a model.
    fn model_folder(&self, model: &str) -> String {
        let manifest = json!({
            "model": model, "dimension": DIMENSION, "max_tokens": 4096,
            "query_prefix": "query: ", "passage_prefix": "passage: ",
            "endpoint": {"url": format!("{}/v1/embeddings", self.url), "key_file": "key",
                "timeout_ms": 1500},
        });
        let folder = self.folder.path().join(model);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("key"), "secret\n").unwrap();
        std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        folder.to_str().unwrap().to_owned()
    }

    /// The variable with the folder of the first model.
    fn environment(&self) -> [(&'static str, String); 1] {
        [("HEARTH__EMBEDDER__MODEL", self.model_folder(FIRST))]
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

type Responded = (axum::http::StatusCode, Json<Value>);

impl Endpoints {
    async fn respond(&self, body: Value) -> Responded {
        tokio::time::sleep(Duration::from_millis(self.delay.load(Ordering::SeqCst).into())).await;
        (self.status.load(Ordering::SeqCst).try_into().unwrap(), Json(body))
    }
}

/// Counts letters. Each model counts them in other components.
async fn embed(
    State(endpoints): State<Endpoints>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Responded {
    assert_eq!(headers["authorization"], "Bearer secret");
    let text = string(&request["input"][0]);
    *endpoints.inputs.lock().unwrap().entry(text.into()).or_default() += 1;
    let is_first = request["model"] == FIRST;
    let model = if is_first { endpoints.model.load(Ordering::SeqCst).into() } else { 2 };
    let mut vector = vec![0.01; DIMENSION];
    let without_prefix = text.split_once(": ").map_or(text, |(_, rest)| rest);
    for letter in without_prefix.chars().filter(|letter| letter.is_alphabetic()) {
        let letter = letter as usize;
        vector[(letter + 7 * model * (letter % 3 + 1)) % DIMENSION] += 1.0;
    }
    let body = json!({"data": [{"embedding": vector}]});
    if is_first { endpoints.respond(body).await } else { (StatusCode::OK, Json(body)) }
}

/// Prefers short texts.
async fn rerank(State(endpoints): State<Endpoints>, Json(request): Json<Value>) -> Responded {
    let result = |(index, text): (usize, &Value)| json!({"index": index, "relevance_score": 1.0 / string(text).len() as f64});
    let results: Vec<_> = array(&request["documents"]).iter().enumerate().map(result).collect();
    endpoints.respond(json!({"results": results})).await
}

/// Names what follows "remember that" in a prompt as a fact, which replaces what is known of the port. Keeps the
/// request.
async fn complete(State(endpoints): State<Endpoints>, Json(request): Json<Value>) -> Responded {
    let question = string(&request["messages"][1]["content"]).to_owned();
    let (known, turn) = question.split_once("\n\nTurn:\n").unwrap();
    let old = known.lines().skip(1).find(|line| line.contains("port"));
    let replaces = old.map(|line| line.split('.').next().unwrap().parse::<u32>().unwrap());
    let said = turn.lines().find_map(|line| line.split_once("remember that "));
    let facts: Vec<_> = said
        .map(|(_, fact)| json!({"text": fact, "memory_type": "fact", "replaces": replaces}))
        .into_iter()
        .collect();
    *endpoints.inputs.lock().unwrap().entry(question.clone()).or_default() += 1;
    let content = json!({"facts": facts}).to_string();
    endpoints.respond(json!({"choices": [{"message": {"content": content}}]})).await
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

/// Creates a memory, which is rejected since the text is not embedded.
async fn assert_unavailable(node: &Node) {
    let response = node.send(Method::POST, "/agent/nodes", &labelled("yak")).await;
    response.assert_error(503, "embedder_unavailable");
}

async fn is_stored_again(node: &Node) {
    let stored = async || node.send(Method::POST, "/agent/nodes", &labelled("yak")).await;
    eventually("texts are embedded again", stored, |response| response.status.is_success()).await;
}

#[tokio::test]
async fn another_model_behind_the_endpoint_embeds_nothing() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().start();
    let id = cluster.store(&labelled("zebra crossing")).await;
    cluster.kill();
    endpoints.model.store(1, Ordering::SeqCst);
    cluster.restart().await;
    assert_unavailable(&cluster).await;
    let log = std::fs::read_to_string(cluster.data().join("served.log")).unwrap();
    assert!(log.contains("computes other vectors than those of the memories"), "{log}");
    assert_eq!(cluster.get(&format!("/agent/nodes/{id}")).await["label"], "zebra crossing");
    endpoints.model.store(0, Ordering::SeqCst);
    is_stored_again(&cluster).await;
}

#[tokio::test]
async fn model_of_a_dead_endpoint_can_be_left() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().start();
    cluster.store(&labelled("zebra crossing")).await;
    endpoints.respond_with(500);
    cluster.kill();
    cluster.restart().await;
    let folder = endpoints.model_folder(SECOND);
    let change = cluster.ops_request(Method::POST, "/cluster/model");
    change.json(&json!({"folder": folder})).send().await.ok();
    let model = async || super::model_change::model(&cluster).await;
    eventually("the model has changed", model, |model| model["model"]["name"] == SECOND).await;
    is_stored_again(&cluster).await;
    let found = cluster.post("/agent/search", &search("zebra")).await;
    assert!(float(&found[0]["explain"]["similarity"]) > 0.5, "{found}");
}

#[tokio::test]
async fn slow_endpoint_holds_no_request_for_long() {
    let endpoints = Endpoints::start();
    let url = format!("{}/rerank", endpoints.url);
    let options = endpoints.options().env("HEARTH__RERANKER__URL", &url);
    let cluster = options.env("HEARTH__RERANKER__TIMEOUT_MS", "200").start();
    for label in ["zebra", "zebra crossing"] {
        cluster.store(&labelled(label)).await;
    }
    cluster.post("/agent/search", &search("zebra")).await;
    endpoints.delay.store(60_000, Ordering::SeqCst);
    // The vector of the query is cached.
    let found = cluster.post("/agent/search", &search("zebra")).await;
    assert!(found[0]["explain"]["relevance"].is_null(), "{found}");
    assert_eq!(cluster.metric("hearth_reranker_failed_total").await, 1.0);
    assert_unavailable(&cluster).await;
}

#[tokio::test]
async fn endpoint_that_is_down_fails_texts_alone() {
    let endpoints = Endpoints::start();
    let cluster = endpoints.options().start();
    let id = cluster.store(&labelled("zebra crossing")).await;
    endpoints.respond_with(500);
    assert_unavailable(&cluster).await;
    cluster.kill();
    // As the packages start it.
    let mut command = Command::new(BINARY);
    command.args(["serve", "--bootstrap", "--config"]).arg(cluster.data().join("hearth.toml"));
    command.envs(endpoints.environment());
    let _process = Process::start(&mut command, cluster.data().join("served.log"));
    cluster.ready().await;
    assert_unavailable(&cluster).await;
    assert_eq!(cluster.get(&format!("/agent/nodes/{id}")).await["label"], "zebra crossing");
    assert!(cluster.metric("hearth_embedder_failed_total").await > 0.0);
    endpoints.respond_with(200);
    is_stored_again(&cluster).await;
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
    assert_eq!(labels, ["lion", "zebra", "zebra in the zoo"], "the shortest ones: {found}");
    let first = json!({"query": "zebra and yak and lion", "limit": 1});
    let found_first = cluster.post("/agent/search", &first).await;
    assert_eq!(found_first[0]["label"], "lion", "of as many candidates: {found_first}");
    assert_eq!(float(&found[0]["explain"]["relevance"]), 0.25);
    assert!(float(&found[0]["score"]) < float(&found[1]["score"]), "scores stay: {found}");
    endpoints.respond_with(500);
    let found = cluster.post("/agent/search", &search("zebra and yak and lion")).await;
    assert_eq!(found[0]["label"], "zebra and yak and lion in the zoo", "the order of scores");
    assert!(found[0]["explain"]["relevance"].is_null());
    assert_eq!(cluster.metric("hearth_reranker_failed_total").await, 1.0);
    assert_eq!(cluster.metric("hearth_reranker_searches_total").await, 2.0);
}

/// A turn of a session of a coding agent, and its response.
async fn turn(node: &Node, session: &str, prompt: &str, reply: &str) {
    let said = json!({"session_id": session, "cwd": "/home/me/shop", "prompt": prompt});
    node.post("/hooks/prompt", &said).await;
    let ended =
        json!({"session_id": session, "cwd": "/home/me/shop", "last_assistant_message": reply});
    node.post("/hooks/stop", &ended).await;
}

#[tokio::test]
async fn extractor_makes_facts_of_turns() {
    let endpoints = Endpoints::start();
    let url = format!("{}/v1/chat/completions", endpoints.url);
    let cluster = options().nodes(3).env("HEARTH__EXTRACTOR__URL", &url).start();
    let [leader, rest] = cluster.leader_first().await;
    let old = leader.store(&labelled("the port of the deploy is 8080")).await;
    let rules = json!({"rules": [{"emails": "block"}]});
    leader.send(Method::PUT, "/settings/guard", &rules).await.ok();
    converged(&cluster).await;
    let prompt = "please remember that the port of the deploy is 9090";
    turn(rest, "s1", prompt, "I keep it; the key AKIAIOSFODNN7EXAMPLE stays out.").await;
    let path = "/agent/nodes?namespace=default&tags=extracted";
    let facts = async || rest.get(path).await["items"].clone();
    let facts = eventually("the fact is stored", facts, |facts| array(facts).len() == 1).await;
    let expected = json!({"label": "the port of the deploy is 9090", "memory_type": "fact", "tags": ["extracted"]});
    assert_fields(&facts[0], expected);
    assert_eq!(facts[0]["origin"]["tool"], "extractor");
    let source =
        rest.get(&format!("/agent/nodes/{}", string(&facts[0]["metadata"]["source"]))).await;
    assert_eq!(source["label"], prompt);
    assert_eq!(rest.get(&format!("/agent/nodes/{old}")).await["superseded_by"], facts[0]["id"]);
    let sent: Vec<_> = endpoints.inputs.lock().unwrap().keys().cloned().collect();
    assert!(sent.iter().all(|text| !text.contains("AKIA")), "no secret leaves: {sent:?}");
    // What the guard blocks goes to no endpoint, and a reply to a prompt that was not captured has no other prompt.
    turn(rest, "s1", "write to ann@example.com of the plan", "I write to ann@example.com today.")
        .await;
    turn(rest, "s1", "please remember that bob has the keys", "ann@example.com has others.").await;
    let kept = |text: &String| text.contains("ann@") || text.contains("bob has");
    assert!(!endpoints.inputs.lock().unwrap().keys().any(kept));
    // What a client has rejected stays away, also as a fact.
    let path = format!("/agent/nodes/{}?reject=true", id(&facts[0]));
    leader.send(Method::DELETE, &path, &json!({})).await.ok();
    converged(&cluster).await;
    turn(rest, "s2", &format!("once more: {prompt}"), "I keep it.").await;
    let extracted = async || rest.metric("hearth_extractor_turns_total").await;
    eventually("the turn is extracted", extracted, |turns| *turns == 2.0).await;
    // One that does not respond delays no agent, and loses no turn.
    endpoints.respond_with(400);
    turn(leader, "s3", "please remember that tea is at four", "As you like.").await;
    let failed = async || leader.metric("hearth_extractor_failed_total").await;
    eventually("the turn is counted", failed, |turns| *turns == 1.0).await;
    let captured = leader.get("/agent/nodes?namespace=default/captured/shop&tags=user").await;
    assert_eq!(captured["total"], 4);
    assert_eq!(rest.get("/agent/nodes?namespace=default&tags=extracted").await["total"], 0);
}
