//! Bulk commands do to each memory what the single command would, tell what they could
//! not do, and never take an empty filter for everything.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::Cluster;

use crate::options;

async fn several(cluster: &Cluster, count: usize, body: Value) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(cluster.create(&body).await["id"].as_str().unwrap().to_owned());
    }
    ids
}

async fn total(cluster: &Cluster, query: &str) -> u64 {
    let list = cluster.ask(Method::GET, &format!("/agent/nodes?{query}")).send().await.ok();
    list["total"].as_u64().unwrap()
}

#[tokio::test]
async fn several_memories_are_changed_alike_and_what_is_not_there_is_told() {
    let cluster = options().start();
    let ids = several(&cluster, 3, json!({"label": "red fox"})).await;
    let nobody = "01936d5e-0000-7000-8000-000000000000";
    let body = json!({
        "ids": [ids[0], nobody, ids[1], ids[1]],
        "label": "blue sea", "is_pinned": true, "namespace": "moved", "current_heat": 0.25,
        "memory_type": "fact",
    });
    let done = cluster.ask(Method::POST, "/agent/nodes/bulk-patch").json(&body).send().await.ok();
    assert_eq!(done["updated"], 2);
    let errors = done["errors"].as_array().unwrap();
    assert!(errors.len() == 1 && errors[0].as_str().unwrap().starts_with(nobody), "{done}");
    let moved = cluster.ask(Method::GET, "/agent/nodes?namespace=moved&search=sea").send().await;
    let moved = moved.ok();
    assert_eq!(moved["total"], 2);
    for memory in moved["items"].as_array().unwrap() {
        assert_eq!((&memory["is_pinned"], &memory["heat"]), (&json!(true), &json!(0.25)));
        assert_eq!(
            (&memory["label"], &memory["memory_type"]),
            (&json!("blue sea"), &json!("fact"))
        );
    }
    assert_eq!(total(&cluster, "search=fox").await, 1);
}

#[tokio::test]
async fn several_memories_are_deleted_by_id_or_by_filter_but_locked_ones_stay() {
    let cluster = options().start();
    let ids = several(&cluster, 4, json!({"label": "a", "namespace": "one"})).await;
    several(&cluster, 3, json!({"label": "b", "namespace": "two", "memory_type": "fact"})).await;
    several(&cluster, 2, json!({"label": "c", "namespace": "two"})).await;
    let path = format!("/agent/nodes/{}", ids[0]);
    cluster.ask(Method::PATCH, &path).json(&json!({"is_locked": true})).send().await.ok();
    let delete = async |body: Value| {
        cluster.ask(Method::POST, "/agent/nodes/bulk").json(&body).send().await.ok()
    };
    assert_eq!(delete(json!({"ids": [ids[1]]})).await["deleted"], 1);
    let typed = delete(json!({"memory_type": "fact", "namespace": "two"})).await;
    assert_eq!(typed["deleted"], 3);
    let named = delete(json!({"namespace": "one"})).await;
    assert_eq!((&named["deleted"], &named["refused"]), (&json!(2), &json!(1)));
    assert!(named["errors"][0].as_str().unwrap().contains("locked"), "{named}");
    assert_eq!(total(&cluster, "namespace=one").await, 1);
    assert_eq!(total(&cluster, "").await, 3);
}

#[tokio::test]
async fn a_deletion_takes_nothing_but_what_all_of_it_names() {
    let cluster = options().start();
    let fact = |namespace| json!({"label": "x", "memory_type": "fact", "namespace": namespace});
    let ids = several(&cluster, 1, fact("one")).await;
    several(&cluster, 1, fact("two")).await;
    several(&cluster, 1, json!({"label": "x", "namespace": "one"})).await;
    let delete = |body: Value| cluster.ask(Method::POST, "/agent/nodes/bulk").json(&body);
    let facts = json!({"memory_type": "fact"});
    let done = delete(facts).header("X-Namespace", "two").send().await.ok();
    assert_eq!((&done["deleted"], total(&cluster, "namespace=one").await), (&json!(1), 2));
    let both = json!({"ids": ids, "namespace": "two"});
    let done = delete(both).send().await.ok();
    assert_eq!((&done["deleted"], &done["refused"]), (&json!(0), &json!(1)), "{done}");
    let refused = delete(json!({"ids": ids, "memory_type": "dream"})).send().await;
    assert_eq!(
        (refused.status, &refused.body["field"]),
        (StatusCode::BAD_REQUEST, &json!("memory_type"))
    );
    let odd = delete(json!({"ids": ["no-id", ids[0]]})).send().await.ok();
    assert_eq!(odd["deleted"], 1, "what is no id keeps no other from it");
    assert_eq!(odd["errors"], json!(["no-id: no memory has this id"]));
}

#[tokio::test]
async fn nothing_said_deletes_nothing() {
    let cluster = options().start();
    several(&cluster, 2, json!({"label": "keep"})).await;
    for body in [None, Some(json!({})), Some(json!({"ids": []})), Some(json!({"label": "keep"}))] {
        let ask = cluster.ask(Method::POST, "/agent/nodes/bulk");
        let ask = match &body {
            Some(body) => ask.json(body),
            None => ask,
        };
        let refused = ask.send().await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body:?}");
        assert_eq!(refused.body["field"], "ids");
    }
    let bad = json!({"ids": [7]});
    let refused = cluster.ask(Method::POST, "/agent/nodes/bulk").json(&bad).send().await;
    assert_eq!(refused.body["field"], "ids[0]");
    let many = json!({"ids": vec!["01936d5e-0000-7000-8000-000000000000"; 501]});
    let refused = cluster.ask(Method::POST, "/agent/nodes/bulk-patch").json(&many).send().await;
    assert_eq!(refused.body["field"], "ids");
    assert_eq!(total(&cluster, "").await, 2);
}

#[tokio::test]
async fn more_than_one_command_holds_is_done_in_several() {
    let cluster = options().start();
    // Labels of 60 kB: some seventeen fill a batch.
    let label = "word ".repeat(12_000);
    let ids = several(&cluster, 40, json!({"label": label})).await;
    let body = json!({"ids": ids, "is_pinned": true});
    let done = cluster.ask(Method::POST, "/agent/nodes/bulk-patch").json(&body).send().await.ok();
    assert_eq!((&done["updated"], &done["remaining"]), (&json!(40), &json!(0)));
    assert_eq!(total(&cluster, "pinned=true").await, 40);
    let namespace = json!({"namespace": "default"});
    let done = cluster.ask(Method::POST, "/agent/nodes/bulk").json(&namespace).send().await.ok();
    assert_eq!(done["deleted"], 40);
}

#[tokio::test]
async fn the_memory_paths_are_the_same_under_another_name() {
    let cluster = options().start();
    let created = cluster.ask(Method::POST, "/agent/memory");
    let body = json!({"content": "under another name", "memory_type": "fact", "metadata": {}});
    let created = created.json(&body).send().await;
    assert_eq!(created.status, StatusCode::CREATED);
    let path = format!("/agent/memory/{}", created.body["id"].as_str().unwrap());
    assert_eq!(created.body["label"], "under another name");
    let patch = json!({"current_heat": 0.5});
    let changed = cluster.ask(Method::PATCH, &path).json(&patch).send().await.ok();
    assert_eq!(changed["heat"], 0.5);
    let listed = cluster.ask(Method::GET, "/agent/memory?memory_type=fact").send().await.ok();
    assert_eq!((&listed["total"], &listed["items"][0]["id"]), (&json!(1), &created.body["id"]));
    cluster.ask(Method::DELETE, &path).send().await.ok();
    assert_eq!(cluster.ask(Method::GET, &path).send().await.status, StatusCode::NOT_FOUND);
    let ids = several(&cluster, 2, json!({"label": "red fox"})).await;
    let bulk = cluster.ask(Method::POST, "/agent/nodes/bulk-delete").json(&json!({"ids": ids}));
    assert_eq!(bulk.send().await.ok()["deleted"], 2);
}
