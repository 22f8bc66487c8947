//! Edges are created by request and automatically, are visible from both ends, and are deleted
//! by request and with their memories. The graph view shows them.

use super::*;

/// Relations and ids of the neighbours of a memory.
async fn neighbours(cluster: &Cluster, id: &str, query: &str) -> Vec<(String, String)> {
    let path = format!("/agent/graph/neighbors/{id}{query}");
    let found = cluster.get(&path).await;
    assert_eq!(found["node_id"], id);
    let text = |value: &Value| string(value).to_owned();
    let all = array(&found["neighbors"]);
    all.iter().map(|one| (text(&one["relation"]), text(&one["id"]))).collect()
}

#[tokio::test]
async fn edges_are_visible_from_both_ends_until_deleted() {
    let cluster = options().start();
    let ids = cluster.store_each(["alpha", "beta", "gamma"].map(labelled)).await;
    let relate = async |source: &str, target: &str| {
        let edge = json!({"source_id": source, "target_id": target, "relation": "uses"});
        cluster.send(Method::POST, "/agent/graph/relate", &edge).await
    };
    let created = relate(&ids[0], &ids[1]).await;
    assert_eq!((created.status, &created.body["weight"]), (StatusCode::CREATED, &json!(1.0)));
    let again = relate(&ids[1], &ids[0]).await;
    assert_eq!((again.status, &again.body["source_id"]), (StatusCode::OK, &json!(ids[0])));
    relate(&ids[1], &ids[2]).await.ok();
    let uses = |id: &str| ("uses".to_owned(), id.to_owned());
    assert_eq!(neighbours(&cluster, &ids[0], "").await, [uses(&ids[1])]);
    assert_eq!(neighbours(&cluster, &ids[0], "?depth=2").await, [uses(&ids[1]), uses(&ids[2])]);
    assert_eq!(neighbours(&cluster, &ids[1], "").await.len(), 2);
    assert_eq!(neighbours(&cluster, &ids[1], "?limit=1").await.len(), 1);

    let status = cluster.get("/agent/graph/status").await;
    assert_fields(&status, json!({"total_nodes": 3, "total_edges": 2}));
    let verified = cluster.get(&format!("/agent/graph/verify/{}", ids[1])).await;
    assert_fields(&verified, json!({"edges": 2, "verified": true}));
    let view = cluster.get("/admin/visualize/graph").await;
    let counts = (array(&view["nodes"]).len(), array(&view["links"]).len());
    assert_eq!((counts, &view["total_nodes"]), ((3, 2), &json!(3)));
    assert_eq!(view["links"][0]["relation"], "uses");
    let few = cluster.get("/admin/visualize/graph?limit=1").await;
    assert_fields(&few, json!({"links": [], "total_nodes": 3}));

    let edge = json!({"source_id": ids[1], "target_id": ids[0], "relation": "uses"});
    let undo = || cluster.request(Method::DELETE, "/agent/graph/relate").json(&edge).send();
    assert_eq!(undo().await.ok()["deleted"], true);
    assert_eq!(undo().await.status, StatusCode::NOT_FOUND);
    cluster.delete(&format!("/agent/nodes/{}", ids[2])).await;
    assert_eq!(neighbours(&cluster, &ids[1], "").await, []);
}

#[tokio::test]
async fn shared_key_points_and_equal_texts_create_edges() {
    let cluster = options().start();
    let memories = [
        json!({"label": "deploy with care on fridays", "key_points": ["Release process"]}),
        json!({"label": "tea is in the kitchen", "key_points": [" release PROCESS "]}),
        json!({"label": "Deploy with care on Fridays!", "key_points": []}),
        json!({"label": "nothing to do with it", "key_points": []}),
    ];
    let ids = cluster.store_each(memories).await;
    let [first, shares, same, other] = &ids[..] else { panic!("{ids:?}") };
    let mut found = neighbours(&cluster, first, "").await;
    found.sort();
    let expected = [("shares_key_point", shares), ("similar_to", same)];
    assert_eq!(found, expected.map(|(relation, id)| (relation.to_owned(), id.clone())));
    assert_eq!(neighbours(&cluster, other, "").await, []);
}

/// A new text has other neighbours. One that stays needs no model.
#[tokio::test]
async fn similar_memories_follow_the_text() {
    let cluster = options().start();
    let memories = [
        "deploy with care on fridays",
        "Deploy with care on Fridays!",
        "tea is green",
        "Tea is green!",
    ]
    .map(|label| json!({"label": label}));
    let ids = cluster.store_each(memories).await;
    let [first, same, tea, green] = &ids[..] else { panic!("{ids:?}") };
    let edge = json!({"source_id": first, "target_id": tea, "relation": "uses"});
    cluster.post("/agent/graph/relate", &edge).await;
    let path = format!("/agent/nodes/{first}");
    let change = async |label: &str| {
        let patch = json!({"label": label, "memory_type": "fact"});
        cluster.patch(&path, &patch).await;
        let mut found = neighbours(&cluster, first, "").await;
        found.sort();
        found
    };
    let edge = |relation: &str, id: &String| (relation.to_owned(), id.clone());
    let before = [edge("similar_to", same), edge("uses", tea)];
    let embedded = async || cluster.metrics("hearth_embedder_").await;
    let texts = embedded().await;
    assert_eq!(change("deploy with care on fridays").await, before);
    assert_eq!(embedded().await, texts);
    let found = change("tea is green.").await;
    assert!(found.contains(&edge("similar_to", green)), "{found:?}");
    assert!(!found.contains(&edge("similar_to", same)), "{found:?}");
    assert!(found.contains(&edge("uses", tea)), "{found:?}");
    assert_eq!(neighbours(&cluster, same, "").await, []);
}

#[tokio::test]
async fn invalid_edges_are_rejected_by_field() {
    let cluster = options().start();
    let id = cluster.store(&json!({"label": "x"})).await;
    let absent = "01936d5e-0000-7000-8000-000000000000";
    for (body, field) in [
        (json!({"target_id": id}), "source_id"),
        (json!({"source_id": id}), "target_id"),
        (json!({"source_id": id, "target_id": id}), "target_id"),
        (json!({"source_id": id, "target_id": absent, "relation": 5}), "relation"),
        (json!({"source_id": id, "target_id": absent, "relation": "x".repeat(65)}), "relation"),
    ] {
        cluster.assert_rejected("/agent/graph/relate", &body, field).await;
    }
    let missing = json!({"source_id": id, "target_id": absent});
    let missing = cluster.send(Method::POST, "/agent/graph/relate", &missing).await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let path = format!("/agent/graph/neighbors/{absent}");
    assert_eq!(cluster.request(Method::GET, &path).send().await.status, StatusCode::NOT_FOUND);
}
