//! The tick moves what is cold to the cold tier, once there is enough of it; it is found
//! there, cools no further, and comes back when somebody wants it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tests::{At, Cluster, PATIENCE};

use crate::cluster::{assert_equal_states, settled};
use crate::options;

/// A tick a second, and a cold tier from two cold ones on.
async fn hurry(cluster: &Cluster) {
    let patch = json!({"tick": {"interval": 1}, "consolidation": {"cold_count_trigger": 2}});
    cluster.ask(Method::PATCH, "/settings/thermo").json(&patch).send().await.ok();
}

async fn list(node: &At<'_>, path: &str) -> Value {
    node.ask(Method::GET, path).send().await.ok()
}

/// Waits until so many memories are archived.
async fn archived(node: &At<'_>, count: u64) -> Value {
    let started = Instant::now();
    loop {
        let archive = list(node, "/agent/archive").await;
        if archive["total"] == count {
            return archive;
        }
        assert!(started.elapsed() < PATIENCE, "{archive}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn cold_memories_are_archived_found_on_request_and_restored() {
    let cluster = options().nodes(3).start();
    hurry(&cluster).await;
    let store = async |label: &str, heat: f64, memory_type: &str| {
        let body = json!({"label": label, "initial_heat": heat, "memory_type": memory_type});
        cluster.create(&body).await["id"].as_str().unwrap().to_owned()
    };
    let first = store("an old fox", 0.05, "episodic").await;
    let second = store("an old house", 0.06, "semantic").await;
    let edge = json!({"source_id": first, "target_id": second, "relation": "lives_in"});
    cluster.ask(Method::POST, "/agent/graph/relate").json(&edge).send().await.ok();
    store("how to brew tea", 0.01, "procedural").await;
    store("a new fox", 0.9, "episodic").await;
    let node = cluster.at(1);
    let archive = archived(&node, 2).await;
    let mut ids: Vec<_> = archive["items"].as_array().unwrap().iter().collect();
    ids.sort_by_key(|item| item["id"].as_str());
    assert_eq!((&ids[0]["id"], &ids[1]["id"]), (&json!(first), &json!(second)));
    assert_eq!(ids[0]["tier"], "cold");
    assert!(ids[0]["archived_at"].as_str().unwrap().ends_with('Z'));
    // The hot tier is what lists, hot context and searches show.
    settled(&cluster).await;
    assert_eq!(list(&node, "/agent/nodes").await["total"], 2);
    let search = async |tier: &str| {
        let body = json!({"query": "fox", "tier": tier});
        let hits = node.ask(Method::POST, "/agent/search").json(&body).send().await.ok();
        let hits = hits.as_array().unwrap().iter();
        hits.map(|hit| hit["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(!search("hot").await.contains(&first));
    assert!(search("cold").await.contains(&first) && search("cold").await.len() == 2);
    assert_eq!(search("all").await.len(), 4);
    let body = json!({"query": "fox", "tier": "cold", "explain": true});
    let hits = node.ask(Method::POST, "/agent/search").json(&body).send().await.ok();
    let led = hits.as_array().unwrap().iter().find(|hit| hit["id"] == json!(second)).unwrap();
    assert_eq!(led["source"], "graph_traversal", "{hits}");
    assert_eq!(led["explain"]["graph"]["seed_id"], first);
    let number = |name: &str| led["explain"]["graph"][name].as_f64().unwrap();
    let product = number("seed_score") * number("edge_weight") * number("damping");
    assert!((product - led["score"].as_f64().unwrap()).abs() < 1e-6);
    let found = list(&node, &format!("/agent/nodes/{first}")).await;
    assert_eq!(found["tier"], "cold");

    let restore = node.ask(Method::POST, "/agent/restore").json(&json!({"ids": [first]}));
    assert_eq!(restore.send().await.ok()["restored"], 1);
    let found = list(&node, &format!("/agent/nodes/{first}")).await;
    assert!((found["heat"].as_f64().unwrap() - 0.3).abs() < 1e-4, "{found}");
    assert_eq!((&found["tier"], &found["archived_at"]), (&json!("hot"), &Value::Null));
    let patch = node.ask(Method::PATCH, &format!("/agent/nodes/{second}"));
    let found = patch.json(&json!({"is_pinned": true})).send().await.ok();
    assert_eq!(found["tier"], "hot", "pinning brings it back, with its heat");
    assert!(found["heat"].as_f64().unwrap() < 0.1);
    assert_eq!(list(&node, "/agent/archive").await["total"], 0);
    settled(&cluster).await;
    assert_equal_states(&node).await;
}

#[tokio::test]
async fn the_next_leader_ticks_on() {
    let cluster = options().nodes(3).start();
    hurry(&cluster).await;
    let leader = cluster.leader().await;
    let rest = cluster.at((leader + 1) % 3);
    for label in ["one", "two"] {
        cluster.create(&json!({"label": label, "initial_heat": 0.05})).await;
    }
    archived(&rest, 2).await;
    cluster.at(leader).kill();
    for label in ["three", "four"] {
        rest.create(&json!({"label": label, "initial_heat": 0.05})).await;
    }
    archived(&rest, 4).await;
}

/// How often each memory cooled, as the activity tells.
async fn coolings(node: &At<'_>) -> BTreeMap<String, u32> {
    let mut coolings = BTreeMap::new();
    let page = list(node, "/activity?limit=100").await;
    for item in page["items"].as_array().unwrap() {
        if item["action"] == "memory.cool" {
            *coolings.entry(item["target_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
    }
    coolings
}

#[tokio::test]
async fn a_leader_that_is_held_ticks_for_nobody_when_it_goes_on() {
    let cluster = options().nodes(3).start();
    let patch = json!({"tick": {"interval": 1}, "half_lives": {"episodic": 1}});
    cluster.ask(Method::PATCH, "/settings/thermo").json(&patch).send().await.ok();
    let leader = cluster.leader().await;
    let (held, rest) = (cluster.at(leader), cluster.at((leader + 1) % 3));
    // Pinned ones do not cool; they do from when they are let go.
    let mut ids = Vec::new();
    for number in 0..15 {
        let body = json!({"label": format!("memory {number}"), "is_pinned": true});
        ids.push(rest.create(&body).await["id"].as_str().unwrap().to_owned());
    }
    let body = json!({"ids": ids, "is_pinned": false});
    rest.ask(Method::POST, "/agent/nodes/bulk-patch").json(&body).send().await.ok();
    // It is held while they cross, with ticks of its own due and perhaps under way.
    tests::signal(held.pid(), "STOP");
    let stopped = Instant::now();
    while coolings(&rest).await.len() < ids.len() || stopped.elapsed() < Duration::from_secs(5) {
        assert!(stopped.elapsed() < PATIENCE, "the next leader does not tick");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tests::signal(held.pid(), "CONT");
    settled(&cluster).await;
    // Ticks go on; none tells again what was told.
    let number = async || list(&rest, "/admin/dashboard").await["tick"]["number"].as_u64();
    let (before, started) = (number().await, Instant::now());
    while number().await <= before {
        assert!(started.elapsed() < PATIENCE, "nobody ticks any more");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    settled(&cluster).await;
    let coolings = coolings(&held).await;
    assert_eq!(coolings.len(), ids.len());
    assert!(coolings.values().all(|times| *times == 1), "{coolings:?}");
    assert_equal_states(&rest).await;
}
