//! Who may rewrite a memory of another key, and what tells of it.

use super::*;

async fn key(cluster: &Cluster, name: &str, role: &str) -> Value {
    cluster.post("/keys", &json!({"name": name, "role": role})).await
}

async fn patch(node: &Node, key: &Value, id: &str, body: Value) -> Response {
    node.request_as(key, Method::PATCH, &format!("/agent/nodes/{id}")).json(&body).send().await
}

/// The changes of a memory in the audit log, the oldest first.
async fn changes(cluster: &Cluster, id: &str) -> Vec<Value> {
    let found = cluster.get("/admin/audit?chain=data&order=asc").await;
    let items = array(&found["items"]).iter().cloned();
    let of_memory = |item: &Value| string(&item["target"]).ends_with(id);
    items.filter(|item| item["action"] == "memory.change" && of_memory(item)).collect()
}

#[tokio::test]
async fn changed_text_names_who_changed_it() {
    let cluster = options().start();
    let (author, other) =
        (key(&cluster, "author", "agent").await, key(&cluster, "other", "agent").await);
    let rule = json!({"label": "Never pay without asking.", "is_pinned": true});
    let created = cluster.request_as(&author, Method::POST, "/agent/nodes").json(&rule);
    let id = id(&created.send().await.ok()).to_owned();
    patch(&cluster, &author, &id, json!({"is_locked": true})).await.ok();
    patch(&cluster, &other, &id, json!({"current_heat": 0.5})).await.ok();
    let locked = cluster.get(&format!("/agent/nodes/{id}")).await;
    assert_eq!(locked["changed_by"]["agent"], "author");
    patch(&cluster, &other, &id, json!({"label": "Always pay."})).await.ok();
    patch(&cluster, &other, &id, json!({"namespace": "elsewhere"})).await.ok();
    let changed = cluster.get(&format!("/agent/nodes/{id}")).await;
    assert_eq!(changed["origin"]["agent"], "author");
    assert_eq!(changed["changed_by"], json!({"key_id": other["id"], "agent": "other"}));
    let context = cluster.post("/agent/context", &json!({})).await;
    assert!(string(&context["context"]).contains(r#""changed_by":"other""#), "{context}");
    let found = changes(&cluster, &id).await;
    let [locked, rewritten, moved] = &found[..] else { panic!("{found:?}") };
    assert_eq!(locked["after"], json!({"is_locked": "true"}));
    let digests = [&rewritten["before"], &rewritten["after"]].map(|it| string(&it["label"]));
    assert!(digests[0] != digests[1] && digests.iter().all(|it| it.starts_with("SHA-256 ")));
    assert!(!rewritten.to_string().contains("pay"), "no text: {rewritten}");
    assert_eq!(
        (&moved["before"]["namespace"], &moved["after"]["namespace"]),
        (&json!("default"), &json!("elsewhere"))
    );
}

#[tokio::test]
async fn each_way_to_rewrite_names_who_did() {
    let cluster = options().start();
    let author = key(&cluster, "author", "agent").await;
    let tagger = key(&cluster, "tagger", "agent").await;
    let other = key(&cluster, "other", "agent").await;
    let send = |key: &Value, path: &str, body: Value| {
        cluster.request_as(key, Method::POST, path).json(&body).send()
    };
    let id = id(&send(&author, "/agent/nodes", labelled("Never pay.")).await.ok()).to_owned();
    patch(&cluster, &author, &id, json!({"is_locked": true})).await.ok();
    let tag = json!({"event": "on_boost", "action": "tag", "action_config": {"tag": "hot"}});
    send(&tagger, "/triggers", tag).await.ok();
    patch(&cluster, &author, &id, json!({"current_heat": 0.1})).await.ok();

    patch(&cluster, &other, &id, json!({"current_heat": 1.0})).await.ok();
    let bulk = json!({"ids": [id], "label": "Always pay.", "namespace": "elsewhere"});
    send(&other, "/agent/nodes/bulk-patch", bulk).await.ok();
    let instead = json!({"label": "Pay.", "namespace": "elsewhere", "supersedes": id});
    send(&other, "/agent/nodes", instead).await.ok();

    let found = changes(&cluster, &id).await;
    let names: Vec<_> = found.iter().map(|item| string(&item["actor"]["name"])).collect();
    assert_eq!(names, ["author", "tagger", "other", "other"], "{found:?}");
    for (at, changed) in
        [&["label"][..], &["label", "namespace"], &["superseded_by"]].iter().enumerate()
    {
        let after = found[at + 1]["after"].as_object().unwrap();
        assert!(after.keys().eq(*changed), "{found:?}");
    }
}

#[tokio::test]
async fn tenant_may_guard_locked_memories() {
    let cluster = options().start();
    let (author, other) =
        (key(&cluster, "author", "agent").await, key(&cluster, "other", "agent").await);
    let id = cluster.store(&labelled("kept")).await;
    patch(&cluster, &author, &id, json!({"is_locked": true})).await.ok();
    patch(&cluster, &other, &id, json!({"label": "free for all", "is_locked": true})).await.ok();
    assert_eq!(cluster.patch("/org", &json!({"guards_locked": true})).await["guards_locked"], true);
    for body in [
        json!({"label": "mine"}),
        json!({"is_locked": false}),
        json!({"namespace": "mine"}),
        json!({"tags": ["mine"]}),
    ] {
        patch(&cluster, &other, &id, body).await.assert_error(403, "locked_by_other");
    }
    let bulk = json!({"ids": [id], "is_locked": false});
    let bulk = cluster.request_as(&other, Method::POST, "/agent/nodes/bulk-patch").json(&bulk);
    let bulk = bulk.send().await;
    assert!(bulk.body.to_string().contains("another key has locked"), "{}", bulk.body);
    let post =
        |path: &str, body: Value| cluster.request_as(&other, Method::POST, path).json(&body).send();
    let supersedes = post("/agent/nodes", json!({"label": "instead", "supersedes": id})).await;
    supersedes.assert_error(403, "locked_by_other");
    let own = post("/agent/nodes", labelled("of the other")).await.ok();
    let fold = post("/agent/fold", json!({"node_ids": [id, own["id"]], "label": "both"})).await;
    fold.assert_error(403, "locked_by_other");
    let tag = json!({"event": "on_boost", "action": "tag", "action_config": {"tag": "mine"}});
    post("/triggers", tag).await.ok();
    patch(&cluster, &author, &id, json!({"current_heat": 0.1})).await.ok();
    patch(&cluster, &other, &id, json!({"is_pinned": true, "current_heat": 1.0})).await.ok();
    let label = cluster.get(&format!("/agent/nodes/{id}")).await["label"].clone();
    assert!(!string(&label).contains("#mine"), "{label}");
    patch(&cluster, &author, &id, json!({"label": "the author's"})).await.ok();
    cluster.patch(&format!("/agent/nodes/{id}"), &json!({"is_locked": false})).await;
    patch(&cluster, &other, &id, json!({"label": "free"})).await.ok();
}
