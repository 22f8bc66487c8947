//! Pages, cursors and orders tell a restricted key nothing of what is closed to it.

use super::*;

async fn get_as(cluster: &Cluster, key: &Value, path: &str) -> Value {
    cluster.request_as(key, Method::GET, path).send().await.ok()
}

#[tokio::test]
async fn pages_of_candidates_name_open_memories_only() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let closed = json!({"label": "closed to the outsider", "namespace": "closed"});
    let closed = cluster.store(&closed).await;
    let first = get_as(&cluster, &key, "/agent/consolidation/candidates?limit=1").await;
    assert_eq!(first, json!({"groups": [], "next_cursor": null}));
    for _ in 0..2 {
        let twin = json!({"label": "a red fox", "namespace": "open", "on_duplicate": "allow"});
        cluster.store(&twin).await;
    }
    cluster.store(&json!({"label": "also closed", "namespace": "closed"})).await;
    // Also after the id of a closed one.
    for after in [String::new(), format!("&cursor={closed}")] {
        let path = format!("/agent/consolidation/candidates?limit=1{after}");
        let page = get_as(&cluster, &key, &path).await;
        let group = array(&page["groups"][0]["memories"]);
        assert_eq!(group.len(), 2, "{page}");
        let next =
            format!("/agent/consolidation/candidates?cursor={}", string(&page["next_cursor"]));
        assert_eq!(get_as(&cluster, &key, &next).await, json!({"groups": [], "next_cursor": null}));
    }
}

#[tokio::test]
async fn cursors_of_triggers_count_no_others() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let trigger = |name: &str| json!({"event": "on_store", "action": "notify", "name": name});
    let mut own = Vec::new();
    for number in 0..3 {
        let request = cluster.request_as(&key, Method::POST, "/triggers");
        let created = request.json(&trigger(&format!("own {number}"))).send().await.ok();
        own.push(created["id"].clone());
        cluster.post("/triggers", &trigger(&format!("other {number}"))).await;
    }
    let mut found = Vec::new();
    let mut path = "/triggers?limit=1".to_owned();
    loop {
        let page = get_as(&cluster, &key, &path).await;
        found.extend(array(&page["items"]).iter().map(|item| item["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        assert_eq!(next, found.last().unwrap(), "the cursor is the last trigger of the page");
        path = format!("/triggers?limit=1&cursor={next}");
        if found.len() == 1 {
            // The list goes on after a trigger that is gone.
            cluster.delete(&format!("/triggers/{next}")).await;
        }
    }
    assert_eq!(found, own);
}

#[tokio::test]
async fn rules_of_closed_namespaces_are_closed() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    for (path, rule) in [
        ("/settings/retention", json!({"action": "archive", "after_days": 9})),
        ("/settings/guard", json!({"secrets": "block"})),
    ] {
        let rule = |namespace: Value| {
            let mut rule = rule.clone();
            rule["namespace"] = namespace;
            rule
        };
        let rules = [rule(json!("closed")), rule(json!("open")), rule(Value::Null)];
        cluster.send(Method::PUT, path, &json!({"rules": rules})).await.ok();
        let read = get_as(&cluster, &key, path).await;
        let namespaces: Vec<_> = array(&read["rules"]).iter().map(|it| &it["namespace"]).collect();
        assert_eq!(namespaces, [&json!("open"), &Value::Null]);
        assert_eq!(array(&cluster.get(path).await["rules"]).len(), 3);
    }
}

#[tokio::test]
async fn order_of_bulk_deletion_shows_no_others() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let mut closed = Vec::new();
    for number in 0..6 {
        closed.push(
            cluster.store(&json!({"label": format!("{number}"), "namespace": "closed"})).await,
        );
        cluster.store(&json!({"label": format!("open {number}"), "namespace": "open"})).await;
    }
    for id in &closed[2..] {
        cluster.delete(&format!("/agent/nodes/{id}")).await;
    }
    let own: Vec<_> = (6..12)
        .map(|number| json!({"label": format!("open {number}"), "namespace": "open"}))
        .collect();
    cluster.store_each(own).await;
    let request = cluster.request_as(&key, Method::POST, "/agent/nodes/bulk");
    let delete = json!({"namespace": "open"});
    request.json(&delete).send().await.ok();
    let activity = get_as(&cluster, &key, "/activity?limit=12").await;
    let ids: Vec<_> =
        array(&activity["items"]).iter().map(|item| item["target_id"].clone()).collect();
    assert_eq!(ids.len(), 12, "{activity}");
    assert!(ids.is_sorted_by(|later, earlier| string(later) > string(earlier)), "{ids:?}");
}

#[tokio::test]
async fn request_with_two_keys_has_none() {
    let cluster = options().start();
    let key = denied_key(&cluster).await;
    let request = cluster.request_as(&key, Method::GET, "/agent/nodes");
    let other = format!("Bearer {}", cluster.key);
    request.header("Authorization", &other).send().await.assert_error(401, "unauthorized");
}
