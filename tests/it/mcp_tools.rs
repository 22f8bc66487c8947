//! What agents and programs expect of the tools beyond storing and finding: arguments in loose forms, reads by
//! id and along edges, filters, other sets of tools, pages of resources, and reports that a call goes on.

use super::*;

/// The result of a request, whose address has this query.
pub(super) async fn request(node: &Node, query: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let request = node.client.post(format!("{}/mcp{query}", node.url())).bearer_auth(&node.key);
    let response = Request(request).json(&body).send().await.body;
    assert!(response["error"].is_null(), "{response}");
    response["result"].clone()
}

/// What a tool returns.
pub(super) async fn tool(node: &Node, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    let result = request(node, "", "tools/call", params).await;
    assert_ne!(result["isError"], true, "{name}: {result}");
    result["structuredContent"].clone()
}

fn labels(result: &Value) -> Vec<&str> {
    array(&result["memories"]).iter().map(|memory| string(&memory["label"])).collect()
}

/// Agents write numbers, lists and objects as texts.
#[tokio::test]
async fn arguments_have_loose_forms() {
    let node = options().start();
    let arguments = json!({"content": "Tea is served at four", "heat": "80", "memory_type": "",
        "namespace": "", "supersedes": "", "key_points": "[\"tea\"]", "tags": "kitchen",
        "metadata": "{\"source\": \"mail\"}"});
    let stored = tool(&node, "sulcus_remember", arguments).await["memory"].clone();
    assert_fields(&stored, json!({"heat": 80.0, "key_points": ["tea"], "tags": ["kitchen"]}));
    let found = json!({"query": "tea", "limit": "1", "include_archived": "false",
        "tags": "[\"kitchen\"]", "metadata": "{\"source\": \"mail\"}"});
    assert_eq!(labels(&tool(&node, "sulcus_search", found).await), ["Tea is served at four"]);
    let listed = json!({"page": "1", "page_size": "5", "pinned": "False"});
    assert_eq!(tool(&node, "sulcus_list", listed).await["total"], 1);
}

#[tokio::test]
async fn memories_are_read_by_id_and_edges() {
    let node = options().start();
    let store = async |content: &str, metadata: Value| {
        let arguments = json!({"content": content, "metadata": metadata});
        tool(&node, "sulcus_remember", arguments).await["memory_id"].clone()
    };
    let decision = store("We use Raft", json!({"source": "meeting", "round": 7})).await;
    let reason = store("Nodes may fail", json!({})).await;
    let evidence = store("A node failed in May", json!({})).await;
    for (from, to) in [(&decision, &reason), (&reason, &evidence)] {
        let relate = json!({"source_id": from, "target_id": to, "relation": "derived_from"});
        tool(&node, "sulcus_relate", relate).await;
    }
    let read = tool(&node, "sulcus_read", json!({"memory_id": decision})).await;
    assert_fields(
        &read["memory"],
        json!({"label": "We use Raft", "metadata":
        {"source": "meeting", "round": 7}}),
    );
    let neighbors = array(&read["neighbors"]);
    assert_eq!((neighbors.len(), &neighbors[0]["id"]), (1, &reason));
    assert_fields(&neighbors[0], json!({"relation": "derived_from", "label": "Nodes may fail"}));
    let far = json!({"memory_id": decision, "depth": 2});
    let far = tool(&node, "sulcus_graph_traverse", far).await;
    let hops: Vec<_> = array(&far["neighbors"]).iter().map(|it| (&it["id"], &it["hops"])).collect();
    assert_eq!(hops, [(&reason, &json!(1)), (&evidence, &json!(2))]);
}

#[tokio::test]
async fn searches_and_lists_have_the_filters() {
    let node = options().start();
    for (content, tags, team) in
        [("invoice one", json!(["billing"]), "a"), ("invoice two", json!([]), "b")]
    {
        let metadata = json!({ "team": team });
        let arguments = json!({"content": content, "tags": tags, "metadata": metadata});
        tool(&node, "sulcus_remember", arguments).await;
    }
    for (filter, expected) in [
        (json!({}), 2),
        (json!({"tags": ["billing"]}), 1),
        (json!({"metadata": {"team": "b"}}), 1),
        (json!({"metadata": {"team": "c"}}), 0),
        (json!({"time_from": "2020-01-01"}), 2),
        (json!({"time_to": "2020-01-01"}), 0),
        (json!({"memory_type": "fact"}), 0),
    ] {
        let mut search = filter.clone();
        search["query"] = "invoice".into();
        let found = tool(&node, "sulcus_search", search).await;
        assert_eq!(labels(&found).len(), expected, "{filter}: {found}");
        let listed = tool(&node, "sulcus_list", filter.clone()).await;
        assert_eq!(listed["total"], expected, "{filter}");
    }
}

/// A program chooses the tools that it can use, on any node.
#[tokio::test]
async fn address_chooses_the_profile() {
    let node = options().start();
    let content = json!({"content": "The release is on Friday", "metadata": {"source": "chat"}});
    let id = tool(&node, "sulcus_remember", content).await["memory_id"].clone();
    let names = async |query: &str| {
        let list = request(&node, query, "tools/list", json!({})).await;
        let tools = array(&list["tools"]).clone();
        tools.iter().map(|tool| string(&tool["name"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("?profile=search").await, ["search", "fetch"]);
    assert_eq!(names("?profile=knowledge-graph").await.len(), 9);
    assert_eq!(names("").await, names("?profile=memories").await);
    let call = async |name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        let result = request(&node, "?profile=search", "tools/call", params).await;
        let text: Value = serde_json::from_str(string(&result["content"][0]["text"])).unwrap();
        assert_eq!(text, result["structuredContent"]);
        text
    };
    let found = call("search", json!({"query": "when is the release?"})).await;
    let address = format!("hearth://memories/{}", string(&id));
    let expected = json!([{"id": id, "title": "The release is on Friday", "url": address}]);
    assert_eq!(found["results"], expected);
    let fetched = call("fetch", json!({"id": id})).await;
    let expected = json!({"id": id, "title": "The release is on Friday", "url": address,
        "text": "The release is on Friday", "metadata": {"source": "chat"}});
    assert_eq!(fetched, expected);
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    let unknown = node.client.post(format!("{}/mcp?profile=all", node.url()));
    Request(unknown.bearer_auth(&node.key))
        .json(&body)
        .send()
        .await
        .assert_error(400, "invalid_field");
    // The configuration names tools of any profile.
    let node = options().env("HEARTH__MCP__TOOLS", "search,sulcus_status").start();
    for (query, expected) in [("", "sulcus_status"), ("?profile=search", "search")] {
        let list = request(&node, query, "tools/list", json!({})).await;
        assert_eq!(array(&list["tools"]).len(), 1, "{list}");
        assert_eq!(list["tools"][0]["name"], expected);
    }
}

#[tokio::test]
async fn resources_have_pages_and_types() {
    let node = options().start();
    node.store_each((0..70).map(|number| labelled(format!("memory {number}")))).await;
    let mut uris = std::collections::BTreeSet::new();
    let mut params = json!({});
    loop {
        let page = request(&node, "", "resources/list", params).await;
        for resource in array(&page["resources"]) {
            let uri = string(&resource["uri"]);
            assert!(uris.insert(uri.to_owned()), "{uri} twice");
            let is_context = uri == "hearth://context";
            let kind = if is_context { "text/markdown" } else { "application/json" };
            assert_eq!(resource["mimeType"], kind);
            if uris.len() < 3 {
                let read = request(&node, "", "resources/read", json!({ "uri": uri })).await;
                assert_eq!(read["contents"][0]["mimeType"], kind, "{read}");
            }
        }
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        params = json!({ "cursor": cursor });
    }
    assert_eq!(uris.len(), 71);
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "resources/list",
        "params": {"cursor": "nonsense"}});
    let wrong = node.client.post(format!("{}/mcp", node.url())).bearer_auth(&node.key);
    let wrong = Request(wrong).json(&body).send().await.body;
    assert_eq!(wrong["error"]["data"]["error"], "invalid_field", "{wrong}");
}

#[tokio::test]
async fn topics_of_prompts_are_completed() {
    let node = options().start();
    let memory = json!({"label": "x", "key_points": ["Kubernetes", "tea"], "tags": ["kitchen"]});
    node.store(&memory).await;
    let params = json!({"ref": {"type": "ref/prompt", "name": "load_context"},
        "argument": {"name": "topic", "value": "k"}});
    let completed = request(&node, "", "completion/complete", params).await;
    assert_eq!(completed["completion"]["values"], json!(["Kubernetes", "kitchen"]));
}

/// Clients that wait for a call may give up; a report tells them to wait longer.
#[tokio::test]
async fn calls_that_take_long_report_progress() {
    let cluster = options().nodes(3).start();
    let [leader, first, second] = cluster.leader_first().await;
    let remember = |token: Value| {
        let params = json!({"name": "sulcus_remember", "arguments": {"content": "kept"},
            "_meta": {"progressToken": token}});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let request = leader.client.post(format!("{}/mcp", leader.url())).bearer_auth(&leader.key);
        request.header("accept", "application/json, text/event-stream").json(&body)
    };
    // A short call is a plain response.
    let short = remember(json!("a")).send().await.unwrap();
    assert_eq!(short.headers()["content-type"], "application/json");
    first.pause();
    second.pause();
    let long = remember(json!("b")).send().await.unwrap();
    assert_eq!(long.headers()["content-type"], "text/event-stream");
    first.resume();
    second.resume();
    let text = long.text().await.unwrap();
    let messages: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect();
    let [progress @ .., result] = &messages[..] else { panic!("{text}") };
    assert!(!progress.is_empty(), "{text}");
    for (at, report) in progress.iter().enumerate() {
        assert_eq!(report["method"], "notifications/progress", "{report}");
        assert_eq!(report["params"]["progressToken"], "b");
        assert_eq!(float(&report["params"]["progress"]), (at + 1) as f64);
    }
    assert_eq!(result["id"], 7, "{result}");
}
