//! Keys, access rules, activity, and counts of a tenant.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{Cluster, Request, array, converged, eventually, id, string};

use crate::options;

/// Creates a key of a role, which all nodes then accept.
async fn create_key(cluster: &Cluster, name: &str, role: &str) -> Value {
    let body = json!({"name": name, "role": role});
    let created = cluster.request(Method::POST, "/keys").json(&body).send().await;
    assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
    converged(cluster).await;
    created.body
}

#[tokio::test]
async fn keys_are_shown_once_and_limited_by_role() {
    let cluster = options().start();
    let reader = create_key(&cluster, "eyes", "reader").await;
    let agent = create_key(&cluster, "hands", "agent").await;
    assert!(string(&reader["key"]).starts_with("sk-"));
    let read = |method, path| cluster.request_as(&reader, method, path);
    let write = |method, path| cluster.request_as(&agent, method, path);
    let memory = json!({"label": "by hands"});
    assert_eq!(read(Method::POST, "/agent/nodes").json(&memory).send().await.status, 403);
    write(Method::POST, "/agent/nodes").json(&memory).send().await.ok();
    assert_eq!(read(Method::GET, "/agent/nodes").send().await.ok()["total"], 1);
    for (method, path) in [
        (Method::GET, "/keys"),
        (Method::PATCH, "/settings/thermo"),
        (Method::GET, "/admin/dashboard"),
        (Method::GET, "/namespaces/acl"),
    ] {
        assert_eq!(write(method, path).send().await.status, StatusCode::FORBIDDEN, "{path}");
    }
    let keys = cluster.get("/keys").await;
    let keys = array(&keys["keys"]);
    assert_eq!(keys.len(), 3);
    assert!(keys.iter().all(|key| key["key"].is_null()), "a key's text is shown once");

    let path = format!("/keys/{}", id(&reader));
    cluster.delete(&path).await;
    assert_eq!(read(Method::GET, "/agent/nodes").send().await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(cluster.request(Method::DELETE, &path).send().await.status, StatusCode::NOT_FOUND);
    let own = keys.iter().find(|key| key["role"] == "admin").unwrap();
    let last = format!("/keys/{}", id(own));
    let rejected = cluster.request(Method::DELETE, &last).send().await;
    assert_eq!(rejected.status, StatusCode::CONFLICT, "the last admin key stays");
    for (body, field) in
        [(json!({"name": 5}), "name"), (json!({"name": "x", "role": "operator"}), "role")]
    {
        let rejected = cluster.request(Method::POST, "/keys").json(&body).send().await;
        assert_eq!(rejected.body["field"], field);
    }
}

#[tokio::test]
async fn access_rules_apply_on_every_node() {
    let cluster = options().nodes(3).start();
    let agent = create_key(&cluster, "helper", "agent").await;
    for namespace in ["open", "closed"] {
        let body = json!({"label": format!("fox of {namespace}"), "namespace": namespace});
        cluster.create(&body).await;
    }
    let listed = cluster.get("/agent/nodes?namespace=closed").await;
    let memory = id(&listed["items"][0]);
    let closed = format!("/agent/nodes/{memory}");
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    let created = cluster.post("/namespaces/acl", &rule).await;
    converged(&cluster).await;
    let request = |method, path: &str| cluster.request_as(&agent, method, path);
    let forbidden = async |request: Request| {
        request.send().await.assert_error(403, "namespace_forbidden");
    };
    let search = |namespace: &str| {
        request(Method::POST, "/agent/search")
            .json(&json!({"query": "fox", "namespace": namespace}))
    };
    forbidden(search("closed")).await;
    let found = search("*").send().await.ok();
    assert_eq!(array(&found).len(), 1, "only the readable memory: {found}");
    assert_eq!(request(Method::GET, "/agent/nodes").send().await.ok()["total"], 1);
    forbidden(request(Method::GET, &closed)).await;
    forbidden(request(Method::PATCH, &closed).json(&json!({"is_pinned": true}))).await;
    forbidden(request(Method::DELETE, &closed)).await;
    let create = json!({"label": "x", "namespace": "closed"});
    forbidden(request(Method::POST, "/agent/nodes").json(&create)).await;
    let feedback = json!({"node_id": memory, "signal": "wrong"});
    forbidden(request(Method::POST, "/feedback").json(&feedback)).await;
    let bulk = json!({"ids": [memory]});
    let bulk = request(Method::POST, "/agent/nodes/bulk").json(&bulk).send().await.ok();
    assert_eq!((&bulk["deleted"], &bulk["rejected"]), (&json!(0), &json!(1)));
    // Rules do not apply to admins.
    assert_eq!(cluster.at(2).get("/agent/nodes").await["total"], 2);

    let rules = cluster.at(1).get("/namespaces/acl").await;
    assert_eq!(rules["items"][0]["policy"], "deny");
    let path = format!("/namespaces/acl/{}", id(&created));
    assert_eq!(cluster.delete(&path).await["policy"], "default");
    converged(&cluster).await;
    assert_eq!(request(Method::GET, "/agent/nodes").send().await.ok()["total"], 2);
}

#[tokio::test]
async fn activity_lists_writes_and_accepts_notes() {
    let cluster = options().start();
    let stored = cluster.create(&json!({"label": "red fox"})).await;
    let path = format!("/agent/nodes/{}", id(&stored));
    cluster.patch(&path, &json!({"is_pinned": true})).await;
    cluster.patch(&path, &json!({"label": "grey fox"})).await;
    let note = json!({"action": "login", "target_label": "console", "metadata": {"ip": "::1"}});
    let noted = cluster.request(Method::POST, "/activity").json(&note).send().await;
    assert_eq!(noted.status, StatusCode::CREATED);
    cluster.delete(&path).await;
    let (mut actions, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = cluster.get(&format!("/activity?limit=2&cursor={cursor}")).await;
        for item in array(&page["items"]) {
            assert_eq!(item["actor"], "admin");
            actions.push(string(&item["action"]).to_owned());
        }
        match page["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(actions, ["memory.delete", "login", "memory.patch", "memory.pin", "memory.add"]);
    let first = cluster.get("/activity?limit=2").await;
    assert_eq!(first["items"][0]["target_label"], "grey fox");
    assert_eq!(first["items"][1]["metadata"], json!({"ip": "::1"}));
    let bad = cluster.request(Method::GET, "/activity?cursor=x").send().await;
    bad.assert_invalid("cursor");
    let empty = cluster.request(Method::POST, "/activity").send().await;
    assert_eq!(empty.body["field"], "action");
}

#[tokio::test]
async fn client_reads_its_identity_and_tenant_counts() {
    let cluster = options().start();
    cluster.create(&json!({"label": "four", "namespace": "one", "memory_type": "fact"})).await;
    cluster.create(&json!({"label": "six by now", "namespace": "two"})).await;
    let verified = cluster.get("/auth/verify").await;
    assert_eq!(
        (&verified["authenticated"], &verified["agent_label"]),
        (&json!(true), &json!("admin"))
    );
    let rename = json!({"org_name": "The Foxes"});
    let org = cluster.patch("/org", &rename).await;
    assert_eq!((&org["org_name"], &org["seats_used"]), (&json!("The Foxes"), &json!(1)));
    assert_eq!(cluster.get("/org").await["org_name"], "The Foxes");
    let status = cluster.get("/agent/memory/status?namespace=one").await;
    assert_eq!(status["stats"]["namespace_memories"], 1);
    assert_eq!(status["stats"]["total_memories"], 2);
    let storage = cluster.get("/agent/storage").await;
    // Labels of 4 and 10 bytes, vectors of 384 halves.
    assert_eq!(storage["total_size_bytes"], 4 + 10 + 2 * 2 * 384);
    assert_eq!(storage["namespaces"], json!({"one": 1, "two": 1}));
    assert_eq!(cluster.get("/metrics").await["memories"], 2);
    let own =
        cluster.request(Method::PUT, "/namespaces/default").json(&json!({"namespace": "two"}));
    assert_eq!(own.send().await.ok()["namespace"], "two");
    let body = json!({"query": "by now", "explain": true});
    let hits = cluster.post("/agent/search", &body).await;
    assert_eq!(hits[0]["explain"]["namespace_boost"], 0.1, "the key's own namespace is boosted");
}

#[tokio::test]
async fn counts_agree_on_all_nodes_and_survive_failover() {
    let cluster = options().nodes(3).start();
    let stored = cluster.create(&json!({"label": "red fox", "memory_type": "fact"})).await;
    for node in cluster.nodes() {
        let body = json!({"query": "red fox"});
        let request = node.request(Method::POST, "/agent/search");
        request.header("X-Hearth-Consistency", "linearizable").json(&body).send().await.ok();
    }
    let feedback = json!({"node_id": stored["id"], "signal": "relevant"});
    cluster.post("/feedback", &feedback).await;
    let leader = cluster.leader().await;
    let rest = cluster.at((leader + 1) % 3);
    let analytics = async || rest.get("/analytics/recall").await;
    let found = eventually("searches are counted", analytics, |found| found["searches"] == 3).await;
    assert_eq!((&found["searches_with_results"], &found["hit_rate"]), (&json!(3), &json!(1.0)));
    let fact = |found: &Value| {
        let stats = array(&found["stats"]);
        stats.iter().find(|of_type| of_type["memory_type"] == "fact").unwrap().clone()
    };
    assert_eq!(
        (&fact(&found)["total_recalls"], &fact(&found)["relevant_count"]),
        (&json!(3), &json!(1))
    );
    assert_eq!(fact(&found)["relevance_ratio"], 1.0);
    let dashboard = rest.get("/admin/dashboard").await;
    assert_eq!(
        (&dashboard["total_nodes"], &dashboard["memory_types"]["fact"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(dashboard["heat_distribution"][0]["count"], 1);
    assert_eq!(dashboard["hottest"]["id"], stored["id"]);
    assert_eq!(dashboard["recent_activity"][0]["action"], "memory.feedback");

    cluster.at(leader).kill();
    rest.create(&json!({"label": "the next leader"})).await;
    let after = rest.get("/admin/recall-analytics").await;
    assert_eq!(fact(&after), fact(&found), "no count is lost with the leader");
    let usage = async || rest.get("/admin/usage").await;
    let counted =
        |usage: &Value| usage["nodes_added"] == 2 && usage["sync_requests"].as_u64() > Some(5);
    let usage = eventually("requests are counted", usage, counted).await;
    assert!(usage["max_latency_ms"].as_f64() >= usage["avg_latency_ms"].as_f64());
    assert!(string(&usage["billing_period_start"]).ends_with("-01"));
}
