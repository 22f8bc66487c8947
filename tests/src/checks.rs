//! What several promises share: checks of a whole cluster, triggers, keys, programs.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ::node::embed::{Manifest, OnnxRuntime};
use ::node::program::{self, Installed};
use futures::future::join_all;

use crate::{Cluster, Method, Node, StatusCode, Value, array, eventually, json, string};

/// Waits until all nodes have applied the same index.
pub async fn converged(cluster: &Cluster) {
    let index =
        async |node: &Node| node.status().await.map(|status| status["applied_index"].clone());
    let indexes = async || join_all(cluster.nodes().map(index)).await;
    let equal = |indexes: &Vec<Option<Value>>| {
        indexes.iter().all(|index| index.is_some() && *index == indexes[0])
    };
    eventually("the nodes converge", indexes, equal).await;
}

/// Compares the states of all nodes, and returns the result.
pub async fn verify(node: &Node) -> Value {
    node.ops_request(Method::POST, "/cluster/verify").json(&json!({})).send().await.ok()
}

/// Asserts that all nodes hash the same state, and that each row in it has its counterpart.
pub async fn assert_equal_states(node: &Node) {
    assert_fields(&verify(node).await, json!({"equal": true, "first_row_faults": []}));
}

/// Asserts that an object has these fields. It may have others.
#[track_caller]
pub fn assert_fields(found: &Value, expected: Value) {
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&found[name], value, "{name} of {found}");
    }
}

/// The labels of memories.
pub fn labels<'a>(memories: impl IntoIterator<Item = &'a Value>) -> Vec<&'a str> {
    memories.into_iter().map(|memory| string(&memory["label"])).collect()
}

/// Asserts that a JSON number is within 1e-5 of another one.
#[track_caller]
pub fn assert_near(found: &Value, expected: f64) {
    let difference = (float(found) - expected).abs();
    assert!(difference < 1e-5, "{found} is not {expected}");
}

/// A JSON number.
#[track_caller]
pub fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

/// Creates a tenant. Returns its view, with the text of its first key as `key`.
pub async fn create_tenant(node: &Node, body: Value) -> Value {
    let request = node.ops_request(Method::POST, "/cluster/tenants").json(&body);
    let created = request.send().await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    created.body
}

/// Creates a trigger and returns it.
pub async fn create_trigger(node: &Node, body: &Value) -> Value {
    let response = node.send(Method::POST, "/triggers", body).await;
    assert_eq!(response.status, StatusCode::CREATED, "{}", response.body);
    response.body
}

/// Creates a trigger that sends a webhook for each stored memory, and returns it.
pub async fn create_webhook(node: &Node, config: Value, max_fires: Option<u64>) -> Value {
    let body = json!({
        "event": "on_store", "action": "webhook", "action_config": config, "max_fires": max_fires,
    });
    create_trigger(node, &body).await
}

/// All items of the trigger history that `query` selects, the latest first.
pub async fn trigger_history(node: &Node, query: &str) -> Vec<Value> {
    let path = format!("/triggers/history?limit=200{query}");
    pages("before", async |cursor| node.get(&format!("{path}{cursor}")).await).await
}

/// All items of a list. `get` returns a page by the end of its query, as in `&before=7`.
pub async fn pages(name: &str, mut get: impl AsyncFnMut(&str) -> Value) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&cursor).await;
        items.extend(array(&page["items"]).clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&{name}={next}"),
            None => return items,
        }
    }
}

/// Creates the key `outsider`, an agent's, and denies it the namespace `closed`.
pub async fn denied_key(node: &Node) -> Value {
    let key = node.post("/keys", &json!({"name": "outsider", "role": "agent"})).await;
    let rule = json!({"agent_id": "outsider", "namespace": "closed", "policy": "deny"});
    node.post("/namespaces/acl", &rule).await;
    key
}

/// The folder into which `make setup` installs.
pub fn cache() -> PathBuf {
    program::cache().expect("a cache folder")
}

/// A program that `deploy/setup/pypi.sh` installs.
pub fn installed(program: &str) -> PathBuf {
    cache().join("clients/bin").join(program)
}

/// The installed embedding model and its runtime, which a process can load once.
pub fn installed_model() -> &'static (Manifest, OnnxRuntime) {
    static INSTALLED: OnceLock<(Manifest, OnnxRuntime)> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let Installed { model, library } = program::installed().expect("`make setup` ran");
        let manifest = Manifest::load(&model).expect("the model");
        let library = OnnxRuntime::load(&library).expect("the library");
        (manifest, library)
    })
}

/// Whether a file in a folder contains these bytes.
pub fn holds(folder: &Path, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().any(|path| match path.is_dir() {
        true => holds(&path, bytes),
        // A file that is deleted meanwhile contains nothing.
        false => std::fs::read(&path)
            .is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes)),
    })
}
