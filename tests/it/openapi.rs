//! docs/openapi.json and docs/openapi-operator.json describe the interface: they equal what a node says of
//! itself, their examples work, and schemathesis tests each operation of the former.

use std::process::Command;

use super::*;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

#[tokio::test]
async fn committed_document_equals_the_served_one() {
    let cluster = options().start();
    let served = cluster.bare_request(Method::GET, "/api/v1/openapi.json").send().await.ok();
    assert!(served == Document::committed().0, "run: hearth openapi > docs/openapi.json");
    assert_eq!(served["openapi"], "3.1.0");
}

#[test]
fn committed_document_of_operators_is_generated() {
    let output = Command::new(BINARY).args(["openapi", "--operator"]).output().unwrap();
    let committed = include_str!("../../docs/openapi-operator.json");
    let is_same = output.stdout == committed.as_bytes();
    assert!(is_same, "run: hearth openapi --operator > docs/openapi-operator.json");
}

#[test]
fn references_of_the_documents_resolve() {
    for document in [Document::committed(), Document::committed_operator()] {
        let text = document.0.to_string();
        let references = text.split("\"$ref\":\"#").skip(1);
        for reference in references.filter_map(|rest| rest.split('"').next()) {
            assert!(document.0.pointer(reference).is_some(), "{reference}");
        }
        for (method, path, operation) in document.operations() {
            let body = document.body(operation);
            let has_example = !document.resolved(body)["example"].is_null();
            assert_eq!(body.is_null(), !has_example, "{method} {path}");
            let name = string(&operation["operationId"]);
            assert!(name.contains('_'), "{name} is no verb with a noun");
        }
    }
}

/// idempotency.rs sends the examples of writes.
#[tokio::test]
async fn examples_of_reads_and_keys_are_accepted() {
    let cluster = options().start();
    let document = Document::committed();
    let memories = cluster.store_each((0..2).map(labelled)).await;
    let ids = [memories[0].as_str(), memories[1].as_str()];
    let key = cluster.post("/keys", &json!({"name": "an agent"})).await;
    let mut sent = 0;
    for (method, path, operation) in document.operations() {
        let is_sent = operation["responses"].get("422").is_none();
        let body = document.example(operation, &ids);
        if is_sent && !body.is_null() {
            let path = path.strip_prefix("/api/v1").unwrap().replace("{id}", id(&key));
            let response = cluster.request(method, &path).json(&body).send().await;
            assert!(response.status.is_success(), "{path}: {}", response.body);
            sent += 1;
        }
    }
    assert!(sent > 8, "{sent}");
}

#[tokio::test]
async fn reference_page_loads_only_from_the_node() {
    let cluster = options().start();
    let page = format!("{}/docs/", cluster.url());
    let text = async |path: &str| {
        let response = cluster.client.get(format!("{page}{path}")).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.text().await.unwrap()
    };
    let html = text("").await;
    assert!(!html.contains("//"), "it loads nothing from other servers: {html}");
    for part in html.split('"').filter(|part| part.ends_with(".js") || part.ends_with(".css")) {
        text(part).await;
    }
    let initializer = text("swagger-initializer.js").await;
    assert!(initializer.contains("/api/v1/openapi.json"));
    let missing = cluster.bare_request(Method::GET, "/docs/nothing").send().await;
    missing.assert_error(404, "no_such_path");
    let is_local = initializer.contains(r#""validatorUrl": "none""#);
    assert!(is_local, "it contacts no other server: {initializer}");
}

#[test]
fn documentation_lists_every_path_and_its_test() {
    let table = include_str!("../../docs/api.md");
    for (_, path, _) in Document::committed().operations() {
        let path = path.strip_prefix("/api/v1").unwrap_or(path);
        let ends = [' ', '`', '?'].map(|end| format!("{path}{end}"));
        assert!(ends.iter().any(|path| table.contains(path)), "{path} is not in docs/api.md");
    }
    let cells = table.lines().filter(|line| line.starts_with("| `")).filter_map(|line| {
        line.trim_end_matches(" |").rsplit("| ").next()?.strip_prefix('`')?.strip_suffix(".rs`")
    });
    let tests: Vec<_> = cells.collect();
    assert!(tests.len() > 25, "{tests:?}");
    for test in tests {
        let file = format!("{}/it/{test}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(std::path::Path::new(&file).exists(), "{file}");
    }
}

#[tokio::test]
async fn responses_match_the_document_for_any_request() {
    // It sends many wrong keys, whose delay keys.rs tests.
    let cluster = options().env("FAILPOINTS", "authentication-delay=return").start();
    let mut config = include_str!("../clients/schemathesis.toml").to_owned();
    let memories = related_memories(&cluster).await;
    config += &format!("\n[dictionaries]\nmemories.values = {memories:?}\n");
    config += "relations.values = [\"related_to\"]\n";
    let rules = (0..8).map(|number| {
        json!({ "agent_id": "*", "namespace": format!("namespace-{number}"), "policy": "deny" })
    });
    let rules = cluster.post_each("/namespaces/acl", rules).await;
    config += &format!("rules.values = {rules:?}\n");
    let actions = ["notify", "boost", "pin", "tag", "deprecate"].into_iter();
    let triggers = actions.map(|action| json!({ "event": "on_decay", "action": action }));
    let triggers = cluster.post_each("/triggers", triggers).await;
    config += &format!("triggers.values = {triggers:?}\n");
    let keys = (0..8).map(|number| json!({ "name": format!("key {number}") }));
    let keys = cluster.post_each("/keys", keys).await;
    config += &format!("keys.values = {keys:?}\n");
    let file = cluster.folder().join("schemathesis.toml");
    std::fs::write(&file, config).unwrap();
    // The others send each value of each field in turn, for minutes.
    let phases = std::env::var("HEARTH_PHASES").unwrap_or_else(|_| "fuzzing".into());
    let ran = Command::new(installed("schemathesis"))
        .arg("--config-file")
        .arg(&file)
        .args(["run", DOCUMENT, "--url", cluster.url(), "--tls-verify"])
        .arg(cluster.folder().join("ca.pem"))
        .args(["--header", &format!("Authorization: Bearer {}", cluster.key)])
        .args(["--max-examples", &setting("HEARTH_EXAMPLES", 3).to_string()])
        .args(["--phases", &phases])
        .args(["--seed", "7", "--no-color"])
        .current_dir(cluster.folder())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    // The event stream has no end, and the body of an import is no JSON: both are excluded.
    let tested = format!("Tested: {}\n", Document::committed().operations().count() - 2);
    assert!(out.contains(&tested), "not all were tested: {out}");
}

/// Locked memories, all related to each other.
async fn related_memories(cluster: &Cluster) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for number in 0..8 {
        let id = cluster.store(&json!({ "label": format!("a memory, number {number}") })).await;
        cluster.patch(&format!("/agent/nodes/{id}"), &json!({ "is_locked": true })).await;
        for other in &ids {
            let edge = json!({ "source_id": other, "target_id": id });
            cluster.post("/agent/graph/relate", &edge).await;
        }
        ids.push(id);
    }
    ids
}
