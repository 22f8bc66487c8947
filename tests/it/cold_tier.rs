//! The tick moves cold memories to the cold tier once enough are cold. They are searchable
//! there on request, cool no further, and return when they are restored or pinned.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::*;

/// A tick per second, which archives all cold memories.
async fn quick_ticks(cluster: &Cluster) {
    let at_once = json!({"archive_after_days": 0, "active_index_max": 0});
    let patch = json!({"tick": {"interval": 1}, "consolidation": at_once});
    cluster.patch("/settings/thermo", &patch).await;
}

/// Waits until `count` memories are archived.
async fn archived(node: &Node, count: u64) -> Value {
    let archive = async || node.get("/agent/archive").await;
    eventually("memories are archived", archive, |archive| archive["total"] == count).await
}

#[tokio::test]
async fn cold_memories_are_archived_searchable_and_restorable() {
    let cluster = options().nodes(3).start();
    quick_ticks(&cluster).await;
    // The searches below neither warm nor restore what they find.
    let patch = json!({"reinforcement": {"recalled_results": 0}});
    cluster.patch("/settings/thermo", &patch).await;
    let store = async |label: &str, heat: f64, memory_type: &str| {
        let body = json!({"label": label, "initial_heat": heat, "memory_type": memory_type});
        cluster.store(&body).await
    };
    let first = store("an old fox", 0.05, "episodic").await;
    let second = store("an old house", 0.06, "semantic").await;
    let edge = json!({"source_id": first, "target_id": second, "relation": "lives_in"});
    cluster.post("/agent/graph/relate", &edge).await;
    store("how to brew tea", 0.01, "procedural").await;
    store("a new fox", 0.9, "episodic").await;
    let node = cluster.at(1);
    let archive = archived(node, 2).await;
    let mut items: Vec<_> = array(&archive["items"]).iter().collect();
    items.sort_by_key(|item| item["id"].as_str());
    assert_eq!((&items[0]["id"], &items[1]["id"]), (&json!(first), &json!(second)));
    assert_eq!(items[0]["tier"], "cold");
    assert!(string(&items[0]["archived_at"]).ends_with('Z'));
    // Lists read both tiers by default; hot context and searches read the hot tier.
    converged(&cluster).await;
    for (query, total) in [("", 4), ("?tier=all", 4), ("?tier=hot", 2), ("?tier=cold", 2)] {
        assert_eq!(node.get(&format!("/agent/nodes{query}")).await["total"], total, "{query}");
    }
    let search = async |tier: &str| {
        let hits = node.post("/agent/search", &json!({"query": "fox", "tier": tier})).await;
        array(&hits).iter().map(|hit| id(hit).to_owned()).collect::<Vec<_>>()
    };
    assert!(!search("hot").await.contains(&first));
    assert!(search("cold").await.contains(&first) && search("cold").await.len() == 2);
    assert_eq!(search("all").await.len(), 4);
    let matches = async |body: Value| {
        let request = node.request(Method::POST, "/agent/search").json(&body);
        request.send().await.number("x-hearth-cold-matches")
    };
    assert_eq!(matches(json!({"query": "an old house"})).await, 2, "old ones, with a word of it");
    assert_eq!(matches(json!({"query": "an old house", "min_score": 9})).await, 0);
    assert_eq!(matches(json!({"query": "house", "limit": 1})).await, 1, "the best is archived");
    assert_eq!(matches(json!({"query": "a new fox", "limit": 1})).await, 0, "the best is not");
    assert_eq!(matches(json!({"query": "house", "tier": "all"})).await, 0);
    let body = json!({"query": "fox", "tier": "cold", "explain": true});
    let hits = node.post("/agent/search", &body).await;
    let related = array(&hits).iter().find(|hit| hit["id"] == json!(second)).unwrap();
    assert_eq!(related["source"], "graph_traversal", "{hits}");
    assert_eq!(related["explain"]["graph"]["seed_id"], first);
    let number = |name: &str| float(&related["explain"]["graph"][name]);
    let product = number("seed_score") * number("edge_weight") * number("damping");
    assert!((product - float(&related["score"])).abs() < 1e-6);
    let path = format!("/agent/nodes/{first}");
    assert_eq!(node.get(&path).await["tier"], "cold");

    let restored = node.post("/agent/restore", &json!({"ids": [first]})).await;
    assert_eq!(restored["restored"], 1);
    let found = node.get(&path).await;
    assert!((float(&found["heat"]) - 0.3).abs() < 1e-4, "{found}");
    assert_fields(&found, json!({"tier": "hot", "archived_at": null}));
    let pin = json!({"is_pinned": true});
    let found = node.patch(&format!("/agent/nodes/{second}"), &pin).await;
    assert_eq!(found["tier"], "hot", "pinning restores it with its heat");
    assert!(float(&found["heat"]) < 0.1);
    assert_eq!(node.get("/agent/archive").await["total"], 0);
    converged(&cluster).await;
    assert_equal_states(node).await;
}

#[tokio::test]
async fn recall_restores_an_archived_memory() {
    let cluster = options().start();
    quick_ticks(&cluster).await;
    let store =
        async |label: &str| cluster.store(&json!({"label": label, "initial_heat": 0.05})).await;
    let (found, other) = (store("the wifi password is on the router").await, store("tea").await);
    archived(&cluster, 2).await;
    // Only what is recalled stays in the hot tier, and not for the next tick only.
    let patch = json!({"consolidation": {"archive_after_days": 30}});
    cluster.patch("/settings/thermo", &patch).await;
    let body = json!({"query": "wifi password", "tier": "all", "limit": 1});
    cluster.post("/agent/search", &body).await;
    let archive = archived(&cluster, 1).await;
    assert_eq!(array(&archive["items"])[0]["id"], other);
    let found = cluster.get(&format!("/agent/nodes/{found}")).await;
    assert_fields(&found, json!({"tier": "hot", "recall_count": 1}));
    assert_near(&found["heat"], 0.37);
    assert_eq!(found["updated_at"], found["created_at"], "a recall is no update");
}

#[tokio::test]
async fn next_leader_continues_the_ticks() {
    let cluster = options().nodes(3).start();
    quick_ticks(&cluster).await;
    let [leader, rest] = cluster.leader_first().await;
    let store_two = async || {
        let cold = |label| json!({"label": label, "initial_heat": 0.05});
        rest.store_each(["one", "two"].map(cold)).await;
    };
    store_two().await;
    archived(rest, 2).await;
    leader.kill();
    store_two().await;
    archived(rest, 4).await;
}

/// How often each memory cooled, from the activity.
async fn coolings(node: &Node) -> BTreeMap<String, usize> {
    let mut coolings = BTreeMap::new();
    let page = node.get("/activity?limit=100").await;
    for item in array(&page["items"]) {
        if item["action"] == "memory.cool" {
            *coolings.entry(string(&item["target_id"]).to_owned()).or_default() += 1;
        }
    }
    coolings
}

#[tokio::test]
async fn resumed_leader_repeats_no_tick() {
    let cluster = options().nodes(3).start();
    let patch = json!({"tick": {"interval": 1}, "half_lives": {"episodic": 1}});
    cluster.patch("/settings/thermo", &patch).await;
    let [paused, rest] = cluster.leader_first().await;
    // Pinned memories do not cool. They start to cool when they are unpinned.
    let pinned = |number| json!({"label": format!("memory {number}"), "is_pinned": true});
    let ids = rest.store_each((0..15).map(pinned)).await;
    rest.post("/agent/nodes/bulk-patch", &json!({"ids": ids, "is_pinned": false})).await;
    // The leader is paused while they cross, with ticks due and perhaps in flight.
    paused.pause();
    let started = Instant::now();
    let all = |coolings: &BTreeMap<_, _>| {
        coolings.len() == ids.len() && started.elapsed() >= Duration::from_secs(5)
    };
    eventually("the next leader ticks", async || coolings(rest).await, all).await;
    paused.resume();
    converged(&cluster).await;
    // Ticks continue, and none records a crossing again. One that finds nothing is left out.
    let number = async || rest.get("/admin/dashboard").await["tick"]["number"].as_u64();
    let before = number().await;
    rest.store(&labelled("one more")).await;
    eventually("a leader ticks", number, |found| *found > before).await;
    converged(&cluster).await;
    let coolings = coolings(paused).await;
    assert_eq!(coolings.len(), ids.len() + 1);
    assert!(coolings.values().all(|times| *times == 1), "{coolings:?}");
    assert_equal_states(rest).await;
}
