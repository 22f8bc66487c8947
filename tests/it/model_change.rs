//! The embedding model of a running cluster is changed under load: searches go on, nothing is lost, and
//! all memories are found by the next model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::*;

const WRITERS: usize = 4;

/// A folder with a model of the hashing embedder.
pub(super) fn model_folder(cluster: &Cluster, dimension: usize) -> String {
    let folder = cluster.folder().join(format!("model-{dimension}"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("dimension"), dimension.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

pub(super) async fn model(node: &Node) -> Value {
    node.ops_request(Method::GET, "/cluster/model").send().await.ok()
}

pub(super) async fn has_switched(node: &Node, dimension: usize) {
    let status = async || model(node).await;
    eventually("the cluster has switched", status, |status| {
        status["model"]["dimension"] == dimension && status["next"].is_null()
    })
    .await;
}

/// Each label is found first by its own words, on each node.
async fn assert_found(cluster: &Cluster, labels: &[String]) {
    for node in cluster.nodes() {
        for label in labels {
            let search = json!({"query": label, "limit": 1});
            // In the moment of the switch a node may respond with 503.
            let found = async || node.send(Method::POST, "/agent/search", &search).await;
            let what = format!("{label} is found");
            eventually(&what, found, |found| found.body[0]["label"] == *label).await;
        }
    }
}

async fn hearth(cluster: &Cluster, arguments: &[&str]) -> (bool, String) {
    let [leader] = cluster.leader_first().await;
    cluster.run(&[&["model", "--ops", leader.ops()], arguments].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn model_changes_under_load() {
    let cluster = Arc::new(options().nodes(3).start());
    let labels: Vec<String> = (0..40).map(|n| format!("apple{n} pear{} plum", n * 3)).collect();
    let ids = cluster.store_each(labels.iter().map(labelled)).await;
    let writers = Writers::start(&cluster, WRITERS);
    for dimension in [96, 512] {
        writers.acknowledge(50).await;
        let folder = model_folder(&cluster, dimension);
        let (succeeded, text) = hearth(&cluster, &["set", &folder]).await;
        assert!(succeeded && text.contains("memories are embedded"), "{text}");
        // Another leader continues the change.
        let [leader, survivor, _] = cluster.leader_first().await;
        leader.kill();
        leader.start();
        has_switched(survivor, dimension).await;
        writers.acknowledge(50).await;
        // Before its next start, a node needs the model in its configuration.
        for node in cluster.nodes() {
            let path = node.data().join("hearth.toml");
            let mut config: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
            config["embedder"]
                .as_table_mut()
                .unwrap()
                .insert("model".into(), folder.clone().into());
            std::fs::write(&path, config.to_string()).unwrap();
        }
        // If the switch preceded its start, it has stopped: its configuration had the old model.
        leader.crash().await;
        assert_found(&cluster, &labels[..5]).await;
    }
    let mut acknowledged = writers.stop().await;
    acknowledged.extend(labels.iter().cloned().zip(ids));
    converged(&cluster).await;
    for node in cluster.nodes() {
        assert_stored_once(node, &acknowledged, WRITERS).await;
        node.crash().await;
    }
    assert_found(&cluster, &labels).await;
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}

#[tokio::test]
async fn nodes_without_the_model_postpone_the_switch() {
    let cluster = options().nodes(3).start();
    let labels: Vec<String> = (0..10).map(|n| format!("apple{n} pear{} plum", n * 3)).collect();
    cluster.store_each(labels.iter().map(labelled)).await;
    let [_, _, away] = cluster.leader_first().await;
    away.kill();
    let (succeeded, text) = hearth(&cluster, &["set", &model_folder(&cluster, 64)]).await;
    assert!(succeeded, "{text}");
    let ready = async || model(&cluster).await["next"]["ready"].clone();
    let ready = async || array(&ready().await).len();
    eventually("two nodes are ready", ready, |ready| *ready == 2).await;
    let embedded = async || model(&cluster).await["next"]["embedded"].clone();
    eventually("all memories are embedded", embedded, |embedded| *embedded == 10).await;
    let status = model(&cluster).await;
    assert_eq!(
        (&status["model"]["dimension"], &status["next"]["is_switching"]),
        (&json!(384), &json!(false))
    );
    let (succeeded, text) = hearth(&cluster, &["cancel"]).await;
    assert!(succeeded && text.contains("No change is under way"), "{text}");
    assert_found_at(&cluster, &labels[0]).await;
    away.restart().await;
    let (succeeded, _) = hearth(&cluster, &["set", &model_folder(&cluster, 64)]).await;
    assert!(succeeded);
    has_switched(&cluster, 64).await;
    let (succeeded, text) = hearth(&cluster, &["cancel"]).await;
    assert!(!succeeded && text.contains("no change of the model"), "{text}");
}

#[tokio::test]
async fn embedding_keeps_to_its_rate() {
    let node = options().env("HEARTH__EMBEDDER__CHANGE_PER_SECOND", "20").start();
    node.store_each((0..60).map(|n| labelled(format!("apple{n} pear")))).await;
    let started = Instant::now();
    let (succeeded, text) = hearth(&node, &["set", &model_folder(&node, 64)]).await;
    assert!(succeeded, "{text}");
    has_switched(&node, 64).await;
    assert!(started.elapsed() >= Duration::from_secs(3), "{:?}", started.elapsed());
    let outdated = async || node.metric("hearth_model_outdated").await;
    eventually("the configuration names the former", outdated, |is| *is == 1.0).await;
}

/// Clients store faster than memories are embedded, so no pass finds few.
#[tokio::test(flavor = "multi_thread")]
async fn busy_writers_do_not_prevent_the_switch() {
    let rate = "HEARTH__EMBEDDER__CHANGE_PER_SECOND";
    let options = options().env(rate, "300").env("FAILPOINTS", "switch-late=return");
    let cluster = Arc::new(options.start());
    let labels: Vec<String> = (0..300).map(|n| format!("apple{n} pear")).collect();
    let ids = cluster.store_each(labels.iter().map(labelled)).await;
    let writers = Writers::start(&cluster, 16);
    let (succeeded, text) = hearth(&cluster, &["set", &model_folder(&cluster, 64)]).await;
    assert!(succeeded, "{text}");
    // The time in which new texts are rejected is over before those of clients are embedded.
    let postponed = async || cluster.metric("hearth_model_postponed_total").await;
    eventually("new texts are accepted again", postponed, |times| *times >= 1.0).await;
    writers.acknowledge(50).await;
    cluster.kill();
    cluster.restart_with(&[("FAILPOINTS", ""), (rate, "100000")]).await;
    has_switched(&cluster, 64).await;
    writers.acknowledge(50).await;
    let mut acknowledged = writers.stop().await;
    acknowledged.extend(labels.into_iter().zip(ids));
    assert_stored_once(&cluster, &acknowledged, 16).await;
}

/// The state on the disk is of the time before the switch, which only the log has.
#[tokio::test]
async fn killed_nodes_start_with_the_next_model() {
    let node = options().start();
    let label = "apple pear plum";
    node.store(&labelled(label)).await;
    node.shut_down().await;
    node.restart().await;
    let folder = model_folder(&node, 64);
    let (succeeded, text) = hearth(&node, &["set", &folder]).await;
    assert!(succeeded, "{text}");
    has_switched(&node, 64).await;
    node.kill();
    let third = model_folder(&node, 65);
    let log = node.failed_start(&[("HEARTH__EMBEDDER__MODEL", &third)]).await;
    assert!(log.contains("(40000000696e6731), but"), "{log}");
    node.restart_with(&[("HEARTH__EMBEDDER__MODEL", &folder)]).await;
    let found = async || {
        let search = json!({"query": label, "limit": 1});
        node.send(Method::POST, "/agent/search", &search).await.body
    };
    eventually("the memory is found", found, |found| found[0]["label"] == label).await;
}

async fn assert_found_at(node: &Node, label: &str) {
    let found = node.post("/agent/search", &json!({"query": label, "limit": 1})).await;
    assert_eq!(found[0]["label"], *label);
}

#[tokio::test]
async fn forced_switch_stops_nodes_without_the_model() {
    let cluster = options().nodes(3).start();
    let label = "apple pear plum";
    cluster.store(&labelled(label)).await;
    let folder = model_folder(&cluster, 64);
    let [_, first, second] = cluster.leader_first().await;
    first.kill();
    second.kill();
    let dimension = std::path::Path::new(&folder).join("dimension");
    second.restart().await;
    let (succeeded, text) = hearth(&cluster, &["set", &folder]).await;
    assert!(succeeded, "{text}");
    // The second node may not know of the change yet.
    let ready = async || model(second).await["next"]["ready"].as_array().map_or(0, Vec::len);
    eventually("two nodes have loaded it", ready, |ready| *ready == 2).await;
    std::fs::write(&dimension, "65").unwrap();
    first.restart().await;
    let logged = async || std::fs::read_to_string(first.data().join("served.log")).unwrap();
    let refuses = |log: &String| log.contains("the next model is not loaded");
    eventually("the third one cannot load it", logged, refuses).await;
    assert_eq!(first.metric("hearth_model_refused").await, 1.0);
    assert_eq!(second.metric("hearth_model_refused").await, 0.0);
    // As the leader it could not embed: it lets another node lead.
    let leads = json!({"to": first.id()});
    cluster.ops_request(Method::POST, "/cluster/transfer").json(&leads).send().await.ok();
    let yields = |log: &String| log.contains("it has not the next embedding model");
    eventually("the third one yields", logged, yields).await;
    let leader = async || cluster.at(cluster.leader().await).id();
    eventually("another node leads", leader, |leader| *leader != first.id()).await;
    assert_eq!(model(second).await["next"]["is_switching"], false);
    let (succeeded, text) = hearth(&cluster, &["switch", "--force"]).await;
    assert!(succeeded, "{text}");
    has_switched(second, 64).await;
    let stops = |log: &String| log.contains("set embedder.model to the folder");
    eventually("the third one stops", logged, stops).await;
    std::fs::write(&dimension, "64").unwrap();
    first.kill();
    first.restart_with(&[("HEARTH__EMBEDDER__MODEL", &folder)]).await;
    let search = json!({"query": label, "limit": 1});
    assert_eq!(first.post("/agent/search", &search).await[0]["label"], label);
    converged(&cluster).await;
    assert_equal_states(&cluster).await;
}

/// Bytes of the last layer's weights that another model lacks, and how far they are from the end.
const CHANGED_BYTES: usize = 1 << 20;
const CHANGED_AT: usize = 2 << 20;

/// A folder with a model that has other vectors: the installed one, with weights of its last layer
/// set to 0.
fn changed_model(cluster: &Cluster) -> String {
    let installed = ::node::program::installed().expect("`make setup` ran").model;
    let folder = cluster.folder().join("next-model");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(installed.join("tokenizer.json"), folder.join("tokenizer.json")).unwrap();
    let mut model = std::fs::read(installed.join("model.onnx")).unwrap();
    let at = model.len() - CHANGED_AT;
    model[at..at + CHANGED_BYTES].fill(0);
    std::fs::write(folder.join("model.onnx"), &model).unwrap();
    let manifest = std::fs::read_to_string(installed.join("manifest.json")).unwrap();
    let mut manifest: Value = serde_json::from_str(&manifest).unwrap();
    manifest["files"]["model.onnx"] = json!(hex::encode(Sha256::digest(&model)));
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    folder.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn installed_model_changes_to_another() {
    let cluster = options().real_embedder().start();
    let labels = ["The user drinks tea in the morning.", "The build runs on two machines."];
    cluster.store_each(labels.iter().map(labelled)).await;
    let before = model(&cluster).await["model"].clone();
    let folder = changed_model(&cluster);
    let search = json!({"query": "what does the user drink?", "limit": 1, "explain": true});
    let found_before = cluster.post("/agent/search", &search).await;
    let (succeeded, text) = hearth(&cluster, &["set", "/nowhere"]).await;
    assert!(!succeeded && text.contains("/nowhere/manifest.json"), "{text}");
    let (succeeded, text) = hearth(&cluster, &["set", &folder]).await;
    assert!(succeeded, "{text}");
    let status = async || model(&cluster).await;
    eventually("the cluster has switched", status, |status| {
        status["next"].is_null() && status["model"]["id"] != before["id"]
    })
    .await;
    let found = async || cluster.send(Method::POST, "/agent/search", &search).await.body;
    let finds = |found: &Value| found[0]["label"] == labels[0];
    let found = eventually("the memory is found", found, finds).await;
    let similarity = |found: &Value| found[0]["explain"]["similarity"].as_f64().unwrap();
    let (before, after) = (similarity(&found_before), similarity(&found));
    assert!((before - after).abs() > 0.01, "vectors of the next model: {before} and {after}");
    assert!(cluster.metric("hearth_model_embedded_total").await >= 2.0);
}
