//! The embedding model equals the reference vectors of an independent forward pass in numpy
//! (tests/reference). A missing or different model ends the node with advice.

use ::node::embed::Session;

use super::*;

const SAMPLES: &str = include_str!("../../deploy/samples/samples.jsonl");
const QUERIES: &str = include_str!("../../deploy/samples/queries.json");
const REFERENCE: &str = include_str!("../reference/reference_vectors.json");

fn cosine(left: &[f64], right: &[f64]) -> f64 {
    let dot = |l: &[f64], r: &[f64]| l.iter().zip(r).map(|(l, r)| l * r).sum::<f64>();
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

#[test]
fn model_equals_the_reference_vectors() {
    let (manifest, runtime) = installed_model();
    let mut session = Session::open(runtime, manifest).unwrap();
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let texts = array(&reference["texts"]);
    assert_eq!(texts.len(), 12);
    for text in texts {
        let (label, vector) = (string(&text["text"]), array(&text["vector"]));
        let expected: Vec<f64> = vector.iter().map(float).collect();
        let tokens = session.tokens(label).unwrap();
        let found: Vec<f64> = session.run(&tokens).unwrap().into_iter().map(f64::from).collect();
        let cosine = cosine(&found, &expected);
        assert!(cosine >= 0.9999, "{cosine} for {label:?}");
    }
}

#[tokio::test]
async fn missing_model_names_the_setup_command() {
    let cluster = options().start();
    cluster.kill();
    let model = [("HEARTH__EMBEDDER__KIND", "model"), ("HEARTH__EMBEDDER__MODEL", "/nowhere")];
    let log = cluster.failed_start(&model).await;
    assert!(log.contains("/nowhere/manifest.json") && log.contains("make setup"), "{log}");
}

#[tokio::test]
async fn different_model_is_rejected_at_start() {
    let cluster = options().start();
    cluster.kill();
    let log = cluster.failed_start(&[("HEARTH__EMBEDDER__KIND", "model")]).await;
    assert!(log.contains("set embedder.model to"), "{log}");
}

#[tokio::test]
async fn demo_queries_find_their_memories_first() {
    let cluster = options().real_embedder().start();
    let samples: Vec<Value> =
        SAMPLES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for nodes in samples.chunks(50) {
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    let queries: Value = serde_json::from_str(QUERIES).unwrap();
    for query in array(&queries) {
        let body = json!({"query": query["query"], "limit": 3, "namespace": query["namespace"]});
        let found = cluster.post("/agent/search", &body).await;
        let (label, expected) = (found[0]["label"].as_str(), string(&query["expect"]));
        assert!(label.is_some_and(|label| label.contains(expected)), "{query} found {found}");
    }
}

#[tokio::test]
async fn end_of_long_text_is_found_by_meaning() {
    let cluster = options().real_embedder().start();
    let minutes = "The committee approved the budget of the department for the next quarter. ";
    let other = minutes.repeat(25);
    let ending = "The old dog buried his bone beneath the apple tree. No one saw him dig, and he \
                  came back to the kitchen with earth on his nose.";
    let story = format!("{other}{ending}");
    cluster.post("/agent/nodes", &json!({"label": story})).await;
    cluster.post("/agent/nodes", &json!({"label": other})).await;
    let query = json!({"query": "where did my puppy hide its snack?", "explain": true});
    let found = cluster.post("/agent/search", &query).await;
    let similarity = |at: usize| float(&found[at]["explain"]["similarity"]);
    assert_eq!(found[0]["label"], story.as_str(), "{} and {}", similarity(0), similarity(1));
    assert!(similarity(0) > 0.15 && similarity(1) < 0.1, "{} and {}", similarity(0), similarity(1));
}

#[tokio::test]
#[ignore = "`make soak` makes the model"]
async fn multilingual_model_finds_facts_in_other_languages() {
    let folder = cache().join("models/multilingual-e5-small");
    let cluster =
        options().real_embedder().env("HEARTH__EMBEDDER__MODEL", folder.to_str().unwrap()).start();
    let facts = [
        "用户在市立医院值夜班",
        "La hija de Ana empieza primaria este otoño",
        "Ольга не переносит арахис",
    ];
    for fact in facts {
        cluster.store(&labelled(fact)).await;
    }
    let questions = ["他做什么工作？", "¿Cuántos años tiene la niña?", "Какие продукты ей вредны?"];
    for (fact, question) in facts.into_iter().zip(questions) {
        let query = json!({"query": question, "explain": true});
        let found = cluster.post("/agent/search", &query).await;
        let similarity = |at: usize| float(&found[at]["explain"]["similarity"]);
        assert_eq!(found[0]["label"], fact, "{question} found {found}");
        let both = (similarity(0), similarity(1));
        assert!(both.0 > both.1 + 0.1, "{both:?}");
        assert_eq!(float(&found[0]["explain"]["similarity_weight"]), 0.7, "it knows all scripts");
    }
}

#[tokio::test]
async fn similarity_weighs_less_in_unknown_scripts() {
    let cluster = options().real_embedder().start();
    cluster.store(&labelled("用户在市立医院值夜班")).await;
    for (query, weight) in
        [("他做什么工作", 0.07), ("nginx怎么配置一", 0.385), ("night shift", 0.7)]
    {
        let query = json!({"query": query, "explain": true});
        let found = cluster.post("/agent/search", &query).await;
        let found = float(&found[0]["explain"]["similarity_weight"]);
        assert!((found - weight).abs() < 0.001, "{found} for {query}");
    }
}
