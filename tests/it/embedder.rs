//! The embedding model gives the vectors that it should, and its absence is
//! explained. The reference comes from an independent forward pass in numpy
//! (tests/reference).

use std::path::PathBuf;

use node::embed::{Manifest, OnnxRuntime, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::options;

const SAMPLES: &str = include_str!("../../deploy/samples/samples.jsonl");
const QUERIES: &str = include_str!("../../deploy/samples/queries.json");
const REFERENCE: &str = include_str!("../reference/reference_vectors.json");

fn cache() -> PathBuf {
    PathBuf::from(std::env::var_os("HEARTH_CACHE").expect("make test sets HEARTH_CACHE"))
}

fn cosine(left: &[f64], right: &[f64]) -> f64 {
    let dot = |l: &[f64], r: &[f64]| l.iter().zip(r).map(|(l, r)| l * r).sum::<f64>();
    dot(left, right) / (dot(left, left) * dot(right, right)).sqrt()
}

#[test]
fn the_model_agrees_with_the_reference_vectors() {
    let manifest = Manifest::load(&cache().join("models/all-MiniLM-L6-v2")).unwrap();
    let runtime = OnnxRuntime::load(&cache().join("onnxruntime/libonnxruntime.so.1.31.1")).unwrap();
    let mut session = Session::open(&runtime, &manifest).unwrap();
    let reference: Value = serde_json::from_str(REFERENCE).unwrap();
    let texts = reference["texts"].as_array().unwrap();
    assert_eq!(texts.len(), 12);
    for text in texts {
        let (label, vector) = (text["text"].as_str().unwrap(), text["vector"].as_array().unwrap());
        let expected: Vec<f64> = vector.iter().map(|value| value.as_f64().unwrap()).collect();
        let tokens = session.tokens(label).unwrap();
        let found: Vec<f64> = session.run(&tokens).unwrap().into_iter().map(f64::from).collect();
        let cosine = cosine(&found, &expected);
        assert!(cosine >= 0.9999, "{cosine} for {label:?}");
    }
}

#[tokio::test]
async fn a_missing_model_names_the_command_that_fetches_it() {
    let cluster = options().start();
    cluster.kill_node();
    let mut node = cluster
        .serve_with(&[("HEARTH__EMBEDDER__KIND", "onnx"), ("HEARTH__EMBEDDER__MODEL", "/nowhere")]);
    assert!(!node.ended());
    let log = node.log();
    assert!(log.contains("/nowhere/manifest.json") && log.contains("make setup"), "{log}");
}

#[tokio::test]
async fn a_model_other_than_the_one_that_made_the_vectors_is_refused() {
    let cluster = options().start();
    cluster.kill_node();
    let mut node = cluster.serve_with(&[("HEARTH__EMBEDDER__KIND", "onnx")]);
    assert!(!node.ended());
    assert!(node.log().contains("set embedder.model back"), "{}", node.log());
}

#[tokio::test]
async fn each_query_of_the_demo_finds_first_what_it_is_about() {
    let cluster = options().real_embedder().start();
    let samples: Vec<Value> =
        SAMPLES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for nodes in samples.chunks(50) {
        let ask = cluster.ask(Method::POST, "/agent/nodes/batch").json(&json!({"nodes": nodes}));
        ask.send().await.ok();
    }
    let queries: Value = serde_json::from_str(QUERIES).unwrap();
    for query in queries.as_array().unwrap() {
        let mut body = json!({"query": query["query"], "limit": 3});
        if !query["namespace"].is_null() {
            body["namespace"] = query["namespace"].clone();
        }
        let found = cluster.ask(Method::POST, "/agent/search").json(&body).send().await.ok();
        let (label, expected) = (found[0]["label"].as_str(), query["expect"].as_str().unwrap());
        assert!(label.is_some_and(|label| label.contains(expected)), "{query} found {found}");
    }
}
