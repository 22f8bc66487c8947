//! docs/openapi.json describes the interface: it equals the served document, and schemathesis
//! tests each of its operations.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tests::{Cluster, Document, id, installed};

use crate::options;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");

#[tokio::test]
async fn committed_document_equals_the_served_one() {
    let cluster = options().start();
    let served = cluster.bare_request(Method::GET, "/api/v1/openapi.json").send().await.ok();
    let committed: Value =
        serde_json::from_str(&std::fs::read_to_string(DOCUMENT).unwrap()).unwrap();
    assert!(served == committed, "run: hearth openapi > docs/openapi.json");
    assert_eq!(served["openapi"], "3.1.0");
}

#[tokio::test]
async fn reference_page_loads_only_from_the_node() {
    let cluster = options().start();
    let page = format!("{}/docs/", cluster.url());
    let text = async |path: &str| {
        let response = cluster.client().get(format!("{page}{path}")).send().await.unwrap();
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
    assert!(
        initializer.contains(r#""validatorUrl": "none""#),
        "it contacts no other server: {initializer}"
    );
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
    let cluster = options().start();
    let mut config = include_str!("../clients/schemathesis.toml").to_owned();
    let memories = related_memories(&cluster).await;
    config += &format!("\n[dictionaries]\nmemories.values = {memories:?}\n");
    config += "relations.values = [\"related_to\"]\n";
    config += &format!("rules.values = {:?}\n", rules(&cluster).await);
    config += &format!("triggers.values = {:?}\n", triggers(&cluster).await);
    let file = cluster.folder().join("schemathesis.toml");
    std::fs::write(&file, config).unwrap();
    let ran = Command::new(installed("schemathesis"))
        .arg("--config-file")
        .arg(&file)
        .args(["run", DOCUMENT, "--url", cluster.url(), "--tls-verify"])
        .arg(cluster.folder().join("ca.pem"))
        .args(["--header", &format!("Authorization: Bearer {}", cluster.key())])
        .args(["--max-examples", "20", "--seed", "7", "--no-color"])
        .current_dir(cluster.folder())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{err}");
    let document: Value =
        serde_json::from_str(&std::fs::read_to_string(DOCUMENT).unwrap()).unwrap();
    let paths = document["paths"].as_object().unwrap().values();
    let operations: usize = paths.map(|path| path.as_object().unwrap().len()).sum();
    // The event stream has no end and is excluded.
    assert!(out.contains(&format!("Tested: {}\n", operations - 1)), "not all were tested: {out}");
}

/// Locked memories, all related to each other.
async fn related_memories(cluster: &Cluster) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for number in 0..8 {
        let body = json!({ "label": format!("a memory, number {number}") });
        let memory = cluster.post("/agent/nodes", &body).await;
        let id = id(&memory).to_owned();
        let lock = cluster.request(Method::PATCH, &format!("/agent/nodes/{id}"));
        lock.json(&json!({ "is_locked": true })).send().await.ok();
        for other in &ids {
            let edge = json!({ "source_id": other, "target_id": id });
            cluster.post("/agent/graph/relate", &edge).await;
        }
        ids.push(id);
    }
    ids
}

async fn rules(cluster: &Cluster) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..8 {
        let rule = json!({ "agent_id": "*", "namespace": format!("namespace-{number}"), "policy": "deny" });
        let rule = cluster.post("/namespaces/acl", &rule).await;
        ids.push(id(&rule).to_owned());
    }
    ids
}

async fn triggers(cluster: &Cluster) -> Vec<String> {
    let mut ids = Vec::new();
    for action in ["notify", "boost", "pin", "tag", "deprecate"] {
        let trigger = json!({ "event": "on_decay", "action": action });
        let trigger = cluster.post("/triggers", &trigger).await;
        ids.push(id(&trigger).to_owned());
    }
    ids
}
