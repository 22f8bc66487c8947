//! The dashboard needs no file and no request outside of its node. `api/ui/tests` uses it in a browser; here
//! are its files, and what the interface has for it.

use super::*;

#[tokio::test]
async fn every_listener_serves_the_dashboard() {
    let cluster = options().start();
    for base in [cluster.url(), cluster.ops()] {
        let get =
            async |path: &str| cluster.client.get(format!("{base}{path}")).send().await.unwrap();
        let page = get("/").await;
        assert_eq!(page.url().path(), "/dashboard");
        let headers = page.headers().clone();
        let policy = headers["content-security-policy"].to_str().unwrap();
        for rule in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert_eq!(headers["cache-control"], "no-cache");
        let text = page.text().await.unwrap();
        let script = text.split('"').find(|part| part.ends_with(".js")).expect("a script");
        let script = get(script).await;
        let caching = script.headers()["cache-control"].to_str().unwrap();
        assert!(caching.contains("immutable"), "{caching}");
        assert_eq!(get("/dashboard/assets/..%2findex.html").await.status(), 404);
        assert_eq!(get("/dashboard/other").await.status(), 404);
    }
}

#[tokio::test]
async fn history_of_a_memory_has_no_others() {
    let cluster = options().start();
    let ids = cluster.store_each(["one", "other"].map(labelled)).await;
    let path = |id: &str| format!("/agent/nodes/{id}");
    cluster.patch(&path(&ids[0]), &json!({"is_pinned": true})).await;
    cluster.delete(&path(&ids[1])).await;
    let history =
        async |id: &str, query: &str| cluster.get(&format!("/activity?node_id={id}{query}")).await;
    let actions = |page: &Value| -> Vec<String> {
        array(&page["items"]).iter().map(|item| string(&item["action"]).to_owned()).collect()
    };
    assert_eq!(actions(&history(&ids[0], "").await), ["memory.pin", "memory.add"]);
    assert_eq!(actions(&history(&ids[1], "").await), ["memory.delete", "memory.add"]);
    let first = history(&ids[1], "&limit=1").await;
    let next = format!("&cursor={}", string(&first["next_cursor"]));
    assert_eq!(actions(&history(&ids[1], &next).await), ["memory.add"]);
    let request = cluster.request(Method::GET, "/activity?node_id=none");
    assert!(request.send().await.status.is_client_error());
}

#[tokio::test]
async fn memory_is_returned_with_its_anchor() {
    let cluster = options().start();
    let id = cluster.store(&json!({"label": "warm", "initial_heat": 0.5})).await;
    let path = format!("/agent/nodes/{id}");
    let memory = cluster.get(&format!("{path}?anchor=true")).await;
    let expected = json!({"heat": 0.5, "at": memory["created_at"]});
    assert_eq!(memory["anchor"], expected);
    // A heat that a request sets is a new anchor; a tag is none.
    cluster.patch(&path, &json!({"tags": ["a tag"]})).await;
    assert_eq!(cluster.get(&format!("{path}?anchor=true")).await["anchor"], expected);
    cluster.patch(&path, &json!({"current_heat": 0.75})).await;
    let changed = cluster.get(&format!("{path}?anchor=true")).await;
    assert_eq!(changed["anchor"]["heat"], 0.75);
    assert!(cluster.get(&path).await.get("anchor").is_none());
}

#[tokio::test]
async fn keys_report_access_to_a_namespace() {
    let cluster = options().start();
    let bound = json!({"name": "bound", "role": "reader", "namespaces": ["work"]});
    cluster.post("/keys", &bound).await;
    cluster.post("/keys", &json!({"name": "open", "role": "agent"})).await;
    let rule = json!({"agent_id": "open", "namespace": "secret", "policy": "deny"});
    cluster.post("/namespaces/acl", &rule).await;
    let may_use = async |namespace: &str| {
        let list = cluster.get(&format!("/keys?access_to={namespace}")).await;
        let mut all: Vec<(String, bool)> = array(&list["keys"])
            .iter()
            .map(|key| (string(&key["name"]).to_owned(), key["may_use"].as_bool().unwrap()))
            .collect();
        all.sort();
        all
    };
    let expected = |bound, open| {
        [("admin", true), ("bound", bound), ("open", open)].map(|(name, is)| (name.to_owned(), is))
    };
    assert_eq!(may_use("work").await, expected(true, true));
    assert_eq!(may_use("secret").await, expected(false, false));
    assert!(cluster.get("/keys").await["keys"][0].get("may_use").is_none());
}

#[tokio::test]
async fn suggested_settings_can_be_applied() {
    let cluster = options().start();
    let analytics = async || cluster.get("/analytics/recall").await;
    assert_eq!(analytics().await["suggested_settings"], json!([]));
    for number in 0..10 {
        let memory = json!({"label": format!("fact {number}"), "memory_type": "fact"});
        let feedback = json!({"node_id": cluster.store(&memory).await, "signal": "outdated"});
        cluster.post("/feedback", &feedback).await;
    }
    let found = analytics().await;
    let suggested = &found["suggested_settings"][0];
    assert_eq!(suggested["reason"], found["suggestions"][0]);
    assert_eq!(suggested["setting"], "decay_profiles.fact.half_life");
    let change = json!({string(&suggested["setting"]): suggested["value"]});
    let settings = cluster.patch("/settings/thermo", &change).await;
    let half_life = &settings["config"]["decay_profiles"]["fact"]["half_life"];
    assert_eq!(half_life.as_f64(), Some(365.0 / 2.0 * 86_400.0));
}

#[tokio::test]
async fn operators_get_metrics_of_the_last_hour() {
    let cluster = options().start();
    cluster.store_each(["one", "two"].map(labelled)).await;
    let history = async || cluster.ops_request(Method::GET, "/cluster/metrics").send().await.ok();
    let has_sample = |history: &Value| !array(&history["at"]).is_empty();
    let history = eventually("a sample is taken", history, has_sample).await;
    assert_eq!(history["interval_seconds"], 15);
    assert_eq!(history["series"]["hearth_memories"][0], 2.0);
    let url = format!("{}/cluster/metrics", cluster.ops());
    assert_eq!(cluster.client.get(url).send().await.unwrap().status(), 401);
}
