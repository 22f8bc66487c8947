//! Bad input is a clear 4xx with a stable code, and stores nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::options;

const UNKNOWN: &str = "/agent/nodes/0192d3a4-5b6c-7def-8123-456789abcdef";

#[tokio::test]
async fn every_bad_field_is_named() {
    let cluster = options().start();
    let long = "x".repeat((64 << 10) + 1);
    let nodes = "/agent/nodes";
    let table: Vec<(Method, &str, Value, u16, &str)> = vec![
        (Method::POST, nodes, json!({}), 400, "label"),
        (Method::POST, nodes, json!({"label": ""}), 400, "label"),
        (Method::POST, nodes, json!({"label": "  "}), 400, "label"),
        (Method::POST, nodes, json!({"label": 7}), 400, "label"),
        (Method::POST, nodes, json!({"label": long}), 400, "label"),
        (Method::POST, nodes, json!({"label": "x", "memory_type": "dream"}), 400, "memory_type"),
        (Method::POST, nodes, json!({"label": "x", "memory_type": 3}), 400, "memory_type"),
        (Method::POST, nodes, json!({"label": "x", "decay_class": "soon"}), 400, "decay_class"),
        (Method::POST, nodes, json!({"label": "x", "min_heat": 1.5}), 400, "min_heat"),
        (Method::POST, nodes, json!({"label": "x", "min_heat": -0.1}), 400, "min_heat"),
        (Method::POST, nodes, json!({"label": "x", "initial_heat": "hot"}), 400, "initial_heat"),
        (Method::POST, nodes, json!({"label": "x", "heat": 1e300}), 400, "heat"),
        (Method::POST, nodes, json!({"label": "x", "is_pinned": "yes"}), 400, "is_pinned"),
        (Method::POST, nodes, json!({"label": "x", "key_points": "a"}), 400, "key_points"),
        (Method::POST, nodes, json!({"label": "x", "key_points": [1]}), 400, "key_points"),
        (
            Method::POST,
            nodes,
            json!({"label": "x", "key_points": vec!["k"; 33]}),
            400,
            "key_points",
        ),
        (Method::POST, nodes, json!({"label": "x", "namespace": "*"}), 400, "namespace"),
        (
            Method::POST,
            nodes,
            json!({"label": "x", "namespace": "n".repeat(129)}),
            400,
            "namespace",
        ),
        (Method::GET, "/agent/nodes?page=one", json!(null), 400, "page"),
        (Method::GET, "/agent/nodes?pinned=maybe", json!(null), 400, "pinned"),
        (Method::GET, "/agent/nodes?memory_type=dream", json!(null), 400, "memory_type"),
        (Method::GET, "/agent/nodes/not-an-id", json!(null), 400, "id"),
        (Method::PATCH, UNKNOWN, json!({"current_heat": 2}), 400, "current_heat"),
        (Method::PATCH, UNKNOWN, json!({"label": ""}), 400, "label"),
        (Method::PATCH, "/agent/nodes/7", json!({}), 400, "id"),
        (Method::POST, "/agent/search", json!({}), 400, "query"),
        (Method::POST, "/agent/search", json!({"query": 1}), 400, "query"),
        (Method::POST, "/agent/search", json!({"query": "x", "tier": "lukewarm"}), 400, "tier"),
        (Method::POST, "/agent/search", json!({"query": "x", "limit": "many"}), 400, "limit"),
        (Method::POST, "/agent/hot-context", json!({"limit": 1.5}), 400, "limit"),
        (Method::POST, "/agent/nodes/batch", json!({"nodes": []}), 400, "nodes"),
        (Method::POST, "/agent/nodes/batch", json!({"nodes": [7]}), 400, "nodes[0]"),
        (Method::POST, "/agent/nodes/batch", json!({"nodes": vec![json!({}); 51]}), 400, "nodes"),
    ];
    for (method, path, body, status, field) in table {
        let ask = cluster.ask(method.clone(), path);
        let ask = if body.is_null() { ask } else { ask.json(&body) };
        let answer = ask.send().await;
        let told = (answer.status.as_u16(), answer.body["field"].as_str());
        let shown: String = body.to_string().chars().take(80).collect();
        assert_eq!(told, (status, Some(field)), "{method} {path} {shown}: {}", answer.body);
        assert_eq!(answer.body["error"], "invalid_field");
        assert!(!answer.body["request_id"].as_str().unwrap().is_empty());
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
}

#[tokio::test]
async fn bad_bodies_keys_and_paths_have_codes_of_their_own() {
    let cluster = options().start();
    let create = || cluster.ask(Method::POST, "/agent/nodes");
    let told = |answer: tests::Answer| {
        (answer.status.as_u16(), answer.body["error"].as_str().unwrap_or("").to_owned())
    };
    let case = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(told(create().raw("{\"label\": ").send().await), case(400, "bad_json"));
    assert_eq!(told(create().raw("{\"heat\": NaN}").send().await), case(400, "bad_json"));
    assert_eq!(told(create().raw("[1]").send().await), case(400, "bad_json"));
    assert_eq!(told(create().raw(vec![b' '; (2 << 20) + 1]).send().await), case(413, "too_large"));
    let long_key = "k".repeat(256);
    let keyed = create().header("Idempotency-Key", &long_key).json(&json!({"label": "x"}));
    assert_eq!(told(keyed.send().await), case(400, "invalid_field"));
    for path in [UNKNOWN.to_owned(), UNKNOWN.replace("0192", "0193")] {
        assert_eq!(told(cluster.ask(Method::GET, &path).send().await), case(404, "not_found"));
        assert_eq!(told(cluster.ask(Method::DELETE, &path).send().await), case(404, "not_found"));
        let patch = cluster.ask(Method::PATCH, &path).json(&json!({"is_pinned": true}));
        assert_eq!(told(patch.send().await), case(404, "not_found"));
    }
    let nowhere = cluster.ask(Method::GET, "/agent/nowhere").send().await;
    assert_eq!(told(nowhere), case(404, "no_such_path"));
    let method = cluster.ask(Method::PUT, "/agent/nodes").send().await;
    assert_eq!(told(method), case(405, "method_not_allowed"));
    let consistency = cluster.ask(Method::GET, "/agent/nodes").header("X-Hearth-Consistency", "no");
    assert_eq!(told(consistency.send().await), case(400, "invalid_field"));
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
}

#[tokio::test]
async fn without_a_valid_key_every_endpoint_answers_401() {
    let cluster = options().start();
    let (most, last) = cluster.key().split_at(cluster.key().len() - 1);
    let wrong = format!("Bearer {most}{}", if last == "0" { "1" } else { "0" });
    let own = format!("Bearer {}", cluster.key());
    for (method, path) in [
        (Method::POST, "/api/v1/agent/nodes"),
        (Method::GET, "/api/v1/agent/nodes"),
        (Method::GET, "/api/v1/agent/nodes/x"),
        (Method::PATCH, "/api/v1/agent/nodes/x"),
        (Method::DELETE, "/api/v1/agent/nodes/x"),
        (Method::POST, "/api/v1/agent/nodes/batch"),
        (Method::POST, "/api/v1/agent/search"),
        (Method::POST, "/api/v1/agent/hot-context"),
        (Method::GET, "/api/v1/agent/hot_nodes"),
    ] {
        let bare = cluster.ask_bare(method.clone(), path).send().await;
        assert_eq!(bare.status, 401, "{method} {path}");
        assert_eq!(bare.headers["www-authenticate"], "Bearer");
        for bad in ["Bearer", "Bearer sk-", "Basic eDp5", &wrong, &own.replace("Bearer", "Token")] {
            let ask = cluster.ask_bare(method.clone(), path).header("Authorization", bad);
            assert_eq!(ask.send().await.status, 401, "{method} {path} {bad}");
        }
    }
}

/// curl's HTTP/2 gives up on an answer that overtakes its body, unless the body is read.
#[tokio::test]
async fn a_refusal_before_the_body_is_read_reaches_the_client() {
    let cluster = options().start();
    let body = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(body.path(), vec![b'x'; 3 << 20]).unwrap();
    let data = format!("@{}", body.path().display());
    for (method, path, key, expected) in [
        ("POST", "agent/nodes", "Authorization: Bearer wrong".to_owned(), "401"),
        ("PUT", "agent/nodes", format!("Authorization: Bearer {}", cluster.key()), "405"),
        ("POST", "nowhere", format!("Authorization: Bearer {}", cluster.key()), "404"),
        ("POST", "agent/nodes", format!("Authorization: Bearer {}", cluster.key()), "413"),
    ] {
        for round in 0..5 {
            let curl = std::process::Command::new("curl")
                .args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"])
                .args([
                    "--max-time",
                    "20",
                    "--http2",
                    "--cacert",
                    cluster.info["ca"].as_str().unwrap(),
                ])
                .args(["--request", method, "--header", &key, "--data-binary", &data])
                .arg(format!("{}/api/v1/{path}", cluster.url()))
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&curl.stdout).into_owned();
            assert!(
                curl.status.success() && told == expected,
                "{method} {path} {round}: {told} {curl:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_header_namespace_is_checked_like_one_in_the_body() {
    let cluster = options().start();
    let create = |namespace: &str, key: &str| {
        let ask = cluster.ask(Method::POST, "/agent/nodes").header("X-Namespace", namespace);
        ask.header("Idempotency-Key", key).json(&json!({"label": "x"})).send()
    };
    assert_eq!(create("*", "a").await.status, 400);
    assert_eq!(create("one", "b").await.status, 201);
    assert_eq!(create("two", "b").await.status, 422, "it would do something else");
    let odd = reqwest::header::HeaderValue::from_bytes(b"m\xfcnchen").unwrap();
    let url = format!("{}/api/v1/agent/nodes", cluster.url());
    let ask = cluster.client().post(url).bearer_auth(cluster.key()).header("X-Namespace", odd);
    assert_eq!(ask.body("{\"label\": \"x\"}").send().await.unwrap().status(), 400);
    let odd = cluster.ask(Method::GET, "/agent/nodes/%ff").send().await;
    assert_eq!((odd.status.as_u16(), &odd.body["field"]), (400, &json!("id")));
}
