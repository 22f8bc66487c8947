//! What several promises share: checks of a whole cluster, triggers, keys, programs.

use std::path::PathBuf;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{Cluster, Node, array, eventually};

/// Waits until all nodes have applied the same index.
pub async fn converged(cluster: &Cluster) {
    let indexes = async || {
        let mut indexes = Vec::new();
        for node in cluster.nodes() {
            indexes.push(node.status().await.map(|status| status["applied_index"].clone()));
        }
        indexes
    };
    let equal = |indexes: &Vec<Option<Value>>| {
        indexes.iter().all(|index| index.is_some() && *index == indexes[0])
    };
    eventually("the nodes converge", indexes, equal).await;
}

/// Asserts that all nodes hash the same state.
pub async fn assert_equal_states(node: &Node) {
    let verified = node.ops_request(Method::POST, "/cluster/verify").json(&json!({}));
    let verified = verified.send().await.ok();
    assert_eq!(verified["equal"], true, "{verified}");
}

/// Creates a trigger and returns it.
pub async fn create_trigger(node: &Node, body: &Value) -> Value {
    let response = node.request(Method::POST, "/triggers").json(body).send().await;
    assert_eq!(response.status, StatusCode::CREATED, "{}", response.body);
    response.body
}

/// All items of the trigger history that `query` selects, the latest first.
pub async fn trigger_history(node: &Node, query: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = node.get(&format!("/triggers/history?limit=200{query}{cursor}")).await;
        items.extend(array(&page["items"]).clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&before={next}"),
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

/// A program that `deploy/setup/clients.sh` installs.
pub fn installed(program: &str) -> PathBuf {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = from("HEARTH_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|cache| cache.join("hearth")))
        .or_else(|| from("HOME").map(|home| home.join(".cache/hearth")));
    cache.expect("a cache folder").join("clients/bin").join(program)
}
