//! What a tenant holds goes from one cluster to another as it is: exports are of one moment and complete,
//! imports add what is not there, once.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::*;

/// A command of a client, with the key and the nodes of a cluster.
pub(super) fn command(cluster: &Cluster, arguments: &[&str]) -> std::process::Command {
    let urls: Vec<_> = cluster.nodes().map(Node::url).collect();
    let mut command = std::process::Command::new(BINARY);
    command.args(arguments).env("HEARTH_URL", urls.join(",")).env("HEARTH_API_KEY", &cluster.key);
    command.env("HEARTH_CA", cluster.folder().join("ca.pem"));
    command.env("HEARTH_PROFILES", cluster.folder().join("profiles.toml"));
    command
}

/// Runs it. Returns whether it succeeded, and its output.
fn hearth(cluster: &Cluster, arguments: &[&str]) -> (bool, String) {
    let output = tokio::task::block_in_place(|| command(cluster, arguments).output().unwrap());
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

fn export(cluster: &Cluster, options: &[&str]) -> PathBuf {
    let file = cluster.folder().join("export.jsonl");
    let (succeeded, text) =
        hearth(cluster, &[&["export", file.to_str().unwrap()], options].concat());
    assert!(succeeded, "{text}");
    file
}

fn import(cluster: &Cluster, file: &Path) -> String {
    let (succeeded, text) = hearth(cluster, &["import", file.to_str().unwrap()]);
    assert!(succeeded, "{text}");
    text.trim().to_owned()
}

/// The lines of an export without its header.
fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Memories in many states, edges and triggers.
async fn fill(cluster: &Cluster) -> Vec<String> {
    let ids = cluster
        .store_each([
            json!({"label": "The user drinks tea\nand \"coffee\" 京都", "memory_type": "preference",
                "tags": ["drinks"], "metadata": {"source": "wiki", "n": 1.5}, "key_points": ["tea"]}),
            json!({"label": "green tea", "namespace": "other", "heat": 0.7, "key_points": ["tea"]}),
            json!({"label": "an old fact", "memory_type": "fact", "min_heat": 0.3, "heat": 0.123456}),
            json!({"label": "a moment", "memory_type": "moment", "decay_class": "volatile"}),
            json!({"label": "wrong", "is_pinned": true}),
        ])
        .await;
    let newer = json!({"label": "a newer fact", "memory_type": "fact", "supersedes": ids[2]});
    let newer = cluster.store(&newer).await;
    let path = |id: &str| format!("/agent/nodes/{id}");
    cluster.patch(&path(&ids[0]), &json!({"is_locked": true, "current_heat": 0.9})).await;
    cluster.post("/feedback", &json!({"node_id": ids[4], "signal": "wrong"})).await;
    cluster.post("/feedback", &json!({"node_id": ids[3], "signal": "relevant"})).await;
    let edge = json!({"source_id": ids[0], "target_id": ids[3], "relation": "near"});
    cluster.post("/agent/graph/relate", &edge).await;
    let trigger = json!({"event": "on_store", "action": "notify", "name": "watch",
        "action_config": {"message": "{label}"}, "filter_heat_above": 0.5, "max_fires": 9});
    create_trigger(cluster, &trigger).await;
    cluster.store(&json!({"label": "it fires"})).await;
    cluster.post("/agent/search", &json!({"query": "green tea"})).await;
    let recalled = async || cluster.get(&path(&ids[1])).await["recall_count"].take();
    eventually("the recall is counted", recalled, |count| *count == 1).await;
    [ids, vec![newer]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn round_trip_is_identical() {
    let from = options().nodes(3).start();
    fill(&from).await;
    converged(&from).await;
    for options in [&[][..], &["--vectors"]] {
        let file = export(&from, options);
        let to = self::options().start();
        assert_eq!(import(&to, &file), "10 created, 0 exist already, 0 rejected.");
        let before = lines(&file);
        let again = export(&to, options);
        assert_eq!(lines(&again), before, "but for the header");
        assert_eq!(import(&to, &file), "0 created, 10 exist already, 0 rejected.");
        let (_, dry) = hearth(&to, &["import", file.to_str().unwrap(), "--dry-run"]);
        assert_eq!(dry.trim(), "0 would be created, 10 exist already, 0 rejected.");
        let (_, dry) = hearth(&to, &["import", file.to_str().unwrap(), "--dry-run", "--json"]);
        let expected = json!({"created": 0, "present": 10, "merged": 0, "skipped": {}, "rejected": 0,
            "errors": []});
        assert_eq!(serde_json::from_str::<Value>(&dry).unwrap(), expected);
        // No trigger fires for what is imported.
        let history = to.get("/triggers/history").await;
        assert_eq!(array(&history["items"]).len(), 0);
        let found = to.post("/agent/search", &json!({"query": "green tea", "limit": 1})).await;
        assert_eq!(found[0]["label"], "green tea");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exports_of_a_namespace_hold_nothing_else() {
    let cluster = options().start();
    fill(&cluster).await;
    let other = lines(&export(&cluster, &["-n", "other"]));
    assert_eq!(other.len(), 2, "{other:?}");
    assert!(other[0].contains("green tea"));
    let key = json!({"name": "bound", "role": "agent", "namespaces": ["other"]});
    let key = cluster.post("/keys", &key).await;
    let response = cluster.client.get(format!("{}/api/v1/export", cluster.url()));
    let response = response.bearer_auth(string(&key["key"])).send().await.unwrap();
    let text = response.text().await.unwrap();
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), other, "what the key may read");
    let response = cluster.client.post(format!("{}/api/v1/import", cluster.url()));
    let response = response.bearer_auth(string(&key["key"])).body("").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    let folder = cluster.folder().join("markdown");
    let arguments = ["export", folder.to_str().unwrap(), "--format", "markdown"];
    let (succeeded, text) = hearth(&cluster, &arguments);
    assert!(succeeded, "{text}");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(files.len(), 7);
    let texts = files.iter().map(|file| std::fs::read_to_string(file.path()).unwrap());
    let tea = texts.filter(|text| text.ends_with("---\n\ngreen tea\n")).count();
    assert_eq!(tea, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_cut_files_are_refused() {
    let cluster = options().start();
    fill(&cluster).await;
    let file = export(&cluster, &[]);
    let text = std::fs::read_to_string(&file).unwrap();
    let end = text.trim_end().rfind('\n').unwrap();
    let damaged = [
        (text.replacen("green tea", "green tee", 1), "checksum"),
        (text[..=end].to_owned(), "complete"),
        (text.lines().skip(1).map(|line| format!("{line}\n")).collect(), "complete"),
    ];
    let to = options().start();
    for (content, reason) in damaged {
        std::fs::write(&file, content).unwrap();
        let (succeeded, text) = hearth(&to, &["import", file.to_str().unwrap()]);
        assert!(!succeeded && text.contains(reason), "{text}");
    }
    assert_eq!(to.metric("hearth_memories").await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_lines_are_named_and_limits_hold() {
    let cluster = options().start();
    let tenant = create_tenant(&cluster, json!({"name": "small", "limits": {"memories": 2}})).await;
    let line = |number: u8, extra: &str| {
        let id = format!("00000000-0000-8000-8000-0000000000{number:02}");
        format!("{{\"memory\": {{\"id\": \"{id}\", \"label\": \"memory {number}\"{extra}}}}}")
    };
    let body = [
        line(1, ""),
        line(2, ", \"memory_type\": \"opinion\""),
        "no JSON".to_owned(),
        String::new(),
        line(3, ", \"heat\": 0.5, \"created_at\": \"2020-01-02T03:04:05Z\""),
        line(4, ""),
        "{\"edge\": {\"source_id\": \"00000000-0000-8000-8000-000000000001\", \"target_id\": \
         \"00000000-0000-8000-8000-000000000009\", \"relation\": \"x\"}}"
            .to_owned(),
    ]
    .join("\n");
    let post = async |query: &str| {
        let request = cluster.client.post(format!("{}/api/v1/import{query}", cluster.url()));
        let request = request.bearer_auth(string(&tenant["key"])).body(body.clone());
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.json::<Value>().await.unwrap()
    };
    let dry = post("?dry_run=true").await;
    assert_fields(&dry, json!({"created": 4, "present": 0, "rejected": 2}));
    let done = post("").await;
    assert_fields(&done, json!({"created": 2, "present": 0, "rejected": 4}));
    let found = array(&done["errors"]).iter();
    let found: Vec<_> =
        found.map(|error| (error["line"].clone(), string(&error["error"]))).collect();
    let expected = [
        (json!(2), "invalid_field"),
        (json!(3), "bad_json"),
        (json!(6), "storage_limit_reached"),
        (json!(7), "not_found"),
    ];
    assert_eq!(found, expected);
    let again = post("").await;
    assert_fields(&again, json!({"created": 0, "present": 2, "rejected": 4}));
    let list = cluster.client.get(format!("{}/api/v1/agent/nodes?search=3", cluster.url()));
    let list = list.bearer_auth(string(&tenant["key"])).send().await.unwrap();
    let list: Value = list.json().await.unwrap();
    assert_eq!(list["items"][0]["created_at"], "2020-01-02T03:04:05Z");
}

/// A file with an export of 600 memories.
async fn exported_memories(from: &Cluster) -> PathBuf {
    let labels = (0..600).map(|number| format!("memory {number} of the import"));
    let nodes: Vec<_> = labels.map(|label| json!({"label": label})).collect();
    for part in nodes.chunks(50) {
        from.post("/agent/nodes/batch", &json!({"nodes": part})).await;
    }
    export(from, &[])
}

/// Imports a file, and returns the process once `node` has a part of it.
async fn begun_import(to: &Cluster, node: &Node, file: &Path) -> std::process::Child {
    let mut import = command(to, &["import", file.to_str().unwrap()]);
    let child = import.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let stored = async || node.metric("hearth_memories").await;
    eventually("the import has begun", stored, |stored| *stored > 0.0).await;
    child
}

async fn assert_imported(to: &Cluster, node: &Node, file: &Path) {
    import(to, file);
    let list = node.get("/agent/nodes?page_size=1&consistency=linearizable").await;
    assert_eq!(list["total"], 600);
    assert_eq!(lines(&export(to, &[])).len(), lines(file).len());
}

#[tokio::test(flavor = "multi_thread")]
async fn imports_continue_after_the_leader_dies() {
    let from = options().start();
    let file = exported_memories(&from).await;
    let to = options().nodes(3).start();
    let [leader, survivor, _] = to.leader_first().await;
    let mut import = begun_import(&to, survivor, &file).await;
    leader.kill();
    let ended = tokio::task::block_in_place(|| import.wait().unwrap());
    assert!(ended.success(), "{ended}");
    assert_imported(&to, survivor, &file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_imports_are_completed_by_another() {
    let from = options().start();
    let file = exported_memories(&from).await;
    let to = options().start();
    let mut import = begun_import(&to, to.at(0), &file).await;
    import.kill().unwrap();
    import.wait().unwrap();
    let stored = to.get("/agent/nodes?page_size=1").await;
    assert!(
        (1..600).contains(&stored["total"].as_u64().unwrap()),
        "killed in the middle: {stored}"
    );
    assert_imported(&to, to.at(0), &file).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_export_no_triggers() {
    let cluster = options().start();
    fill(&cluster).await;
    let reader = cluster.post("/keys", &json!({"name": "reader", "role": "reader"})).await;
    let export = async |key: &str| {
        let request = cluster.client.get(format!("{}/api/v1/export", cluster.url()));
        let lines = request.bearer_auth(key).send().await.unwrap().text().await.unwrap();
        let end: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        (end["end"]["memories"].clone(), end["end"]["triggers"].clone())
    };
    assert_eq!(export(&cluster.key).await, (json!(7), json!(1)));
    // A reader does not see the paths of webhooks.
    assert_eq!(export(string(&reader["key"])).await, (json!(7), json!(0)));
}

#[tokio::test]
async fn exports_end_with_their_key() {
    let cluster = options().start();
    // More than all buffers between the node and its client.
    for number in 0..300 {
        let label = format!("memory {number} {}", "x".repeat(60_000));
        cluster.store(&json!({"label": label, "on_duplicate": "allow"})).await;
    }
    let key = cluster.post("/keys", &json!({"name": "leaked", "role": "reader"})).await;
    let request = cluster.client.get(format!("{}/api/v1/export", cluster.url()));
    let mut response = request.bearer_auth(string(&key["key"])).send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    cluster.delete(&format!("/keys/{}", string(&key["id"]))).await;
    let mut rest = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        rest.extend_from_slice(&chunk);
    }
    let last = rest.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap();
    assert!(!last.starts_with(b"{\"end\""), "the export went on");
}

#[tokio::test]
async fn imports_have_a_limit_of_lines() {
    let cluster = options().start();
    let line = |number: usize| {
        let id = format!("00000000-0000-8000-8000-{number:012}");
        format!(
            "{{\"edge\": {{\"source_id\": \"{id}\", \"target_id\": \"{id}\", \"relation\": \"x\"}}}}\n"
        )
    };
    let post = async |count: usize| {
        let body: String = (0..count).map(line).collect();
        let request = cluster.client.post(format!("{}/api/v1/import?dry_run=true", cluster.url()));
        Request(request.bearer_auth(&cluster.key).body(body)).send().await
    };
    assert_eq!(post(1_000).await.body["created"], 1_000);
    let rejected = post(1_001).await;
    assert_eq!((rejected.status.as_u16(), &rejected.body["error"]), (413, &json!("too_large")));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_products_are_imported_once() {
    let cluster = options().env("HEARTH__MCP__PROFILE", "knowledge-graph").start();
    let write = |name: &str, content: String| {
        let path = cluster.folder().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let graph = [
        json!({"type": "entity", "name": "Alice", "entityType": "person", "observations": ["has a dog", "sings"]}),
        json!({"type": "entity", "name": "Bob", "entityType": "person", "observations": []}),
        json!({"type": "relation", "from": "Alice", "to": "Bob", "relationType": "knows"}),
        json!({"type": "relation", "from": "Alice", "to": "Alice", "relationType": "trusts"}),
    ];
    let graph = write("memory.jsonl", graph.map(|line| format!("{line}\n")).concat());
    let mem0 = json!({"results": [{"id": "1", "memory": "likes tea", "user_id": "anna",
        "created_at": "2024-07-01T12:00:00Z"}, {"id": "2", "memory": "likes coffee"}]});
    let mem0 = write("mem0.json", mem0.to_string());
    let notes = cluster.folder().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("one.md"), "---\ntitle: One\n---\n\n# A note\n").unwrap();
    let notes = notes.display().to_string();
    for (source, file, memories) in
        [("knowledge-graph", &graph, 6), ("mem0", &mem0, 2), ("markdown", &notes, 1)]
    {
        let run = |options: &[&str]| {
            hearth(&cluster, &[&["import", file, "--from", source], options].concat())
        };
        let (succeeded, text) = run(&["--dry-run"]);
        assert!(succeeded && text.starts_with(&format!("{memories} would be created")), "{text}");
        let (succeeded, text) = run(&[]);
        assert!(succeeded && text.starts_with(&format!("{memories} created, 0 exist")), "{text}");
        let (succeeded, text) = run(&[]);
        assert!(succeeded && text.starts_with(&format!("0 created, {memories} exist")), "{text}");
    }
    let anna = cluster.get("/agent/nodes?namespace=anna").await;
    assert_fields(
        &anna["items"][0],
        json!({"label": "likes tea", "created_at": "2024-07-01T12:00:00Z"}),
    );
    // The tools of the knowledge graph find what was imported, and add to it.
    let call = async |name: &str, arguments: Value| {
        let request = cluster.client.post(format!("{}/mcp", cluster.url()));
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let response = Request(request.bearer_auth(&cluster.key)).json(&body).send().await;
        response.body["result"]["structuredContent"].clone()
    };
    let again = json!({"observations": [{"entityName": "Alice", "contents": ["sings", "reads"]}]});
    let added = call("add_observations", again).await;
    assert_eq!(added["results"][0]["addedObservations"], json!(["reads"]));
    let graph = call("read_graph", json!({})).await;
    let expected = json!(["has a dog", "sings", "reads"]);
    assert_eq!(graph["entities"][0]["observations"], expected, "{graph}");
    assert_eq!(array(&graph["relations"]).len(), 2);
}
