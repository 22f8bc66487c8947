//! Invalid input gets a 4xx with a stable error code, and stores nothing.

use reqwest::Method;
use serde_json::{Value, json};
use tests::string;

use crate::options;

const UNKNOWN: &str = "/agent/nodes/0192d3a4-5b6c-7def-8123-456789abcdef";

#[tokio::test]
async fn invalid_fields_are_named() {
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
        (Method::POST, nodes, json!({"label": "x", "key_points": [1]}), 400, "key_points[0]"),
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
        let request = cluster.request(method.clone(), path);
        let request = if body.is_null() { request } else { request.json(&body) };
        let response = request.send().await;
        let found = (response.status.as_u16(), response.body["field"].as_str());
        let excerpt: String = body.to_string().chars().take(80).collect();
        assert_eq!(found, (status, Some(field)), "{method} {path} {excerpt}: {}", response.body);
        assert_eq!(response.body["error"], "invalid_field");
        assert!(!string(&response.body["request_id"]).is_empty());
    }
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
}

#[tokio::test]
async fn invalid_bodies_headers_and_paths_have_codes() {
    let cluster = options().start();
    let create = || cluster.request(Method::POST, "/agent/nodes");
    let error = |response: tests::Response| {
        (response.status.as_u16(), response.body["error"].as_str().unwrap_or("").to_owned())
    };
    let case = |status: u16, code: &str| (status, code.to_owned());
    assert_eq!(error(create().raw("{\"label\": ").send().await), case(400, "bad_json"));
    assert_eq!(error(create().raw("{\"heat\": NaN}").send().await), case(400, "bad_json"));
    assert_eq!(error(create().raw("[1]").send().await), case(400, "bad_json"));
    assert_eq!(error(create().raw(vec![b' '; (2 << 20) + 1]).send().await), case(413, "too_large"));
    let long_key = "k".repeat(256);
    let keyed = create().header("Idempotency-Key", &long_key).json(&json!({"label": "x"}));
    assert_eq!(error(keyed.send().await), case(400, "invalid_field"));
    for path in [UNKNOWN.to_owned(), UNKNOWN.replace("0192", "0193")] {
        assert_eq!(error(cluster.request(Method::GET, &path).send().await), case(404, "not_found"));
        assert_eq!(
            error(cluster.request(Method::DELETE, &path).send().await),
            case(404, "not_found")
        );
        let patch = cluster.request(Method::PATCH, &path).json(&json!({"is_pinned": true}));
        assert_eq!(error(patch.send().await), case(404, "not_found"));
    }
    let nowhere = cluster.request(Method::GET, "/agent/nowhere").send().await;
    assert_eq!(error(nowhere), case(404, "no_such_path"));
    let method = cluster.request(Method::PUT, "/agent/nodes").send().await;
    assert_eq!(error(method), case(405, "method_not_allowed"));
    let consistency =
        cluster.request(Method::GET, "/agent/nodes").header("X-Hearth-Consistency", "no");
    assert_eq!(error(consistency.send().await), case(400, "invalid_field"));
    assert_eq!(cluster.metric("hearth_memories").await, 0.0, "nothing was stored");
}

#[tokio::test]
async fn endpoints_require_a_valid_key() {
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
        let bare = cluster.bare_request(method.clone(), path).send().await;
        assert_eq!(bare.status, 401, "{method} {path}");
        assert_eq!(bare.headers["www-authenticate"], "Bearer");
        for bad in ["Bearer", "Bearer sk-", "Basic eDp5", &wrong, &own.replace("Bearer", "Token")] {
            let request = cluster.bare_request(method.clone(), path).header("Authorization", bad);
            assert_eq!(request.send().await.status, 401, "{method} {path} {bad}");
        }
    }
}

/// curl fails over HTTP/2 when the response comes before its body is sent, unless the server
/// reads the body.
#[tokio::test]
async fn early_rejections_reach_the_client() {
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
                .args(["--max-time", "20", "--http2", "--cacert", string(&cluster.info["ca"])])
                .args(["--request", method, "--header", &key, "--data-binary", &data])
                .arg(format!("{}/api/v1/{path}", cluster.url()))
                .output()
                .unwrap();
            let code = String::from_utf8_lossy(&curl.stdout).into_owned();
            assert!(
                curl.status.success() && code == expected,
                "{method} {path} {round}: {code} {curl:?}"
            );
        }
    }
}

#[tokio::test]
async fn namespace_header_is_validated_like_the_body() {
    let cluster = options().start();
    let create = |namespace: &str, key: &str| {
        let request =
            cluster.request(Method::POST, "/agent/nodes").header("X-Namespace", namespace);
        request.header("Idempotency-Key", key).json(&json!({"label": "x"})).send()
    };
    assert_eq!(create("*", "a").await.status, 400);
    assert_eq!(create("one", "b").await.status, 201);
    assert_eq!(create("two", "b").await.status, 422, "another request");
    let odd = reqwest::header::HeaderValue::from_bytes(b"m\xfcnchen").unwrap();
    let url = format!("{}/api/v1/agent/nodes", cluster.url());
    let request = cluster.client().post(url).bearer_auth(cluster.key()).header("X-Namespace", odd);
    assert_eq!(request.body("{\"label\": \"x\"}").send().await.unwrap().status(), 400);
    let odd = cluster.request(Method::GET, "/agent/nodes/%ff").send().await;
    odd.assert_invalid("id");
}
