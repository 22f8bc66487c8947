//! Edges: made by hand and by what memories share, shown from either end, undone, gone
//! with their memories; and the graph view.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::Cluster;

use crate::options;

async fn stored(cluster: &Cluster, body: Value) -> String {
    cluster.create(&body).await["id"].as_str().unwrap().to_owned()
}

/// Relations and ids of what a memory is related to.
async fn neighbours(cluster: &Cluster, id: &str, query: &str) -> Vec<(String, String)> {
    let path = format!("/agent/graph/neighbors/{id}{query}");
    let found = cluster.ask(Method::GET, &path).send().await.ok();
    assert_eq!(found["node_id"], id);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = found["neighbors"].as_array().unwrap();
    all.iter().map(|one| (text(&one["relation"]), text(&one["id"]))).collect()
}

#[tokio::test]
async fn memories_are_related_shown_from_both_ends_and_unrelated() {
    let cluster = options().start();
    let mut ids = Vec::new();
    for label in ["alpha", "beta", "gamma"] {
        ids.push(stored(&cluster, json!({"label": label})).await);
    }
    let relate = async |source: &str, target: &str| {
        let edge = json!({"source_id": source, "target_id": target, "relation": "uses"});
        cluster.ask(Method::POST, "/agent/graph/relate").json(&edge).send().await
    };
    let made = relate(&ids[0], &ids[1]).await;
    assert_eq!((made.status, &made.body["weight"]), (StatusCode::CREATED, &json!(1.0)));
    let again = relate(&ids[1], &ids[0]).await;
    assert_eq!((again.status, &again.body["source_id"]), (StatusCode::OK, &json!(ids[0])));
    relate(&ids[1], &ids[2]).await.ok();
    let uses = |id: &str| ("uses".to_owned(), id.to_owned());
    assert_eq!(neighbours(&cluster, &ids[0], "").await, [uses(&ids[1])]);
    assert_eq!(neighbours(&cluster, &ids[0], "?depth=2").await, [uses(&ids[1]), uses(&ids[2])]);
    assert_eq!(neighbours(&cluster, &ids[1], "").await.len(), 2);
    assert_eq!(neighbours(&cluster, &ids[1], "?limit=1").await.len(), 1);

    let status = cluster.ask(Method::GET, "/agent/graph/status").send().await.ok();
    assert_eq!((&status["total_nodes"], &status["total_edges"]), (&json!(3), &json!(2)));
    let path = format!("/agent/graph/verify/{}", ids[1]);
    let verified = cluster.ask(Method::GET, &path).send().await.ok();
    assert_eq!((&verified["edges"], &verified["verified"]), (&json!(2), &json!(true)));
    let view = cluster.ask(Method::GET, "/admin/visualize/graph").send().await.ok();
    assert_eq!((view["nodes"].as_array().unwrap().len(), &view["total_nodes"]), (3, &json!(3)));
    assert_eq!(view["links"].as_array().unwrap().len(), 2);
    assert_eq!(view["links"][0]["relation"], "uses");
    let few = cluster.ask(Method::GET, "/admin/visualize/graph?limit=1").send().await.ok();
    assert_eq!((&few["links"], &few["total_nodes"]), (&json!([]), &json!(3)));

    let edge = json!({"source_id": ids[1], "target_id": ids[0], "relation": "uses"});
    let undo = || cluster.ask(Method::DELETE, "/agent/graph/relate").json(&edge).send();
    assert_eq!(undo().await.ok()["deleted"], true);
    assert_eq!(undo().await.status, StatusCode::NOT_FOUND);
    cluster.ask(Method::DELETE, &format!("/agent/nodes/{}", ids[2])).send().await.ok();
    assert_eq!(neighbours(&cluster, &ids[1], "").await, []);
}

#[tokio::test]
async fn new_memories_are_related_to_what_shares_a_key_point_or_says_the_same() {
    let cluster = options().start();
    let first = json!({"label": "deploy with care on fridays", "key_points": ["Release process"]});
    let first = stored(&cluster, first).await;
    let shares = json!({"label": "tea is in the kitchen", "key_points": [" release PROCESS "]});
    let shares = stored(&cluster, shares).await;
    let same = stored(&cluster, json!({"label": "Deploy with care on Fridays!"})).await;
    let other = stored(&cluster, json!({"label": "nothing to do with it"})).await;
    let mut found = neighbours(&cluster, &first, "").await;
    found.sort();
    let expected =
        [("shares_key_point".to_owned(), shares.clone()), ("similar_to".to_owned(), same.clone())];
    assert_eq!(found, expected);
    assert_eq!(neighbours(&cluster, &other, "").await, []);
}

#[tokio::test]
async fn bad_edges_are_refused_by_name() {
    let cluster = options().start();
    let id = stored(&cluster, json!({"label": "x"})).await;
    let nobody = "01936d5e-0000-7000-8000-000000000000";
    for (body, field) in [
        (json!({"target_id": id}), "source_id"),
        (json!({"source_id": id}), "target_id"),
        (json!({"source_id": id, "target_id": id}), "target_id"),
        (json!({"source_id": id, "target_id": nobody, "relation": 5}), "relation"),
        (json!({"source_id": id, "target_id": nobody, "relation": "x".repeat(65)}), "relation"),
    ] {
        let refused = cluster.ask(Method::POST, "/agent/graph/relate").json(&body).send().await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(refused.body["field"], field);
    }
    let missing = json!({"source_id": id, "target_id": nobody});
    let missing = cluster.ask(Method::POST, "/agent/graph/relate").json(&missing).send().await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let path = format!("/agent/graph/neighbors/{nobody}");
    assert_eq!(cluster.ask(Method::GET, &path).send().await.status, StatusCode::NOT_FOUND);
}
