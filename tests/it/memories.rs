//! The memory endpoints have the shapes and tolerances that published clients rely on.

use std::collections::BTreeSet;

use super::*;

async fn list(cluster: &Cluster, query: &str) -> Value {
    cluster.get(&format!("/agent/nodes{query}")).await
}

fn item_labels(page: &Value) -> Vec<&str> {
    labels(array(&page["items"]))
}

#[tokio::test]
async fn created_memory_has_all_fields_and_defaults() {
    let cluster = options().start();
    let response = cluster.send(Method::POST, "/agent/nodes", &json!({"label": "plain"})).await;
    assert_eq!(response.status, 201);
    assert_eq!(response.headers["x-hearth-node"], "1");
    assert!(response.number("x-hearth-index") > 0);
    let expected = json!({
        "label": "plain", "pointer_summary": "plain", "memory_type": "episodic",
        "namespace": "default", "current_heat": 1.0, "heat": 1.0, "base_utility": 0.0,
        "stability": 1.0, "is_pinned": false, "is_locked": false, "decay_class": "normal",
        "min_heat": 0.0, "modality": "text", "key_points": [], "recall_count": 0,
        "last_recalled_at": null, "tier": "hot",
    });
    assert_fields(&response.body, expected);
    assert!(string(&response.body["created_at"]).ends_with('Z'));
}

#[tokio::test]
async fn aliases_and_tolerances_of_published_clients_work() {
    let cluster = options().start();
    let memory = json!({
        "label": "short", "pointer_summary": "the full text", "heat": 0.8,
        "memory_type": "synthesis", "decay_class": "slow", "train_on_this": true,
        "metadata": {"any": "thing"}, "min_heat": null,
    });
    let expected = json!({
        "label": "the full text", "current_heat": 0.8, "memory_type": "semantic",
        "decay_class": "persistent",
    });
    assert_fields(&cluster.create(&memory).await, expected);
    let both = cluster.create(&json!({"label": "x", "heat": 0.2, "initial_heat": 0.6})).await;
    assert_eq!(both["heat"], 0.6, "initial_heat wins");
    let create = cluster.request(Method::POST, "/agent/nodes").header("X-Namespace", "from-header");
    let named = create.json(&json!({"label": "y"})).send().await.ok();
    assert_eq!(named["namespace"], "from-header");
    for query in ["?sort=current_heat", "?sort=nonsense", "?page_size=200", "?sort_by=heat&limit=2"]
    {
        assert_eq!(list(&cluster, query).await["total"], 3, "{query}");
    }
    assert_eq!(list(&cluster, "?page_size=200").await["page_size"], 100);
}

#[tokio::test]
async fn update_changes_only_the_named_fields() {
    let cluster = options().start();
    let before = cluster.create(&json!({"label": "before", "key_points": ["kept"]})).await;
    let path = format!("/agent/nodes/{}", id(&before));
    let changes = json!({
        "label": "after", "memory_type": "fact", "is_pinned": true, "is_locked": true,
        "namespace": "moved", "current_heat": 0.25,
    });
    let after = cluster.patch(&path, &changes).await;
    assert_fields(&after, changes);
    assert_fields(&after, json!({"key_points": ["kept"], "created_at": before["created_at"]}));
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str());
    assert_eq!(cluster.get(&path).await, after, "the response equals the stored memory");
    let found = list(&cluster, "?search=after").await;
    assert_eq!(item_labels(&found), ["after"], "the new text is indexed");
    assert_eq!(list(&cluster, "?search=before").await["total"], 0, "the old text is not");
}

#[tokio::test]
async fn locked_memory_cannot_be_deleted() {
    let cluster = options().start();
    let memory = cluster.create(&json!({"label": "precious"})).await;
    let path = format!("/agent/nodes/{}", id(&memory));
    cluster.patch(&path, &json!({"is_locked": true})).await;
    let rejected = cluster.request(Method::DELETE, &path).send().await;
    rejected.assert_error(409, "locked");
    cluster.patch(&path, &json!({"is_locked": false})).await;
    cluster.delete(&path).await;
    assert_eq!(cluster.request(Method::GET, &path).send().await.status, 404);
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, 404);
}

#[tokio::test]
async fn lists_filter_sort_and_page() {
    let cluster = options().start();
    for at in 0..25 {
        let namespace = if at % 2 == 0 { "even" } else { "odd" };
        let kind = ["episodic", "semantic", "fact"][at % 3];
        let memory = json!({
            "label": format!("memory number{at} shared"), "namespace": namespace,
            "memory_type": kind, "initial_heat": at as f64 / 100.0, "is_pinned": true,
        });
        cluster.create(&memory).await;
    }
    let page = list(&cluster, "?page=2&page_size=10").await;
    assert_fields(&page, json!({"total": 25, "page": 2, "page_size": 10}));
    assert_eq!(item_labels(&page)[0], "memory number14 shared", "heat descending by default");
    for (number, count) in [(3, 5), (9, 0)] {
        let page = list(&cluster, &format!("?page={number}&page_size=10")).await;
        assert_eq!(array(&page["items"]).len(), count);
    }
    let ascending = list(&cluster, "?sort=heat&order=asc&page_size=2").await;
    assert_eq!(item_labels(&ascending), ["memory number0 shared", "memory number1 shared"]);
    let newest = list(&cluster, "?sort=updated_at&page_size=1").await;
    assert_eq!(item_labels(&newest), ["memory number24 shared"]);
    let by_type = list(&cluster, "?sort=memory_type&order=asc&page_size=100").await;
    let types: Vec<_> =
        array(&by_type["items"]).iter().map(|item| item["memory_type"].as_str()).collect();
    assert!(types.is_sorted());
    assert_eq!(list(&cluster, "?namespace=even").await["total"], 13);
    assert_eq!(list(&cluster, "?namespace=*").await["total"], 25);
    assert_eq!(list(&cluster, "?namespace=never-used").await["total"], 0);
    assert_eq!(list(&cluster, "?memory_type=fact").await["total"], 8);
    assert_eq!(list(&cluster, "?pinned=false").await["total"], 0);
    assert_eq!(list(&cluster, "?search=number7+SHARED").await["total"], 1, "all words, any case");
    assert_eq!(list(&cluster, "?search=number7%20absent").await["total"], 0);
}

/// A program reads all pages while others delete, in any order: what stays is returned once.
#[tokio::test]
async fn deletions_do_not_move_cursors() {
    let cluster = options().start();
    for first in (0..450).step_by(50) {
        let nodes = (first..first + 50).map(|number| {
            let heat = f64::from(number % 7) / 7.0;
            json!({"label": format!("note {number}"), "initial_heat": heat})
        });
        let nodes: Vec<_> = nodes.collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    for (round, order) in [
        "sort=heat",
        "sort=created_at&order=asc",
        "sort=memory_type&order=desc",
        "sort=updated_at",
        "sort=heat&order=asc",
    ]
    .into_iter()
    .enumerate()
    {
        let (mut seen, mut cursor, mut deleted) = (BTreeSet::new(), String::new(), 0);
        let total = list(&cluster, "").await["total"].as_u64().unwrap();
        loop {
            let page = list(&cluster, &format!("?{order}&page_size=40{cursor}")).await;
            let ids: Vec<_> = array(&page["items"]).iter().map(id).collect();
            assert!(ids.iter().all(|id| seen.insert((*id).to_owned())), "none twice: {order}");
            // What was read is deleted, now and then.
            for id in ids.iter().skip(round).step_by(17) {
                cluster.delete(&format!("/agent/nodes/{id}")).await;
                deleted += 1;
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert!(deleted > 5 && seen.len() as u64 == total, "{order}: {} of {total}", seen.len());
    }
    let page = list(&cluster, "?sort=created_at&page_size=1").await;
    let path = format!("/agent/nodes?cursor={}", string(&page["next_cursor"]));
    cluster.request(Method::GET, &path).send().await.assert_invalid("cursor");
    cluster.request(Method::GET, "/agent/nodes?cursor=7").send().await.assert_invalid("cursor");
}

#[tokio::test]
async fn batch_is_created_whole_or_not_at_all() {
    let cluster = options().start();
    let nodes: Vec<Value> = (0..50).map(|at| json!({"label": format!("item {at}")})).collect();
    let response = cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    let results = array(&response["results"]);
    assert_eq!(results.len(), 50);
    assert_fields(&results[7], json!({"status": "created", "label": "item 7"}));
    let bad = json!({"nodes": [{"label": "good"}, {"label": "bad", "heat": 2}]});
    cluster.assert_rejected("/agent/nodes/batch", &bad, "nodes[1].heat").await;
    let large = json!({"nodes": vec![labelled("x".repeat(60 << 10)); 9]});
    let response = cluster.request(Method::POST, "/agent/nodes/batch").json(&large).send().await;
    assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE, "{response:?}");
    assert_eq!(list(&cluster, "").await["total"], 50);
}
