//! Agents store again what a search has just returned. Such echoes are marked and counted, and
//! searches do not make them hotter.

use super::*;

const PORT: &str = "the staging database of the billing team listens on port 5432";

async fn store(node: &Node, label: &str) -> Value {
    node.post("/agent/nodes", &json!({"label": label, "initial_heat": 0.5})).await
}

/// Searches for a text, and waits until the memory has `count` recalls.
async fn recall(node: &Node, id: &str, count: u64) -> Value {
    node.post("/agent/search", &json!({"query": PORT})).await;
    let found = async || node.get(&format!("/agent/nodes/{id}")).await;
    eventually("recalls are counted", found, |found| found["recall_count"] == count).await
}

async fn echo_count(node: &Node) -> Value {
    let analytics = node.get("/admin/recall-analytics").await;
    array(&analytics["stats"])
        .iter()
        .map(|of| of["echo_count"].as_u64().unwrap())
        .sum::<u64>()
        .into()
}

#[tokio::test]
async fn what_a_search_returned_comes_back_as_echo() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    let first = id(&store(leader, PORT).await).to_owned();
    // No search has returned it yet.
    let other = store(rest, &format!("{PORT}.")).await;
    assert_eq!(other["echo_of"], Value::Null);
    cluster.request(Method::DELETE, &format!("/agent/nodes/{}", id(&other))).send().await.ok();
    converged(&cluster).await;
    recall(rest, &first, 1).await;
    // At another node, with the dot of a sentence; then an echo of the echo.
    let echo = store(leader, &format!("{PORT}!")).await;
    assert_eq!(echo["echo_of"], first.as_str());
    converged(&cluster).await;
    recall(rest, id(&echo), 1).await;
    let again = store(rest, &PORT.to_uppercase()).await;
    assert_eq!(again["echo_of"], first.as_str());
    // A correction says something else.
    let correction = store(rest, &PORT.replace("5432", "5433")).await;
    assert_eq!(correction["echo_of"], Value::Null);
    assert_eq!(echo_count(leader).await, 2);
    let path = format!("/agent/nodes/{}", id(&again));
    let changed = rest.patch(&path, &json!({"label": "the port is secret"})).await;
    assert_eq!(changed["echo_of"], Value::Null, "a text of its own");
    converged(&cluster).await;
    assert_equal_states(leader).await;
}

#[tokio::test]
async fn searches_do_not_warm_echoes() {
    let cluster = options().start();
    let settings = json!({"reinforcement": {"recall_min_interval": 0}});
    cluster.patch("/settings/thermo", &settings).await;
    let first = id(&store(&cluster, PORT).await).to_owned();
    recall(&cluster, &first, 1).await;
    let echo = id(&store(&cluster, PORT).await).to_owned();
    let warmed = recall(&cluster, &first, 2).await;
    assert!(float(&warmed["heat"]) > 0.58, "{warmed}");
    let found = recall(&cluster, &echo, 2).await;
    assert!(float(&found["heat"]) <= 0.5, "{found}");
    // It is the only one that says so now.
    cluster.request(Method::DELETE, &format!("/agent/nodes/{first}")).send().await.ok();
    let found = recall(&cluster, &echo, 3).await;
    assert_near(&found["heat"], 0.55);
}

#[tokio::test]
async fn merged_echo_is_no_recall() {
    let cluster = options().start();
    let merge = json!({"label": PORT, "initial_heat": 0.5, "on_duplicate": "merge"});
    let first = id(&cluster.post("/agent/nodes", &merge).await).to_owned();
    let recalled = recall(&cluster, &first, 1).await;
    let merged = cluster.send(Method::POST, "/agent/nodes", &merge).await;
    assert_eq!((merged.status.as_u16(), &merged.body["duplicate_of"]), (200, &json!(first)));
    assert_eq!(merged.body["recall_count"], 1);
    // It cools meanwhile.
    assert_near(&merged.body["heat"], float(&recalled["heat"]));
    assert_eq!(echo_count(&cluster).await, 1);
    // Without a window, nothing is an echo.
    cluster.patch("/settings/thermo", &json!({"duplicates": {"echo_seconds": 0}})).await;
    let merged = cluster.send(Method::POST, "/agent/nodes", &merge).await;
    assert_eq!(merged.body["recall_count"], 2);
    assert_eq!(echo_count(&cluster).await, 1);
}

#[tokio::test]
async fn repetition_without_a_search_is_no_echo() {
    let cluster = options().start();
    for on_duplicate in ["merge", "merge", "merge", "allow"] {
        let body = json!({"label": PORT, "on_duplicate": on_duplicate});
        assert_eq!(cluster.post("/agent/nodes", &body).await["echo_of"], Value::Null);
    }
    assert_eq!(echo_count(&cluster).await, 0);
}
