//! A memory says where it comes from: key, agent, client and tool of the request that created it. No
//! text can change that, and lists and searches filter by it.

use super::*;

#[tokio::test]
async fn requests_stamp_origins_that_filters_find() {
    let cluster = options().nodes(3).start();
    let [leader, rest] = cluster.leader_first().await;
    let helper = cluster.post("/keys", &json!({"name": "helper", "role": "agent"})).await;
    converged(&cluster).await;
    let create = |label: &str| {
        let body = json!({"label": label, "origin": {"agent": "admin"}});
        rest.request_as(&helper, Method::POST, "/agent/nodes").json(&body)
    };
    let named = create("red fox").header("User-Agent", "notes/1.2 (linux)");
    let named = named.header("X-Hearth-Tool", "remember").send().await.ok();
    let origin = json!({"key_id": helper["id"], "agent": "helper", "client": "notes/1.2",
        "tool": "remember"});
    assert_eq!(named["origin"], origin);
    let plain = create("red sea").header("User-Agent", "").send().await.ok();
    assert_fields(&plain["origin"], json!({"agent": "helper", "client": null, "tool": null}));
    let batch = json!({"nodes": [{"label": "red hill"}]});
    let batch = rest.request(Method::POST, "/agent/nodes/batch").json(&batch);
    let batch = batch.header("X-Hearth-Tool", "import").send().await.ok();
    let by_admin = &batch["results"][0];
    assert_eq!(by_admin["origin"]["tool"], "import");
    // Who changes a memory is no origin.
    let path = format!("/agent/nodes/{}", id(&named));
    let changed = rest.patch(&path, &json!({"label": "red foxes"})).await;
    assert_eq!(changed["origin"], origin);
    converged(&cluster).await;
    let [named, plain, by_admin] = [&named, &plain, by_admin].map(|memory| id(memory).to_owned());
    let key = string(&helper["id"]);
    let cases: [(&str, &str, &[&String]); 8] = [
        ("agent", "helper", &[&named, &plain]),
        ("key_id", key, &[&named, &plain]),
        ("client", "notes", &[&named]),
        ("client", "notes/1.2", &[&named]),
        ("client", "notes/1", &[]),
        ("tool", "remember", &[&named]),
        ("tool", "import", &[&by_admin]),
        ("agent", "other", &[]),
    ];
    for (part, value, expected) in cases {
        let listed = leader.get(&format!("/agent/nodes?{part}={value}")).await;
        assert_eq!(ids(&listed["items"]), sorted(expected), "{part}={value}");
        assert_eq!(listed["total"], expected.len());
        let search = json!({"query": "red", part: value});
        let found = leader.post("/agent/search", &search).await;
        assert_eq!(ids(&found), sorted(expected), "{part}={value}");
    }
    leader.request(Method::DELETE, &format!("/agent/nodes/{named}")).send().await.ok();
    assert_eq!(leader.get("/agent/nodes?agent=helper").await["total"], 1);
}

fn ids(memories: &Value) -> Vec<String> {
    sorted(&array(memories).iter().map(|memory| id(memory).to_owned()).collect::<Vec<_>>())
}

fn sorted(ids: &[impl ToString]) -> Vec<String> {
    let mut ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn tool_names_are_short() {
    let cluster = options().start();
    let create = |tool: &str| {
        let request = cluster.request(Method::POST, "/agent/nodes").json(&json!({"label": "x"}));
        request.header("X-Hearth-Tool", tool).send()
    };
    create(&"t".repeat(65)).await.assert_invalid("X-Hearth-Tool");
    create(&"t".repeat(64)).await.ok();
    cluster.restart().await;
    let tool = "t".repeat(64);
    assert_eq!(cluster.get(&format!("/agent/nodes?tool={tool}")).await["total"], 1);
}
