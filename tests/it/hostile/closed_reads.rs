//! Every read of the document, and the tools that read, by a key to which a namespace is closed: the same
//! beside closed memories as without them.

use std::collections::BTreeSet;

use super::*;

const MEMORIES: u64 = 40;

fn memory_of(number: u64) -> String {
    format!("01a22110-5bc3-75b7-a596-{number:012x}")
}

/// A line of an import: both clusters get the same.
fn line(number: u64, namespace: &str) -> String {
    let label = format!("report {} of river {} and harbour {number}", number % 7, number % 3);
    let memory = json!({"id": memory_of(number), "label": label, "namespace": namespace,
        "memory_type": "semantic", "key_points": ["water"], "tags": ["log"], "heat": 0.5,
        "heat_at": "2026-01-01T00:00:00Z", "created_at": "2026-01-01T00:00:00Z",
        "archived_at": number.is_multiple_of(4).then_some("2026-01-02T00:00:00Z")});
    json!({ "memory": memory }).to_string()
}

fn edge(from: u64, to: u64) -> String {
    let edge = json!({"source_id": memory_of(from), "target_id": memory_of(to),
        "relation": "near", "weight": 0.9, "created_at": "2026-01-01T00:00:00Z"});
    json!({ "edge": edge }).to_string()
}

/// A cluster with open memories, and a key that may use their namespace only. With
/// `closed`, as many memories in another namespace, with the same words and edges to the open ones,
/// and what other keys do with them.
async fn filled(closed: bool) -> (Cluster, Value) {
    let cluster = options().start();
    let still = json!({"reinforcement": {"recalled_results": 0}, "tick": {"interval": 86_400}});
    cluster.patch("/settings/thermo", &still).await;
    let mut lines: Vec<_> = (0..MEMORIES).map(|number| line(number, "open")).collect();
    lines.extend((0..MEMORIES).map(|number| edge(number, (number + 7) % MEMORIES)));
    let import = async |lines: &[String]| {
        let request = cluster.request(Method::POST, "/import").raw(lines.join("\n"));
        let done = request.send().await.ok();
        assert_eq!(done["rejected"], 0, "{done}");
    };
    if closed {
        let of = MEMORIES..2 * MEMORIES;
        let mut lines: Vec<_> = of.clone().map(|number| line(number, "closed")).collect();
        import(&lines).await;
        lines.clear();
        let trigger =
            json!({"event": "on_store", "action": "notify", "filter_namespace": "closed"});
        cluster.post("/triggers", &trigger).await;
        cluster.store(&json!({"label": "it fires", "namespace": "closed"})).await;
        cluster.post("/keys", &json!({"name": "other", "namespaces": ["closed"]})).await;
    }
    import(&lines).await;
    if closed {
        let edges = |at| edge(at % MEMORIES, MEMORIES + (at * 3) % MEMORIES);
        import(&(0..20 * MEMORIES).map(edges).collect::<Vec<_>>()).await;
    }
    let key = json!({"name": "restricted", "role": "agent", "namespaces": ["open"]});
    let key = cluster.post("/keys", &key).await;
    (cluster, key)
}

/// The reads, and the tools that read: method, address, and body.
fn reads(tools: &[String]) -> Vec<(Method, String, Value)> {
    let document = Document::committed();
    let mut reads = Vec::new();
    for (method, path, operation) in document.operations() {
        let name = string(&operation["operationId"]);
        let is_of_time = ["stream_events", "get_metrics", "get_status", "get_storage"];
        if operation["responses"].get("504").is_some() || is_of_time.contains(&name) {
            continue;
        }
        let path = path.replace("{id}", &memory_of(5));
        let body = match name {
            "load_context" => json!({"query": "report of harbour"}),
            "embed_text" => json!({"text": "water"}),
            "get_hot_context" => json!({"limit": 50}),
            "search_memories" => {
                json!({"query": "report of river 1", "limit": 50, "explain": true})
            }
            "preview_retention" => {
                json!({"rules": [{"namespace": "open", "action": "delete", "after_days": 1}]})
            }
            "preview_guard" => json!({"text": "report of harbour"}),
            "preview_settings" => json!({"tick": {"interval": 60}}),
            "evaluate_triggers" => json!({"event": "on_store", "node_id": memory_of(5)}),
            _ => Value::Null,
        };
        reads.push((method.clone(), path.clone(), body));
        let queries: &[&str] = match name {
            "list_memories" => &["?tier=cold", "?search=river", "?sort=heat", "?namespace=closed"],
            "get_neighbours" => &["?depth=2&limit=50"],
            "list_audit_entries" => &["?chain=data"],
            "get_graph" => &["?namespace=closed"],
            _ => &[],
        };
        let with_query =
            queries.iter().map(|query| (method.clone(), path.clone() + query, Value::Null));
        reads.extend(with_query);
    }
    for tier in ["cold", "all"] {
        let search = json!({"query": "harbuor 3", "tier": tier, "limit": 50});
        reads.push((Method::POST, "/api/v1/agent/search".into(), search));
    }
    let call = |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        (Method::POST, "/mcp".to_owned(), body)
    };
    for tool in tools {
        let arguments = match tool.as_str() {
            "sulcus_search" => json!({"query": "report of river 1", "limit": 50}),
            "sulcus_context" => json!({"query": "report of harbour"}),
            "sulcus_list" => json!({"limit": 50}),
            "sulcus_read" | "sulcus_graph_traverse" => json!({"memory_id": memory_of(5)}),
            "sulcus_hot_nodes" | "sulcus_status" | "sulcus_trigger_list" => json!({}),
            other => panic!("{other} reads, and has no arguments here"),
        };
        reads.push(call("tools/call", json!({"name": tool, "arguments": arguments})));
    }
    reads.push(call("tools/list", json!({})));
    reads.push(call("resources/list", json!({})));
    for reference in [
        json!({"type": "ref/prompt", "name": "load_context"}),
        json!({"type": "ref/resource", "uri": "hearth://memories/{id}"}),
    ] {
        for name in ["id", "topic"] {
            let argument = json!({"name": name, "value": ""});
            let params = json!({"ref": reference, "argument": argument});
            reads.push(call("completion/complete", params));
        }
    }
    for uri in ["hearth://context".to_owned(), format!("hearth://memories/{}", memory_of(5))] {
        reads.push(call("resources/read", json!({ "uri": uri })));
    }
    reads
}

/// Without what differs between two clusters, or two moments.
fn comparable(value: &mut Value, key: &Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| comparable(item, key)),
        Value::Object(fields) => {
            // The index counts the writes of all, as docs/security.md says.
            fields.retain(|name, _| name != "request_id" && name != "index");
            // The cursor of a list has its time.
            if let Some(Value::String(cursor)) = fields.get_mut("next_cursor") {
                *cursor = cursor.split('.').filter(|part| part.len() != 16).collect();
            }
            fields.values_mut().for_each(|field| comparable(field, key));
        }
        Value::Number(number) if number.is_f64() => {
            *value = json!(format!("{:.3}", number.as_f64().unwrap()));
        }
        Value::String(text) => {
            // Those of the import are in January of 2026.
            let is_time = text.ends_with('Z') && !text.starts_with("2026-01-");
            // So do the numbers of events.
            let is_event = text.split_once('.').is_some_and(|parts| {
                parts.0.parse::<u64>().is_ok() && parts.1.parse::<u64>().is_ok()
            });
            if is_time || is_event || *text == string(&key["id"]) {
                *text = "of this cluster".to_owned();
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn closed_memories_change_no_response() {
    let ((alone, key), (beside, other_key)) = (filled(false).await, filled(true).await);
    let read =
        async |cluster: &Cluster, key: &Value, (method, path, body): &(Method, String, Value)| {
            let request = cluster.bare_request(method.clone(), path);
            let authorization = format!("Bearer {}", string(&key["key"]));
            let request = request.header("Authorization", &authorization);
            let request = if body.is_null() { request } else { request.json(body) };
            let response = request.0.send().await.unwrap();
            let (status, text) = (response.status(), response.text().await.unwrap());
            // An export is one object per line.
            let parse = |line| serde_json::from_str::<Value>(line).unwrap_or_else(|_| json!(line));
            let mut body: Value = text.lines().map(parse).collect();
            comparable(&mut body, key);
            (status, body)
        };
    let reader = alone.post("/keys", &json!({"name": "reader", "role": "reader"})).await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    let tools = read(&alone, &reader, &(Method::POST, "/mcp".to_owned(), list)).await.1;
    let tools = array(&tools[0]["result"]["tools"]).iter().map(|it| string(&it["name"]).to_owned());
    let tools: Vec<_> = tools.collect();
    let (mut full, mut rejected) = (0, BTreeSet::new());
    for request in reads(&tools) {
        let without = read(&alone, &key, &request).await;
        let with = read(&beside, &other_key, &request).await;
        let (method, path, body) = &request;
        assert!(without == with, "{method} {path} {body}\n{without:?}\n{with:?}");
        match without.0.is_success() && without.1[0]["error"].is_null() {
            true => full += usize::from(without.1.to_string().contains("harbour")),
            false => drop(rejected.insert(format!("{} {path}", without.0.as_u16()))),
        }
    }
    // What agents may not read, what is closed, and a trigger that does not exist.
    let admins = |line: &String| {
        let of_admins = ["/admin/", "/analytics/", "-analytics", "/keys", "/acl", "/preview"];
        line.starts_with("403 ") && of_admins.iter().any(|part| line.contains(part))
    };
    rejected.retain(|line| !admins(line));
    let status = "403 /api/v1/agent/graph/status";
    let (closed, trigger) = ("403 /api/v1/agent/nodes?namespace=closed", memory_of(5));
    let trigger = format!("404 /api/v1/triggers/{trigger}");
    assert_eq!(Vec::from_iter(rejected), [status, closed, &trigger]);
    assert!(full > 10, "{full} responses have memories");
}
