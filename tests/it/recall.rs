//! A search heats and stabilises its first results, at most once per interval. Their neighbours get a
//! share. No other read is a recall.

use super::*;

async fn get(node: &Node, id: &str) -> Value {
    node.get(&format!("/agent/nodes/{id}")).await
}

/// Waits until a memory has `count` recalls.
async fn recalled(node: &Node, id: &str, count: u64) -> Value {
    let found = async || get(node, id).await;
    eventually("recalls are counted", found, |found| found["recall_count"] == count).await
}

async fn search(node: &Node, query: &str) {
    node.post("/agent/search", &json!({"query": query, "limit": 1})).await;
}

#[tokio::test]
async fn search_heats_its_results_and_their_neighbours() {
    let cluster = options().nodes(3).start();
    let memory = |label| json!({"label": label, "initial_heat": 0.5, "decay_class": "permanent"});
    let ids = cluster.store_each(["red fox", "blue sea", "green hill"].map(memory)).await;
    let edge = json!({"source_id": ids[0], "target_id": ids[1], "relation": "near"});
    cluster.post("/agent/graph/relate", &edge).await;
    converged(&cluster).await;
    let [_, node] = cluster.leader_first().await;
    search(node, "red fox").await;
    let found = recalled(node, &ids[0], 1).await;
    assert_near(&found["heat"], 0.55);
    assert!(string(&found["last_recalled_at"]).ends_with('Z'));
    assert_eq!(found["updated_at"], found["created_at"], "a recall is no update");
    let related = get(node, &ids[1]).await;
    assert_near(&related["heat"], 0.515);
    let other = get(node, &ids[2]).await;
    assert_eq!((&related["recall_count"], &other["heat"]), (&json!(0), &json!(0.5)));
    // No other read recalls.
    for (method, path) in [
        (Method::GET, "/agent/nodes?search=fox"),
        (Method::POST, "/agent/hot-context"),
        (Method::GET, "/agent/hot_nodes"),
        (Method::GET, "/admin/visualize/graph"),
    ] {
        node.request(method, path).send().await.ok();
    }
    // Further recalls within the interval are counted, and do not heat.
    let patch = json!({"reinforcement": {"recall_min_interval": 1}});
    node.patch("/settings/thermo", &patch).await;
    for _ in 0..3 {
        search(node, "red fox").await;
    }
    let found = recalled(node, &ids[0], 4).await;
    assert!(float(&found["heat"]) < 0.65, "{found}");
    converged(&cluster).await;
    assert_equal_states(node).await;
}

#[tokio::test]
async fn first_five_results_are_recalled() {
    let cluster = options().start();
    let fox = |number| json!({"label": format!("fox {number}"), "initial_heat": 0.5});
    cluster.store_each((0..8).map(fox)).await;
    // Without words, the results are the hottest. They do not stay hot for that.
    cluster.post("/agent/search", &json!({"query": ""})).await;
    let results = cluster.post("/agent/search", &json!({"query": "fox"})).await;
    let ids: Vec<_> = array(&results).iter().map(id).collect();
    assert_eq!(ids.len(), 8);
    recalled(&cluster, ids[4], 1).await;
    for (rank, id) in ids.iter().enumerate() {
        let count = get(&cluster, id).await["recall_count"].clone();
        assert_eq!(count, u64::from(rank < 5), "the result of rank {rank}");
    }
    let stats = cluster.get("/analytics/recall").await;
    assert_fields(&stats["stats"][0], json!({"total_recalls": 5}));
    // Triggers fire for every result, also for those that are no recalls.
    create_trigger(&cluster, &json!({"event": "on_recall", "action": "notify"})).await;
    cluster.post("/agent/search", &json!({"query": "fox"})).await;
    let firings = async || trigger_history(&cluster, "").await.len();
    eventually("all results fire", firings, |count| *count == 8).await;
}

#[tokio::test]
async fn stopping_node_reports_its_buffered_recalls() {
    let cluster = options().start();
    cluster.crash().await;
    let id = cluster.store(&json!({"label": "red fox"})).await;
    for _ in 0..2 {
        search(&cluster, "red fox").await;
        recalled(&cluster, &id, 1).await;
    }
    for _ in 0..3 {
        search(&cluster, "red fox").await;
    }
    cluster.shut_down().await;
    cluster.restart().await;
    assert_eq!(get(&cluster, &id).await["recall_count"], 5);
}

#[tokio::test]
async fn only_what_answers_is_recalled() {
    let cluster = options().start();
    let hot = |label: &str| json!({"label": label, "initial_heat": 0.9});
    cluster.store_each(["buy milk", "call grandma", "water plants"].map(hot)).await;
    let answer =
        cluster.store(&json!({"label": "the port of staging is 5432", "initial_heat": 0.3})).await;
    // The hot ones are among the results, but no answer.
    let found = cluster.post("/agent/search", &json!({"query": "which port has staging"})).await;
    assert_eq!(array(&found).len(), 4);
    recalled(&cluster, &answer, 1).await;
    cluster.post("/agent/search", &json!({"query": "qwertz blorb xyzzy"})).await;
    let search = json!({"query": "which port has staging", "limit": 1});
    cluster.post("/agent/search", &search).await;
    cluster.patch("/settings/thermo", &json!({"reinforcement": {"recall_min_interval": 0}})).await;
    cluster.post("/agent/search", &search).await;
    recalled(&cluster, &answer, 3).await;
    for hit in array(&found).iter().filter(|hit| id(hit) != answer) {
        assert_eq!(get(&cluster, id(hit)).await["recall_count"], 0, "{hit}");
    }
}

#[tokio::test]
async fn searches_of_readers_warm_nothing() {
    let cluster = options().start();
    let trigger = json!({"event": "on_recall", "action": "tag", "action_config": {"tag": "read"}});
    let trigger = create_trigger(&cluster, &trigger).await;
    let id = cluster.store(&labelled("The user drinks tea")).await;
    let reader = cluster.post("/keys", &json!({"name": "reader", "role": "reader"})).await;
    for _ in 0..5 {
        let search = cluster.request_as(&reader, Method::POST, "/agent/search");
        let found = search.json(&json!({"query": "user drinks tea"})).send().await.ok();
        assert_eq!(array(&found).len(), 1);
    }
    search(&cluster, "user drinks tea").await;
    recalled(&cluster, &id, 1).await;
    let fired = async || cluster.get(&format!("/triggers/{}", self::id(&trigger))).await;
    let fired = eventually("it fires", fired, |trigger| trigger["fire_count"] != 0).await;
    assert_eq!(fired["fire_count"], 1, "for the search of the admin only");
}
