//! Bulk operations change each memory as the single operation does, and report the memories that
//! they could not change. An empty filter selects nothing.

use super::*;

async fn total(cluster: &Cluster, query: &str) -> u64 {
    let list = cluster.get(&format!("/agent/nodes?{query}")).await;
    list["total"].as_u64().unwrap()
}

#[tokio::test]
async fn bulk_update_reports_missing_memories() {
    let cluster = options().start();
    let ids = cluster.store_each(vec![labelled("red fox"); 3]).await;
    let absent = "01936d5e-0000-7000-8000-000000000000";
    let body = json!({
        "ids": [ids[0], absent, ids[1], ids[1]],
        "label": "blue sea", "is_pinned": true, "namespace": "moved", "current_heat": 0.25,
        "memory_type": "fact",
    });
    let done = cluster.post("/agent/nodes/bulk-patch", &body).await;
    assert_eq!(done["updated"], 2);
    let errors = array(&done["errors"]);
    assert!(errors.len() == 1 && string(&errors[0]).starts_with(absent), "{done}");
    let moved = cluster.get("/agent/nodes?namespace=moved&search=sea").await;
    assert_eq!(moved["total"], 2);
    for memory in array(&moved["items"]) {
        assert_fields(memory, json!({"is_pinned": true, "heat": 0.25}));
        assert_fields(memory, json!({"label": "blue sea", "memory_type": "fact"}));
    }
    assert_eq!(total(&cluster, "search=fox").await, 1);
}

#[tokio::test]
async fn bulk_delete_skips_locked_memories() {
    let cluster = options().start();
    let ids = cluster.store_each(vec![json!({"label": "a", "namespace": "one"}); 4]).await;
    cluster
        .store_each(vec![json!({"label": "b", "namespace": "two", "memory_type": "fact"}); 3])
        .await;
    cluster.store_each(vec![json!({"label": "c", "namespace": "two"}); 2]).await;
    let path = format!("/agent/nodes/{}", ids[0]);
    cluster.patch(&path, &json!({"is_locked": true})).await;
    let delete = async |body: Value| cluster.post("/agent/nodes/bulk", &body).await;
    assert_eq!(delete(json!({"ids": [ids[1]]})).await["deleted"], 1);
    let typed = delete(json!({"memory_type": "fact", "namespace": "two"})).await;
    assert_eq!(typed["deleted"], 3);
    let named = delete(json!({"namespace": "one"})).await;
    assert_fields(&named, json!({"deleted": 2, "rejected": 1}));
    assert!(string(&named["errors"][0]).contains("locked"), "{named}");
    assert_eq!(total(&cluster, "namespace=one").await, 1);
    assert_eq!(total(&cluster, "").await, 3);
}

#[tokio::test]
async fn bulk_delete_takes_the_intersection_of_its_filters() {
    let cluster = options().start();
    let fact = |namespace| json!({"label": "x", "memory_type": "fact", "namespace": namespace});
    let other = json!({"label": "x", "namespace": "one"});
    let ids = &cluster.store_each([fact("one"), fact("two"), other]).await[..1];
    let delete = |body: Value| cluster.request(Method::POST, "/agent/nodes/bulk").json(&body);
    let facts = json!({"memory_type": "fact"});
    let done = delete(facts).header("X-Namespace", "two").send().await.ok();
    assert_eq!((&done["deleted"], total(&cluster, "namespace=one").await), (&json!(1), 2));
    let both = json!({"ids": ids, "namespace": "two"});
    let done = delete(both).send().await.ok();
    assert_fields(&done, json!({"deleted": 0, "rejected": 1}));
    let dreams = delete(json!({"ids": ids, "memory_type": "dream"}));
    dreams.send().await.assert_invalid("memory_type");
    let odd = delete(json!({"ids": ["no-id", ids[0]]})).send().await.ok();
    assert_eq!(odd["deleted"], 1, "an invalid id does not stop the others");
    assert_eq!(odd["errors"], json!(["no-id: no memory has this id"]));
}

#[tokio::test]
async fn bulk_delete_without_a_filter_is_rejected() {
    let cluster = options().start();
    cluster.store_each(vec![labelled("keep"); 2]).await;
    cluster.request(Method::POST, "/agent/nodes/bulk").send().await.assert_invalid("ids");
    let many = json!({"ids": vec!["01936d5e-0000-7000-8000-000000000000"; 501]});
    for (path, body, field) in [
        ("/agent/nodes/bulk", json!({}), "ids"),
        ("/agent/nodes/bulk", json!({"ids": []}), "ids"),
        ("/agent/nodes/bulk", json!({"label": "keep"}), "ids"),
        ("/agent/nodes/bulk", json!({"ids": [7]}), "ids[0]"),
        ("/agent/nodes/bulk-patch", many, "ids"),
    ] {
        cluster.assert_rejected(path, &body, field).await;
    }
    assert_eq!(total(&cluster, "").await, 2);
}

#[tokio::test]
async fn large_bulk_operations_take_several_commands() {
    let cluster = options().start();
    // Labels of 60 kB: some seventeen fill a batch.
    let label = "word ".repeat(12_000);
    let ids = cluster.store_each(vec![labelled(label); 40]).await;
    let body = json!({"ids": ids, "is_pinned": true});
    let done = cluster.post("/agent/nodes/bulk-patch", &body).await;
    assert_fields(&done, json!({"updated": 40, "remaining": 0}));
    assert_eq!(total(&cluster, "pinned=true").await, 40);
    let done = cluster.post("/agent/nodes/bulk", &json!({"namespace": "default"})).await;
    assert_eq!(done["deleted"], 40);
}

#[tokio::test]
async fn memory_paths_are_aliases_of_node_paths() {
    let cluster = options().start();
    let body = json!({"content": "under another name", "memory_type": "fact", "metadata": {}});
    let created = cluster.send(Method::POST, "/agent/memory", &body).await;
    assert_eq!(created.status, StatusCode::CREATED);
    let path = format!("/agent/memory/{}", id(&created.body));
    assert_eq!(created.body["label"], "under another name");
    assert_eq!(cluster.patch(&path, &json!({"current_heat": 0.5})).await["heat"], 0.5);
    let listed = cluster.get("/agent/memory?memory_type=fact").await;
    assert_eq!((&listed["total"], &listed["items"][0]["id"]), (&json!(1), &created.body["id"]));
    cluster.delete(&path).await;
    assert_eq!(cluster.request(Method::GET, &path).send().await.status, StatusCode::NOT_FOUND);
    let ids = cluster.store_each(vec![labelled("red fox"); 2]).await;
    let bulk = cluster.post("/agent/nodes/bulk-delete", &json!({"ids": ids})).await;
    assert_eq!(bulk["deleted"], 2);
}
