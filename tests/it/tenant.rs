//! Keys, access rules, activity, and counts of a tenant.

use super::*;

/// Creates a key of a role, which all nodes then accept.
async fn create_key(cluster: &Cluster, name: &str, role: &str) -> Value {
    let body = json!({"name": name, "role": role});
    let created = cluster.send(Method::POST, "/keys", &body).await;
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
    cluster.assert_rejected("/keys", &json!({"name": 5}), "name").await;
    cluster.assert_rejected("/keys", &json!({"name": "x", "role": "operator"}), "role").await;
}

#[tokio::test]
async fn access_rules_apply_on_every_node() {
    let cluster = options().nodes(3).start();
    let agent = create_key(&cluster, "helper", "agent").await;
    cluster.create(&json!({"label": "fox of open", "namespace": "open"})).await;
    let memory = cluster.store(&json!({"label": "fox of closed", "namespace": "closed"})).await;
    let closed = format!("/agent/nodes/{memory}");
    let rule = json!({"agent_id": "helper", "namespace": "closed", "policy": "deny"});
    let created = cluster.post("/namespaces/acl", &rule).await;
    converged(&cluster).await;
    let request = |method, path: &str| cluster.request_as(&agent, method, path);
    let forbidden = async |request: Request| {
        request.send().await.assert_error(403, "namespace_forbidden");
    };
    let search = |namespace: &str| {
        let body = json!({"query": "fox", "namespace": namespace});
        request(Method::POST, "/agent/search").json(&body)
    };
    forbidden(search("closed")).await;
    let found = search("*").send().await.ok();
    assert_eq!(array(&found).len(), 1, "only the readable memory: {found}");
    assert_eq!(request(Method::GET, "/agent/nodes").send().await.ok()["total"], 1);
    let pin = request(Method::PATCH, &closed).json(&json!({"is_pinned": true}));
    for hidden in [request(Method::GET, &closed), pin, request(Method::DELETE, &closed)] {
        hidden.send().await.assert_error(404, "not_found");
    }
    let create = json!({"label": "x", "namespace": "closed"});
    forbidden(request(Method::POST, "/agent/nodes").json(&create)).await;
    let feedback = json!({"node_id": memory, "signal": "wrong"});
    let feedback = request(Method::POST, "/feedback").json(&feedback);
    feedback.send().await.assert_error(404, "not_found");
    let bulk = json!({"ids": [memory]});
    let bulk = request(Method::POST, "/agent/nodes/bulk").json(&bulk).send().await.ok();
    assert_fields(&bulk, json!({"deleted": 0, "rejected": 1}));
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
    let path = format!("/agent/nodes/{}", cluster.store(&json!({"label": "red fox"})).await);
    cluster.patch(&path, &json!({"is_pinned": true})).await;
    cluster.patch(&path, &json!({"label": "grey fox"})).await;
    let note = json!({"action": "login", "target_label": "console", "metadata": {"ip": "::1"}});
    let noted = cluster.send(Method::POST, "/activity", &note).await;
    assert_eq!(noted.status, StatusCode::CREATED);
    cluster.delete(&path).await;
    let page = async |cursor: &str| cluster.get(&format!("/activity?limit=2{cursor}")).await;
    let items = pages("cursor", page).await;
    assert!(items.iter().all(|item| item["actor"] == "admin"), "{items:?}");
    let actions: Vec<_> = items.iter().map(|item| string(&item["action"])).collect();
    assert_eq!(actions, ["memory.delete", "login", "memory.patch", "memory.pin", "memory.add"]);
    assert_eq!(items[0]["target_label"], "grey fox");
    assert_eq!(items[1]["metadata"], json!({"ip": "::1"}));
    // An empty cursor starts at the first page.
    assert_eq!(page("&cursor=").await["items"][0], items[0]);
    cluster.request(Method::GET, "/activity?cursor=x").send().await.assert_invalid("cursor");
    cluster.request(Method::POST, "/activity").send().await.assert_invalid("action");
}

#[tokio::test]
async fn client_reads_its_identity_and_tenant_counts() {
    let cluster = options().start();
    cluster.create(&json!({"label": "four", "namespace": "one", "memory_type": "fact"})).await;
    cluster.create(&json!({"label": "six by now", "namespace": "two"})).await;
    let verified = cluster.get("/auth/verify").await;
    assert_fields(&verified, json!({"authenticated": true, "agent_label": "admin"}));
    let org = cluster.patch("/org", &json!({"org_name": "The Foxes"})).await;
    assert_fields(&org, json!({"org_name": "The Foxes", "seats_used": 1}));
    assert_eq!(cluster.get("/org").await["org_name"], "The Foxes");
    let status = cluster.get("/agent/memory/status?namespace=one").await;
    assert_fields(&status["stats"], json!({"namespace_memories": 1, "total_memories": 2}));
    let storage = cluster.get("/agent/storage").await;
    // Labels of 4 and 10 bytes, vectors of 384 halves.
    assert_eq!(storage["total_size_bytes"], 4 + 10 + 2 * 2 * 384);
    assert_eq!(storage["namespaces"], json!({"one": 1, "two": 1}));
    assert_eq!(cluster.get("/metrics").await["memories"], 2);
    let own = cluster.send(Method::PUT, "/namespaces/default", &json!({"namespace": "two"})).await;
    assert_eq!(own.ok()["namespace"], "two");
    let hits = cluster.post("/agent/search", &json!({"query": "by now", "explain": true})).await;
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
    cluster.post("/feedback", &json!({"node_id": stored["id"], "signal": "relevant"})).await;
    let [leader, rest] = cluster.leader_first().await;
    let analytics = async || rest.get("/analytics/recall").await;
    let found = eventually("searches are counted", analytics, |found| found["searches"] == 3).await;
    assert_fields(&found, json!({"searches_with_results": 3, "hit_rate": 1.0}));
    let fact = |found: &Value| {
        let stats = array(&found["stats"]);
        stats.iter().find(|of_type| of_type["memory_type"] == "fact").unwrap().clone()
    };
    let counts = json!({"total_recalls": 3, "relevant_count": 1, "relevance_ratio": 1.0});
    assert_fields(&fact(&found), counts);
    let dashboard = rest.get("/admin/dashboard").await;
    assert_eq!(dashboard["total_nodes"], 1);
    assert_eq!(dashboard["memory_types"]["fact"], 1);
    assert_eq!(dashboard["heat_distribution"][0]["count"], 1);
    assert_eq!(dashboard["hottest"]["id"], stored["id"]);
    assert_eq!(dashboard["recent_activity"][0]["action"], "memory.feedback");

    leader.kill();
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

#[tokio::test]
async fn storage_lists_the_largest_namespaces() {
    let cluster = options().start();
    let namespaces: Vec<_> = (0..1_020).map(|at| format!("n{at:04}")).collect();
    for chunk in namespaces.chunks(50) {
        let node = |name| json!({"label": "one", "namespace": name});
        let nodes: Vec<_> = chunk.iter().map(node).collect();
        cluster.post("/agent/nodes/batch", &json!({"nodes": nodes})).await;
    }
    cluster.create(&json!({"label": "two", "namespace": "n1019"})).await;
    let storage = cluster.get("/agent/storage").await;
    assert_eq!(storage["namespace_count"], 1_020);
    let listed = storage["namespaces"].as_object().unwrap();
    assert_eq!((listed.len(), &listed["n1019"]), (1_000, &json!(2)));
    assert!(listed.contains_key("n0000") && !listed.contains_key("n1018"));
}
