//! Operations and forms of requests that only published clients use.

use super::*;

#[tokio::test]
async fn boosts_raise_and_deprecations_lower_heat() {
    let cluster = options().start();
    let stored = |heat: f64| json!({"label": format!("at {heat}"), "initial_heat": heat});
    let ids = cluster.store_each([0.5, 0.9, 0.2].map(stored)).await;
    let heat = |memory: &Value| (float(&memory["heat"]) * 100.0).round();
    let path = |id: &str, act: &str| format!("/agent/nodes/{id}/{act}");
    let boosted = cluster.post(&path(&ids[0], "boost"), &json!({"strength": 0.2})).await;
    assert_eq!(heat(&boosted), 70.0);
    assert_eq!(heat(&cluster.post(&path(&ids[1], "boost"), &json!({})).await), 100.0);
    let lowered = cluster.post(&path(&ids[0], "deprecate"), &json!({"reason": "old"})).await;
    assert_eq!((heat(&lowered), &lowered["decay_class"]), (35.0, &json!("volatile")));
    let batch = json!({"boosts": [
        {"id": ids[0], "heat": 0.8}, {"id": ids[2], "heat": 0.8}, {"id": ids[1], "heat": 0.1}
    ]});
    assert_eq!(cluster.post("/agent/boost-batch", &batch).await["updated"], 3);
    for (id, expected) in ids.iter().zip([80.0, 10.0, 80.0]) {
        assert_eq!(heat(&cluster.get(&format!("/agent/nodes/{id}")).await), expected, "{id}");
    }
    let feedback = json!({"node_id": ids[0], "feedback_type": "deprecate", "strength": 0.5});
    assert_eq!(cluster.post("/feedback", &feedback).await["signal"], "irrelevant");
}

#[tokio::test]
async fn lists_are_filtered_by_heat_and_time() {
    let cluster = options().start();
    let stored = |heat: f64| json!({"label": format!("at {heat}"), "initial_heat": heat});
    cluster.store_each([0.1, 0.4, 0.7, 1.0].map(stored)).await;
    let total =
        async |query: &str| cluster.get(&format!("/agent/nodes?{query}")).await["total"].take();
    assert_eq!(total("min_heat=0.35").await, 3);
    assert_eq!(total("min_heat=0.35&sort=created_at&page_size=1").await, 3);
    assert_eq!(total("min_heat=0.95").await, 1);
    let created = cluster.get("/agent/nodes?sort=created_at&order=asc").await["items"].take();
    let third = string(&created[2]["created_at"]);
    assert_eq!(total(&format!("time_from={third}")).await, 2);
    assert_eq!(total(&format!("time_to={third}")).await, 3);
    assert_eq!(total("time_from=2020-01-01&time_to=2020-12-31").await, 0);
    cluster.request(Method::GET, "/agent/nodes?min_heat=2").send().await.assert_invalid("min_heat");
}

#[tokio::test]
async fn other_paths_serve_the_same() {
    let cluster = options().start();
    let ids = cluster.store_each(["red fox", "Red fox!"].map(labelled)).await;
    let found = cluster.get("/agent/consolidation-candidates?limit=5").await;
    assert_eq!(array(&found["groups"]).len(), 1, "{found}");
    let fold = json!({"node_ids": ids, "label": "A red fox."});
    let folded = cluster.post("/agent/fold", &fold).await;
    assert_eq!(array(&folded["folded_from"]).len(), 2);
    let stats = cluster.get("/agent/stats").await["stats"].take();
    assert_eq!(stats, cluster.get("/agent/memory/status").await["stats"]);
    assert!(cluster.get("/agent/recall-analytics").await["stats"].is_array());
    let context = json!({"prompt": "fox", "token_budget": 500});
    let context = cluster.post("/agent/context", &context).await;
    assert!(string(&context["context"]).contains("A red fox."), "{context}");
    let embedded = cluster.post("/agent/embed", &json!({"text": "red fox"})).await;
    let vector: Vec<f64> = array(&embedded["embedding"]).iter().map(float).collect();
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert_eq!(json!(vector.len()), embedded["dimensions"]);
    assert!((length - 1.0).abs() < 0.01, "{length}");
    assert_eq!(cluster.post("/agent/backfill-embeddings", &json!({})).await["queued"], 0);
}

#[tokio::test]
async fn ids_of_nothing_are_not_found() {
    let cluster = options().start();
    for path in ["/agent/nodes/17", "/agent/memory/x", "/triggers/none", "/keys/-"] {
        let response = cluster.request(Method::GET, path).send().await;
        let response = match response.status {
            // A key is not read alone.
            StatusCode::METHOD_NOT_ALLOWED => cluster.request(Method::DELETE, path).send().await,
            _ => response,
        };
        assert_eq!(
            (response.status, &response.body["error"]),
            (StatusCode::NOT_FOUND, &json!("not_found")),
            "{path}"
        );
    }
    let none = json!({"agent_id": "unknown", "namespace": "nowhere", "policy": "default"});
    assert_eq!(cluster.post("/namespaces/acl", &none).await["policy"], "default");
    assert_eq!(cluster.get("/namespaces/acl").await["items"], json!([]));
}

#[tokio::test]
async fn pages_of_configured_origins_may_use_it() {
    let origins = "https://app.example, http://localhost:3000";
    let cluster = options().env("HEARTH__PUBLIC__ORIGINS", origins).start();
    let allowed = async |cluster: &Cluster, method: Method, origin: &str, path: &str| {
        let url = format!("{}{path}", cluster.url());
        let request = cluster.client.request(method, url).header("Origin", origin);
        let request = request
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "authorization, content-type");
        let response = request.send().await.unwrap();
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        (header("access-control-allow-origin"), header("access-control-allow-headers"))
    };
    let path = "/api/v1/agent/nodes";
    for origin in ["https://app.example", "http://localhost:3000"] {
        // Without a key: a browser asks first.
        let (found, headers) = allowed(&cluster, Method::OPTIONS, origin, path).await;
        assert_eq!(found.as_deref(), Some(origin));
        assert_eq!(headers.as_deref(), Some("authorization, content-type"));
        assert_eq!(allowed(&cluster, Method::GET, origin, path).await.0.as_deref(), Some(origin));
    }
    let other = "https://evil.example";
    assert_eq!(allowed(&cluster, Method::OPTIONS, other, path).await.0, None);
    let closed = options().start();
    let (found, _) = allowed(&closed, Method::OPTIONS, "https://app.example", path).await;
    assert_eq!(found, None);

    // The same for agents in pages.
    let call = async |origin: &str| {
        let request = cluster.client.post(format!("{}/mcp", cluster.url()));
        let request = request.bearer_auth(&cluster.key).header("Origin", origin);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        request.json(&body).send().await.unwrap().status()
    };
    assert_eq!(call("https://app.example").await, StatusCode::OK);
    assert_eq!(call("https://app.example:444").await, StatusCode::FORBIDDEN);
    assert_eq!(call(other).await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn configuration_names_the_tools_of_agents() {
    let tools = "sulcus_search, sulcus_remember";
    let cluster = options().env("HEARTH__MCP__TOOLS", tools).start();
    let call = async |method: &str, params: Value| {
        let request = cluster.client.post(format!("{}/mcp", cluster.url()));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        Request(request.bearer_auth(&cluster.key)).json(&body).send().await.body
    };
    let listed = call("tools/list", json!({})).await;
    let names = array(&listed["result"]["tools"]).iter().map(|tool| string(&tool["name"]));
    assert_eq!(names.collect::<Vec<_>>(), ["sulcus_search", "sulcus_remember"]);
    let other = call("tools/call", json!({"name": "sulcus_list", "arguments": {}})).await;
    assert!(!other["error"].is_null(), "{other}");
}
