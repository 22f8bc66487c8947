//! What a search returns is warmed and strengthened, once in a while; what it is related
//! to gets a share; nothing else recalls.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tests::{At, PATIENCE};

use crate::cluster::{assert_equal_states, settled};
use crate::options;

async fn get(node: &At<'_>, id: &str) -> Value {
    node.ask(Method::GET, &format!("/agent/nodes/{id}")).send().await.ok()
}

/// Waits until a memory was recalled so often.
async fn recalled(node: &At<'_>, id: &str, count: u64) -> Value {
    let started = Instant::now();
    loop {
        let found = get(node, id).await;
        if found["recall_count"] == count {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "{found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn search(node: &At<'_>, query: &str) {
    let body = json!({"query": query, "limit": 1});
    node.ask(Method::POST, "/agent/search").json(&body).send().await.ok();
}

#[tokio::test]
async fn a_search_warms_what_it_returns_and_a_share_goes_to_what_is_related() {
    let cluster = options().nodes(3).start();
    let mut ids = Vec::new();
    for label in ["red fox", "blue sea", "green hill"] {
        let body = json!({"label": label, "initial_heat": 0.5, "decay_class": "permanent"});
        ids.push(cluster.create(&body).await["id"].as_str().unwrap().to_owned());
    }
    let edge = json!({"source_id": ids[0], "target_id": ids[1], "relation": "near"});
    cluster.ask(Method::POST, "/agent/graph/relate").json(&edge).send().await.ok();
    settled(&cluster).await;
    let node = cluster.at((cluster.leader().await + 1) % 3);
    search(&node, "red fox").await;
    let found = recalled(&node, &ids[0], 1).await;
    assert!((found["heat"].as_f64().unwrap() - 0.55).abs() < 1e-5, "{found}");
    assert!(found["last_recalled_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(found["updated_at"], found["created_at"], "a recall is no update");
    let related = get(&node, &ids[1]).await;
    assert!((related["heat"].as_f64().unwrap() - 0.515).abs() < 1e-5, "{related}");
    assert_eq!(
        (&related["recall_count"], &get(&node, &ids[2]).await["heat"]),
        (&json!(0), &json!(0.5))
    );
    // Looking at memories in any other way recalls nothing.
    for (method, path) in [
        (Method::GET, "/agent/nodes?search=fox"),
        (Method::POST, "/agent/hot-context"),
        (Method::GET, "/agent/hot_nodes"),
        (Method::GET, "/admin/visualize/graph"),
    ] {
        node.ask(method, path).send().await.ok();
    }
    // Further returns are counted, and warm once in the interval: here, none.
    let patch = json!({"reinforcement": {"recall_min_interval": 1}});
    node.ask(Method::PATCH, "/settings/thermo").json(&patch).send().await.ok();
    for _ in 0..3 {
        search(&node, "red fox").await;
    }
    let found = recalled(&node, &ids[0], 4).await;
    assert!(found["heat"].as_f64().unwrap() < 0.65, "{found}");
    settled(&cluster).await;
    assert_equal_states(&node).await;
}

#[tokio::test]
async fn a_node_that_is_stopped_reports_what_it_held_back() {
    let cluster = options().start();
    cluster.kill_node();
    let mut node = cluster.serve();
    cluster.ready().await;
    let id = cluster.create(&json!({"label": "red fox"})).await["id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        search(&cluster.at(0), "red fox").await;
        recalled(&cluster.at(0), &id, 1).await;
    }
    for _ in 0..3 {
        search(&cluster.at(0), "red fox").await;
    }
    assert!(node.stop(), "{}", node.log());
    let _node = cluster.serve();
    cluster.ready().await;
    assert_eq!(get(&cluster.at(0), &id).await["recall_count"], 5);
}
