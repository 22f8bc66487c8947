//! A memory that another one replaces stays, and no longer comes first: not in searches, and not in
//! hot context.

use super::*;

async fn store(node: &Node, label: &str) -> String {
    node.store(&json!({"label": label, "initial_heat": 0.8})).await
}

/// Ids of the results of a search, and the first one's explanation.
async fn search(node: &Node, query: &str) -> Vec<Value> {
    array(&node.post("/agent/search", &json!({"query": query, "explain": true})).await).clone()
}

#[tokio::test]
async fn correction_ranks_before_what_it_corrects() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    let old = store(rest, "the staging port is 8080").await;
    // It was found many times, so it is hotter than its correction.
    cluster.patch(&format!("/agent/nodes/{old}"), &json!({"current_heat": 1.0})).await;
    let new = json!({"label": "the staging port is 9090", "supersedes": old, "initial_heat": 0.5});
    let new = rest.store(&new).await;
    converged(&cluster).await;
    for node in cluster.nodes() {
        let hits = search(node, "staging port").await;
        assert_eq!([id(&hits[0]), id(&hits[1])], [&new, &old]);
        assert_eq!(hits[0]["explain"]["superseded_factor"], 1.0);
        assert_eq!(hits[1]["explain"]["superseded_factor"], 0.3);
        assert_eq!(hits[1]["superseded_by"], new);
        let hot = node.post("/agent/hot-context", &json!({"limit": 1})).await;
        assert_eq!(hot[0]["id"], new);
    }
    let found = rest.get(&format!("/agent/nodes/{old}")).await;
    assert_fields(&found, json!({"superseded_by": new, "tier": "hot"}));
    let edges = rest.get(&format!("/agent/graph/neighbors/{new}")).await;
    let relations: Vec<_> = array(&edges["neighbors"]).iter().map(|it| &it["relation"]).collect();
    assert!(relations.contains(&&json!("supersedes")), "{edges}");
    // Without its correction, it holds again.
    rest.request(Method::DELETE, &format!("/agent/nodes/{new}")).send().await.ok();
    let found = rest.get(&format!("/agent/nodes/{old}")).await;
    assert_eq!(found["superseded_by"], Value::Null);
    converged(&cluster).await;
    assert_equal_states(leader).await;
}

#[tokio::test]
async fn circles_and_unknown_memories_are_rejected() {
    let cluster = options().start();
    let [first, second] = [store(&cluster, "one").await, store(&cluster, "two").await];
    let supersede = async |old: &str, by: &str| {
        let path = format!("/agent/nodes/{old}/supersede");
        cluster.send(Method::POST, &path, &json!({ "by": by })).await
    };
    let superseded = supersede(&first, &second).await;
    assert_fields(&superseded.body, json!({"id": first, "superseded_by": second}));
    supersede(&first, &second).await.ok();
    supersede(&second, &first).await.assert_error(409, "wrong_state");
    supersede(&first, &first).await.assert_error(409, "wrong_state");
    let unknown = "00000000-0000-0000-0000-000000000000";
    supersede(&first, unknown).await.assert_error(404, "not_found");
    supersede(unknown, &first).await.assert_error(404, "not_found");
    let closed = json!({"label": "closed", "namespace": "closed"});
    let closed = cluster.store(&closed).await;
    let outsider = denied_key(&cluster).await;
    let path = format!("/agent/nodes/{first}/supersede");
    let request = cluster.request_as(&outsider, Method::POST, &path);
    request.json(&json!({ "by": closed })).send().await.assert_error(404, "not_found");
}
